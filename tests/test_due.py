"""What is due again: intervals counted by hand, days at the edge, dates that are missing, and nothing of others."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocular import Advisor, Interactions, OCuLaR, read
from ocular.due import DueProduct, find_reorders, has_dates
from ocular.errors import ConfigError, DataError, UnknownNameError

START = np.datetime64("2024-01-01")


def purchases(rows: list[tuple[int, int, int]], **more: Any) -> Interactions:
    """Interactions from (client, product, day), days counted from 1 January 2024."""
    users, items, days = (list(column) for column in zip(*rows, strict=True))
    return Interactions.from_pairs(users, items, time=START + np.array(days), **more)


def every(user: int, item: int, *days: int) -> list[tuple[int, int, int]]:
    return [(user, item, day) for day in days]


def due_items(data: Interactions, as_of: int | None = None) -> list[tuple[int, int]]:
    reorders = find_reorders(data, None if as_of is None else START + as_of)
    return [*zip(reorders.users[reorders.due].tolist(), reorders.items[reorders.due].tolist(), strict=True)]


def advisor(data: Interactions) -> Advisor:
    return Advisor(OCuLaR(2, 0.1, max_iter=3, random_state=0).fit(data))


def test_intervals_are_medians_of_the_clients_own() -> None:
    data = purchases(every(0, 0, 0, 30, 60, 100) + every(1, 0, 0, 10, 20, 31, 41) + every(1, 1, 0, 3))
    reorders = find_reorders(data)
    assert reorders.users.tolist() == [0, 1]
    assert reorders.items.tolist() == [0, 0]
    assert reorders.intervals.tolist() == [30.0, 10.0]  # of 30, 30, 40 and of 10, 10, 11, 10
    assert reorders.n_purchases.tolist() == [4, 5]
    assert reorders.days_since.tolist() == [0, 59]
    assert reorders.n_clients.tolist() == [2, 0]


def test_an_even_number_of_intervals_has_a_median_between_two() -> None:
    assert find_reorders(purchases(every(0, 0, 0, 10, 21, 33, 46))).intervals.tolist() == [11.5]


def test_several_purchases_on_one_day_count_once() -> None:
    morning = purchases(every(0, 0, 0, 0, 0, 10, 10, 20))  # three days: too few
    assert len(find_reorders(morning).pairs) == 0
    times = np.array(["2024-01-01T08:00", "2024-01-01T23:59", "2024-01-11T00:00", "2024-01-21T12:00", "2024-01-31"])
    hours = Interactions.from_pairs([0] * 5, [0] * 5, time=times.astype("datetime64[s]"))
    reorders = find_reorders(hours)
    assert (reorders.intervals.tolist(), reorders.n_purchases.tolist()) == ([10.0], [4])


@pytest.mark.parametrize(("days", "regular"), [((0, 10, 20, 30), True), ((0, 10, 20), False), ((0,), False)])
def test_four_days_of_purchase_are_the_fewest(days: tuple[int, ...], regular: bool) -> None:
    assert (len(find_reorders(purchases(every(0, 0, *days))).pairs) == 1) == regular


def test_irregular_purchases_are_never_due() -> None:
    # intervals 2, 40, 41, 3, 50: the median is 40, the distances 38, 0, 1, 37, 10 have a median of 10
    assert len(find_reorders(purchases(every(0, 0, 0, 2, 42, 83, 86, 136))).pairs) == 1
    # intervals 2, 20, 90, 5, 60: the median is 20, the distances 18, 0, 70, 15, 40 have a median of 18
    assert len(find_reorders(purchases(every(0, 0, 0, 2, 22, 112, 117, 177))).pairs) == 0


@pytest.mark.parametrize(("since", "due"), [(7, False), (8, True), (10, True), (15, True), (16, False), (5000, False)])
def test_due_from_most_of_an_interval_until_one_and_a_half(since: int, due: bool) -> None:
    assert bool(due_items(purchases(every(0, 0, 0, 10, 20, 30)), 30 + since)) == due


def test_the_day_is_that_of_the_newest_purchase_unless_given() -> None:
    data = purchases([*every(0, 0, 0, 10, 20, 30), (1, 1, 41)])
    assert due_items(data) == [(0, 0)]
    assert find_reorders(data).as_of == START + 41
    for same in ("2024-02-11", date(2024, 2, 11), np.datetime64("2024-02-11T17:30")):
        assert find_reorders(data, same).as_of == START + 41
    assert due_items(data, 5) == []  # before the second purchase
    assert due_items(data, -400) == []  # before everything
    assert due_items(data, 90_000) == []  # long after


def test_purchases_after_the_day_do_not_count() -> None:
    data = purchases(every(0, 0, 0, 10, 20, 30, 400, 401, 402, 403, 404), quantity=[2.0] * 4 + [99.0] * 5)
    reorders = find_reorders(data, START + 40)
    assert reorders.n_purchases.tolist() == [4]
    assert reorders.intervals.tolist() == [10.0]
    assert reorders.usual_amounts["usual_quantity"].tolist() == [2.0]


def test_dates_that_are_not_known_or_impossible_are_left_out() -> None:
    times = [*(START + np.array([0, 10, 20, 30])), np.datetime64("NaT"), np.datetime64("20111-01-01")]
    data = Interactions.from_pairs([0] * 6, [0] * 6, time=np.array(times, dtype="datetime64[s]"))
    reorders = find_reorders(data)
    assert (reorders.n_purchases.tolist(), reorders.as_of) == ([4], START + 30)


def test_a_return_is_no_purchase() -> None:
    rows = every(0, 0, 0, 10, 20, 25, 30)
    reorders = find_reorders(purchases(rows, quantity=[5, 5, 5, -5, np.nan]))
    assert reorders.n_purchases.tolist() == [4]
    assert reorders.intervals.tolist() == [10.0]
    assert len(find_reorders(purchases(rows, quantity=[-1.0] * 5)).pairs) == 0


@pytest.mark.parametrize("time", [None, np.array(["NaT"] * 2, dtype="datetime64[s]")])
def test_purchases_without_dates_are_refused_in_one_line(time: Any) -> None:
    data = Interactions.from_pairs([0, 1], [0, 1], time=time)
    assert not has_dates(data)
    line = "^expected purchase dates to tell what is due, got none; read the purchases with time$"
    for ask in (lambda: advisor(data).due(0), lambda: advisor(data).due_all()):
        with pytest.raises(DataError, match=line):
            ask()


@pytest.fixture
def shop() -> Interactions:
    """Acme buys nuts and bolts every ten days and oil rarely; three others buy nuts, two of them every twenty days."""
    rows = every(0, 0, 0, 10, 20, 30) + every(0, 1, 0, 9, 20, 30, 36) + every(0, 2, 5)
    rows += every(1, 0, 0, 20, 40, 52) + every(2, 0, 0, 20, 40, 52) + every(3, 3, 0, 11, 21, 30)
    return purchases(
        rows,
        user_labels=["Acme", "Bolt & Co", "Corda", "Dory"],
        item_labels=["nut", "bolt", "oil", "sail"],
        quantity=[100, 200, 300, 200, *[1] * 5, 1, *[5] * 12],
        price=[0.5, 0.5, 0.7, 0.0, *[2] * 5, 9, *[1] * 12],
        currency="€",
    )


def test_the_list_of_a_client(shop: Interactions) -> None:
    found = advisor(shop).due("Acme", as_of="2024-02-14")  # day 44
    assert [each.product for each in found] == ["bolt", "nut"]  # five purchases before four
    assert found[1] == DueProduct("Acme", "nut", 0, date(2024, 1, 31), 10.0, 14, 4, 1, None, 200.0, 0.5)
    assert [each.overdue for each in found] == [-1.5, 4.0]
    assert found[1].text() == (
        "Bought 4 times, usually every 10 days; last on 31 Jan 2024, 14 days ago: 4 days overdue. "
        "No other client reorders it regularly."
    )


def test_who_else_reorders_it(shop: Interactions) -> None:
    (nut,) = advisor(shop).due("Bolt & Co", as_of=START + 72)
    assert (nut.n_clients, nut.product_interval) == (3, 20.0)
    assert nut.text() == (
        "Bought 4 times, usually every 20 days; last on 22 Feb 2024, 20 days ago: due now. "
        "3 clients reorder it regularly, typically every 20 days."
    )
    assert "due in 3 days" in advisor(shop).due("Corda", as_of=START + 69)[0].text()


def test_two_clients_do_not_reveal_each_others_interval() -> None:
    data = purchases(every(0, 0, 0, 10, 20, 30) + every(1, 0, 0, 7, 14, 28))
    reorders = find_reorders(data)
    assert (reorders.n_clients.tolist(), np.isnan(reorders.product_intervals).tolist()) == ([2], [True])


def test_daily_purchases_read_well() -> None:
    (daily,) = advisor(purchases([*every(0, 0, 0, 1, 2, 3), (1, 1, 4)])).due(0)
    assert daily.text().startswith("Bought 4 times, usually every day; last on 4 Jan 2024, 1 day ago: due now.")


def test_the_frame_of_a_client_and_of_all(shop: Interactions) -> None:
    asked = advisor(shop)
    one, everybody = asked.due("Acme", as_of="2024-02-14").to_frame(), asked.due_all(as_of="2024-02-14")
    assert one.columns == [
        "client", "rank", "product", "last_purchase", "interval", "days_since", "overdue", "n_purchases", "n_clients",
        "product_interval", "usual_quantity", "usual_price",
    ]  # fmt: skip
    assert one.row(1) == ("Acme", 2, "nut", date(2024, 1, 31), 10.0, 14, 4.0, 4, 1, None, 200.0, 0.5)
    assert everybody.filter(pl.col("client") == "Acme").equals(one)
    assert everybody.select("client", "rank", "product").rows() == [
        ("Acme", 1, "bolt"), ("Acme", 2, "nut"), ("Dory", 1, "sail"),
    ]  # fmt: skip
    assert asked.due_all(1, "2024-02-14")["product"].to_list() == ["bolt", "sail"]
    assert [each.product for each in asked.due("Acme", 1, "2024-02-14")] == ["bolt"]
    nothing = asked.due("Acme", as_of="2023-01-01")
    assert (len(nothing), nothing.to_frame().schema) == (0, one.schema)


def test_a_list_prints_short_and_shows_as_a_table(shop: Interactions) -> None:
    found = advisor(shop).due("Acme", as_of="2024-02-14")
    assert repr(found).splitlines()[0] == "Due again for Acme on 2024-02-14:"
    assert repr(found).splitlines()[2].startswith("  2. nut: Bought 4 times")
    assert '<td style="text-align: left">nut</td>' in found._repr_html_()
    assert found.as_of == np.datetime64("2024-02-14")


def test_the_callers_kind_of_frame_and_names() -> None:
    frame = pd.DataFrame(
        {"who": [7] * 4, "what": ["a1"] * 4, "called": ["nut <M8>"] * 4, "day": START + np.array([0, 10, 20, 30])}
    )
    data = read(frame, client="who", product="what", time="day", product_name="called")
    found = advisor(data).due(7, as_of="2024-02-10")
    table = found.to_frame()
    assert isinstance(table, pd.DataFrame)
    assert table[["client", "product", "product_name"]].to_numpy().tolist() == [[7, "a1", "nut <M8>"]]
    assert "nut &lt;M8&gt;" in found._repr_html_()


def test_what_is_never_recommended_is_never_due(shop: Interactions) -> None:
    model = OCuLaR(2, 0.1, max_iter=3, random_state=0).fit(shop, without=["bolt"])
    assert [each.product for each in Advisor(model).due("Acme", as_of="2024-02-14")] == ["nut"]


def test_bad_questions(shop: Interactions) -> None:
    asked = advisor(shop)
    with pytest.raises(UnknownNameError, match="no client named 'Acmé'"):
        asked.due("Acmé")
    with pytest.raises(ConfigError, match="expected a date such as 2024-07-01, got 'soon'"):
        asked.due("Acme", as_of="soon")
    with pytest.raises(ConfigError, match="expected n to be a whole number of at least 1, got 0"):
        asked.due("Acme", 0)


def test_an_advisor_remembers_no_other_day_and_no_other_purchases(shop: Interactions) -> None:
    asked = advisor(shop)
    assert len(asked.due("Acme", as_of="2024-02-14")) == 2
    assert len(asked.due("Acme", as_of="2023-02-14")) == 0
    asked.model.fit(purchases(every(0, 0, 0, 10, 20, 30), user_labels=["Acme"]))
    assert [each.n_purchases for each in asked.due("Acme", as_of=START + 40)] == [4]


def test_a_saved_model_keeps_the_dates(shop: Interactions, tmp_path: Any) -> None:
    asked = advisor(shop)
    asked.model.save(tmp_path / "model")
    assert Advisor.load(tmp_path / "model").due("Acme", as_of="2024-02-14") == asked.due("Acme", as_of="2024-02-14")


rows_of_a_client = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), min_size=1, max_size=30)


@given(rows_of_a_client, st.lists(rows_of_a_client, max_size=3))
def test_other_clients_change_neither_intervals_nor_dates(
    own: list[tuple[int, int]], others: list[list[tuple[int, int]]]
) -> None:
    rows = [(0, item, day) for item, day in own]
    more = [(user, item, day) for user, client in enumerate(others, 1) for item, day in client]
    alone, among = (find_reorders(purchases(each), START + 70) for each in (rows, rows + more))
    mine = among.users == 0
    for name in ("items", "intervals", "n_purchases", "last_days"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(among, name)[mine])
    assert set(alone.items[alone.due]) == set(among.items[among.due][among.users[among.due] == 0])


@given(rows_of_a_client)
def test_intervals_are_what_a_loop_over_sorted_days_gives(own: list[tuple[int, int]]) -> None:
    expected = {}
    for item in {item for item, _ in own}:
        days = sorted({day for other, day in own if other == item})
        gaps = np.diff(days)
        if len(days) >= 4 and np.median(np.abs(gaps - np.median(gaps))) <= 0.5 * np.median(gaps):
            expected[item] = (float(np.median(gaps)), len(days), START + days[-1])
    found = find_reorders(purchases([(0, item, day) for item, day in own]))
    facts = zip(found.intervals.tolist(), found.n_purchases.tolist(), found.last_days, strict=True)
    assert dict(zip(found.items.tolist(), facts, strict=True)) == expected
