"""ocular fit --half-life, --weight and --refusals."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

import ocular
from ocular.data.feedback_refusals import read_feedback_refusals

COLUMNS = ("--client", "company", "--product", "sku")
OPTIONS = ("--links", 1, "--peers", 0, "--popularity", 0, "--coclusters", 6, "--regularization", 1, "--no-calibration")


def fitted(place: Path, *arguments: object, source: str = "sales.parquet") -> tuple[ocular.OCuLaR, str]:
    """The model of a fit, and its notes."""
    done = run("fit", place / source, *COLUMNS, *OPTIONS, *arguments, "-o", place / "model")
    assert done.returncode == 0, done.stderr
    return ocular.load(place / "model"), done.stderr


def refused(place: Path, *arguments: object, source: str = "sales.parquet") -> str:
    done = run("fit", place / source, *COLUMNS, *OPTIONS, *arguments, "-o", place / "none")
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert not (place / "none").exists()
    return done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A market, once with some dates missing."""
    place = tmp_path_factory.mktemp("market")
    assert run("synth", "--clients", 120, "--products", 30, "--seed", 4, "-o", place).returncode == 0
    sales = pl.read_parquet(place / "purchases.parquet").rename({"client": "company", "product": "sku"})
    sales.write_parquet(place / "sales.parquet")
    gaps = pl.when(pl.int_range(pl.len()) % 10 == 0).then(None).otherwise(pl.col("date")).alias("date")
    sales.with_columns(gaps).write_parquet(place / "gaps.parquet")
    return place


def test_recent_purchases_weigh_more(place: Path) -> None:
    model, notes = fitted(place, "--time", "date", "--half-life", "26w")
    assert (model.half_life, model.weights) == (182.0, None)
    weights, purchases = model.interactions_.weights, model.interactions_.purchases
    assert weights is not None
    assert purchases is not None
    assert purchases.time is not None
    newest = purchases.pair[purchases.time == purchases.time.max()]
    assert weights[newest].min() == weights.max()
    assert "note:" not in notes
    by_amount, _ = fitted(place, "--quantity", "quantity", "--price", "price", "--weight", "amount")
    assert by_amount.weights == "amount"


