"""Patterns, links and peers in one intensity: against the formula written out, and in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command import run

import ocular
from ocular import Advisor, Interactions, OCuLaR
from ocular.batch import Batch, Clients
from ocular.errors import ConfigError
from ocular.synthetic import planted

WEIGHTS = {"links": 0.8, "peers": 0.5, "popularity": -0.3, "link_regularization": 5.0}


def fit(data: Any, **parameters: Any) -> OCuLaR:
    return OCuLaR(4, 0.5, tol=1e-5, max_iter=300, random_state=0, **parameters).fit(data)


@pytest.fixture(scope="module")
def market() -> Interactions:
    return planted(120, 50, 4, overlap=0.4, density=0.6, noise=0.03, random_state=2).interactions


@pytest.fixture(scope="module")
def model(market: Interactions) -> OCuLaR:
    return fit(market, **WEIGHTS)


def written_out(model: OCuLaR) -> np.ndarray:
    """z of every pair, by the formula."""
    R = model.interactions_.to_matrix().toarray().astype(np.float64)
    patterns = model.user_factors_.toarray().astype(np.float64) @ model.item_factors_.toarray().T
    links = R @ model.links_.toarray()
    peers = model.peers_.toarray().T @ R
    scale = (R.sum(axis=0) / R.sum(axis=0).mean()) ** model.popularity
    mixed = scale * (patterns + model.links * links + model.peers * peers) / (1 + model.links + model.peers)
    return mixed + model.background


def test_the_intensity_is_the_formula(model: OCuLaR) -> None:
    users, items = np.arange(120)[:, None], np.arange(50)
    np.testing.assert_allclose(model.affinity(users, items), written_out(model), rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(users, items), -np.expm1(-written_out(model)), rtol=1e-5)


@pytest.mark.parametrize(
    "weights", [{}, {"links": 0.8}, {"peers": 0.5}, WEIGHTS], ids=["patterns", "links", "peers", "all"]
)
def test_all_users_of_one_item_are_scored_at_once(market: Interactions, weights: dict[str, float]) -> None:
    model = fit(market, **weights)
    for item in (0, 17):
        expected = model.predict_proba(np.arange(120), item)
        np.testing.assert_allclose(model.item_probabilities(item), expected, rtol=1e-5)


def test_rankings_go_by_it(model: OCuLaR) -> None:
    z = written_out(model)
    z[model.interactions_.to_matrix().toarray() > 0] = -np.inf
    ids, probabilities = model.recommend(np.arange(120), N=5)
    best = np.sort(z, axis=1)[:, :-6:-1]
    np.testing.assert_allclose(probabilities, -np.expm1(-best), rtol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(z, ids.astype(np.int64), axis=1), best, rtol=1e-4)
    users, probabilities = model.recommend_users(7, N=5)
    np.testing.assert_allclose(probabilities, -np.expm1(-np.sort(z[:, 7])[:-6:-1]), rtol=1e-4)
    np.testing.assert_allclose(z[users, 7], np.sort(z[:, 7])[:-6:-1], rtol=1e-4)


def test_similar_ones_go_by_links_and_peers(market: Interactions, model: OCuLaR) -> None:
    plain = fit(market)
    for kind, n, linked in (("items", 50, model.links_), ("users", 120, model.peers_)):
        ids, similarities = getattr(model, f"similar_{kind}")(np.arange(n), N=n)
        assert (ids[:, 0] == np.arange(n)).all()
        np.testing.assert_allclose(similarities[:, 0], 1, rtol=1e-6)
        assert similarities.min() >= 0
        assert similarities.max() <= 1
        without, _ = getattr(plain, f"similar_{kind}")(np.arange(n), N=n)
        both = (linked + linked.T).toarray()
        strength = [np.take_along_axis(both, near[:, 1:6].astype(np.int64), axis=1).mean() for near in (ids, without)]
        assert strength[0] > strength[1]


def test_similar_ones_are_those_of_the_last_fit(market: Interactions, model: OCuLaR) -> None:
    again = fit(market, **WEIGHTS)
    again.similar_items(0)
    again.set_params(links=0.0, peers=0.0, popularity=0.0).fit(market)
    expected = fit(market).similar_items(0, N=50)
    np.testing.assert_array_equal(again.similar_items(0, N=50), expected)
    assert not np.array_equal(model.similar_items(0, N=50)[0], expected[0])


def test_no_weight_is_the_model_of_the_paper(market: Interactions, model: OCuLaR) -> None:
    plain = fit(market)
    assert plain.links_.nnz == plain.peers_.nnz == 0
    assert plain.user_factors_.data.tobytes() == model.user_factors_.data.tobytes()
    z = plain.user_factors_.toarray().astype(np.float64) @ plain.item_factors_.toarray().T + plain.background
    np.testing.assert_allclose(plain.affinity(np.arange(120)[:, None], np.arange(50)), z, rtol=1e-6)


def test_contributions_sum_to_the_intensity(model: OCuLaR) -> None:
    kinds = set()
    for user in range(40):
        ids = model.recommend(user, N=5)[0]
        for item, explanation in zip(ids.tolist(), model.explain_all(user, ids), strict=True):
            total = sum(reason.contribution for reason in explanation.reasons) + explanation.base
            assert total == pytest.approx(model.affinity(user, item), rel=1e-5)
            assert explanation.confidence == pytest.approx(model.predict_proba(user, item), rel=1e-5)
            strengths = [reason.contribution for reason in explanation.reasons]
            assert strengths == sorted(strengths, reverse=True)
            for reason in explanation.reasons:
                kinds.add(reason.kind)
                assert user not in reason.similar_users + reason.other_users
                assert reason.kind == "pattern" or sum(reason.parts) == pytest.approx(reason.contribution)
    assert kinds == {"pattern", "links", "peers"}


def test_a_purchase_does_not_explain_itself(model: OCuLaR, market: Interactions) -> None:
    user = int(market.by_user.degrees.argmax())
    item = int(market.by_user[user][0])
    explanation = model.explain(user, item)
    assert explanation.owned
    for reason in explanation.reasons:
        assert item not in reason.owned_items
        assert user not in reason.similar_users


def test_links_serve_a_new_client_at_once(market: Interactions) -> None:
    """Somebody new with the purchases of a known client gets that client's links, without any fit."""
    model = OCuLaR(4, 1e9, links=1.0, link_regularization=5.0, tol=1.0, random_state=0).fit(market)
    row = market.by_user.take(np.array([3])).matrix(market.n_items)
    known, new = model.recommend(3, N=5), model.recommend(0, user_items=row, N=5, recalculate_user=True)
    assert known[0].tolist() == new[0].tolist()
    np.testing.assert_allclose(known[1], new[1], rtol=1e-3)


