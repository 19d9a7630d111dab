"""Why an item is recommended to a user: all kinds of evidence that cause it, taken from the model itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.explain import wording
from ocular.explain.calibration import HitRate
from ocular.explain.names import MAX_EXAMPLES
from ocular.explain.price import PriceEstimate
from ocular.explain.pulls import Pulls

MAX_REASONS = 3  # that a text shows
MIN_SHARE = 0.1  # of the affinity that a reason must carry to be shown
MAX_NAMES = 50  # of each kind that a reason lists as JSON: a group may have thousands
KINDS = PATTERN, LINKS, PEERS, TASTE, APPEAL = "pattern", "links", "peers", "taste", "appeal"  # of reasons
# to check: counts of buyers, then a group of clients, then a few clients
EASIEST_FIRST = (LINKS, PATTERN, PEERS, TASTE, APPEAL)
NO_COCLUSTER = -1
MAX_NAMED = 5  # products that a links reason names …
NAMED_SHARE = 0.9  # … as long as those before carry less of it than this
MAX_PEERS = 10  # most similar clients of whom those with the item are counted


@dataclass(frozen=True, repr=False)
class Reason:
    """
    What one co-cluster, the links of a user's items, their peers, their taste for attributes of the item or its appeal
    to theirs add to an affinity, with those who bear it out.

    The group of a pattern are its users with some of the owned items, that of links the users with the first owned
    item, that of peers the most similar users, that of appeal the users with the first value; this user is in none of
    them, and taste has none. `similar_users` of peers are all who bought the item, `buyers` those of them who are in
    the group.
    """

    cocluster: int  # NO_COCLUSTER for all but patterns
    contribution: float  # to z, weighted and scaled as in z
    owned_items: list[int]  # the user's purchases in this co-cluster, with these links or the first value
    similar_users: list[int]  # the group's users who bought the item, most alike first
    other_users: list[int] = field(default_factory=list)  # the group's users who did not, most in common first
    base_rate: float = 0.0  # share of all other users who bought the item
    kind: str = PATTERN
    parts: list[float] = field(default_factory=list)  # of the contribution, by owned item, user (peers) or value
    counts: list[tuple[int, int]] = field(default_factory=list)  # links: buyers of the item among owners, and owners
    in_common: list[int] = field(default_factory=list)  # peers: purchases in common with the first similar users
    n_peers: int = 0  # peers: how many of the most similar users are counted, `other_users` among them
    merged: list[Reason] = field(default_factory=list)  # reasons that say the same, part of the contribution
    values: list[int] = field(
        default_factory=list
    )  # taste and appeal: features of the item or the user, strongest first
    value_names: list[str] = field(default_factory=list)  # of the first of them: "family: Printing"
    adjective: str = ""  # of the first value: "Printing", as in "Printing products"
    n_purchases: int = 0  # taste: all of the user's, of which `owned_items` have the first value

    def __repr__(self) -> str:  # the lists may have thousands of entries
        evidence = f"{len(self.owned_items)} owned items, {len(self.buyers)} of {self.group} users bought it"
        name = f"{self.kind} {self.cocluster}" if self.kind == PATTERN else self.kind
        return f"Reason({name}, contribution {self.contribution:.3g}, {evidence})"

    @property
    def named_items(self) -> list[int]:
        """The owned items that a sentence on links names, or the first of a pattern; of peers all in common."""
        if self.kind in (PEERS, TASTE):
            return self.owned_items
        return self.owned_items[: len(self.counts) if self.kind == LINKS else MAX_EXAMPLES]

    @property
    def named_contribution(self) -> float:
        """The part of the contribution that a text shows: links by the items it names, the others as a whole."""
        if self.kind != LINKS:
            return self.contribution
        return sum(self.parts[: len(self.counts)]) + sum(reason.contribution for reason in self.merged)

    @property
    def n_unnamed(self) -> int:
        """How many owned items are worth mentioning without a name; 0 where those named carry most of the links."""
        enough = sum(self.parts[: len(self.counts)]) >= NAMED_SHARE * sum(self.parts) * (1 - 1e-9)
        return 0 if self.kind != LINKS or enough else len(self.owned_items) - len(self.counts)

    @property
    def buyers(self) -> list[int]:
        """The group's users who bought the item; of peers all who did where the most similar did not."""
        n_close = self.n_peers - len(self.other_users)
        return self.similar_users[:n_close] if self.kind == PEERS and n_close else self.similar_users

    @property
    def group(self) -> int:
        """The number of users in the group."""
        return len(self.buyers) + len(self.other_users)

    @property
    def rate(self) -> float:
        """The share of the group that bought the item."""
        return len(self.buyers) / max(self.group, 1)

    @property
    def is_telling(self) -> bool:
        """Whether the figures bear the reason out: of the group more bought the item than of all users."""
        return self.kind in (PATTERN, TASTE) or self.rate > self.base_rate

    @property
    def has_evidence(self) -> bool:
        """Whether there are purchases and clients to show for it; of taste purchases, of appeal clients."""
        owned, similar = bool(self.owned_items), bool(self.similar_users)
        return {TASTE: owned, APPEAL: similar}.get(self.kind, owned and similar)

    def says_the_same(self, other: Reason) -> bool:
        """
        Return whether this reason makes a sentence on one of another kind superfluous: both rest on the same items.

        A pattern and links do where the items that one of them names are all among those that the other names; peers
        do where all that these clients have in common with the user is named by the other reason. Attributes are named
        by no other reason.
        """
        if self.kind in (other.kind, PEERS) or {self.kind, other.kind} & {TASTE, APPEAL}:
            return False
        mine, others = set(self.named_items), set(other.named_items)
        return others <= mine or (other.kind != PEERS and mine <= others)

    def joined(self, other: Reason) -> Reason:
        """Return this reason with what another one adds that says the same."""
        return replace(self, contribution=self.contribution + other.contribution, merged=[*self.merged, other])


