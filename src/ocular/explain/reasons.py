"""Why an item is recommended to a user: the co-clusters that cause it, taken from the model itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
        named = [reason for reason in self.reasons if reason.owned_items and reason.similar_users]
        sizes = Counter((len(reason.owned_items), len(reason.similar_users)) for reason in named)
        groups: dict[object, list[Reason]] = {}
        for reason in named:
            evidence: object = reason.cocluster  # where no other has as many of both, none has the same ones
            if sizes[len(reason.owned_items), len(reason.similar_users)] > 1:
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


class Group(NamedTuple):
    """Who has some of a user's purchases in a co-cluster: most of them first, of equal ones the stronger first."""

    owned_items: list[int]
    users: NDArray[np.int64]
    strengths: NDArray[np.float32]


class Reasons:
    """
    Of one user, for any item. Groups are kept: the items recommended to a user share them.

    `strengths`, of f_u by co-cluster, and `owned` belong to a user of the model, then named by `user`, or to a new one.
    """

    def __init__(
        self,
        strengths: dict[int, float],
        owned: NDArray[np.int32],
        factors: tuple[sp.csr_array, sp.csr_array],
        members: Members,
        interactions: Interactions,
        user: int | None = None,
    ) -> None:
        self._strengths, (self._user_factors, self._item_factors), self._members = strengths, factors, members
        self._interactions, self._user = interactions, -1 if user is None else user
        self._owned = np.zeros(interactions.n_items, dtype=bool)
        self._owned[owned] = True
        self._room = np.zeros(interactions.n_users, dtype=np.int32)
        self._groups: dict[tuple[int, int, bool], Group] = {}

    def find(self, item: int) -> tuple[list[Reason], Floats]:
        """
        One reason for each co-cluster that holds both, strongest first; and how much each client has to do with them.

        Evidence comes from the members of a co-cluster; where none of them bears it out, from all with a trace of it.
        Similar are only those who have one of the purchases named. A client v who is named has to do with the case by
        Σ over the reasons of contribution · f_vc.
        """
        f_i, n_users = memberships(self._item_factors, item), self._interactions.n_users
        product = {c: self._strengths[c] * f_i[c] for c in self._strengths.keys() & f_i.keys()}
        bought = np.zeros(n_users, dtype=bool)
        bought[self._interactions.by_item[item]] = True
        reasons, related = [], np.zeros(n_users)
        for c in sorted(product, key=lambda c: (-product[c], c)):
            group = self._group(c, item, of_members=True)
            similar = _similar(group.users, group.strengths, bought, product[c], related)
            if not len(similar):
                group = self._group(c, item, of_members=False)
                similar = _similar(group.users, group.strengths, bought, product[c], related)
            reasons.append(Reason(c, product[c], group.owned_items, similar.tolist(), len(group.users)))
        return reasons, related

    def _group(self, c: int, item: int, *, of_members: bool) -> Group:
        key = c, item if self._owned[item] else -1, of_members  # an item does not speak for itself
        if key not in self._groups:
            items = self._members.items_of(c)[0]
            owned = items[self._owned[items] & (items != item)]
            if not len(owned):
                items, _ = _strongest(self._item_factors, c)
                owned = items[self._owned[items] & (items != item)]
            users, strengths = self._members.users_of(c) if of_members else _strongest(self._user_factors, c)
            columns = self._interactions.by_item
            places = _in_common(users, columns.indptr, columns.indices, owned, self._user, self._room)
            self._groups[key] = Group(owned.tolist(), users[places], strengths[places])
        return self._groups[key]


@njit(nogil=True, cache=True)
def _in_common(users, indptr, indices, owned, without, counts):  # type: ignore[no-untyped-def]
    """
    Places in `users` of those with some of the owned items, most first, of equal ones the first in `users`.

    `counts`, (n_users,), is zero before and after.
    """
    for i in owned:
        for u in indices[indptr[i] : indptr[i + 1]]:
            counts[u] += 1
    if without >= 0:
        counts[without] = 0
    starts, n = np.zeros(len(owned) + 2, np.int64), len(owned)
    for u in users:
        starts[n - counts[u] + 1] += 1
    starts = starts.cumsum()  # a counting sort
    places = np.empty(starts[n], np.int64)
    for a in range(len(users)):
        rank = n - counts[users[a]]
        if rank < n:
            places[starts[rank]] = a
            starts[rank] += 1
    for i in owned:
        counts[indices[indptr[i] : indptr[i + 1]]] = 0
    return places


@njit(nogil=True, cache=True)
def _similar(users, strengths, bought, contribution, related):  # type: ignore[no-untyped-def]
    """Those of the users who bought; each is related by their share in the contribution."""
    similar, n = np.empty(len(users), np.int64), 0
    for a in range(len(users)):
        if bought[users[a]]:
            similar[n] = users[a]
            n += 1
            related[users[a]] += contribution * strengths[a]
    return similar[:n]


def memberships(factors: sp.csr_array, r: int) -> dict[int, float]:
    """Strengths of a row by co-cluster."""
    span = slice(factors.indptr[r], factors.indptr[r + 1])
    return dict(zip(factors.indices[span].tolist(), factors.data[span].tolist(), strict=True))


def _strongest(factors: sp.csr_array, c: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """All rows with any strength in c, and their strengths, strongest first."""
    places = np.flatnonzero(factors.indices == c)
    rows, strengths = np.searchsorted(factors.indptr, places, side="right") - 1, factors.data[places]
    order = np.argsort(-strengths, kind="stable")[: int((strengths > 0).sum())]
    return rows[order].astype(np.int64), strengths[order]
