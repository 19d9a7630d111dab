"""Tasks of leaders in a real browser, with every click counted: the quarter, new sellers, what a refit changed."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import PASSWORD, Server, add_user, needs_chromium, serving, start_chromium
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from sqlalchemy import select

from ocular import Interactions, OCuLaR
from ocular.synthetic.market import b2b
from ocular.web.database import Database
from ocular.web.tables import Assignment, Feedback, User, now

MAX_CLICKS = 5
NEW_SELLERS = 50
WON = 4

pytestmark = needs_chromium


class Site(NamedTuple):
    server: Server
    browser: Browser
    models: Path
    refit: Path  # the model of the next night, not served yet


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("manager")
    url, data = f"sqlite:///{folder / 'web.db'}", b2b(80, 40).interactions
    clients, products = (list(map(str, labels)) for labels in (data.user_labels, data.item_labels))
    kept = np.random.default_rng(0).random(data.nnz) > 0.1
    before = Interactions.from_pairs(
        data.pair_users[kept].tolist(), data.by_user.indices[kept].tolist(), user_labels=clients, item_labels=products
    )
    OCuLaR(6, 20.0, random_state=0).fit(before).save(folder / "models" / "monday")
    OCuLaR(6, 20.0, random_state=0).fit(data).save(folder / "refit")
    for name, role, full_name in (
        ("anna", "seller", "Anna Berg"), ("ben", "seller", "Ben Ito"), ("maria", "manager", "Maria Rossi"),
        ("root", "admin", "Ruth Root"),
    ):  # fmt: skip
        add_user(url, name, role, "north", full_name)
    database = Database(url)
    with database.writing() as transaction:
        ids = dict(transaction.execute(select(User.name, User.id)).all())
        for n, client in enumerate(clients[:40]):
            transaction.add(Assignment(client=client, user_id=ids[("anna", "ben")[n % 2]]))
        for n, client in enumerate(clients[:16]):
            status = ("won", "lost", "not a fit", "pursuing")[n // WON]
            transaction.add(
                Feedback(
                    client=client, product=products[n], user_id=ids[("anna", "ben")[n % 2]], status=status, model="m",
                    confidence=0.3, label="Pumps", reason="Too expensive" if status in {"lost", "not a fit"} else "",
                    amount=1000.0 if status == "won" else None, at=now() - timedelta(days=5 * n),
                )
            )  # fmt: skip
    with serving(folder / "models", url, folder / "log") as server, sync_playwright() as playwright:
        browser = start_chromium(playwright.chromium)
        yield Site(server, browser, folder / "models", folder / "refit")
        browser.close()
    database.close()


class Hand:
    """A person with a mouse who counts clicks; what is typed is not a click."""

    def __init__(self, site: Site, name: str, **options: bool) -> None:
        self.page: Page = site.browser.new_context(base_url=site.server.url, locale="en-US", **options).new_page()
        self.page.goto("/sign-in")
        self.page.locator("input[name=name]").fill(name)
        self.page.locator("input[name=password]").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", level=1)).to_have_text("Today")
        self.clicks = 0

    def click(self, place: Locator) -> None:
        self.clicks += 1
        with self.page.expect_navigation():
            place.click()

    def choose_file(self, place: Locator, file: Path) -> None:
        self.clicks += 1
        place.set_input_files(file)

    def check_accessible(self) -> None:
        found = [fault["id"] for fault in Axe().run(self.page).response["violations"]
                 if fault["impact"] in {"serious", "critical"}]  # fmt: skip
        assert found == []


@pytest.mark.parametrize("scripts", [True, False], ids=["", "without scripts"])
def test_the_managers_review_of_the_quarter(site: Site, scripts: bool) -> None:
    """How much was won, by whom, why others were not, and which deals."""
    maria = Hand(site, "maria", java_script_enabled=scripts)
    page = maria.page
    maria.click(page.get_by_role("link", name="Performance"))
    if scripts:
        maria.check_accessible()
    tiles = page.locator(".stats")
    expect(tiles).to_contain_text("Win rate50%")
    expect(tiles).to_contain_text(f"Deals won{WON}")
    expect(page.locator("table.bars")).to_contain_text("Too expensive")
    expect(page.get_by_role("row").filter(has_text="Anna Berg")).to_contain_text("2,000")
    maria.click(page.get_by_role("link", name="Anna Berg"))
    expect(tiles).to_contain_text("Deals won2")
    maria.click(tiles.get_by_role("link", name="2", exact=True).first)
    expect(page.get_by_role("heading", level=1)).to_have_text("Won")
    expect(page.locator("tbody tr")).to_have_count(2)
    if scripts:
        maria.check_accessible()
    with page.expect_download() as download:
        maria.clicks += 1
        page.get_by_role("link", name="Export CSV").click()
    assert len(download.value.path().read_text("utf-8-sig").splitlines()) == 3
    assert maria.clicks <= MAX_CLICKS


def test_fifty_sellers_are_onboarded_by_a_file_and_invitations(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "sellers.csv"
    lines = [f"seller{n},Seller {n},seller,south,seller{n}@example.com" for n in range(NEW_SELLERS)]
    file.write_text("\n".join(["username,name,role,team,e-mail", *lines]), "utf-8")
    root = Hand(site, "root")
    page = root.page
    root.click(page.get_by_role("link", name="Admin", exact=True))
    root.check_accessible()
    root.choose_file(page.get_by_label("Upload CSV"), file)
    root.click(page.get_by_role("button", name="Review changes"))
    expect(page.locator(".stats")).to_contain_text(f"New{NEW_SELLERS}")
    root.check_accessible()
    root.click(page.get_by_role("button", name="Import and create invitations"))
    root.check_accessible()
    with page.expect_download() as download:
        root.clicks += 1
        page.get_by_role("link", name="Export CSV").click()
    assert root.clicks <= MAX_CLICKS
    links = list(csv.DictReader(download.value.path().read_text("utf-8-sig").splitlines()))
    assert [row["username"] for row in links] == [f"seller{n}" for n in range(NEW_SELLERS)]
    # one of them opens the link, chooses a password and begins
    seller = site.browser.new_context(locale="en-US").new_page()
    seller.goto(links[7]["link"])
    expect(seller.get_by_role("heading", level=1)).to_have_text("Welcome, Seller 7")
    seller.locator("input[name=password]").fill("a password that nobody knows")
    seller.locator("input[name=again]").fill("a password that nobody knows")
    seller.get_by_role("button", name="Set password and sign in").click()
    expect(seller.get_by_role("heading", level=1)).to_have_text("Today")
    seller.goto(links[7]["link"])
    expect(seller.locator("main")).to_contain_text("already used")


def test_what_changed_overnight(site: Site) -> None:
    anna = Hand(site, "anna")
    page = anna.page
    expect(page.locator(".banner")).to_have_count(0)
    shutil.copytree(site.refit, site.models / ".coming")
    (site.models / ".coming").rename(site.models / "tuesday")
    for _ in range(60):  # the server looks every five seconds
        page.goto("/")
        if page.locator(".banner").count():
            break
        page.wait_for_timeout(500)
    expect(page.locator(".banner")).to_contain_text("new for your clients")
    anna.click(page.get_by_role("link", name="See what's new"))
    anna.check_accessible()
    expect(page.get_by_role("heading", level=1)).to_have_text("What's new")
    expect(page.locator("ol.news > li").first).to_be_visible()
    product = page.locator("ol.news .what a").first.inner_text()
    reasons = page.locator("ol.news .quiet bdi").all_inner_texts()
    assert all(reason.strip().endswith(".") for reason in reasons)
    anna.click(page.get_by_role("link", name="Dropped"))
    anna.click(page.get_by_role("link", name="New", exact=False).first)
    anna.click(page.locator("ol.news .what a").first)
    expect(page.locator("main")).to_contain_text(product)
    assert anna.clicks <= MAX_CLICKS
    page.goto("/")
    expect(page.locator(".banner")).to_have_count(0)  # seen
    page.goto("/accounts")
    expect(page.locator(".tag.new").first).to_have_text("New")
