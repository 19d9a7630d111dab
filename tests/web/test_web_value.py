"""The expected value is one number: in the library, lists, pages, the API and the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command import run
from sites import Site, rows_of, text_of

from ocular import Interactions, OCuLaR, load
from ocular.explain.price import money
from ocular.synthetic.market import b2b
from ocular.web.tables import Assignment

OpenSite = Callable[..., Site]
API = "/api/v1"


@pytest.fixture(scope="module")
def uncalibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose chance to buy is its probability."""
    folder = tmp_path_factory.mktemp("uncalibrated")
    market = b2b(60, 30, random_state=0).interactions
    OCuLaR(6, 0.3, tol=1e-4, max_iter=500, random_state=0).fit(market).save(folder / "first")
    return folder


@pytest.mark.parametrize("calibrated", [True, False], ids=["calibrated", "uncalibrated"])
def test_library_list_pages_and_programs_print_the_same_value(
    open_site: OpenSite, first_model: Path, uncalibrated: Path, calibrated: bool
) -> None:
    models = first_model if calibrated else uncalibrated
    site, model = open_site(models=models), load(models / "first")
    assert (model.calibration_ is not None) == calibrated
    currency = model.interactions_.currency
    browser, program, compared = site.browser("ana"), site.program("ana"), 0
    listed = {row[0]: row for row in rows_of(browser.get("/accounts").text)[1:]}
    clients = {entry["client"]: entry for entry in program.get(f"{API}/clients").json()["clients"]}
    for client, row in listed.items():
        product = row[1]
        value = site.services.served.advisor.explain(client, product).value
        if value is None:
            continue
        assert row[3] == money(value, currency)
        assert clients[client]["value"] == pytest.approx(value, abs=0.005)
        pair = {"client": client, "product": product}
        assert program.get(f"{API}/explanation", params=pair).json()["value"] == pytest.approx(value, abs=0.005)
        card = text_of(browser.get("/client", params={"name": client})).partition(f"<bdi>{product}</bdi></a>")[2]
        for page in (card, text_of(browser.get("/recommendation", params=pair))):
            printed = page.partition("<dt>Expected value</dt><dd>")[2]
            assert re.split(" <span|</dd>", printed)[0] == money(value, currency)
        compared += 1
    assert compared > 5
    command = run("recommend", models / "first", "--client", client, "-n", 5, "--format", "json")
    advised = {each.product: each.value for each in site.services.served.advisor.recommend(client, 5)}
    assert {row["product"]: row["value"] for row in json.loads(command.stdout)} == pytest.approx(advised, abs=0.005)


def test_an_order_of_several_units_is_worth_several_prices(open_site: OpenSite, tmp_path: Path) -> None:
    """Every buyer of bolts pays 2 for a unit and orders 10 at once."""
    clients = [f"c{n}" for n in range(12)]
    rows = [(c, "nut", 1.0, 1.0) for c in clients] + [(c, "bolt", 2.0, 10.0) for c in clients[:-1]]
    interactions = Interactions.from_pairs(
        [clients.index(c) for c, _, _, _ in rows], [["nut", "bolt"].index(p) for _, p, _, _ in rows],
        user_labels=clients, item_labels=["nut", "bolt"],
        price=[price for _, _, price, _ in rows], quantity=[quantity for _, _, _, quantity in rows],
    )  # fmt: skip
    OCuLaR(1, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(interactions).save(tmp_path / "models" / "first")
    site = open_site(models=tmp_path / "models")
    with site.database.writing() as transaction:
        transaction.add(Assignment(client="c11", user_id=site.visitor("ana").user.id))
    answer = site.program("ana").get(f"{API}/explanation", params={"client": "c11", "product": "bolt"}).json()
    assert (answer["typical_price"], answer["typical_quantity"]) == (2.0, 10.0)
    assert answer["value"] == pytest.approx(answer["confidence"] * 20, abs=0.005)
