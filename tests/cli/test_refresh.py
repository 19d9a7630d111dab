"""ocular refresh, promote, rollback and calibrate: what is served is always whole, calibrated and promoted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command import run
from refresh_support import buy_more, change_settings, hidden_files, refresh, served, summary_of

import ocular
from ocular.refresh import backtest, pipeline
from ocular.refresh.backtest import Backtest
from ocular.refresh.lock import locked
from ocular.refresh.promotion import PROMOTIONS_FILE, read_promotions
from ocular.refresh.serving import serving_order


def test_unchanged_purchases_do_nothing(place: Path) -> None:
    before = served(place)
    done = refresh(place)
    assert done.returncode == 0
    assert summary_of(done)["status"] == "unchanged"
    assert served(place) == before
    assert len(serving_order(place / "models")) == 1


def test_new_purchases_are_promoted_from_the_served_model(place: Path) -> None:
    before = served(place)
    buy_more(place)
    done = refresh(place, "--summary", place / "summary.json")
    summary = summary_of(done)
    assert done.returncode == 0, done.stderr
    assert summary["status"] == "promoted"
    assert summary["started_from"] == before
    assert summary["backtest"]["hidden"] > 20
    assert served(place) == summary["model"] != before
    assert json.loads((place / "summary.json").read_text()) == summary
    assert hidden_files(place) == []


def test_a_changed_price_is_a_change(place: Path) -> None:
    sales = pl.read_parquet(place / "purchases.parquet")
    sales.with_columns(price=pl.col("price") * 2).write_parquet(place / "purchases.parquet")
    assert summary_of(refresh(place))["status"] == "promoted"


def test_only_the_latest_models_are_kept_and_other_folders_stay(place: Path) -> None:
    (place / "models" / "by-hand").mkdir()
    for seed in range(3):
        buy_more(place, seed=seed)
        assert summary_of(refresh(place))["status"] == "promoted"
    folders = [path.name for path in (place / "models").iterdir() if path.is_dir()]
    promotions = read_promotions(place / "models")
    assert promotions is not None
    assert sorted(folders) == sorted([*promotions.names, "by-hand"])
    assert len(promotions.names) == 2


def test_a_source_cut_to_12_rows_is_refused(place: Path) -> None:
    before = served(place)
    pl.read_parquet(place / "purchases.parquet").head(12).write_parquet(place / "purchases.parquet")
    done = refresh(place)
    assert done.returncode == 3
    assert "12 rows where" in done.stderr
    assert summary_of(done)["status"] == "refused"
    assert served(place) == before


def test_other_names_for_all_products_are_refused(place: Path) -> None:
    sales = pl.read_parquet(place / "purchases.parquet")
    sales.with_columns(product="x" + pl.col("product").cast(pl.String)).write_parquet(place / "purchases.parquet")
    done = refresh(place)
    assert done.returncode == 3
    assert "0 of the" in done.stderr


def test_older_purchases_than_last_time_are_refused(place: Path) -> None:
    days = pl.Series("day", [f"2024-{1 + row % 12:02}-03" for row in range(_rows(place))])
    sales = pl.read_parquet(place / "purchases.parquet").with_columns(day=days)
    sales.write_parquet(place / "purchases.parquet")
    change_settings(place, 'price = "price"', 'price = "price"\ntime = "day"')
    assert summary_of(refresh(place))["data"]["newest"] == "2024-12-03"
    sales.filter(pl.col("day") < "2024-12").write_parquet(place / "purchases.parquet")
    done = refresh(place)
    assert done.returncode == 3
    assert "the newest purchase is of 2024-11-03, before 2024-12-03 last time" in done.stderr


def _rows(place: Path) -> int:
    return len(pl.read_parquet(place / "purchases.parquet"))


def test_a_scrambled_source_is_refused_by_the_back_test(place: Path) -> None:
    """As many rows, clients and products as ever, but many products are of somebody else: counts do not show that."""
    before = served(place)
    sales = pl.read_parquet(place / "purchases.parquet")
    rng = np.random.default_rng(0)
    products = sales["product"].to_numpy().copy()
    wrong = rng.random(len(products)) < 0.45
    products[wrong] = rng.permutation(products[wrong])
    sales.with_columns(product=pl.Series(products)).write_parquet(place / "purchases.parquet")
    done = refresh(place)
    summary = summary_of(done)
    assert done.returncode == 3, summary
    assert summary["gates"][-1]["gate"] == "min_accuracy_ratio"
    assert served(place) == before
    assert (place / "models" / summary["model"]).is_dir()  # somebody may look at it
    assert run("promote", place / "models" / summary["model"]).returncode == 0
    assert served(place) == summary["model"]


def test_a_source_that_is_gone_is_one_line(place: Path) -> None:
    before = served(place)
    (place / "purchases.parquet").unlink()
    done = refresh(place)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert summary_of(done)["status"] == "failed"
    assert served(place) == before


def test_a_dry_run_changes_nothing(place: Path) -> None:
    buy_more(place)
    before = sorted((path, path.stat().st_mtime_ns) for path in (place / "models").rglob("*"))
    done = refresh(place, "--dry-run")
    assert done.returncode == 0
    assert summary_of(done)["status"] == "would promote"
    assert sorted((path, path.stat().st_mtime_ns) for path in (place / "models").rglob("*")) == before


def test_of_two_at_once_the_second_says_so(place: Path) -> None:
    with locked(place / "models" / pipeline.LOCK_FILE):
        done = refresh(place)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: another refresh is running")
    assert done.stderr.count("\n") == 1


def test_rollback_and_promote(place: Path) -> None:
    first = served(place)
    buy_more(place)
    second = summary_of(refresh(place))["model"]
    assert run("rollback", place / "models").stdout == f"rolled back from {second} to {first}\n"
    assert served(place) == first
    assert summary_of(refresh(place))["reason"].endswith("which was rolled back")
    refused = run("rollback", place / "models")
    assert refused.returncode == 2
    assert f"got none before {first}" in refused.stderr
    assert run("promote", place / "models" / second).stdout == f"promoted {second} in place of {first}\n"
    assert served(place) == second
    log = [(entry["what"], entry["model"]) for entry in read_promotions(place / "models").log]  # type: ignore[union-attr]
    assert log[-2:] == [("rollback", second), ("promote", second)]


def test_a_rollback_during_a_run_is_not_overruled(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = served(place)
    buy_more(place)
    refresh(place)
    buy_more(place, seed=7)
    calibrate = pipeline.calibrate

    def meanwhile(model: Any) -> Any:
        assert run("rollback", place / "models").returncode == 0
        return calibrate(model)

    monkeypatch.setattr(pipeline, "calibrate", meanwhile)
    done = refresh(place)
    assert done.returncode == 3
    assert "was promoted while this run was under way" in done.stderr
    assert served(place) == first


def test_a_model_without_hit_rates_needs_a_word_or_calibrate(place: Path) -> None:
    model = place / "models" / "by-hand"
    columns = ("--client", "client", "--product", "product", "--coclusters", 4, "--links", 0, "--regularization", 1)
    run("fit", place / "purchases.parquet", *columns, "--no-calibration", "-o", model)
    before = served(place)  # a new folder alone changes nothing
    done = run("promote", model)
    assert done.returncode == 2
    assert "ocular calibrate" in done.stderr
    assert served(place) == before
    assert "recommendations were bought" in run("calibrate", model).stdout
    assert run("promote", model).returncode == 0
    assert served(place) == "by-hand"


def test_refusals_of_sellers_are_not_recommended(place: Path) -> None:
    model = ocular.load(place / "models" / served(place))
    best = int(model.recommend(0, N=1)[0][0])
    client, product = model.interactions_.user_labels[0], model.interactions_.item_labels[best]
    pl.DataFrame(
        {"client": [client], "product": [product], "status": ["not a fit"], "reason": ["Too expensive"]}
    ).write_csv(place / "feedback.csv")
    change_settings(place, "[columns]", 'refusals = "feedback.csv"\n[columns]')
    assert summary_of(refresh(place))["status"] == "promoted"
    assert best not in ocular.load(place / "models" / served(place)).recommend(0, N=30)[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[keep]", "[keep", "is not valid TOML"),
        ("[source]", "[sources]", "did you mean source?"),
        ("client =", "clients =", "did you mean client?"),
        ("n_coclusters = 4", "coclusters = 4", "did you mean n_coclusters?"),
        ("n_coclusters = 4", "n_coclusters = -4", "n_coclusters"),
        ("models = 2", "models = 0", "expected models in [keep] to be a whole number of at least 1, got 0"),
        ("[keep]", "[gates]\nmin_rows_ratio = 'half'\n[keep]", "expected min_rows_ratio in [gates] to be a number"),
        ('folder = "models"', "", "expected folder in [keep], got none"),
        ('"purchases.parquet"', "3", "expected texts"),
        ('"client"', "3", "client"),
    ],
)
def test_bad_settings_are_one_line(place: Path, old: str, new: str, said: str) -> None:
    change_settings(place, old, new)
    done = refresh(place)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_settings_are_one_line(tmp_path: Path) -> None:
    done = run("refresh", tmp_path / "none.toml")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_checkpoint_of_other_purchases_starts_anew_with_a_word(place: Path) -> None:
    (place / "models" / ".refresh-0123456789abcdef.ckpt").write_bytes(b"of other purchases")
    buy_more(place)
    done = refresh(place)
    assert done.returncode == 0
    assert "starts anew" in done.stderr
    assert hidden_files(place) == []


def test_a_model_that_is_refused_is_not_served_where_nothing_was_promoted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without promotions the newest is served: a refresh must not save one before it has written down what is."""
    before = served(place)
    (place / "models" / PROMOTIONS_FILE).unlink()
    worse = Backtest(recall=0.1, served_recall=0.2, standard_error=0.01, at=5, hidden=100, clients=50)
    monkeypatch.setattr(pipeline, "compare_with_served", lambda *_, **__: worse)
    buy_more(place)
    done = refresh(place)
    assert done.returncode == 3
    assert summary_of(done)["model"] is not None
    assert served(place) == before


