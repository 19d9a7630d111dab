"""The data contract: both orientations, names, repeated purchases, filters and every refusal in words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ocular.data.interactions import Interactions, Purchases
from ocular.errors import DataError, UnknownNameError

#          nut  saw  oil
# Acme      1    .    1
# Bolt      .    1    1
# Crow      .    .    .
MATRIX = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0]])
CLIENTS = ["Acme", "Bolt", "Crow"]
PRODUCTS = ["nut", "saw", "oil"]


@pytest.fixture
def shop() -> Interactions:
    """Five purchases of four pairs, given out of order: Acme bought oil twice."""
    return Interactions.from_pairs(
        [1, 0, 0, 1, 0],
        [2, 2, 0, 1, 2],
        user_labels=CLIENTS,
        item_labels=PRODUCTS,
        price=[9.0, 5.0, 1.0, 7.0, 6.0],
        quantity=[1, 2, 3, 4, 5],
        time=["2024-05-01", "2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01"],
        user_attributes={"country": np.array(["Chile", "Peru", None], dtype=object)},
        item_attributes={"weight": np.array([0.1, 0.5, 0.9])},
    )


def test_both_orientations_hold_the_same_pairs(shop: Interactions) -> None:
    assert shop.shape == (3, 3)
    assert shop.nnz == 4
    assert [shop.by_user[row].tolist() for row in range(3)] == [[0, 2], [1, 2], []]
    assert [shop.by_item[row].tolist() for row in range(3)] == [[0], [1], [0, 1]]
    assert shop.by_user.degrees.tolist() == [2, 2, 0]
    assert shop.by_item.degrees.tolist() == [1, 1, 2]
    assert shop.pair_users.tolist() == [0, 0, 1, 1]
    assert shop.by_user.indices.dtype == shop.by_item.indices.dtype == np.int32
    assert shop.by_user.indptr.dtype == shop.by_item.indptr.dtype == np.int64


def test_pairs_and_matrix_agree(shop: Interactions) -> None:
    np.testing.assert_array_equal(shop.to_matrix().toarray(), MATRIX)
    assert shop.to_matrix().dtype == np.float32
    assert Interactions.from_matrix(MATRIX).fingerprint() == shop.fingerprint()


@pytest.mark.parametrize(
    "form",
    [list, np.array, sp.csr_array, sp.csc_matrix, sp.coo_array, lambda dense: np.asarray(dense, dtype=bool)],
    ids=["list", "array", "csr_array", "csc_matrix", "coo_array", "bool"],
)
def test_every_form_of_a_matrix_is_read_alike(form: Any) -> None:
    read = Interactions.from_matrix(form(MATRIX.tolist()))
    np.testing.assert_array_equal(read.to_matrix().toarray(), MATRIX)
    assert read.purchases is None


def test_stored_zeros_are_no_purchases() -> None:
    stored = sp.csr_array(([1.0, 0.0], ([0, 1], [0, 1])), shape=(2, 2))
    assert Interactions.from_matrix(stored).nnz == 1


def test_min_value_turns_ratings_into_positives() -> None:
    ratings = np.array([[5, 2, 0], [3, 0, 4]])
    read = Interactions.from_matrix(ratings, min_value=3)
    assert [read.by_user[row].tolist() for row in range(2)] == [[0], [0, 2]]


def test_a_low_min_value_does_not_make_the_unknown_positive() -> None:
    stored = sp.csr_array(([-1.0, 0.0, 2.0], ([0, 0, 0], [0, 1, 2])), shape=(1, 4))
    assert Interactions.from_matrix(stored, min_value=-5).by_user[0].tolist() == [0, 2]


def test_labels_lead_to_rows_and_back(shop: Interactions) -> None:
    for row, name in enumerate(CLIENTS):
        assert shop.user_index(name) == row
        assert shop.user_labels[row] == name
    for row, name in enumerate(PRODUCTS):
        assert shop.item_index(name) == row
        assert shop.item_labels[row] == name


def test_without_labels_rows_are_their_own_names() -> None:
    plain = Interactions.from_pairs([0, 4], [1, 0])
    assert plain.shape == (5, 2)
    assert plain.user_labels.tolist() == [0, 1, 2, 3, 4]
    assert plain.user_index(4) == plain.user_index("4") == 4


def test_whole_numbers_are_names_too() -> None:
    numbered = Interactions.from_pairs([0, 1], [0, 0], user_labels=[4711, 17], item_labels=["nut"])
    assert numbered.user_labels.dtype == np.int64
    assert numbered.user_index(17) == 1


def test_shape_makes_room_for_rows_without_purchases() -> None:
    assert Interactions.from_pairs([0], [0], (4, 7)).shape == (4, 7)
    assert Interactions.from_pairs([], []).shape == (0, 0)


def test_repeated_purchases_are_one_pair_and_keep_their_amounts(shop: Interactions) -> None:
    purchases = shop.purchases
    assert purchases is not None
    assert len(purchases) == 5
    assert purchases.pair.tolist() == [0, 1, 1, 2, 3]
    assert purchases.price is not None
    assert purchases.price.tolist() == [1.0, 5.0, 6.0, 7.0, 9.0]
    assert purchases.quantity is not None
    assert purchases.quantity.tolist() == [3, 2, 5, 4, 1]
    assert purchases.time is not None
    assert purchases.time.astype("datetime64[M]").astype(str).tolist() == [
        "2024-02", "2024-01", "2024-04", "2024-03", "2024-05",
    ]  # fmt: skip


def test_pairs_by_item_lead_to_the_same_pairs(shop: Interactions) -> None:
    assert shop.pairs_by_item.tolist() == [0, 2, 1, 3]  # nut: Acme; saw: Bolt; oil: Acme, Bolt
    np.testing.assert_array_equal(shop.pair_users[shop.pairs_by_item], shop.by_item.indices)


def test_payments_by_hand(shop: Interactions) -> None:
    assert shop.payments is not None
    buyers, prices, times = shop.payments.of(2)  # oil: Acme twice, Bolt once
    assert (buyers.tolist(), prices.tolist(), times.tolist()) == ([0, 0, 1], [5.0, 6.0, 9.0], [2, 2, 1])


def test_gifts_and_returns_are_no_payments() -> None:
    prices, quantity = [0.0, -3.0, np.nan, 2.0, 4.0, 5.0], [1, 1, 1, -1, np.nan, 1]
    payments = Interactions.from_pairs([0, 1, 2, 3, 4, 4], [0] * 6, price=prices, quantity=quantity).payments
    assert payments is not None
    assert [part.tolist() for part in payments.of(0)] == [[4, 4], [4.0, 5.0], [2, 2]]
    assert Interactions.from_pairs([0], [0]).payments is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_payments_against_a_slow_reference(bought: list[tuple[int, int]]) -> None:
    users, items = zip(*bought, strict=True)
    payments = Interactions.from_pairs(users, items, (5, 5), price=np.arange(1.0, len(bought) + 1)).payments
    assert payments is not None
    for item in range(5):
        found = list(zip(*(part.tolist() for part in payments.of(item)), strict=True))
        assert found == [(u, n, bought.count((u, i))) for n, (u, i) in enumerate(bought, start=1) if i == item]


def test_the_currency_stays_with_the_amounts() -> None:
    interactions = Interactions.from_pairs([0, 1], [0, 0], price=[1.0, 2.0], currency="£")
    kept = interactions.where(np.array([True, False])).purchases
    assert kept is not None
    assert kept.currency == "£"


def test_only_the_amounts_that_were_given_are_there() -> None:
    purchases = Interactions.from_pairs([0], [0], quantity=[2]).purchases
    assert purchases is not None
    assert list(purchases.columns) == ["quantity"]
    assert Interactions.from_pairs([0], [0]).purchases is None


def test_purchases_taken_belong_to_their_new_pairs() -> None:
    taken = Purchases(np.arange(3), price=np.array([1.0, 2.0, 3.0])).take(np.array([2, 0]), np.array([7, 8]))
    assert taken.pair.tolist() == [7, 8]
    assert taken.columns["price"].tolist() == [3.0, 1.0]


def test_where_keeps_shape_names_and_the_right_amounts(shop: Interactions) -> None:
    kept = shop.where(np.array([False, True, False, True]))  # Acme's oil, Bolt's oil
    assert kept.shape == shop.shape
    assert kept.user_labels is shop.user_labels
    assert kept.item_labels is shop.item_labels
    assert kept.user_attributes is shop.user_attributes
    assert kept.item_attributes is shop.item_attributes
    assert [kept.by_user[row].tolist() for row in range(3)] == [[2], [2], []]
    assert [kept.by_item[row].tolist() for row in range(3)] == [[], [], [0, 1]]
    assert kept.purchases is not None
    assert kept.purchases.pair.tolist() == [0, 0, 1]
    assert kept.purchases.columns["price"].tolist() == [5.0, 6.0, 9.0]


def test_where_leaves_the_original_alone(shop: Interactions) -> None:
    before = shop.fingerprint()
    nothing = shop.where(np.zeros(4, dtype=bool))
    assert nothing.nnz == 0
    assert nothing.purchases is not None
    assert len(nothing.purchases) == 0
    assert shop.fingerprint() == before
    assert shop.where(np.ones(4, dtype=bool)).fingerprint() == before


def test_fingerprint_tells_histories_apart() -> None:
    prints = {
        Interactions.from_pairs([0, 1], [0, 1]).fingerprint(),
        Interactions.from_pairs([0, 1], [1, 0]).fingerprint(),
        Interactions.from_pairs([0, 1], [0, 1], (2, 3)).fingerprint(),
        Interactions.from_pairs([0, 0], [0, 1], (2, 2)).fingerprint(),
    }
    assert len(prints) == 4


def test_it_says_how_large_it_is() -> None:
    assert repr(Interactions.from_pairs([0], [0], (1234, 5))) == "Interactions(1,234 clients × 5 products, 1 pairs)"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("acme", "no client named 'acme' among 3; did you mean 'Acme'?"),
        ("Blot", "no client named 'Blot' among 3; did you mean 'Bolt'?"),
        ("Zyx", "no client named 'Zyx' among 3"),
        ("", "no client named '' among 3"),
    ],
)
def test_an_unknown_client_is_answered_with_the_nearest(shop: Interactions, name: str, sentence: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        shop.user_index(name)
    assert str(refused.value) == sentence


def test_an_unknown_product_is_answered_with_the_nearest(shop: Interactions) -> None:
    with pytest.raises(UnknownNameError, match=r"^no product named 'saws' among 3; did you mean 'saw'\?$"):
        shop.item_index("saws")


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([[2, 1]], "expected values 0 or 1, got 2; pass min_value to turn ratings into positives"),
        ([[0.5, 1]], "expected values 0 or 1, got 0.5; pass min_value to turn ratings into positives"),
        ([[3, -1]], "expected values 0 or 1, got a negative value, -1; pass min_value to turn ratings into positives"),
        ([[np.nan, 1]], "expected values 0 or 1, got NaN or infinity; replace missing values by 0"),
        ([[np.inf, 1]], "expected values 0 or 1, got NaN or infinity; replace missing values by 0"),
        ([[1j]], "expected numbers 0 or 1, got a matrix of complex128"),
    ],
)
def test_a_bad_matrix_is_refused(matrix: Any, sentence: str) -> None:
    for form in (np.array(matrix), sp.csr_array(np.array(matrix))):
        with pytest.raises(DataError) as refused:
            Interactions.from_matrix(form)
        assert str(refused.value) == sentence


@pytest.mark.parametrize("matrix", [[["a", "b"]], np.array([[None]]), np.zeros((2, 2, 2)), [[1, 0], [1]]])
def test_what_is_no_matrix_of_numbers_is_refused_in_our_words(matrix: Any) -> None:
    with pytest.raises(DataError):
        Interactions.from_matrix(matrix)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"users": [0, 1], "items": [0]},
            "expected one user and one item per purchase, got shapes (2,) and (1,)",
        ),
        (
            {"users": [[0]], "items": [[0]]},
            "expected one user and one item per purchase, got shapes (1, 1) and (1, 1)",
        ),
        (
            {"users": [-1, 0], "items": [0, 0]},
            "expected indices below 1 × 1 and not negative, got users -1..0 and items 0..0",
        ),
        (
            {"users": [0], "items": [5], "shape": (2, 3)},
            "expected indices below 2 × 3 and not negative, got users 0..0 and items 5..5",
        ),
        (
            {"users": [0, 2], "items": [0, 0], "user_labels": ["Acme", "Bolt"]},
            "expected indices below 2 × 1 and not negative, got users 0..2 and items 0..0",
        ),
        (
            {"users": [0], "items": [0], "user_labels": ["Acme", "Acme", "Bolt"]},
            "expected every name once, got 1 repeated",
        ),
        (
            {"users": [0], "items": [0], "item_labels": ["nut", 7]},
            "expected names that are all text or all whole numbers, got int, str",
        ),
        (
            {"users": [0], "items": [0], "item_labels": [True]},
            "expected names that are all text or all whole numbers, got bool",
        ),
        (
            {"users": [0], "items": [0], "shape": (2, 1), "user_labels": ["Acme"]},
            "expected 2 client names, one per row, got 1",
        ),
        (
            {"users": [0], "items": [0], "shape": (1, 1), "item_labels": ["nut", "saw"]},
            "expected 1 product names, one per row, got 2",
        ),
        (
            {"users": [0], "items": [0], "user_attributes": {"country": np.array(["Chile", "Peru"])}},
            "expected 1 values of client attribute 'country', got 2",
        ),
        (
            {"users": [0], "items": [0], "item_attributes": {"weight": np.array([])}},
            "expected 1 values of product attribute 'weight', got 0",
        ),
    ],
)
def test_bad_pairs_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(sentence)}$"):
        Interactions.from_pairs(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"users": [0, 1], "items": [0, 0], "price": [1.0]},
        {"users": [0, 1], "items": [0, 0], "price": [1.0, 2.0, 3.0]},
        {"users": [0.7], "items": [0]},
    ],
    ids=["too few amounts", "too many amounts", "half an index"],
)
def test_pairs_that_lose_something_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        Interactions.from_pairs(**given)


def test_a_row_for_each_purchase(shop: Interactions) -> None:
    frame = shop.to_frame()
    assert frame.columns == ["client", "product", "price", "quantity", "time"]
    assert [row[:4] for row in frame.rows()] == [
        ("Acme", "nut", 1.0, 3.0),
        ("Acme", "oil", 5.0, 2.0),
        ("Acme", "oil", 6.0, 5.0),
        ("Bolt", "saw", 7.0, 4.0),
        ("Bolt", "oil", 9.0, 1.0),
    ]
    assert frame["time"].dt.to_string("%Y-%m-%d").to_list()[0] == "2024-02-01"


def test_unknown_amounts_are_null() -> None:
    frame = Interactions.from_pairs([0, 0], [0, 1], price=[np.nan, 2.0], time=["NaT", "2024-01-01"]).to_frame()
    assert frame["price"].to_list() == [None, 2.0]
    assert frame["time"].null_count() == 1


def test_a_row_for_each_pair_without_amounts() -> None:
    assert Interactions.from_matrix(MATRIX).to_frame().rows() == [(0, 0), (0, 2), (1, 1), (1, 2)]


def test_a_notebook_shows_a_summary(shop: Interactions) -> None:
    html = shop._repr_html_()
    for fact in ("<td>3</td>", "<td>5</td>", "2024-01-01 to 2024-05-01", "1.00 to 9.00", "country", "weight"):
        assert fact in html
    assert repr(shop) == "Interactions(3 clients × 3 products, 4 pairs)"


def test_a_notebook_runs_no_script_from_names() -> None:
    attributes = {"<script>": np.array(["x"])}
    assert "<script>" not in Interactions.from_pairs([0], [0], user_attributes=attributes)._repr_html_()


def test_names_need_one_for_each_row() -> None:
    with pytest.raises(DataError, match=r"^expected 1 product names, one per row, got 2$"):
        Interactions.from_pairs([0], [0], item_names=["nut", "saw"])
