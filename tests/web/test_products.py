"""Products and campaigns: who is listed, with which numbers, and what becomes of those who are chosen."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import numpy as np
import pytest
from command import run
from sites import Browser, Site, label, rows_of, text_of
from sqlalchemy import select, update

from ocular import Interactions, OCuLaR
from ocular.explain.price import money
from ocular.feedback import Status
from ocular.web import campaign
from ocular.web.feedback_seal import ShownRecommendation, make_seal
from ocular.web.tables import Assignment, Feedback
from ocular.web.templating import percent

OpenSite = Callable[..., Site]
API = "/api/v1"


def a_product(site: Site, owner: str = "ana", place: int = 0) -> str:
    """A product that some of the person's clients own and others do not."""
    data, mine = site.interactions, [site.interactions.user_rows[client] for client in site.clients(owner)]
    owned = np.bincount(data.by_user.take(np.array(mine)).indices, minlength=data.n_items)
    order = np.argsort(-owned, kind="stable")
    return str(data.item_labels[order[place]])


def listed(page: httpx2.Response) -> list[str]:
    """The clients of a campaign's table."""
    table = page.text.partition('<table class="list campaign">')[2].partition("</table>")[0]
    return re.findall(r'<th scope="row"><a[^>]*><bdi>(.*?)</bdi>', html.unescape(table))


def choices(page: httpx2.Response) -> list[str]:
    return re.findall(r'name="chosen" value="([^"]*)"', page.text)


def not_owning(site: Site, owner: str, product: str) -> set[str]:
    data = site.interactions
    owners = {label(data, user) for user in data.by_item[data.item_rows[product]].tolist()}
    return {*site.clients(owner)} - owners


def product_page(browser: Browser, product: str, **params: Any) -> httpx2.Response:
    page = browser.get("/product", params={"name": product} | params)
    assert page.status_code == 200, page.text
    return page


def test_every_client_without_the_product_is_ranked_and_nobody_elses(site: Site) -> None:
    product = a_product(site)
    names = listed(product_page(site.browser("ana"), product))
    assert set(names) == not_owning(site, "ana", product)
    assert 0 < len(names) < len(site.clients("ana"))
    advisor = site.services.served.advisor
    scores = [advisor.explain(name, product).confidence for name in names]
    assert scores == sorted(scores, reverse=True)


def test_pages_of_a_campaign_hold_every_client_once(site: Site) -> None:
    product, root = a_product(site), site.browser("root")
    pages = [listed(product_page(root, product, page=number)) for number in (1, 2, 3)]
    names = [name for page in pages[:2] for name in page]
    assert len(names) == len(set(names)) == 60 - len(site.interactions.by_item[site.interactions.item_rows[product]])
    assert pages[2] == pages[1]  # beyond the end it is the last


@pytest.mark.parametrize("place", [0, 4, 8])
def test_page_program_file_and_command_line_agree(site: Site, first_model: Path, place: int) -> None:
    product, currency = a_product(site, place=place), site.interactions.currency
    page = product_page(site.browser("ana"), product)
    answer = site.program("ana").get(f"{API}/products/{quote(product, safe='')}/clients", params={"size": 100}).json()
    exported = site.browser("ana").get("/product/clients.csv", params={"name": product})
    lines = list(csv.DictReader(io.StringIO(exported.text.removeprefix("\ufeff"))))
    command = run("recommend", first_model / "first", "--product", product, "-n", 60, "--format", "json", "--explain")
    told = {row["client"]: row for row in json.loads(command.stdout)}
    table = page.text.partition('<table class="list campaign">')[2].partition("</table>")[0]
    shown = dict(zip(listed(page), rows_of(table)[1:], strict=True))
    assert [row["client"] for row in answer["clients"]] == [line["client"] for line in lines] == listed(page)
    assert answer["total"] == len(lines) == len(shown)
    counted = 0
    for row, line in zip(answer["clients"], lines, strict=True):
        client, of_command = row["client"], told[row["client"]]
        assert row["chance"] == float(line["chance"]) == pytest.approx(of_command["chance"], abs=1e-4)
        assert row["value"] == float(line["value"]) == pytest.approx(of_command["value"], abs=0.01)
        assert row["confidence"] == float(line["confidence"]) == pytest.approx(of_command["confidence"], abs=1e-5)
        assert shown[client][2].split()[0] == percent(row["chance"])
        assert shown[client][3] == money(row["value"], currency)
        assert row["reason"] == line["reason"]
        assert row["reason"] in shown[client][1]
        numbers = re.search(r"([\d,]+) of ([\d,]+) similar clients", row["reason"])
        if numbers:
            assert f"{numbers[1]} of {numbers[2]}" in of_command["reason"]
            counted += 1
    assert counted > 2 or place == 0  # a bestseller is in no pattern


