"""What a confidence was worth: steps, counts, errors by hand, and the way through a file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocular.errors import DataError
from ocular.explain.calibration import (
    MIN_IN_BIN,
    Calibration,
    HitRate,
    fit_calibration,
    measure_reliability,
)


def outcomes(*groups: tuple[float, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(confidence, recommendations, hits) of each group, mixed."""
    x = np.concatenate([np.full(n, confidence) for confidence, n, _ in groups])
    y = np.concatenate([np.arange(n) < hits for _, n, hits in groups])
    order = np.random.default_rng(0).permutation(len(x))
    return x[order], y[order]


def test_steps_by_hand() -> None:
    found = fit_calibration(*outcomes((0.1, 100, 5), (0.4, 100, 30), (0.6, 100, 20), (0.9, 50, 40)))
    # 0.4 and 0.6 are out of order: together 50 of 200
    assert found.starts.tolist() == [0.1, 0.4, 0.9]
    assert found.counts.tolist() == [100, 200, 50]
    assert found.hits.tolist() == [5, 50, 40]
    np.testing.assert_allclose(found.rates, [0.05, 0.25, 0.8])
    np.testing.assert_allclose(found.means, [0.1, 0.5, 0.9])


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        (0.05, None),
        (0.0999, None),
        (0.1, HitRate(0.05, 100, 0.1, 0.4)),
        (0.39, HitRate(0.05, 100, 0.1, 0.4)),
        (0.4, HitRate(0.25, 200, 0.4, 0.9)),
        (0.75, HitRate(0.25, 200, 0.4, 0.9)),
        (0.9, HitRate(0.8, 50, 0.9, 1.0)),
        (1.0, HitRate(0.8, 50, 0.9, 1.0)),
    ],
)
def test_a_confidence_falls_into_a_step(confidence: float, expected: HitRate | None) -> None:
    steps = Calibration(np.array([0.1, 0.4, 0.9]), np.zeros(3), np.array([100, 200, 50]), np.array([5, 50, 40]))
    assert steps.observed(confidence) == expected
    assert steps.apply(np.array([confidence]))[0] == (0.05 if expected is None else expected.rate)


@settings(max_examples=60)
@given(st.integers(100, 900), st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_steps_rise_and_nothing_is_lost(n: int, seed: int, ties: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, ties + 1, n) / ties if ties < 30 else rng.random(n)
    y = rng.random(n) < x * 0.7
    y[0] = True
    found = fit_calibration(x, y)
    assert (found.counts.sum(), found.hits.sum()) == (n, y.sum())
    assert found.starts[0] == x.min()
    assert (np.diff(found.starts) > 0).all()
    assert (np.diff(found.rates) > 0).all()
    assert (found.counts >= MIN_IN_BIN).all() or ties < 30
    for step, start in enumerate(found.starts):
        end = found.starts[step + 1] if step + 1 < len(found.starts) else np.inf
        inside = (x >= start) & (x < end)
        assert (found.counts[step], found.hits[step]) == (inside.sum(), y[inside].sum())
        assert found.means[step] == pytest.approx(x[inside].mean())


def test_bins_are_fine_enough_to_tell_good_from_bad() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(20_000)
    found = fit_calibration(x, rng.random(20_000) < x**2)
    assert len(found.starts) > 20
    assert np.abs(found.rates - found.means**2).max() < 0.15
    assert measure_reliability(found.apply(x), rng.random(20_000) < x**2).error < 0.02


@pytest.mark.parametrize(
    ("n", "hits", "message"),
    [(99, 50, "expected at least 100 recommendations .* got 99 with 50"), (400, 0, "got 400 with 0"), (0, 0, "got 0")],
)
def test_too_little_to_calibrate_on_is_refused(n: int, hits: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_calibration(*outcomes((0.5, n, hits)))


def test_expected_calibration_error_by_hand() -> None:
    x, y = np.array([0.1, 0.2, 0.8, 0.8, 1.0]), np.array([False, True, True, True, False])
    found = measure_reliability(x, y, bins=2)
    np.testing.assert_allclose(found.confidence, [0.15, 2.6 / 3])
    np.testing.assert_allclose(found.rate, [0.5, 2 / 3])
    assert found.counts.tolist() == [2, 3]
    assert found.error == pytest.approx((2 * 0.35 + 3 * 0.2) / 5)
    assert measure_reliability(np.array([0.25, 0.75]), np.array([True, False]), bins=4).error == pytest.approx(0.75)
    assert len(measure_reliability(x, y).counts) == 4  # empty bins are left out


STEPS: dict[str, Any] = {
    "starts": [0.1, 0.4], "means": [0.2, 0.6], "counts": [60, 50], "hits": [6, 40], "share": 0.25, "per_client": 20,
    "error_before": 0.1, "error_after": None,
}  # fmt: skip


def test_steps_come_back_from_json() -> None:
    again = Calibration.from_dict(json.loads(json.dumps(STEPS)))
    assert again.to_dict() == STEPS
    assert again.observed(0.5)[:2] == (0.8, 50)


@pytest.mark.parametrize(
    "damage",
    [
        {"starts": [0.1]},
        {"starts": [0.4, 0.1]},
        {"hits": [6, 40, 1]},
        {"starts": [], "means": [], "counts": [], "hits": []},
        {"hits": ["many", 40]},
        {"hits": [61, 40]},
        {"counts": [0, 50], "hits": [0, 40]},
        {"hits": [-1, 40]},
        {"hits": [59, 1]},
    ],
    ids=["length", "order", "too many", "none", "text", "more hits than tries", "no tries", "negative", "falling"],
)
def test_steps_that_make_no_sense_are_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"calibration|invalid literal"):
        Calibration.from_dict(STEPS | damage)