def with_days(place: Path) -> pl.DataFrame:
    """The purchases of the place, over three years."""
    sales = pl.read_parquet(place / "purchases.parquet")
    days = np.datetime64("2022-01-01") + np.random.default_rng(3).integers(0, 1095, len(sales))
    sales = sales.with_columns(day=pl.Series(days.astype(str)))
    sales.write_parquet(place / "purchases.parquet")
    change_settings(place, 'price = "price"', 'price = "price"\ntime = "day"')
    return sales


def test_purchases_with_dates_are_back_tested_by_date_too(place: Path) -> None:
    with_days(place)
    assert summary_of(refresh(place))["backtest_by_date"] is None  # the served model knows no dates yet
    buy_more(place)
    done = refresh(place)
    summary = summary_of(done)
    assert summary["status"] == "promoted"
    assert summary["backtest_by_date"]["hidden"] > 20
    assert summary["backtest"]["hidden"] > 20
    assert [gate["gate"] for gate in summary["gates"]].count("min_accuracy_ratio") == 2
    assert "hidden purchases, the latest: recall@" in done.stderr
    change_settings(place, "[keep]", "[gates]\nby_date = false\n[keep]")
    buy_more(place, seed=7)
    assert summary_of(refresh(place))["backtest_by_date"] is None


