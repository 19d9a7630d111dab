"""Trend: how fast a product sells now, relative to how it has sold all along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.errors import DataError

DAY = np.timedelta64(1, "D")
PRIOR = 1.0  # purchases at the usual rate that every product is taken to have had besides its own


def has_times(interactions: Interactions) -> bool:
    """Return whether any purchase has a date."""
    purchases = interactions.purchases
    return purchases is not None and purchases.time is not None and not bool(np.isnat(purchases.time).all())


def find_trends(interactions: Interactions, half_life: float) -> NDArray[np.float64]:
    """
    Return the recent demand of each product over its overall demand, (n_items,): 1 is the usual rate, 2 twice as fast.

    A purchase counts 2^(−age / half_life), its age in days before the newest purchase of all. With r_i the sum of these
    and n_i the number of purchases, the trend is (r_i + c) / (n_i + 1) / c, where c = Σ r_i / Σ n_i. Purchases without
    a date are left out.
    """
    purchases = interactions.purchases
    if purchases is None or purchases.time is None or not has_times(interactions):
        raise DataError("expected purchases with a date for their trend, got none; read them with their date column")
    known = ~np.isnat(purchases.time)
    items = interactions.by_user.indices[purchases.pair[known]]
    times = purchases.time[known]
    recency = 2.0 ** (-((times.max() - times) / DAY) / half_life)
    recent = np.bincount(items, weights=recency, minlength=interactions.n_items)
    overall = np.bincount(items, minlength=interactions.n_items)
    usual = recent.sum() / overall.sum()
    trends: NDArray[np.float64] = (recent + PRIOR * usual) / (overall + PRIOR) / usual
    return trends
