"""
Any weights of patterns, links and peers, measured by the scores that each gives to a sample of clients.

Every client of the sample has a shortlist, the products that patterns, links or peers rank among the first, with what
each part scores them. A weighting then costs one pass over the shortlists and no fit, and nothing of the size clients ×
products is ever built.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ocular.data.splits import Split
from ocular.evidence import EvidenceConfig, fit_peers
from ocular.solver.config import FitConfig
from ocular.solver.pool import RowPool

VANISHED, MAX_WEIGHT = 1e-9, 1e5  # a mean score of patterns that are no measure any more; of links and peers
LISTED_PER_PLACE, MIN_LISTED = 4, 40  # products that a shortlist takes of each part: so many for each recommendation
PARTS = ("patterns", "links", "peers")
LISTED_HALF_LIFE = 15.0  # days of the trend by which shortlists take products too
Trends = Callable[[float], NDArray[np.float64]]  # half-life in days -> (n_items,)
SHIFT = np.uint32(20)  # of a float32, so that its sign, exponent and 3 bits are left
N_BINS = 1 << (31 - 20)  # of numbers that are not negative
ZERO = np.float32(0)
N_ELSEWHERE = 64  # columns for the scores of products that are not listed: a sum in a single one would wait for itself


def combined(metric: str, recall: float, precision: float) -> float:
    """Return recall, MAP ("map") or the geometric mean of both in which MAP counts twice ("balanced")."""
    return {"recall": recall, "map": precision, "balanced": math.cbrt(recall * precision**2)}[metric]


class Sample(NamedTuple):
    """How many clients are taken at random: so many, with at least so many held-out pairs, or all."""

    n_clients: int
    n_pairs: int


LARGE = Sample(5000, 50_000)


class Part(NamedTuple):
    """What one part scores by: a client's score of a product is the product of two sparse rows."""

    arrays: tuple[NDArray[Any], ...]  # CSR of (clients, features) and of (features, products by falling popularity)
    mean: float  # of all scores

    def scaled(self, scales: NDArray[np.float64]) -> Part:
        """Return the part with every product's scores multiplied by its scale."""
        *others, products, strengths = self.arrays
        return self._replace(arrays=(*others, products, strengths * scales[products].astype(np.float32)))


class Shortlists(NamedTuple):
    """The products that may come first for each client, the more popular ones first, and which were held out."""

    sizes: NDArray[np.int64]  # (clients,)
    places: NDArray[np.int32]  # (clients, room): products by popularity
    hit_ends: NDArray[np.int64]  # (clients + 1,)
    hits: NDArray[np.int64]  # of each client: where in its shortlist held-out products are


