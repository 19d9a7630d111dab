"""The application as people use it: a real server, a real browser, a mouse, a keyboard, a phone and no JavaScript."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_support import PASSWORD, Server, add_user, needs_chromium, serving, small_model, start_chromium
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from ocular import Advisor
from ocular.advisor import Recommendation
from ocular.web.templating import percent

PEOPLE = {"anna": ("seller", "Anna Berg"), "ben": ("seller", "Ben Ito"), "maria": ("manager", "Maria Rossi"),
          "root": ("admin", "Ruth Root")}  # fmt: skip
EACH = 20  # clients of a seller; the others are nobody's
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}

pytestmark = needs_chromium


class Site(NamedTuple):
    """A server with people and assignments, and a browser that they are signed in with."""

    server: Server
    browser: Browser
    advisor: Advisor
    signed_in: dict[str, Any]  # cookies by name

    @property
    def clients(self) -> list[str]:
        """Those of Anna, then those of Ben, then those of nobody."""
        return [str(label) for label in self.advisor.model.interactions_.user_labels]

    def case(self, clients: slice = slice(0, EACH)) -> Recommendation:
        """The best recommendation with a reason among these clients."""
        best = [self.advisor.recommend(client, 1)[0] for client in self.clients[clients]]
        return max((found for found in best if found.explanation.reasons), key=lambda found: found.confidence)


OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    database = f"sqlite:///{folder / 'web.db'}"
    advisor = Advisor(small_model(folder / "models" / "first"))
    for name, (role, full_name) in PEOPLE.items():
        add_user(database, name, role, "" if role == "admin" else "north", full_name)
    with serving(folder / "models", database, folder / "log") as server, sync_playwright() as playwright:
        browser = start_chromium(playwright.chromium)
        found = Site(server, browser, advisor, {})
        for name in PEOPLE:
            with browser.new_context(base_url=server.url) as context:
                page = context.new_page()
                sign_in(page, name)
                found.signed_in[name] = context.storage_state()
                if name == "maria":
                    assign(page, found.clients)
        yield found
        browser.close()


@pytest.fixture
def open_page(site: Site) -> Iterator[OpenPage]:
    """A new browser window of somebody; at the end no page may have complained or asked another host for anything."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        # a page that is refused on purpose is told of in the console too
        if message.type in {"error", "warning"} and "the server responded with a status of 4" not in message.text:
            complaints.append(message.text)

    def look(request: Request) -> None:
        if not request.url.startswith((f"{site.server.url}/", "data:")):
            complaints.append(f"asked {request.url}")

    def open_one(name: str | None = None, **options: Any) -> Page:
        state = None if name is None else site.signed_in[name]
        context = site.browser.new_context(
            base_url=site.server.url, storage_state=state, **{"viewport": WIDE, **options}
        )
        contexts.append(context)
        context.set_default_timeout(10_000)
        context.on("request", look)
        context.on("console", complain)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        return context.new_page()

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


def sign_in(page: Page, name: str) -> None:
    page.goto("/sign-in")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Today")


def assign(page: Page, clients: list[str]) -> None:
    """The manager's file: the first clients to Anna, the next to Ben."""
    choose_file(page, [(client, "anna" if n < EACH else "ben") for n, client in enumerate(clients[: 2 * EACH])])
    expect(page.locator("main")).to_contain_text(f"New{2 * EACH}")
    page.get_by_role("button", name="Assign").click()
    expect(page.get_by_role("status")).to_have_text("Assignments saved.")
    row = page.get_by_role("row").filter(has_text="Anna Berg")
    expect(row.get_by_role("cell").nth(2)).to_have_text(str(EACH))


