"""
How often recommendations like this one were bought in a back-test on held-out purchases.

Recommendations of known outcome are put into bins of equal number by confidence, and isotonic regression merges
neighbours until a higher confidence never means a lower rate. The result is a table of steps: the lowest confidence of
each, its recommendations and its hits. A recommendation is "like" those of its step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from ocular.errors import DataError
from ocular.explain.names import percent

MIN_IN_BIN, MAX_BINS = 50, 200
MIN_RECOMMENDATIONS = 100
ERROR_BINS = 15

Floats = NDArray[np.float64]


class HitRate(NamedTuple):
    """The share that was bought of the recommendations with a confidence from `low` to `high`, and their number."""

    rate: float
    recommendations: int
    low: float
    high: float = 1.0

    def text(self) -> str:
        """Return the rate as a sentence."""
        similar = f"{self.recommendations:,} similar recommendations"
        return f"In a back-test, {percent(self.rate)} of {similar} were bought."


class Reliability(NamedTuple):
    """The bins of equal width in confidence that are not empty: mean confidence, hit rate and number in each."""

    confidence: Floats
    rate: Floats
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance of confidence and hit rate, weighted by number."""
        return float(np.average(np.abs(self.confidence - self.rate), weights=self.counts))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Steps of a non-decreasing function from confidence to hit rate."""

    starts: Floats  # (n_steps,) lowest confidence of each
    means: Floats  # (n_steps,) mean confidence
    counts: NDArray[np.int64]  # (n_steps,) recommendations
    hits: NDArray[np.int64]  # (n_steps,) those that were bought
    share: float = 0.0  # of the purchases that was held out
    per_client: int = 0  # recommendations made to each client
    error_before: float | None = None  # expected calibration error of the probability itself
    error_after: float | None = None  # of the hit rates, on clients they were not taken from
    checked: Reliability | None = None  # hit rates against outcomes, on clients they were not taken from

    def __repr__(self) -> str:
        error = "" if self.error_after is None else f"; calibration error {self.error_after:.3f}"
        return f"Calibration({int(self.hits.sum()):,} of {int(self.counts.sum()):,} recommendations bought{error})"

    @property
    def rates(self) -> Floats:
        rates: Floats = self.hits / self.counts
        return rates

    def observed(self, confidence: float) -> HitRate | None:
        """Return the step that a confidence falls into; None below all that was recommended in the back-test."""
        step = int(np.searchsorted(self.starts, confidence, side="right")) - 1
        if step < 0:
            return None
        low, high = [*self.starts.tolist(), 1.0][step : step + 2]
        return HitRate(float(self.rates[step]), int(self.counts[step]), low, high)

    def apply(self, confidences: Floats) -> Floats:
        """Return the hit rates of many confidences; those below the lowest step have its rate."""
        steps = np.searchsorted(self.starts, confidences, side="right") - 1
        return self.rates[np.maximum(steps, 0)]

    def known(self, confidences: Floats) -> Floats:
        """Return the hit rates of many confidences; nan below all that was recommended in the back-test."""
        return np.where(np.asarray(confidences) < self.starts[0], np.nan, self.apply(confidences))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the manifest of a model; the steps are few."""
        steps = {name: getattr(self, name).tolist() for name in ("starts", "means", "counts", "hits")}
        numbers = ("share", "per_client", "error_before", "error_after")
        checked = {} if self.checked is None else {"checked": [values.tolist() for values in self.checked]}
        return steps | {name: getattr(self, name) for name in numbers} | checked

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Calibration:
        """Return the calibration that `to_dict` described, checked."""
        starts, means = (np.array(given[name], dtype=np.float64) for name in ("starts", "means"))
        counts, hits = (np.array(given[name], dtype=np.int64) for name in ("counts", "hits"))
        sizes = {steps.shape for steps in (starts, means, counts, hits)}
        known = np.isfinite(starts).all() and np.isfinite(means).all()
        if len(sizes) != 1 or starts.ndim != 1 or not len(starts) or not known or (np.diff(starts) <= 0).any():
            raise ValueError("the steps of the calibration do not fit together")
        if (counts <= 0).any() or (hits < 0).any() or (hits > counts).any() or (np.diff(hits / counts) < 0).any():
            raise ValueError("the hit rates of the calibration are no rising shares")
        before, after = (
            None if given[name] is None else float(given[name]) for name in ("error_before", "error_after")
        )
        checked = _checked(given["checked"]) if "checked" in given else None
        return cls(starts, means, counts, hits, float(given["share"]), int(given["per_client"]), before, after, checked)


def _checked(bins: Any) -> Reliability:
    chances, rates, counts = bins
    found = Reliability(np.array(chances, np.float64), np.array(rates, np.float64), np.array(counts, np.int64))
    same_length = len({values.shape for values in found}) == 1 and found.counts.ndim == 1
    if not same_length or any(not ((values >= 0) & (values <= 1)).all() for values in found[:2]):
        raise ValueError("the outcomes beside the calibration do not fit together")
    return found


def expected_rates(calibration: Calibration | None, confidences: Floats) -> Floats:
    """
    Return how often recommendations of these confidences are expected to be bought.

    It is the confidence itself for a model without calibration, and below all that the back-test recommended for a
    reason the lower of confidence and lowest rate.
    """
    if calibration is None:
        return confidences
    below = confidences < calibration.starts[0]
    return np.where(below, np.minimum(confidences, calibration.rates[0]), calibration.apply(confidences))


def fit_calibration(confidences: Floats, hits: NDArray[np.bool_]) -> Calibration:
    """Return the steps for recommendations of known outcome."""
    if len(confidences) < MIN_RECOMMENDATIONS or not hits.any():
        raise DataError(
            f"expected at least {MIN_RECOMMENDATIONS} recommendations with some hits to calibrate on, "
            f"got {len(confidences)} with {int(hits.sum())}; give more purchases"
        )
    order = np.argsort(confidences, kind="stable")
    x, y = confidences[order], hits[order].astype(np.int64)
    n_bins = int(np.clip(len(x) // MIN_IN_BIN, 1, MAX_BINS))
    # equal confidences share a bin
    first = np.unique(np.searchsorted(x, x[np.arange(n_bins) * len(x) // n_bins]))
    counts, bought = np.diff([*first, len(x)]), np.add.reduceat(y, first)
    level = isotonic_regression(bought / counts, sample_weight=counts)
    step = np.flatnonzero(np.diff(level, prepend=-1.0) > 1e-12)
    n = np.add.reduceat(counts, step)
    return Calibration(x[first[step]], np.add.reduceat(x, first[step]) / n, n, np.add.reduceat(bought, step))


def measure_reliability(confidences: Floats, hits: NDArray[np.bool_], bins: int = ERROR_BINS) -> Reliability:
    """Compare confidence and outcome, for the diagram and the expected calibration error."""
    place = np.minimum((confidences * bins).astype(np.int64), bins - 1)
    counts = np.bincount(place, minlength=bins)
    filled = counts > 0
    total = np.maximum(counts, 1)
    mean, rate = (np.bincount(place, weights=values, minlength=bins) / total for values in (confidences, hits))
    return Reliability(mean[filled], rate[filled], counts[filled])
