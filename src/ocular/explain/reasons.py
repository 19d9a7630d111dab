"""Why an item is recommended to a user: the co-clusters that cause it, taken from the model itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Interactions, plain
from ocular.explain import wording
from ocular.explain.calibration import HitRate
from ocular.explain.coclusters import Members
from ocular.explain.price import PriceEstimate

Floats = NDArray[np.float64]

MOST_REASONS = 3  # told
LEAST_SHARE = 0.1  # of the case that a reason must carry to be told
MOST_NAMES = 50  # of each kind that a reason lists as JSON: a group may have thousands


@dataclass(frozen=True)
class Reason:
    """What one co-cluster adds to the affinity of a user and an item."""

    cocluster: int
    contribution: float  # f_uc · f_ic
    owned_items: list[int]  # the user's purchases in this co-cluster, strongest first
    similar_users: list[int]  # its users with some of these purchases who bought the item, most in common first
    group: int = 0  # number of its users with some of these purchases, without this one


@dataclass(frozen=True)
class Case:
    """The reasons as they are told: strongest first, equal ones merged, and what is left unsaid."""

    told: list[Reason]
    affinity: float  # all of it: z
    left_out: int  # number of weaker reasons
    left_out_share: float  # of the affinity
    rest_share: float  # of the affinity that no co-cluster explains: popularity and background


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions sum to ⟨f_u, f_i⟩; with `base` (biases and background) they give the confidence."""

    user: int | None  # None: a client who is not in the model
    item: int
    confidence: float
    reasons: list[Reason]  # strongest first
    owned: bool  # the user has the item already
    interactions: Interactions
    client_items: NDArray[np.int32]  # what the user has
    base: float = 0.0
    background: float = 0.0  # the part of base that all pairs share; the rest is popularity
    supposed: list[int] | None = None  # what the user does not have but is taken to have; None: nothing is supposed
    observed: HitRate | None = None  # of recommendations like this one
    price: PriceEstimate | None = None

    @property
    def client(self) -> Any:
        """The client's name."""
        return "the client" if self.user is None else plain(self.interactions.user_labels[self.user])

    @property
    def product(self) -> Any:
        """The product's name."""
        return plain(self.interactions.item_labels[self.item])

    def case(self, most: int = MOST_REASONS) -> Case:
        """At most so many reasons with evidence, each at least a tenth of the affinity (the first always)."""
        named = self._distinct_reasons()
        affinity = sum(reason.contribution for reason in self.reasons)
        total = max(affinity + self.base, 1e-12)
        enough = [n for n, reason in enumerate(named) if n == 0 or reason.contribution >= LEAST_SHARE * total]
        told = [named[n] for n in enough[: max(1, most)]]
        bare = sum(not (reason.owned_items and reason.similar_users) for reason in self.reasons)
        unsaid = affinity - sum(reason.contribution for reason in told)
        return Case(told, total, len(named) + bare - len(told), unsaid / total, self.base / total)

    def _distinct_reasons(self) -> list[Reason]:
        """Co-clusters with the same purchases and the same clients are one reason to a reader."""
        groups: dict[tuple[frozenset[int], frozenset[int]], list[Reason]] = {}
        for reason in self.reasons:
            if reason.owned_items and reason.similar_users:
                evidence = frozenset(reason.owned_items), frozenset(reason.similar_users)
                groups.setdefault(evidence, []).append(reason)
        merged = [replace(same[0], contribution=sum(r.contribution for r in same)) for same in groups.values()]
        return sorted(merged, key=lambda reason: -reason.contribution)

    def _repr_html_(self) -> str:
        return self.to_html()

    def text(self, most: int = MOST_REASONS, *, show_clients: bool = True) -> str:
        """The rationale in words; `show_clients=False` names no other client."""
        return wording.text(self, most, show_clients)

    def to_markdown(self, most: int = MOST_REASONS, *, show_clients: bool = True) -> str:
        return wording.markdown(self, most, show_clients)

    def to_html(self, most: int = MOST_REASONS, *, show_clients: bool = True) -> str:
        """A fragment: <div class="ocular-explanation">…</div>."""
        return wording.html(self, most, show_clients)

    def to_dict(self, *, show_clients: bool = True, most_names: int = MOST_NAMES) -> dict[str, Any]:
        """Plain values with names, ready for JSON; `told` is what the text tells, `reasons` is all there is."""
        case, price, observed = self.case(), self.price, self.observed
        return {
            "client": None if self.user is None else self.client,
            "product": self.product,
            "confidence": self.confidence,
            "hit_rate": None if observed is None else observed.rate,
            "hit_rate_of": None if observed is None else observed.recommendations,
            "price": None if price is None else price.median,
            "price_low": None if price is None else price.low,
            "price_high": None if price is None else price.high,
            "price_purchases": None if price is None else price.purchases,
            "price_basis": None if price is None else price.basis,
            "currency": None if price is None else price.currency,
            "owned": self.owned,
            "base": self.base,
            "told": [self._reason_dict(reason, show_clients, most_names) for reason in case.told],
            "left_out": case.left_out,
            "left_out_share": case.left_out_share,
            "reasons": [self._reason_dict(reason, show_clients, most_names) for reason in self.reasons],
            "text": self.text(show_clients=show_clients),
        }

    def _reason_dict(self, reason: Reason, show_clients: bool, most_names: int) -> dict[str, Any]:
        users, items = self.interactions.user_labels, self.interactions.item_labels
        similar = [plain(users[u]) for u in reason.similar_users[:most_names]] if show_clients else []
        return {
            "cocluster": reason.cocluster,
            "contribution": reason.contribution,
            "owned_items": [plain(items[i]) for i in reason.owned_items[:most_names]],
            "owned": len(reason.owned_items),
            "similar_users": similar,
            "bought_by": len(reason.similar_users),
            "group": reason.group,
        }