def choose_file(page: Page, rows: list[tuple[str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([("client", "seller"), *rows])
    page.goto("/team")
    file = {"name": "assignments.csv", "mimeType": "text/csv", "buffer": text.getvalue().encode()}
    page.get_by_label("Upload CSV").set_input_files(file)  # type: ignore[arg-type]
    page.get_by_role("button", name="Review changes").click()


def address(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"


def n_pursued(page: Page) -> int:
    """How many recommendations the manager's page of results counts as pursued."""
    page.goto("/performance")
    fact = page.locator("dl.stats > div").filter(has=page.locator("dt", has_text=re.compile("^Pursued$")))
    return int(fact.locator("dd").first.inner_text().replace(",", ""))


# --------------------------------------------------------------------------------------------------------- a day's work


def test_seller_finds_reads_and_judges_and_the_manager_sees_it(site: Site, open_page: OpenPage) -> None:
    manager, page, best = open_page("maria"), open_page(), site.case()
    client, product = str(best.client), str(best.product)
    before = n_pursued(manager)

    sign_in(page, "anna")
    page.get_by_role("link", name="Accounts", exact=True).click()
    expect(page.locator("main")).to_contain_text(f"{EACH} clients. Sorted by expected value.")
    expect(page.locator("tbody tr")).to_have_count(EACH)
    page.get_by_label("Client").fill(client.upper())
    page.get_by_role("button", name="Apply").first.click()
    fitting = sum(client.casefold() in name.casefold() for name in site.clients[:EACH])
    expect(page.locator("tbody tr")).to_have_count(fitting)
    page.get_by_role("link", name=client, exact=True).click()

    expect(page.get_by_role("heading", level=1)).to_have_text(client)
    bought = site.advisor.model.interactions_.by_user[site.clients.index(client)]
    expect(page.locator(".stats > div").first).to_have_text(re.compile(rf"Products owned\s*{len(bought)}$"))
    card = page.locator("article").first
    expect(card).to_contain_text(percent(best.confidence))
    card.get_by_role("link", name=product, exact=True).click()

    reason = best.explanation.summary().shown_reasons[0]
    told = page.locator(".reason").first
    expect(told).to_contain_text(f"{len(reason.similar_users)} of {reason.group} similar clients bought this.")
    expect(told).to_contain_text(site.advisor.model.interactions_.item_labels[reason.owned_items[0]])
    page.get_by_label("Pursuing").check()
    page.get_by_label("Note").fill("call <b>Mr Ito</b> & co")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".history li").first).to_contain_text(re.compile("^Pursuing .* by Anna Berg"))
    expect(page.locator(".history li").first).to_contain_text("call <b>Mr Ito</b> & co")
    page.goto(address("/client", name=client))
    expect(page.locator("article").first.locator(".tag").first).to_have_text("Pursuing")

    assert n_pursued(manager) == before + 1
    manager.goto("/team")
    row = manager.get_by_role("row").filter(has_text=client).filter(has_text="Anna Berg")
    expect(row).to_contain_text("Anna Berg")
    expect(row.get_by_role("link", name=client)).to_be_visible()


def test_judged_on_the_clients_page(site: Site, open_page: OpenPage) -> None:
    client, page = site.clients[EACH], open_page("ben")
    page.goto(address("/client", name=client))
    card = page.locator("article").last
    product = card.get_by_role("link").inner_text()
    card.get_by_text("Update status").click()
    card.get_by_label("Not a fit").check()
    card.get_by_label("No need").check()
    card.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(client)
    expect(page.get_by_role("status")).to_have_text(f"Status updated: {product}")
    expect(page.locator(".closed li").filter(has_text=product).locator(".tag")).to_have_text("Not a fit")
    page.reload()
    expect(page.get_by_role("status")).to_be_empty()  # said once
    page.get_by_role("link", name=product, exact=True).click()
    expect(page.locator(".history li")).to_contain_text(re.compile("^Not a fit .* by Ben Ito: No need"))


def test_what_if_the_client_also_had_something(site: Site, open_page: OpenPage) -> None:
    best, model = site.case(), site.advisor.model
    client, product = str(best.client), str(best.product)
    owned = {*best.explanation.client_items.tolist(), best.explanation.item}
    pattern = next(p for p in model.coclusters() if p.index == best.explanation.reasons[0].cocluster)
    other = str(model.interactions_.item_labels[next(i for i in pattern.items if i not in owned)])
    supposed = site.advisor.explain(client, product, also=[other]).confidence

    page = open_page("anna")
    page.goto(address("/recommendation", client=client, product=product))
    page.get_by_label("If they also owned").fill(other)
    page.get_by_role("button", name="Recalculate").click()
    expect(page.locator("main")).to_contain_text(f"Assuming they also own {other}.")
    fact = page.locator("dl.facts > div").first
    expect(fact).to_contain_text(f"{percent(supposed)} was {percent(best.confidence)}")
    page.get_by_role("link", name="Reset").click()
    expect(fact.locator("dd")).to_have_text(percent(best.confidence))


def test_evidence_tells_names_to_the_mouse_and_to_arrow_keys(site: Site, open_page: OpenPage) -> None:
    best, page = site.case(), open_page("anna")
    page.goto(address("/recommendation", client=str(best.client), product=str(best.product)))
    card = page.locator(".reason").first
    line, cells = card.locator(".tell"), card.get_by_role("gridcell")
    products = card.locator("thead th:not(.corner)").all_inner_texts()
    clients = card.locator("tbody th").all_inner_texts()
    assert clients[0] == best.client
    assert products[-1] == best.product

    def told(row: int, column: int) -> str:
        words = {"bought": "bought", "not": "did not buy", "wanted": "is recommended"}
        kind = cells.nth(row * len(products) + column).get_attribute("class")
        return f"{clients[row]} {words[kind or '']} {products[column]}."

    cells.nth(len(products)).hover()
    expect(line).to_have_text(told(1, 0))
    last = len(products) - 1
    card.locator("[role=region]").focus()
    page.keyboard.press("Tab")
    expect(line).to_have_text(f"{best.client} is recommended {best.product}.")
    for key, row, column in (
        ("ArrowDown", 1, last), ("ArrowLeft", 1, last - 1), ("ArrowUp", 0, last - 1), ("ArrowUp", 0, last - 1),
        ("ArrowRight", 0, last), ("ArrowRight", 0, last), ("Home", 0, 0), ("ArrowDown", 1, 0), ("End", 1, last),
        ("Control+Home", 0, 0), ("Control+End", len(clients) - 1, last),
    ):  # fmt: skip
        page.keyboard.press(key)
        expect(line).to_have_text(told(row, column))
    expect(card.locator(".keys")).to_have_text("Bought Not bought Recommended")  # what squares mean stays in sight


def test_evidence_has_those_who_did_not_buy_and_counts_both(site: Site, open_page: OpenPage) -> None:
    best, page = site.case(), open_page("anna")
    page.goto(address("/recommendation", client=str(best.client), product=str(best.product)))
    reason, card = best.explanation.summary().shown_reasons[0], page.locator(".reason").first
    last = card.locator("tbody tr:not(.self) td:last-child")
    kinds = last.evaluate_all("cells => cells.map(cell => cell.className)")
    buyers, others = kinds.count("bought"), kinds.count("not")
    assert buyers
    assert others
    assert kinds == ["bought"] * buyers + ["not"] * others
    expect(card).to_contain_text(
        f"Showing {buyers} of {len(reason.similar_users)} buyers "
        f"and {others} of {reason.group - len(reason.similar_users)} non-buyers"
    )


def test_what_the_client_has_is_not_recommended(site: Site, open_page: OpenPage) -> None:
    client, history, page = site.clients[0], site.advisor.model.interactions_, open_page("anna")
    for item in history.by_user[0].tolist():
        page.goto(address("/recommendation", client=client, product=str(history.item_labels[item])))
        expect(page.get_by_text("Already owned")).to_be_visible()
        expect(page.locator("td.wanted, .key.wanted")).to_have_count(0)
        expect(page.get_by_label("Pursuing")).to_have_count(0)


def test_another_seller_finds_no_such_client(site: Site, open_page: OpenPage) -> None:
    best = site.case()
    client, product = str(best.client), str(best.product)
    page = open_page("ben")
    for wanted in (address("/client", name=client), address("/recommendation", client=client, product=product)):
        answer = page.goto(wanted)
        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_role("alert")).to_have_text("Client not found.")
        expect(page.get_by_role("link", name="Patterns")).to_be_visible()  # the way on
        assert client not in page.content()

    admin = open_page("root")
    admin.goto("/admin")
    admin.get_by_label("Label").fill("his CRM")
    admin.get_by_label("Runs as").select_option("ben")
    admin.get_by_role("button", name="Create token").click()
    bearer = f"Bearer {admin.locator('code').inner_text()}"
    own = site.clients[EACH]
    asked = {
        (client, "/api/v1/recommendations"): 404, (client, "/api/v1/explanation"): 404,
        (own, "/api/v1/recommendations"): 200, (own, "/api/v1/explanation"): 200,
    }  # fmt: skip
    answers = {
        (name, path): site.server.status(address(path, client=name, product=product), Authorization=bearer)
        for name, path in asked
    }
    assert answers == asked


# --------------------------------------------------------------------------------------------------------- every page


def go_to_client(page: Page, site: Site) -> None:
    page.goto(address("/client", name=site.clients[0]))
    page.locator("summary").first.click()


def go_to_recommendation(page: Page, site: Site) -> None:
    best = site.case()
    page.goto(address("/recommendation", client=str(best.client), product=str(best.product)))


def go_to_pattern(page: Page, _site: Site) -> None:
    page.goto("/patterns")
    page.locator("article a").first.click()


def go_to_preview(page: Page, site: Site) -> None:
    choose_file(page, [(site.clients[0], "anna")])


def go_to_mistakes(page: Page, site: Site) -> None:
    choose_file(page, [("nobody", "anna"), (site.clients[0], "nobody")])


def go_to_admin(page: Page, _site: Site) -> None:
    """With a user who is deactivated and a password to set."""
    page.goto("/admin")
    row = page.get_by_role("row").filter(has_text="gone")
    if row.count() == 0:
        page.get_by_label("Username", exact=True).fill("gone")
        page.get_by_label("Full name", exact=True).fill("G" * 80)
        page.get_by_label("Password (leave empty").fill(PASSWORD)
        page.get_by_role("button", name="Add user", exact=True).click()
        row.locator("summary").click()
        page.get_by_role("button", name="Deactivate gone").click()
        expect(page.get_by_role("status")).to_have_text("gone deactivated.")
    expect(row).to_contain_text("Deactivated")
    row.locator("summary").click()


PAGES: dict[str, tuple[str | None, str | Callable[[Page, Site], None]]] = {
    "sign-in": (None, "/sign-in"),
    "today": ("anna", "/"),
    "accounts": ("maria", "/accounts?min_chance=1"),
    "client": ("anna", go_to_client),
    "recommendation": ("anna", go_to_recommendation),
    "calls": ("anna", "/calls"),
    "won": ("maria", "/calls?stage=won"),
    "account": ("anna", "/account"),
    "patterns": ("anna", "/patterns"),
    "pattern": ("maria", go_to_pattern),
    "team": ("maria", "/team"),
    "assignments": ("maria", go_to_preview),
    "mistakes": ("maria", go_to_mistakes),
    "model": ("anna", "/model"),
    "admin": ("root", go_to_admin),
    "audit": ("root", "/admin/audit"),
    "refusal": ("anna", "/client?name=nobody"),
}


@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_and_fits(name: str, site: Site, open_page: OpenPage) -> None:
    """axe finds nothing serious or critical, in light and dark, on a desk and on a phone, where nothing sticks out."""
    person, way = PAGES[name]
    page = open_page(person)
    if callable(way):
        way(page, site)
    else:
        page.goto(way)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    problems = []
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            where = f"{scheme}, {size['width']} wide"
            for found in Axe().run(page).response["violations"]:
                if found["impact"] in {"serious", "critical"}:
                    nodes = [node["html"] for node in found["nodes"][:3]]
                    problems.append(f"{where}: {found['id']} ({found['help']}): {nodes}")
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > size["width"]:
            problems.append(f"{size['width']} wide: the page takes {wide}")
    assert not problems, "\n".join(problems)


def test_long_words_do_not_widen_any_page(site: Site, open_page: OpenPage) -> None:
    best, seller = site.case(), open_page("anna")
    client, product = str(best.client), str(best.product)
    seller.goto(address("/recommendation", client=client, product=product))
    seller.get_by_label("Lost").check()
    seller.get_by_label("Note").fill("first line\nsecond " + "n" * 3000)
    seller.get_by_role("button", name="Save", exact=True).click()
    note = seller.locator(".note").first
    expect(note).to_contain_text("nnn")
    assert "first line\nsecond" in note.inner_text()  # lines stay lines
    stranger = open_page()  # the audit log tells of names that nobody has
    stranger.goto("/sign-in")
    stranger.get_by_label("Username").fill("s" * 80)
    stranger.get_by_label("Password").fill(PASSWORD)
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_role("alert")).to_be_visible()
    for person, way in PAGES.values():
        page = open_page(person)
        way(page, site) if callable(way) else page.goto(way)
        expect(page.get_by_role("heading", level=1)).to_be_visible()  # there may still be a redirect under way
        for width in (1280, 390, 320):
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate("document.scrollingElement.scrollWidth")
            assert wide <= width, f"{page.url} takes {wide} of {width}"


