"""
The value of a recommendation: the one definition of its expected value.

    expected value = chance to buy × typical price × typical quantity

The chance is how often recommendations like this one were bought (the model's probability where it was not
calibrated), the price is the rounded median of what all buyers of the product paid for a unit, and the quantity is the
median of an order, or 1 where fewer than MIN_CLIENTS clients tell theirs. A single price estimate by similar clients
would differ from page to page and could not be listed for everybody; it is shown beside the value, in
`ocular.explain.price`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.explain.calibration import Calibration, expected_rates
from ocular.explain.price import MIN_CLIENTS, round_prices

Floats = NDArray[np.float64]


class ExpectedValues:
    """Chances and values for recommendations of one model."""

    def __init__(self, interactions: Interactions, calibration: Calibration | None) -> None:
        self._calibration = calibration
        self.prices = typical_prices(interactions)  # (n_items,) nan where too few clients paid a known price
        self.quantities = typical_quantities(interactions)  # (n_items,) 1 where it is not known

    def chances(self, confidences: Floats) -> Floats:
        """Return how often recommendations of these confidences are bought."""
        return expected_rates(self._calibration, np.asarray(confidences, dtype=np.float64))

    def values(self, items: NDArray[np.integer], confidences: Floats) -> Floats:
        """Return the expected value of each recommendation; nan where the product has no typical price."""
        values: Floats = self.chances(confidences) * self.prices[items] * self.quantities[items]
        return values

    def value(self, item: int, confidence: float) -> float | None:
        """Return the expected value of one recommendation; None where the product has no typical price."""
        value = float(self.values(np.array([item]), np.array([confidence]))[0])
        return value if np.isfinite(value) else None


def typical_prices(interactions: Interactions) -> Floats:
    """Return (n_items,) the median price that was paid; nan where fewer than MIN_CLIENTS clients paid a known one."""
    prices, payments = np.full(interactions.n_items, np.nan), interactions.payments
    if payments is None:
        return prices
    first, last = payments.indptr[:-1], payments.indptr[1:] - 1
    items = np.repeat(np.arange(interactions.n_items), np.diff(payments.indptr))
    payers = np.rint(np.bincount(items, weights=1 / payments.times, minlength=interactions.n_items))
    known = payers >= MIN_CLIENTS
    low, high = ((first + last) // 2)[known], ((first + last + 1) // 2)[known]
    prices[known] = round_prices((payments.prices[low] + payments.prices[high]) / 2)
    return prices


def typical_quantities(interactions: Interactions) -> Floats:
    """Return (n_items,) the median quantity of an order; 1 where fewer than MIN_CLIENTS clients tell theirs."""
    purchases = interactions.purchases
    if purchases is None or purchases.quantity is None:
        return np.ones(interactions.n_items)
    known = purchases.quantity > 0  # False for nan
    items = interactions.by_user.indices[purchases.pair[known]]
    pairs = np.unique(purchases.pair[known])  # of a client and a product
    clients = np.bincount(interactions.by_user.indices[pairs], minlength=interactions.n_items)
    medians = grouped_medians(items, purchases.quantity[known], interactions.n_items)
    return np.where(clients >= MIN_CLIENTS, medians, 1.0)


def grouped_medians(groups: NDArray[np.integer], values: NDArray[Any], n_groups: int) -> Floats:
    """
    Return (n_groups,) the median of the values of each group; nan where it has none.

    >>> grouped_medians(np.array([2, 0, 2]), np.array([5, 1, 6]), 3)
    array([1. , nan, 5.5])
    """
    medians = np.full(n_groups, np.nan)
    order = np.lexsort((values, groups))
    ends = np.searchsorted(groups[order], np.arange(n_groups + 1))
    there = np.flatnonzero(np.diff(ends))
    first, last, ascending = ends[there], ends[there + 1] - 1, values[order]
    medians[there] = (ascending[(first + last) // 2] + ascending[(first + last + 1) // 2]) / 2
    return medians
