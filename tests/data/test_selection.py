"""Products and clients chosen by name or by attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ocular import Interactions
from ocular.data.selection import allowed_items, allowed_users
from ocular.errors import UnknownNameError

DATA = Interactions.from_pairs(
    [0, 1, 2],
    [0, 1, 3],
    user_labels=[101, 102, 103],
    item_labels=["nut", "saw", "vise", "sail"],
    user_attributes={"country": np.array(["Chile", "Peru", None], dtype=object)},
    item_attributes={
        "family": np.array(["Tools", "Tools", "Tools", None], dtype=object),
        "weight": np.array([0.5, 2.0, np.nan, 2.0]),
        "new": np.array([True, False, True, False]),
        "shelf": np.array([10, 5, 10, 7]),
        "code": np.array(["10", "007", "None", None], dtype=object),
    },
)


@pytest.mark.parametrize(
    ("only", "without", "rows"),
    [
        ("saw", None, [1]),
        (["saw", "nut", "saw"], None, [0, 1]),
        ((), None, []),
        (None, "saw", [0, 2, 3]),
        (None, (), [0, 1, 2, 3]),
        ({"family": "Tools"}, "saw", [0, 2]),
        ({"weight": 2.0}, None, [1, 3]),
        ({"weight": ["2.0", 0.5]}, None, [0, 1, 3]),
        ({"weight": 2}, None, [1, 3]),
        ({"weight": "2"}, None, [1, 3]),
        ({"shelf": 10.0}, None, [0, 2]),
        ({"shelf": np.int64(5)}, None, [1]),
        ({"shelf": ["10", "7.0"]}, None, [0, 2, 3]),
        ({"code": "None"}, None, [2]),
        ({"code": 10}, None, [0]),
        ({"code": "007"}, None, [1]),
        ({"code": [None]}, None, [3]),
        ({"new": True}, None, [0, 2]),
        ({"new": "True", "weight": 0.5}, None, [0]),
        ({"family": "Tools"}, {"new": True}, [1]),
        ({}, None, [0, 1, 2, 3]),
    ],
)
def test_products(only: Any, without: Any, rows: list[int]) -> None:
    allowed = allowed_items(DATA, only, without)
    assert allowed is not None
    assert np.flatnonzero(allowed).tolist() == rows


def test_clients_and_no_choice_at_all() -> None:
    assert allowed_items(DATA, None, None) is None
    assert allowed_users(DATA, None, None) is None
    assert np.flatnonzero(allowed_users(DATA, {"country": ["Chile", "Peru"]}, 102)).tolist() == [0]
    assert np.flatnonzero(allowed_users(DATA, "103", None)).tolist() == [2]


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("sawn", "no product named 'sawn' among 4; did you mean 'saw'"),
        ({"colour": "red"}, "no product attribute named 'colour'; the products have family, weight, new"),
        ({"family": "Tool"}, "no product has family 'Tool'; did you mean 'Tools'?"),
        ({"family": ["Tools", "xyz"]}, "no product has family 'xyz'"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(only: Any, message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        allowed_items(DATA, only, None)
    assert str(caught.value).startswith(message)


def test_purchases_without_attributes_say_how_to_read_them() -> None:
    with pytest.raises(UnknownNameError, match="the products have none; read some with product_attributes"):
        allowed_items(Interactions.from_pairs([0], [0]), {"family": "x"}, None)
