"""
Any weights of patterns and other evidence, measured by the scores that each part gives to a sample of clients.

Every client of the sample has a shortlist, the products that one of the parts ranks among the first, with what each
part scores them. A weighting then costs one pass over the shortlists and no fit, and nothing of the size clients ×
products is ever built.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular import weight_kernels
from ocular.data.splits import Split
from ocular.evidence import EvidenceConfig, client_features, fit_appeal, fit_peers, fit_taste, product_features
from ocular.solver.config import FitConfig
from ocular.solver.pool import RowPool

VANISHED, MAX_WEIGHT = 1e-9, 1e5  # a mean score of patterns that are no measure any more; of links and peers
LISTED_PER_PLACE, MIN_LISTED = 4, 40  # products that a shortlist takes of each part: so many for each recommendation
PARTS = ("patterns", "links", "peers", "taste", "appeal")
LISTED_HALF_LIFE = 15.0  # days of the trend by which shortlists take products too
Trends = Callable[[float], NDArray[np.float64]]  # half-life in days -> (n_items,)


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
    base: NDArray[np.float32]  # (products,) that is added to the weighted scores

    def scaled(self, scales: NDArray[np.float64]) -> Part:
        """Return the part with every product's scores multiplied by its scale."""
        *others, products, strengths = self.arrays
        return self._replace(arrays=(*others, products, strengths * scales[products].astype(np.float32)))


