"""What pages and the API show of a model, with the names that the visitor may read and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.advisor import Recommendation
from ocular.data.interactions import Interactions
from ocular.explain import wording
from ocular.explain.coclusters import CoCluster
from ocular.explain.names import client_name, isolated, joined, percent, product_name, quoted
from ocular.explain.reasons import APPEAL, LINKS, PATTERN, PEERS, Explanation, Reason
from ocular.web.registry import KIND_LABELS, ServedModel

MATRIX_CLIENTS, MATRIX_OTHERS, MATRIX_PRODUCTS = 12, 4, 10
MAX_NAMES, MAX_NAMES_IN_SENTENCE, NAMED_IN_PITCH = 50, 3, 2
MIN_SHOWN_SHARE = 0.005  # of the score, in a chart
HIDDEN_NAME = "a client"
NO_REASON = "Based on overall popularity."

Readable = NDArray[np.bool_]  # (n_users,) whose names the visitor may read


@dataclass(frozen=True)
class MatrixRow:
    """A client of the evidence matrix, and which of its products they bought."""

    name: str
    bought: list[bool]
    self: bool = False  # the client to whom the product is recommended


@dataclass(frozen=True)
class Matrix:
    """The clients and products of a reason; the last product is the recommended one."""

    products: list[str]
    rows: list[MatrixRow]


@dataclass(frozen=True)
class LinkView:
    """A product that the client owns, and how many of its other owners bought the recommended one."""

    product: str
    bought_by: int
    owners: int


@dataclass(frozen=True)
class PeerView:
    """A similar client who bought the product, and the number of products that both have."""

    client: str
    in_common: int


@dataclass(frozen=True)
class ReasonView:
    """A reason for a recommendation, with its evidence."""

    kind: str  # "pattern", "links", "peers", "taste" or "appeal"
    kind_label: str  # the kind as people read it
    pattern: int | None  # None for the other kinds
    label: str  # of the pattern, or of the kind
    sentence: str  # names only the clients whose names may be read
    pitch: str  # the same in a line for a list: names no client
    contribution: float  # to the affinity
    share: float  # of the affinity
    owned_products: list[str]  # the first of them
    n_owned_products: int
    similar_clients: list[str]  # those who bought the product, as far as their names may be read
    n_hidden_clients: int  # similar clients whose names may not be read
    links: list[LinkView]  # of links only
    peers: list[PeerView]  # of peers only, as far as their names may be read
    bought_by: int  # clients of the group
    group: int  # without this one: the pattern's with some of the owned products, owners of the first, or most similar
    base_rate: float  # share of all other clients who bought the product
    matrix: Matrix | None


@dataclass(frozen=True)
class EvidenceShare:
    """The part of the score that one kind of evidence carries."""

    kind: str  # as of reasons, "minor" for those that are not shown, or "popularity"
    label: str
    share: float


@dataclass(frozen=True)
class RecommendationView:
    """A recommendation as a page or the API shows it."""

    client: str  # the label
    client_name: str
    product: str  # the label
    product_name: str
    confidence: float
    chance: float  # to buy: the hit rate, or the confidence without a back-test
    hit_rate: float | None
    hit_rate_of: int | None
    price: float | None  # by similar clients
    price_low: float | None
    price_high: float | None
    price_text: str | None
    currency: str
    typical_price: float | None
    typical_quantity: float
    value: float | None  # expected value, as in lists; None for what the client has
    owned: bool
    strongest_reason: str  # one sentence
    reasons: list[ReasonView]
    hidden_reasons: int
    shown_share: float
    hidden_share: float
    rest_share: float

    @property
    def kind(self) -> str | None:
        """The kind of the strongest reason."""
        return self.reasons[0].kind if self.reasons else None

    @property
    def pattern(self) -> int | None:
        """The number of the pattern of the strongest reason."""
        return self.reasons[0].pattern if self.reasons else None

    @property
    def evidence_shares(self) -> list[EvidenceShare]:
        """The parts of the score by kind of evidence, strongest first, then what has no reason of its own."""
        by_kind: dict[str, float] = {}
        for reason in self.reasons:
            by_kind[reason.kind] = by_kind.get(reason.kind, 0.0) + reason.share
        labels = KIND_LABELS | {PATTERN: "Patterns"}
        shares = [EvidenceShare(kind, labels[kind], share) for kind, share in by_kind.items()]
        shares.sort(key=lambda one: -one.share)
        popularity = max(self.rest_share, 0.0)
        minor = 1 - sum(by_kind.values()) - popularity
        rest = [EvidenceShare("minor", "Minor reasons", minor), EvidenceShare("popularity", "Popularity", popularity)]
        return [*shares, *(one for one in rest if one.share >= MIN_SHOWN_SHARE)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, amounts in cents."""
        names = ("price", "price_low", "price_high", "typical_price", "value")
        amounts = {name: _cents(getattr(self, name)) for name in names}
        return asdict(self) | amounts | {"kind": self.kind, "pattern": self.pattern}


