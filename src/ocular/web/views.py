"""What pages and the API show of a model, with the names that the visitor may read and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.advisor import Recommendation
from ocular.data.interactions import Interactions
from ocular.explain.coclusters import CoCluster
from ocular.explain.names import client_name, listed, product_name
from ocular.explain.reasons import Explanation, Reason
from ocular.web.registry import Served

MATRIX_CLIENTS, MATRIX_PRODUCTS, MOST_NAMES = 12, 10, 50
HIDDEN = "a client"

Shown = NDArray[np.bool_]  # (n_users,) whose names may be read


@dataclass(frozen=True)
class Row:
    """A client of the evidence matrix: what they bought of its products."""

    name: str
    bought: list[bool]
    self: bool = False  # the client to whom the product is recommended


@dataclass(frozen=True)
class Matrix:
    """Clients × products of a reason; the last product is the recommended one."""

    products: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class ReasonView:
    pattern: int
    label: str
    share: float  # of the case
    owned: list[str]
    similar: list[str]  # names that may be read
    hidden: int  # similar clients whose names may not
    bought_by: int
    group: int
    matrix: Matrix


@dataclass(frozen=True)
class RecommendationView:
    client: str
    product: str
    confidence: float
    hit_rate: float | None
    hit_rate_of: int | None
    price: float | None
    price_low: float | None
    price_high: float | None
    price_text: str | None
    value: float | None
    owned: bool
    why: str  # one line
    reasons: list[ReasonView]
    left_out: int
    left_out_share: float
    rest_share: float

    @property
    def pattern(self) -> int | None:
        return self.reasons[0].pattern if self.reasons else None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"pattern": self.pattern}


def show_recommendation(served: Served, found: Recommendation, shown: Shown) -> RecommendationView:
    explanation, price, observed = found.explanation, found.price, found.observed
    case = explanation.case()
    reasons = [show_reason(served, explanation, reason, case.affinity, shown) for reason in case.told]
    return RecommendationView(
        str(found.client), str(found.product), found.confidence,
        None if observed is None else observed.rate, None if observed is None else observed.recommendations,
        None if price is None else price.median, None if price is None else price.low,
        None if price is None else price.high, None if price is None else price.text(),
        found.value, explanation.owned, _one_line(reasons), reasons, case.left_out, case.left_out_share,
        case.rest_share,
    )  # fmt: skip


def show_reason(served: Served, explanation: Explanation, reason: Reason, affinity: float, shown: Shown) -> ReasonView:
    history, pattern = explanation.interactions, served.patterns.get(reason.cocluster)
    similar = [u for u in reason.similar_users if shown[u]]
    return ReasonView(
        reason.cocluster,
        f"pattern {reason.cocluster}" if pattern is None else pattern.label,
        reason.contribution / affinity,
        [product_name(history.item_labels[i]) for i in reason.owned_items[:MOST_NAMES]],
        [client_name(history.user_labels[u]) for u in similar[:MOST_NAMES]],
        len(reason.similar_users) - len(similar),
        len(reason.similar_users),
        reason.group,
        _matrix(explanation, reason, shown),
    )


def _one_line(reasons: Sequence[ReasonView]) -> str:
    if not reasons:
        return "No pattern speaks for it: this is what popularity alone gives."
    first = reasons[0]
    return (
        f"Has {listed(first.owned, 'Item')}; {first.bought_by:,} of the {first.group:,} clients "
        "with a similar history also bought it."
    )


def _matrix(explanation: Explanation, reason: Reason, shown: Shown) -> Matrix:
    """Those with readable names first: a square says more with a name beside it."""
    history = explanation.interactions
    items = [*reason.owned_items[:MATRIX_PRODUCTS], explanation.item]
    similar = sorted(reason.similar_users, key=lambda u: not shown[u])[:MATRIX_CLIENTS]
    has = set(explanation.client_items.tolist())
    own = Row(client_name(explanation.client), [i in has for i in items], self=True)
    rows = [Row(_name(history, u, shown), [i in bought for i in items]) for u in similar
            for bought in [set(history.by_user[u].tolist())]]  # fmt: skip
    return Matrix([product_name(history.item_labels[i]) for i in items], [own, *rows])


def _name(history: Interactions, user: int, shown: Shown) -> str:
    return client_name(history.user_labels[user]) if shown[user] else HIDDEN


@dataclass(frozen=True)
class PatternView:
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


def show_pattern(served: Served, pattern: CoCluster, shown: Shown, most: int = 5) -> PatternView:
    history = served.advisor.model.interactions_
    readable = pattern.users[shown[pattern.users]][:most]
    return PatternView(
        pattern.index, pattern.label, len(pattern.users), len(pattern.items), pattern.density, pattern.strength,
        pattern.share, [product_name(history.item_labels[i]) for i in pattern.items[:most]],
        [client_name(history.user_labels[u]) for u in readable], [str(trait) for trait in pattern.traits],
        [(o.cocluster, served.patterns[o.cocluster].label) for o in pattern.overlaps if o.cocluster in served.patterns],
    )  # fmt: skip
