"""Attributes in the likelihood by name: what the estimator makes of those of an Interactions."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import learned_bytes

import ocular
from ocular import Interactions, OCuLaR
from ocular.errors import ConfigError, UnknownNameError
from ocular.model.attributes import MAX_VALUES, AttributeNames, side_attributes
from ocular.synthetic import planted

FAMILIES = np.array(["Printing", "Storage", "Security"], dtype=object)
TRUTH = planted(150, 60, 3, overlap=0.0, density=0.4, noise=0.01, random_state=0)
FAMILY = FAMILIES[TRUTH.columns.argmax(axis=0)]


def purchases(**changes: Any) -> Interactions:
    n_users, n_items = TRUTH.interactions.shape
    industry = np.array(["Bank", "Airline", None], dtype=object)[np.arange(n_users) % 3]
    attributes = {"user_attributes": {"industry": industry}, "item_attributes": {"family": FAMILY}}
    labels = {
        "user_labels": np.array([f"client {u:03}" for u in range(n_users)]),
        "item_labels": np.array([f"product {i:03}" for i in range(n_items)]),
    }
    return replace(TRUTH.interactions, **labels | attributes | changes)


def model(**parameters: Any) -> OCuLaR:
    usual = {"n_coclusters": 3, "regularization": 1.0, "random_state": 0, "n_threads": 1, "attribute_strength": 2.0}
    return OCuLaR(**usual | parameters)


def test_zero_strength_is_the_fit_without_attributes() -> None:
    bare = purchases(user_attributes={}, item_attributes={})
    zero = model(attribute_strength=0.0)
    assert learned_bytes(zero.fit(purchases())) == learned_bytes(model(attribute_strength=0.0).fit(bare))
    assert zero.item_attribute_weights_.shape == (0, 4)
    assert zero.attribute_labels() == []


def test_values_have_weights_by_name() -> None:
    fitted = model().fit(purchases())
    assert fitted.attribute_labels() == [("family", "Printing"), ("family", "Security")]  # Storage has none
    assert fitted.attribute_labels("user") == [("industry", "Airline")]
    assert fitted.item_attribute_weights_.shape == (2, 4)
    for value, weights in zip(("Printing", "Security"), fitted.item_attribute_weights_, strict=True):
        memberships = fitted.item_factors_.toarray()[value == FAMILY].mean(axis=0)
        assert weights[:3].argmin() == memberships.argmax()  # P grows with e^(−⟨w, f⟩)


def test_the_order_of_rows_changes_nothing() -> None:
    data, rng = purchases(), np.random.default_rng(0)
    users, items = rng.permutation(data.n_users), rng.permutation(data.n_items)
    pairs = data.to_matrix()[users][:, items]
    shuffled = Interactions.from_pairs(
        *pairs.nonzero(),
        user_labels=data.user_labels[users],
        item_labels=data.item_labels[items],
        user_attributes={"industry": data.user_attributes["industry"][users]},
        item_attributes={"family": data.item_attributes["family"][items]},
    )
    one, other = model().fit(data), model().fit(shuffled)
    np.testing.assert_array_equal(one.item_factors_.toarray()[items], other.item_factors_.toarray())
    np.testing.assert_array_equal(one.item_attribute_weights_, other.item_attribute_weights_)
    assert one.history_ == other.history_


@pytest.mark.parametrize("kind", ["text", "list"])
def test_several_values_in_a_cell(kind: str) -> None:
    cells: list[Any] = [["Ink", "Paper"], ["Ink"], None, ["Paper", "Toner"], ["Ink", "Toner"], []] * 10
    column = np.empty(60, dtype=object)
    column[:] = [cell and "|".join(cell) for cell in cells] if kind == "text" else cells
    found = side_attributes(purchases(user_attributes={}, item_attributes={"tags": column}), 1.0)
    assert found is not None
    assert found.users is None
    assert found.items is not None
    assert not found.items.exclusive[0]
    assert found.items.observed[:6, 0].tolist() == [True, True, False, True, True, False]
    shown = [found.items.values[a:b].tolist() for a, b in zip(found.items.ends[:6], found.items.ends[1:7], strict=True)]
    assert shown == [[0, 1], [0], [], [1, 2], [0, 2], []]  # Ink, Paper, Toner


def test_what_does_not_describe_rows_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    columns = {
        "family": FAMILY,
        "code": np.array([f"P-{i}" for i in range(60)], dtype=object),
        "vendor": np.full(60, "Acme", dtype=object),
    }
    with caplog.at_level(logging.INFO, "ocular"):
        names = AttributeNames.of(columns, 60, "product")
    assert [column.name for column in names.columns] == ["family"]
    assert "product attribute 'code' has 60 values for 60 products, most of them once: left out" in caplog.text


def test_many_values_are_the_most_frequent_ones(caplog: pytest.LogCaptureFixture) -> None:
    n = MAX_VALUES + 30
    column = np.array([f"city {k:04}" for k in range(n) for _ in range(3 + (k >= 30))], dtype=object)
    names = AttributeNames.of({"city": column}, len(column), "client")
    assert (
        f"client attribute 'city' has {n} values: the {MAX_VALUES} most frequent are in the likelihood" in caplog.text
    )
    assert names.labels == [("city", f"city {k:04}") for k in range(30, n)]
    coded = names.encode({"city": ["city 0031", "city 0002", "nowhere", None]}, 4)
    assert coded.observed[:, 0].tolist() == [True, True, True, False]  # rare ones are the rest, and so is a new one
    assert np.diff(coded.ends).tolist() == [1, 0, 0, 0]


def test_a_stopped_fit_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"tol": 0.0, "max_iter": 8}
    model(**settings | {"max_iter": 3}).fit(purchases(), checkpoint=tmp_path / "fit.npz")
    resumed = model(**settings).fit(purchases(), checkpoint=tmp_path / "fit.npz")
    whole = model(**settings).fit(purchases())
    assert learned_bytes(resumed) == learned_bytes(whole)
    np.testing.assert_array_equal(resumed.user_attribute_weights_, whole.user_attribute_weights_)


def test_weights_are_saved_with_the_model(tmp_path: Path) -> None:
    fitted = model().fit(purchases())
    fitted.save(tmp_path / "model")
    read = ocular.load(tmp_path / "model")
    assert read.attribute_strength == 2.0
    for name in ("user_attribute_weights_", "item_attribute_weights_"):
        np.testing.assert_array_equal(getattr(read, name), getattr(fitted, name))
    given = {"family": "Printing"}
    np.testing.assert_array_equal(read.memberships_from_attributes(given), fitted.memberships_from_attributes(given))


def test_a_new_product_has_the_memberships_of_its_family() -> None:
    fitted = model().fit(purchases())
    for family in FAMILIES:
        usual = fitted.item_factors_.toarray()[family == FAMILY].mean(axis=0)
        assert fitted.memberships_from_attributes({"family": family}).argmax() == usual.argmax()
    average = np.asarray(fitted.item_factors_.mean(axis=0)).ravel()
    for nothing in ({}, {"family": None}, {"family": "Unheard of"}):
        np.testing.assert_allclose(fitted.memberships_from_attributes(nothing), average, rtol=1e-3)


def test_other_searches_and_choices_take_attributes_too() -> None:
    chosen = model(regularization="auto", links="auto", tol=1e-2).fit(purchases())
    assert len(chosen.item_attribute_weights_) == 2


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("data", [TRUTH.interactions, purchases(user_attributes={}, item_attributes={}), np.eye(4)])
def test_no_attributes_to_fit_is_one_line(data: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        model().fit(data)
    assert str(caught.value) == (
        "expected attributes with attribute_strength=2, got none that describe rows; read some with client_attributes "
        "or product_attributes"
    )


@pytest.mark.parametrize("strength", [-1.0, float("nan"), "some"])
def test_a_strength_that_makes_no_sense_is_one_line(strength: Any) -> None:
    with pytest.raises(ConfigError, match="expected attribute_strength to be a number from 0 to 1e"):
        model(attribute_strength=strength).fit(purchases())


def test_unknown_attributes_and_models_without_are_one_line() -> None:
    fitted = model().fit(purchases())
    with pytest.raises(UnknownNameError, match="no item attribute named 'colour' in the fit; it has family"):
        fitted.memberships_from_attributes({"colour": "red"})
    with pytest.raises(ConfigError, match="expected side to be one of user, item, got 'product'"):
        fitted.memberships_from_attributes({}, side="product")
    plain = model(attribute_strength=0.0).fit(purchases())
    with pytest.raises(ConfigError, match="expected a model with attributes of items in its likelihood, got none"):
        plain.memberships_from_attributes({"family": "Printing"})


def test_spark_refuses_attributes() -> None:
    pytest.importorskip("pyspark")
    from ocular.spark.fit import check_on_spark

    with pytest.raises(ConfigError, match=r"expected attribute_strength=0 on Spark, got 2: .* fitted on the CPU"):
        check_on_spark(model())