def view_recommendation(
    served: ServedModel, recommendation: Recommendation, readable: Readable, *, evidence: bool = True
) -> RecommendationView:
    """Return the view of a recommendation; `evidence` adds the matrix of each reason and many names."""
    explanation, price, observed = recommendation.explanation, recommendation.price, recommendation.observed
    summary, interactions, item = explanation.summary(), explanation.interactions, explanation.item
    reasons = [
        _view_reason(served, explanation, reason, summary.affinity, readable, evidence)
        for reason in summary.shown_reasons
    ]
    values = served.opportunities.expected_values
    return RecommendationView(
        client=served.client_of(recommendation),
        client_name=_client_name(explanation),
        product=served.product_of(recommendation),
        product_name=product_name(interactions.item_name(item)),
        confidence=recommendation.confidence,
        chance=recommendation.chance,
        hit_rate=None if observed is None else observed.rate,
        hit_rate_of=None if observed is None else observed.recommendations,
        price=None if price is None else price.median,
        price_low=None if price is None else price.low,
        price_high=None if price is None else price.high,
        price_text=None if price is None else price.text(),
        currency=interactions.currency,
        typical_price=float(values.prices[item]) if np.isfinite(values.prices[item]) else None,
        typical_quantity=float(values.quantities[item]),
        value=None if explanation.owned else values.value(item, recommendation.confidence),
        owned=explanation.owned,
        strongest_reason=reasons[0].pitch if reasons else NO_REASON,
        reasons=reasons,
        hidden_reasons=summary.n_hidden,
        shown_share=summary.shown_share,
        hidden_share=summary.hidden_share,
        rest_share=summary.rest_share,
    )


def _cents(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 2)


def _view_reason(
    served: ServedModel, explanation: Explanation, reason: Reason, affinity: float, readable: Readable, evidence: bool
) -> ReasonView:
    interactions, max_names = explanation.interactions, MAX_NAMES if evidence else MAX_NAMES_IN_SENTENCE
    similar = np.array(reason.buyers, dtype=np.int64)
    named = similar[readable[similar]]
    pattern, label = served.reason_label(reason)
    counted = zip(reason.named_items, reason.counts, strict=False)  # links only
    peers = [(user, n) for user, n in zip(reason.buyers, reason.in_common, strict=False) if readable[user]]
    return ReasonView(
        kind=reason.kind,
        kind_label=KIND_LABELS[reason.kind],
        pattern=pattern,
        label=label,
        sentence=_sentence(explanation, reason, readable),
        pitch=pitch_reason(interactions, _client_name(explanation), reason),
        contribution=reason.contribution,
        share=reason.contribution / affinity,
        owned_products=[product_name(interactions.item_name(i)) for i in reason.owned_items[:max_names]],
        n_owned_products=len(reason.owned_items),
        similar_clients=[client_name(interactions.user_name(u)) for u in named[:max_names].tolist()],
        n_hidden_clients=len(similar) - len(named),
        links=[LinkView(product_name(interactions.item_name(i)), both, owners) for i, (both, owners) in counted],
        peers=[PeerView(client_name(interactions.user_name(user)), n) for user, n in peers],
        bought_by=len(reason.buyers),
        group=reason.group,
        base_rate=reason.base_rate,
        matrix=_matrix(explanation, reason, readable) if evidence else None,
    )


def _sentence(explanation: Explanation, reason: Reason, readable: Readable) -> str:
    """Return a reason in a sentence or two; of a pattern without the names of its clients."""
    if reason.kind != PATTERN:
        return wording.sentence(explanation, reason, lambda user: bool(readable[user]))
    return pitch_reason(explanation.interactions, _client_name(explanation), reason)


