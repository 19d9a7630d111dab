"""The search for reasons: the evidence behind an item, and the purchases and clients who bear it out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.attributes import Features
from ocular.data.interactions import Interactions
from ocular.evidence import Evidence
from ocular.explain.coclusters import Members
from ocular.explain.counting import count_in_common, jaccard, split_buyers
from ocular.explain.reasons import (
    APPEAL,
    LINKS,
    MAX_NAMED,
    MAX_PEERS,
    NO_COCLUSTER,
    PATTERN,
    PEERS,
    TASTE,
    Reason,
    count_named,
)

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Group(NamedTuple):
    """The users of a co-cluster who have some of a user's purchases in it, most first, then by strength."""

    owned_items: list[int]
    users: NDArray[np.int64]
    strengths: NDArray[np.float32]
    likeness: Floats  # purchases in common × Jaccard similarity of all purchases


class Reasons:
    """
    The reasons for any item to one user. Groups are cached: the items recommended to a user share them.

    `strengths` (f_u by co-cluster) and `owned` belong to a user of the model, then given as `user`, or to a new one.

    Similar users come in the order of likeness: the number of named purchases they share with the user, times the
    Jaccard similarity |A ∩ B| / |A ∪ B| of everything the two have bought. The first few are then clients of about the
    same size with the same tastes, not the largest buyers, who have a little in common with everybody.
    """

    def __init__(
        self,
        strengths: dict[int, float],
        owned: NDArray[np.int32],
        evidence: Evidence,
        members: Members,
        interactions: Interactions,
        user: int | None = None,
        peers: sp.csr_array | None = None,
        taste: sp.csr_array | None = None,
        values: NDArray[np.int32] | None = None,
    ) -> None:
        self._strengths, self._members, self._evidence = strengths, members, evidence
        self._user_factors, self._item_factors = evidence.user_factors, evidence.item_factors
        self._peers = _column(peers) if peers is not None and peers.nnz else None
        self._taste = None if taste is None else taste.toarray()[0].astype(np.float64)
        self._values = None if values is None else values
        self._interactions, self._user = interactions, -1 if user is None else user
        self._owned = np.zeros(interactions.n_items, dtype=bool)
        self._owned[owned] = True
        self._counts = np.zeros(interactions.n_users, dtype=np.int32)  # zero between calls of the kernels
        columns = interactions.by_item
        self._jaccard = jaccard(columns.indptr, columns.indices, owned, interactions.by_user.degrees)
        self._groups: dict[tuple[int, int, bool], Group] = {}

    def find(self, item: int) -> tuple[list[Reason], Floats]:
        """
        Return a reason for each co-cluster that holds both, strongest first, and the weight of each client in them.

        Evidence comes from the members of a co-cluster; where none of them bears it out, from all with a trace of it.
        Similar are only those who have one of the purchases named. The weight of a client v who is named is
        Σ over the reasons of contribution · f_vc.
        """
        product, scale = self._products(item)
        bought, base_rate = self._buyers(item)
        reasons, related = [], np.zeros(self._interactions.n_users)
        for c in sorted(product, key=lambda c: (-product[c], c)):
            reasons.append(self._pattern_reason(c, item, product[c], bought, base_rate, related))
        further = (
            self._links(item, scale, bought, base_rate),
            self._peers_reason(item, scale, bought, base_rate),
            self._taste_reason(item, scale, base_rate),
            self._appeal_reason(item, scale, bought, base_rate),
        )
        for reason in further:
            if reason is not None:
                related[reason.similar_users] += reason.contribution * self._jaccard[reason.similar_users]
                reasons.append(reason)
        if any(reason is not None for reason in further):
            reasons.sort(key=lambda reason: -reason.contribution)
        return reasons, related

    def find_one(self, item: int, kind: str, c: int) -> Reason | None:
        """Return the reason of one kind, of a pattern with this number: one of those that `find` returns."""
        product, scale = self._products(item)
        bought, base_rate = self._buyers(item)
        if kind == PATTERN:
            related = np.zeros(self._interactions.n_users)
            return self._pattern_reason(c, item, product[c], bought, base_rate, related)
        if kind == TASTE:
            return self._taste_reason(item, scale, base_rate)
        find = {LINKS: self._links, PEERS: self._peers_reason, APPEAL: self._appeal_reason}[kind]
        return find(item, scale, bought, base_rate)

    def _products(self, item: int) -> tuple[dict[int, float], float]:
        """Return what each co-cluster that holds both adds, and the scale of the item."""
        f_i = memberships(self._item_factors, item)
        scale = 1.0 if self._evidence.config.is_patterns_only else float(self._evidence.item_scales[item])
        return {c: self._strengths[c] * f_i[c] * scale for c in self._strengths.keys() & f_i.keys()}, scale

    def _buyers(self, item: int) -> tuple[Mask, float]:
        """Return who bought the item, and the share of them among the other users."""
        n_users, in_model = self._interactions.n_users, self._user >= 0
        bought = np.zeros(n_users, dtype=bool)
        bought[self._interactions.by_item[item]] = True
        return bought, float(bought.sum() - (in_model and bought[self._user])) / max(n_users - in_model, 1)

    def _pattern_reason(
        self, c: int, item: int, contribution: float, bought: Mask, base_rate: float, related: Floats
    ) -> Reason:
        """Return the reason of a co-cluster; its buyers are added to `related`."""
        group = self._group(c, item, of_members=True)
        similar, others = split_buyers(group.users, group.strengths, group.likeness, bought, contribution, related)
        if not len(similar):
            group = self._group(c, item, of_members=False)
            similar, others = split_buyers(group.users, group.strengths, group.likeness, bought, contribution, related)
        return Reason(c, contribution, group.owned_items, similar.tolist(), others.tolist(), base_rate)

    def _links(self, item: int, scale: float, bought: Mask, base_rate: float) -> Reason | None:
        """Return what the user's items add by their links: Σ_j α s_i S_ji."""
        alpha = self._evidence.config.links
        if not alpha:
            return None
        items, strengths = _column(self._evidence.links_by_item, item)
        held = self._owned[items]
        items, parts = items[held], alpha * scale * strengths[held].astype(np.float64)
        if not len(items):
            return None
        order = np.lexsort((items, -parts))
        items, parts = items[order], parts[order]
        named = items[: count_named(parts)].tolist()
        counts = [self._count(j, bought) for j in named]
        in_common = np.zeros(self._interactions.n_users, dtype=np.int64)
        for j in named:
            in_common[self._interactions.by_item[j]] += 1
        owners = self._others(self._interactions.by_item[named[0]])
        similar, others = owners[bought[owners]], owners[~bought[owners]]
        similar = similar[np.argsort(-in_common[similar] * self._jaccard[similar], kind="stable")]
        others = others[np.argsort(-in_common[others], kind="stable")]
        return Reason(
            NO_COCLUSTER, float(parts.sum()), items.tolist(), similar.tolist(), others.tolist(), base_rate, LINKS,
            parts.tolist(), counts,
        )  # fmt: skip

    def _peers_reason(self, item: int, scale: float, bought: Mask, base_rate: float) -> Reason | None:
        """Return what the user's peers with the item add: Σ_v β s_i T_vu."""
        if self._peers is None:
            return None
        peers, strengths = self._peers
        having = bought[peers]
        if not having.any():
            return None
        similar, parts = peers[having], self._evidence.config.peers * scale * strengths[having].astype(np.float64)
        others = peers[:MAX_PEERS][~having[:MAX_PEERS]]
        baskets = [self._interactions.by_user[int(v)] for v in similar[:MAX_PEERS]]
        shared = [basket[self._owned[basket] & (basket != item)] for basket in baskets]
        in_common = [len(items) for items in shared]
        items, places = np.unique(np.concatenate(shared), return_inverse=True)
        held_up = np.bincount(places, weights=np.repeat(parts[:MAX_PEERS], in_common), minlength=len(items))
        items = items[np.argsort(-held_up, kind="stable")]
        return Reason(
            NO_COCLUSTER, float(parts.sum()), items.tolist(), similar.tolist(), others.tolist(), base_rate, PEERS,
            parts.tolist(), in_common=in_common, n_peers=min(len(peers), MAX_PEERS),
        )  # fmt: skip

    def _taste_reason(self, item: int, scale: float, base_rate: float) -> Reason | None:
        """Return what the user's taste for the item's attributes adds: Σ_a γ s_i B_ua."""
        features = self._evidence.item_features
        if features is None or self._taste is None:
            return None
        mine = features.rows[item]
        values, parts = _positive(mine, self._evidence.config.taste * scale * self._taste[mine])
        if not len(values):
            return None
        with_value = features.holders[values[0]]
        owned = with_value[self._owned[with_value] & (with_value != item)]
        owned = owned[np.argsort(-self._interactions.by_item.degrees[owned], kind="stable")]
        n_all = int(self._owned.sum()) - int(self._owned[item])
        return Reason(
            NO_COCLUSTER, float(parts.sum()), owned.tolist(), [], [], base_rate, TASTE, parts.tolist(),
            n_purchases=n_all, **_named(features, values),
        )  # fmt: skip

    def _appeal_reason(self, item: int, scale: float, bought: Mask, base_rate: float) -> Reason | None:
        """Return what the item's appeal to the user's attributes adds: Σ_a δ s_i C_ai."""
        features, appeal = self._evidence.user_features, self._evidence.appeal_by_item
        if features is None or appeal is None or self._values is None:
            return None
        strengths = np.zeros(len(features))
        span = slice(appeal.indptr[item], appeal.indptr[item + 1])
        strengths[appeal.indices[span]] = appeal.data[span]
        values, parts = _positive(self._values, self._evidence.config.appeal * scale * strengths[self._values])
        if not len(values):
            return None
        group = self._others(features.holders[values[0]])
        similar, others = group[bought[group]], group[~bought[group]]
        similar = similar[np.argsort(-self._jaccard[similar], kind="stable")]
        return Reason(
            NO_COCLUSTER, float(parts.sum()), [], similar.tolist(), others.tolist(), base_rate, APPEAL, parts.tolist(),
            **_named(features, values),
        )  # fmt: skip

    def _others(self, users: NDArray[np.int32]) -> NDArray[np.int64]:
        others: NDArray[np.int64] = users[users != self._user].astype(np.int64)
        return others

    def _count(self, owned_item: int, bought: Mask) -> tuple[int, int]:
        """Return how many other users have an item and bought the recommended one too, and how many have it."""
        users = self._others(self._interactions.by_item[owned_item])
        return int(bought[users].sum()), len(users)

    def _group(self, c: int, item: int, *, of_members: bool) -> Group:
        key = c, item if self._owned[item] else -1, of_members  # a purchase is no evidence for itself
        if key not in self._groups:
            items = self._members.items_of(c)[0]
            owned = items[self._owned[items] & (items != item)]
            if not len(owned):
                items, _ = _strongest(self._item_factors, c)
                owned = items[self._owned[items] & (items != item)]
            users, strengths = self._members.users_of(c) if of_members else _strongest(self._user_factors, c)
            columns = self._interactions.by_item
            places, common = count_in_common(users, columns.indptr, columns.indices, owned, self._user, self._counts)
            users = users[places]
            self._groups[key] = Group(owned.tolist(), users, strengths[places], common * self._jaccard[users])
        return self._groups[key]