def count_named(parts: NDArray[np.float64]) -> int:
    """
    Return how many products of links to name, of the parts that they add, largest first.

    >>> count_named(np.array([5.0, 4.5, 0.5])), count_named(np.ones(40))
    (2, 5)
    """
    reached = np.cumsum(parts[:MAX_NAMED])
    return min(int(np.searchsorted(reached, NAMED_SHARE * parts.sum() * (1 - 1e-9))) + 1, len(reached))


@dataclass(frozen=True)
class ReasonSummary:
    """
    The reasons that are shown, strongest first, and how much of the affinity is left.

    Reasons that say the same are one. A links reason counts as shown with the products that it names, a pattern and
    peers with their contribution.
    """

    shown_reasons: list[Reason]
    affinity: float  # all of it: z
    n_hidden: int  # number of reasons that are not shown
    hidden_share: float  # of the affinity
    rest_share: float  # of the affinity that no reason explains: popularity and background

    @property
    def shown_share(self) -> float:
        """The share of the affinity that the text shows."""
        return 1 - self.hidden_share - self.rest_share


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
    pulls: Pulls | None = None  # of the user's purchases
    trend: float = 1.0  # recent demand over overall demand, where the model goes by it

    @property
    def client(self) -> Any:
        """The client's name as it is shown."""
        return "the client" if self.user is None else self.interactions.user_name(self.user)

    @property
    def product(self) -> Any:
        """The product's name as it is shown."""
        return self.interactions.item_name(self.item)

    def summary(self, max_reasons: int = MAX_REASONS) -> ReasonSummary:
        """
        Return at most so many reasons with evidence, each at least a tenth of the affinity (the first always).

        Links and peers whose figures would not convince anybody (see `Reason.is_telling`) are shown only where there is
        nothing else.
        """
        distinct = self._distinct_reasons()
        explained = sum(reason.contribution for reason in self.reasons)
        affinity = max(explained + self.base, 1e-12)
        enough = [reason.is_telling and reason.contribution >= MIN_SHARE * affinity for reason in distinct]
        strong = [n for n, is_enough in enumerate(enough) if n == 0 or is_enough]
        shown = [distinct[n] for n in strong[: max(1, max_reasons)]]
        without_evidence = sum(not reason.has_evidence for reason in self.reasons)
        hidden = explained - sum(reason.named_contribution for reason in shown)
        n_hidden = len(distinct) + without_evidence - len(shown)
        return ReasonSummary(shown, affinity, n_hidden, hidden / affinity, self.base / affinity)

    @property
    def strongest_reason(self) -> Reason | None:
        """The first reason that a text shows; None where no reason has evidence."""
        distinct = self._distinct_reasons()
        return distinct[0] if distinct else None

    @property
    def declined(self) -> tuple[int, int]:
        """How many clients in the group of a shown reason refused the item, and how many the group has: most first."""
        refused = self.interactions.by_item.refused
        if refused is None or not len(refused[self.item]):
            return 0, 0
        groups = [[*reason.buyers, *reason.other_users] for reason in self.summary().shown_reasons]
        counts = [(int(np.isin(refused[self.item], group).sum()), len(group)) for group in groups]
        return max(counts, key=lambda count: (count[0] / max(count[1], 1), count), default=(0, 0))

    def by_product(self) -> dict[int, float]:
        """
        Return the share of each owned item in what purchases add to the score, largest first; they sum to 1.

        What a link from item j adds belongs to j. What a co-cluster, a peer or a taste adds is divided among the
        purchases that hold it up, in proportion to their pull at the optimum: see `ocular.explain.pulls`. The item
        itself, where it is owned, is no evidence for itself. Appeal rests on attributes of the user, not on purchases,
        and does not count. Empty where there is no other reason, or nothing else is owned.
        """
        if self.pulls is None or all(reason.kind == APPEAL for reason in self.reasons):
            return {}
        links = [pair for r in self.reasons if r.kind == LINKS for pair in zip(r.owned_items, r.parts, strict=True)]
        peers = [pair for r in self.reasons if r.kind == PEERS for pair in zip(r.similar_users, r.parts, strict=True)]
        patterns = [(r.cocluster, r.contribution) for r in self.reasons if r.kind == PATTERN]
        taste = [pair for r in self.reasons if r.kind == TASTE for pair in zip(r.values, r.parts, strict=True)]
        return self.pulls.shares(self.item, patterns, links, peers, taste)

    def _distinct_reasons(self) -> list[Reason]:
        """Merge reasons that say the same; co-clusters do with the same purchases and the same clients."""
        named = [reason for reason in self.reasons if reason.has_evidence]
        sizes = Counter((len(reason.owned_items), len(reason.similar_users)) for reason in named)
        groups: dict[object, list[Reason]] = {}
        for reason in named:
            # where no other has as many of both, none has the same ones
            evidence: object = reason.kind, reason.cocluster
            if sizes[len(reason.owned_items), len(reason.similar_users)] > 1:
                evidence = reason.kind, frozenset(reason.owned_items), frozenset(reason.similar_users)
            groups.setdefault(evidence, []).append(reason)
        distinct: list[Reason] = []
        merged = [reduce(Reason.joined, same) for same in groups.values()]
        for reason in sorted(merged, key=lambda reason: (EASIEST_FIRST.index(reason.kind), -reason.contribution)):
            same = next((n for n, other in enumerate(distinct) if other.says_the_same(reason)), None)
            if same is None:
                distinct.append(reason)
            else:
                distinct[same] = distinct[same].joined(reason)
        return sorted(distinct, key=lambda reason: (not reason.is_telling, -reason.contribution))

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
        names = summary.affinity, show_clients, max_names
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
            "trend": self.trend,
            "declined": self.declined[0],
            "base": self.base,
            "shown_reasons": [self._reason_dict(reason, *names) for reason in summary.shown_reasons],
            "hidden_reasons": summary.n_hidden,
            "hidden_share": summary.hidden_share,
            "shown_share": summary.shown_share,
            "by_product": [
                {"product": self.interactions.item_name(item), "share": share}
                for item, share in list(self.by_product().items())[:max_names]
                if share > 0
            ],
            "reasons": [self._reason_dict(reason, *names) for reason in self.reasons],
            "text": self.text(show_clients=show_clients),
        }

    def _reason_dict(self, reason: Reason, affinity: float, show_clients: bool, max_names: int) -> dict[str, Any]:
        data = self.interactions
        similar = reason.similar_users[:max_names] if show_clients else []
        named = zip(reason.named_items, reason.counts, strict=False)  # no counts but of links
        return {
            "kind": reason.kind,
            "cocluster": None if reason.cocluster == NO_COCLUSTER else reason.cocluster,
            "contribution": reason.contribution,
            "share": reason.contribution / affinity,
            "owned_items": [data.item_name(i) for i in reason.owned_items[:max_names]],
            "owned": len(reason.owned_items),
            "similar_users": [data.user_name(u) for u in similar],
            "bought_by": len(reason.buyers),
            "group": reason.group,
            "rate": reason.rate,
            "base_rate": reason.base_rate,
            "attributes": reason.value_names,
            "links": [{"product": data.item_name(i), "bought_by": b, "owners": n} for i, (b, n) in named],
            "peers": [
                {"client": data.user_name(u), "in_common": n}
                for u, n in zip(similar, reason.in_common, strict=False)  # of the first similar users only
            ],
        }