def test_closed_and_snoozed_ones_are_left_out_and_open_ones_marked(site: Site) -> None:
    product, browser = a_product(site), site.browser("ana")
    refused, snoozed, past, pursued, *_ = listed(product_page(browser, product))
    for client, status in ((refused, "not a fit"), (pursued, "pursuing")):
        browser.submit("/feedback", client=client, product=product, status=status)
    for client, days in ((snoozed, 3), (past, -3)):
        browser.submit("/feedback", client=client, product=product, status="not a fit")
        returns = date.today() + timedelta(days=days)
        site.change(update(Feedback).where(Feedback.client == client).values(status="snoozed", due=returns))
    page = product_page(browser, product)
    names = listed(page)
    assert refused not in names
    assert snoozed not in names
    assert past in names
    assert pursued in names
    assert "2 left out: closed, snoozed or not a fit" in page.text
    assert "In My calls" in page.text
    assert len(choices(page)) == len(names) - 1  # what is in My calls cannot be added again


def test_chosen_clients_go_to_my_calls_with_what_was_shown(site: Site) -> None:
    product, browser = a_product(site), site.browser("ana")
    page = product_page(browser, product)
    chosen = [html.unescape(choice) for choice in choices(page)[:3]]
    answer = browser.submit("/product/calls", product=product, chosen=chosen)
    assert answer.status_code == 303
    told = text_of(browser.get(answer.headers["location"]))
    assert "3 clients added to" in told
    names = [json.loads(choice)[0] for choice in chosen]
    assert all(name in text_of(browser.get("/calls")) for name in names)
    with site.database.reading() as transaction:
        rows = list(transaction.scalars(select(Feedback).order_by(Feedback.id)))
    assert [(row.client, row.product, row.status) for row in rows] == [(n, product, "pursuing") for n in names]
    served = site.services.served
    assert {row.model for row in rows} == {served.version}
    assert [row.confidence for row in rows] == [served.advisor.explain(name, product).confidence for name in names]


def test_a_client_counts_for_the_model_that_was_shown(site: Site) -> None:
    product, browser = a_product(site), site.browser("ana")
    client = listed(product_page(browser, product))[0]
    seal = make_seal(site.services.signing_key, client, product, ShownRecommendation("older", 0.25, None, ""))
    browser.submit("/product/calls", product=product, chosen=[json.dumps([client, seal])])
    with site.database.reading() as transaction:
        row = transaction.scalars(select(Feedback)).one()
    assert (row.model, row.confidence) == ("older", 0.25)


def test_what_is_settled_owned_or_somebody_elses_is_skipped_and_said(site: Site) -> None:
    product, browser = a_product(site), site.browser("ana")
    closed, pursued, fresh, *_ = listed(product_page(browser, product))
    browser.submit("/feedback", client=closed, product=product, status="lost")
    browser.submit("/feedback", client=pursued, product=product, status="pursuing")
    owner = next(iter({*site.clients("ana")} - not_owning(site, "ana", product)))
    theirs = site.clients("sue")[0]
    before = site.count(Feedback)
    chosen = [json.dumps([client, ""]) for client in (closed, pursued, fresh, owner, theirs, "No Such Company AG")]
    answer = browser.submit("/product/calls", product=product, chosen=chosen)
    told = text_of(browser.get(answer.headers["location"]))
    assert "1 client added to" in told
    assert "Skipped: 1 already in My calls, 1 closed or snoozed, 1 already owned, 2 not found." in told
    assert site.count(Feedback) == before + 1


def test_nothing_chosen_is_said(site: Site) -> None:
    browser = site.browser("ana")
    answer = browser.submit("/product/calls", product=a_product(site))
    assert "Select at least one client first" in browser.get(answer.headers["location"]).text
    assert site.count(Feedback) == 0


@pytest.mark.parametrize(
    "choice", ["", "Acme", "[]", '["a"]', '["a", 1]', '{"a": "b"}', '["' + "a" * 501 + '", ""]', "[["]
)
def test_a_forged_choice_is_refused_in_one_line(site: Site, choice: str) -> None:
    answer = site.browser("ana").submit("/product/calls", product=a_product(site), chosen=[choice])
    assert answer.status_code == 400
    assert "This page expired; reload it and select the clients again" in answer.text
    assert site.count(Feedback) == 0


def test_a_campaign_leads_back_to_this_site_only(site: Site) -> None:
    for query in ("//evil.example", "https://evil.example", "name=x\r\nSet-Cookie: a=b"):
        answer = site.browser("ana").submit("/product/calls", product=a_product(site), query=query)
        assert answer.headers["location"].startswith("/product?name=")
        assert "set-cookie" not in answer.headers


