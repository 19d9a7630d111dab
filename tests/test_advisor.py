"""The advisor gives what the model gives, by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import ocular
from ocular import Advisor, Interactions, OCuLaR
from ocular.errors import UnknownNameError
from ocular.explain.calibration import Calibration


@pytest.fixture(scope="module")
def priced(bought: np.ndarray) -> OCuLaR:
    """The market with names, prices (product i costs 10·i + 10) and hit rates."""
    users, items = np.nonzero(bought)
    history = Interactions.from_pairs(
        users,
        items,
        user_labels=[f"Client {u} GmbH" for u in range(60)],
        item_labels=[f"Produkt №{i}" for i in range(40)],
        price=10.0 * items + 10,
        currency="€",
    )
    model = OCuLaR(4, 0.5, tol=0.0, max_iter=60, random_state=0).fit(history)
    model.calibration_ = Calibration(np.array([0.05, 0.5]), np.zeros(2), np.array([90, 80]), np.array([9, 60]))
    return model


@pytest.mark.parametrize("which", ["model", "priced"])
def test_recommendations_are_those_of_the_model(which: str, request: pytest.FixtureRequest) -> None:
    model: OCuLaR = request.getfixturevalue(which)
    for user in (0, 13, 42):
        ids, probabilities = model.recommend(user, N=7)
        found = Advisor(model).recommend(f"Client {user} GmbH", n=7)
        assert [each.product for each in found] == [f"Produkt №{i}" for i in ids]
        assert len(found) >= 2
        np.testing.assert_allclose([each.confidence for each in found], probabilities[: len(found)], rtol=1e-5)
        for each, item in zip(found, ids.tolist(), strict=True):
            assert each.client == f"Client {user} GmbH"
            assert each.text() == model.explain(user, item).text()
            assert each.to_dict() == model.explain(user, item).to_dict() | {"value": each.value}
            assert (each.price, each.observed) == (each.explanation.price, each.explanation.observed)


def test_products_without_a_reason_come_last(model: OCuLaR) -> None:
    found = Advisor(model).recommend("Client 0 GmbH", n=1000)
    assert len(found) == 40 - len(model.interactions_.by_user[0])
    reasoned = [bool(each.explanation.reasons) for each in found]
    assert reasoned == sorted(reasoned, reverse=True)
    assert set(reasoned) == {True, False}


def test_value_is_price_times_hit_rate(priced: OCuLaR) -> None:
    found = Advisor(priced).recommend("Client 0 GmbH", n=40)
    rates = set()
    for each in found:
        cost = 10 * int(each.product.partition("№")[2]) + 10
        assert each.price is not None
        assert each.price.median == cost
        if each.confidence < 0.05:
            assert each.observed is None
            assert each.value == pytest.approx(cost * each.confidence)
        else:
            rate = 0.75 if each.confidence >= 0.5 else 0.1
            assert each.value == pytest.approx(cost * rate)
            rates.add(rate)
    assert rates
    assert Advisor(priced).explain("Client 0 GmbH", "Produkt №1").to_dict()["value"] is not None


def test_without_a_price_there_is_no_value(model: OCuLaR) -> None:
    (found,) = Advisor(model).recommend("Client 0 GmbH", n=1)
    assert found.price is None
    assert found.value is None
    assert found.to_dict()["value"] is None


def test_explain_one_product(model: OCuLaR) -> None:
    advisor = Advisor(model)
    owned = int(model.interactions_.by_user[0][0])
    assert "has bought" in advisor.explain("Client 0 GmbH", f"Produkt №{owned}").text()
    for item in (owned, 1, 17):
        assert advisor.explain("Client 0 GmbH", f"Produkt №{item}").text() == model.explain(0, item).text()


def test_also_supposes_further_purchases(model: OCuLaR, bought: np.ndarray) -> None:
    advisor = Advisor(model)
    # something of a co-cluster that the client has no part in
    apart = np.flatnonzero(~model.columns_[model.rows_[:, 5]].any(axis=0) & model.columns_.any(axis=0))[:3]
    assert len(apart) == 3
    also = [f"Produkt №{i}" for i in apart]
    row = bought[[5]].copy()
    row[0, apart] = 1
    ids, probabilities = model.recommend(5, row, N=6, recalculate_user=True)
    found = advisor.recommend("Client 5 GmbH", n=6, also=also)
    assert [each.product for each in found] == [f"Produkt №{i}" for i in ids]
    np.testing.assert_allclose([each.confidence for each in found], probabilities, rtol=1e-5)
    before = {each.product: each.confidence for each in advisor.recommend("Client 5 GmbH", n=40)}
    gained = [each for each in found if each.product not in before or each.confidence > before[each.product] + 0.2]
    assert gained
    assert any(set(reason.owned_items) & set(apart.tolist()) for reason in gained[0].explanation.reasons)
    assert not {each.product for each in found} & set(also)
    assert advisor.explain("Client 5 GmbH", also[0], also=iter(also)).explanation.owned
    one = advisor.explain("Client 5 GmbH", found[0].product, also=also)
    assert one.to_dict() == found[0].to_dict()
    unsupposed = [each.to_dict() for each in advisor.recommend("Client 5 GmbH", n=3, also=())]
    assert unsupposed == [each.to_dict() for each in advisor.recommend("Client 5 GmbH", n=3)]


def test_the_next_best_take_the_place_of_what_is_left_out(model: OCuLaR) -> None:
    advisor = Advisor(model)
    best = [each.product for each in advisor.recommend("Client 0 GmbH", n=8)]
    left_out = [best[0], best[2]]
    found = [each.product for each in advisor.recommend("Client 0 GmbH", n=4, without=left_out)]
    assert found == [best[1], *best[3:6]]
    assert [each.product for each in advisor.recommend("Client 0 GmbH", n=2, without=best[0])] == best[1:3]


def test_a_new_client_with_the_products_of_an_old_one(model: OCuLaR, bought: np.ndarray) -> None:
    owned = np.flatnonzero(bought[0])
    found = Advisor(model).recommend_new([f"Produkt №{i}" for i in owned], n=2)
    ids, probabilities = model.recommend(0, bought[[0]], N=2, recalculate_user=True)
    assert [each.product for each in found] == [f"Produkt №{i}" for i in ids]
    np.testing.assert_allclose([each.confidence for each in found], probabilities, rtol=1e-5)
    assert found[0].client == "the client"
    assert "- The client has purchased" in found[0].text()
    assert not any(each.explanation.reasons for each in Advisor(model).recommend_new([]))


def test_a_model_of_ratings_knows_what_a_new_client_has(bought: np.ndarray) -> None:
    plain = OCuLaR(4, 0.5, tol=0.0, max_iter=40, random_state=0).fit(bought)
    rated = OCuLaR(4, 0.5, tol=0.0, max_iter=40, random_state=0, min_value=3).fit(bought * 4)
    products = np.flatnonzero(bought[0])[:6].tolist()
    expected = [each.product for each in Advisor(plain).recommend_new(products)]
    assert expected
    assert [each.product for each in Advisor(rated).recommend_new(products)] == expected
    assert [each.product for each in Advisor(rated).recommend(0, also=[1])] == [
        each.product for each in Advisor(plain).recommend(0, also=[1])
    ]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda a: a.recommend("Client 3 Gmbh"), "no client named 'Client 3 Gmbh' among 60; did you mean 'Client 3 G"),
        (lambda a: a.explain("Client 3 GmbH", "Produkt 3"), "no product named 'Produkt 3' among 40; did you mean 'Pro"),
        (lambda a: a.recommend("Client 3 GmbH", also=["Produkt"]), "no product named 'Produkt' among 40; did you mean"),
        (lambda a: a.recommend_new(["xyz"]), "no product named 'xyz' among 40"),
    ],
    ids=["client", "product", "also", "new"],
)  # fmt: skip
def test_unknown_names_are_answered_with_the_nearest(model: OCuLaR, ask: object, says: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        ask(Advisor(model))  # type: ignore[operator]
    assert str(refused.value).startswith(says)


def test_hidden_clients(model: OCuLaR) -> None:
    (found,) = Advisor(model).recommend("Client 0 GmbH", n=1)
    assert found.to_dict()["reasons"][0]["similar_users"]
    assert found.to_dict(show_clients=False)["reasons"][0]["similar_users"] == []
    assert "e.g." not in found.to_dict(show_clients=False)["text"]


def test_an_advisor_comes_from_a_folder(model: OCuLaR, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    advisor = ocular.Advisor.load(tmp_path / "model")
    assert [each.to_dict() for each in advisor.recommend("Client 7 GmbH")] == [
        each.to_dict() for each in Advisor(model).recommend("Client 7 GmbH")
    ]


def test_a_less_confident_recommendation_is_not_worth_more(priced: OCuLaR) -> None:
    """Below all that was checked, the least hit rate is the most that can be hoped for."""
    before = priced.calibration_
    try:
        priced.calibration_ = Calibration(np.array([0.99]), np.array([0.99]), np.array([100]), np.array([5]))
        found = Advisor(priced).recommend("Client 0 GmbH", n=1)[0]
        assert found.observed is None
        assert found.price is not None
        assert found.value == pytest.approx(0.05 * found.price.median)
    finally:
        priced.calibration_ = before


def test_what_is_supposed_is_said(model: OCuLaR) -> None:
    advisor = Advisor(model)
    product = advisor.recommend("Client 0 GmbH", n=1)[0].product
    supposed = advisor.explain("Client 0 GmbH", product, also=[product])
    assert supposed.text().startswith(f"Supposing that Client 0 GmbH also had {product}: Client 0 GmbH has bought")
    assert "Supposing" not in advisor.explain("Client 0 GmbH", product).text()
    assert "Supposing" not in advisor.recommend_new([product], n=1)[0].text()
    without = model.explain(0, 3, model.interactions_.to_matrix()[[1]])
    assert without.text().startswith("Supposing that Client 0 GmbH")


def test_only_a_fitted_model_advises() -> None:
    with pytest.raises(NotFittedError):
        Advisor(OCuLaR())
