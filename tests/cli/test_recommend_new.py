"""Clients and products that the model has not seen, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import run

import ocular

COLUMNS = ("--client", "client", "--product", "product", "--price", "price", "--quantity", "quantity")
ATTRIBUTES = ("--product-attribute", "family", "--client-attribute", "industry", "--client-attribute", "size")


def shown(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("market")
    shown("synth", "--clients", 200, "--products", 40, "--seed", 4, "-o", place)
    options = ("--coclusters", 6, "--regularization", 1, "--links", 1, "--peers", 0.5)
    shown("fit", place / "purchases.parquet", *COLUMNS, *ATTRIBUTES, *options, "-o", place / "model")
    return place / "model"


@pytest.fixture(scope="module")
def advisor(model: Path) -> ocular.Advisor:
    return ocular.Advisor.load(model)


def test_a_prospect_by_attributes(model: Path, advisor: ocular.Advisor) -> None:
    industry = str(advisor.model.interactions_.user_attributes["industry"][0])
    options = ("--new", "--attribute", f"industry={industry}", "--attribute", "size=Large", "-n", 3)
    rows = json.loads(shown("recommend", model, *options, "--format", "json", "--explain"))
    found = advisor.recommend_new(attributes={"industry": industry, "size": "Large"}, n=3)
    assert [row["product"] for row in rows] == [each.product for each in found]
    assert [row["reason"] for row in rows] == [each.text() for each in found]
    assert {row["client"] for row in rows} == {"the client"}
    assert all(row["value"] > 0 for row in rows)
    table = shown("recommend", model, *options, "--explain")
    assert "Most alike by attributes: " in table
    assert found[0].text() in table
    hidden = shown("recommend", model, *options, "--explain", "--hide-clients")
    assert not any(client in hidden for client in map(str, advisor.model.interactions_.user_labels))


def test_a_new_client_by_purchases(model: Path, advisor: ocular.Advisor) -> None:
    products = [str(label) for label in advisor.model.interactions_.item_labels[:2]]
    expected = [each.product for each in advisor.recommend_new(products, 4)]
    for has in (("--has", products[0], "--has", products[1]), ("--has", ",".join(products))):
        rows = json.loads(shown("recommend", model, "--new", *has, "-n", 4, "--format", "json"))
        assert [row["product"] for row in rows] == expected


def test_clients_for_a_new_product(model: Path, advisor: ocular.Advisor) -> None:
    data = advisor.model.interactions_
    family, buyer = str(data.item_attributes["family"][0]), str(data.user_labels[3])
    options = ("--new-product", "--attribute", f"family={family}", "--buyer", buyer, "-n", 5)
    rows = json.loads(shown("recommend", model, *options, "--format", "json"))
    found = advisor.clients_for_new({"family": family}, [buyer], 5)
    assert [row["client"] for row in rows] == [each.client for each in found]
    assert buyer not in {row["client"] for row in rows}
    assert all(row["value"] is None and row["reason"] for row in rows)
    assert "typical_price" not in shown("recommend", model, *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--new"], "expected --has PRODUCT or --attribute NAME=VALUE together with --new, got neither"),
        (["--new-product"], "expected --attribute NAME=VALUE or --buyer CLIENT together with --new-product"),
        (["--new", "--new-product"], "expected one of --client, --product, --all, --new and --new-product, got --new"),
        (["--client", "x", "--has", "y"], "expected --new together with --has, got --has alone; add --new"),
        (["--all", "-o", "-", "--buyer", "y"], "expected --new-product together with --buyer"),
        (["--client", "x", "--attribute", "a=b"], "expected --new or --new-product together with --attribute"),
        (
            ["--new", "--attribute", "Airline"],
            "expected --attribute NAME=VALUE, such as industry=Airline, got 'Airline'",
        ),
        (
            ["--new", "--attribute", "color=red"],
            "no client attribute named 'color' that the model uses; it has industry",
        ),
        (
            ["--new", "--attribute", "industry=Xyz"],
            "expected attributes that clients have (industry, size) or purchases",
        ),
        (["--new", "--has", "no such product"], "no product named"),
        (["--new-product", "--buyer", "nobody at all"], "no client named"),
    ],
)
def test_bad_input(model: Path, options: list[str], message: str) -> None:
    done = run("recommend", model, *options)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
