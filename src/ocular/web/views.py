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
from ocular.explain.names import client_name, product_name
from ocular.explain.reasons import Explanation, Reason
from ocular.web.registry import Served

MATRIX_CLIENTS, MATRIX_OTHERS, MATRIX_PRODUCTS, MOST_NAMES, FEW_NAMES = 12, 4, 10, 50, 3
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
    owned: list[str]  # the first of them
    n_owned: int
    similar: list[str]  # names that may be read
    hidden: int  # similar clients whose names may not
    bought_by: int
    group: int
    matrix: Matrix | None


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
    currency: str
    value: float | None  # how often such come true × the usual price, as in lists; None for what the client has
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
        amounts = {name: _cents(getattr(self, name)) for name in ("price", "price_low", "price_high", "value")}
        return asdict(self) | amounts | {"pattern": self.pattern}


def show_recommendation(
    served: Served, found: Recommendation, shown: Shown, *, evidence: bool = True
) -> RecommendationView:
    """evidence: with the matrix of each reason and many names, as the page of one recommendation shows them."""
    explanation, price, observed = found.explanation, found.price, found.observed
    summary = explanation.summary()
    value = None if explanation.owned else served.opportunities.value(explanation.item, found.confidence)
    reasons = [
        show_reason(served, explanation, reason, summary.affinity, shown, evidence) for reason in summary.shown_reasons
    ]
    return RecommendationView(
        str(found.client), str(found.product), found.confidence,
        None if observed is None else observed.rate, None if observed is None else observed.recommendations,
        None if price is None else price.median, None if price is None else price.low,
        None if price is None else price.high, None if price is None else price.text(),
        explanation.interactions.currency, value, explanation.owned, _one_line(reasons), reasons, summary.n_hidden,
        summary.hidden_share, summary.rest_share,
    )  # fmt: skip


def _cents(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 2)


def show_reason(
    served: Served, explanation: Explanation, reason: Reason, affinity: float, shown: Shown, evidence: bool
) -> ReasonView:
    history = explanation.interactions
    similar, most = np.array(reason.similar_users, dtype=np.int64), MOST_NAMES if evidence else FEW_NAMES
    readable = similar[shown[similar]]
    return ReasonView(
        reason.cocluster,
        served.pattern_label(reason.cocluster),
        reason.contribution / affinity,
        [product_name(history.item_labels[i]) for i in reason.owned_items[:most]],
        len(reason.owned_items),
        [client_name(history.user_labels[u]) for u in readable[:most]],
        len(similar) - len(readable),
        len(similar),
        reason.group,
        _matrix(explanation, reason, served.patterns.get(reason.cocluster), shown) if evidence else None,
    )


def _one_line(reasons: Sequence[ReasonView]) -> str:
    if not reasons:
        return "No pattern speaks for it: this is what popularity alone gives."
    first = reasons[0]
    more = f" and {first.n_owned - FEW_NAMES:,} more" if first.n_owned > FEW_NAMES else ""
    return (
        f"Has {', '.join(first.owned[:FEW_NAMES])}{more}; {first.bought_by:,} of the {first.group:,} clients "
        "with a similar history also bought it."
    )


def _matrix(explanation: Explanation, reason: Reason, pattern: CoCluster | None, shown: Shown) -> Matrix:
    """
    Some of the group who bought the product, then some who did not, as many as there are rows to fill.

    Those with readable names come first, since a square says more with a name beside it.
    """
    history = explanation.interactions
    items = [*reason.owned_items[:MATRIX_PRODUCTS], explanation.item]
    own = Row(client_name(explanation.client), _bought(explanation.client_items, items), self=True)
    buyers = np.array(reason.similar_users, dtype=np.int64)
    others = _others(explanation, reason, pattern)
    few = max(MATRIX_CLIENTS - len(buyers), min(len(others), MATRIX_OTHERS))
    users = [*_readable_first(buyers, shown)[: MATRIX_CLIENTS - few], *_readable_first(others, shown)[:few]]
    rows = [Row(_name(history, u, shown), _bought(history.by_user[u], items)) for u in users]
    return Matrix([product_name(history.item_labels[i]) for i in items], [own, *rows])


def _others(explanation: Explanation, reason: Reason, pattern: CoCluster | None) -> NDArray[np.int64]:
    """Those of the group who did not buy the product, most purchases in common first."""
    if pattern is None:
        return np.empty(0, dtype=np.int64)
    history = explanation.interactions
    in_common = np.zeros(history.n_users, dtype=np.int64)
    for item in reason.owned_items:
        in_common[history.by_item[item]] += 1
    if explanation.user is not None:
        in_common[explanation.user] = 0
    group = pattern.users[in_common[pattern.users] > 0]
    if len(group) != reason.group:  # evidence that does not come from the members
        return np.empty(0, dtype=np.int64)
    in_common[history.by_item[explanation.item]] = 0
    others = group[in_common[group] > 0]
    return others[np.argsort(-in_common[others], kind="stable")]


def _readable_first(users: NDArray[np.int64], shown: Shown) -> list[int]:
    return [*users[shown[users]].tolist(), *users[~shown[users]].tolist()]


def _bought(has: NDArray[np.int32], items: Sequence[int]) -> list[bool]:
    owned = set(has.tolist())
    return [item in owned for item in items]


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
