"""What the tests of ocular refresh have in common."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
from command import Done, run

import ocular
from ocular.refresh.serving import serving_order

SETTINGS = """
[source]
purchases = "purchases.parquet"

[columns]
client = "client"
product = "product"
price = "price"
quantity = "quantity"

[model]
n_coclusters = 4
regularization = 1
links = 0
max_iter = 40

[keep]
folder = "models"
models = 2
"""


def refresh(place: Path, *options: object) -> Done:
    return run("refresh", place / "refresh.toml", *options)


def summary_of(done: Done) -> dict[str, Any]:
    return dict(json.loads(done.stdout))


def served(place: Path) -> str:
    """The model that is served; whole and calibrated, or the test fails."""
    path = serving_order(place / "models")[0][0]
    assert ocular.load(path).calibration_ is not None
    return path.name


def buy_more(place: Path, n: int = 40, seed: int = 0) -> None:
    sales = pl.read_parquet(place / "purchases.parquet")
    more = sales.sample(n, seed=seed).with_columns(product=sales["product"].sample(n, seed=seed + 1))
    pl.concat([sales, more]).write_parquet(place / "purchases.parquet")


def change_settings(place: Path, old: str, new: str) -> None:
    text = (place / "refresh.toml").read_text()
    assert old in text
    (place / "refresh.toml").write_text(text.replace(old, new))


def hidden_files(place: Path) -> list[str]:
    return sorted(path.name for path in (place / "models").iterdir() if path.name.endswith((".tmp", ".ckpt", ".old")))
