"""The advisor gives what the model gives, by name."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import ocular
from ocular import Advisor, Interactions, OCuLaR
from ocular.advisor import Recommendation
from ocular.errors import ConfigError, DataError, UnknownNameError
from ocular.explain.calibration import Calibration


@pytest.fixture(scope="module")
def priced(bought: np.ndarray) -> OCuLaR:
    """The market with names, prices (product i costs 10·i + 10) and hit rates."""
    users, items = np.nonzero(bought)
    purchases = Interactions.from_pairs(
        users,
        items,
        user_labels=[f"Client {u} GmbH" for u in range(60)],
        item_labels=[f"Produkt №{i}" for i in range(40)],
        price=10.0 * items + 10,
        currency="€",
    )
    model = OCuLaR(4, 0.5, tol=0.0, max_iter=60, random_state=0).fit(purchases)
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
            assert each.to_dict() == model.explain(user, item).to_dict() | {
                "chance": each.chance,
                "typical_price": each.typical_price,
                "typical_quantity": 1.0,
                "value": each.value,
            }
            assert (each.price, each.observed) == (each.explanation.price, each.explanation.observed)


def test_products_without_a_reason_come_last(model: OCuLaR) -> None:
    found = Advisor(model).recommend("Client 0 GmbH", n=1000)
    assert len(found) == 40 - len(model.interactions_.by_user[0])
    reasoned = [bool(each.explanation.reasons) for each in found]
    assert reasoned == sorted(reasoned, reverse=True)
    assert set(reasoned) == {True, False}


def test_value_is_chance_times_typical_price(priced: OCuLaR) -> None:
    found = Advisor(priced).recommend("Client 0 GmbH", n=40)
    chances = set()
    for each in found:
        cost = 10 * int(each.product.partition("№")[2]) + 10
        assert each.price is not None
        assert each.price.median == each.typical_price == cost
        assert each.typical_quantity == 1.0
        if each.confidence < 0.05:
            assert each.observed is None
            assert each.chance == pytest.approx(each.confidence)
        else:
            assert each.chance == pytest.approx(0.75 if each.confidence >= 0.5 else 0.1)
            chances.add(each.chance)
        assert each.value == pytest.approx(each.chance * cost)
    assert chances


def test_value_is_that_of_an_order_by_everybody_not_by_similar_clients(bought: np.ndarray) -> None:
    """Similar clients pay another price, which is shown; the value has the typical price and the typical quantity."""
    users, items = np.nonzero(bought)
    rng = np.random.default_rng(0)
    price, quantity = rng.uniform(1, 100, len(users)), rng.integers(1, 9, len(users)).astype(float)
    model = OCuLaR(4, 0.5, tol=0.0, max_iter=60, random_state=0).fit(
        Interactions.from_pairs(users, items, price=price, quantity=quantity)
    )
    advisor = Advisor(model)
    found = [each for client in range(5) for each in advisor.recommend(client, n=5)]
    for each in found:
        paid = items == each.product
        typical = float(f"{np.median(price[paid]):.3g}")
        assert each.typical_price == pytest.approx(typical)
        assert each.typical_quantity == pytest.approx(np.median(quantity[paid]))
        assert each.value == pytest.approx(each.confidence * typical * np.median(quantity[paid]))
    assert any(each.price is not None and each.price.median != each.typical_price for each in found)


def test_what_the_client_has_is_worth_no_call(priced: OCuLaR) -> None:
    owned = int(priced.interactions_.by_user[0][0])
    has = Advisor(priced).explain("Client 0 GmbH", f"Produkt №{owned}")
    assert has.value is None
    assert has.typical_price == 10 * owned + 10


def test_a_new_calibration_changes_the_value(bought: np.ndarray, priced: OCuLaR) -> None:
    model = copy.copy(priced)
    advisor = Advisor(model)
    before = advisor.recommend("Client 0 GmbH", n=1)[0]
    model.calibration_ = None
    after = advisor.recommend("Client 0 GmbH", n=1)[0]
    assert before.chance == 0.75
    assert after.chance == pytest.approx(after.confidence)
    assert after.value != before.value


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


@pytest.fixture(scope="module")
def described(bought: np.ndarray) -> OCuLaR:
    """The market with prices, attributes of both sides, and postage that is never recommended."""
    users, items = np.nonzero(bought)
    data = Interactions.from_pairs(
        users,
        items,
        user_labels=[f"C{u}" for u in range(60)],
        item_labels=["Postage", *(f"P{i}" for i in range(1, 40))],
        price=10.0 * items + 10,
        user_attributes={"country": np.array(["Chile", "Peru", "Bolivia"] * 20, dtype=object)},
        item_attributes={"family": np.array(["Printing", "Paper", "Ink", None] * 10, dtype=object)},
    )
    return OCuLaR(4, 0.5, tol=0.0, max_iter=60, random_state=0).fit(data, without="Postage")


def products(found: Iterable[Recommendation]) -> list[str]:
    return [each.product for each in found]


def test_only_and_without_choose_products(described: OCuLaR) -> None:
    advisor = Advisor(described)
    whole = products(advisor.recommend("C0", n=40))
    family = {f"P{i}": ("Printing", "Paper", "Ink", None)[i % 4] for i in range(1, 40)}
    assert "Postage" not in whole
    for choice, expected in (
        ({"only": {"family": "Printing"}}, [p for p in whole if family[p] == "Printing"]),
        ({"only": {"family": ["Ink", "Paper"]}}, [p for p in whole if family[p] in {"Ink", "Paper"}]),
        ({"only": {"family": "Ink"}, "without": whole[:3]}, [p for p in whole[3:] if family[p] == "Ink"]),
        ({"without": {"family": "Ink"}}, [p for p in whole if family[p] != "Ink"]),
        ({"only": whole[4]}, [whole[4]]),
    ):
        assert products(advisor.recommend("C0", n=40, **choice)) == expected
        assert products(advisor.recommend("C0", n=40, also=["Postage"], **choice)) != []
        frame = advisor.recommend_all(n=40, **choice)
        assert frame.filter(pl.col("client") == "C0")["product"].to_list() == expected
    assert products(advisor.recommend_new(["P5"], only=["Postage"])) == []


def test_clients_for_a_product_have_the_same_reasons(described: OCuLaR) -> None:
    advisor, data = Advisor(described), described.interactions_
    found = advisor.clients_for("P6", n=8)
    ids, probabilities = described.recommend_users(6, N=8)
    assert [each.client for each in found] == [f"C{u}" for u in ids]
    np.testing.assert_allclose([each.confidence for each in found], probabilities, rtol=1e-5)
    for each in found:
        assert each.product == "P6"
        assert data.user_index(each.client) not in data.by_item[6]
        assert each.to_dict() == advisor.explain(each.client, "P6").to_dict()
    everybody = [each.client for each in advisor.clients_for("P6")]
    assert len(everybody) == min(50, 60 - len(data.by_item[6]))
    chile = [each.client for each in advisor.clients_for("P6", only={"country": ["Chile", "Peru"]}, without="C0")]
    assert chile == [c for c in everybody if int(c[1:]) % 3 != 2 and c != "C0"][: len(chile)]
    assert len(chile) > 10
    with pytest.raises(DataError, match="got 'Postage', which the fit excluded"):
        advisor.clients_for("Postage")
    with pytest.raises(UnknownNameError, match="no client attribute named 'land'; the clients have country"):
        advisor.clients_for("P6", only={"land": "Chile"})


def test_recommendations_for_all_are_those_for_each(described: OCuLaR) -> None:
    advisor = Advisor(described)
    frame = advisor.recommend_all(n=3)
    assert frame.columns == [
        "client", "rank", "product", "confidence", "chance", "typical_price", "typical_quantity", "value", "kind",
        "pattern", "pattern_label", "share",
        "because", "similar_buyers", "similar_clients", "attribute", "reason",
    ]  # fmt: skip
    assert frame["client"].unique(maintain_order=True).to_list() == [f"C{u}" for u in range(60)]
    for client in ("C0", "C17"):
        rows = frame.filter(pl.col("client") == client)
        found = advisor.recommend(client, n=3)
        assert rows["product"].to_list() == products(found)
        assert rows["rank"].to_list() == [1, 2, 3]
        np.testing.assert_allclose(rows["confidence"], [each.confidence for each in found], rtol=1e-5)
        np.testing.assert_allclose(rows["value"], [each.value for each in found], atol=0.006)
        first = rows.row(0, named=True)
        assert first["reason"] == f"has {first['because']} (pattern {first['pattern']}: {first['pattern_label']})"


def test_a_list_becomes_a_frame_and_a_table_in_a_notebook(described: OCuLaR) -> None:
    found = Advisor(described).recommend("C0", n=3)
    frame = found.to_frame()
    assert frame["product"].to_list() == products(found)
    assert frame["client"].to_list() == ["C0"] * 3
    assert frame["rank"].to_list() == [1, 2, 3]
    assert frame["value"].to_list() == [each.value for each in found]
    assert frame["reason"][0] == found[0].reason
    assert found[0].reason.startswith("has P")
    assert found[0].reason.endswith("such clients bought it")
    html = found._repr_html_()
    assert html.count("<tr>") == 4
    assert all(f"{name}</td>" in html for name in products(found))
    assert "For C0" in html
    assert found[:2] == list(found)[:2]  # a list like any other
    assert Advisor(described).recommend("C0", only=[]).to_frame().shape[0] == 0


def test_names_in_a_notebook_are_escaped() -> None:
    data = Interactions.from_pairs(
        [0, 0, 1, 1, 2], [0, 1, 0, 1, 0], user_labels=["<b>A", "B", "C"], item_labels=["<script>", "x"]
    )
    found = Advisor(OCuLaR(1, 0.1, tol=0.0, max_iter=20, random_state=0).fit(data)).recommend("C")
    assert products(found) == ["x"]
    assert "<script>" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()


def test_n_is_a_whole_number(described: OCuLaR) -> None:
    for ask in (lambda a: a.recommend("C0", n=0), lambda a: a.clients_for("P6", n=1.5), lambda a: a.recommend_all(n=0)):
        with pytest.raises(ConfigError, match="expected n to be a whole number of at least 1"):
            ask(Advisor(described))


def test_a_new_client_with_the_products_of_an_old_one(model: OCuLaR, bought: np.ndarray) -> None:
    owned = np.flatnonzero(bought[0])
    found = Advisor(model).recommend_new([f"Produkt №{i}" for i in owned], n=2)
    ids, probabilities = model.recommend(0, bought[[0]], N=2, recalculate_user=True)
    assert [each.product for each in found] == [f"Produkt №{i}" for i in ids]
    np.testing.assert_allclose([each.confidence for each in found], probabilities, rtol=1e-5)
    assert found[0].client == "the client"
    assert "- The client has purchased" in found[0].text()


@pytest.mark.parametrize("weights", [{}, {"links": 1.0}, {"links": 1.0, "peers": 0.5, "popularity": -0.2}])
def test_a_client_without_purchases_gets_bestsellers(named: Interactions, weights: dict[str, float]) -> None:
    model = OCuLaR(4, 0.5, random_state=0, **weights).fit(named)
    found, buyers = Advisor(model).recommend_new([], n=3), named.by_item.degrees
    best = np.argsort(-buyers, kind="stable")[:3].tolist()
    assert [each.product for each in found] == [f"Produkt №{i}" for i in best]
    assert not any(each.explanation.reasons for each in found)
    assert found[0].text() == (
        f"No purchases yet; bestsellers come first: {buyers[best[0]]} of 60 clients ({buyers[best[0]] / 60:.0%}) "
        f"own Produkt №{best[0]}."
    )


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
    assert supposed.text().startswith(f"Assuming that Client 0 GmbH also owns {product}: Client 0 GmbH has bought")
    assert "Assuming" not in advisor.explain("Client 0 GmbH", product).text()
    assert "Assuming" not in advisor.recommend_new([product], n=1)[0].text()
    without = model.explain(0, 3, model.interactions_.to_matrix()[[1]])
    assert without.text().startswith("Assuming that Client 0 GmbH")


def test_only_a_fitted_model_advises() -> None:
    with pytest.raises(NotFittedError):
        Advisor(OCuLaR())


def test_what_is_printed_is_short(model: OCuLaR) -> None:
    recommendations = Advisor(model).recommend("Client 3 GmbH", n=2)
    first = recommendations[0]
    assert repr(first) == f"Recommendation({first.product!r} for 'Client 3 GmbH': chance to buy {first.chance:.0%})"
    assert repr(recommendations).splitlines()[1] == f"  1. {first!r}"


def test_a_product_without_a_reason_is_worth_the_same_everywhere() -> None:
    """Long lists are filled with products that no co-cluster holds: their chance is the background, not a hit rate."""
    market = ocular.synthetic.b2b(150, 40, random_state=0).interactions
    advisor = Advisor(OCuLaR(5, 20.0, random_state=0).fit(market))
    advisor.model.calibrate()
    table = advisor.recommend_all(n=30)
    without_any = pl.col("confidence") < 1.0001 * advisor.model.background  # nothing else adds to it
    unexplained = table.filter(without_any & pl.col("typical_price").is_not_null())
    assert len(unexplained) > 50
    assert unexplained["kind"].null_count() == len(unexplained)
    assert unexplained["hit_rate"].null_count() == len(unexplained)
    assert unexplained["chance"].max() < 0.001
    for row in unexplained.head(20).iter_rows(named=True):
        single = advisor.explain(row["client"], row["product"])
        assert single.observed is None
        assert row["value"] == pytest.approx(single.value, abs=0.01)


def test_frames_of_new_clients_and_empty_lists_have_names(bought: np.ndarray) -> None:
    users, items = np.nonzero(bought)
    data = Interactions.from_pairs(
        users, items, user_labels=[f"c{u}" for u in range(60)], item_labels=[f"p{i}" for i in range(40)],
        item_names=[f"Product {i}" for i in range(40)], item_attributes={"family": np.array(["a"] * 40, dtype=object)},
    )  # fmt: skip
    advisor = Advisor(OCuLaR(4, 0.5, random_state=0).fit(data))
    new = advisor.recommend_new(["p1", "p2"], n=2).to_frame()
    assert new["client"].to_list() == [None, None]
    assert new["product_name"].to_list() == [name.replace("p", "Product ") for name in new["product"].to_list()]
    assert len(advisor.recommend("c0", without={"family": "a"}).to_frame()) == 0
