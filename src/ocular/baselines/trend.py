"""Any baseline with the trend of the products, as OCuLaR has it: what sells now counts for more."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.baselines.base import Baseline, Scores
from ocular.data.matrices import as_interactions
from ocular.data.trend import find_trends
from ocular.validation import check_number


class WithTrend(Baseline):
    """
    Scores of another baseline, at least 0, times trend_i^trend (`ocular.data.trend`).

    Parameters
    ----------
    baseline : Baseline
        Whose scores are scaled.
    trend : float
        The exponent.
    trend_half_life : float
        Days after which a purchase counts half in the recent demand.
    """

    def __init__(self, baseline: Baseline, trend: float = 1.0, trend_half_life: float = 30.0) -> None:
        self.baseline = baseline
        self.trend = trend
        self.trend_half_life = trend_half_life

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit users × items: an Interactions whose purchases have dates."""
        interactions = as_interactions(X)
        self.scales_ = (find_trends(interactions, self.trend_half_life) ** self.trend).astype(np.float32)
        self.baseline.fit(interactions)
        return super().fit(interactions, y)

    def check(self, shape: tuple[int, int]) -> None:
        check_number(self.trend, "trend", 0, 5)
        check_number(self.trend_half_life, "trend_half_life", 0.01, 1e5)
        self.baseline.check(shape)

    def _fit(self, matrix: sp.csr_array) -> None:
        """The baseline has learned already."""

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:
        return np.maximum(self.baseline._scores(rows, users), 0) * self.scales_
