"""
Any weights of patterns, links and peers, measured by the scores that each gives to a sample of clients.

The scores stand side by side in tables, so that a weighting costs one pass over them and no fit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.data.splits import Split
from ocular.evidence import EvidenceConfig, fit_peers
from ocular.scoring import OWNED, offer
from ocular.solver.config import FitConfig
from ocular.solver.pool import RowPool

VANISHED, MAX_WEIGHT = 1e-9, 1e5  # a mean score of patterns that are no measure any more; of links and peers
MAX_SCORES, MIN_CLIENTS = 1 << 24, 1000  # clients × products of a table; clients, however many products there are


def combined(metric: str, recall: float, precision: float) -> float:
    """Return recall, MAP ("map") or the geometric mean of both in which MAP counts twice ("balanced")."""
    return {"recall": recall, "map": precision, "balanced": math.cbrt(recall * precision**2)}[metric]


class Table(NamedTuple):
    """The scores that one part gives."""

    scores: NDArray[np.float32]  # (clients, products)
    mean: float


class WeightScan:
    """Measures any weights of patterns, links and peers by their scores of clients with held-out purchases."""

    def __init__(self, split: Split, metric: str, M: int, n_threads: int, max_scores: int = MAX_SCORES) -> None:
        train, test = split
        self.metric, self.M, self.n_weightings = metric, M, 0
        self._train, self._n_threads = train, n_threads
        users = np.flatnonzero((test.by_user.degrees > 0) & (train.by_user.degrees > 0))
        most = max(MIN_CLIENTS, max_scores // train.n_items)
        if len(users) > most:
            users = np.sort(np.random.default_rng(0).choice(users, most, replace=False))
        self.users, self._owned, self._held_out = users, train.by_user.take(users), test.by_user.take(users)
        degrees = train.by_item.degrees
        self._order = np.lexsort(
            (np.arange(len(degrees)), -degrees)
        )  # ties go to the more popular item, as in rankings
        self._place = np.empty(len(degrees), dtype=np.int32)
        self._place[self._order] = np.arange(len(degrees), dtype=np.int32)
        self._popularity = np.maximum(degrees, 1)[self._order] / degrees.mean()
        nothing = Table(np.zeros((len(users), train.n_items), dtype=np.float32), 0.0)
        self.patterns, self.links, self.peers = nothing, nothing, nothing
        self._base = np.zeros(train.n_items, dtype=np.float32)

    @property
    def n_held_out(self) -> int:
        """The number of held-out pairs of the sample."""
        return len(self._held_out.indices)

    def use_patterns(
        self, users: sp.csr_array, items: sp.csr_array, item_bias: NDArray[np.float32] | None = None
    ) -> None:
        """Score by these memberships, and by the biases of the items, which are not weighted."""
        if item_bias is not None:
            self._base = item_bias[self._order].astype(np.float32)
        self.patterns = self._scores(users[self.users], items)

    def use_links(self, links: sp.csr_array) -> None:
        """Score by these links."""
        self.links = self._scores(self._owned.matrix(self._train.n_items), links.T)

    def use_peers(self, evidence: EvidenceConfig, config: FitConfig) -> None:
        """Score by the peers of the sample, which are fitted for it alone."""
        self.take_peers(fit_peers(self._train, replace(evidence, peers=1.0), config, self.users))

    def take_peers(self, peers: sp.csr_array) -> None:
        """Score by these peers of the sample, (n_users, clients of the sample)."""
        self.peers = self._scores(peers.T, self._train.by_item.matrix(self._train.n_users))

    def weight_of(self, part: str, weight: float) -> float:
        """Return the weight that gives a part so many times the mean score of the patterns, to two digits."""
        mean, patterns = getattr(self, part).mean, self.patterns.mean
        if not (mean > 0 and patterns > VANISHED):
            return weight
        return float(f"{min(weight * patterns / mean, MAX_WEIGHT):.2g}")

    def value(self, patterns: float, links: float, peers: float, popularity: float) -> float:
        """Return the metric of a ranking by these weights."""
        self.n_weightings += 1
        weights = np.array([patterns, links, peers], dtype=np.float32) / np.float32(patterns + links + peers)
        scale = (self._popularity**popularity).astype(np.float32)
        discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(min(self.M, len(scale))) + 2))])
        out = np.empty((len(self.users), 4))
        with RowPool(self._n_threads) as pool:
            pool.run(
                _measure_weights, self._owned, self.patterns.scores, self.links.scores, self.peers.scores, weights,
                scale, self._base, self._place, self._owned.indptr, self._owned.indices, self._held_out.indptr,
                self._held_out.indices, self.M, discounts, out,
            )  # fmt: skip
        values = dict(zip(("recall", "map", "ndcg", "precision"), out.mean(axis=0).tolist(), strict=True))
        own = values.get(self.metric)
        return combined(self.metric, values["recall"], values["map"]) if own is None else float(own)

    def _scores(self, rows: Any, items: Any) -> Table:
        """Return rows @ items.T as a dense table whose columns are the items by falling popularity."""
        users, members = sp.csr_array(rows), sp.csr_array(items)[self._order].tocsc()
        table = np.zeros((users.shape[0], members.shape[0]), dtype=np.float32)
        ends = users.indptr.astype(np.int64)
        with RowPool(self._n_threads) as pool:
            pool.run(
                _fill_scores, Adjacency(ends, users.indices.astype(np.int32)), ends, users.indices,
                users.data.astype(np.float32), members.indptr.astype(np.int64), members.indices,
                members.data.astype(np.float32), table,
            )  # fmt: skip
        return Table(table, float(table.mean(dtype=np.float64)))


@njit(nogil=True, cache=True)
def _fill_scores(row_ends, columns, strengths, member_ends, members, member_strengths, table, first, last):  # type: ignore[no-untyped-def]
    for r in range(first, last):
        row = table[r]
        for a in range(row_ends[r], row_ends[r + 1]):
            c, strength = columns[a], strengths[a]
            for b in range(member_ends[c], member_ends[c + 1]):
                row[members[b]] += strength * member_strengths[b]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _measure_weights(  # type: ignore[no-untyped-def]
    patterns,
    links,
    peers,
    weights,
    scale,
    base,
    place,
    owned_ends,
    owned,
    test_ends,
    test,
    M,
    discounts,
    out,
    first,
    last,
):
    """Recall, average precision, NDCG and precision@M of each row, ranked by the weighted sum of the tables."""
    n_items = len(scale)
    score = np.empty(n_items, np.float32)
    best_scores, best_items = np.empty(min(M, n_items), np.float32), np.empty(min(M, n_items), np.int32)
    for r in range(first, last):
        by_patterns, by_links, by_peers = patterns[r], links[r], peers[r]
        for i in range(n_items):
            z = weights[0] * by_patterns[i] + weights[1] * by_links[i] + weights[2] * by_peers[i]
            score[i] = scale[i] * z + base[i]
        for a in range(owned_ends[r], owned_ends[r + 1]):
            score[place[owned[a]]] = OWNED
        size, worst = 0, OWNED
        for i in range(n_items):
            if score[i] > worst:  # of equal scores the earlier item, which is more popular, stays
                size = offer(best_scores, best_items, size, score[i], i)
                if size == len(best_items):
                    worst = best_scores[0]
        found = np.sort(best_items[:size])
        found = found[np.argsort(-score[found], kind="mergesort")]
        held_out = np.sort(place[test[test_ends[r] : test_ends[r + 1]]])
        n, hits, precisions, gain = len(held_out), 0, 0.0, 0.0
        for rank in range(size):
            at = np.searchsorted(held_out, found[rank])
            if at < n and held_out[at] == found[rank]:
                hits += 1
                precisions += hits / (rank + 1)
                gain += discounts[rank + 1] - discounts[rank]
        out[r, 0], out[r, 1] = hits / n, precisions / min(n, M)
        out[r, 2], out[r, 3] = gain / discounts[min(n, M)], hits / M
