"""The visit brief: one sheet that a seller takes along, with or without the names of other clients."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import OpenSite
from sites import Site, text_of

from ocular import Interactions, OCuLaR
from ocular.explain.price import money
from ocular.web.settings import Names
from ocular.web.tables import Assignment


@pytest.fixture(scope="module")
def with_peers(companies: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peers")
    OCuLaR(6, 0.3, tol=1e-4, max_iter=500, random_state=0, peers=1.0, peer_regularization=2.0).fit(companies).save(
        folder / "first"
    )
    return folder


def sheet_of(page: str) -> str:
    return page.partition('<article class="sheet">')[2].partition("</article>")[0]


def test_it_has_three_offers_with_reasons_prices_and_room_for_notes(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    assert 'href="/client/brief?name=' in browser.get("/client", params={"name": client}).text
    sheet = sheet_of(text_of(browser.get("/client/brief", params={"name": client})))
    best = site.services.served.advisor.recommend(client, 3)
    assert re.findall(r'<h3 class="one-line"><bdi>(.*?)</bdi>', sheet) == [str(each.product) for each in best]
    for each in best:
        part = sheet.partition(f"<bdi>{each.product}</bdi>")[2]
        assert each.value is None or money(each.value) in part
        assert each.price is None or f"{money(each.price.low)} – {money(each.price.high)}" in part
    assert any(each.value and each.price for each in best)
    answer = site.program("ana").get("/api/v1/recommendations", params={"client": client, "n": 3}).json()
    assert all(each["strongest_reason"] in sheet for each in answer)
    assert "<h2>Notes</h2>" in sheet
    assert "<h2>Owned most</h2>" in sheet
    assert "Ana Example" in sheet


def test_a_closed_offer_makes_room_for_the_next(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    products = [str(each.product) for each in site.services.served.advisor.recommend(client, 4)]
    browser.submit("/feedback", client=client, product=products[0], status="not a fit")
    sheet = sheet_of(text_of(browser.get("/client/brief", params={"name": client})))
    assert re.findall(r'<h3 class="one-line"><bdi>(.*?)</bdi>', sheet) == products[1:]


def test_names_of_other_clients_can_be_left_out(open_site: OpenSite, with_peers: Path) -> None:
    site = open_site(models=with_peers, names=Names.EVERYBODY)
    browser, others = site.browser("ana"), {str(site.interactions.user_name(row)) for row in range(60)}
    named = {"1": 0, "0": 0}
    for client in site.clients("ana"):
        for names in named:
            sheet = sheet_of(text_of(browser.get("/client/brief", params={"name": client, "names": names})))
            named[names] += sum(other in sheet for other in others - {client})
    assert named["1"] > 10
    assert named["0"] == 0


def test_hidden_names_stay_hidden_on_paper(open_site: OpenSite, with_peers: Path) -> None:
    site = open_site(models=with_peers)
    visitor = site.visitor("ana")
    readable = site.services.visibility.readable_names(site.services.served, visitor)
    hidden = [str(site.interactions.user_name(row)) for row in np.flatnonzero(~readable)]
    assert hidden
    for client in site.clients("ana"):
        page = text_of(site.browser("ana").get("/client/brief", params={"name": client}))
        assert not [name for name in hidden if name in page]


def test_a_client_of_somebody_else_has_no_brief(site: Site) -> None:
    foreign, unknown = site.clients("sue")[0], "nobody at all"
    answers = [site.browser("ana").get("/client/brief", params={"name": name}) for name in (foreign, unknown)]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert foreign not in text_of(answers[0])


def test_it_says_what_the_data_lacks(open_site: OpenSite, tmp_path: Path) -> None:
    data = Interactions.from_pairs(
        [1, 1, 2], [0, 1, 0], (3, 2), user_labels=["New", "Acme", "Bolt"], item_labels=["nut", "bolt"]
    )
    OCuLaR(1, 0.1, random_state=0, tol=1e-3, max_iter=200).fit(data).save(tmp_path / "models" / "first")
    site = open_site(models=tmp_path / "models")
    with site.database.writing() as transaction:
        transaction.add_all(Assignment(client=c, user_id=site.visitor("ana").user.id) for c in ("New", "Acme"))
    browser = site.browser("ana")
    new = sheet_of(text_of(browser.get("/client/brief", params={"name": "New"})))
    assert "No purchase dates in the data." in new
    assert "No purchases yet." in new
    assert "No recommendations left." in sheet_of(text_of(browser.get("/client/brief", params={"name": "Acme"})))


def test_it_is_audited(site: Site) -> None:
    client = site.clients("ana")[0]
    site.browser("ana").get("/client/brief", params={"name": client})
    assert [entry.subject for entry in site.audited("visit brief viewed")] == [client]
