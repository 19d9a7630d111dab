"""Recommendations for everybody on executors are those of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ocular import Interactions, OCuLaR
from ocular.batch import Batch, Clients
from ocular.errors import ConfigError
from ocular.spark import recommend


def test_all_clients_get_what_one_machine_gives_them(
    spark: Any, model: OCuLaR, biased: OCuLaR, tmp_path: Path
) -> None:
    for number, fitted in enumerate((model, biased)):  # names, and numbers
        folder = tmp_path / f"recommendations {number}"
        written = recommend(fitted, spark, folder, 3)
        expected = Batch(fitted).recommend(Clients.of(fitted, 0, fitted.interactions_.n_users), 3)
        found = pl.read_parquet(folder / "*.parquet").sort("client", "rank")
        assert written == len(expected)
        assert found.equals(expected.sort("client", "rank"))


def test_a_saved_model_and_an_older_folder(spark: Any, model: OCuLaR, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    recommend(model, spark, tmp_path / "out", 5)
    assert recommend(tmp_path / "model", spark, tmp_path / "out", 1) == model.interactions_.n_users
    assert len(pl.read_parquet(tmp_path / "out" / "*.parquet")) == model.interactions_.n_users
    with pytest.raises(ConfigError, match="expected at least 1 product for each client, got 0"):
        recommend(model, spark, tmp_path / "out", 0)


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