class WeightScan:
    """Measures any weights of patterns, links and peers by their scores of clients with held-out purchases."""

    def __init__(
        self,
        split: Split,
        metric: str,
        M: int,
        n_threads: int,
        sample: Sample = LARGE,
        trends: Trends | None = None,
    ) -> None:
        """Take `trends`, which returns those of the products by half-life, where purchases have dates."""
        train, test = split
        self.metric, self.M, self.n_weightings = metric, M, 0
        self._train, self._n_threads = train, n_threads
        users = np.flatnonzero((test.by_user.degrees > 0) & (train.by_user.degrees > 0))
        users = np.random.default_rng(0).permutation(users)
        n_pairs = np.cumsum(test.by_user.degrees[users])
        self.users = np.sort(users[: max(sample.n_clients, 1 + np.searchsorted(n_pairs, sample.n_pairs))])
        self._owned, self._held_out = train.by_user.take(self.users), test.by_user.take(self.users)
        degrees = train.by_item.degrees
        self._order = np.lexsort((np.arange(len(degrees)), -degrees))  # of equal scores the more popular item is first
        self._place = np.empty(len(degrees), dtype=np.int32)
        self._place[self._order] = np.arange(len(degrees), dtype=np.int32)
        self._popularity = np.maximum(degrees, 1)[self._order] / degrees.mean()
        self._base = np.zeros(train.n_items, dtype=np.float32)
        self.has_trends, self._find_trends = trends is not None, trends
        self._trends: dict[float, NDArray[np.float64]] = {}
        self.nothing = self._part(sp.csr_array((len(self.users), 1)), sp.csr_array((1, train.n_items)))
        self.patterns = self.links = self.peers = self.nothing
        self.relist()

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
        self.patterns = self._part(users[self.users], items.T)

    def use_links(self, links: sp.csr_array) -> None:
        """Score by these links."""
        self.links = self._part(self._owned.matrix(self._train.n_items), links)

    def use_peers(self, evidence: EvidenceConfig, config: FitConfig) -> None:
        """Score by the peers of the sample, which are fitted for it alone."""
        self.take_peers(fit_peers(self._train, replace(evidence, peers=1.0), config, self.users))

    def take_peers(self, peers: sp.csr_array) -> None:
        """Score by these peers of the sample, (n_users, clients of the sample)."""
        self.peers = self._part(peers.T, self._train.by_user.matrix(self._train.n_items))

    def relist(self) -> None:
        """Make new shortlists by the parts of the next weighting; until then other parts score the same products."""
        self._lists: Shortlists | None = None
        self._scored: list[Part | None] = [None] * len(PARTS)
        self._values: dict[tuple[str, tuple[float, ...]], float] = {}

    def weight_of(self, part: str, weight: float) -> float:
        """Return the weight that gives a part so many times the mean score of the patterns, to two digits."""
        mean, patterns = getattr(self, part).mean, self.patterns.mean
        if not (mean > 0 and patterns > VANISHED):
            return weight
        return float(f"{min(weight * patterns / mean, MAX_WEIGHT):.2g}")

    def value(
        self,
        patterns: float,
        links: float,
        peers: float,
        popularity: float,
        trend: float = 0.0,
        half_life: float = LISTED_HALF_LIFE,
    ) -> float:
        """Return the metric of a ranking by these weights."""
        lists, weights = self._shortlists(), (patterns, links, peers, popularity, trend, half_life)
        if (self.metric, weights) not in self._values:
            self.n_weightings += 1
            self._values[self.metric, weights] = self._measure(lists, *weights)
        return self._values[self.metric, weights]

    def _measure(
        self,
        lists: Shortlists,
        patterns: float,
        links: float,
        peers: float,
        popularity: float,
        trend: float,
        half_life: float,
    ) -> float:
        weights = np.array([patterns, links, peers], dtype=np.float32) / np.float32(patterns + links + peers)
        trends = self._trend(half_life) ** trend if trend and self.has_trends else 1.0
        scale = (self._popularity**popularity * trends).astype(np.float32)
        discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(min(self.M, len(scale))) + 2))])
        out = np.empty((len(self.users), 4))
        with RowPool(self._n_threads) as pool:
            pool.run(
                _measure_weights, self._owned, *lists, self._scores, weights, scale, self._base,
                self._held_out.degrees, discounts, self.M, out,
            )  # fmt: skip
        values = dict(zip(("recall", "map", "ndcg", "precision"), out.mean(axis=0).tolist(), strict=True))
        own = values.get(self.metric)
        return combined(self.metric, values["recall"], values["map"]) if own is None else float(own)

    def _trend(self, half_life: float) -> NDArray[np.float64]:
        """Return the trends of the products, by falling popularity."""
        if half_life not in self._trends and self._find_trends is not None:
            self._trends[half_life] = self._find_trends(half_life)[self._order]
        return self._trends[half_life]

    def _part(self, rows: Any, features: Any) -> Part:
        """Return what scores rows @ features."""
        rows, features = (sp.csr_array(matrix, dtype=np.float32) for matrix in (rows, features))
        total = float(rows.sum(axis=0, dtype=np.float64) @ features.sum(axis=1, dtype=np.float64))
        arrays = (
            rows.indptr.astype(np.int64), rows.indices.astype(np.uint32), rows.data,
            features.indptr.astype(np.int64), self._place[features.indices].astype(np.uint32), features.data,
        )  # fmt: skip
        return Part(arrays, total / max(rows.shape[0] * features.shape[1], 1))

    def _shortlists(self) -> Shortlists:
        """Return the shortlists, with the scores of all parts as they are now in `_scores`."""
        parts = [getattr(self, name) for name in PARTS]
        with RowPool(self._n_threads) as pool:
            if self._lists is None:
                self._lists = self._list_products([p for p in parts if p.mean > 0] or parts[:1], pool)
                self._scores = np.zeros((len(PARTS), *self._lists.places.shape), dtype=np.float32)
            for k, part in enumerate(parts):
                if part is not self._scored[k]:
                    sizes, places, *_ = self._lists
                    pool.run(_score_listed, self._owned, *part.arrays, len(self._order), sizes, places, self._scores[k])
                    self._scored[k] = part
                    self._values = {}
        return self._lists

    def _list_products(self, parts: list[Part], pool: RowPool) -> Shortlists:
        """Return the products that one of the parts ranks among the first, and the most popular, for each client."""
        n, n_items = len(self.users), len(self._order)
        if self.has_trends:
            parts = parts + [part.scaled(self._trend(LISTED_HALF_LIFE)) for part in parts]
        n_listed = min(max(LISTED_PER_PLACE * self.M, MIN_LISTED), n_items)
        favourites = np.argsort(-self._base, kind="stable").astype(np.int32)  # where no part scores anything
        owned = self._owned.indptr, self._place[self._owned.indices]
        found = np.full((len(parts) + 1, n, n_listed), n_items, dtype=np.int32)
        for part, places in zip(parts, found[1:], strict=True):
            pool.run(_find_first, self._owned, *part.arrays, n_items, *owned, places)
        pool.run(_find_favourites, self._owned, favourites, *owned, found[0, :, : self.M])
        places = np.sort(np.concatenate(found, axis=1), axis=1)
        places[:, 1:][places[:, 1:] == places[:, :-1]] = n_items  # twice
        places.sort(axis=1)
        sizes = (places < n_items).sum(axis=1)
        places = np.ascontiguousarray(places[:, : sizes.max(initial=1)])
        first_keys = np.arange(n) * (n_items + 1)
        keys = (places + first_keys[:, None]).ravel()  # ascending
        wanted = np.sort(self._place[self._held_out.indices] + np.repeat(first_keys, self._held_out.degrees))
        at = np.searchsorted(keys, wanted)
        at = at[keys[np.minimum(at, len(keys) - 1)] == wanted]
        rows, hits = np.divmod(at, places.shape[1])
        return Shortlists(sizes, places, np.searchsorted(rows, np.arange(n + 1)), hits)


