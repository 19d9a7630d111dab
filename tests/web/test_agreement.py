"""One number everywhere: chance, expected value and reasons of a client's recommendations, wherever they are read."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command import run
from conftest import OpenSite
from sites import Site, text_of

from ocular import Interactions, OCuLaR
from ocular.evaluation.calibration import calibrate
from ocular.explain.price import money
from ocular.web.templating import percent

API = "/api/v1"
N = 5  # as many as a client's page shows


@pytest.fixture(scope="module", params=[True, False], ids=["calibrated", "uncalibrated"])
def models(request: pytest.FixtureRequest, companies: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agreement")
    weights = {"links": 1.0, "peers": 1.0, "link_regularization": 2.0, "peer_regularization": 2.0}
    model = OCuLaR(6, 0.3, tol=1e-4, max_iter=500, random_state=0, **weights).fit(companies)
    if request.param:
        calibrate(model)
    model.save(folder / "first")
    return folder


@pytest.fixture
def site(open_site: OpenSite, models: Path) -> Site:
    return open_site(models=models)


def by_product(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(row["product"]): row for row in rows}


def printed(part: str) -> tuple[str, str]:
    """The chance and the expected value as a page prints them."""
    chance = re.search(r'class="chance"[^>]*><b>(.*?)</b>', part)
    value = part.partition("<dt>Expected value</dt><dd>")[2]
    assert chance is not None
    return chance[1], re.split(" <span|</dd>", value)[0]


def commands(models: Path, client: str) -> dict[str, dict[str, dict[str, Any]]]:
    """What the command line says, by kind of output and product."""
    asked = ("recommend", models / "first", "--client", client, "-n", N)
    as_json = json.loads(run(*asked, "--format", "json").stdout)
    as_csv = list(csv.DictReader(io.StringIO(run(*asked, "--format", "csv").stdout)))
    batch = csv.DictReader(io.StringIO(run("recommend", models / "first", "--all", "-n", N, "-o", "-").stdout))
    return {
        "json": by_product(as_json),
        "csv": by_product(as_csv),
        "all": by_product([row for row in batch if row["client"] == client]),
    }


def test_chance_and_expected_value_are_the_same_everywhere(site: Site, models: Path) -> None:
    client, browser, program = site.clients("ana")[0], site.browser("ana"), site.program("ana")
    told = commands(models, client)
    api = by_product(program.get(f"{API}/recommendations", params={"client": client, "n": N}).json())
    cards = text_of(browser.get("/client", params={"name": client})).split('<article class="card proposal">')[1:]
    brief = text_of(browser.get("/client/brief", params={"name": client}))
    assert len(cards) == len(api) == N
    assert all(list(rows) == list(api) for rows in told.values())  # the same products in the same order
    with_value = 0
    for place, (card, (product, row)) in enumerate(zip(cards, api.items(), strict=True)):
        pair = {"client": client, "product": product}
        page = text_of(browser.get("/recommendation", params=pair))
        alone = program.get(f"{API}/explanation", params=pair).json()
        campaign = csv.DictReader(
            io.StringIO(browser.get("/product/clients.csv", params={"name": product}).text.removeprefix("\ufeff"))
        )
        (exported,) = (line for line in campaign if line["client"] == client)
        assert float(exported["chance"]) == pytest.approx(row["chance"], abs=5e-5)
        assert (exported["value"] == "") == (row["value"] is None)
        assert row["value"] is None or float(exported["value"]) == pytest.approx(row["value"], abs=0.01)
        assert exported["reason"] == row["strongest_reason"]
        expected = percent(row["chance"]), "–" if row["value"] is None else money(row["value"], row["currency"])
        assert printed(card) == printed(page) == expected
        if place < 3:
            assert printed(brief.partition(f"<bdi>{product}</bdi>")[2]) == expected
        assert (alone["chance"], alone["value"]) == (row["chance"], row["value"])
        for rows in told.values():
            assert float(rows[product]["chance"]) == pytest.approx(row["chance"], abs=5e-5)
            value = rows[product]["value"]
            assert (value in (None, "")) == (row["value"] is None)
            assert row["value"] is None or float(value) == pytest.approx(row["value"], abs=0.01)
        with_value += row["value"] is not None
    assert with_value > 2


def test_reasons_are_the_same_everywhere(site: Site, models: Path) -> None:
    client, browser, program = site.clients("ana")[0], site.browser("ana"), site.program("ana")
    api = by_product(program.get(f"{API}/recommendations", params={"client": client, "n": N}).json())
    asked = ("--client", client, "-n", N, "--format", "json")
    command = by_product(json.loads(run("explain", models / "first", *asked).stdout))
    rationales = by_product(json.loads(run("recommend", models / "first", *asked, "--explain").stdout))
    batch = commands(models, client)["all"]
    client_page = text_of(browser.get("/client", params={"name": client}))
    for product, row in api.items():
        page = text_of(browser.get("/recommendation", params={"client": client, "product": product}))
        shown = [(reason["kind"], reason["bought_by"], reason["group"]) for reason in row["reasons"]]
        assert shown == [(r["kind"], r["bought_by"], r["group"]) for r in command[product]["shown_reasons"]]
        assert [round(r["share"], 6) for r in row["reasons"]] == [
            round(r["share"], 6) for r in command[product]["shown_reasons"]
        ]
        assert row["strongest_reason"] in client_page
        assert batch[product]["kind"] == row["kind"]
        assert rationales[product]["reason"] == command[product]["text"]
        for reason in row["reasons"]:
            assert f"<p>{reason['sentence']}</p>" in page
            assert f"Share of score {percent(reason['share'])}" in page
