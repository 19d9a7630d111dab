"""
RP3beta (B. Paudel, F. Christoffel, C. Newell, A. Bernstein: Updatable, accurate, diverse, and scalable recommendations
for interactive applications, ACM TiiS 2017).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.baselines.base import Baseline, Scores, best, blocks
from ocular.validation import check_number, check_whole


class RP3beta(Baseline):
    """
    Scores of a random walk in three steps, from a user to an item, on to one of its users and to an item of theirs,

        score(u, i) = Σ_{j, v} p_uj p_jv p_vi / n_i^beta,  p_uj = n_u^−alpha, p_jv = n_j^−alpha, p_vi = n_v^−alpha,

    where n are numbers of purchases. A walk that comes back to the item it went to first, j = i, does not count.

    Parameters
    ----------
    alpha : float
        Exponent of the probabilities of the walk; 1 is the plain walk, which ends at bestsellers.
    beta : float
        Exponent of the popularity that scores are divided by; 0 is P3alpha.
    k : int
        Items j that lead to an item i: those that add most to its score; of equal ones the earlier.

    Attributes
    ----------
    weights_ : scipy CSR array (n_items, n_items), float32
        weights_[j, i] is what having j adds to the score of i, times n_u^alpha.
    """

    def __init__(self, alpha: float = 0.8, beta: float = 0.4, k: int = 100) -> None:
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def check(self, shape: tuple[int, int]) -> None:  # noqa: ARG002  any size will do
        check_number(self.alpha, "alpha", 0, 10)
        check_number(self.beta, "beta", 0, 10)
        check_whole(self.k, "k", 1)

    def _fit(self, matrix: sp.csr_array) -> None:
        n_items = matrix.shape[1]
        by_item = matrix.T.tocsr()
        leaving_users, leaving_items = (_powers(side, -self.alpha) for side in (matrix, by_item))
        unpopular = _powers(by_item, -self.beta)
        walks = matrix * leaving_users[:, None]
        parts = []
        for block in blocks(n_items, n_items):
            items = np.arange(n_items)[block]
            weights = (by_item[block] @ walks).toarray() * leaving_items * unpopular[block, None]
            weights[np.arange(len(items)), items] = 0.0
            top = best(-weights, self.k)
            rows = np.repeat(np.arange(len(items)), top.shape[1])
            kept = np.take_along_axis(weights, top, axis=1).ravel()
            part = sp.csr_array((kept, (rows, top.ravel())), shape=weights.shape, dtype=np.float32)
            part.eliminate_zeros()
            parts.append(part)
        self.weights_ = sp.vstack(parts, format="csr").T.tocsr()

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:  # noqa: ARG002  rows say it all
        return np.asarray((rows @ self.weights_).toarray() * _powers(rows, -self.alpha)[:, None])


def _powers(rows: sp.csr_array, exponent: float) -> Scores:
    """Return the numbers of purchases of each row to a power."""
    powers: Scores = (np.maximum(np.diff(rows.indptr), 1.0) ** exponent).astype(np.float32)
    return powers