class Shortlists(NamedTuple):
    """The products that may come first for each client, the more popular ones first, and which were held out."""

    sizes: NDArray[np.int64]  # (clients,)
    places: NDArray[np.uint32]  # (clients, room): products by popularity
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
        self.has_trends, self._find_trends = trends is not None, trends
        self._trends: dict[float, NDArray[np.float64]] = {}
        nothing = self._part(sp.csr_array((len(self.users), 1)), sp.csr_array((1, train.n_items)))
        self.patterns = self.links = self.peers = self.taste = self.appeal = nothing
        self.relist()

    @property
    def n_held_out(self) -> int:
        """The number of held-out pairs of the sample."""
        return len(self._held_out.indices)

    def use_patterns(
        self, users: sp.csr_array, items: sp.csr_array, item_bias: NDArray[np.float32] | None = None
    ) -> None:
        """Score by these memberships, and by the biases of the items, which are not weighted."""
        self.patterns = self._part(users[self.users], items.T, item_bias)

    def use_links(self, links: sp.csr_array) -> None:
        """Score by these links."""
        self.links = self._part(self._owned.matrix(self._train.n_items), links)

    def use_peers(self, evidence: EvidenceConfig, config: FitConfig) -> None:
        """Score by the peers of the sample, which are fitted for it alone."""
        self.take_peers(fit_peers(self._train, replace(evidence, peers=1.0), config, self.users))

    def take_peers(self, peers: sp.csr_array) -> None:
        """Score by these peers of the sample, (n_users, clients of the sample)."""
        self.peers = self._part(peers.T, self._train.by_user.matrix(self._train.n_items))

    def use_taste(self, evidence: EvidenceConfig, config: FitConfig) -> None:
        """Score by the taste of the sample, which is fitted for it alone; nothing where products have no attributes."""
        features = product_features(self._train, evidence)
        if len(features):
            taste = fit_taste(self._train, replace(evidence, taste=1.0), config, self._owned)
            self.taste = self._part(taste, features.rows.matrix(len(features)).T)

    def use_appeal(self, evidence: EvidenceConfig, config: FitConfig) -> None:
        """Score by the appeal of all products to the sample; nothing where clients have no attributes."""
        features = client_features(self._train, evidence)
        if len(features):
            appeal = fit_appeal(self._train, replace(evidence, appeal=1.0), config)
            self.appeal = self._part(features.rows.take(self.users).matrix(len(features)), appeal)

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
        taste: float = 0.0,
        appeal: float = 0.0,
    ) -> float:
        """Return the metric of a ranking by these weights."""
        lists, parts = self.shortlists(), (patterns, links, peers, taste, appeal)
        key = self.metric, (*parts, popularity, trend, half_life)
        if key not in self._values:
            self.n_weightings += 1
            self._values[key] = self._measure(lists, parts, popularity, trend, half_life)
        return self._values[key]

    def _measure(
        self, lists: Shortlists, parts: tuple[float, ...], popularity: float, trend: float, half_life: float
    ) -> float:
        weights = np.array(parts, dtype=np.float32) / np.float32(sum(parts))
        trends = self._trend(half_life) ** trend if trend and self.has_trends else 1.0
        scale = (self._popularity**popularity * trends).astype(np.float32)
        discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(min(self.M, len(scale))) + 2))])
        out = np.empty((len(self.users), 4))
        with RowPool(self._n_threads) as pool:
            pool.run(
                weight_kernels.measure_weights, self._owned, *lists, self._scores, weights, scale, self.patterns.base,
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

    def _part(self, rows: Any, features: Any, base: NDArray[np.float32] | None = None) -> Part:
        """Return what scores rows @ features."""
        rows, features = (sp.csr_array(matrix, dtype=np.float32) for matrix in (rows, features))
        total = float(rows.sum(axis=0, dtype=np.float64) @ features.sum(axis=1, dtype=np.float64))
        arrays = (
            rows.indptr.astype(np.int64), rows.indices.astype(np.uint32), rows.data,
            features.indptr.astype(np.int64), self._place[features.indices].astype(np.uint32), features.data,
        )  # fmt: skip
        mean = total / max(rows.shape[0] * features.shape[1], 1)
        return Part(arrays, mean, np.zeros(len(self._order), np.float32) if base is None else base[self._order])

    def shortlists(self) -> Shortlists:
        """Return the shortlists, with the scores of all parts as they are now in `_scores`."""
        parts = [getattr(self, name) for name in PARTS]
        with RowPool(self._n_threads) as pool:
            if self._lists is None:
                self._lists = self._list_products([p for p in parts if p.mean > 0] or parts[:1], pool)
                self._scores = np.zeros((len(PARTS), *self._lists.places.shape), dtype=np.float32)
            for k, part in enumerate(parts):
                if part is not self._scored[k]:
                    sizes, places, *_ = self._lists
                    pool.run(
                        weight_kernels.score_listed,
                        self._owned,
                        *part.arrays,
                        len(self._order),
                        sizes,
                        places,
                        self._scores[k],
                    )
                    self._scored[k] = part
                    self._values = {}
        return self._lists

    def _list_products(self, parts: list[Part], pool: RowPool) -> Shortlists:
        """Return the products that one of the parts ranks among the first, and the most popular, for each client."""
        n, n_items = len(self.users), len(self._order)
        if self.has_trends:
            parts = parts + [part.scaled(self._trend(LISTED_HALF_LIFE)) for part in parts]
        n_listed = min(max(LISTED_PER_PLACE * self.M, MIN_LISTED), n_items)
        favourites = np.argsort(-self.patterns.base, kind="stable").astype(np.int32)  # where no part scores anything
        owned = self._owned.indptr, self._place[self._owned.indices]
        found = np.full((len(parts) + 1, n, n_listed), n_items, dtype=np.int32)
        for part, places in zip(parts, found[1:], strict=True):
            pool.run(weight_kernels.find_first, self._owned, *part.arrays, n_items, *owned, places)
        pool.run(weight_kernels.find_favourites, self._owned, favourites, *owned, found[0, :, : self.M])
        places = np.sort(np.concatenate(found, axis=1), axis=1)
        places[:, 1:][places[:, 1:] == places[:, :-1]] = n_items  # twice
        places.sort(axis=1)
        sizes = (places < n_items).sum(axis=1)
        places = places[:, : sizes.max(initial=1)].astype(np.uint32)
        first_keys = np.arange(n) * (n_items + 1)
        keys = (places + first_keys[:, None]).ravel()  # ascending
        wanted = np.sort(self._place[self._held_out.indices] + np.repeat(first_keys, self._held_out.degrees))
        at = np.searchsorted(keys, wanted)
        at = at[keys[np.minimum(at, len(keys) - 1)] == wanted]
        rows, hits = np.divmod(at, places.shape[1])
        return Shortlists(sizes, places, np.searchsorted(rows, np.arange(n + 1)), hits)
