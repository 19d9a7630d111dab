"""Weights from dates, quantities and amounts, by hand."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ocular import Interactions
from ocular.data.weights import given_weights, half_life_days, weighted
from ocular.errors import ConfigError, DataError


def sales(**columns: Any) -> Interactions:
    """Five purchases of four pairs: Acme buys product 0 twice."""
    return Interactions.from_pairs([0, 0, 0, 1, 2], [0, 0, 1, 0, 0], **columns)


DATES = np.array(["2024-01-01", "2024-01-31", "2024-01-21", "2024-01-11", "2024-01-01"], dtype="datetime64[s]")


def test_a_half_life_halves_the_weight_of_the_last_purchase() -> None:
    weights = weighted(sales(time=DATES), 10.0, None).weights
    expected = np.array([1, 1 / 2, 1 / 4, 1 / 8])  # the pair that was bought twice is as young as its last purchase
    np.testing.assert_allclose(weights, expected / expected.mean(), rtol=1e-6)


def test_very_old_purchases_still_count() -> None:
    times = np.array(["1980-01-01"] * 4 + ["2024-01-01"], dtype="datetime64[s]")
    weights = weighted(sales(time=times), 1.0, None).weights
    assert weights is not None
    np.testing.assert_allclose(weights[:3] / weights[3], 1e-3, rtol=1e-5)


def test_a_pair_without_a_date_is_as_old_as_the_median_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    times = DATES.copy()
    times[2] = "NaT"
    with caplog.at_level(logging.WARNING, "ocular"):
        data = weighted(sales(time=times), 10.0, None)
        again = weighted(data, 10.0, None)  # as a calibration does
    expected = np.array([1, 1 / 4, 1 / 4, 1 / 8])  # ages 0, 20, 30: the median is 20
    np.testing.assert_allclose(data.weights, expected / expected.mean(), rtol=1e-6)
    assert again.weights is not None
    assert caplog.messages == ["1 of 4 pairs have no date; they weigh as much as one of the median age, 20 days"]


def test_quantities_go_by_the_median_of_the_product() -> None:
    # product 0: 1 + 2 = 3, 1 and 45 units, the median is 3; product 1 has one buyer only
    weights = weighted(sales(quantity=[1, 2, 7, 1, 60]), None, "quantity").weights
    expected = np.array([1, 1, np.log2(4 / 3), 4])
    np.testing.assert_allclose(weights, expected / expected.mean(), rtol=1e-6)


def test_amounts_are_prices_times_quantities() -> None:
    by_hand = weighted(sales(quantity=[2, 6, 7, 9, 0.1]), None, "quantity")
    amounts = weighted(sales(price=[1, 2, 7, 3, 0.1], quantity=[2, 3, 1, 3, 1]), None, "amount")
    np.testing.assert_allclose(amounts.weights, by_hand.weights)
    without_quantity = weighted(sales(price=[2, 6, 7, 9, 0.1]), None, "amount")
    np.testing.assert_allclose(without_quantity.weights, by_hand.weights)


def test_unknown_quantities_weigh_as_the_median_and_returns_little() -> None:
    weights = weighted(sales(quantity=[np.nan, np.nan, 7, 4, -4]), None, "quantity").weights
    # of product 0 the pairs have unknown, 4 and nothing left: the median is 2
    expected = np.array([1, 1, np.log2(3), 1 / 4])
    np.testing.assert_allclose(weights, expected / expected.mean(), rtol=1e-6)


def test_recency_and_quantity_multiply_and_have_a_mean_of_one() -> None:
    data = sales(time=DATES, quantity=[1, 2, 7, 1, 60])
    one, other, both = (
        weighted(data, *given).weights for given in ((10.0, None), (None, "quantity"), (10.0, "quantity"))
    )
    assert one is not None
    assert other is not None
    assert both is not None
    product = one * other
    np.testing.assert_allclose(both, product / product.mean(), rtol=1e-6)
    assert both.mean() == pytest.approx(1, rel=1e-6)


def test_nothing_asked_for_changes_nothing() -> None:
    data = sales(time=DATES)
    assert weighted(data, None, None) is data
    assert weighted(data, None, "values") is data


@pytest.mark.parametrize(
    ("given", "days"), [("180d", 180), ("26w", 182), ("1y", 365), (90, 90), ("90", 90), (0.5, 0.5), ("1.5 D", 1.5)]
)
def test_half_lives(given: Any, days: float) -> None:
    assert half_life_days(given) == days


@pytest.mark.parametrize("given", [0, -3, "0d", "-1d", "180 dogs", "d", "", "1.2.3d", np.nan, np.inf, True, [], "6m"])
def test_a_half_life_must_be_a_time_above_zero(given: Any) -> None:
    with pytest.raises(ConfigError, match="expected half_life to be a time above 0 such as 180d, 26w or 1y, got"):
        half_life_days(given)


@pytest.mark.parametrize(
    ("columns", "asked", "message"),
    [
        ({}, (9.0, None), "expected purchases with a date for half_life, got none; read them with time"),
        ({"quantity": [1] * 5}, (9.0, None), "expected purchases with a date"),
        ({"time": ["NaT"] * 5}, (9.0, None), "expected purchases with a date"),
        ({"price": [1] * 5}, (None, "quantity"), "expected purchases with a quantity for weights=quantity, got none"),
        ({"quantity": [1] * 5}, (None, "amount"), "expected purchases with a price for weights=amount, got none"),
    ],
)
def test_what_is_needed_must_be_there(columns: Any, asked: Any, message: str) -> None:
    columns = {
        name: np.array(values, "datetime64[s]") if name == "time" else values for name, values in columns.items()
    }
    with pytest.raises(DataError, match=message):
        weighted(sales(**columns), *asked)


def test_weights_that_are_given_may_be_of_pairs_of_users_or_a_matrix() -> None:
    R = np.array([[1, 1, 0], [0, 1, 1]])
    data, W = Interactions.from_matrix(R), np.array([[1.0, 2.0, 9.0], [9.0, 3.0, 4.0]])
    for given in ([1, 2, 3, 4], W, sp.csr_array(W * R), sp.coo_matrix(W)):
        assert given_weights(data, given).tolist() == [1, 2, 3, 4]
    assert given_weights(data, [5, 6]).tolist() == [5, 5, 6, 6]
    with pytest.raises(DataError, match=r"expected a weight matrix of shape \(2, 3\), got \(3, 2\)"):
        given_weights(data, W.T)
