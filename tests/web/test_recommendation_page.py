"""The page of one recommendation: one probability, a price benchmark, kinds of evidence told apart, and what if."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import OpenSite
from sites import Browser, Site, text_of

from ocular import Interactions, OCuLaR
from ocular.web.tables import Assignment
from ocular.web.templating import percent


def page_of(browser: Browser, client: str, product: str, **more: str) -> str:
    answer = browser.get("/recommendation", params={"client": client, "product": product} | more)
    assert answer.status_code == 200
    return text_of(answer)


@pytest.fixture(scope="module")
def all_kinds(companies: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all")
    weights = {"links": 1.0, "peers": 1.0, "link_regularization": 2.0, "peer_regularization": 2.0, "appeal": 1.0}
    OCuLaR(6, 0.3, tol=1e-4, max_iter=500, random_state=0, **weights).fit(companies).save(folder / "first")
    return folder


# ------------------------------------------------------------------------------------------------ numbers


def test_there_is_one_probability_and_the_score_is_in_a_tooltip(site: Site) -> None:
    client = site.clients("ana")[0]
    product = site.open_product(client)
    expected = site.services.served.advisor.explain(client, product)
    page = page_of(site.browser("ana"), client, product)
    assert f'title="Model score {expected.confidence:.2f}"><b>{percent(expected.chance)}</b>' in page
    assert page.count('class="chance"') == 1
    assert f"In a back-test, {percent(expected.observed.rate)} of similar recommendations were bought." in page


def test_a_model_without_a_back_test_says_so(open_site: OpenSite, all_kinds: Path) -> None:
    site = open_site(models=all_kinds)
    client = site.clients("ana")[0]
    page = page_of(site.browser("ana"), client, site.open_product(client))
    assert "The chance is the model's own score: this model has no back-test yet." in page


def test_what_is_owned_has_no_chance_and_cannot_be_pursued(site: Site) -> None:
    client = site.clients("ana")[0]
    owned = str(site.interactions.item_labels[site.interactions.by_user[site.interactions.user_rows[client]][0]])
    page = page_of(site.browser("ana"), client, owned)
    assert "Already owned" in page
    assert "Chance to buy" not in page
    assert 'value="pursuing"' not in page


# ------------------------------------------------------------------------------------------------ evidence


def test_kinds_of_evidence_are_parts_of_one_bar(open_site: OpenSite, all_kinds: Path) -> None:
    site = open_site(models=all_kinds)
    root, served, seen = site.browser("root"), site.services.served, set()
    for client in map(str, site.interactions.user_labels[:20]):
        product = site.open_product(client)
        page = page_of(root, client, product)
        figure = page.partition('<figure class="shares">')[2].partition("</figure>")[0]
        widths = [float(width) for width in re.findall(r'<rect class="kind-\w+" x="[\d.]+" width="([\d.]+)"', figure)]
        assert sum(widths) == pytest.approx(100, abs=4)  # small gaps are left between them
        reasons = served.advisor.explain(client, product).explanation.summary().shown_reasons
        kinds = [kind for kind in re.findall(r'class="kind-(\w+)" x=', figure) if kind not in {"minor", "popularity"}]
        assert set(kinds) == {reason.kind for reason in reasons}
        assert re.findall(r'class="card reason edge-(\w+)"', page) == [reason.kind for reason in reasons]
        assert page.count("Main reason") == 1
        seen |= set(kinds)
    assert len(seen) >= 3


def test_the_matrix_says_how_many_of_whom_it_shows(site: Site) -> None:
    client = site.clients("ana")[0]
    product = site.open_product(client)
    reason = site.services.served.advisor.explain(client, product).explanation.summary().shown_reasons[0]
    page = page_of(site.browser("ana"), client, product)
    shown = re.search(r"Showing (\d+) of (\d+) buyers?(?: and (\d+) of (\d+) non-buyers?)?", page)
    assert shown is not None
    n_buyers, buyers, n_others, others = (int(number or 0) for number in shown.groups())
    assert (buyers, others) == (len(reason.buyers), reason.group - len(reason.buyers))
    rows = page.partition("<tbody>")[2].partition("</tbody>")[0].count("<tr>")
    assert rows == n_buyers + n_others


# ------------------------------------------------------------------------------------------------ prices


PRICES = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]


def priced(open_site: OpenSite, folder: Path, n_payers: int) -> Browser:
    """Six clients have a nut and a bolt, of whom some paid a known price; Ana's client has a nut only."""
    clients = ["Ana's", *(f"c{n}" for n in range(6))]
    users = [*range(7), *range(1, 7), 1, 2, 3, 4, 5]
    items = [0] * 7 + [1] * 6 + [2] * 5
    paid = [1.0] * 7 + [price if n < n_payers else np.nan for n, price in enumerate(PRICES)] + [5.0] * 5
    data = Interactions.from_pairs(
        users, items, user_labels=clients, item_labels=["nut", "bolt", "pin"], price=paid,
        item_attributes={"family": np.array(["nuts", "bolts", "bolts"], dtype=object)}, currency="€",
    )  # fmt: skip
    OCuLaR(1, 0.1, random_state=0, tol=1e-3, max_iter=200).fit(data).save(folder / "models" / "first")
    site = open_site(models=folder / "models")
    with site.database.writing() as transaction:
        transaction.add(Assignment(client="Ana's", user_id=site.visitor("ana").user.id))
    return site.browser("ana")


