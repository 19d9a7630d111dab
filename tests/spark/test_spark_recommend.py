"""Recommendations for everybody on executors are those of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from spark_support import estimator

from ocular import Interactions, OCuLaR
from ocular.batch import Batch, Clients, recommend_all
from ocular.errors import ConfigError
from ocular.spark import recommend


def test_all_clients_get_what_one_machine_gives_them(spark: Any, model: OCuLaR, biased: OCuLaR, tmp_path: Path) -> None:
    for number, fitted in enumerate((model, biased)):  # names, and numbers
        folder = tmp_path / f"recommendations {number}"
        written = recommend(fitted, spark, folder, 3)
        expected = Batch(fitted).recommend(Clients.of(fitted, 0, fitted.interactions_.n_users), 3)
        found = pl.read_parquet(folder / "*.parquet").sort("client", "rank")
        assert written == len(expected)
        assert found.equals(expected.sort("client", "rank"))


@pytest.mark.parametrize("weights", [{"links": 2.0}, {"links": 1.0, "peers": 3.0, "popularity": -0.2}])
def test_reasons_by_links_and_peers(spark: Any, sales: Interactions, tmp_path: Path, weights: dict[str, float]) -> None:
    fitted = estimator(max_iter=2, link_regularization=20.0, **weights).fit(sales)
    written = recommend(fitted, spark, tmp_path / "out", 3)
    found = pl.read_parquet(tmp_path / "out" / "*.parquet").sort("client", "rank")
    expected = recommend_all(fitted, 3).sort("client", "rank")
    assert written == len(expected)
    assert found.equals(expected)
    assert {"links"} | ({"peers"} if "peers" in weights else set()) <= set(found["kind"])


def test_a_saved_model_and_an_older_folder(spark: Any, model: OCuLaR, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    recommend(model, spark, tmp_path / "out", 5)
    assert recommend(tmp_path / "model", spark, tmp_path / "out", 1) == model.interactions_.n_users
    assert len(pl.read_parquet(tmp_path / "out" / "*.parquet")) == model.interactions_.n_users
    with pytest.raises(ConfigError, match="expected n to be a whole number of at least 1, got 0"):
        recommend(model, spark, tmp_path / "out", 0)
