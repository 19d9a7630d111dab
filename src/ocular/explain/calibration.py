"""
What a confidence has been worth: how often recommendations like this one came true on held-out purchases.

Recommendations of known outcome are put into bins of equal number by confidence, and isotonic regression merges
neighbours until a higher confidence never means a lower rate. What is left is a table of steps: from which confidence
on, how many recommendations, how many hits. A recommendation is "like" those of its step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from ocular.errors import DataError

LEAST_IN_BIN, MOST_BINS = 50, 200
LEAST_RECOMMENDATIONS = 100
ERROR_BINS = 15

Floats = NDArray[np.float64]


class HitRate(NamedTuple):
    """Of so many recommendations with a confidence from `low` to `high`, this share was bought."""

    rate: float
    recommendations: int
    low: float
    high: float = 1.0

    def text(self) -> str:
        """One sentence."""
        like = f"{self.low:.2f} or more" if self.high >= 1 else f"{self.low:.2f} to {self.high:.2f}"
        return (
            f"In a check on held-out purchases, {self.rate:.0%} of the {self.recommendations:,} recommendations with a "
            f"confidence of {like} were bought."
        )


class Reliability(NamedTuple):
    """Bins of equal width in confidence that hold anything: mean confidence, hit rate and number in each."""

    confidence: Floats
    rate: Floats
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of confidence and hit rate, weighed by number."""
        return float(np.average(np.abs(self.confidence - self.rate), weights=self.counts))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Steps of a non-decreasing function from confidence to hit rate."""

    starts: Floats  # (n_steps,) least confidence of each
    means: Floats  # (n_steps,) mean confidence
    counts: NDArray[np.int64]  # (n_steps,) recommendations
    hits: NDArray[np.int64]  # (n_steps,) those that were bought
    share: float = 0.0  # of the purchases that was held out
    per_client: int = 0  # recommendations made to each client
    error_before: float | None = None  # expected calibration error of the probability itself
    error_after: float | None = None  # of the hit rates, on clients they were not taken from

    @property
    def rates(self) -> Floats:
        rates: Floats = self.hits / self.counts
        return rates

    def observed(self, confidence: float) -> HitRate | None:
        """The step that a confidence falls into; None below all that was recommended in the check."""
        step = int(np.searchsorted(self.starts, confidence, side="right")) - 1
        if step < 0:
            return None
        low, high = [*self.starts.tolist(), 1.0][step : step + 2]
        return HitRate(float(self.rates[step]), int(self.counts[step]), low, high)

    def apply(self, confidences: Floats) -> Floats:
        """Hit rates of many confidences; the lowest step serves below itself too."""
        steps = np.searchsorted(self.starts, confidences, side="right") - 1
        return self.rates[np.maximum(steps, 0)]

    def known(self, confidences: Floats) -> Floats:
        """Hit rates of many confidences; nan below all that was recommended in the check."""
        return np.where(np.asarray(confidences) < self.starts[0], np.nan, self.apply(confidences))

    def to_dict(self) -> dict[str, Any]:
        """For the manifest of a model; the steps are few."""
        plain = {name: getattr(self, name).tolist() for name in ("starts", "means", "counts", "hits")}
        numbers = ("share", "per_client", "error_before", "error_after")
        return plain | {name: getattr(self, name) for name in numbers}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Calibration:
        starts, means = (np.array(given[name], dtype=np.float64) for name in ("starts", "means"))
        counts, hits = (np.array(given[name], dtype=np.int64) for name in ("counts", "hits"))
        sizes = {steps.shape for steps in (starts, means, counts, hits)}
        known = np.isfinite(starts).all() and np.isfinite(means).all()
        if len(sizes) != 1 or starts.ndim != 1 or not len(starts) or not known or (np.diff(starts) <= 0).any():
            raise ValueError("the steps of the calibration do not fit together")
        if (counts <= 0).any() or (hits < 0).any() or (hits > counts).any() or (np.diff(hits / counts) < 0).any():
            raise ValueError("the hit rates of the calibration are no rising shares")
        errors = (None if given[name] is None else float(given[name]) for name in ("error_before", "error_after"))
        return cls(starts, means, counts, hits, float(given["share"]), int(given["per_client"]), *errors)


def expected_rates(calibration: Calibration | None, confidences: Floats, *, checked: bool = True) -> Floats:
    """
    How often to expect that recommendations come true: the confidence itself for a model without calibration, and below
    all that was recommended in the check whichever is less, the confidence or the lowest rate. Not checked are those
    that no co-cluster speaks for.
    """
    if calibration is None:
        return confidences
    below = (confidences < calibration.starts[0]) | (not checked)
    return np.where(below, np.minimum(confidences, calibration.rates[0]), calibration.apply(confidences))


def fit_calibration(confidences: Floats, hits: NDArray[np.bool_]) -> Calibration:
    """The steps for recommendations of known outcome."""
    if len(confidences) < LEAST_RECOMMENDATIONS or not hits.any():
        raise DataError(
            f"expected at least {LEAST_RECOMMENDATIONS} recommendations with some hits to calibrate on, "
            f"got {len(confidences)} with {int(hits.sum())}; give more purchases"
        )
    order = np.argsort(confidences, kind="stable")
    x, y = confidences[order], hits[order].astype(np.int64)
    n_bins = int(np.clip(len(x) // LEAST_IN_BIN, 1, MOST_BINS))
    # equal confidences share a bin
    first = np.unique(np.searchsorted(x, x[np.arange(n_bins) * len(x) // n_bins]))
    counts, found = np.diff([*first, len(x)]), np.add.reduceat(y, first)
    level = isotonic_regression(found / counts, sample_weight=counts)
    step = np.flatnonzero(np.diff(level, prepend=-1.0) > 1e-12)
    n = np.add.reduceat(counts, step)
    return Calibration(x[first[step]], np.add.reduceat(x, first[step]) / n, n, np.add.reduceat(found, step))


def measure_reliability(confidences: Floats, hits: NDArray[np.bool_], bins: int = ERROR_BINS) -> Reliability:
    """Confidence against outcome, for the diagram and the expected calibration error."""
    place = np.minimum((confidences * bins).astype(np.int64), bins - 1)
    counts = np.bincount(place, minlength=bins)
    there = counts > 0
    total = np.maximum(counts, 1)
    mean, rate = (np.bincount(place, weights=values, minlength=bins) / total for values in (confidences, hits))
    return Reliability(mean[there], rate[there], counts[there])
