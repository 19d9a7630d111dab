"""ocular evaluate --model: a saved model on purchases that it has not seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

import ocular
from ocular.synthetic import planted

COLUMNS = ("--client", "client", "--product", "product")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and the first recommendation of each of ten clients as the purchases made since."""
    place = tmp_path_factory.mktemp("saved")
    model = ocular.OCuLaR(4, 1.0, random_state=0).fit(planted(60, 40, 4, density=0.8, random_state=1).interactions)
    model.save(place / "model")
    old = pl.DataFrame(model.interactions_.to_frame())
    best = model.recommend(np.arange(10), N=1)[0][:, 0]
    since = pl.DataFrame({"client": np.arange(10), "product": best}).cast(dict(old.schema))
    stranger = pl.DataFrame({"client": [999], "product": [0]}).cast(dict(old.schema))
    pl.concat([old, since, stranger]).write_parquet(place / "all.parquet")
    old.write_parquet(place / "old.parquet")
    return place


def test_purchases_that_were_recommended_first_are_all_found(place: Path) -> None:
    done = run("evaluate", place / "all.parquet", *COLUMNS, "--model", place / "model", "--at", 1, "--format", "json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["recall@1"] == row["map@1"] == 1
    assert (row["users"], row["new_pairs"], row["unknown_pairs"]) == (10, 10, 1)


def test_the_table_says_what_it_is_of(place: Path) -> None:
    done = run("evaluate", place / "all.parquet", *COLUMNS, "--model", place / "model", "--at", 5)
    assert "10 pairs that the model was not fitted on, of 10 clients." in done.stdout
    assert "Pairs with a client or product that it does not know: 1." in done.stdout


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("old.parquet", (), "expected purchases that the model was not fitted on"),
        ("all.parquet", ("--models", "ease"), "expected no --models with --model"),
        ("all.parquet", ("--save", "models"), "expected no --save with --model"),
    ],
)
def test_what_makes_no_sense_is_one_line(place: Path, source: str, options: tuple[str, ...], said: str) -> None:
    done = run("evaluate", place / source, *COLUMNS, "--model", place / "model", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