@njit(nogil=True, cache=True)
def _find_favourites(favourites, owned_ends, owned, found, first, last):  # type: ignore[no-untyped-def]
    """The first of `favourites` that each client does not own, as many as `found` has columns."""
    is_owned = np.zeros(len(favourites), np.bool_)
    for r in range(first, last):
        is_owned[owned[owned_ends[r] : owned_ends[r + 1]]] = True
        n = 0
        for i in favourites:
            if n == found.shape[1]:
                break
            if not is_owned[i]:
                found[r, n] = i
                n += 1
        is_owned[owned[owned_ends[r] : owned_ends[r + 1]]] = False


@njit(nogil=True, cache=True)
def _find_first(  # type: ignore[no-untyped-def]
    row_ends, columns, strengths, member_ends, members, member_strengths, n_items, owned_ends, owned, found, first, last
):
    """
    The places of the products with the highest scores that the client does not own, as many as `found` has columns.

    They are told apart by the leading bits of their scores: at the limit, scores within an eighth count as equal.
    """
    n_found = found.shape[1]
    score, scored = np.zeros(n_items, np.float32), np.empty(n_items + 1, np.uint32)
    bits, bins = score.view(np.uint32), np.empty(N_BINS, np.int32)
    for r in range(first, last):
        n_scored = 0
        for a in range(row_ends[r], row_ends[r + 1]):
            c, strength = columns[a], strengths[a]
            for b in range(member_ends[c], member_ends[c + 1]):
                i, more = members[b], strength * member_strengths[b]
                scored[n_scored] = i
                n_scored += score[i] == ZERO and more > ZERO
                score[i] += more
        for a in range(owned_ends[r], owned_ends[r + 1]):
            score[owned[a]] = ZERO
        bins[:] = 0
        for k in range(n_scored):
            bins[bits[scored[k]] >> SHIFT] += 1
        limit, above = N_BINS - 1, 0
        while limit > 0 and above + bins[limit] < n_found:
            above += bins[limit]
            limit -= 1
        room, n = n_found - above, 0  # for those at the limit
        for k in range(n_scored):
            i = scored[k]
            b = bits[i] >> SHIFT
            if score[i] > ZERO and (b > limit or (b == limit and room > 0)):
                room -= b == limit
                found[r, n] = i
                n += 1
        for k in range(n_scored):
            score[scored[k]] = ZERO