def benchmark(page: str) -> str:
    return page.partition("<h2>Price benchmark</h2>")[2].partition("</section>")[0]


def test_prices_are_a_strip_with_median_and_range(open_site: OpenSite, tmp_path: Path) -> None:
    part = benchmark(page_of(priced(open_site, tmp_path, 6), "Ana's", "bolt"))
    # weighted by how similar they are
    assert "Similar clients paid a median of <b>€30.00</b>; 80% paid between €10.00 and €50.00." in part
    assert '<figure class="strip">' in part
    assert part.count('<line class="mark"') == 3
    assert "6 purchases by 6 clients" in part


def test_with_fewer_than_five_payers_it_says_what_is_missing(open_site: OpenSite, tmp_path: Path) -> None:
    part = benchmark(page_of(priced(open_site, tmp_path, 4), "Ana's", "bolt"))
    assert "Not enough price data. A benchmark needs prices paid by at least 5 other clients." in part
    assert "<figure" not in part


def test_the_family_has_something_cheaper(open_site: OpenSite, tmp_path: Path) -> None:
    browser = priced(open_site, tmp_path, 6)
    part = benchmark(page_of(browser, "Ana's", "bolt"))
    assert re.findall(r"<bdi>(.*?)</bdi></a>", part.partition("Cheaper in the same family")[2]) == ["pin"]
    assert "€5.00 typical price" in part
    assert "Cheaper in the same family" not in page_of(browser, "Ana's", "pin")


# ------------------------------------------------------------------------------------------------ what if, status


def test_what_if_says_what_is_assumed_and_what_it_was(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    product, other = site.open_product(client), site.open_product(client, 1)
    actual = site.services.served.advisor.explain(client, product)
    page = page_of(browser, client, product, also=other)
    assert f"Assuming they also own <bdi>{other}</bdi>." in page
    assert f"was {percent(actual.chance)}" in page
    assert "Assuming" not in page_of(browser, client, product)


def test_history_lists_what_was_said(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    product = site.open_product(client)
    browser.submit("/feedback", client=client, product=product, status="pursuing", note="call Mr Ito")
    browser.submit("/feedback", client=client, product=product, status="lost", reason="Too expensive")
    history = page_of(browser, client, product).partition('<ol class="history">')[2].partition("</ol>")[0]
    entries = [" ".join(re.sub(r"<[^>]+>", " ", entry).split()) for entry in history.split("<li>")[1:]]
    assert entries[0].startswith("Lost")
    assert "Too expensive" in entries[0]
    assert entries[1].startswith("Pursuing")
    assert "call Mr Ito" in entries[1]
    assert all("Ana Example" in entry for entry in entries)
