"""Expected values, computed by hand: chance to buy × typical price × typical quantity."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ocular import Interactions
from ocular.explain.calibration import Calibration
from ocular.explain.value import ExpectedValues, typical_prices, typical_quantities

NAN = float("nan")
STEPS = Calibration(np.array([0.2, 0.5]), np.array([0.3, 0.6]), np.array([100, 50]), np.array([10, 20]))


def sales(rows: list[tuple[int, int, float, float]], n_items: int = 2) -> Interactions:
    """Rows of client, product, price and quantity."""
    users, items, price, quantity = zip(*rows, strict=True)
    shape = (max(users) + 1, n_items)
    return Interactions.from_pairs(users, items, shape, price=list(price), quantity=list(quantity))


# product 0: prices 10 to 50 of five clients, orders of 1 to 12; product 1: only four clients paid
SALES = sales(
    [(0, 0, 10, 1), (1, 0, 40, 12), (2, 0, 20, 3), (3, 0, 10, 2), (4, 0, 50, 9)]
    + [(user, 1, 5, 4) for user in range(4)]
)


def test_the_typical_price_is_the_median_of_what_was_paid() -> None:
    assert typical_prices(SALES)[0] == 20
    assert math.isnan(typical_prices(SALES)[1])  # four clients are too few to tell
    six = sales([(user, 0, price, 1) for user, price in enumerate([10, 10, 20, 30.5, 100, 100])], 1)
    assert typical_prices(six).tolist() == [25.2]  # 25.25, rounded


def test_one_client_who_buys_often_is_no_market() -> None:
    often = sales([(0, 0, 10, 1), (0, 0, 12, 1), (0, 0, 14, 1), (1, 0, 9, 1), (2, 0, 9, 1), (3, 0, 9, 1)], 1)
    assert math.isnan(typical_prices(often)[0])


def test_without_prices_there_is_no_typical_one() -> None:
    assert np.isnan(typical_prices(Interactions.from_pairs([0, 1, 2], [0, 0, 1]))).all()


def test_the_typical_quantity_is_the_median_of_an_order() -> None:
    assert typical_quantities(SALES).tolist() == [3, 1]  # 1, 2, 3, 9, 12; four clients are too few
    unknown = sales([(user, 0, 10, 8) for user in range(5)] + [(5, 0, 10, NAN), (2, 1, 10, NAN)])
    assert typical_quantities(unknown).tolist() == [8, 1]
    assert typical_quantities(Interactions.from_pairs([0, 1], [0, 1])).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("confidence", "chance"),
    [(0.1, 0.1), (0.15, 0.1), (0.05, 0.05), (0.2, 0.1), (0.49, 0.1), (0.5, 0.4), (0.99, 0.4)],
)
def test_chances_are_hit_rates_and_never_more_than_the_confidence_below_them(confidence: float, chance: float) -> None:
    values = ExpectedValues(SALES, STEPS)
    assert values.chances(np.array([confidence])) == pytest.approx([chance])
    assert values.value(0, confidence) == pytest.approx(chance * 20 * 3)


def test_without_calibration_the_chance_is_the_confidence() -> None:
    values = ExpectedValues(SALES, None)
    assert values.value(0, 0.25) == pytest.approx(0.25 * 20 * 3)
    assert values.value(1, 0.25) is None


def test_many_values_are_those_of_each() -> None:
    values = ExpectedValues(SALES, STEPS)
    many = values.values(np.array([0, 1, 0]), np.array([0.5, 0.5, 0.3]))
    np.testing.assert_allclose(many, [0.4 * 60, NAN, 0.1 * 60])