def test_missing_dates_are_told_once_even_with_a_calibration(place: Path) -> None:
    options = [option for option in OPTIONS if option != "--no-calibration"]
    done = run(
        "fit", place / "gaps.parquet", *COLUMNS, *options, "--time", "date", "--half-life", 90, "-o", place / "m"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pairs have no date; they weigh as much as one of the median age") == 1


def test_refused_pairs_are_not_recommended(place: Path) -> None:
    plain, _ = fitted(place)
    data = plain.interactions_
    best, _ = plain.recommend(np.arange(40), N=1)
    rows = {"company": data.user_labels[:40].tolist(), "sku": data.item_labels[best[:, 0]].tolist()}
    bought = str(data.item_labels[data.by_user[0][0]])
    for columns in (("company", "sku"), ("client", "product")):
        table = pl.DataFrame(dict(zip(columns, rows.values(), strict=True)))
        extra = pl.DataFrame({columns[0]: ["Nobody", rows["company"][0]], columns[1]: ["Nothing", bought]})
        pl.concat([table, extra]).write_csv(place / "no.csv")
        model, notes = fitted(place, "--refusals", place / "no.csv")
        assert len(model.refusals_.indices) == 40
        assert (
            "note: 1 of 42 refusals are of clients or products without purchases and are ignored: 'Nobody'\n" in notes
        )
        assert "note: 1 of 41 refused pairs were bought; the purchase counts, the refusal does not\n" in notes
    client = rows["company"][3]
    done = run("recommend", place / "model", "--client", client, "-n", 30, "--format", "json")
    assert rows["sku"][3] not in [row["product"] for row in json.loads(done.stdout)]


def test_a_start_keeps_refusals_and_the_half_life(place: Path) -> None:
    pl.DataFrame({"client": [], "product": []}, schema={"client": str, "product": str})
    plain, _ = fitted(place, "--time", "date", "--half-life", "1y")
    data = plain.interactions_
    best = int(plain.recommend(5, N=1)[0][0])
    pl.DataFrame({"client": [data.user_labels[5]], "product": [data.item_labels[best]]}).write_csv(place / "one.csv")
    first, _ = fitted(place, "--time", "date", "--half-life", "1y", "--refusals", place / "one.csv")
    first.save(place / "first")
    done = run("fit", place / "sales.parquet", *COLUMNS, "--time", "date", "--no-calibration",
               "--start", place / "first", "-o", place / "second")  # fmt: skip
    assert done.returncode == 0, done.stderr
    second = ocular.load(place / "second")
    assert second.half_life == 365.0
    assert second.refusals_[5].tolist() == [best]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--half-life", "0d", "--time", "date"), "expected --half-life to be a time above 0 such as 180d"),
        (("--half-life", "soon", "--time", "date"), "got 'soon'"),
        (("--half-life", "9d"), "expected purchases with a date for --half-life, got none; read them with --time"),
        (("--weight", "size"), "expected --weight to be one of quantity, amount, values, got 'size'"),
        (("--weight", "quantity"), "expected purchases with a quantity for --weight quantity, got none"),
        (("--refusal-weight", 0), "expected --refusal-weight to be a number from 1"),
        (("--refusals", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_bad_input_is_one_line(place: Path, arguments: tuple[object, ...], message: str) -> None:
    assert message in refused(place, *arguments)


def test_refusals_need_the_columns_and_a_row(place: Path) -> None:
    (place / "other.csv").write_text("who,what\nAcme,Thing\n")
    assert "no column named 'company'" in refused(place, "--refusals", place / "other.csv")
    (place / "empty.csv").write_text("client,product\n")
    assert "refusals: " in refused(place, "--refusals", place / "empty.csv")
    assert "expected no --refusals with --spark" in refused(
        place, "--refusals", place / "empty.csv", "--spark", "local[1]"
    )


FEEDBACK = [  # client, product, status, reason, in the order that people said so
    (0, "pursuing", ""),
    (0, "not a fit", "No need"),
    (1, "not a fit", "Bad timing"),
    (2, "not a fit", ""),
    (2, "won", ""),
    (3, "not a fit", "too expensive"),
]


@pytest.mark.parametrize("kind", ["export", "database"])
def test_what_sellers_marked_is_refused(place: Path, kind: str) -> None:
    plain, _ = fitted(place)
    data = plain.interactions_
    best = plain.recommend(np.arange(4), N=1)[0][:, 0]
    rows = [(str(data.user_labels[u]), str(data.item_labels[best[u]]), status, why) for u, status, why in FEEDBACK]
    source = place / "feedback.csv"
    if kind == "export":
        columns = ["client", "product", "status", "reason"]
        pl.DataFrame(rows, schema=columns, orient="row").write_csv(source)
    else:
        source = f"sqlite:///{place / 'application.db'}"
        with closing(sqlite3.connect(place / "application.db")) as connection, connection:
            connection.execute("DROP TABLE IF EXISTS feedback")
            connection.execute("CREATE TABLE feedback (id INTEGER PRIMARY KEY, client, product, status, reason)")
            insert = "INSERT INTO feedback (client, product, status, reason) VALUES (?, ?, ?, ?)"
            connection.executemany(insert, rows)
    model, notes = fitted(place, "--refusals", source)
    assert "2 refusals in the feedback" in notes
    refused_pairs = {u: model.refusals_[u].tolist() for u in range(data.n_users) if len(model.refusals_[u])}
    assert refused_pairs == {0: [best[0]], 3: [best[3]]}


def test_marked_names_of_an_export_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "feedback.csv").write_text("client,product,status,reason\n'=Acme,'Quoted,not a fit,\n")
    assert read_feedback_refusals(str(tmp_path / "feedback.csv")) == [("=Acme", "'Quoted")]
