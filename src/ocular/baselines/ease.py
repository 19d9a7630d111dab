"""EASE (H. Steck: Embarrassingly shallow autoencoders for sparse data, WWW 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from ocular.baselines.base import Baseline, Scores, blocks
from ocular.errors import ConfigError, FitError
from ocular.validation import check_number

MAX_ITEMS = 30_000
MAX_DOUBLE_ITEMS = 5_000  # up to here float64 costs no noticeable time


class EASE(Baseline):
    """
    Scores X·B, where B minimises ‖X − X·B‖² + λ‖B‖² with a diagonal of zeros:

        B = I − P / diag(P),  P = (XᵀX + λI)⁻¹

    Time grows with the third power of the items, memory with the second.

    Parameters
    ----------
    regularization : float
        λ. Steck's range is 100 to 1000; data with few purchases per item need less.

    Attributes
    ----------
    weights_ : float32 array (n_items, n_items)
        B: weights_[i, j] is what having i adds to the score of j.
    """

    def __init__(self, regularization: float = 500.0) -> None:
        self.regularization = regularization

    def check(self, shape: tuple[int, int]) -> None:
        check_number(self.regularization, "regularization", above=0)
        n_items = shape[1]
        if n_items > MAX_ITEMS:
            raise ConfigError(
                f"expected at most {MAX_ITEMS:,} items for EASE, got {n_items:,}, whose weights take "
                f"{4 * n_items**2 / 1e9:.1f} GB of memory; use item-knn or wals"
            )

    def _fit(self, matrix: sp.csr_array) -> None:
        n_items = matrix.shape[1]
        dtype = np.float64 if n_items <= MAX_DOUBLE_ITEMS else np.float32
        P = _inverse(_gram(matrix, dtype, self.regularization))
        P /= -np.diag(P).copy()  # by columns
        np.fill_diagonal(P, 0.0)
        self.weights_: Scores = P.astype(np.float32, copy=False)

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:  # noqa: ARG002  rows say it all
        return np.asarray(rows @ self.weights_)


def _gram(matrix: sp.csr_array, dtype: Any, regularization: float) -> NDArray[Any]:
    """Return XᵀX + λI, block by block: a sparse product would take several times the memory."""
    n_items, by_item = matrix.shape[1], matrix.T.tocsr()
    gram = np.empty((n_items, n_items), dtype=dtype)
    for block in blocks(n_items, n_items):
        gram[block] = (by_item[block] @ matrix).toarray()
    gram[np.diag_indices(n_items)] += regularization
    return gram


def _inverse(gram: NDArray[Any]) -> NDArray[Any]:
    """Invert a positive definite matrix in its own memory: scipy.linalg's inv and cho_solve need a second one."""
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (gram,))
    # LAPACK counts by columns: the transpose, which is the same matrix, needs no copy
    factor, failed = potrf(gram.T, lower=True, overwrite_a=True, clean=False)
    if not failed:
        inverse, failed = potri(factor, lower=True, overwrite_c=True)
    if failed:
        raise FitError("expected items that differ enough, got XᵀX + λI without an inverse; increase regularization")
    P: NDArray[Any] = inverse.T  # only its upper triangle is filled
    for block in blocks(len(P), len(P)):
        corner = P[block, block]
        P[block, block] = np.triu(corner) + np.triu(corner, 1).T
        P[block.stop :, block] = P[block, block.stop :].T
    return P
