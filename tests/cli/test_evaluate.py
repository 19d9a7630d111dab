"""ocular evaluate: models side by side on held-out purchases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import run

import ocular
from ocular.baselines import ease
from ocular.data.readers import read
from ocular.data.splits import random_split
from ocular.evaluation import protocol
from ocular.evaluation.metrics import rank
from ocular.evaluation.quality import read_quality

COLUMNS = ("--client", "client", "--product", "product")
ALL = "ocular,r-ocular,wals,bpr,user-knn,item-knn,ease,slim,rp3beta,popularity"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("market")
    assert run("synth", "--clients", 150, "--products", 30, "--seed", 4, "-o", place).returncode == 0
    return place / "purchases.parquet"


def rows(source: Path, *options: object) -> list[dict[str, Any]]:
    done = run("evaluate", source, *COLUMNS, *options, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)  # nothing but the rows is on stdout
    return found


def test_numbers_are_those_of_the_library(source: Path, tmp_path: Path) -> None:
    picture = tmp_path / "r.png"
    options = ("--coclusters", 6, "--regularization", 1, "--models", "ocular,r-ocular", "--reliability", picture)
    found = {row["model"]: row for row in rows(source, *options)}
    train, test = random_split(read(source, client="client", product="product"), 0.25, 0)
    for name, parameters in (
        ("ocular", {"regularization": 1.0}),
        ("r-ocular", {"regularization": 2.0, "relative": True}),
    ):
        ranking = rank(ocular.OCuLaR(6, random_state=0, **parameters).fit(train), train, test, 50)
        row = found[name]
        assert row["recall@50"] == pytest.approx(ranking.recall, abs=5e-5)
        assert row["map@50"] == pytest.approx(ranking.map, abs=5e-5)
        assert row["clients"] == ranking.n_users
        assert 0 <= row["calibrated_error"] < row["calibration_error"] < 1
        assert (tmp_path / f"r-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert not picture.exists()


def test_all_models_with_the_best_first(source: Path) -> None:
    options = ("--models", ALL, "--coclusters", "3,6", "--regularization", "1,4", "--instances", 2, "--at", 5)
    found = rows(source, *options)
    assert {row["model"] for row in found} == set(ALL.split(","))
    values = [row["recall@5"] for row in found]
    assert values == sorted(values, reverse=True)
    assert [row["best"] for row in found] == [True] + [False] * (len(found) - 1)
    assert all(row["standard_error"] >= 0 and row["instances"] == 2 for row in found)
    assert all(0 <= row["p_value"] <= 1 for row in found[1:])
    ours = next(row for row in found if row["model"] == "ocular")
    assert ours["parameters"]["n_coclusters"] in (3, 6)
    assert ours["tuned_on"] == "validation"
    table = run("evaluate", source, *COLUMNS, *options).stdout
    assert table.splitlines()[2].startswith(f"{found[0]['model']} *")
    assert "Parameters tuned on validation data. * best by recall@5." in table


def test_tuning_is_for_every_model(source: Path) -> None:
    found = rows(source, "--models", "user-knn,popularity", "--tune", "test", "--at", 5)
    chosen = {row["model"]: row for row in found}
    assert chosen["user-knn"]["parameters"]["k"] in (40, 80, 160, 320)
    assert chosen["popularity"]["parameters"] == {}
    assert chosen["user-knn"]["tuned_on"] == "test"
    (alone,) = rows(source, "--models", "ocular", "--coclusters", 3, "--tol", "1e-3")
    assert alone["tuned_on"] == "none"
    assert alone["parameters"] == {"n_coclusters": 3, "regularization": 30.0, "tol": 1e-3, "n_threads": None}
    (relative,) = rows(source, "--models", "r-ocular", "--coclusters", 3)
    assert relative["parameters"]["regularization"] == 60.0
    (grid,) = rows(source, "--models", "ocular", "--coclusters", 3, "--tol", "0.1", "--tune", "validation")
    assert (grid["parameters"]["n_coclusters"], grid["parameters"]["tol"]) == (3, 0.1)
    assert grid["parameters"]["regularization"] in (10.0, 30.0, 60.0, 100.0, 300.0)


def test_a_backtest_needs_dates_and_says_what_it_did(source: Path) -> None:
    found = rows(source, "--models", "popularity,user-knn", "--time", "date", "--backtest", "2024-01-01", "--at", 5)
    assert len(found) == 2
    assert found[0]["clients"] > 20
    done = run("evaluate", source, *COLUMNS, "--models", "popularity", "--backtest", "2024-01-01")
    assert done.returncode == 2
    assert done.stderr.endswith("for --backtest, got none; pass --time\n")


def test_the_date_of_a_backtest_may_be_written_like_the_purchases(tmp_path: Path) -> None:
    lines = (f"c{u},p{i},{1 + i:02}.0{1 + (u + i) % 8}.2024\n" for u in range(12) for i in range(9))
    (tmp_path / "sales.csv").write_text("client,product,day\n" + "".join(lines))
    options = ("--time", "day", "--date-format", "%d.%m.%Y", "--models", "popularity", "--at", 2)
    german, iso = (
        run("evaluate", tmp_path / "sales.csv", *COLUMNS, *options, "--backtest", date, "--format", "json")
        for date in ("02.07.2024", "2024-07-02")
    )
    assert german.returncode == 0, german.stderr
    assert json.loads(german.stdout)[0]["recall@2"] == json.loads(iso.stdout)[0]["recall@2"]


def test_too_many_recommendations_are_noted(source: Path) -> None:
    done = run("evaluate", source, *COLUMNS, "--models", "popularity")
    assert done.stderr.count("note: 50 recommendations of 30 products find nearly everything; try --at 5\n") == 1


def test_a_backtest_is_tuned_by_time(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latest = []
    split_before = protocol.split_before

    def spy(train: Any, test: Any) -> Any:
        split = split_before(train, test)
        latest.append((split.train.purchases.time.max(), split.test.purchases.time.min()))
        return split

    monkeypatch.setattr(protocol, "split_before", spy)
    options = ("--time", "date", "--backtest", "2024-01-01", "--models", "user-knn", "--tune", "validation", "--at", 5)
    done = run("evaluate", source, *COLUMNS, *options)
    assert done.returncode == 0, done.stderr
    assert "Parameters tuned on the last purchases before 2024-01-01. * best by recall@5." in done.stdout
    ((train_end, validation_start),) = latest
    assert train_end < validation_start < np.datetime64("2024-01-01")


def test_a_model_that_cannot_run_is_found_before_the_first_fit(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ease, "MAX_ITEMS", 20)
    done = run("evaluate", source, *COLUMNS, "--models", "popularity,ease")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: expected at most 20 items for EASE, got 30")
    assert done.stderr.count("\n") == 1  # no line of progress before it


def test_the_result_is_kept_beside_the_models(source: Path, tmp_path: Path) -> None:
    options = ("--coclusters", 6, "--regularization", 1, "--models", "ocular,popularity", "--at", 5, "--save", tmp_path)
    found = {row["model"]: row for row in rows(source, *options)}
    data = read(source, client="client", product="product", time="date")
    (record,) = read_quality(tmp_path).values()
    assert (record.at, record.tuned_on, record.held_out, record.date) == (5, "none", 0.25, None)
    assert record.data == data.fingerprint()
    assert {method.model: method.recall for method in record.methods} == {
        name: row["recall@5"] for name, row in found.items()
    }
    assert record.methods[0].recall >= record.methods[1].recall
    rows(source, "--models", "popularity", "--at", 5, "--time", "date", "--backtest", "2024-07-01", "--save", tmp_path)
    both = read_quality(tmp_path)
    assert both["random"] == record
    assert (both["by_date"].date, both["by_date"].held_out) == ("2024-07-01", None)


def test_a_result_that_cannot_be_kept_is_refused_before_the_first_fit(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("evaluate", source, *COLUMNS, "--models", "popularity", "--save", tmp_path / "file" / "models")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_too_little_for_a_calibration(tmp_path: Path) -> None:
    pairs = "".join(f"c{u},p{i}\n" for u in range(6) for i in range(5) if (u + i) % 5)
    (tmp_path / "sales.csv").write_text("client,product\n" + pairs)
    options = ("--coclusters", 2, "--regularization", 0.1, "--format", "json", "--reliability", tmp_path / "r.png")
    done = run("evaluate", tmp_path / "sales.csv", *COLUMNS, *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["calibration_error"] is None
    assert "note: no calibration error and no reliability diagram (expected at least 100 recommendations" in done.stderr
    assert not (tmp_path / "r.png").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--models", "ocular,svd"), "expected --models to be one of ocular, r-ocular, evidence, user-knn"),
        (("--coclusters", "10,many"), "expected --coclusters as whole numbers such as 20,50,100, got '10,many'"),
        (("--coclusters", "0"), "--coclusters"),
        (("--tol", ""), "expected --tol as numbers such as 1e-4,1e-3, got ''"),
        (("--coclusters", "3,6", "--tune", "none"), "expected one value of --coclusters with --tune none, got 3,6"),
        (("--regularization", "-1"), "--regularization"),
        (("--test-share", "1.5"), "between 0 and 1"),
        (("--reliability", "r.txt"), "ends in .png, .svg or .pdf"),
    ],
)
def test_nonsense_is_refused_in_one_line(source: Path, options: tuple[str, str], says: str) -> None:
    done = run("evaluate", source, *COLUMNS, *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
