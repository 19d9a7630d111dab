"""Recommendations for many clients say the same as those for one."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ocular import Interactions, OCuLaR
from ocular.batch import Batch, Clients, recommend_all
from ocular.explain.calibration import Calibration, expected_rates
from ocular.synthetic import b2b


def test_blocks_of_clients_are_put_together(model: OCuLaR) -> None:
    batch, n = Batch(model), model.interactions_.n_users
    whole = batch.recommend(Clients.of(model, 0, n), 5)
    parts = [batch.recommend(Clients.of(model, first, first + 20), 5) for first in range(0, n, 20)]
    assert whole.equals(parts[0].vstack(parts[1]).vstack(parts[2]))
    ids, _ = model.recommend(np.arange(n), N=5)
    assert whole["product"].to_list() == model.interactions_.item_labels[ids[ids >= 0]].tolist()
    assert "hit_rate" not in whole.columns


def test_the_strongest_reason_is_that_of_the_explanation(model: OCuLaR, named: Interactions) -> None:
    frame = Batch(model).recommend(Clients.of(model, 0, named.n_users), 3)
    assert set(frame["pattern"].drop_nulls()) == {0, 1, 2, 3}
    for row in frame.iter_rows(named=True):
        explanation = model.explain(named.user_index(row["client"]), named.item_index(row["product"]))
        assert row["confidence"] == pytest.approx(explanation.confidence, rel=1e-5)
        strongest = explanation.strongest_reason
        if strongest is None:
            assert row["pattern"] is row["pattern_label"] is row["share"] is row["because"] is None
            continue
        assert row["pattern"] == strongest.cocluster
        assert row["pattern_label"] == model.coclusters()[strongest.cocluster].label
        affinity = sum(reason.contribution for reason in explanation.reasons) + explanation.base
        assert row["share"] == pytest.approx(strongest.contribution / affinity, abs=1e-4)
        owned = [named.item_labels[i] for i in strongest.owned_items[:3]]
        assert (row["because"] or "").split("; ") == (owned or [""])


@pytest.mark.parametrize(
    ("weights", "kinds"),
    [
        ({}, {"pattern", None}),
        ({"links": 1.0, "peers": 0.5}, {"pattern", "links"}),
        ({"links": 0.3, "peers": 3.0, "popularity": -0.2}, {"pattern", "links", "peers"}),
        ({"peers": 1.0, "peer_regularization": 5.0, "bias": True}, {"pattern", "peers"}),
        ({"links": 2.0, "popularity": 0.3}, {"pattern", "links"}),
    ],
)
@pytest.mark.parametrize("n_coclusters", [6, 40])
def test_merged_reasons_are_those_of_the_explanation(
    weights: dict[str, Any], kinds: set[str | None], n_coclusters: int
) -> None:
    """Many small clients, whose co-clusters, links and peers often rest on the same few purchases."""
    data = b2b(250, 40, random_state=3).interactions
    model = OCuLaR(n_coclusters, 1.0, link_regularization=5.0, random_state=0, **weights).fit(data)
    frame, n_merged, found = Batch(model).recommend(Clients.of(model, 0, data.n_users), 5), 0, set()
    by_client = frame.group_by("client", maintain_order=True)
    for (client,), rows in by_client:
        items = [data.item_index(product) for product in rows["product"]]
        explanations = model.explain_all(data.user_index(client), items)
        for row, explanation in zip(rows.iter_rows(named=True), explanations, strict=True):
            strongest = explanation.strongest_reason
            found.add(row["kind"])
            if strongest is None:
                assert row["kind"] is row["pattern"] is row["share"] is row["because"] is None
                continue
            n_merged += strongest.kind != explanation.reasons[0].kind
            assert row["kind"] == strongest.kind
            assert row["pattern"] == (strongest.cocluster if strongest.kind == "pattern" else None)
            assert row["share"] == pytest.approx(strongest.contribution / explanation.summary().affinity, abs=1e-4)
            if strongest.kind == "peers":
                assert row["similar_clients"] == strongest.n_peers
                assert row["similar_buyers"] == strongest.n_peers - len(strongest.other_users)
                assert row["because"] is None
            else:
                named = strongest.named_items[:3]
                assert row["because"] == "; ".join(str(data.item_name(item)) for item in named)
    assert kinds <= found or n_coclusters == 40  # of which the links say it all
    assert n_merged > 0 or not {"links", "peers"} & kinds or n_coclusters == 40


def test_the_share_of_a_certain_recommendation_is_not_lost(model: OCuLaR) -> None:
    """At z ≈ 18 a confidence is 1 in float32 and says nothing of z any more; the share comes from z itself."""
    certain = copy.copy(model)
    certain.user_factors_ = model.user_factors_ * np.float32(60)
    frame = Batch(certain).recommend(Clients.of(certain, 0, 60), 1).filter(pl.col("confidence") == 1.0)
    assert len(frame) > 20
    data = model.interactions_
    for row in frame.iter_rows(named=True):
        user, item = data.user_index(row["client"]), data.item_index(row["product"])
        strongest = certain.explain(user, item).strongest_reason
        assert strongest is not None
        z = float(certain.affinity(user, item))
        assert z > 17
        assert row["share"] == pytest.approx(strongest.contribution / z, abs=1e-4)
        assert row["share"] > 0.3


def test_price_quantity_and_value(bought: np.ndarray) -> None:
    users, items = np.nonzero(bought)
    known = items % 5 != 0  # the others have no price
    rng = np.random.default_rng(1)
    price = np.where(known, rng.uniform(1, 9, len(users)), np.nan)
    quantity = rng.integers(1, 20, len(users)).astype(float)
    model = OCuLaR(4, 0.5, tol=0.0, max_iter=60, random_state=0).fit(
        Interactions.from_pairs(users, items, price=price, quantity=quantity)
    )
    model.calibration_ = Calibration(np.array([0.05, 0.5]), np.zeros(2), np.array([90, 80]), np.array([9, 60]))
    frame = Batch(model).recommend(Clients.of(model, 0, 60), 4)
    assert frame.columns[:8] == [
        "client",
        "rank",
        "product",
        "confidence",
        "hit_rate",
        "chance",
        "typical_price",
        "typical_quantity",
    ]
    assert frame["typical_price"].null_count() > 0
    for row in frame.iter_rows(named=True):
        assert row["typical_quantity"] == np.median(quantity[items == row["product"]])
        if row["product"] % 5 == 0:
            assert row["typical_price"] is row["value"] is None
            continue
        assert row["typical_price"] == float(f"{np.median(price[items == row['product']]):.3g}")
        expected = expected_rates(model.calibration_, np.array([row["confidence"]]))[0]
        assert row["value"] == pytest.approx(expected * row["typical_price"] * row["typical_quantity"], abs=0.006)


def test_what_is_excluded_or_not_allowed_is_not_in_a_batch(bought: np.ndarray) -> None:
    model = OCuLaR(4, 0.5, tol=0.0, max_iter=8, random_state=0).fit(bought, without=[0, 1, 2])
    allowed = np.arange(40) < 10
    frame = recommend_all(model, 40)
    assert set(frame["product"]) == set(range(3, 40))
    assert set(recommend_all(model, 40, allowed)["product"]) == set(range(3, 10))
    ids, _ = model.recommend(np.arange(60), N=40)
    assert frame["product"].to_list() == ids[ids >= 0].tolist()


def test_one_item_for_many_users_has_the_strongest_reasons_of_explanations() -> None:
    data = b2b(250, 40, random_state=3).interactions
    weights = {"links": 1.0, "peers": 1.0, "taste": 1.0, "appeal": 1.0}
    model = OCuLaR(10, 1.0, link_regularization=5.0, random_state=0, **weights).fit(data)
    kinds = set()
    for item in range(0, data.n_items, 5):
        users = np.setdiff1d(np.arange(data.n_users), data.by_item[item])
        for user, found in zip(users.tolist(), model.strongest_reasons(users, item), strict=True):
            wanted = model.explain(user, item).strongest_reason
            assert (found is None) == (wanted is None)
            if found is not None and wanted is not None:
                assert replace(wanted, contribution=0.0, merged=[]) == replace(found, contribution=0.0, merged=[])
                kinds.add(found.kind)
    assert len(kinds) >= 4
