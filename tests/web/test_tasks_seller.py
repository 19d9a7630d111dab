"""A seller's Monday in a real browser, with every click counted: whom to call, and what to put off or turn down."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from browser_support import PASSWORD, Server, add_user, needs_chromium, serving, small_model, start_chromium
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from sqlalchemy import delete, select, update

from ocular.web.database import Database
from ocular.web.tables import Assignment, Feedback, User, now

MAX_CLICKS = 5
MAX_TABS = 150
CLIENTS = 20

pytestmark = needs_chromium


class Site(NamedTuple):
    server: Server
    browser: Browser
    database: Database


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("seller")
    url = f"sqlite:///{folder / 'web.db'}"
    clients = [str(label) for label in small_model(folder / "models" / "first").interactions_.user_labels]
    add_user(url, "anna", "seller", "north", "Anna Berg")
    database = Database(url)
    with database.writing() as transaction:
        user_id = transaction.scalars(select(User.id)).one()
        transaction.add_all(Assignment(client=client, user_id=user_id) for client in clients[:CLIENTS])
    with serving(folder / "models", url, folder / "log") as server, sync_playwright() as playwright:
        browser = start_chromium(playwright.chromium)
        yield Site(server, browser, database)
        browser.close()
    database.close()


@pytest.fixture
def site(shared: Site) -> Site:
    with shared.database.writing() as transaction:
        transaction.execute(delete(Feedback))
    return shared


class Hand:
    """A person with a mouse who counts clicks; what is typed is not a click."""

    def __init__(self, site: Site, **options: bool) -> None:
        self.clicks = 0
        self.page: Page = site.browser.new_context(base_url=site.server.url, locale="en-US", **options).new_page()

    def click(self, place: Locator) -> None:
        self.clicks += 1
        place.click()

    def press(self, place: Locator) -> None:
        """Click a button that leads to another page."""
        with self.page.expect_navigation():
            self.click(place)

    def sign_in(self) -> None:
        self.page.goto("/")
        self.page.locator("input[name=name]").fill("anna")
        self.page.locator("input[name=password]").fill(PASSWORD)
        self.click(self.page.get_by_role("button", name="Sign in"))
        expect(self.page.get_by_role("heading", level=1)).to_have_text("Today")


def step_of(card: Locator) -> tuple[str, str]:
    """The client and the product of a card."""
    return card.locator(".whom a").inner_text(), card.locator("h3 a").inner_text()


def expect_in_calls(page: Page, client: str, product: str) -> None:
    expect(page.locator(".tiles [aria-current]")).to_contain_text("Pursuing")
    row = page.get_by_role("row").filter(has_text=client).filter(has_text=product)
    day = now().date() + timedelta(7)
    expect(row.locator("time").first).to_have_attribute("datetime", str(day))


def test_mondays_calls(site: Site) -> None:
    """Sign in, open the best next step, pursue it with a follow-up date, find it in My calls."""
    hand = Hand(site)
    page = hand.page
    hand.sign_in()
    best = page.locator(".step").first
    client, product = step_of(best)
    hand.click(best.locator("h3 a"))
    hand.click(page.get_by_role("radio", name="Pursuing"))
    page.get_by_label("Follow up or snooze until").fill(str(now().date() + timedelta(7)))
    hand.click(page.get_by_role("button", name="Save", exact=True))
    expect(page.get_by_role("status").first).to_have_text(f"Status updated: {product}")
    hand.click(page.get_by_role("link", name="My calls").first)
    expect_in_calls(page, client, product)
    assert hand.clicks <= MAX_CLICKS


@pytest.mark.parametrize("java_script_enabled", [True, False], ids=["javascript", "no javascript"])
def test_too_expensive_and_snooze(site: Site, java_script_enabled: bool) -> None:
    """Turn one step down for its price and put another off: both go, and the second is back when its day comes."""
    hand = Hand(site, java_script_enabled=java_script_enabled)
    page = hand.page
    hand.sign_in()
    first = page.locator(".step").first
    refused = step_of(first)
    menu = first.locator("form").filter(has=page.get_by_role("button", name="Not a fit"))
    hand.click(menu.locator("summary"))
    hand.press(menu.get_by_role("button", name="Too expensive"))
    assert refused not in steps(page)
    snoozed = step_of(page.locator(".step").first)
    hand.press(page.locator(".step").first.get_by_role("button", name="Snooze"))
    if java_script_enabled:
        expect(page.get_by_role("status").first).to_have_text(f"Snoozed: {snoozed[1]} for {snoozed[0]}")
    assert not {refused, snoozed} & {*steps(page)}
    assert hand.clicks <= MAX_CLICKS
    with site.database.writing() as transaction:
        rows = transaction.scalars(select(Feedback).order_by(Feedback.id)).all()
        assert [(row.status, row.reason) for row in rows] == [("not a fit", "Too expensive"), ("snoozed", "")]
        assert rows[1].due == now().date() + timedelta(7)
        earlier = {"due": now().date(), "at": now() - timedelta(7)}  # as if it had been snoozed a week ago
        transaction.execute(update(Feedback).where(Feedback.status == "snoozed").values(earlier))
    page.reload()
    assert snoozed in steps(page)
    assert refused not in steps(page)


def steps(page: Page) -> list[tuple[str, str]]:
    return [step_of(card) for card in page.locator(".step").all()]


def test_mondays_calls_by_keyboard(site: Site) -> None:
    page = Hand(site).page
    page.goto("/")
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type("anna")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Today")
    best = page.locator(".step").first
    client, product = step_of(best)
    tab_to(page, best.locator("h3 a"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(product)
    tab_to(page, page.get_by_role("radio", name="Pursuing"))
    page.keyboard.press("Space")
    tab_to(page, page.get_by_label("Follow up or snooze until"))
    page.keyboard.type(f"{now().date() + timedelta(7):%m%d%Y}")
    tab_to(page, page.get_by_role("button", name="Save", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_have_text(f"Status updated: {product}")
    tab_to(page, page.get_by_role("link", name="My calls").first)
    page.keyboard.press("Enter")
    expect_in_calls(page, client, product)


def tab_to(page: Page, place: Locator) -> None:
    """Press Tab until the place has the focus."""
    for _ in range(MAX_TABS):
        if place.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("not reached by Tab")


def test_a_menu_closes_by_escape_and_by_a_click_elsewhere(site: Site) -> None:
    hand = Hand(site)
    hand.sign_in()
    menu = hand.page.locator(".step").first.locator("details").first
    menu.locator("summary").click()
    expect(menu).to_have_attribute("open", "")
    hand.page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    expect(menu.locator("summary")).to_be_focused()
    menu.locator("summary").click()
    hand.page.get_by_role("heading", level=1).click()
    expect(menu).not_to_have_attribute("open", "")
