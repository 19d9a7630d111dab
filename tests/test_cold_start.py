"""New products and new clients: the formula written out, reasons that add up, and what a seller would notice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ocular import Advisor, Interactions, OCuLaR
from ocular.cold_start.neighbours import Neighbours
from ocular.cold_start.rows import ATTRIBUTES_WORTH, LINK_WEIGHT, SIMILAR_ITSELF, VALUE_WEIGHT
from ocular.data.attributes import describe
from ocular.data.interactions import Adjacency
from ocular.errors import DataError, UnknownNameError
from ocular.synthetic import b2b

WEIGHTS = {"links": 0.8, "peers": 0.5, "popularity": -0.2, "link_regularization": 20.0}
KINDS = [{}, WEIGHTS, WEIGHTS | {"taste": 0.7, "appeal": 0.4, "bias": True}]


def fit(data: Any, **parameters: Any) -> OCuLaR:
    return OCuLaR(6, 2.0, max_iter=80, tol=1e-3, random_state=0, n_threads=1, **parameters).fit(data)


@pytest.fixture(scope="module")
def market() -> Interactions:
    return b2b(160, 60, random_state=1).interactions


@pytest.fixture(scope="module", params=KINDS, ids=["patterns", "evidence", "all"])
def model(request: pytest.FixtureRequest, market: Interactions) -> OCuLaR:
    return fit(market, **request.param)


def rows_of(*lists: list[int]) -> Adjacency:
    ends = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    return Adjacency(ends, np.concatenate([np.array(sorted(row), dtype=np.int32) for row in lists]))


def test_neighbours_are_the_rows_with_the_most_similar_attributes() -> None:
    kinds = np.array(list("aaabbbc"), dtype=object)
    features = describe({"kind": kinds, "size": np.array(list("xxyxxyy"), dtype=object)}, 7)
    bought = np.array([True] * 6 + [False])
    new = features.describe({"kind": "a", "size": "x"})
    weights = Neighbours(features, bought).weights(Adjacency(np.array([0, len(new)]), new)).toarray()[0]
    assert weights.sum() == pytest.approx(1)
    assert weights[0] == weights[1] == weights.max()
    assert (weights[[0, 2, 3]] > 0).all()
    assert weights[6] == 0  # nobody has bought it


def test_a_new_product_has_the_score_of_the_formula(model: OCuLaR, market: Interactions) -> None:
    cold, config = model.cold_start(), model.evidence_config_
    given = {"family": market.item_attributes["family"][5], "list_price": 900.0}
    buyers = [3, 40, 77]
    new = cold.new_products(rows_of(buyers, []), [given, given])
    found = (cold.for_products.rows_of(np.arange(160)) @ cold.product_rows(new).T).toarray()

    R, degrees = market.to_matrix().toarray().astype(np.float64), market.by_item.degrees
    features, mean = cold.item_features, degrees.mean()
    kappa = min(ATTRIBUTES_WORTH * math.sqrt(mean), mean)
    w = new.neighbours.toarray().astype(np.float64)
    S, F = model.links_.toarray().astype(np.float64), model.user_factors_.toarray().astype(np.float64)
    borrowed_links = w @ S.T
    borrowed_links += SIMILAR_ITSELF * borrowed_links.sum(axis=1, keepdims=True) * w
    taste = cold.for_products.taste.toarray() @ new.values.matrix(len(features)).toarray().T
    peers = model.peers_.toarray()[buyers].sum(axis=0)
    for at, k in enumerate((3, 0)):
        own = F @ new.factors.toarray()[at] + config.links * R @ new.links.toarray()[at]
        own = (own + (config.peers * peers if k else 0)) / config.total_weight
        if config.appeal and k:
            appeal = cold.product_rows(new)[[at]].toarray()[0, -len(cold.user_features) :]
            scale = (new.demand[at] / mean) ** config.popularity * new.own_weight[at]
            own += cold.user_features.rows.matrix(len(cold.user_features)).toarray() @ appeal / scale
        weight = LINK_WEIGHT if config.links else 0
        borrowed = F @ (w[at] @ model.item_factors_.toarray()) + weight * R @ borrowed_links[at]
        borrowed = (borrowed + VALUE_WEIGHT * taste[:, at]) / (1 + weight + VALUE_WEIGHT)
        c = max(1, mean / (kappa + k))
        popularity = ((w[at] @ degrees) / mean) ** config.popularity
        np.testing.assert_allclose(found[:, at], popularity * c * (own + kappa / mean * borrowed), rtol=1e-4)


@pytest.mark.parametrize("side", ["product", "client"])
def test_reasons_add_up_and_go_with_the_ranking(model: OCuLaR, market: Interactions, side: str) -> None:
    advisor = Advisor(model)
    if side == "product":
        given = {"family": market.item_attributes["family"][5]}
        found = advisor.clients_for_new(given, market.user_labels[:4], n=12, name="Newton")
        assert not {each.client for each in found} & set(market.user_labels[:4])
        assert {each.product for each in found} == {"Newton"}
    else:
        given = {"industry": market.user_attributes["industry"][5], "size": "Large"}
        found = advisor.recommend_new(market.item_labels[:3], 12, attributes=given, name="Newco")
        assert not {each.product for each in found} & set(market.item_labels[:3])
        assert {each.client for each in found} == {"Newco"}
        assert any(each.value for each in found)
        assert all(each.value is None or each.value > 0 for each in found)  # with fewer than five payers there is none
    confidences = [each.confidence for each in found]
    assert len(found) == 12
    assert confidences == sorted(confidences, reverse=True)
    for each in found:
        z = sum(reason.contribution for reason in each.reasons) + each.explanation.base
        assert -math.expm1(-z) == pytest.approx(each.confidence, abs=1e-9)
        assert each.to_dict()["reasons"][0]["text"] == each.reasons[0].sentence
    assert found.to_frame().shape == (12, 9)
    names = set(map(str, market.user_labels)) - {each.client for each in found}
    assert not any(name in each.text(show_clients=False) for each in found for name in names)


def test_a_product_that_is_known_folds_in_to_where_it_is(market: Interactions) -> None:
    model = fit(market)
    folded = model.fold_in_items(market.to_matrix().T).toarray()
    known = model.item_factors_.toarray()
    cosines = (folded * known).sum(axis=1) / np.maximum(
        np.linalg.norm(folded, axis=1) * np.linalg.norm(known, axis=1), 1e-9
    )
    assert np.median(cosines) > 0.99
    with_family = model.fold_in_items(market.to_matrix().T[:1], [{"family": market.item_attributes["family"][30]}])
    assert (with_family.toarray() >= folded[:1] - 1e-6).all()
    assert with_family.sum() > folded[:1].sum()


def airlines() -> Interactions:
    """Airlines buy printers and banks disks, each most of them; a few buy both."""
    rng = np.random.default_rng(0)
    likes = np.zeros((60, 16))
    likes[:20, :8], likes[20:, 8:] = 0.7, 0.7
    pairs = np.argwhere(rng.random((60, 16)) < likes + 0.03)
    return Interactions.from_pairs(
        *pairs.T,
        (60, 16),
        user_labels=[f"airline {u}" for u in range(20)] + [f"bank {u}" for u in range(40)],
        item_labels=[f"printer {i}" for i in range(8)] + [f"disk {i}" for i in range(8)],
        user_attributes={"industry": np.array(["Airline"] * 20 + ["Bank"] * 40, dtype=object)},
        item_attributes={"family": np.array(["Printing"] * 8 + ["Storage"] * 8, dtype=object)},
    )


@pytest.mark.parametrize("weights", [{}, {"links": 1.0, "peers": 0.5}])
def test_a_new_printer_is_for_airlines_and_a_new_bank_buys_disks(weights: dict[str, float]) -> None:
    advisor = Advisor(OCuLaR(2, 1.0, random_state=0, **weights).fit(airlines()))
    clients = advisor.clients_for_new({"family": "Printing"}, n=15)
    assert all(each.client.startswith("airline") for each in clients)
    assert any("buys Printing products: " in reason.sentence for reason in clients[0].reasons)
    products = advisor.recommend_new(attributes={"industry": "Bank"}, n=8)
    assert all(each.product.startswith("disk") for each in products)
    appeal = next(reason for reason in products[0].reasons if reason.kind == "appeal")
    assert "of Bank clients bought disk" in appeal.sentence
    assert products.similar[0].startswith("bank")
    # purchases speak louder than the industry in the end
    printers = [f"printer {i}" for i in range(6)]
    mixed = advisor.recommend_new(printers, n=2, attributes={"industry": "Bank"})
    assert {each.product for each in mixed} == {"printer 6", "printer 7"}
    # and buyers louder than the family
    banks = [f"bank {u}" for u in range(12)]
    assert advisor.clients_for_new({"family": "Printing"}, banks, n=5)[0].client.startswith("bank")


def test_excluded_and_chosen_ones() -> None:
    data = airlines()
    advisor = Advisor(OCuLaR(2, 1.0, random_state=0).fit(data, without=["disk 0"]))
    products = advisor.recommend_new(attributes={"industry": "Bank"}, n=16, without=["disk 1"])
    assert not {"disk 0", "disk 1"} & {each.product for each in products}
    clients = advisor.clients_for_new({"family": "Printing"}, n=60, only={"industry": "Bank"})
    assert len(clients) == 40


def test_bad_input() -> None:
    advisor = Advisor(OCuLaR(2, 1.0, random_state=0).fit(airlines()))
    with pytest.raises(
        UnknownNameError, match="no product attribute named 'colour' that the model uses; it has family"
    ):
        advisor.clients_for_new({"colour": "red"})
    with pytest.raises(
        DataError, match=r"expected attributes that products have \(family\) or buyers of the new product"
    ):
        advisor.clients_for_new()
    with pytest.raises(DataError, match="or purchases of the new client, got none that the model knows"):
        advisor.recommend_new(attributes={"industry": "Bakery"})
    with pytest.raises(UnknownNameError, match="no client named"):
        advisor.clients_for_new({"family": "Printing"}, ["nobody"])
    plain = Advisor(OCuLaR(2, 1.0, random_state=0).fit(airlines().to_matrix()))
    with pytest.raises(UnknownNameError, match=r"no client attribute named 'industry'.*it has none"):
        plain.recommend_new(attributes={"industry": "Bank"})
    assert plain.clients_for_new(buyers=[1, 2], n=3)[0].reasons
    with pytest.raises(DataError, match="expected attributes of 1 items, got 2"):
        advisor.model.fold_in_items(np.zeros((1, 60)), [{}, {}])


def test_a_prospect_is_compared_with_clients_that_have_its_attributes() -> None:
    """Eight airlines in Chile, of whom six have the first product, among 60 clients."""
    industry = np.array(["Airline" if user < 24 else "Bank" for user in range(60)], dtype=object)
    country = np.array(["Chile" if user < 8 or user >= 50 else "Peru" for user in range(60)], dtype=object)
    size = np.array(["Large" if user % 2 else "Small" for user in range(60)], dtype=object)
    pairs = [(user, 0) for user in [*range(6), *range(10, 20), 30]]
    pairs += [(user, 1 + user % 4) for user in range(60)] + [(user, 5) for user in range(40)]
    users, items = zip(*pairs, strict=True)
    attributes = {"industry": industry, "country": country, "size": size}
    data = Interactions.from_pairs(users, items, (60, 6), user_attributes=attributes)
    advisor = Advisor(OCuLaR(2, 0.5, peers=1.0, peer_regularization=0.5, random_state=0, n_threads=1).fit(data))
    found = advisor.recommend_new(n=6, attributes={"industry": "Airline", "country": "Chile"})
    (peers,) = (r for each in found if each.item == 0 for r in each.reasons if r.kind == "peers")
    counted = "6 of the 8 Airline, Chile clients bought Item 0 (75%; 28% of all clients)"
    assert peers.sentence_without_names == f"{counted}."
    assert peers.sentence == f"{counted}: Clients 0-5."
    assert peers.group == tuple(range(8))
    for each in found:  # no two of the reasons that are shown count the same clients
        groups = [reason.group for reason in each.explanation.shown_reasons if reason.group]
        assert len({*groups}) == len(groups)
    many = advisor.recommend_new(n=6, attributes={"industry": "Bank"})
    sizes = {len(r.group) for each in many for r in each.reasons if r.kind == "peers"}
    assert min(sizes) == 20  # of 36 banks the nearest