def test_a_campaign_is_narrowed_by_chance_attribute_and_seller(site: Site) -> None:
    product, browser = a_product(site), site.browser("max")
    everybody = listed(product_page(browser, product))
    assert set(listed(product_page(browser, product, seller="ben"))) == not_owning(site, "ben", product)
    assert listed(product_page(browser, product, seller="sue")) == everybody  # not of the team: ignored
    advisor, data = site.services.served.advisor, site.interactions
    least = listed(product_page(site.browser("ana"), product, least="10"))
    assert set(least) == {c for c in not_owning(site, "ana", product) if advisor.explain(c, product).chance >= 0.1}
    industry = str(data.user_attributes["industry"][0])
    chosen = listed(product_page(site.browser("ana"), product, attribute=f"industry:{industry}"))
    of_industry = {label(data, u) for u in np.flatnonzero(data.user_attributes["industry"] == industry).tolist()}
    assert set(chosen) == not_owning(site, "ana", product) & of_industry
    assert 'name="seller"' in product_page(browser, product).text
    assert 'name="seller"' not in product_page(site.browser("ana"), product).text


def test_attributes_to_choose_from_are_those_of_ones_own_clients(site: Site) -> None:
    data, page = site.interactions, product_page(site.browser("ana"), a_product(site))
    mine = {str(data.user_attributes["country"][u]) for u in range(15)}
    theirs = {str(value) for value in data.user_attributes["country"].tolist()} - mine
    assert theirs
    offered = set(re.findall(r'<option value="country:([^"]*)"', text_of(page)))
    assert offered == mine


def test_facts_about_a_product_are_counted(site: Site) -> None:
    data, product = site.interactions, a_product(site)
    item = data.item_rows[product]
    page = text_of(product_page(site.browser("ana"), product))
    owners = len(data.by_item[item])
    assert re.search(rf"<dt>Owners</dt><dd>{owners}</dd>", page)
    assert str(data.item_attributes["family"][item]) in page
    other = site.services.served.catalog.together(item)[0]
    both = len({*data.by_item[item].tolist()} & {*data.by_item[other.item].tolist()})
    assert other.both == both
    assert f"{percent(both / owners)} of owners" in page
    mine = [c for c in site.clients("ana") if c not in not_owning(site, "ana", product)]
    assert all(client in page.partition("who own it")[2] for client in mine)
    trend = site.services.served.catalog.trends
    assert trend is not None
    assert "its usual rate" in page


def test_what_few_paid_is_not_drawn(open_site: OpenSite, tmp_path: Path) -> None:
    """Five clients paid for bolts, four for nuts."""
    clients = [f"c{n}" for n in range(12)]
    rows = [(n, 0, 10.0 + n) for n in range(5)] + [(n, 1, 20.0) for n in range(4)] + [(n, 2, 5.0) for n in range(11)]
    interactions = Interactions.from_pairs(
        [row[0] for row in rows], [row[1] for row in rows], user_labels=clients, item_labels=["bolt", "nut", "saw"],
        price=[row[2] for row in rows], currency="€",
    )  # fmt: skip
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(interactions).save(tmp_path / "models" / "first")
    root = open_site(models=tmp_path / "models").browser("root")
    bolts, nuts = (product_page(root, name).text.partition("Price paid")[2] for name in ("bolt", "nut"))
    assert "<svg" in bolts.partition("</section>")[0]
    assert "fewer than five clients paid" in nuts.partition("</section>")[0]


def test_bare_purchases_leave_no_page_empty(open_site: OpenSite, tmp_path: Path) -> None:
    """No prices, attributes, dates, quantities or calibration, and labels that are numbers."""
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((20, 8)) < 0.4)
    bare = Interactions.from_pairs(pairs[:, 0], pairs[:, 1], (20, 8))
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(bare).save(tmp_path / "models" / "first")
    site = open_site(models=tmp_path / "models")
    with site.database.writing() as transaction:
        transaction.add(Assignment(client="3", user_id=site.visitor("ana").user.id))
    for name in ("root", "ana"):
        page = text_of(product_page(site.browser(name), "0"))
        for missing in ("The purchase data has no dates", "The purchase data has no prices", "Not enough price data"):
            assert missing in page
        catalog = text_of(site.browser(name).get("/catalog"))
        assert "The data has no prices" in catalog
        assert "To group products, add a family column" in catalog
        assert "Expected orders" in catalog
        accounts = text_of(site.browser(name).get("/accounts"))
        assert "Sorted by chance to buy; expected values need prices in the purchase data." in accounts


