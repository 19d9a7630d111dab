"""ocular fit --start and ocular diff."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

import ocular

COLUMNS = ("--client", "client", "--product", "product", "--price", "price", "--quantity", "quantity")
OPTIONS = ("--links", 0, "--peers", 0, "--regularization", 1, "--no-calibration")


def shown(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models: monday, and tuesday with a few purchases more, of which one was recommended on monday."""
    place = tmp_path_factory.mktemp("market")
    shown("synth", "--clients", 150, "--products", 30, "--seed", 4, "-o", place)
    shown("fit", place / "purchases.parquet", *COLUMNS, *OPTIONS, "--coclusters", 6, "-o", place / "monday")
    monday = ocular.load(place / "monday")
    sales, data = pl.read_parquet(place / "purchases.parquet"), monday.interactions_
    best = monday.recommend(np.arange(3), N=1)[0][:, 0]
    more = sales.head(3).with_columns(
        client=pl.Series([str(data.user_labels[u]) for u in range(3)]),
        product=pl.Series([str(data.item_labels[i]) for i in best]),
    )
    pl.concat([sales, more]).write_parquet(place / "more.parquet")
    shown("fit", place / "more.parquet", *COLUMNS, *OPTIONS, "--start", place / "monday", "-o", place / "tuesday")
    return place


def test_a_start_gives_the_number_of_coclusters_and_keeps_them(place: Path) -> None:
    monday, tuesday = ocular.load(place / "monday"), ocular.load(place / "tuesday")
    assert tuesday.n_coclusters == 6
    assert [c.index for c in tuesday.coclusters()] == [c.index for c in monday.coclusters()]
    assert ocular.compare_models(monday, tuesday).jaccard > 0.8


def test_diff_prints_a_summary_then_the_changes(place: Path) -> None:
    text = shown("diff", place / "monday", place / "tuesday", "-n", 5)
    changes = ocular.compare_models(ocular.load(place / "monday"), ocular.load(place / "tuesday"), n=5)
    assert text.startswith(changes.summary())
    assert "bought meanwhile" in text
    assert len(text.splitlines()) < 60


def test_diff_as_json_and_csv_has_everything(place: Path) -> None:
    changes = ocular.compare_models(ocular.load(place / "monday"), ocular.load(place / "tuesday"), n=5)
    stored = json.loads(shown("diff", place / "monday", place / "tuesday", "-n", 5, "--format", "json"))
    assert stored == changes.to_dict()
    assert stored["reasons"]["bought meanwhile"] == 3
    rows = list(
        csv.DictReader(io.StringIO(shown("diff", place / "monday", place / "tuesday", "-n", 5, "--format", "csv")))
    )
    assert [row["product"] for row in rows] == [str(row["product"]) for row in changes.rows()]


def test_diff_of_one_client(place: Path) -> None:
    client = str(ocular.load(place / "monday").interactions_.user_labels[1])
    stored = json.loads(
        shown("diff", place / "monday", place / "tuesday", "-n", 5, "--client", client, "--format", "json")
    )
    assert {row["client"] for row in stored["recommendations"]} == {client}
    assert stored["clients"] == 1
    text = refused("diff", place / "monday", place / "tuesday", "--client", "Nobody & Sons")
    assert "no client named 'Nobody & Sons'" in text


def test_a_start_that_does_not_fit_is_one_line(place: Path, tmp_path: Path) -> None:
    fit = "fit", place / "more.parquet", *COLUMNS, *OPTIONS, "-o", tmp_path / "new", "--start"
    done = run(*fit, place / "monday", "--coclusters", 7)
    assert done.returncode == 2
    assert "expected --coclusters to be 6, as in the model to start from, got 7; pass --coclusters 6" in done.stderr
    assert "expected a model folder, got" in refused(*fit, place)
    assert "expected no --start with --spark" in refused(*fit, place / "monday", "--spark", "local[1]")
    (tmp_path / "other.csv").write_text("client,product,price,quantity\nA,x,1,1\nA,y,1,1\nB,x,1,1\nB,y,1,1\n")
    done = run("fit", tmp_path / "other.csv", *COLUMNS, *OPTIONS, "-o", tmp_path / "new", "--start", place / "monday")
    assert done.returncode == 2
    assert "with some of these clients, got none of the same name; leave out --start" in done.stderr
    assert "expected a model folder, got" in refused("diff", place, place / "monday")


def test_a_start_keeps_flags_and_what_is_never_recommended(place: Path, tmp_path: Path) -> None:
    source, name = place / "purchases.parquet", str(ocular.load(place / "monday").interactions_.item_labels[0])
    settings = ("--relative", "--regularization", 2, "--coclusters", 6, "--links", 1, "--no-calibration")
    shown("fit", source, *COLUMNS, *settings, "--without", name, "-o", tmp_path / "old")
    shown("fit", source, *COLUMNS, "--no-calibration", "--start", tmp_path / "old", "-o", tmp_path / "new")
    old, new = ocular.load(tmp_path / "old"), ocular.load(tmp_path / "new")
    assert new.config_.relative
    assert (new.config_.regularization, new.evidence_config_) == (2, old.evidence_config_)
    assert new.excluded_items_.tolist() == old.excluded_items_.tolist()
    assert new.excluded_items_.sum() == 1


def test_diff_says_where_parameters_differ(place: Path, tmp_path: Path) -> None:
    source = place / "purchases.parquet"
    shown("fit", source, *COLUMNS, *OPTIONS[:-1], "--coclusters", 5, "--no-calibration", "-o", tmp_path / "other")
    done = run("diff", place / "monday", tmp_path / "other", "-n", 5)
    assert done.stderr == "note: the models have other parameters: n_coclusters 6 → 5\n"
