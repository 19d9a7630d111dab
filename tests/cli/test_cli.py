"""The commands as a user runs them: what they print, and one clear line with exit code 2 on bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from command import run

import ocular

SALES = """company,sku,amount,day
Acme,bolt,10.5,2024-01-31
Acme,nut,3,2024-02-01
Acme,nut,4,2024-03-01
Bolt & Co,bolt,11,2024-01-02
Bolt & Co,nut,3.5,2024-01-02
Bolt & Co,saw,40,2024-01-02
Corda,rope,7,2024-01-05
Corda,sail,300,2024-01-05
Dory,rope,8,2024-01-05
Dory,sail,290,2024-01-06
Dory,oar,25,2024-01-06
Eel,rope,8,2024-01-06
Eel,oar,24,2024-01-06
"""
README = Path(__file__).parents[2] / "README.md"
COLUMNS = ("--client", "company", "--product", "sku")


def refused(*arguments: object) -> str:
    """The one line that a user sees."""
    done = run(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """sales.csv and a model fitted to it."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "sales.csv").write_text(SALES)
    done = run(
        "fit", folder / "sales.csv", *COLUMNS, "--price", "amount", "--time", "day", "--coclusters", 2,
        "--regularization", 0.1, "--links", 0, "--seed", 3, "-o", folder / "model",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "read 5 clients × 6 products, 12 pairs" in done.stdout
    assert "converged after" in done.stdout
    return folder


def test_fit_keeps_names_amounts_and_parameters(folder: Path) -> None:
    model = ocular.load(folder / "model")
    assert model.interactions_.user_labels.tolist() == ["Acme", "Bolt & Co", "Corda", "Dory", "Eel"]
    assert (model.n_coclusters, model.regularization, model.random_state) == (2, 0.1, 3)
    purchases = model.interactions_.purchases
    assert purchases is not None
    assert purchases.price is not None
    assert len(purchases) == 13  # two of nut by Acme
    assert purchases.price.sum() == pytest.approx(734)


def test_recommend_table_json_and_csv_agree(folder: Path) -> None:
    as_json = json.loads(run("recommend", folder / "model", "--client", "Acme", "-n", 2, "--format", "json").stdout)
    assert [(row["client"], row["rank"], row["product"]) for row in as_json] == [
        ("Acme", 1, "saw"),  # Bolt & Co, the only one alike, has it; for anything else there is no reason
        ("Acme", 2, "rope"),  # but it sells best
    ]
    assert 0 < as_json[0]["confidence"] < 1
    lines = run("recommend", folder / "model", "--client", "Acme", "-n", 2, "--format", "csv").stdout.splitlines()
    prices = "price,price_low,price_high,typical_price,typical_quantity,value"
    assert lines[0] == f"client,rank,product,confidence,chance,hit_rate,{prices}"
    assert lines[1].startswith(f"Acme,1,saw,{as_json[0]['confidence']},")
    table = run("recommend", folder / "model", "--client", "Acme", "-n", 2).stdout.splitlines()
    assert table[0].split()[:4] == ["client", "rank", "product", "confidence"]
    assert table[2].split()[:3] == ["Acme", "1", "saw"]


def test_recommend_says_why(folder: Path) -> None:
    shown = run("recommend", folder / "model", "--client", "Acme", "-n", 1, "--explain").stdout
    assert "saw is recommended to Acme with confidence" in shown
    assert "similar purchase history (e.g., Bolt & Co) also bought saw" in shown
    as_json = json.loads(
        run("recommend", folder / "model", "--client", "Acme", "-n", 1, "--explain", "--format", "json").stdout
    )
    assert as_json[0]["reason"] in shown


def test_what_is_left_out_is_said(folder: Path) -> None:
    (folder / "holes.csv").write_text(SALES + ",rope,1,\n")
    arguments = ("--drop-missing", "--coclusters", 7, "--regularization", 0.1, "-o", folder / "holes")
    done = run("fit", folder / "holes.csv", *COLUMNS, *arguments)
    assert "note: left out 1 of 14 rows without 'company' or 'sku'" in done.stderr
    assert "note: 7 co-clusters are more than there are clients or products" in done.stderr
    assert "--drop-missing" in refused("fit", folder / "holes.csv", *COLUMNS, "-o", folder / "none")


@pytest.mark.parametrize("name", ["all.csv", "all.parquet"])
def test_recommend_all_writes_every_client(folder: Path, name: str) -> None:
    done = run("recommend", folder / "model", "--all", "-n", 9, "-o", folder / name)
    assert done.returncode == 0, done.stderr
    table = pl.read_csv(folder / name) if name.endswith("csv") else pl.read_parquet(folder / name)
    assert len(table) == 5 * 6 - 12  # what each does not have yet, no padding
    assert table.filter(pl.col("client") == "Acme", pl.col("rank") == 1)["product"].to_list() == ["saw"]


def test_fit_from_sqlite(folder: Path) -> None:
    import sqlite3

    with sqlite3.connect(folder / "shop.db") as base:
        base.execute("create table sales (c text, p text)")
        base.executemany("insert into sales values (?, ?)", [("a", "x"), ("a", "y"), ("b", "y")])
    base.close()
    done = run(
        "fit", f"sqlite:///{folder / 'shop.db'}", "--query", "select * from sales", "--client", "c", "--product", "p",
        "--coclusters", 1, "--regularization", 0.1, "-o", folder / "from-sql",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ocular.load(folder / "from-sql").interactions_.nnz == 3


def test_same_seed_same_bytes_for_any_number_of_threads(folder: Path) -> None:
    saved = []
    for threads in (1, 2):
        out = folder / f"threads-{threads}"
        arguments = ("--coclusters", 3, "--regularization", 0.1, "--seed", 7, "--threads", threads, "-o", out)
        assert run("fit", folder / "sales.csv", *COLUMNS, *arguments).returncode == 0
        saved.append((out / "arrays.npz").read_bytes())
    assert saved[0] == saved[1]


def test_synth_then_fit(tmp_path: Path) -> None:
    done = run("synth", "--clients", 60, "--products", 20, "--seed", 2, "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(tmp_path / "purchases.parquet")
    assert {"client", "product", "price", "date"} <= set(table.columns)
    assert table["client"].n_unique() == 60
    arguments = ("--client", "client", "--product", "product", "--price", "price", "--time", "date", "--coclusters", 3)
    done = run("fit", tmp_path / "purchases.parquet", *arguments, "-o", tmp_path / "model")
    assert done.returncode == 0, done.stderr


def test_demo_shows_recommendations_with_reasons(tmp_path: Path) -> None:
    done = run("demo", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("confidence") >= 6  # a table and a rationale for each of three clients
    assert done.stdout.count("because:") == 3
    for kind in ("Clients with similar purchase history", "Clients who own", "clients most similar to"):
        assert kind in done.stdout
    assert ocular.load(tmp_path / "models" / "latest").interactions_.n_users == 480
    assert (tmp_path / "client.html").exists()
    assert run("demo", "-o", tmp_path).returncode == 0  # a second time in the same folder
    # the README shows the first of them; digits may differ from one processor to another
    shown = re.search(
        r"```\n(.* is recommended to .*) with confidence (.*) because:", README.read_text(encoding="utf-8")
    )
    assert shown is not None
    printed = re.search(re.escape(shown[1]) + r" with confidence (.*) because:", done.stdout)
    assert printed is not None
    assert float(printed[1]) == pytest.approx(float(shown[2]), abs=0.03)


def test_ctrl_c_saves_the_best_state(tmp_path: Path) -> None:
    assert run("synth", "--clients", 9000, "--products", 800, "-o", tmp_path).returncode == 0
    arguments = [
        "fit", tmp_path / "purchases.parquet", "--client", "client", "--product", "product", "--coclusters", 400,
        "--regularization", 0, "--links", 0, "--tol", 0, "--max-iter", 1_000_000, "--checkpoint", tmp_path / "state",
        "-o", tmp_path / "model",
    ]  # fmt: skip
    command = [sys.executable, "-c", "from ocular.cli import main; main()", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as fit:
        assert fit.stdout is not None
        assert fit.stdout.readline().startswith("read 9,000 clients")
        time.sleep(2)  # into the sweeps, past the compilation
        os.kill(fit.pid, signal.SIGINT)
        out, err = fit.communicate(timeout=60)
    assert fit.returncode == 130, err
    assert "stopped after" in out
    assert "note: interrupted: the model keeps the state after sweep" in err
    assert "Back-test" not in out  # who stops one fit does not want to wait for another
    saved = f"Interrupted: the best state so far is saved to {tmp_path / 'model'}, calibration skipped"
    assert err.splitlines()[-1] == f"{saved}; the same command goes on from {tmp_path / 'state'}"
    assert ocular.load(tmp_path / "model").n_iter_ >= 1
    assert (tmp_path / "state").exists()


class TestBadInput:
    def test_unknown_column_names_those_there_are(self, folder: Path) -> None:
        line = refused("fit", folder / "sales.csv", "--client", "compny", "--product", "sku", "-o", folder / "new")
        assert "no column named 'compny'" in line
        assert "company, sku, amount, day" in line
        assert not (folder / "new").exists()

    def test_unknown_client_names_the_nearest(self, folder: Path) -> None:
        assert "did you mean 'Acme'" in refused("recommend", folder / "model", "--client", "Acne")

    def test_broken_row_tells_its_line(self, folder: Path) -> None:
        (folder / "broken.csv").write_text(SALES.replace("Corda,sail,300", "Corda,sail,many"))
        line = refused("fit", folder / "broken.csv", *COLUMNS, "--price", "amount", "-o", folder / "new")
        assert "broken.csv, line 9" in line

    @pytest.mark.parametrize(
        ("option", "value", "says"),
        [
            ("--coclusters", 0, "expected --coclusters to be a whole number of at least 1, got 0"),
            ("--regularization", -1, "expected --regularization to be a number from 0 to 1e+12, got -1"),
            ("--threads", 0, "expected --threads to be a whole number of at least 1, got 0"),
            ("--links", -1, "expected --links to be a number from 0 to 1e+06, got -1"),
            ("--peers", "nan", "expected --peers to be a number from 0 to 1e+06, got nan"),
            ("--links", "many", "expected --links to be a number or \"auto\", got 'many'"),
            ("--seed", -4, "expected --seed to be a whole number"),
        ],
    )
    def test_senseless_parameters(self, folder: Path, option: str, value: object, says: str) -> None:
        assert says in refused("fit", folder / "sales.csv", *COLUMNS, option, value, "-o", folder / "new")

    def test_output_with_other_content_is_refused_before_the_fit(self, folder: Path) -> None:
        taken = folder / "taken"
        taken.mkdir(exist_ok=True)
        (taken / "thesis.txt").write_text("years of work")
        assert "choose another name" in refused("fit", folder / "sales.csv", *COLUMNS, "-o", taken)
        assert (taken / "thesis.txt").read_text() == "years of work"

    def test_checkpoint_inside_the_model_is_refused_before_the_fit(self, folder: Path) -> None:
        arguments = ("--checkpoint", folder / "new" / "state", "-o", folder / "new")
        assert "outside of the model folder" in refused("fit", folder / "sales.csv", *COLUMNS, *arguments)

    def test_no_model_there(self, tmp_path: Path) -> None:
        assert "manifest.json" in refused("recommend", tmp_path / "nothing", "--client", "Acme")

    def test_address_without_query(self, tmp_path: Path) -> None:
        line = refused("fit", "postgresql://me:secret@db/shop", *COLUMNS, "-o", tmp_path / "m")
        assert "--query" in line
        assert "secret" not in line

    def test_all_and_client_together(self, folder: Path) -> None:
        assert "got --client and --all" in refused("recommend", folder / "model", "--all", "--client", "Acme")

    def test_output_of_unknown_kind(self, folder: Path) -> None:
        assert ".csv, .parquet or .jsonl" in refused("recommend", folder / "model", "--all", "-o", folder / "all.xls")


def test_fit_lists_every_kind_of_source() -> None:
    shown = run("fit", "--help").stdout
    for kind in (".parquet", "a folder", "a pattern", "several", "standard input", "shop.duckdb", "postgresql://"):
        assert kind in shown


def test_version_and_help() -> None:
    assert run("--version").stdout == f"ocular {ocular.__version__}\n"
    for command in ("fit", "recommend", "explain", "coclusters", "evaluate", "synth", "demo"):
        shown = run(command, "--help").stdout
        assert f"ocular {command} " in shown, f"{command} --help shows no example"


def test_light_start() -> None:
    """`import ocular` and the help must not load the heavy libraries."""
    heavy = "{'numpy', 'scipy', 'numba', 'sklearn', 'polars'}"
    for start in ("import ocular", "import ocular.cli"):
        code = f"{start}; import sys; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True)
