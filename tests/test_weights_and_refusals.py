"""Weights and refusals in the estimator: what they change, what they never change, and that a folder keeps them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from support import learned_bytes

from ocular import Advisor, Interactions, OCuLaR, load
from ocular.batch import Batch, Clients
from ocular.data.splits import per_user_split
from ocular.errors import ConfigError, DataError
from ocular.synthetic import b2b

EVIDENCE = {"links": 1.0, "peers": 0.5, "link_regularization": 20.0}


def estimator(**changes: Any) -> OCuLaR:
    usual = {"n_coclusters": 5, "regularization": 1.0, "max_iter": 15, "tol": 0.0, "random_state": 0, "init": "overlap"}
    return OCuLaR(**usual | changes)


@pytest.fixture(scope="module")
def sales() -> Interactions:
    return b2b(120, 40, random_state=3).interactions


@pytest.fixture(scope="module")
def plain(sales: Interactions) -> OCuLaR:
    return estimator(**EVIDENCE).fit(sales)


def best_pairs(model: OCuLaR, n: int = 2) -> list[tuple[str, str]]:
    """The first recommendations of every client, by name."""
    data = model.interactions_
    ids, _ = model.recommend(np.arange(data.n_users), N=n)
    return [(str(data.user_labels[u]), str(data.item_labels[i])) for u, row in enumerate(ids) for i in row[row >= 0]]


# ------------------------------------------------------------------------------------------------------------- weights


def test_weights_of_one_change_nothing(sales: Interactions, plain: OCuLaR) -> None:
    ones = estimator(**EVIDENCE).fit(sales, sample_weight=np.ones(sales.nnz))
    assert learned_bytes(ones) == learned_bytes(plain)
    matrix = sales.to_matrix()
    by_values = estimator(weights="values", **EVIDENCE).fit(matrix)
    assert learned_bytes(by_values) == learned_bytes(estimator(**EVIDENCE).fit(matrix))


@pytest.mark.parametrize("changes", [{"half_life": "180d"}, {"weights": "quantity"}, {"weights": "amount"}])
def test_weights_change_memberships_links_and_peers(sales: Interactions, plain: OCuLaR, changes: Any) -> None:
    model = estimator(**EVIDENCE, **changes).fit(sales)
    for name in ("user_factors_", "links_", "peers_"):
        assert learned_bytes(model)[name] != learned_bytes(plain)[name]
    weights = model.interactions_.weights
    assert weights is not None
    assert weights.mean() == pytest.approx(1, rel=1e-5)
    assert learned_bytes(estimator(**EVIDENCE).fit(sales, sample_weight=weights)) == learned_bytes(model)


def test_the_same_weights_in_every_form(sales: Interactions) -> None:
    W = np.random.default_rng(0).uniform(0.3, 3, sales.nnz)
    matrix = sales.to_matrix()
    weighted = sp.csr_array((W, matrix.indices, matrix.indptr), shape=matrix.shape)
    expected = learned_bytes(estimator(**EVIDENCE).fit(matrix, sample_weight=W))
    assert learned_bytes(estimator(**EVIDENCE).fit(matrix, sample_weight=weighted)) == expected
    assert learned_bytes(estimator(weights="values", **EVIDENCE).fit(weighted)) == expected
    assert learned_bytes(estimator(weights="values", **EVIDENCE).fit(weighted.toarray())) == expected


def test_the_order_of_rows_does_not_matter(sales: Interactions) -> None:
    order = np.random.default_rng(0).permutation(sales.n_users)
    W = np.random.default_rng(1).uniform(0.3, 3, sales.nnz)
    moved = sales.weighted(W).by_user.take(order)
    shuffled = Interactions(moved, sales.n_items, sales.user_labels[order], sales.item_labels)
    one, other = estimator(**EVIDENCE).fit(sales.weighted(W)), estimator(**EVIDENCE).fit(shuffled)
    assert other.history_ == one.history_
    np.testing.assert_array_equal(other.user_factors_.toarray(), one.user_factors_.toarray()[order])


def test_a_heavier_purchase_is_more_probable(bought: np.ndarray) -> None:
    data = Interactions.from_matrix(bought)
    pair = 7
    u, i = int(data.pair_users[pair]), int(data.by_user.indices[pair])
    chances = []
    for weight in (0.05, 1.0, 20.0):
        W = np.ones(data.nnz)
        W[pair] = weight
        chances.append(float(estimator(max_iter=60).fit(data, sample_weight=W).predict_proba(u, i)))
    assert chances[0] < chances[1] < chances[2]


def test_a_refit_weighs_anew(sales: Interactions) -> None:
    """The interactions of a model have its weights: fitted again they are computed again, not multiplied."""
    model = estimator(half_life="90d").fit(sales)
    assert learned_bytes(clone(model).fit(model.interactions_)) == learned_bytes(model)
    train, _ = per_user_split(model.interactions_, 0.3, 0)
    fresh, _ = per_user_split(sales, 0.3, 0)
    assert learned_bytes(clone(model).fit(train)) == learned_bytes(clone(model).fit(fresh))


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"half_life": "soon"}, {}, "expected half_life to be a time above 0"),
        ({"weights": "size"}, {}, "expected weights to be one of quantity, amount, values, got 'size'"),
        ({"weights": "values", "half_life": 9}, {}, "expected either weights=values or half_life, got both"),
        ({"half_life": 9}, {"sample_weight": [1]}, "expected either sample_weight or half_life, got both; leave one"),
        ({"refusal_weight": 0.5}, {}, "expected refusal_weight to be a number from 1"),
        (
            {"weights": "amount", "links": 1.0, "link_loss": "squares"},
            {},
            "purchases of equal weight for least squares",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(sales: Interactions, changes: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        estimator(**changes).fit(sales, **options)


def test_a_refused_fit_leaves_the_model_as_it_was(sales: Interactions) -> None:
    model = estimator().fit(sales)
    before = learned_bytes(model)
    for options in ({"sample_weight": -np.ones(sales.nnz)}, {"refusals": 5}):
        with pytest.raises(DataError):
            model.fit(np.eye(3), **options)
    assert learned_bytes(model) == before
    assert model.n_features_in_ == sales.n_items


def test_a_choice_never_takes_squares_with_weights(sales: Interactions) -> None:
    model = OCuLaR(5, 1.0, links="auto", peers=0.0, link_loss="auto", half_life="1y", random_state=0, max_iter=10)
    assert model.fit(sales).evidence_config_.link_loss == "likelihood"


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("changes", [{}, EVIDENCE])
def test_refused_pairs_are_never_recommended(sales: Interactions, changes: Any) -> None:
    pairs = best_pairs(estimator(**changes).fit(sales))
    for c in (1.0, 10.0):
        model = estimator(refusal_weight=c, **changes).fit(sales, refusals=pairs)
        assert len(model.refusals_.indices) == len(pairs)
        everything = best_pairs(model, sales.n_items)
        assert not set(pairs) & set(everything)
        ids, _ = model.recommend_users(np.arange(sales.n_items), N=sales.n_users)
        offered = {(u, i) for i, users in enumerate(ids) for u in users[users >= 0].tolist()}
        refused = set(zip(np.repeat(np.arange(sales.n_users), model.refusals_.degrees).tolist(),
                          model.refusals_.indices.tolist(), strict=True))  # fmt: skip
        assert not refused & offered
        owned, _ = model.recommend(3, N=sales.n_items, filter_already_liked_items=False)
        assert not set(model.refusals_[3].tolist()) & set(owned.tolist())
        with_owned, _ = model.recommend_users(0, N=sales.n_users, filter_already_liked_items=False)
        assert not {u for u, i in refused if i == 0} & set(with_owned.tolist())


def test_refusals_of_weight_one_are_hidden_and_not_learned_from(sales: Interactions, plain: OCuLaR) -> None:
    pairs = best_pairs(plain)
    assert learned_bytes(estimator(refusal_weight=1.0, **EVIDENCE).fit(sales, refusals=pairs)) == learned_bytes(plain)
    learned = learned_bytes(estimator(refusal_weight=10.0, **EVIDENCE).fit(sales, refusals=pairs))
    for name in ("user_factors_", "links_", "peers_"):
        assert learned[name] != learned_bytes(plain)[name]


def test_the_advisor_and_batches_hide_them(sales: Interactions, plain: OCuLaR) -> None:
    pairs = best_pairs(plain)
    model = estimator(refusal_weight=1.0, **EVIDENCE).fit(sales, refusals=pairs)
    table = Batch(model).recommend(Clients.of(model, 10, 60), 40)
    assert len(table) > 1000
    assert not set(pairs) & set(zip(table["client"], table["product"], strict=True))
    client, product = pairs[8]
    advisor = Advisor(model)
    assert product not in [r.product for r in advisor.recommend(client, n=40)]
    assert client not in [r.client for r in advisor.clients_for(product, n=120)]


def test_similar_clients_who_were_not_asked_are_offered_it_less() -> None:
    """Two blocks that share buyers of one product by chance: half of a block decline it, and the others follow."""
    rng = np.random.default_rng(0)
    R = np.zeros((80, 12), dtype=int)
    R[:40, :6] = rng.random((40, 6)) < 0.8
    R[40:, 6:] = rng.random((40, 6)) < 0.8
    R[:14, 6] = 1  # once sold to the wrong block
    refusals = sp.csr_array((np.ones(12), (np.arange(14, 26), np.full(12, 6))), shape=R.shape)
    others = np.arange(26, 40)
    for changes in ({}, {"links": 1.0, "link_regularization": 1.0}, {"peers": 1.0, "peer_regularization": 1.0}):
        model = {c: estimator(n_coclusters=3, max_iter=60, refusal_weight=c, **changes) for c in (1.0, 10.0)}
        before, after = (model[c].fit(R, refusals=refusals).predict_proba(others, 6).mean() for c in model)
        assert after < 0.75 * before
        right = [model[c].predict_proba(np.arange(40, 80)[:, None], np.arange(6, 12)).mean() for c in model]
        assert right[1] > 0.9 * right[0]


def test_a_bought_pair_and_unknown_names_are_told(sales: Interactions, caplog: pytest.LogCaptureFixture) -> None:
    bought = str(sales.user_labels[0]), str(sales.item_labels[sales.by_user[0][0]])
    with caplog.at_level(logging.WARNING, "ocular"):
        model = estimator(max_iter=2).fit(sales, refusals=[bought, ("Nobody", "Nothing")])
    assert len(model.refusals_.indices) == 0
    assert model.interactions_.refusals is None
    assert [message[:9] for message in caplog.messages] == ["1 of 2 re", "1 of 1 re"]


def test_a_text_says_that_similar_clients_declined() -> None:
    R = np.zeros((20, 8), dtype=int)
    R[:10, :4] = R[10:, 4:] = 1
    R[4:9, 3] = 0  # five of ten do not have it
    asked = [(4, 3), (5, 3), (6, 3)]
    for refusals, expected in ((asked, "3 of 9 similar clients declined it."), (asked[:1], None)):
        pairs = np.zeros(R.shape, dtype=int)
        for pair in refusals:
            pairs[pair] = 1
        model = estimator(n_coclusters=2, regularization=0.1, max_iter=60, refusal_weight=1.0).fit(R, refusals=pairs)
        explanation = model.explain(8, 3)
        text = explanation.text()
        assert explanation.declined == (len(refusals), 9)
        assert explanation.to_dict()["declined"] == len(refusals)
        assert ("declined" in text) == (expected is not None)
        assert expected is None or expected in text
        assert "declined" not in model.explain(8, 2).text()


# -------------------------------------------------------------------------------------------------------------- saving


def test_a_folder_keeps_weights_refusals_and_parameters(sales: Interactions, plain: OCuLaR, tmp_path: Path) -> None:
    pairs = best_pairs(plain, 1)
    model = estimator(half_life="26w", weights="amount", refusal_weight=7.0, **EVIDENCE).fit(sales, refusals=pairs)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.half_life, loaded.weights, loaded.refusal_weight) == (182.0, "amount", 7.0)
    np.testing.assert_array_equal(loaded.interactions_.weights, model.interactions_.weights)  # type: ignore[arg-type]
    np.testing.assert_array_equal(loaded.refusals_.indices, model.refusals_.indices)
    np.testing.assert_array_equal(loaded.refusals_.indptr, model.refusals_.indptr)
    assert best_pairs(loaded) == best_pairs(model)
    assert learned_bytes(clone(loaded).fit(loaded.interactions_)) == learned_bytes(model)


def test_a_model_without_them_saves_nothing_for_them(plain: OCuLaR, tmp_path: Path) -> None:
    plain.save(tmp_path / "model")
    with np.load(tmp_path / "model" / "arrays.npz") as arrays:
        assert not [name for name in arrays.files if "weights" in name or "refused" in name]
    assert load(tmp_path / "model").refusals_.indices.size == 0


def test_calibration_and_checkpoints_know_them(sales: Interactions, plain: OCuLaR, tmp_path: Path) -> None:
    pairs = best_pairs(plain, 1)
    model = estimator(half_life="1y", **EVIDENCE).fit(sales, refusals=pairs, checkpoint=tmp_path / "fit.npz")
    model.calibrate()
    assert model.calibration_ is not None
    again = estimator(half_life="1y", **EVIDENCE).fit(sales, refusals=pairs, checkpoint=tmp_path / "fit.npz")
    assert learned_bytes(again) == learned_bytes(model)
    with pytest.raises(Exception, match="belongs to other purchases"):
        estimator(half_life="1y", **EVIDENCE).fit(sales, checkpoint=tmp_path / "fit.npz")


def test_a_fit_that_goes_on_from_a_model_takes_weights_and_refusals(sales: Interactions, plain: OCuLaR) -> None:
    pairs = best_pairs(plain, 1)
    model = estimator(half_life="1y", **EVIDENCE).fit(sales, refusals=pairs, start=plain)
    assert not set(pairs) & set(best_pairs(model, sales.n_items))
    assert learned_bytes(model)["links_"] == learned_bytes(
        estimator(half_life="1y", **EVIDENCE).fit(sales, refusals=pairs)
    )["links_"]  # fmt: skip


def test_a_fold_in_may_have_weights(sales: Interactions) -> None:
    model = estimator(max_iter=40).fit(sales)
    rows = Interactions(sales.by_user.take(np.arange(5)), sales.n_items, np.arange(5), sales.item_labels)
    alike = model.fold_in(rows)
    heavy = model.fold_in(rows.weighted(np.full(rows.nnz, 5.0)))
    assert (alike != heavy).nnz > 0
    assert heavy.sum() > alike.sum()
