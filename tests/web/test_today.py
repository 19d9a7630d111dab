"""Today: the best next steps, one click for a status, follow-ups and repurchases, and what is said where data lacks."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sites import NOBODYS, PEOPLE, Browser, Site, both_databases, label, text_of
from sqlalchemy import delete, update

from ocular import Interactions, OCuLaR
from ocular.explain.price import money
from ocular.web.opportunities import MAX_PER_CLIENT
from ocular.web.tables import Assignment, Feedback, now
from ocular.web.templating import percent

OpenSite = Callable[..., Site]
TODAY = now().date()


class Card(NamedTuple):
    """A next step as the page shows it."""

    client: str
    product: str
    text: str
    forms: list[dict[str, str]]  # the hidden fields of Pursue, Snooze and Not a fit


def cards(browser: Browser) -> list[Card]:
    page = browser.get("/")
    assert page.status_code == 200
    found = []
    for part in page.text.split('<li class="card step">')[1:]:
        card = part.partition("</li>")[0]
        hidden = (re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form) for form in card.split("<form")[1:])
        forms = [{name: html.unescape(value) for name, value in fields} for fields in hidden]
        found.append(Card(forms[0]["client"], forms[0]["product"], plain(card), forms))
    return found


def plain(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.unescape(markup)).split())


def pairs(browser: Browser) -> list[tuple[str, str]]:
    return [(card.client, card.product) for card in cards(browser)]


def press(browser: Browser, card: Card, status: str, **more: str) -> None:
    """Press a button of a card."""
    (form,) = [form for form in card.forms if form["status"] == status]
    answer = browser.post("/feedback", data=form | more)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def tiles(page: str) -> list[str]:
    strip = page.partition('class="tiles"')[2].partition("</ul>")[0]
    return [plain(tile) for tile in re.findall(r"<li>(.*?)</li>", strip, re.DOTALL)]


# ------------------------------------------------------------------------------------------------ the best next steps


@pytest.mark.parametrize(("visitor", "owners"), [("ana", {"ana"}), ("max", {"ana", "ben", None}), ("root", {*PEOPLE})])
def test_steps_are_those_of_ones_own_clients(site: Site, visitor: str, owners: set[str]) -> None:
    owned, steps = site.owners(), pairs(site.browser(visitor))
    assert len(steps) == 10
    assert {owned.get(client) for client, _ in steps} <= owners | ({None} if visitor == "root" else set())
    assert max(Counter(client for client, _ in steps).values()) <= MAX_PER_CLIENT


def test_the_most_valuable_come_first_with_the_numbers_of_the_library(site: Site) -> None:
    steps, advisor = cards(site.browser("ana")), site.services.served.advisor
    found = [advisor.explain(card.client, card.product) for card in steps]
    values = [each.value or 0.0 for each in found]
    assert values == sorted(values, reverse=True)
    for card, each in zip(steps, found, strict=True):
        assert f"Chance to buy {percent(each.chance)}" in card.text
        assert f"Expected value {money(each.value, site.interactions.currency)}" in card.text


def test_no_client_fills_the_list_unless_there_is_no_other(site: Site) -> None:
    site.change(delete(Assignment).where(Assignment.client.not_in(site.clients("ana")[:1])))
    steps = pairs(site.browser("ana"))
    assert len(steps) == 5  # all that is recommended to the only client
    assert {client for client, _ in steps} == {site.clients("ana")[0]}


def test_a_pitch_is_one_sentence_without_names_that_are_hidden(site: Site) -> None:
    pitches = re.findall(r'<p class="pitch">(.*?)</p>', text_of(site.browser("ana").get("/")))
    assert len(pitches) == 10
    theirs = [*site.clients("sue"), *(label(site.interactions, row) for row in NOBODYS)]
    assert not [name for name in theirs if name in " ".join(pitches)]


def test_leaders_see_whose_client_it_is(site: Site) -> None:
    owned = site.owners()
    for card in cards(site.browser("root")):
        seller = owned.get(card.client)
        assert (f"{str(seller).title()} Example" in card.text) == (seller is not None)
    assert not [card for card in cards(site.browser("ana")) if "Example" in card.text]


# ------------------------------------------------------------------------------------------------ one click


@both_databases
def test_one_click_gives_a_status_and_takes_the_step_away(site: Site) -> None:
    ana = site.browser("ana")
    first, second, third, *_ = cards(ana)
    press(ana, first, "pursuing")
    press(ana, second, "snoozed", due=str(TODAY + timedelta(7)))
    press(ana, third, "not a fit", reason="Too expensive")
    left = pairs(ana)
    assert not {(card.client, card.product) for card in (first, second, third)} & {*left}
    assert len(left) == 10
    with site.database.reading() as transaction:
        rows = transaction.query(Feedback).order_by(Feedback.id).all()
    assert [(row.status, row.reason, row.due) for row in rows] == [
        ("pursuing", "", None), ("snoozed", "", TODAY + timedelta(7)), ("not a fit", "Too expensive", None),
    ]  # fmt: skip
    assert tiles(ana.get("/").text)[0].endswith("1 opportunity")


@both_databases
def test_what_is_snoozed_comes_back_on_the_day(site: Site) -> None:
    ana = site.browser("ana")
    first = cards(ana)[0]
    open_before = [row[4] for row in listed(ana) if row[0] == first.client]
    press(ana, first, "snoozed", due=str(TODAY + timedelta(1)))
    assert (first.client, first.product) not in pairs(ana)
    assert [int(row[4]) for row in listed(ana) if row[0] == first.client] == [int(open_before[0]) - 1]
    site.change(update(Feedback).values(due=TODAY))
    (back,) = [card for card in cards(ana) if (card.client, card.product) == (first.client, first.product)]
    assert f"Snoozed until {TODAY.day} {TODAY:%b}" in back.text
    assert [row[4] for row in listed(ana) if row[0] == first.client] == open_before


def listed(browser: Browser) -> list[list[str]]:
    rows = re.findall(r"<tr>\s*<th scope=\"row\">.*?</tr>", browser.get("/accounts").text, re.DOTALL)
    cells = [re.findall(r"<t[hd]\b.*?</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells]


def test_the_button_counts_when_a_date_was_left_in_the_field_beside_it(site: Site) -> None:
    ana = site.browser("ana")
    (form,) = [form for form in cards(ana)[0].forms if form["status"] == "snoozed"]
    dates = [str(TODAY + timedelta(14)), str(TODAY + timedelta(90))]
    assert ana.post("/feedback", data=form | {"due": dates}).status_code == 303
    with site.database.reading() as transaction:
        assert str(transaction.query(Feedback).one().due) == dates[0]


# ------------------------------------------------------------------------------------------------ what is due


def test_follow_ups_are_listed_from_their_day_on_the_longest_overdue_first(site: Site) -> None:
    ana, max_ = site.browser("ana"), site.browser("max")
    follow_ups = {1: 3, 2: 0, 3: 9, 4: 30}  # in days, by the number of the row
    for card, days in zip(cards(ana), follow_ups.values(), strict=False):
        press(ana, card, "pursuing", due=str(TODAY + timedelta(days)))
    assert tiles(ana.get("/").text)[1] == "Follow-ups due 1 none overdue"
    for number, days in follow_ups.items():  # four days later
        site.change(update(Feedback).where(Feedback.id == number).values(due=TODAY + timedelta(days - 4)))
    page = ana.get("/").text
    section = page.partition('id="follow-ups"')[2].partition("</section>")[0]
    overdue = [str(TODAY - timedelta(4)), str(TODAY - timedelta(1))]
    assert re.findall(r"Overdue since <time datetime=\"([^\"]+)\"", section) == overdue
    assert tiles(page)[1] == tiles(max_.get("/").text)[1] == "Follow-ups due 2 2 overdue"
    assert tiles(site.browser("sue").get("/").text)[1] == "Follow-ups due 0 none overdue"


def dated_models(folder: Path) -> Path:
    """Two clients buy nuts every ten days, the first of them last 14 days before the newest purchase."""
    rows = [(user, 0, day) for user in range(2) for day in (0, 10, 20, 30 + user)] + [(0, 1, 3), (2, 2, 44), (2, 0, 44)]
    users, items, days = np.array(rows).T
    data = Interactions.from_pairs(
        users, items, user_labels=["Acme", "Bolt's secret", "Corda"], item_labels=["nut", "oil", "sail"],
        time=np.datetime64("2024-01-01") + days,
    )  # fmt: skip
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=100).fit(data).save(folder / "first")
    return folder


def assign(site: Site, seller: str, *clients: str) -> None:
    with site.database.writing() as transaction:
        transaction.add_all(Assignment(client=client, user_id=site.visitor(seller).user.id) for client in clients)


def test_what_is_due_for_repurchase_is_of_ones_own_clients(open_site: OpenSite, tmp_path: Path) -> None:
    site = open_site(models=dated_models(tmp_path))
    assign(site, "ana", "Acme", "Corda")
    assign(site, "sue", "Bolt's secret")
    page = text_of(site.browser("ana").get("/"))
    section = page.partition('id="repurchases"')[2].partition("</section>")[0]
    assert "nut for Acme 4 days overdue · usually every 10 days" in plain(section)
    assert "secret" not in page
    assert tiles(site.browser("ana").get("/").text)[2] == "Due for repurchase 1 as of 14 Feb 2024"
    assert tiles(site.browser("root").get("/").text)[2] == "Due for repurchase 2 as of 14 Feb 2024"


# ------------------------------------------------------------------------------------------------ what is missing


def test_a_page_without_prices_dates_attributes_and_back_test_says_so(open_site: OpenSite, tmp_path: Path) -> None:
    data = Interactions.from_pairs(
        [0, 0, 1, 1, 2, 3, 3], [0, 1, 0, 1, 0, 2, 3], user_labels=list("abcd"), item_labels=list("wxyz")
    )
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(data).save(tmp_path / "first")
    site = open_site(models=tmp_path)
    assign(site, "ana", "c")
    ana = site.browser("ana")
    page = text_of(ana.get("/"))
    assert "deal values need prices in the purchase data" in page
    assert "the chance to buy is its own score" in page
    assert "The purchase data has no dates" in page
    assert "appear here on their follow-up date" in page
    best = cards(ana)[0]
    score = site.services.served.advisor.explain("c", best.product).confidence
    assert f"Chance to buy {percent(score)}" in best.text
    assert "Expected value –" in best.text
    for card in cards(ana):
        press(ana, card, "pursuing")
    assert "No open recommendations: all products are owned, in progress, snoozed or closed." in ana.get("/").text
    assert tiles(ana.get("/").text)[0] == "Open pipeline 3 3 opportunities"


def test_whoever_has_no_clients_is_told_whom_to_ask(site: Site) -> None:
    site.change(delete(Assignment))
    assert "Ask your manager to assign clients." in site.browser("ana").get("/").text
    assert site.browser("max").get("/").text.count('class="card step"') == 10
