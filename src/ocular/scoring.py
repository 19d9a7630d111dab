"""
Top-N from sparse memberships: only the items in a user's co-clusters are scored, the others have the base affinity.

Nothing of the size users × items is built; a thread needs one score per item.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.compiling import njit
from ocular.data.interactions import Adjacency
from ocular.solver.devices import rank_rows
from ocular.solver.pool import RowPool
from ocular.solver.prefetch import prefetch

OWNED = np.float32(-1)  # below every affinity
AHEAD = 2  # columns whose members are asked for before they are needed
FEW = 64  # rows that are ranked before other threads, or a GPU, have begun
POSITIVES_WEIGHT = 0.1  # in a similarity, of what two rows have in common beside their memberships
MEMBERSHIPS_WEIGHT = 0.5  # in a similarity, of memberships beside links

compiled = njit(nogil=True, cache=True)


class Scorer:
    """Ranks the items of a fitted model for users given by their membership rows, or its users for items."""

    def __init__(
        self,
        item_factors: sp.csr_array,
        item_base: NDArray[np.float32],
        popularity: NDArray[np.int64],
        n_threads: int,
        ranks: NDArray[np.int64] | None = None,
        column_ranks: NDArray[np.int64] | None = None,
    ) -> None:
        """
        Take item_base to be added to every affinity with that item, and popularity to break ties.

        Of equally popular items the one with the lower rank comes first, and affinities are summed in the order of the
        ranks of the columns; None is the order that they have.
        """
        # items by falling popularity: among equal scores the more popular one then simply comes first
        ranks = np.arange(len(popularity)) if ranks is None else ranks
        self._order = np.lexsort((ranks, -popularity)).astype(np.int32)
        self._place = np.empty_like(self._order)
        self._place[self._order] = np.arange(len(self._order), dtype=np.int32)
        self._column_ranks = column_ranks
        members = self._ordered(item_factors[self._order]).tocsc()
        # indices without a sign, which Numba would look at
        self._members = members.indptr.astype(np.int64), members.indices.astype(np.uint32), members.data
        self._base = item_base[self._order]
        self._n_threads = n_threads

    def _ordered(self, rows: sp.csr_array) -> sp.csr_array:
        """Return the rows with their columns in the order of their ranks."""
        if self._column_ranks is None:
            return rows
        parts = rows.data, self._column_ranks[rows.indices], rows.indptr
        ordered = sp.csr_array(parts, shape=rows.shape, copy=True)
        ordered.sort_indices()
        return ordered

    def top(
        self,
        users: sp.csr_array,
        owned: Adjacency | None,
        n: int,
        allowed: NDArray[np.bool_] | None = None,
        device: str = "cpu",
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """
        Return item ids and affinities (without the user's own bias), best first, of each row of `users`.

        `owned` items of the row and items that are not `allowed` are left out; missing places hold −1 and nan.
        """
        n_rows, n_items, users = users.shape[0], len(self._base), self._ordered(users)
        ids = np.full((n_rows, n), -1, dtype=np.int32)
        scores = np.full((n_rows, n), np.nan, dtype=np.float32)
        rows = Adjacency(users.indptr.astype(np.int64), users.indices.astype(np.int32))
        if owned is None:
            owned = Adjacency(np.zeros(n_rows + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        open_items = np.ones(n_items, dtype=np.bool_) if allowed is None else allowed[self._order]
        arrays = (
            rows.indptr, rows.indices, users.data, *self._members, self._base, self._place, owned.indptr, owned.indices,
            open_items, ids, scores,
        )  # fmt: skip
        if device == "cpu" or n_rows <= FEW:  # the answer has the same bytes
            with RowPool(self._n_threads if n_rows > FEW else 1) as pool:
                pool.run(_rank, rows, *arrays)
        else:
            rank_rows(device, *arrays)
        filled = ids >= 0
        ids[filled] = self._order[ids[filled]]
        return ids, scores


def rows_with_links(factors: sp.csr_array, links: sp.csr_array) -> sp.csr_array:
    """
    Return memberships and links side by side, to be compared by `nearest`; where nothing is linked, memberships alone.

    With s_i = the i-th row of S + Sᵀ, to which the largest of its values is added in the place of i itself, the cosine
    of two such rows is (w · cos f + cos s) / (1 + w), where w is MEMBERSHIPS_WEIGHT. That two rows are linked to the
    same ones counts besides their own link, which is why this finds more of the same kind than links alone
    (benchmarks/similarity.py).
    """
    if links.nnz == 0:
        return factors
    linked = sp.csr_array(links + links.T)
    strongest = linked.max(axis=1).toarray().ravel()
    linked = sp.csr_array(linked + sp.diags_array(np.where(strongest > 0, strongest, 1.0)))
    parts = [_unit_rows(factors, MEMBERSHIPS_WEIGHT**0.5), _unit_rows(linked, 1.0)]
    return sp.csr_array(sp.hstack(parts, format="csr"))


def _unit_rows(rows: sp.csr_array, length: float) -> sp.csr_array:
    """Return the rows with this length, those of zeros as they are."""
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1, dtype=np.float64)).ravel())
    scale = np.repeat(length / np.maximum(norms, 1e-12), np.diff(rows.indptr))
    return sp.csr_array(((rows.data * scale).astype(np.float32), rows.indices, rows.indptr), shape=rows.shape)


def nearest(
    factors: sp.csr_array,
    ids: NDArray[np.int64],
    n: int,
    allowed: NDArray[np.bool_] | None,
    by_row: Adjacency,
    by_column: Adjacency,
    ranks: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """
    Return the n rows most like each of the rows `ids`, itself first: (ids, similarities), a row each.

    The similarity is (cos f + w · cos b) / (1 + w), where f are memberships, b is the row of positives in `by_row`
    (`by_column` is its other orientation) and w is POSITIVES_WEIGHT. Where f alone were compared, all rows of a single
    co-cluster would tie at 1. Of equal rows the one with the lower rank comes first, by default that with the lower id.
    """
    n_rows = factors.shape[0]
    ranks = np.arange(n_rows) if ranks is None else ranks
    norms = np.sqrt(np.asarray(factors.multiply(factors).sum(axis=1, dtype=np.float64)).ravel())
    lengths = np.sqrt(by_row.degrees)
    candidates = np.arange(n_rows) if allowed is None else np.flatnonzero(allowed)
    best = np.full((len(ids), n), -1, dtype=np.int32)
    similarities = np.full((len(ids), n), np.nan, dtype=np.float32)
    for place, row in enumerate(ids.tolist()):
        alike = factors @ factors[[row]].toarray()[0].astype(np.float64) / np.maximum(norms * norms[row], 1e-12)
        alike = np.minimum(alike, 1.0)
        alike[row] = norms[row] > 0
        common = np.bincount(by_column.take(by_row[row]).indices, minlength=n_rows)
        shared = common / np.maximum(lengths * lengths[row], 1.0)
        scores = ((alike + POSITIVES_WEIGHT * shared) / (1 + POSITIVES_WEIGHT))[candidates]
        chosen = np.arange(len(candidates))
        if len(candidates) > n:  # those that are left are few, and sorted
            chosen = np.flatnonzero(scores >= np.partition(scores, -n)[-n])
        # itself first even where another row is exactly the same
        chosen = chosen[np.lexsort((ranks[candidates[chosen]], candidates[chosen] != row, -scores[chosen]))][:n]
        best[place, : len(chosen)] = candidates[chosen]
        similarities[place, : len(chosen)] = scores[chosen]
    return best, similarities


@compiled
def _rank(
    row_ptr, coclusters, strengths,  # users, CSR
    member_ptr, members, member_strengths,  # items of each co-cluster, CSC
    base, place, owned_ptr, owned, allowed, ids, scores, first_row, last_row,
):  # fmt: skip
    n_items = len(base)
    n = min(ids.shape[1], n_items)
    score = np.empty(n_items, np.float32)
    heap_scores, heap_items = np.empty(n, np.float32), np.empty(n, np.int32)
    for r in range(first_row, last_row):
        score[:] = base
        last_column = row_ptr[r + 1] - 1
        for a in range(row_ptr[r], row_ptr[r + 1]):
            c = coclusters[a]
            _await_column(member_ptr, members, member_strengths, coclusters[min(a + AHEAD, last_column)])
            for b in range(member_ptr[c], member_ptr[c + 1]):
                score[members[b]] += strengths[a] * member_strengths[b]
        for a in range(owned_ptr[r], owned_ptr[r + 1]):
            score[place[owned[a]]] = OWNED
        size, worst = 0, OWNED
        for i in range(n_items):
            # most fall short of the worst in the heap and are not worth a call; of equal ones the earlier stays
            if score[i] <= worst or not allowed[i]:
                continue
            size = offer(heap_scores, heap_items, size, score[i], i)
            if size == n:
                worst = heap_scores[0]
        if size < n:
            for parent in range(size // 2 - 1, -1, -1):
                _sift(heap_scores, heap_items, parent, size)
        # the worst leaves the heap first, so places are filled from the back
        for last in range(size - 1, -1, -1):
            ids[r, last], scores[r, last] = heap_items[0], heap_scores[0]
            heap_scores[0], heap_items[0] = heap_scores[last], heap_items[last]
            _sift(heap_scores, heap_items, 0, last)


@njit(nogil=True, forceinline=True)
def _await_column(member_ptr, members, member_strengths, column):
    """Ask for the beginning of a column before it is needed."""
    prefetch(members, member_ptr[column])
    prefetch(member_strengths, member_ptr[column])


@compiled
def offer(scores, items, size, score, item):
    """
    Keep an entry if it is among the best of as many as there is place for, and return how many are kept now.

    Of equal scores the earlier item is the better. Full arrays are a heap with the worst entry on top.
    """
    n = len(scores)
    if size < n:
        scores[size], items[size] = score, item
        if size + 1 == n:
            for parent in range(n // 2 - 1, -1, -1):
                _sift(scores, items, parent, n)
        return size + 1
    if score > scores[0] or (score == scores[0] and item < items[0]):
        scores[0], items[0] = score, item
        _sift(scores, items, 0, n)
    return size


@compiled
def _sift(scores, items, parent, size):
    """Restore a heap with the worst entry on top; of equal scores the later item is the worse."""
    while True:
        worst = parent
        for child in (2 * parent + 1, 2 * parent + 2):
            if child < size and (
                scores[child] < scores[worst] or (scores[child] == scores[worst] and items[child] > items[worst])
            ):
                worst = child
        if worst == parent:
            return
        scores[parent], scores[worst] = scores[worst], scores[parent]
        items[parent], items[worst] = items[worst], items[parent]
        parent = worst
