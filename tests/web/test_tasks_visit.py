"""A seller prepares a visit in a browser: from the list of accounts to a brief on one printed page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import PASSWORD, add_user, needs_chromium, serving, start_chromium
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from ocular import Interactions, OCuLaR
from ocular.synthetic.market import b2b

pytestmark = needs_chromium
MAX_CLICKS = 5
LONG = "Very Long Name of a Company with Many Subsidiaries, Limited Partnership " * 6


class Scene(NamedTuple):
    context: BrowserContext
    url: str
    clients: list[str]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The usual companies, one of which has a very long name, as have half of the products."""
    folder = tmp_path_factory.mktemp("visit")
    market = b2b(80, 40).interactions
    clients = [LONG.strip() if row == 0 else str(name) for row, name in enumerate(market.user_labels)]
    products = [
        f"{name} {'with accessories ' * 30}" if n % 2 else str(name) for n, name in enumerate(market.item_labels)
    ]
    purchases = market.purchases
    assert purchases is not None
    users, items = market.pair_users[purchases.pair], market.by_user.indices[purchases.pair]
    many_words = " and so on" * 40
    attributes = {
        name: np.array([f"{cells[0]}{many_words}", *cells[1:]], dtype=object)
        for name, cells in market.user_attributes.items()
    }
    data = Interactions.from_pairs(
        users, items, (80, 40), user_labels=[f"client {n}" for n in range(80)], user_names=clients,
        item_labels=[f"product {n}" for n in range(40)], item_names=products, **purchases.columns,
        currency="€", user_attributes=attributes,
    )  # fmt: skip
    weights = {"links": 1.0, "peers": 1.0, "link_regularization": 20.0}
    OCuLaR(6, 20.0, random_state=0, **weights).fit(data).save(folder / "models" / "first")
    database = f"sqlite:///{folder / 'web.db'}"
    add_user(database, "root", "admin", full_name="Ruth Root")
    with serving(folder / "models", database, folder / "log") as server, sync_playwright() as playwright:
        browser = start_chromium(playwright.chromium)
        with browser.new_context(base_url=server.url, viewport={"width": 1280, "height": 900}) as context:
            page = context.new_page()
            page.goto("/sign-in")
            page.locator("main [name=name]").fill("root")
            page.locator("main [name=password]").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(lambda url: "/sign-in" not in url)
            yield Scene(context, server.url, clients)
        browser.close()


def pages_in(pdf: bytes) -> int:
    """The number of pages that the root of the tree of pages counts; compressed objects would hide it."""
    counts = [int(count) for count in re.findall(rb"/Type\s*/Pages\b.*?/Count\s+(\d+)", pdf, re.DOTALL)]
    leaves = len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))
    assert counts
    assert leaves == max(counts)
    return leaves


def brief(page: Page, client: str, **more: str) -> None:
    page.goto(f"/client/brief?{urlencode({'name': client} | more)}")
    expect(page.locator(".sheet h1")).to_be_visible()


def test_a_visit_is_prepared_and_printed_on_one_page(scene: Scene, tmp_path: Path) -> None:
    page, clicks = scene.context.new_page(), 0
    page.add_init_script("window.print = () => { window.printed = (window.printed || 0) + 1; }")
    page.goto("/accounts")
    page.locator("main table a[href^='/client']").first.click()
    clicks += 1
    page.get_by_role("link", name="Visit brief").click()
    clicks += 1
    expect(page.get_by_role("heading", name="What to offer")).to_be_visible()
    page.get_by_role("button", name="Print").click()
    clicks += 1
    assert page.evaluate("window.printed") == 1
    assert clicks <= MAX_CLICKS
    pdf = page.pdf(path=tmp_path / "brief.pdf", prefer_css_page_size=True)
    assert pages_in(pdf) == 1
    width, height = (float(side) for side in re.search(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", pdf).groups())  # type: ignore[union-attr]
    assert (width, height) == pytest.approx((595, 842), abs=1)  # A4 in points
    page.close()


@pytest.mark.parametrize("names", ["1", "0"])
def test_long_names_take_no_second_page(scene: Scene, names: str) -> None:
    page = scene.context.new_page()
    page.emulate_media(media="print")
    for client in ("client 0", "client 1", "client 2"):
        brief(page, client, names=names)
        for paper in ({"prefer_css_page_size": True}, {"format": "Letter"}):
            assert pages_in(page.pdf(**paper)) == 1
        sheet = page.locator(".sheet").bounding_box()
        ruled = page.locator(".ruled").bounding_box()
        assert sheet is not None
        assert ruled is not None
        assert ruled["y"] + ruled["height"] <= sheet["y"] + sheet["height"]
        assert ruled["height"] > 100  # room for notes
    page.close()


def test_names_of_others_are_hidden_by_one_click(scene: Scene) -> None:
    page = scene.context.new_page()
    brief(page, "client 3")
    page.get_by_role("link", name="Hide other clients' names").click()
    expect(page.get_by_role("link", name="Show other clients' names")).to_be_visible()
    text = page.locator(".sheet").inner_text()
    assert not [name for name in scene.clients[:3] + scene.clients[4:] if name in text]
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_do_not_scroll_sideways(scene: Scene, width: int, scheme: str) -> None:
    page = scene.context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    client = "client 0"
    page.goto(f"/client?{urlencode({'name': client})}")
    first = page.locator(".proposal h3 a").first.get_attribute("href")
    for address in (page.url, first, f"/client/brief?{urlencode({'name': client})}", "/prospect", "/new-product"):
        page.goto(address or "")
        found = Axe().run(page).response["violations"]
        assert not [each["id"] for each in found if each["impact"] in {"serious", "critical"}], address
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
    page.close()


def test_without_javascript_the_brief_is_complete(scene: Scene) -> None:
    browser = scene.context.browser
    assert browser is not None
    with browser.new_context(
        base_url=scene.url, storage_state=scene.context.storage_state(), java_script_enabled=False
    ) as context:
        page = context.new_page()
        page.goto(f"/client/brief?{urlencode({'name': 'client 1'})}")
        expect(page.locator(".sheet-offers > li")).to_have_count(3)
        expect(page.get_by_role("button", name="Print")).to_have_count(0)
        assert pages_in(page.pdf(prefer_css_page_size=True)) == 1
