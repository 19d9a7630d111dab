"""What a product is likely to cost, against sums that were done by hand and a slow reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocular import Interactions, OCuLaR
from ocular.explain import price
from ocular.explain.price import EVERYBODY, SIMILAR, PriceEstimate, money

NAN = float("nan")


def shop(paid: list[tuple[int, float]], **more: Any) -> Interactions:
    """Clients (by number) who bought product 1 at these prices; everybody has product 0 for 999."""
    n = 1 + max(user for user, _ in paid)
    users = [user for user, _ in paid] + list(range(n))
    items = [1] * len(paid) + [0] * n
    if "quantity" in more:
        more["quantity"] = [*more["quantity"], *[1] * n]
    return Interactions.from_pairs(users, items, price=[price for _, price in paid] + [999.0] * n, **more)


def estimate_price(
    item: int, related: dict[int, float], history: Interactions, without: int | None = None
) -> PriceEstimate | None:
    """With the weights of some clients; all others have none."""
    weights = np.zeros(history.n_users)
    for user in related.keys() & set(range(history.n_users)):
        weights[user] = related[user]
    return price.estimate_price(item, weights, history, without)


def spread(estimate: PriceEstimate | None) -> tuple[float, float, float]:
    assert estimate is not None
    return estimate.low, estimate.median, estimate.high


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({0: 1, 1: 1, 2: 1, 3: 1}, (10, 25, 40)),  # a half is reached exactly: between two
        ({0: 2, 1: 1, 2: 1}, (10, 15, 30)),
        ({0: 1, 1: 1, 2: 8}, (15, 30, 30)),  # 10 reaches a tenth
        ({0: 8, 1: 1, 2: 1}, (10, 10, 25)),  # 20 reaches nine tenths
        ({0: 0.5, 1: 9, 2: 0.5}, (20, 20, 20)),
        ({1: 0.5, 2: 0.1, 3: 0.4}, (20, 25, 40)),  # 20 reaches half of it
        ({1: 1, 2: 1, 3: 1}, (20, 30, 40)),
    ],
)
def test_weighted_median_and_range_by_hand(weights: dict[int, float], expected: tuple[float, float, float]) -> None:
    enough = dict.fromkeys((4, 5), 1e-12)  # five clients at least, of whom these two hardly count
    found = estimate_price(1, weights | enough, shop([(0, 10), (1, 20), (2, 30), (3, 40), (4, 1), (5, 1)]))
    assert found is not None
    assert spread(found) == pytest.approx(expected)
    assert (found.basis, found.purchases, found.clients) == (SIMILAR, len(weights) + 2, len(weights) + 2)


def test_purchases_of_one_client_share_its_weight() -> None:
    history = shop([(0, 1)] * 98 + [(1, 50), (2, 60), (3, 70), (4, 80)])
    found = estimate_price(1, dict.fromkeys(range(5), 1.0), history)
    assert spread(found) == pytest.approx((1, 60, 80))  # as if 0 had bought once, for 1
    assert found is not None
    assert (found.purchases, found.clients) == (102, 5)


@pytest.mark.parametrize("bad", [0.0, -5.0, NAN, float("inf")])
def test_what_is_no_price_does_not_count(bad: float) -> None:
    history = shop([(0, 10), (1, 20), (2, 30), (3, 40), (4, 50), (5, bad), (0, bad)])
    found = estimate_price(1, dict.fromkeys(range(6), 1.0), history)
    assert spread(found) == (10, 30, 50)
    assert found is not None
    assert (found.purchases, found.clients) == (5, 5)


def test_returns_do_not_count_and_unknown_quantities_do() -> None:
    history = shop([(0, 10), (1, 20), (2, 30), (5, 40), (6, 50), (3, 500), (4, 600)], quantity=[1, NAN, 2, 1, 1, -1, 0])
    assert spread(estimate_price(1, dict.fromkeys(range(7), 1.0), history)) == (10, 30, 50)


def test_too_few_similar_clients_ask_everybody_and_say_so() -> None:
    history = shop([(0, 10), (1, 20), (2, 30), (3, 40), (4, 50)], currency="£")
    found = estimate_price(1, {0: 5.0, 1: 1.0}, history)
    assert found is not None
    assert spread(found) == pytest.approx((10, 30, 50))  # everybody counts alike
    assert found.basis == EVERYBODY
    assert found.text() == (
        "All its buyers (too few of them similar) paid a median of £30.00 (80% between £10.00 and £50.00; "
        "5 purchases by 5 clients)."
    )


def test_own_purchases_are_left_out() -> None:
    history = shop([(0, 10), (1, 20), (2, 30), (3, 40), (4, 50), (5, 60), (5, 66)])
    assert spread(estimate_price(1, dict.fromkeys(range(6), 1.0), history, without=5)) == (10, 30, 50)
    assert estimate_price(1, dict.fromkeys(range(6), 1.0), history, without=5) is not None
    four = shop([(0, 10), (1, 20), (2, 30), (3, 40), (5, 60)])
    assert estimate_price(1, dict.fromkeys(range(6), 1.0), four, without=5) is None


def test_what_one_client_paid_is_not_told() -> None:
    assert estimate_price(1, {0: 1.0}, shop([(0, 777), (0, 777), (0, 780), (1, 5)])) is None


def test_fewer_than_five_prices_are_no_estimate() -> None:
    paid = [(0, 10.0), (1, 20.0), (2, 30.0), (3, 40.0)]
    assert estimate_price(1, dict.fromkeys(range(4), 1.0), shop(paid)) is None
    assert estimate_price(1, dict.fromkeys(range(5), 1.0), shop([*paid, (4, NAN)])) is None
    assert estimate_price(1, dict.fromkeys(range(5), 1.0), shop([*paid, (4, 50)])) is not None
    assert estimate_price(0, {0: 1}, Interactions.from_pairs([0, 1, 2], [0, 0, 0])) is None
    assert estimate_price(0, {0: 1}, Interactions.from_pairs([0, 1, 2], [0, 0, 0], quantity=[1, 1, 1])) is None


def test_prices_have_three_digits() -> None:
    """Five payers or more, and yet each of low, median and high would be the price of one of them, to the cent."""
    history = shop([(0, 1234.56), (1, 2345.67), (2, 17122.45), (3, 45678.9), (4, 98765.43)])
    found = estimate_price(1, dict.fromkeys(range(5), 1.0), history)
    assert spread(found) == (1230, 17100, 98800)
    assert found is not None
    assert found.prices.tolist() == [1230, 2350, 17100, 45700, 98800]
    assert price.round_prices([0.012345, 1.005, 12.345, NAN])[:3].tolist() == [0.0123, 1.0, 12.3]


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.one_of(st.integers(-2, 9).map(float), st.just(NAN))), min_size=1, max_size=20
    ),
    st.dictionaries(st.integers(0, 8), st.integers(1, 4).map(float)),
    st.one_of(st.none(), st.integers(0, 8)),
)
def test_prices_against_a_slow_reference(
    paid: list[tuple[int, float]], related: dict[int, float], without: int | None
) -> None:
    found = estimate_price(1, related, shop(paid), without)
    good = [(user, price) for user, price in paid if price > 0 and user != without]
    asked = [pair for pair in good if pair[0] in related]
    if len({user for user, _ in asked}) < 5:
        asked, related = good, dict.fromkeys(range(9), 1.0)
    if len({user for user, _ in asked}) < 5:
        assert found is None
        return
    times = {user: sum(1 for other, _ in asked if other == user) for user, _ in asked}
    weight = {user: related[user] / times[user] for user in times}
    total = sum(weight[user] for user, _ in asked)

    def quantile(q: float) -> float:
        """Between the largest value with at most so much weight above and the least with at most so much below."""
        prices = sorted({price for _, price in asked})
        below = {p: sum(weight[u] for u, paid in asked if paid < p) / total for p in prices}
        above = {p: sum(weight[u] for u, paid in asked if paid > p) / total for p in prices}
        fits = [p for p in prices if below[p] <= q + 1e-9 and above[p] <= 1 - q + 1e-9]
        return (fits[0] + fits[-1]) / 2

    assert spread(found) == pytest.approx((quantile(0.1), quantile(0.5), quantile(0.9)))
    assert found is not None
    assert (found.purchases, found.clients) == (len(asked), len(times))


@pytest.mark.parametrize(
    ("amount", "currency", "written"),
    [(1.25, "£", "£1.25"), (999, "", "999"), (1000, "€", "€1,000"), (1234567.8, "EUR", "EUR 1,234,568")],
)
def test_money(amount: float, currency: str, written: str) -> None:
    assert money(amount, currency) == written


def test_the_sentence_says_only_what_is_true() -> None:
    paid = [(0, 5.0), (0, 5.0), *((user, 5.0) for user in range(1, 5)), (5, 7.0)]
    same = estimate_price(1, dict.fromkeys(range(5), 1.0), shop(paid, currency="$"))
    assert same is not None
    assert same.text() == "Similar clients paid a median of $5.00 (80% exactly that; 6 purchases by 5 clients)."
    # a low and a high price that agree do not make all prices agree
    paid = [(0, 1.0), *((user, 5.0) for user in range(1, 11)), (11, 900.0)]
    found = estimate_price(1, dict.fromkeys(range(12), 1.0), shop(paid))
    assert spread(found) == (5, 5, 5)
    assert found is not None
    assert found.text() == "Similar clients paid a median of 5.00 (80% exactly that; 12 purchases by 12 clients)."


def test_a_model_estimates_by_the_clients_that_its_reasons_name() -> None:
    # two patterns; product 2 is 10 in the first and 1,000 in the second
    users = [u for u in range(12) for _ in range(3)]
    items = [i for u in range(12) for i in ([0, 1, 2] if u < 6 else [3, 4, 2])]
    paid = [float(10 if u < 6 else 1000) for u in users]
    keep = [n for n in range(36) if (users[n], items[n]) not in {(0, 2), (11, 2)}]
    history = Interactions.from_pairs(
        np.take(users, keep), np.take(items, keep), price=np.take(paid, keep), currency="€"
    )
    model = OCuLaR(2, 0.1, random_state=0, tol=0.0, max_iter=60).fit(history)
    cheap, dear = model.explain(0, 2), model.explain(11, 2)
    assert cheap.price is not None
    assert dear.price is not None
    assert (cheap.price.median, dear.price.median) == (10, 1000)
    assert (cheap.price.basis, cheap.price.clients) == (SIMILAR, 5)
    assert cheap.text().endswith(
        "Similar clients paid a median of €10.00 (80% exactly that; 5 purchases by 5 clients)."
    )
    assert model.explain(0, 0).price is not None  # five others paid