def test_header_leaves_a_phone_its_room(open_page: OpenPage) -> None:
    """The navigation is one line that can be scrolled sideways, below the search and the sign-out."""
    for person, width in (("anna", 390), ("anna", 320), ("root", 390), ("root", 320)):
        page = open_page(person, viewport={"width": width, "height": 800})
        page.goto("/model")
        assert page.evaluate("document.querySelector('header').offsetHeight") <= 96
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        links = page.get_by_role("navigation", name="Main").get_by_role("link").all()
        expect(links[0]).to_be_in_viewport(ratio=1)
        links[-1].focus()
        expect(links[-1]).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(
    ("person", "path", "name"),
    [("anna", "/client?name=nobody", "Accounts"), ("anna", "/pattern?number=0", "Patterns"),
     ("root", "/admin/audit", "Admin"), ("root", "/team", "Team")],
)  # fmt: skip
def test_menu_marks_where_one_is(person: str, path: str, name: str, open_page: OpenPage) -> None:
    page = open_page(person)
    page.goto(path)
    expect(page.locator("header [aria-current]")).to_have_text(name)


def test_a_refused_form_is_not_said_to_be_saved(open_page: OpenPage) -> None:
    page = open_page("root")
    page.goto("/admin")
    page.get_by_label("Username", exact=True).fill("anna")  # there is one
    page.get_by_label("Password (leave empty").fill(PASSWORD)
    page.get_by_role("button", name="Add user", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.goto("/admin")
    expect(page.get_by_role("status")).to_be_empty()


# ------------------------------------------------------------------------------------------- without a mouse, a script


def tab_to(page: Page, selector: str, most: int = 150) -> None:
    """Press Tab until the focus is there."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"{most} times Tab do not lead to {selector}")


def test_keyboard_alone(site: Site, open_page: OpenPage) -> None:
    best = site.case()
    wanted = urlencode({"client": str(best.client)})
    page = open_page()
    page.goto("/")
    assert urlsplit(page.url).path == "/sign-in"
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type("anna")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Today")
    tab_to(page, "[href='/accounts']")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("My accounts")

    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Client")).to_be_focused()  # the first thing of the content

    page.keyboard.type(str(best.client))
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("1 matching client.")
    tab_to(page, "tbody th a")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(str(best.client))
    tab_to(page, "article a")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/recommendation?{wanted}**".replace("+", "*"))
    tab_to(page, "[name=status]")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # the third status
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # the first reason
    page.keyboard.press("Tab")
    page.keyboard.type("no mouse")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".history li").first).to_contain_text(re.compile("^Not a fit .* by Anna Berg: Too expensive"))


def test_without_javascript(site: Site, open_page: OpenPage) -> None:
    best = site.case(slice(EACH, 2 * EACH))
    client, product = str(best.client), str(best.product)
    page = open_page(java_script_enabled=False)
    sign_in(page, "ben")
    page.get_by_role("link", name="Accounts", exact=True).click()
    page.get_by_label("Client").fill(client)
    page.get_by_role("button", name="Apply").first.click()
    page.get_by_role("link", name=client, exact=True).click()
    page.locator("article").get_by_role("link", name=product, exact=True).click()
    expect(page.locator(".reason tbody td.wanted").first).to_have_text("recommended")
    page.get_by_label("If they also owned").fill(product)
    page.get_by_role("button", name="Recalculate").click()
    expect(page.locator("main")).to_contain_text("Assuming they also own")
    page.get_by_label("Lost").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".history li").first).to_contain_text(re.compile("^Lost .* by Ben Ito"))
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto("/")
    assert urlsplit(page.url).path == "/sign-in"


def test_wrong_password_is_told(open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/sign-in")
    page.get_by_label("Username").fill("anna")
    page.get_by_label("Password").fill("wrong horse battery staple")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("Incorrect username or password.")
