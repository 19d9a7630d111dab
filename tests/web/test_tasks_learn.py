"""A new hire learns an industry, with a mouse, with the keyboard and without scripts; the pages in between are fit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import PASSWORD, Server, add_user, needs_chromium, serving, start_chromium
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from sqlalchemy import select

from ocular import Interactions, OCuLaR
from ocular.synthetic.market import b2b
from ocular.web.database import Database
from ocular.web.tables import Assignment, User

pytestmark = needs_chromium
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
MAX_CLICKS = 5


class Office(NamedTuple):
    """A server, a browser that people are signed in with, and the industry that the new hire looks after."""

    server: Server
    browser: Browser
    industry: str
    signed_in: dict[str, Any]

    def page(self, name: str = "nora", **options: Any) -> Page:
        given = {"viewport": WIDE, "storage_state": self.signed_in[name], "base_url": self.server.url} | options
        page = self.browser.new_context(**given).new_page()
        page.set_default_timeout(10_000)
        return page


def settle(database: str, data: Interactions) -> None:
    """Nora has every other client, Maria leads her."""
    for name, role in (("nora", "seller"), ("maria", "manager")):
        add_user(database, name, role, "north", name.title())
    opened = Database(database)
    with opened.writing() as transaction:
        nora = transaction.scalars(select(User.id).where(User.name == "nora")).one()
        transaction.add_all(Assignment(client=str(label), user_id=nora) for label in data.user_labels[::2])
    opened.close()


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("learn")
    data = b2b(160, 40, random_state=1).interactions
    OCuLaR(6, 5.0, random_state=0).fit(data).save(folder / "models" / "first")
    database = f"sqlite:///{folder / 'web.db'}"
    settle(database, data)
    industries = data.user_attributes["industry"].tolist()
    industry = max(set(industries[::2]), key=industries[::2].count)
    with serving(folder / "models", database, folder / "log") as server, sync_playwright() as playwright:
        browser = start_chromium(playwright.chromium)
        found = Office(server, browser, industry, {})
        for name in ("nora", "maria"):
            with browser.new_context(base_url=server.url) as context:
                page = context.new_page()
                page.goto("/sign-in")
                page.locator("input[name=name]").fill(name)
                page.locator("input[name=password]").fill(PASSWORD)
                page.locator("main button").click()
                page.wait_for_url(lambda url: "sign-in" not in url)
                found.signed_in[name] = context.storage_state()
        yield found
        browser.close()


def test_a_new_hire_learns_an_industry(office: Office) -> None:
    page, clicks = office.page(), 0

    def click(what: Locator) -> None:
        nonlocal clicks
        clicks += 1
        what.click()

    page.goto("/")
    click(page.get_by_role("navigation", name="Main").get_by_role("link", name="Patterns"))
    click(page.get_by_role("link", name="Take the tour"))
    click(page.get_by_role("link", name=office.industry, exact=True))
    expect(page.get_by_role("heading", level=1)).to_have_text(f"How {office.industry} clients buy")
    steps = page.locator(".steps > li")
    expect(steps).to_have_count(5)
    expect(steps.nth(0)).to_contain_text("of them yours")
    expect(steps.nth(1).get_by_role("row")).not_to_have_count(0)
    expect(steps.nth(3)).to_contain_text("My clients without it")
    offer = steps.nth(4).locator(".example bdi").all_inner_texts()
    click(page.get_by_role("link", name="Open the recommendation"))
    for name in offer:
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    assert clicks <= MAX_CLICKS


def test_a_new_hire_learns_an_industry_with_the_keyboard(office: Office) -> None:
    page = office.page()
    page.goto("/")
    tab_to(page, 'nav a[href="/patterns"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/patterns")
    tab_to(page, 'a[href="/patterns/tour"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/patterns/tour")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    tab_to(page, f'a[href*="industry%3D{office.industry.split()[0]}"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/patterns/tour?about=**")
    tab_to(page, 'a.button[href^="/recommendation"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/recommendation?**")


def tab_to(page: Page, selector: str, most: int = 150) -> None:
    """Press Tab until the focus is there."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"{most} times Tab do not lead to {selector}")


def open_pattern(page: Page) -> None:
    """The first pattern of the index that has whitespace of one's own clients."""
    page.goto("/patterns?mine=true&sort=whitespace")
    page.locator("article h3 a").first.click()
    expect(page.locator("td.open").first).to_be_visible()


def test_squares_are_told_and_opened_with_the_keyboard(office: Office) -> None:
    page = office.page()
    open_pattern(page)
    first_row = page.locator("tr.mine").filter(has=page.locator("td.open")).first
    first_row.locator("td.open").first.focus()
    told = page.locator(".tell")
    expect(told).to_contain_text("not bought, chance to buy")
    before = told.inner_text()
    page.keyboard.press("ArrowDown")
    expect(told).not_to_have_text(before)
    page.keyboard.press("ArrowUp")
    expect(told).to_have_text(before)
    page.keyboard.press("Enter")
    page.wait_for_url("**/recommendation?**")


def test_a_square_is_a_link_without_scripts(office: Office) -> None:
    page = office.page(java_script_enabled=False)
    open_pattern(page)
    page.locator("td.open a").first.click()
    page.wait_for_url("**/recommendation?**")
    page.goto("/patterns")
    page.locator(".bubbles a").first.click()
    page.wait_for_url("**/pattern?number=**")


def test_a_manager_names_a_pattern(office: Office) -> None:
    page = office.page("maria")
    open_pattern(page)
    page.get_by_text("Rename", exact=True).click()
    page.get_by_label("Name", exact=True).fill("Starter kit")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Starter kit")
    expect(page.get_by_role("status")).to_have_text("Name saved")
    page.get_by_text("Rename", exact=True).click()
    page.get_by_role("button", name="Use the automatic name").click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Starter kit")


@pytest.mark.parametrize("way", ["/patterns", "/pattern", "/patterns/tour", "/patterns/tour?about=", "/model"])
@pytest.mark.parametrize("name", ["nora", "maria"])
def test_pages_are_accessible_and_fit(office: Office, way: str, name: str) -> None:
    page = office.page(name)
    if way == "/pattern":
        open_pattern(page)
    else:
        page.goto(f"{way}industry%3D{office.industry}" if way.endswith("=") else way)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    for folded in page.locator("details > summary").all():
        if folded.is_visible():
            folded.click()
    problems = []
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for found in Axe().run(page).response["violations"]:
                if found["impact"] in {"serious", "critical"}:
                    problems.append(f"{scheme}, {size['width']}: {found['id']} {found['nodes'][0]['html']}")
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > size["width"]:
            problems.append(f"{size['width']} wide: the page takes {wide}")
    assert not problems, "\n".join(problems)
    levels = page.evaluate("[...document.querySelectorAll('main :is(h1,h2,h3)')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
