"""Recommendations for many clients say the same as those for one."""

from __future__ import annotations

import numpy as np
import pytest

from ocular import Interactions, OCuLaR
from ocular.batch import Batch, Clients


def test_blocks_of_clients_are_put_together(model: OCuLaR) -> None:
    batch, n = Batch(model), model.interactions_.n_users
    whole = batch.recommend(Clients.of(model, 0, n), 5)
    parts = [batch.recommend(Clients.of(model, first, first + 20), 5) for first in range(0, n, 20)]
    assert whole.equals(parts[0].vstack(parts[1]).vstack(parts[2]))
    ids, _ = model.recommend(np.arange(n), N=5)
    assert whole["product"].to_list() == model.interactions_.item_labels[ids[ids >= 0]].tolist()
    assert "hit_rate" not in whole.columns


def test_the_strongest_reason_is_that_of_the_explanation(model: OCuLaR, named: Interactions) -> None:
    told = Batch(model).recommend(Clients.of(model, 0, named.n_users), 3)
    assert set(told["pattern"].drop_nulls()) == {0, 1, 2, 3}
    for row in told.iter_rows(named=True):
        explanation = model.explain(named.user_index(row["client"]), named.item_index(row["product"]))
        assert row["confidence"] == pytest.approx(explanation.confidence, rel=1e-5)
        if not explanation.reasons:
            assert row["pattern"] is row["pattern_label"] is row["share"] is row["because"] is None
            continue
        strongest = explanation.reasons[0]
        assert row["pattern"] == strongest.cocluster
        assert row["pattern_label"] == model.coclusters()[strongest.cocluster].label
        affinity = sum(reason.contribution for reason in explanation.reasons) + explanation.base
        assert row["share"] == pytest.approx(strongest.contribution / affinity, abs=1e-4)
        owned = [named.item_labels[i] for i in strongest.owned_items[:3]]
        assert (row["because"] or "").split("; ") == (owned or [""])
