"""ocular due: what clients are due to buy again, from a model that was fitted with dates."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from command import run

ROWS = """company,sku,day,units,price
Acme,nut,2024-01-01,10,2
Acme,nut,2024-01-11,10,2
Acme,nut,2024-01-21,12,2
Acme,nut,2024-01-31,10,3
Acme,=1+1,2024-01-01,1,9
Acme,=1+1,2024-01-12,1,9
Acme,=1+1,2024-01-21,1,9
Acme,=1+1,2024-01-31,1,9
Bolt,oil,2024-02-14,1,5
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of the same purchases, the second without dates."""
    place = tmp_path_factory.mktemp("due")
    (place / "sales.csv").write_text(ROWS)
    columns = ("--client", "company", "--product", "sku", "--quantity", "units", "--price", "price")
    plain = ("--coclusters", 2, "--regularization", 1, "--links", 0, "--peers", 0)
    for name, time in (("dated", ("--time", "day")), ("undated", ())):
        done = run("fit", place / "sales.csv", *columns, *time, *plain, "-o", place / name)
        assert done.returncode == 0, done.stderr
    return place


def shown(*arguments: object) -> str:
    done = run("due", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_table_of_one_client(models: Path) -> None:
    header, _, first, second = shown(models / "dated", "--client", "Acme").splitlines()
    assert header.split() == [
        "client", "rank", "product", "last_purchase", "interval", "days_since", "overdue", "n_purchases", "n_clients",
    ]  # fmt: skip
    assert first.split() == ["Acme", "1", "=1+1", "2024-01-31", "10.00", "14", "4.00", "4", "1"]
    assert second.split()[2] == "nut"
    assert "nothing to show" in shown(models / "dated", "--client", "Bolt")


def test_json_has_everything(models: Path) -> None:
    rows = json.loads(shown(models / "dated", "--client", "Acme", "--client", "Bolt", "--format", "json"))
    assert rows[1] == {
        "client": "Acme", "rank": 2, "product": "nut", "last_purchase": "2024-01-31", "interval": 10.0,
        "days_since": 14, "overdue": 4.0, "n_purchases": 4, "n_clients": 1, "product_interval": None,
        "usual_quantity": 10.0, "usual_price": 2.0,
    }  # fmt: skip
    assert len(rows) == 2


def test_all_clients_without_formulas(models: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(shown(models / "dated", "--format", "csv"))))
    assert [(row["client"], row["product"]) for row in rows] == [("Acme", "'=1+1"), ("Acme", "nut")]
    assert len(json.loads(shown(models / "dated", "-n", 1, "--format", "json"))) == 1


def test_another_day(models: Path) -> None:
    assert json.loads(shown(models / "dated", "--as-of", "2024-02-01", "--format", "json")) == []
    rows = json.loads(shown(models / "dated", "--as-of", "2024-02-09", "--format", "json"))
    assert [row["overdue"] for row in rows] == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("undated",), "expected purchase dates to tell what is due, got none; read the purchases with --time"),
        (("dated", "--as-of", "soon"), "expected a date such as 2024-07-01, got 'soon'"),
        (("dated", "--client", "Acmee"), "no client named 'Acmee' among 2; did you mean 'Acme'?"),
    ],
)
def test_bad_input_is_one_line(models: Path, arguments: tuple[str, ...], line: str) -> None:
    done = run("due", models / arguments[0], *arguments[1:])
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {line}\n")