def test_the_back_test_by_date_asks_for_the_latest_purchases_only(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither model may be fitted on anything bought on or after the first day that it is asked for."""
    sales = with_days(place)
    refresh(place)
    model = ocular.load(place / "models" / served(place))
    shown: list[Any] = []
    genuine = backtest._fit_again
    monkeypatch.setattr(backtest, "_fit_again", lambda model, part: shown.append(part) or genuine(model, part))
    result = backtest.compare_by_date(model, model, 0.25, 20)
    assert result is not None
    assert result.recall == pytest.approx(result.served_recall, abs=0.05)  # a fit without a seed differs a little
    newest = [np.nanmax(part.purchases.time) for part in shown]
    assert newest[0] == newest[1] < np.datetime64("2024-06-01")
    late = sales.group_by("client", "product").agg(pl.col("day").min()).filter(pl.col("day") > str(newest[0])[:10])
    assert result.hidden == len(late)


def test_what_the_latest_purchases_refuse_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = served(place)
    worse = Backtest(recall=0.1, served_recall=0.2, standard_error=0.01, at=5, hidden=100, clients=50)
    monkeypatch.setattr(pipeline, "compare_by_date", lambda *_: worse)
    buy_more(place)
    done = refresh(place)
    assert done.returncode == 3
    assert "on the latest purchases recall@5 is 0.1000" in done.stderr
    assert served(place) == before