def test_a_seller_without_clients_is_told_whom_to_ask(site: Site) -> None:
    site.change(update(Assignment).values(user_id=site.visitor("sue").user.id))
    page = product_page(site.browser("ana"), a_product(site))
    assert "Ask your manager to assign clients" in page.text


def test_an_excluded_product_has_no_campaign(site: Site) -> None:
    product = a_product(site)
    site.services.served.advisor.model.excluded_items_[site.interactions.item_rows[product]] = True
    page = product_page(site.browser("ana"), product)
    assert "excluded from recommendations" in page.text
    assert choices(page) == []


def test_an_unknown_product_is_not_found(site: Site) -> None:
    browser, program = site.browser("ana"), site.program("ana")
    for answer in (
        browser.get("/product", params={"name": "no such"}),
        browser.get("/product/clients.csv", params={"name": "no such"}),
        browser.submit("/product/calls", product="no such"),
        program.get(f"{API}/products/no%20such/clients"),
    ):
        assert answer.status_code == 404
        assert "Product not found" in answer.text


def test_a_file_has_at_most_so_many_clients_and_no_formulas(
    site: Site, monkeypatch: pytest.MonkeyPatch, open_site: OpenSite, tmp_path: Path
) -> None:
    monkeypatch.setattr(campaign, "MAX_EXPORT", 3)
    exported = site.browser("root").get("/product/clients.csv", params={"name": a_product(site)})
    assert len(exported.text.splitlines()) == 4
    assert [(e.name, e.subject) for e in site.audited("campaign exported")] == [("root", a_product(site))]
    names = ["=1+1", "@SUM(A1)", "+x", "-y"]
    rows = [(n, i) for n in range(4) for i in range(3) if (n + i) % 3]
    hostile = Interactions.from_pairs([n for n, _ in rows], [i for _, i in rows], user_labels=names)
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(hostile).save(tmp_path / "models" / "first")
    other = open_site(models=tmp_path / "models")
    lines = csv.reader(io.StringIO(other.browser("root").get("/product/clients.csv", params={"name": "0"}).text))
    assert not [cell for line in lines for cell in line if cell[:1] in set("=+-@")]


# ------------------------------------------------------------------------------------------------------- the catalog


def test_the_catalog_adds_up_what_lists_offer(site: Site) -> None:
    served, data = site.services.served, site.interactions
    products = rows_of(site.browser("ana").get("/catalog").text)[1:]
    expected = dict.fromkeys(map(str, data.item_labels), 0.0)
    for client in site.clients("ana"):
        for best in served.advisor.recommend(client, 5):
            expected[served.product_of(best)] += best.value or 0.0
    assert len(products) == data.n_items
    for row in products:
        assert row[2].split()[0] == str(len(data.by_item[data.item_rows[row[0]]]))
        assert row[-1] == (money(expected[row[0]], data.currency) if expected[row[0]] else "–")
    shown = [expected[row[0]] for row in products]
    assert shown == sorted(shown, reverse=True)


def test_the_catalog_is_searched_with_typing_errors_sorted_and_filtered(site: Site) -> None:
    data, browser = site.interactions, site.browser("ana")
    product = str(data.item_labels[3])
    first, *rest = product.split()
    typo = " ".join([first[1] + first[0] + first[2:], *rest])
    assert rows_of(browser.get("/catalog", params={"search": typo}).text)[1][0] == product
    family = str(data.item_attributes["family"][3])
    rows = rows_of(browser.get("/catalog", params={"family": family}).text)[1:]
    members = {str(data.item_labels[i]) for i in np.flatnonzero(data.item_attributes["family"] == family)}
    assert {row[0] for row in rows} == members
    names = [row[0] for row in rows_of(browser.get("/catalog", params={"order": "name"}).text)[1:]]
    assert [name.casefold() for name in names] == sorted(name.casefold() for name in names)
    assert "No product matches" in browser.get("/catalog", params={"search": "qqqqqqqq"}).text
    assert browser.get("/catalog", params={"order": "colour"}).status_code == 422


def test_potential_leaves_out_what_is_closed(site: Site) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    product = site.open_product(client)
    before = {row[0]: row[-1] for row in rows_of(browser.get("/catalog").text)[1:]}
    browser.submit("/feedback", client=client, product=product, status=str(Status.LOST))
    after = {row[0]: row[-1] for row in rows_of(browser.get("/catalog").text)[1:]}
    assert {name for name in before if before[name] != after[name]} == {product}


def test_a_products_patterns_are_those_that_have_it(site: Site) -> None:
    served = site.services.served
    for item in range(served.interactions.n_items):
        having = {number for number, pattern in served.patterns.items() if item in pattern.items}
        assert having <= {*served.catalog.patterns_of(item)}
