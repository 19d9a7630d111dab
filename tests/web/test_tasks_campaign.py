"""The campaign for a product as a seller does it: by mouse, by keyboard, without JavaScript, with clicks counted."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import PASSWORD, needs_chromium, serving, small_model, start_chromium
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from ocular import Advisor
from ocular.web.database import Database
from ocular.web.tables import Assignment, Role
from ocular.web.users import add_user

WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
EACH = 20  # clients of a seller

pytestmark = needs_chromium


class Site(NamedTuple):
    browser: Browser
    url: str
    advisor: Advisor
    state: dict[str, Any]  # cookies of the seller

    def product(self, place: int = 0) -> str:
        """A product that few own, so that nearly all clients are open; each test has one of its own."""
        data = self.advisor.model.interactions_
        return str(data.item_labels[data.by_item.degrees.argsort(kind="stable")[place]])


def misspelt(product: str) -> str:
    """A product's name with two letters swapped."""
    first, *rest = product.split()
    return " ".join([first[0] + first[2] + first[1] + first[3:], *rest])


class Clicks:
    """Counts the clicks that a page gets."""

    def __init__(self, context: BrowserContext) -> None:
        self.count = 0
        context.expose_function("countClick", self._add)
        context.add_init_script('addEventListener("click", (event) => { if (event.isTrusted) countClick(); }, true)')

    def _add(self) -> None:
        self.count += 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("campaign")
    url = f"sqlite:///{folder / 'web.db'}"
    advisor, database = Advisor(small_model(folder / "models" / "first")), Database(url)
    database.upgrade()
    with database.writing() as transaction:
        anna = add_user(transaction, "anna", Role.SELLER, PASSWORD, full_name="Anna Berg", team="north")
        ben = add_user(transaction, "ben", Role.SELLER, PASSWORD, full_name="Ben Ito", team="north")
        for n, label in enumerate(advisor.model.interactions_.user_labels[: 2 * EACH].tolist()):
            transaction.add(Assignment(client=str(label), user_id=(anna if n < EACH else ben).id))
    database.close()
    with serving(folder / "models", url, folder / "log") as server, sync_playwright() as playwright:
        browser = start_chromium(playwright.chromium)
        with browser.new_context(base_url=server.url) as context:
            page = context.new_page()
            page.goto("/sign-in")
            page.locator("input[name=name]").fill("anna")
            page.locator("input[name=password]").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(lambda address: "sign-in" not in address)
            state = context.storage_state()
        yield Site(browser, server.url, advisor, state)
        browser.close()


@pytest.fixture
def context(site: Site) -> Iterator[BrowserContext]:
    with opened(site) as context:
        yield context


def opened(site: Site, **options: Any) -> BrowserContext:
    context = site.browser.new_context(base_url=site.url, storage_state=site.state, **{"viewport": WIDE, **options})
    context.set_default_timeout(10_000)
    return context


def names_on(page: Page) -> list[str]:
    return page.locator(".campaign tbody th bdi").all_inner_texts()


def test_a_campaign_takes_at_most_five_clicks(site: Site, context: BrowserContext) -> None:
    """Search the product by a misspelt name, choose all clients of the page, add them to My calls, export the list."""
    clicks, page, product = Clicks(context), context.new_page(), site.product(1)
    page.goto("/catalog")
    page.keyboard.press("Control+k")
    page.keyboard.type(misspelt(product))
    page.locator("#found").get_by_role("option").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(product)
    names = names_on(page)
    assert len(names) > 10
    page.get_by_role("link", name="Select all on this page").click()
    expect(page.get_by_text(f"{len(names)} selected")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    lines = list(csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8-sig").splitlines()))
    assert [line["client"] for line in lines] == names
    page.get_by_role("button", name="Add to My calls").click()
    expect(page.get_by_role("status").filter(has_text=f"{len(names)} clients added to My calls")).to_be_visible()
    page.get_by_role("status").get_by_role("link", name="My calls").click()
    for name in names:
        expect(page.get_by_role("main").get_by_text(name).first).to_be_attached()
    assert clicks.count <= 5


def test_search_is_used_by_keyboard_alone(site: Site, context: BrowserContext) -> None:
    page, product = context.new_page(), site.product(2)
    page.goto("/catalog")
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search")
    expect(box).to_be_focused()
    page.keyboard.type(misspelt(product))
    expect(page.locator("#found").get_by_role("option").first).to_be_visible()
    expect(box).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#found").get_by_role("option").first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "found0")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()
    page.keyboard.press("Enter")  # nothing is chosen: the page with all results
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    page.get_by_role("main").get_by_role("link", name=product).first.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(product)
    page.locator("input[type=checkbox]").first.press("Space")
    page.get_by_role("button", name="Add to My calls").press("Enter")
    expect(page.get_by_role("status").filter(has_text="added to My calls")).to_be_visible()


def test_a_slash_in_a_field_stays_a_slash(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/catalog")
    field = page.get_by_role("main").get_by_label("Product", exact=True)
    field.press("/")
    expect(field).to_have_value("/")


def test_names_of_others_are_not_suggested(site: Site, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/catalog")
    theirs = str(site.advisor.model.interactions_.user_labels[EACH])
    with page.expect_response("**/search.json*") as answer:
        page.get_by_role("combobox", name="Search").press_sequentially(theirs)
        page.wait_for_timeout(300)
    assert theirs not in json.dumps(answer.value.json(), ensure_ascii=False)
    assert theirs not in page.get_by_role("listbox", include_hidden=True).inner_text()


def test_a_campaign_works_without_javascript(site: Site) -> None:
    with opened(site, java_script_enabled=False) as context:
        page, product = context.new_page(), site.product(3)
        page.goto("/catalog")
        page.locator("input[name=q]").fill(misspelt(product))
        page.locator("input[name=q]").press("Enter")
        page.get_by_role("main").get_by_role("link", name=product).first.click()
        page.get_by_role("link", name="Select all on this page").click()
        page.get_by_role("button", name="Add to My calls").click()
        expect(page.get_by_role("status").filter(has_text="added to My calls")).to_be_visible()


@pytest.mark.parametrize("width", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_in_the_way_of_anybody(site: Site, width: dict[str, int], scheme: str) -> None:
    with opened(site, viewport=width, color_scheme=scheme) as context:
        page, found = context.new_page(), []
        for address in ("/catalog", f"/product?name={site.product()}", "/whitespace", "/search?q=server", "/search"):
            page.goto(address)
            found += [
                (address, each["id"], each["nodes"][0]["html"]) for each in Axe().run(page).response["violations"]
            ]
            assert page.evaluate("document.documentElement.scrollWidth") <= width["width"], address
            headings = [
                int(tag[1]) for tag in page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => h.tagName)")
            ]
            assert headings[0] == 1
            assert all(after - before <= 1 for before, after in pairwise(headings))
        assert found == []


def test_a_phone_has_large_targets_and_leads_to_the_search(site: Site) -> None:
    with opened(site, viewport=PHONE) as context:
        page, product = context.new_page(), site.product()
        page.goto(f"/product?name={product}")
        for target in (page.locator(".pick label").first, page.get_by_role("button", name="Add to My calls")):
            box = target.bounding_box()
            assert box is not None
            assert box["height"] >= 44
        page.locator(".to-search").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Search")
        page.get_by_role("main").get_by_role("searchbox").fill(misspelt(product))
        page.keyboard.press("Enter")
        expect(page.get_by_role("main").get_by_role("link", name=product).first).to_be_visible()