def find_reasons(
    f_u: sp.csr_array,
    owned: NDArray[np.int32],
    item: int,
    factors: tuple[sp.csr_array, sp.csr_array],
    members: Members,
    interactions: Interactions,
    user: int | None = None,
) -> tuple[list[Reason], Floats]:
    """
    One reason for each co-cluster that holds both, strongest first; and how much each client has to do with them.

    f_u (1, K) and `owned` belong to a user of the model, then named by `user`, or to a new one. Evidence comes from
    the members of a co-cluster; where none of them bears it out, from all with a trace of it. Similar are only those
    who have one of the purchases named. A client v who is named has to do with the case by Σ over the reasons of
    contribution · f_vc.
    """
    user_factors, item_factors = factors
    strengths, f_i = _row(f_u, 0), _row(item_factors, item)
    product = {c: strengths[c] * f_i[c] for c in strengths.keys() & f_i.keys()}
    owned_mask = np.zeros(interactions.n_items, dtype=bool)
    owned_mask[owned] = True
    owned_mask[item] = False
    bought_mask = np.zeros(interactions.n_users, dtype=bool)
    bought_mask[interactions.by_item[item]] = True
    if user is not None:
        bought_mask[user] = False
    reasons, related = [], np.zeros(interactions.n_users)
    for c in sorted(product, key=lambda c: (-product[c], c)):
        items, (users, strong) = members.items_of(c)[0], members.users_of(c)
        owned_items = items[owned_mask[items]]
        if not len(owned_items):
            owned_items, _ = _strongest(np.flatnonzero(owned_mask), item_factors, c)
        in_common = _buyers(owned_items, interactions)
        similar, group = _similar(users, in_common, bought_mask, -1 if user is None else user)
        if not len(similar):
            users, strong = _strongest(np.arange(interactions.n_users), user_factors, c)
            similar, group = _similar(users, in_common, bought_mask, -1 if user is None else user)
        similar = similar[np.argsort(-in_common[users[similar]], kind="stable")]  # of equal ones the stronger first
        related[users[similar]] += product[c] * strong[similar]
        reasons.append(Reason(c, product[c], owned_items.tolist(), users[similar].tolist(), group))
    return reasons, related


def _buyers(items: NDArray[np.int64], interactions: Interactions) -> NDArray[np.int32]:
    """How many of the items each user has."""
    counts = np.zeros(interactions.n_users, dtype=np.int32)
    _count(interactions.by_item.indptr, interactions.by_item.indices, items, counts)
    return counts


@njit(nogil=True, cache=True)
def _similar(users, in_common, bought, without):  # type: ignore[no-untyped-def]
    """Places in `users` of those with something in common who bought; and how many have something in common."""
    places, n, group = np.empty(len(users), np.int64), 0, 0
    for a in range(len(users)):
        u = users[a]
        if u != without and in_common[u] > 0:
            group += 1
            if bought[u]:
                places[n] = a
                n += 1
    return places[:n], group


@njit(nogil=True, cache=True)
def _count(indptr, indices, rows, counts):  # type: ignore[no-untyped-def]
    for r in rows:
        for j in indices[indptr[r] : indptr[r + 1]]:
            counts[j] += 1


def _row(factors: sp.csr_array, r: int) -> dict[int, float]:
    span = slice(factors.indptr[r], factors.indptr[r + 1])
    return dict(zip(factors.indices[span].tolist(), factors.data[span].tolist(), strict=True))


def _strongest(rows: NDArray[np.int64], factors: sp.csr_array, c: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Those of the rows with any strength in c, and their strengths, strongest first."""
    strengths = factors[rows][:, [c]].toarray()[:, 0]
    order = np.argsort(-strengths, kind="stable")[: int((strengths > 0).sum())]
    return rows[order], strengths[order]
