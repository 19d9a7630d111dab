"""Taste and appeal: in the formula, in the ranking, in the artifact and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import LEARNED

import ocular
from ocular import Advisor, Interactions, OCuLaR
from ocular.errors import ArtifactError, ConfigError, DataError
from ocular.explain.reasons import APPEAL, TASTE
from ocular.synthetic import b2b

WEIGHTS = {
    "links": 0.6,
    "peers": 0.4,
    "taste": 0.7,
    "appeal": 0.9,
    "popularity": -0.2,
    "attribute_regularization": 20.0,
}


def fit(data: Any, **parameters: Any) -> OCuLaR:
    return OCuLaR(6, 2.0, max_iter=60, tol=1e-3, random_state=0, n_threads=1, **parameters).fit(data)


@pytest.fixture(scope="module")
def market() -> Interactions:
    return b2b(150, 60, random_state=1).interactions


@pytest.fixture(scope="module")
def model(market: Interactions) -> OCuLaR:
    return fit(market, **WEIGHTS)


def written_out(model: OCuLaR) -> np.ndarray:
    """z of every pair, by the formula."""
    data = model.interactions_
    R = data.to_matrix().toarray().astype(np.float64)
    of_products, of_clients = model.item_features(), model.user_features()
    values = of_products.rows.matrix(len(of_products)).toarray(), of_clients.rows.matrix(len(of_clients)).toarray()
    mixed = model.user_factors_.toarray().astype(np.float64) @ model.item_factors_.toarray().T
    mixed += model.links * R @ model.links_.toarray() + model.peers * model.peers_.toarray().T @ R
    mixed += model.taste * model.taste_.toarray() @ values[0].T + model.appeal * values[1] @ model.appeal_.toarray()
    scale = (R.sum(axis=0) / R.sum(axis=0).mean()) ** model.popularity
    total = 1 + model.links + model.peers + model.taste + model.appeal
    return scale * mixed / total + model.background


def test_the_intensity_is_the_formula(model: OCuLaR) -> None:
    users, items = np.arange(150)[:, None], np.arange(60)
    assert model.taste_.shape == (150, len(model.item_features()))
    assert model.appeal_.shape == (len(model.user_features()), 60)
    np.testing.assert_allclose(model.affinity(users, items), written_out(model), rtol=1e-5)


def test_rankings_go_by_it_both_ways(model: OCuLaR) -> None:
    z = written_out(model)
    z[model.interactions_.to_matrix().toarray() > 0] = -np.inf
    _, probabilities = model.recommend(np.arange(150), N=5)
    np.testing.assert_allclose(probabilities, -np.expm1(-np.sort(z, axis=1)[:, :-6:-1]), rtol=1e-4)
    _, of_users = model.recommend_users(np.arange(60), N=5)
    np.testing.assert_allclose(of_users, -np.expm1(-np.sort(z.T, axis=1)[:, :-6:-1]), rtol=1e-4)
    folded, _ = model.recommend(np.arange(20), recalculate_user=True, N=3)
    assert (folded[:, 0] == model.recommend(np.arange(20), N=3)[0][:, 0]).mean() > 0.5


def test_without_weights_nothing_changes(market: Interactions) -> None:
    plain, zero = fit(market, links=0.5), fit(market, links=0.5, taste=0.0, appeal=0.0)
    for name in LEARNED:
        mine, its = getattr(zero, name), getattr(plain, name)
        assert np.array_equal(getattr(mine, "data", mine), getattr(its, "data", its))
    assert zero.evidence().item_rows.shape == plain.evidence().item_rows.shape


def test_the_order_of_rows_changes_nothing(market: Interactions, model: OCuLaR) -> None:
    rng = np.random.default_rng(0)
    users, items = rng.permutation(market.n_users), rng.permutation(market.n_items)
    moved = Interactions.from_pairs(
        np.argsort(users)[market.pair_users],
        np.argsort(items)[market.by_user.indices],
        market.shape,
        user_labels=market.user_labels[users],
        item_labels=market.item_labels[items],
        user_attributes={name: values[users] for name, values in market.user_attributes.items()},
        item_attributes={name: values[items] for name, values in market.item_attributes.items()},
    )
    ours, theirs = Advisor(model), Advisor(fit(moved, **WEIGHTS))
    for client in market.user_labels[:10]:
        pairs = [[(r.product, r.confidence) for r in advisor.recommend(client)] for advisor in (ours, theirs)]
        assert pairs[0] == pairs[1]


def test_contributions_of_all_kinds_add_up(model: OCuLaR) -> None:
    kinds = set()
    for user in range(40):
        for explanation in model.explain_all(user, model.recommend(user, N=5)[0]):
            total = sum(reason.contribution for reason in explanation.reasons) + explanation.base
            assert total == pytest.approx(float(model.affinity(user, explanation.item)), abs=1e-5)
            kinds |= {reason.kind for reason in explanation.reasons}
    assert kinds == {"pattern", "links", "peers", "taste", "appeal"}


def airlines() -> Interactions:
    """Airlines buy printers, banks buy disks; Acme, an airline, has two printers and not the third."""
    printers, disks = range(4), range(4, 8)
    pairs = [(u, i) for u in range(8) for i in printers] + [(u, i) for u in range(8, 24) for i in disks]
    pairs = [pair for pair in pairs if pair not in {(0, 2), (0, 3)}]
    return Interactions.from_pairs(
        *zip(*pairs, strict=True),
        user_labels=["Acme", *(f"client {u:02}" for u in range(1, 24))],
        item_labels=[*(f"printer {i}" for i in printers), *(f"disk {i}" for i in disks)],
        user_attributes={"industry": np.array(["Airline"] * 8 + ["Bank"] * 16, dtype=object)},
        item_attributes={"family": np.array(["Printing"] * 4 + ["Storage"] * 4, dtype=object)},
    )


def test_reasons_in_words() -> None:
    model = OCuLaR(1, 1e9, taste=1.0, appeal=1.0, attribute_regularization=0.1, random_state=0).fit(airlines())
    explanation = model.explain(0, 2)
    taste, appeal = (next(r for r in explanation.reasons if r.kind == kind) for kind in (TASTE, APPEAL))
    assert (taste.value_names, taste.owned_items) == (["family: Printing"], [0, 1])
    assert (len(appeal.similar_users), appeal.group) == (7, 7)
    text = explanation.text()
    assert "- Acme buys Printing products: 2 of its 2." in text
    assert "- 100% of Airline clients bought printer 2, against 30% of all clients." in text
    assert explanation.by_product() == {0: 0.5, 1: 0.5}
    lines = {Advisor(model).explain("Acme", f"printer {i}").reason for i in (2, 3)}
    assert lines <= {"buys Printing products: 2 of its 2", "100% of Airline clients bought it, against 30% of all"}
    kinds = Advisor(model).recommend_all(1).filter(client="Acme").select("kind", "attribute").row(0)
    assert kinds in {("taste", "family: Printing"), ("appeal", "industry: Airline")}


def test_all_at_once_have_the_strongest_reason_of_each(model: OCuLaR) -> None:
    data, kinds = model.interactions_, set()
    for row in Advisor(model).recommend_all(4).iter_rows(named=True):
        explanation = model.explain(data.user_index(row["client"]), data.item_index(row["product"]))
        strongest = explanation.strongest_reason
        assert row["kind"] == (None if strongest is None else strongest.kind)
        if strongest is not None and strongest.kind in (TASTE, APPEAL):
            assert row["attribute"] == strongest.value_names[0]
        else:
            assert row["attribute"] is None
        kinds.add(row["kind"])
    assert {TASTE, APPEAL} <= kinds


def test_a_purchase_with_the_attribute_carries_the_taste(model: OCuLaR) -> None:
    features = model.item_features()
    for user in range(30):
        explanation = model.explain(user, int(model.recommend(user, N=1)[0][0]))
        shares = explanation.by_product()
        assert sum(shares.values()) == pytest.approx(1)
        only_taste = [reason for reason in explanation.reasons if reason.kind == TASTE]
        for reason in only_taste:
            own = explanation.pulls.shares(explanation.item, [], [], [], [(reason.values[0], reason.parts[0])])
            holders = set(features.holders[reason.values[0]].tolist())
            assert {item for item, share in own.items() if share > 0} <= holders


def test_an_artifact_keeps_them(model: OCuLaR, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = ocular.load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.affinity(np.arange(150)[:, None], np.arange(60)), model.affinity(np.arange(150)[:, None], np.arange(60))
    )
    assert loaded.explain(3, 4).text() == model.explain(3, 4).text()
    assert loaded.taste == 0.7


def test_values_of_another_version_are_refused(model: OCuLaR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model.save(tmp_path / "model")
    monkeypatch.setattr("ocular.data.attributes.MIN_ROWS", 5)
    with pytest.raises(ArtifactError, match="fitted to other values of attributes"):
        ocular.load(tmp_path / "model")


def test_bad_input(market: Interactions) -> None:
    with pytest.raises(ConfigError, match="expected taste to be a number from 0 to 1e\\+06, got -1"):
        fit(market, taste=-1)
    with pytest.raises(ConfigError, match="expected appeal to be a number or \"auto\", got 'much'"):
        fit(market, appeal="much")
    with pytest.raises(DataError, match="expected attributes of products that several share, for taste, got none"):
        fit(market.to_matrix(), taste=1.0)
    with pytest.raises(ConfigError, match="expected attribute_separator to be text, got 3"):
        fit(market, attribute_separator=3)


def test_a_batch_gives_the_reason_that_an_explanation_shows_first() -> None:
    data = b2b(150, 40, random_state=3).interactions
    model, kinds = fit(data, **WEIGHTS | {"taste": 3.0, "appeal": 3.0}), set()
    for row in ocular.batch.recommend_all(model, 6).iter_rows(named=True):
        user, item = data.user_index(row["client"]), data.item_index(row["product"])
        explanation = model.explain(user, item)
        strongest = explanation.strongest_reason
        assert strongest is not None
        kinds.add(row["kind"])
        assert row["kind"] == strongest.kind
        assert row["share"] == pytest.approx(strongest.contribution / explanation.summary().affinity, abs=1e-4)
        assert row["attribute"] == (strongest.value_names[0] if strongest.kind in (TASTE, APPEAL) else None)
    assert {TASTE, APPEAL} < kinds


def tastes(*, is_shuffled: bool = False) -> Interactions:
    """Clients buy products of one kind each, too few of many for links to say so; or the kinds say nothing."""
    rng = np.random.default_rng(0)
    likes, kinds = rng.integers(8, size=300), rng.integers(8, size=600)
    pairs = np.argwhere(rng.random((300, 600)) < np.where(likes[:, None] == kinds, 0.08, 0.002))
    shown = rng.permutation(kinds) if is_shuffled else kinds
    names = np.array([f"kind {kind}" for kind in shown], dtype=object)
    return Interactions.from_pairs(*pairs.T, (300, 600), item_attributes={"kind": names})


def test_auto_takes_attributes_that_help_and_no_others() -> None:
    parameters = {"n_coclusters": 4, "regularization": 5.0, "links": "auto", "random_state": 0, "n_threads": 1}
    helped = OCuLaR(**parameters).fit(tastes())
    assert helped.evidence_config_.taste > 0
    assert helped.taste_.nnz > 0
    without = OCuLaR(**parameters, taste=0.0).fit(tastes())
    assert without.evidence_config_.taste == 0
    assert helped.tuning_.value > without.tuning_.value
    assert OCuLaR(**parameters).fit(tastes(is_shuffled=True)).evidence_config_.taste == 0
