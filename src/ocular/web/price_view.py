"""The price benchmark of a recommendation: what similar clients paid, and what the family has for less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocular.advisor import Recommendation
from ocular.explain.names import product_name
from ocular.explain.price import SIMILAR
from ocular.web.registry import ServedModel

MAX_CHEAPER = 3
FAMILY = "family"  # an attribute of this name says which products replace each other


@dataclass(frozen=True)
class PriceStrip:
    """A distribution of prices that were paid, with its median and the range of 80%."""

    prices: list[float]  # ascending
    median: float
    low: float
    high: float
    purchases: int
    clients: int
    is_similar: bool  # paid by similar clients; otherwise by all buyers


@dataclass(frozen=True)
class CheaperProduct:
    """A product of the same family that costs less and that the client does not have."""

    product: str  # the label
    product_name: str
    price: float  # typical
    chance: float


def view_prices(recommendation: Recommendation) -> PriceStrip | None:
    """Return the distribution behind a price estimate; None where there is none."""
    price = recommendation.price
    if price is None:
        return None
    return PriceStrip(
        price.prices.tolist(), price.median, price.low, price.high, price.purchases, price.clients,
        price.basis == SIMILAR,
    )  # fmt: skip


def cheaper_products(served: ServedModel, user: int, item: int) -> list[CheaperProduct]:
    """Return products of the family with a lower typical price, the most likely first; none where it is not known."""
    data, values = served.interactions, served.opportunities.expected_values
    families = next((column for name, column in data.item_attributes.items() if name.casefold() == FAMILY), None)
    price = values.prices[item]
    if families is None or families[item] is None or not np.isfinite(price):
        return []
    model = served.advisor.model
    candidates = (np.asarray(families) == families[item]) & (values.prices < price) & ~model.excluded_items_
    candidates[data.by_user[user]] = False
    items = np.flatnonzero(candidates)
    scores = model.predict_proba(np.full(len(items), user), items) if len(items) else np.empty(0)
    best = items[np.argsort(-scores, kind="stable")[:MAX_CHEAPER]]
    chances = values.chances(np.sort(scores)[::-1][:MAX_CHEAPER])
    return [
        CheaperProduct(
            str(data.item_labels[i]), product_name(data.item_name(i)), float(values.prices[i]), float(chance)
        )
        for i, chance in zip(best.tolist(), chances, strict=True)
    ]
