"""Splits lose nothing, repeat with their seed, and keep the future out of the past."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from ocular.data.interactions import Interactions
from ocular.data.splits import Split, k_fold, latest_split, per_user_split, random_split, time_split
from ocular.errors import ConfigError, DataError, OcularError

Splitter = Callable[..., Split]


@pytest.fixture
def interactions() -> Interactions:
    """200 clients with 0 to 29 of 40 products each, every pair priced by its own number."""
    rng = np.random.default_rng(7)
    degrees = np.arange(200) % 30
    items = np.concatenate([rng.choice(40, degree, replace=False) for degree in degrees])
    made = Interactions.from_pairs(np.repeat(np.arange(200), degrees), items, (200, 40), price=np.zeros(len(items)))
    assert made.purchases is not None
    made.purchases.columns["price"][:] = np.arange(made.nnz)
    return made


def codes(interactions: Interactions) -> set[int]:
    """One number a pair, to compare sets of pairs."""
    return set((interactions.pair_users.astype(int) * interactions.n_items + interactions.by_user.indices).tolist())


def first_fold(interactions: Interactions, random_state: int = 0) -> Split:
    return next(k_fold(interactions, 4, random_state=random_state))


SPLITTERS: list[Splitter] = [random_split, per_user_split, first_fold]


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_the_two_sides_share_out_all_pairs(splitter: Splitter, interactions: Interactions) -> None:
    train, test = splitter(interactions)
    assert codes(train) & codes(test) == set()
    assert codes(train) | codes(test) == codes(interactions)
    assert 0.2 < test.nnz / interactions.nnz < 0.3


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_both_sides_keep_clients_products_and_amounts(splitter: Splitter, interactions: Interactions) -> None:
    for side in splitter(interactions):
        assert side.shape == interactions.shape
        assert side.user_labels is interactions.user_labels
        assert side.item_labels is interactions.item_labels
        assert side.purchases is not None
        all_codes = np.array(sorted(codes(interactions)))
        assert set(all_codes[side.purchases.columns["price"].astype(int)]) == codes(side)


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_the_seed_decides(splitter: Splitter, interactions: Interactions) -> None:
    assert (
        splitter(interactions, random_state=1).test.fingerprint()
        == splitter(interactions, random_state=1).test.fingerprint()
    )
    assert (
        splitter(interactions, random_state=1).test.fingerprint()
        != splitter(interactions, random_state=2).test.fingerprint()
    )


def test_random_split_takes_exactly_the_share(interactions: Interactions) -> None:
    assert random_split(interactions, 0.1).test.nnz == round(0.1 * interactions.nnz)


def test_every_pair_is_equally_likely_to_be_held_out() -> None:
    everything = Interactions.from_matrix(np.ones((5, 8)))
    for splitter in (random_split, per_user_split):
        held_out = sum(splitter(everything, 0.25, random_state=seed).test.to_matrix().toarray() for seed in range(400))
        # 100 of 400 expected with a deviation of 8.7
        assert held_out.min() > 60
        assert held_out.max() < 140


def test_every_pair_is_tested_in_exactly_one_fold(interactions: Interactions) -> None:
    folds = list(k_fold(interactions, 5, random_state=3))
    assert len(folds) == 5
    tested = [code for fold in folds for code in codes(fold.test)]
    assert len(tested) == interactions.nnz
    assert set(tested) == codes(interactions)
    sizes = [fold.test.nnz for fold in folds]
    assert max(sizes) - min(sizes) <= 1


def test_as_many_folds_as_pairs_leave_one_out() -> None:
    folds = list(k_fold(Interactions.from_pairs([0, 1, 2], [0, 0, 1]), 3))
    assert [fold.test.nnz for fold in folds] == [1, 1, 1]


def test_per_user_split_takes_the_share_of_every_client(interactions: Interactions) -> None:
    degrees = interactions.by_user.degrees
    test = per_user_split(interactions, 0.25).test.by_user.degrees
    expected = np.floor(0.25 * degrees + 0.5)
    expected[degrees <= 1] = 0
    np.testing.assert_array_equal(test, expected)


def test_per_user_split_leaves_everybody_something_to_learn_from(interactions: Interactions) -> None:
    train, test = per_user_split(interactions, 0.9)
    assert (train.by_user.degrees[interactions.by_user.degrees > 0] > 0).all()
    assert (test.by_user.degrees[interactions.by_user.degrees == 2] == 1).all()
    assert (test.by_user.degrees[interactions.by_user.degrees == 1] == 0).all()


@pytest.fixture
def dated() -> Interactions:
    """One client; nut only before July, saw before and after, oil only after, tin twice after, gum at no known time."""
    bought = [
        ("nut", "2024-01-10", 1.0),
        ("saw", "2024-06-30", 2.0),
        ("saw", "2024-08-01", 3.0),
        ("oil", "2024-07-01", 4.0),
        ("tin", "2024-09-01", 5.0),
        ("tin", "2024-10-01", 6.0),
        ("gum", "NaT", 7.0),
    ]
    labels = ["nut", "saw", "oil", "tin", "gum"]
    return Interactions.from_pairs(
        [0] * len(bought),
        [labels.index(name) for name, _, _ in bought],
        item_labels=labels,
        time=[when for _, when, _ in bought],
        price=[price for _, _, price in bought],
    )


def names_and_prices(side: Interactions) -> tuple[list[str], list[float]]:
    assert side.purchases is not None
    return side.item_labels[side.by_user[0]].tolist(), side.purchases.columns["price"].tolist()


@pytest.mark.parametrize(
    "when",
    [
        "2024-07-01",
        date(2024, 7, 1),
        datetime(2024, 7, 1),
        datetime(2024, 7, 1, tzinfo=UTC),
        datetime(2024, 7, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        "2024-07-01T02:00+02:00",
        np.datetime64("2024-07"),
    ],
)
def test_time_split_keeps_the_future_out_of_the_past(dated: Interactions, when: Any) -> None:
    train, test = time_split(dated, when)
    assert names_and_prices(train) == (["nut", "saw", "gum"], [1.0, 2.0, 7.0])
    assert names_and_prices(test) == (["oil", "tin"], [4.0, 5.0, 6.0])
    assert train.shape == test.shape == dated.shape
    assert train.purchases is not None
    assert train.purchases.pair.tolist() == [0, 1, 2]


def test_an_undated_purchase_counts_as_made_before() -> None:
    twice = Interactions.from_pairs([0, 0, 0], [0, 0, 1], time=["NaT", "2024-08-01", "2024-09-01"], price=[1, 2, 3])
    train, test = time_split(twice, "2024-07-01")
    assert train.by_user[0].tolist() == [0]
    assert train.purchases is not None
    assert train.purchases.columns["price"].tolist() == [1.0]
    assert test.by_user[0].tolist() == [1]


def test_time_split_takes_times_of_day(dated: Interactions) -> None:
    assert names_and_prices(time_split(dated, "2024-07-01T00:00:01").test) == (["tin"], [5.0, 6.0])


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (
            lambda h: random_split(h, 0),
            ConfigError,
            "expected test_share to be between 0 and 1, got 0",
        ),
        (
            lambda h: per_user_split(h, 1.0),
            ConfigError,
            "expected test_share to be between 0 and 1, got 1.0",
        ),
        (
            lambda h: random_split(h, float("nan")),
            ConfigError,
            "expected test_share to be between 0 and 1, got nan",
        ),
        (
            lambda h: random_split(h, random_state=-1),
            ConfigError,
            "expected random_state to be a whole number of at least 0, got -1",
        ),
        (
            lambda h: k_fold(h, random_state=0.5),
            ConfigError,
            "expected random_state to be a whole number of at least 0, got 0.5",
        ),
        (
            lambda h: k_fold(h, 1),
            ConfigError,
            "expected k to be a whole number of at least 2, got 1",
        ),
        (
            lambda h: k_fold(h, 2.5),
            ConfigError,
            "expected k to be a whole number of at least 2, got 2.5",
        ),
        (
            lambda h: k_fold(h, 6),
            DataError,
            "expected at least one pair per fold, got 5 pairs for 6 folds; lower k",
        ),
        (
            lambda h: random_split(h, 0.01),
            DataError,
            "expected at least one pair on each side, got 0 of 5 for testing; "
            "give more purchases or another test_share",
        ),
        (
            lambda h: per_user_split(h, 0.01),
            DataError,
            "expected clients with enough purchases to hold out a share of 0.01, got at most 5 per client; "
            "raise test_share or use random_split",
        ),
        (lambda h: time_split(h, "July"), ConfigError, "expected a date such as 2024-07-01, got 'July'"),
        (lambda h: time_split(h, 2024), ConfigError, "expected a date such as 2024-07-01, got 2024"),
        (
            lambda h: time_split(h, np.datetime64("NaT", "s")),
            ConfigError,
            f"expected a date such as 2024-07-01, got {np.datetime64('NaT', 's')!r}",
        ),
        (
            lambda h: time_split(h, "2030-01-01"),
            DataError,
            "expected pairs first bought on or after 2030-01-01T00:00:00, got none; "
            "choose a date between 2024-01-10T00:00:00 and 2024-10-01T00:00:00",
        ),
        (
            lambda h: time_split(h.where(np.array([True, True, True, True, False])), "2020-01-01"),
            DataError,
            "expected purchases before 2020-01-01T00:00:00, got none; "
            "choose a date between 2024-01-10T00:00:00 and 2024-10-01T00:00:00",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(
    dated: Interactions, call: Callable[[Interactions], Any], kind: type[OcularError], sentence: str
) -> None:
    with pytest.raises(kind, match=f"^{re.escape(sentence)}$"):
        call(dated)


@pytest.mark.parametrize("amounts", [{}, {"price": [1.0]}, {"time": ["NaT"]}])
def test_time_split_needs_times(amounts: dict[str, Any]) -> None:
    undated = Interactions.from_pairs([0], [0], **amounts)
    with pytest.raises(
        DataError, match=r"^expected purchases with a time, got none; read them with their date column$"
    ):
        time_split(undated, "2024-07-01")


def test_nothing_bought_cannot_be_split() -> None:
    empty = Interactions.from_pairs([], [], (3, 3))
    for splitter in (random_split, per_user_split, k_fold):
        with pytest.raises(DataError):
            splitter(empty)


def test_the_latest_pairs_are_held_out_where_clients_buy_over_time() -> None:
    users, items = np.divmod(np.arange(400), 20)
    over_time = np.datetime64("2024-01-01") + items * 10 + users  # everybody buys for half a year
    at_once = np.datetime64("2024-01-01") + users * 10  # everybody comes once
    split = latest_split(Interactions.from_pairs(users, items, time=over_time), 0.1)
    assert split is not None
    assert 0.05 < split.test.nnz / 400 < 0.15
    assert split.test.by_user.indices.min() > 15
    assert latest_split(Interactions.from_pairs(users, items, time=at_once), 0.1) is None
    assert latest_split(Interactions.from_pairs(users, items), 0.1) is None
