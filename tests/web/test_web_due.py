"""What a client is due to buy again, on its page and for programs: its own dates, counts, and no name of another."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sites import Site, text_of

from ocular import Interactions, OCuLaR
from ocular.web.tables import Assignment

OpenSite = Callable[..., Site]
CLIENTS, PRODUCTS = ["Acme <b>&", "Bolt's secret", "Corda", "Dory"], ["<i>nut</i>", "oil", "sail"]


def save_model(folder: Path, *, dated: bool) -> Path:
    """Three clients buy nuts every ten days, the first of them last 14 days before the newest purchase."""
    rows = [(user, 0, day) for user in range(3) for day in (0, 10, 20, 30 + user)] + [(0, 1, 3), (3, 2, 44)]
    users, items, days = np.array(rows).T
    data = Interactions.from_pairs(
        users, items, user_labels=CLIENTS, item_labels=PRODUCTS, price=np.full(14, 2.5), quantity=np.full(14, 12.0),
        time=np.datetime64("2024-01-01") + days if dated else None, currency="€",
    )  # fmt: skip
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=100).fit(data).save(folder / "first")
    return folder


@pytest.fixture
def dated(open_site: OpenSite, tmp_path: Path) -> Site:
    return with_clients(open_site(models=save_model(tmp_path, dated=True)))


def with_clients(site: Site) -> Site:
    """Ana has the first client and the last, Sue the second."""
    owners = {CLIENTS[0]: "ana", CLIENTS[1]: "sue", CLIENTS[3]: "ana"}
    with site.database.writing() as transaction:
        for client, seller in owners.items():
            transaction.add(Assignment(client=client, user_id=site.visitor(seller).user.id))
    return site


def test_the_page_of_a_client_has_a_section(dated: Site) -> None:
    page = dated.browser("ana").get("/client", params={"name": CLIENTS[0]})
    assert "<h2>Due again</h2>" in page.text
    assert "As of 14 Feb 2024, the newest purchase in the data" in page.text
    section = text_of(page).partition("<h2>Due again</h2>")[2].partition("</section>")[0]
    words = " ".join(re.sub(r"<(?!i>nut|/i>)[^>]*>", " ", section).split())
    assert words.startswith("<i>nut</i> 4 days overdue · every 10 days, last 31 Jan 2024 · usually 12 × €2.50 As of")
    assert "<i>nut" not in page.text
    assert "secret" not in text_of(page)


def test_there_is_no_section_where_nothing_is_due(dated: Site) -> None:
    assert "Due again" not in dated.browser("ana").get("/client", params={"name": CLIENTS[3]}).text


def test_there_is_no_section_without_dates(open_site: OpenSite, tmp_path: Path) -> None:
    site = with_clients(open_site(models=save_model(tmp_path, dated=False)))
    assert "Due again" not in site.browser("ana").get("/client", params={"name": CLIENTS[0]}).text
    answer = site.program("ana").get("/api/v1/due", params={"client": CLIENTS[0]})
    assert answer.json() == {"as_of": None, "currency": "€", "products": []}


def test_programs_get_the_same(dated: Site) -> None:
    program = dated.program("ana")
    answer = program.get("/api/v1/due", params={"client": CLIENTS[0]}).json()
    assert answer == {
        "as_of": "2024-02-14",
        "currency": "€",
        "products": [
            {
                "product": PRODUCTS[0],
                "product_name": PRODUCTS[0],
                "last_purchase": "2024-01-31",
                "interval": 10.0,
                "days_since": 14,
                "overdue": 4.0,
                "purchases": 4,
                "clients": 3,
                "usual_quantity": 12.0,
                "usual_price": 2.5,
                "state": "4 days overdue",
                "sentence": "Bought 4 times, usually every 10 days; last on 31 Jan 2024, 14 days ago: 4 days overdue. "
                "3 clients reorder it regularly, typically every 10 days.",
            }
        ],
    }
    assert program.get("/api/v1/due", params={"client": CLIENTS[3]}).json()["products"] == []
    assert program.get("/api/v1/due", params={"client": CLIENTS[1]}).status_code == 404
    assert program.get("/api/v1/due", params={"client": CLIENTS[0], "n": 0}).status_code == 422
