"""Clients for a product, filters, and all recommendations on standard output and as JSON lines."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from command import run

import ocular

COLUMNS = ("--client", "client", "--product", "product", "--price", "price", "--quantity", "quantity")
OPTIONS = ("--product-attribute", "family", "--coclusters", 6, "--regularization", 1)


def shown(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("market")
    shown("synth", "--clients", 150, "--products", 30, "--seed", 4, "-o", place)
    shown("fit", place / "purchases.parquet", *COLUMNS, *OPTIONS, "-o", place / "model")
    return place


@pytest.fixture(scope="module")
def advisor(place: Path) -> ocular.Advisor:
    return ocular.Advisor.load(place / "model")


@pytest.fixture(scope="module")
def client(advisor: ocular.Advisor) -> str:
    interactions = advisor.model.interactions_
    return str(interactions.user_labels[int(interactions.by_user.degrees.argmax())])


@pytest.fixture(scope="module")
def families(advisor: ocular.Advisor) -> dict[str, str]:
    """The family of each product."""
    interactions = advisor.model.interactions_
    labels, values = interactions.item_labels, interactions.item_attributes["family"]
    return {str(label): str(value) for label, value in zip(labels, values, strict=True)}


def recommended(place: Path, *options: object) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(shown("recommend", place / "model", *options, "--format", "json"))
    return rows


def test_clients_for_a_product(place: Path, advisor: ocular.Advisor) -> None:
    product = str(advisor.model.interactions_.item_labels[3])
    rows = recommended(place, "--product", product, "-n", 4)
    expected = advisor.clients_for(product, 4)
    assert [row["client"] for row in rows] == [each.client for each in expected]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert {row["product"] for row in rows} == {product}
    confidences = [row["confidence"] for row in rows]
    assert confidences == sorted(confidences, reverse=True)  # type: ignore[type-var]
    owners = advisor.model.interactions_.by_item[3]
    assert not {row["client"] for row in rows} & set(advisor.model.interactions_.user_labels[owners])
    assert rows[0]["value"] == pytest.approx(expected[0].value, abs=0.005)
    text = shown("recommend", place / "model", "--product", product, "-n", 1, "--explain")
    assert f"{product} is recommended to {expected[0].client}" in text


def test_only_and_without_by_name(place: Path, client: str) -> None:
    first, second, third = (str(row["product"]) for row in recommended(place, "--client", client, "-n", 3))
    rows = recommended(place, "--client", client, "-n", 2, "--without", first)
    assert [row["product"] for row in rows] == [second, third]
    rows = recommended(place, "--client", client, "-n", 9, "--only", third, "--only", second)
    assert [row["product"] for row in rows] == [second, third]


def test_only_and_without_by_attribute(place: Path, client: str, families: dict[str, str]) -> None:
    family = families[str(recommended(place, "--client", client, "-n", 1)[0]["product"])]
    inside = recommended(place, "--client", client, "-n", 30, "--only", f"family={family}")
    outside = recommended(place, "--client", client, "-n", 30, "--without", f"family={family}")
    assert {families[str(row["product"])] for row in inside} == {family}
    assert family not in {families[str(row["product"])] for row in outside}
    every = recommended(place, "--client", client, "-n", 30)
    assert len(inside) + len(outside) == len(every)


def test_a_fit_keeps_what_is_not_to_be_recommended(place: Path, client: str, tmp_path: Path) -> None:
    first = str(recommended(place, "--client", client, "-n", 1)[0]["product"])
    source = (place / "purchases.parquet", *COLUMNS, *OPTIONS, "--without", first, "-o", tmp_path / "model")
    shown("fit", *source, "--no-calibration")
    every = recommended(tmp_path, "--client", client, "-n", 30)
    assert first not in {row["product"] for row in every}
    out = shown("recommend", tmp_path / "model", "--all", "-n", 30, "-o", "-")
    assert first not in {row["product"] for row in csv.DictReader(io.StringIO(out))}


def test_all_on_standard_output_and_as_json_lines(place: Path, tmp_path: Path, client: str) -> None:
    shown("recommend", place / "model", "--all", "-n", 3, "-o", tmp_path / "all.parquet")
    shown("recommend", place / "model", "--all", "-n", 3, "-o", tmp_path / "all.jsonl")
    table = pl.read_parquet(tmp_path / "all.parquet")
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text("utf-8").splitlines()]
    assert [(row["client"], row["product"]) for row in rows] == table.select("client", "product").rows()
    printed = shown("recommend", place / "model", "--all", "-n", 3, "-o", "-", "--format", "json")
    assert [json.loads(line) for line in printed.splitlines()] == rows
    as_csv = list(csv.DictReader(io.StringIO(shown("recommend", place / "model", "--all", "-n", 3, "-o", "-"))))
    assert [row["product"] for row in as_csv] == [row["product"] for row in rows]
    # the same value as for one client
    alone = {str(row["product"]): row for row in recommended(place, "--client", client, "-n", 3)}
    for row in rows:
        if row["client"] == client:
            single = alone[row["product"]]
            assert row["value"] == pytest.approx(single["value"], rel=1e-3)
            assert row["price"] == pytest.approx(single["typical_price"])
            assert row["quantity"] == pytest.approx(single["typical_quantity"])


def test_all_honours_filters(place: Path, families: dict[str, str]) -> None:
    family = next(iter(families.values()))
    out = shown("recommend", place / "model", "--all", "-n", 5, "-o", "-", "--only", f"family={family}")
    assert {families[row["product"]] for row in csv.DictReader(io.StringIO(out))} == {family}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--product", "zzz"), "no product named 'zzz' among 30"),
        (("--product", "zzz", "--client", "x"), "expected --client NAME, --product NAME, or --all"),
        (("--product", "zzz", "--only", "x"), "expected no --only or --without with --product"),
        (("--client", "CLIENT", "--only", "zzz"), "no product named 'zzz'"),
        (("--client", "CLIENT", "--only", "family=Nothing"), "no product has family 'Nothing'"),
        (
            ("--client", "CLIENT", "--without", "family=x", "--without", "y"),
            "expected either product names or attribute",
        ),
    ],
)
def test_bad_input_is_one_line(place: Path, client: str, options: tuple[str, ...], says: str) -> None:
    done = run("recommend", place / "model", *(client if option == "CLIENT" else option for option in options))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
