"""Weights and refusals on executors: the bytes of a fit on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from spark_support import estimator
from support import learned_bytes

from ocular import Interactions
from ocular.data.refusals import refused_rows
from ocular.errors import ConfigError
from ocular.spark import fit, recommend
from ocular.spark.interactions import SparkInteractions

EVIDENCE = {"links": 1.0, "peers": 0.5, "link_regularization": 20.0, "n_links": 40}


@pytest.fixture(scope="module")
def refused(sales: Interactions) -> Interactions:
    """The sales with weights, and with the first recommendations of every client refused."""
    model = estimator(init="overlap").fit(sales)
    ids, _ = model.recommend(np.arange(sales.n_users), N=2)
    pairs = np.zeros(sales.shape, dtype=int)
    pairs[np.arange(sales.n_users)[:, None], ids] = 1
    weights = np.random.default_rng(0).uniform(0.3, 3.0, sales.nnz)
    return sales.weighted(weights).with_refusals(refused_rows(pairs, sales))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"init": "overlap", "bias": True},
        {"init": "seeds", "n_coclusters": 100, "max_iter": 5},
        {"init": "random", "max_iter": 2, "relative": True, **EVIDENCE},
    ],
    ids=["auto", "bias", "sparse", "evidence"],
)
def test_the_same_bytes(spark: Any, refused: Interactions, changes: dict[str, Any]) -> None:
    model = estimator(**changes)
    found, local = fit(refused, model, spark, n_blocks=5), clone(model).fit(refused)
    assert learned_bytes(found) == learned_bytes(local)
    assert (found.recommend(np.arange(20))[0] == local.recommend(np.arange(20))[0]).all()


def test_a_half_life_of_purchases_that_are_sent(spark: Any, sales: Interactions) -> None:
    model = estimator(init="random", max_iter=2, half_life="90d")
    assert learned_bytes(fit(sales, model, spark)) == learned_bytes(clone(model).fit(sales))


def test_a_half_life_of_purchases_that_executors_read_is_refused(spark: Any, tmp_path: Path) -> None:
    pl.DataFrame({"who": ["a", "b"], "what": ["x", "y"]}).write_parquet(tmp_path / "sales.parquet")
    with pytest.raises(ConfigError, match="expected no half_life for purchases that executors read"):
        fit(tmp_path / "sales.parquet", estimator(half_life="90d"), spark, client="who", product="what")


def test_a_fingerprint_knows_them(spark: Any, sales: Interactions, refused: Interactions) -> None:
    assert SparkInteractions.of(sales, spark).fingerprint() != SparkInteractions.of(refused, spark).fingerprint()


def test_refused_pairs_are_not_recommended(spark: Any, refused: Interactions, tmp_path: Path) -> None:
    model = estimator(refusal_weight=1.0).fit(refused)
    recommend(model, spark, tmp_path / "best", n=5)
    table, data = pl.read_parquet(tmp_path / "best" / "*.parquet"), model.interactions_
    users = np.repeat(data.user_labels, model.refusals_.degrees)
    declined = set(zip(users.tolist(), data.item_labels[model.refusals_.indices].tolist(), strict=True))
    assert declined
    assert not declined & set(zip(table["client"], table["product"], strict=True))