@njit(nogil=True, cache=True)
def _score_listed(  # type: ignore[no-untyped-def]
    row_ends, columns, strengths, member_ends, members, member_strengths, n_items, sizes, places, scores, first, last
):
    """The scores of the products of each shortlist."""
    room = places.shape[1]
    elsewhere = (room + np.arange(n_items) % N_ELSEWHERE).astype(np.uint32)
    column = elsewhere.copy()  # of each product: where it is in the shortlist
    score = np.empty(room + N_ELSEWHERE, np.float32)
    for r in range(first, last):
        for k in range(sizes[r]):
            column[places[r, k]] = k
        score[:] = 0
        for a in range(row_ends[r], row_ends[r + 1]):
            c, strength = columns[a], strengths[a]
            for b in range(member_ends[c], member_ends[c + 1]):
                score[column[members[b]]] += strength * member_strengths[b]
        scores[r] = score[:room]
        for k in range(sizes[r]):
            column[places[r, k]] = elsewhere[places[r, k]]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _measure_weights(  # type: ignore[no-untyped-def]
    sizes, places, hit_ends, hits, scores, weights, scale, base, n_held_out, discounts, M, out, first, last
):
    """Recall, average precision, NDCG and precision@M of each row, ranked by the weighted sum of the scores."""
    score = np.empty(places.shape[1], np.float32)
    for r in range(first, last):
        size = sizes[r]
        by_patterns, by_links, by_peers = scores[0, r], scores[1, r], scores[2, r]
        for k in range(size):
            z = weights[0] * by_patterns[k] + weights[1] * by_links[k] + weights[2] * by_peers[k]
            score[k] = scale[places[r, k]] * z + base[places[r, k]]
        ranks, n_hits = np.empty(hit_ends[r + 1] - hit_ends[r], np.int64), 0
        for k in hits[hit_ends[r] : hit_ends[r + 1]]:
            rank = 0
            for other in range(k):
                rank += score[other] >= score[k]  # of equal scores the more popular item comes first
            for other in range(k + 1, size):
                rank += score[other] > score[k]
            if rank < M:
                ranks[n_hits] = rank
                n_hits += 1
        ranks = np.sort(ranks[:n_hits])
        precisions, gain, n = 0.0, 0.0, n_held_out[r]
        for hit in range(n_hits):
            precisions += (hit + 1) / (ranks[hit] + 1)
            gain += discounts[ranks[hit] + 1] - discounts[ranks[hit]]
        out[r, 0], out[r, 1] = n_hits / n, precisions / min(n, M)
        out[r, 2], out[r, 3] = gain / discounts[min(n, M)], n_hits / M
