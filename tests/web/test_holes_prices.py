"""What hidden clients paid is not told: fewer than five payers make no price and no value, and prices are rounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command import run
from sites import Site

from ocular import Interactions, OCuLaR
from ocular.web.tables import Assignment

OpenSite = Callable[..., Site]
PAID = [4321.17, 5432.19, 6543.31, 7654.47, 8765.53]  # no page may show one of them


def priced(folder: Path, n_payers: int) -> Path:
    """Six clients have a nut and a bolt, some of whom paid a known price and ordered 7; Ana's client has a nut only."""
    clients = ["Ana's", *(f"c{n}" for n in range(6))]
    paid = [np.nan] * 7 + [PAID[n] if n < n_payers else np.nan for n in range(6)]
    data = Interactions.from_pairs(
        [*range(7), *range(1, 7)], [0] * 7 + [1] * 6, user_labels=clients, item_labels=["nut", "bolt"], price=paid,
        quantity=[np.nan] * 7 + [7 if n < n_payers else np.nan for n in range(6)], currency="€",
    )  # fmt: skip
    OCuLaR(1, 0.1, random_state=0, tol=1e-3, max_iter=200).fit(data).save(folder / "models" / "first")
    return folder / "models"


def everything_told(site: Site, models: Path) -> list[str]:
    """Pages, API, report and command line about Ana's client and the bolt."""
    with site.database.writing() as transaction:
        transaction.add(Assignment(client="Ana's", user_id=site.visitor("ana").user.id))
    ana, program, manager = site.browser("ana"), site.program("ana"), site.browser("max")
    pair, client = {"client": "Ana's", "product": "bolt"}, {"client": "Ana's"}
    answers = [
        *(ana.get(path) for path in ("/", "/accounts", "/calls", "/products", "/patterns", "/whitespace")),
        ana.get("/client", params={"name": "Ana's"}),
        ana.get("/recommendation", params=pair),
        ana.get("/product", params={"name": "bolt"}),
        ana.get("/product/clients.csv", params={"name": "bolt"}),
        manager.get("/performance"),
        program.get("/api/v1/clients"),
        program.get("/api/v1/recommendations", params=client),
        program.get("/api/v1/explanation", params=pair),
    ]
    assert {answer.status_code for answer in answers} == {200}
    table = models.parent / "all.csv"
    assert run("recommend", models / "first", "--all", "-n", 1, "--output", table).returncode == 0
    lines = [
        run("recommend", models / "first", "--client", "Ana's", "-n", 1, "--format", "json").stdout,
        table.read_text("utf-8"),
        run("explain", models / "first", "--client", "Ana's", "--product", "bolt").stdout,
    ]
    assert all("bolt" in line for line in lines)
    return [answer.text for answer in answers] + lines


def spellings(price: float) -> list[str]:
    return [f"{price:.2f}", f"{price:.1f}", f"{price:,.0f}", f"{price:,.2f}"]  # four digits alone are in any secret


@pytest.mark.parametrize("n_payers", [1, 3, 4])
def test_fewer_than_five_payers_make_no_price(open_site: OpenSite, tmp_path: Path, n_payers: int) -> None:
    models = priced(tmp_path, n_payers)
    site = open_site(models=models)
    for told in everything_told(site, models):
        assert not [price for price in PAID for text in spellings(price) if text in told]
    answer = site.program("ana").get("/api/v1/explanation", params={"client": "Ana's", "product": "bolt"}).json()
    names = ("price", "price_low", "price_high", "price_text", "typical_price", "value")
    assert [answer[name] for name in names] == [None] * 6
    assert answer["typical_quantity"] == 1
    page = site.browser("ana").get("/recommendation", params={"client": "Ana's", "product": "bolt"}).text
    assert "Not enough price data" in page
    (row,) = json.loads(run("recommend", models / "first", "--client", "Ana's", "-n", 1, "--format", "json").stdout)
    assert (row["price"], row["typical_price"], row["value"]) == (None, None, None)


def test_five_payers_make_a_rounded_price(open_site: OpenSite, tmp_path: Path) -> None:
    models = priced(tmp_path, 5)
    site = open_site(models=models)
    for told in everything_told(site, models):
        assert not [price for price in PAID for text in spellings(price) if text in told]
    answer = site.program("ana").get("/api/v1/explanation", params={"client": "Ana's", "product": "bolt"}).json()
    assert answer["typical_price"] == 6540
    assert (answer["price_low"], answer["price_high"]) == (4320, 8770)
    assert answer["value"] == pytest.approx(answer["chance"] * 6540 * 7, rel=1e-3)