def _positive(values: NDArray[np.int32], parts: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the values that add something and what they add, largest first."""
    order = np.lexsort((values, -parts))[: int((parts > 0).sum())]
    return values[order].astype(np.int64), parts[order]


def _named(features: Features, values: NDArray[np.int64]) -> dict[str, Any]:
    """Return what a reason keeps of the values of attributes behind it."""
    names = [features.names[value] for value in values[:MAX_NAMED].tolist()]
    return {"values": values.tolist(), "value_names": names, "adjective": features.adjective(int(values[0]))}


def memberships(factors: sp.csr_array, r: int) -> dict[int, float]:
    """Return the strengths of a row by co-cluster."""
    span = slice(factors.indptr[r], factors.indptr[r + 1])
    return dict(zip(factors.indices[span].tolist(), factors.data[span].tolist(), strict=True))


def _column(table: sp.csc_array | sp.csr_array, column: int = 0) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the rows and values of a column, largest first."""
    table = table.tocsc()
    span = slice(table.indptr[column], table.indptr[column + 1])
    rows, values = table.indices[span].astype(np.int64), table.data[span]
    order = np.lexsort((rows, -values))
    return rows[order], values[order]


def _strongest(factors: sp.csr_array, c: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return all rows with any strength in c, and their strengths, strongest first."""
    places = np.flatnonzero(factors.indices == c)
    rows, strengths = np.searchsorted(factors.indptr, places, side="right") - 1, factors.data[places]
    order = np.argsort(-strengths, kind="stable")[: int((strengths > 0).sum())]
    return rows[order].astype(np.int64), strengths[order]
