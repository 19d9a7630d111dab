"""Why an item is recommended to a user: the patterns, links and peers that cause it, taken from the model itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.evidence import Evidence
from ocular.explain import wording
from ocular.explain.calibration import HitRate
from ocular.explain.coclusters import Members
from ocular.explain.counting import count_in_common, jaccard, split_buyers
from ocular.explain.price import PriceEstimate

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MAX_REASONS = 3  # that a text shows
MIN_SHARE = 0.1  # of the affinity that a reason must carry to be shown
MAX_NAMES = 50  # of each kind that a reason lists as JSON: a group may have thousands
PATTERN, LINKS, PEERS = "pattern", "links", "peers"  # kinds of reasons
NO_COCLUSTER = -1
NAMED = 3  # products of links and clients of peers that a reason names
MAX_PEERS = 10  # most similar clients of whom those with the item are counted


@dataclass(frozen=True, repr=False)
class Reason:
    """
    What one co-cluster, the links of a user's items, or their peers add to an affinity, with those who bear it out.

    The group of a pattern are its users with some of the owned items, that of links the users with the first owned
    item, that of peers the most similar users; this user is in none of them.
    """

    cocluster: int  # NO_COCLUSTER for links and peers
    contribution: float  # to z, weighted and scaled as in z
    owned_items: list[int]  # the user's purchases in this co-cluster or with these links, strongest first
    similar_users: list[int]  # the group's users who bought the item, most alike first
    other_users: list[int] = field(default_factory=list)  # the group's users who did not, most in common first
    base_rate: float = 0.0  # share of all other users who bought the item
    kind: str = PATTERN
    parts: list[float] = field(default_factory=list)  # of the contribution, by owned item (links) or user (peers)
    counts: list[tuple[int, int]] = field(default_factory=list)  # links: buyers of the item among owners, and owners
    in_common: list[int] = field(default_factory=list)  # peers: purchases in common with the first similar users
    n_peers: int = 0  # peers: how many of the most similar users are counted, `other_users` among them

    def __repr__(self) -> str:  # the lists may have thousands of entries
        evidence = f"{len(self.owned_items)} owned items, {len(self.similar_users)} of {self.group} users bought it"
        name = f"{self.kind} {self.cocluster}" if self.kind == PATTERN else self.kind
        return f"Reason({name}, contribution {self.contribution:.3g}, {evidence})"

    @property
    def named_contribution(self) -> float:
        """The part of the contribution that a text shows: links by the items it names, the others as a whole."""
        return sum(self.parts[:NAMED]) if self.kind == LINKS else self.contribution

    @property
    def group(self) -> int:
        """The number of users in the group."""
        return len(self.similar_users) + len(self.other_users)

    @property
    def rate(self) -> float:
        """The share of the group that bought the item."""
        return len(self.similar_users) / max(self.group, 1)


@dataclass(frozen=True)
class ReasonSummary:
    """The reasons that are shown, strongest first and equal ones merged, and how much of the affinity is left."""

    shown_reasons: list[Reason]
    affinity: float  # all of it: z
    n_hidden: int  # number of reasons that are not shown
    hidden_share: float  # of the affinity
    rest_share: float  # of the affinity that no reason explains: popularity and background


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """
    Why an item has its probability for a user.

    Contributions of the reasons sum to z − base, where `base` are biases and background; z gives the confidence.
    """

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
        """The client's name as it is shown."""
        return "the client" if self.user is None else self.interactions.user_name(self.user)

    @property
    def product(self) -> Any:
        """The product's name as it is shown."""
        return self.interactions.item_name(self.item)

    def summary(self, max_reasons: int = MAX_REASONS) -> ReasonSummary:
        """Return at most so many reasons with evidence, each at least a tenth of the affinity (the first always)."""
        distinct = self._distinct_reasons()
        explained = sum(reason.contribution for reason in self.reasons)
        affinity = max(explained + self.base, 1e-12)
        strong = [n for n, reason in enumerate(distinct) if n == 0 or reason.contribution >= MIN_SHARE * affinity]
        shown = [distinct[n] for n in strong[: max(1, max_reasons)]]
        without_evidence = sum(not (reason.owned_items and reason.similar_users) for reason in self.reasons)
        hidden = explained - sum(reason.named_contribution for reason in shown)
        n_hidden = len(distinct) + without_evidence - len(shown)
        return ReasonSummary(shown, affinity, n_hidden, hidden / affinity, self.base / affinity)

    @property
    def strongest_reason(self) -> Reason | None:
        """The first reason that a text shows; None where no reason has evidence."""
        distinct = self._distinct_reasons()
        return distinct[0] if distinct else None

    def _distinct_reasons(self) -> list[Reason]:
        """Merge co-clusters with the same purchases and the same clients: to a reader they are one reason."""
        named = [reason for reason in self.reasons if reason.owned_items and reason.similar_users]
        sizes = Counter((len(reason.owned_items), len(reason.similar_users)) for reason in named)
        groups: dict[object, list[Reason]] = {}
        for reason in named:
            # where no other has as many of both, none has the same ones
            evidence: object = reason.kind, reason.cocluster
            if sizes[len(reason.owned_items), len(reason.similar_users)] > 1:
                evidence = frozenset(reason.owned_items), frozenset(reason.similar_users)
            groups.setdefault(evidence, []).append(reason)
        merged = [replace(same[0], contribution=sum(r.contribution for r in same)) for same in groups.values()]
        return sorted(merged, key=lambda reason: -reason.contribution)

    def __repr__(self) -> str:
        pair = f"{self.product!r} for {self.client!r}"
        return f"Explanation({pair}, confidence {self.confidence:.2g}, {len(self.reasons)} reasons)"

    def _repr_html_(self) -> str:
        return self.to_html()

    def text(self, max_reasons: int = MAX_REASONS, *, show_clients: bool = True) -> str:
        """Return the rationale in words; `show_clients=False` names no other client."""
        return wording.text(self, max_reasons, show_clients)

    def to_markdown(self, max_reasons: int = MAX_REASONS, *, show_clients: bool = True) -> str:
        """Return the rationale as Markdown."""
        return wording.markdown(self, max_reasons, show_clients)

    def to_html(self, max_reasons: int = MAX_REASONS, *, show_clients: bool = True) -> str:
        """Return the rationale as a fragment: <div class="ocular-explanation">…</div>."""
        return wording.html(self, max_reasons, show_clients)

    def to_dict(self, *, show_clients: bool = True, max_names: int = MAX_NAMES) -> dict[str, Any]:
        """Return plain values with names for JSON; `shown_reasons` are those of the text, `reasons` are all."""
        summary, price, observed = self.summary(), self.price, self.observed
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
            "shown_reasons": [self._reason_dict(reason, show_clients, max_names) for reason in summary.shown_reasons],
            "hidden_reasons": summary.n_hidden,
            "hidden_share": summary.hidden_share,
            "reasons": [self._reason_dict(reason, show_clients, max_names) for reason in self.reasons],
            "text": self.text(show_clients=show_clients),
        }

    def _reason_dict(self, reason: Reason, show_clients: bool, max_names: int) -> dict[str, Any]:
        data = self.interactions
        similar = reason.similar_users[:max_names] if show_clients else []
        return {
            "kind": reason.kind,
            "cocluster": None if reason.cocluster == NO_COCLUSTER else reason.cocluster,
            "contribution": reason.contribution,
            "owned_items": [data.item_name(i) for i in reason.owned_items[:max_names]],
            "owned": len(reason.owned_items),
            "similar_users": [data.user_name(u) for u in similar],
            "bought_by": len(reason.similar_users),
            "group": reason.group,
            "rate": reason.rate,
            "base_rate": reason.base_rate,
        }


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
    ) -> None:
        self._strengths, self._members, self._evidence = strengths, members, evidence
        self._user_factors, self._item_factors = evidence.user_factors, evidence.item_factors
        self._peers = _column(peers) if peers is not None and peers.nnz else None
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
        f_i, n_users = memberships(self._item_factors, item), self._interactions.n_users
        scale = 1.0 if self._evidence.config.is_patterns_only else float(self._evidence.item_scales[item])
        product = {c: self._strengths[c] * f_i[c] * scale for c in self._strengths.keys() & f_i.keys()}
        bought = np.zeros(n_users, dtype=bool)
        bought[self._interactions.by_item[item]] = True
        in_model = self._user >= 0
        base_rate = float(bought.sum() - (in_model and bought[self._user])) / max(n_users - in_model, 1)
        reasons, related = [], np.zeros(n_users)
        for c in sorted(product, key=lambda c: (-product[c], c)):
            group = self._group(c, item, of_members=True)
            similar, others = split_buyers(group.users, group.strengths, group.likeness, bought, product[c], related)
            if not len(similar):
                group = self._group(c, item, of_members=False)
                similar, others = split_buyers(
                    group.users, group.strengths, group.likeness, bought, product[c], related
                )
            reasons.append(Reason(c, product[c], group.owned_items, similar.tolist(), others.tolist(), base_rate))
        further = self._links(item, scale, bought, base_rate), self._peers_reason(item, scale, bought, base_rate)
        for reason in further:
            if reason is not None:
                related[reason.similar_users] += reason.contribution * self._jaccard[reason.similar_users]
                reasons.append(reason)
        if any(reason is not None for reason in further):
            reasons.sort(key=lambda reason: -reason.contribution)
        return reasons, related

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
        counts = [self._count(int(j), bought) for j in items[:NAMED]]
        owners = self._others(self._interactions.by_item[int(items[0])])
        similar, others = owners[bought[owners]], owners[~bought[owners]]
        similar = similar[np.argsort(-self._jaccard[similar], kind="stable")]
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
        owned = np.flatnonzero(self._owned)
        held = [np.isin(self._interactions.by_user[int(v)], owned) for v in similar[:MAX_PEERS]]
        shared = np.concatenate([self._interactions.by_user[int(v)][h] for v, h in zip(similar, held, strict=False)])
        items = np.unique(shared[shared != item])
        return Reason(
            NO_COCLUSTER, float(parts.sum()), items.tolist(), similar.tolist(), others.tolist(), base_rate, PEERS,
            parts.tolist(), in_common=[int(h.sum()) for h in held], n_peers=min(len(peers), MAX_PEERS),
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
