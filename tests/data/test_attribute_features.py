"""Attributes as features: values, ranges, pairs, and what is left out."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from ocular.data import attributes
from ocular.data.attributes import Features, describe
from ocular.errors import UnknownNameError


def column(*values: Any) -> np.ndarray:
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells


def names_of(features: Features, row: int) -> list[str]:
    return [features.names[value] for value in features.rows[row]]


def test_values_lists_and_texts_with_a_separator() -> None:
    genres = "Action|Comedy", "Comedy", ["Action", "War"], {"Comedy", "Action"}, None, float("nan"), "", "War", "Drama"
    features = describe({"genres": column(*genres)}, 9)
    assert features.names == ["genres: Action", "genres: Comedy", "genres: War", "genres: Action + genres: Comedy"]
    assert names_of(features, 0) == ["genres: Action", "genres: Comedy", "genres: Action + genres: Comedy"]
    assert names_of(features, 2) == ["genres: Action", "genres: War"]
    assert names_of(features, 3) == names_of(features, 0)
    assert all(names_of(features, row) == [] for row in (4, 5, 6, 8))  # missing, and Drama, which no other row has


def test_the_separator_is_an_option() -> None:
    values = column(*["a;b"] * 3, *["a|b"] * 3)
    assert describe({"x": values}, 6, separator=";").names == ["x: a", "x: a|b", "x: b", "x: a + x: b"]


def test_pairs_of_values_that_come_together_are_features() -> None:
    features = describe({"family": column(*"AAABBB"), "size": column(*"xxyxyy")}, 6)
    assert features.names == [
        "family: A", "family: B", "size: x", "size: y", "family: A + size: x", "family: B + size: y",
    ]  # fmt: skip
    assert features.rows[0].tolist() == [0, 2, 4]
    assert features.rows[2].tolist() == [0, 3]


def test_many_numbers_become_ranges_and_few_are_values() -> None:
    prices = describe({"price": np.arange(100.0)}, 100)
    assert len(prices) == attributes.N_RANGES
    assert names_of(prices, 0) == ["price: up to 9"]
    assert names_of(prices, 99) == ["price: above 89"]
    assert (prices.holders.degrees == 10).all()
    few = describe({"age": np.array([18, 25] * 5)}, 10)
    assert few.names == ["age: 18", "age: 25"]
    assert few.adjective(0) == "age 18"


def test_rows_may_come_in_any_order() -> None:
    given = {"a": column(*"xyzxyzxyz", None), "n": np.arange(10) % 3}
    order = np.random.default_rng(0).permutation(10)
    features, moved = describe(given, 10), describe({name: values[order] for name, values in given.items()}, 10)
    assert moved.names == features.names
    assert [moved.rows[row].tolist() for row in range(10)] == [features.rows[row].tolist() for row in order]


def test_a_new_row_is_described_as_an_old_one(caplog: pytest.LogCaptureFixture) -> None:
    given = {"family": column(*["Printing"] * 4, *["Storage"] * 4), "price": np.arange(8) % 2}
    features = describe(given, 8)
    assert features.describe({"family": "Printing", "price": "1"}).tolist() == features.rows[1].tolist()
    assert features.describe({"family": ["Printing", "Storage"]}).tolist() == [0, 1]
    assert not caplog.records
    assert features.describe({"family": "Printng"}).tolist() == []
    [note] = caplog.messages
    assert note == ("too few products with family 'Printng' to learn from: it is ignored; did you mean 'Printing'?")
    with pytest.raises(UnknownNameError, match="no product attribute named 'color' that the model uses; it has family"):
        features.describe({"color": "red"})


def test_names_and_constants_are_left_out_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ocular")
    given = {
        "phone": column(*map(str, range(2000))),
        "status": column(*["open"] * 2000),
        "empty": column(*[None] * 2000),
    }
    features = describe(given | {"kind": column(*"ab" * 1000)}, 2000, "client")
    assert features.names == ["kind: a", "kind: b"]
    assert caplog.messages == [
        "client attribute 'phone' has 2,000 values for 2,000 clients, most of them once: left out; drop it, or group "
        "its values",
        "client attribute 'status' is the same for all: left out",
        "client attribute 'empty' is empty: left out",
    ]
