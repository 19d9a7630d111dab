"""Where the parts of a chart stand: the macros of templates/charts.html draw them as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bin:
    """A bar of a histogram; heights are shares of the highest."""

    low: float
    high: float
    count: int
    height: float


def points(values: Sequence[float], width: float, height: float, top: float | None = None) -> str:
    """
    Return the points of a line from left to right, the greatest value at the top, as SVG reads them.

    >>> points([0, 1, 2], 10, 4)
    '0.0,4.0 5.0,2.0 10.0,0.0'
    """
    highest = top if top is not None else max(values, default=0.0)
    step = width / max(1, len(values) - 1)
    scaled = [value / highest if highest > 0 else 0.0 for value in values]
    return " ".join(f"{step * place:.1f},{height * (1 - share):.1f}" for place, share in enumerate(scaled))


def histogram(values: Sequence[float], n_bins: int = 16) -> list[Bin]:
    """Return the bins of a histogram of finite values; a single value fills one bin, none gives no bins."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return []
    if finite.min() == finite.max():
        return [Bin(float(finite[0]), float(finite[0]), len(finite), 1.0)]
    counts, edges = np.histogram(finite, bins=n_bins)
    return [
        Bin(float(low), float(high), int(count), float(count / counts.max()))
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]


def nice_top(highest: float) -> float:
    """
    Return a round number at or above the highest value, for the top of an axis.

    >>> nice_top(4708), nice_top(0.31), nice_top(0)
    (5000.0, 0.5, 1.0)
    """
    if highest <= 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(highest))
    return float(next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= highest * (1 - 1e-12)))
