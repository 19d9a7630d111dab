"""Recommendations for everybody on executors are those of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ocular import OCuLaR
from ocular.batch import Batch, Clients
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


def test_a_saved_model_and_an_older_folder(spark: Any, model: OCuLaR, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    recommend(model, spark, tmp_path / "out", 5)
    assert recommend(tmp_path / "model", spark, tmp_path / "out", 1) == model.interactions_.n_users
    assert len(pl.read_parquet(tmp_path / "out" / "*.parquet")) == model.interactions_.n_users
    with pytest.raises(ConfigError, match="expected n to be a whole number of at least 1, got 0"):
        recommend(model, spark, tmp_path / "out", 0)