def test_peers_of_a_new_client_are_those_who_bought_the_same(model: OCuLaR, market: Interactions) -> None:
    row = market.by_user.take(np.array([3])).matrix(market.n_items)
    explanation = model.explain(None, int(model.recommend(3, N=1)[0][0]), user_items=row)
    peers = [reason for reason in explanation.reasons if reason.kind == "peers"]
    assert peers
    assert set(peers[0].owned_items) <= set(market.by_user[3].tolist())


def test_a_saved_model_recommends_the_same(model: OCuLaR, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = ocular.load(tmp_path / "model")
    assert {name: getattr(loaded, name) for name in WEIGHTS} == WEIGHTS
    for before, after in zip(model.recommend(np.arange(120)), loaded.recommend(np.arange(120)), strict=True):
        np.testing.assert_array_equal(before, after)


def test_all_at_once_names_the_strongest_reason(model: OCuLaR) -> None:
    table = Batch(model).recommend(Clients.of(model, 0, 40), 5)
    for row in table.iter_rows(named=True):
        item = int(row["product"])
        strongest = model.explain(int(row["client"]), item).strongest_reason
        assert strongest is not None
        assert row["kind"] == strongest.kind
        assert row["share"] == pytest.approx(
            strongest.contribution / model.affinity(int(row["client"]), item), abs=1e-3
        )
        if strongest.kind == "links":
            assert row["because"].split("; ") == [str(i) for i in strongest.named_items[:3]]
    assert {"pattern", "links"} <= set(table["kind"])


def test_all_at_once_says_the_reason_of_each_kind(market: Interactions, tmp_path: Path) -> None:
    """In a line with the names of products, or the number of similar clients; the file on disk has it too."""
    kinds = set()
    for weights in ({"links": 2.0}, {"peers": 4.0}, {}):
        model = fit(market, link_regularization=5.0, **weights)
        model.save(tmp_path / "model")
        done = run("recommend", tmp_path / "model", "--all", "-n", "3", "-o", tmp_path / "all.parquet")
        assert done.returncode == 0, done.stderr
        table = pl.read_parquet(tmp_path / "all.parquet")
        assert table.equals(Advisor(model).recommend_all(3))
        for row in table.iter_rows(named=True):
            kinds.add(row["kind"])
            expected = {
                "pattern": f"has {row['because']} (pattern {row['pattern']}: {row['pattern_label']})",
                "links": f"clients who own {row['because']} often buy it",
                "peers": f"{row['similar_buyers']} of the {row['similar_clients']} most similar clients bought it",
            }
            strongest = model.explain(int(row["client"]), int(row["product"])).reasons[0]
            counts = (strongest.n_peers - len(strongest.other_users), strongest.n_peers)
            similar = row["similar_buyers"], row["similar_clients"]
            assert similar == (counts if row["kind"] == "peers" else (None, None))
            if row["similar_buyers"] == 0:
                expected["peers"] = "similar clients bought it"
            assert row["reason"] == expected[row["kind"]]
    assert kinds == {"pattern", "links", "peers"}


def test_explanations_on_the_command_line_have_the_kinds(model: OCuLaR, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    done = run("explain", tmp_path / "model", "--client", "3", "--format", "json")
    kinds = {reason["kind"] for told in json.loads(done.stdout) for reason in told["reasons"]}
    assert kinds == {"pattern", "links", "peers"}
    for told in json.loads(done.stdout):
        shares = [each["share"] for each in told["by_product"]]
        assert sum(shares) == pytest.approx(1)
        assert told["shown_share"] + told["hidden_share"] == pytest.approx(1, abs=0.01)
    done = run("explain", tmp_path / "model", "--client", "3", "--format", "html", "--hide-clients")
    assert "Clients who own <bdi>" in done.stdout


def test_hit_rates_are_those_of_all_evidence(market: Interactions) -> None:
    """The second fit has the weights too: without them its hit rates would be those of the patterns."""
    patterns, everything = (fit(market, **weights).calibrate(per_client=10) for weights in ({}, WEIGHTS))
    assert everything.hits.sum() > 0
    assert everything.to_dict() != patterns.to_dict()


def test_links_and_peers_in_words() -> None:
    """Everybody with a nut has a bolt, but Corda; Dory buys what nobody else does."""
    names = ["Acme", "Bolt", "Ceres", "Corda", "Dory", "Echo"]
    pairs = [(u, i) for u in range(3) for i in (0, 1)] + [(3, 0), (4, 2), (5, 2)]
    users, items = zip(*pairs, strict=True)
    data = Interactions.from_pairs(users, items, user_labels=names, item_labels=["nut", "bolt", "sail"])
    links = OCuLaR(1, 1e6, links=1.0, link_regularization=0.01, random_state=0, tol=1.0).fit(data)
    text = Advisor(links).recommend("Corda", n=1)[0].text()
    assert "- Clients who own nut often buy bolt: 3 of 3 (100%; 60% of all clients)." in text
    peers = OCuLaR(1, 1e6, peers=1.0, link_regularization=0.01, random_state=0, tol=1.0).fit(data)
    text = Advisor(peers).recommend("Corda", n=1)[0].text()
    assert (
        "- 3 of the 3 clients most similar to Corda own bolt: Acme (1 product in common), Bolt (1), Ceres (1)." in text
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"links": -1}, "expected links to be a number from 0 to 1e+06, got -1"),
        ({"links": np.nan}, "expected links to be a number from 0 to 1e+06, got nan"),
        ({"links": np.inf}, "expected links to be a number from 0 to 1e+06, got inf"),
        ({"links": "1"}, "expected links to be a number or \"auto\", got '1'"),
        ({"links": [1.0]}, "expected links to be a number from 0 to 1e+06, got [1.0]"),
        ({"links": True}, "expected links to be a number from 0 to 1e+06, got True"),
        ({"peers": -0.5}, "expected peers to be a number from 0 to 1e+06, got -0.5"),
        ({"peers": np.nan}, "expected peers to be a number from 0 to 1e+06, got nan"),
        ({"peers": "many"}, "expected peers to be a number or \"auto\", got 'many'"),
        ({"links": "auto", "peers": -1}, "expected peers to be a number from 0 to 1e+06, got -1"),
        ({"popularity": np.nan}, "expected popularity to be a number from -5 to 5, got nan"),
        ({"link_regularization": -1.0}, "expected link_regularization to be a number from 0 to 1e+12, got -1.0"),
        ({"n_links": 0}, "expected n_links to be a whole number from 1 to 10,000, got 0"),
    ],
)
def test_senseless_weights(market: Interactions, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        OCuLaR(2, **parameters).fit(market)
    assert str(raised.value) == message


def unusual() -> np.ndarray:
    """Client 0 has everything but product 7, which client 1 alone has and nothing else; all have product 6."""
    matrix = (np.random.default_rng(0).random((12, 8)) < 0.4).astype(int)
    matrix[:, 6], matrix[:, 7] = 1, 0
    matrix[0], matrix[1] = [1] * 7 + [0], [0] * 7 + [1]
    return matrix


@pytest.mark.parametrize(
    "matrix",
    [
        pytest.param(unusual(), id="unusual"),
        pytest.param(np.vstack([np.ones((1, 6), int), np.eye(6, dtype=int)]), id="everything and single products"),
        pytest.param(np.eye(6, dtype=int), id="no product in common"),
        pytest.param(np.ones((5, 4), dtype=int), id="everybody has everything"),
        pytest.param(np.ones((1, 1), dtype=int), id="one pair"),
        pytest.param(np.vstack([np.eye(3, dtype=int), np.zeros((2, 3), int)]), id="clients without purchases"),
    ],
)
@pytest.mark.parametrize(
    "weights",
    [
        {"links": 1.0},
        {"peers": 1.0},
        {"links": 1.0, "peers": 1.0, "popularity": -0.3},
        {"links": 1.0, "link_loss": "squares"},
        {"links": 1.0, "peers": 1.0, "relative": True, "bias": True},
    ],
)
def test_products_without_co_purchases_and_clients_with_everything(matrix: np.ndarray, weights: dict[str, Any]) -> None:
    (n_users, n_items), new = matrix.shape, np.array([[1] * matrix.shape[1], [0] * matrix.shape[1]])
    model = OCuLaR(2, 0.1, link_regularization=1.0, tol=0.0, max_iter=20, random_state=0, **weights).fit(matrix)
    users, items = np.arange(n_users), np.arange(n_items)
    for part in (model.links_, model.peers_, model.fold_in(new)):
        assert np.isfinite(part.data).all()
    z = model.affinity(users[:, None], items)
    assert np.isfinite(z).all()
    ids, scores = model.recommend(users, N=n_items)
    assert ((ids >= 0).sum(axis=1) == n_items - matrix.sum(axis=1)).all()
    assert np.isfinite(scores[ids >= 0]).all()
    has_all, has_none = model.recommend([0, 0], new, N=n_items, recalculate_user=True)[0]
    assert (has_all == -1).all()
    assert sorted(has_none.tolist()) == items.tolist()
    for u in users:
        explanations = model.explain_all(u, items)
        sums = [sum(r.contribution for r in e.reasons) + e.base for e in explanations]
        np.testing.assert_allclose(sums, z[u], rtol=1e-5, atol=1e-7)
        assert all(e.text() for e in explanations)
    for row in new:
        assert all(e.text() for e in model.explain_all(None, items, row[None]))
    assert len(Batch(model).recommend(Clients.of(model, 0, n_users), n_items)) == (ids >= 0).sum()


def test_a_product_that_one_client_alone_has_is_linked_to_nothing() -> None:
    model = OCuLaR(2, 0.1, links=1.0, peers=1.0, link_regularization=0.1, random_state=0).fit(unusual())
    assert model.links_[[7]].nnz == model.links_[:, [7]].nnz == 0
    assert model.peers_[[1]].nnz == model.peers_[:, [1]].nnz == 0
    assert [reason.kind for reason in model.explain(0, 7).reasons if reason.kind != "pattern"] == []
    assert model.links_.nnz > 0
