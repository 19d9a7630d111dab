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
            assert row["typical_price"] == pytest.approx(single["typical_price"])
            assert row["typical_quantity"] == pytest.approx(single["typical_quantity"])


def test_all_honours_filters(place: Path, families: dict[str, str]) -> None:
    family = next(iter(families.values()))
    out = shown("recommend", place / "model", "--all", "-n", 5, "-o", "-", "--only", f"family={family}")
    assert {families[row["product"]] for row in csv.DictReader(io.StringIO(out))} == {family}


NAMED = """id,company,sku,title,amount,units
1,Acme,b,Bolt,10,2
1,Acme,n,Nut,3,2
2,Brill,b,Bolt,11,2
2,Brill,n,Nut,3,2
2,Brill,s,Saw,40,3
3,Corda,r,Rope,7,1
3,Corda,l,Sail,300,1
4,Dory,r,Rope,8,1
4,Dory,l,Sail,290,1
""" + "".join(f"{c},Firm {c},b,Bolt,10,2\n{c},Firm {c},n,Nut,3,2\n{c},Firm {c},s,Saw,40,3\n" for c in range(5, 10))


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of clients and products with a name beside the key."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "sales.csv").write_text(NAMED)
    columns = ("--client", "id", "--client-name", "company", "--product", "sku", "--product-name", "title")
    amounts = ("--price", "amount", "--quantity", "units", "--coclusters", 2, "--regularization", 0.1)
    shown("fit", folder / "sales.csv", *columns, *amounts, "--no-calibration", "-o", folder / "model")
    return folder


def test_rows_have_keys_and_names(named: Path) -> None:
    row = recommended(named, "--client", "1", "-n", 1)[0]
    assert (str(row["client"]), row["client_name"], row["product"], row["product_name"]) == ("1", "Acme", "s", "Saw")
    header = shown("recommend", named / "model", "--client", "1", "--format", "csv").splitlines()[0]
    assert header.startswith("client,client_name,rank,product,product_name,")
    every = list(csv.DictReader(io.StringIO(shown("recommend", named / "model", "--all", "-n", 1, "-o", "-"))))
    first = [every[0][name] for name in ("client", "client_name", "product", "product_name")]
    assert first == ["1", "Acme", "s", "Saw"]


def test_names_that_are_the_keys_are_not_repeated(place: Path, client: str) -> None:
    assert not {"client_name", "product_name"} & recommended(place, "--client", client, "-n", 1)[0].keys()


def test_the_numbers_of_the_table_multiply_to_the_value(named: Path) -> None:
    lines = shown("recommend", named / "model", "--client", "1", "-n", 1).splitlines()
    row = dict(zip(lines[0].split(), lines[2].split(), strict=True))
    assert not {"price", "price_low", "price_high", "hit_rate"} & row.keys()
    chance, price, quantity, value = (
        float(row[name]) for name in ("chance", "typical_price", "typical_quantity", "value")
    )
    assert value == pytest.approx(chance * price * quantity, rel=0.01)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--product", "zzz"), "no product named 'zzz' among 30"),
        (
            ("--product", "zzz", "--client", "x"),
            "got --client and --product; leave one out",
        ),
        (("--client", "CLIENT", "-o", "x.csv"), "expected --output only with --all, got it with --client"),
        (("--all", "-o", "x.json"), "got 'x.json'; try x.jsonl"),
        ((), "expected --client NAME, --product NAME, --new, --new-product, or --all together with --output"),
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
