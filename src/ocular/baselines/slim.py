"""SLIM (X. Ning, G. Karypis: SLIM: Sparse linear methods for top-N recommender systems, ICDM 2011)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.baselines.base import Baseline, Scores
from ocular.compiling import njit
from ocular.data.interactions import Adjacency
from ocular.errors import ConfigError
from ocular.scoring import offer
from ocular.solver.config import FitConfig
from ocular.solver.pool import RowPool
from ocular.validation import check_number, check_whole

MAX_ITEMS = 30_000  # without a limit of candidates
TOL = 1e-3  # largest change of a weight in a sweep, as a share of the largest weight; rankings change no more below it
MAX_SWEEPS = 1000  # far more than TOL needs


class SLIM(Baseline):
    """
    Scores X·W, where the column w of each item i minimises

        ½‖x_i − X·w‖² + l1 ‖w‖₁ + l2/2 ‖w‖²,  w ≥ 0, w_i = 0,

    by coordinate descent on XᵀX, an item on its own.

    Parameters
    ----------
    l1 : float
        Makes weights vanish. In purchases: what is bought together with an item at most l1 times never gets a weight.
    l2 : float
        Makes weights small.
    k : int or None
        Candidates of an item: those of the largest cosine, which the paper calls fsSLIM; of equal ones the earlier.
        None takes all.

    Attributes
    ----------
    weights_ : scipy CSR array (n_items, n_items), float32
        W: weights_[j, i] is what having j adds to the score of i.
    """

    def __init__(self, l1: float = 1.0, l2: float = 100.0, k: int | None = 500) -> None:
        self.l1 = l1
        self.l2 = l2
        self.k = k

    def check(self, shape: tuple[int, int]) -> None:
        check_number(self.l1, "l1", 0)
        check_number(self.l2, "l2", 0)
        if self.k is not None:
            check_whole(self.k, "k", 1)
        elif shape[1] > MAX_ITEMS:
            raise ConfigError(
                f"expected k, the candidates of an item, where there are more than {MAX_ITEMS:,} items, got None and "
                f"{shape[1]:,} items; try k=500"
            )

    def _fit(self, matrix: sp.csr_array) -> None:
        self.weights_ = fit_weights(matrix, float(self.l1), float(self.l2), self.k)

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:  # noqa: ARG002  rows say it all
        return np.asarray((rows @ self.weights_).toarray())


def fit_weights(matrix: sp.csr_array, l1: float, l2: float, k: int | None, tol: float = TOL) -> sp.csr_array:
    """Return W (n_items, n_items) for a matrix of users × items of zeros and ones."""
    n_items = matrix.shape[1]
    gram = sp.csr_array(matrix.T.tocsr() @ matrix)
    gram.sort_indices()
    together = Adjacency(gram.indptr.astype(np.int64), gram.indices.astype(np.int32))
    room = min(n_items if k is None else k, int(together.degrees.max(initial=1)))
    totals = gram.diagonal().astype(np.float64)
    sizes = np.zeros(n_items, dtype=np.int64)
    parts: dict[int, tuple[NDArray[np.int32], Scores]] = {}  # by the first item

    def fit(first: int, last: int) -> None:
        ids = np.empty((last - first, room), dtype=np.int32)
        weights = np.empty((last - first, room), dtype=np.float32)
        _fit_items(
            together.indptr, together.indices, gram.data, totals, l1, l2, tol, MAX_SWEEPS, ids, weights, sizes, first,
            last,
        )  # fmt: skip
        kept = np.arange(room) < sizes[first:last, None]
        parts[first] = ids[kept], weights[kept]

    with RowPool(FitConfig().threads) as pool:
        pool.run(fit, together)
    ids, weights = (np.concatenate(side) for side in zip(*(parts[at] for at in sorted(parts)), strict=True))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return sp.csr_array(sp.csc_array((weights, ids, ends), shape=(n_items, n_items)).tocsr())


@njit(nogil=True, cache=True)
def _fit_items(ends, others, counts, totals, l1, l2, tol, max_sweeps, ids, weights, sizes, first, last):  # type: ignore[no-untyped-def]  # Numba infers
    """
    Fill the rows of `ids` and `weights` from 0 on, and `sizes`, for the items `first` to `last` − 1.

    XᵀX is given as CSR (`ends`, `others`, `counts`) with its diagonal `totals`.
    """
    place = np.full(len(totals), -1, np.int32)  # of an item among the candidates
    cosines = np.empty(ids.shape[1])
    table = np.empty(0, np.float32)
    for i in range(first, last):
        chosen, n = ids[i - first], 0
        for a in range(ends[i], ends[i + 1]):
            # neither counts nor weights are negative, so that the pull of j is at most its count: below l1 it stays 0
            if others[a] != i and counts[a] > l1:
                n = offer(cosines, chosen, n, counts[a] / np.sqrt(totals[others[a]]), others[a])
        candidates = np.sort(chosen[:n])
        for c in range(n):
            place[candidates[c]] = c
        pull = np.zeros(n)  # x_jᵀ(x_i − X·w) of each candidate j
        for a in range(ends[i], ends[i + 1]):
            if place[others[a]] >= 0:
                pull[place[others[a]]] = counts[a]
        if len(table) < n * n:
            table = np.empty(n * n, np.float32)
        w = _descend(ends, others, counts, totals, candidates, place, pull, table[: n * n].reshape(n, n), l1, l2, tol,
                     max_sweeps)  # fmt: skip
        size = 0
        for c in range(n):
            place[candidates[c]] = -1
            if w[c] > 0:
                chosen[size], weights[i - first, size] = candidates[c], w[c]
                size += 1
        sizes[i] = size


@njit(nogil=True, cache=True)
def _descend(ends, others, counts, totals, candidates, place, pull, gram, l1, l2, tol, max_sweeps):  # type: ignore[no-untyped-def]
    """Minimise by coordinates; rows of `gram` are looked up for those candidates alone that ever have a weight."""
    n = len(candidates)
    w, known = np.zeros(n), np.zeros(n, np.bool_)
    for _ in range(max_sweeps):
        change, largest = 0.0, 0.0
        for c in range(n):
            j = candidates[c]
            new = max((pull[c] + totals[j] * w[c] - l1) / (totals[j] + l2), 0.0)
            step = new - w[c]
            largest = max(largest, new)
            if step == 0:
                continue
            change = max(change, abs(step))
            if not known[c]:
                known[c] = True
                gram[c] = 0
                for a in range(ends[j], ends[j + 1]):
                    if place[others[a]] >= 0:
                        gram[c, place[others[a]]] = counts[a]
            w[c] = new
            for d in range(n):
                pull[d] -= step * gram[c, d]
        if change <= tol * largest:
            break
    return w