def pitch_reason(interactions: Interactions, client: str, reason: Reason) -> str:
    """Return a reason as a seller would say it in a line: how many similar clients bought this."""
    if reason.kind == PEERS:
        return f"{wording.similar_owners(reason)} {'owns' if len(reason.buyers) == 1 else 'own'} this.".capitalize()
    if reason.kind == APPEAL:
        return wording.appeal_sentence("this", reason.adjective, reason.rate, reason.base_rate)
    if reason.kind not in (PATTERN, LINKS):
        numbers = len(reason.owned_items), reason.n_purchases
        return wording.taste_sentence(isolated(quoted(client)), isolated(quoted(reason.adjective)), *numbers)
    named = [product_name(interactions.item_name(i)) for i in reason.named_items[:NAMED_IN_PITCH]]
    if reason.kind == LINKS:
        both, owners = reason.counts[0]
        rates = f"{percent(both / owners)}; {percent(reason.base_rate)} of all clients"
        return f"{both:,} of {owners:,} clients who own {named[0]} bought this ({rates})."
    more = len(reason.owned_items) - len(named)
    owned = joined([*named, f"{more:,} more"] if more else named)
    return f"Owns {owned}. {len(reason.buyers):,} of {reason.group:,} similar clients bought this."


def _matrix(explanation: Explanation, reason: Reason, readable: Readable) -> Matrix:
    """
    Return some of the group who bought the product, then some who did not, as many as there are rows to fill.

    Those with readable names come first, since a square says more with a name beside it.
    """
    interactions = explanation.interactions
    owned = reason.named_items if reason.kind == LINKS else reason.owned_items
    items = [*owned[:MATRIX_PRODUCTS], explanation.item]
    own = MatrixRow(_client_name(explanation), _bought(explanation.client_items, items), self=True)
    buyers, others = reason.buyers, reason.other_users
    n_others = max(MATRIX_CLIENTS - len(buyers), min(len(others), MATRIX_OTHERS))
    users = [
        *_readable_first(buyers, readable)[: MATRIX_CLIENTS - n_others],
        *_readable_first(others, readable)[:n_others],
    ]
    rows = [MatrixRow(_name(interactions, u, readable), _bought(interactions.by_user[u], items)) for u in users]
    return Matrix([product_name(interactions.item_name(i)) for i in items], [own, *rows])


def _readable_first(users: Sequence[int], readable: Readable) -> list[int]:
    rows = np.asarray(users, dtype=np.int64)  # of thousands only a few are shown
    return [*rows[readable[rows]][:MATRIX_CLIENTS].tolist(), *rows[~readable[rows]][:MATRIX_CLIENTS].tolist()]


def _bought(owned_items: NDArray[np.int32], items: Sequence[int]) -> list[bool]:
    owned = set(owned_items.tolist())
    return [item in owned for item in items]


def _client_name(explanation: Explanation) -> str:
    if explanation.user is None:
        return "the client"
    return client_name(explanation.interactions.user_name(explanation.user))


def _name(interactions: Interactions, user: int, readable: Readable) -> str:
    return client_name(interactions.user_name(user)) if readable[user] else HIDDEN_NAME


@dataclass(frozen=True)
class PatternView:
    """A buying pattern as a page or the API shows it."""

    number: int
    label: str
    clients: int
    products: int
    density: float
    strength: float
    share: float
    typical_products: list[str]
    typical_clients: list[str]  # names that may be read
    traits: list[str]
    overlaps: list[tuple[int, str]]


def view_pattern(served: ServedModel, pattern: CoCluster, readable: Readable, max_names: int = 5) -> PatternView:
    """Return the view of a pattern with the first names of its products and clients."""
    interactions = served.interactions
    named = pattern.users[readable[pattern.users]][:max_names]
    return PatternView(
        number=pattern.index,
        label=served.pattern_label(pattern.index),
        clients=len(pattern.users),
        products=len(pattern.items),
        density=pattern.density,
        strength=pattern.strength,
        share=pattern.share,
        typical_products=[product_name(interactions.item_name(i)) for i in pattern.items[:max_names].tolist()],
        typical_clients=[client_name(interactions.user_name(u)) for u in named.tolist()],
        traits=[str(trait) for trait in pattern.traits],
        overlaps=[
            (overlap.cocluster, served.pattern_label(overlap.cocluster))
            for overlap in pattern.overlaps
            if overlap.cocluster in served.patterns
        ],
    )
