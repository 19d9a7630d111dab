"""Names, bodies, headers and addresses of somebody who means harm, or of a careless program."""

from __future__ import annotations

import csv
import html
import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx2
import numpy as np
import pytest
from sites import Site, both_databases, text_of
from sqlalchemy import select

from ocular import Interactions, OCuLaR
from ocular.explain.names import client_name
from ocular.web.static_files import address
from ocular.web.tables import LABEL, Assignment, Feedback, User

OpenSite = Callable[..., Site]
SCRIPT = "<script>alert(1)</script>"
CLIENTS = [
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "'; DROP TABLE users; --",
    "../../etc/passwd",
    "{{ 7 * 7 }}{% raw %}",
    "שלום עולם בע״מ",
    "شركة \u202egnp.exe\u202c",
    "日本電気株式会社 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 👩‍🔧",
    "a&b=c?d#e%20+/\\",
    "Ltd\r\nSet-Cookie: x=y",
    "L" * 500,
]
PRODUCTS = [f"{name} №{n}" for n, name in enumerate(CLIENTS[:6])] + ["</title><script>alert(2)</script>"]


@pytest.fixture(scope="module")
def hostile_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every name is dangerous somewhere."""
    users = [u for u in range(len(CLIENTS)) for _ in range(3)]
    items = [(u + step) % len(PRODUCTS) for u in range(len(CLIENTS)) for step in (0, 1, 3)]
    history = Interactions.from_pairs(users, items, user_labels=CLIENTS, item_labels=PRODUCTS)
    folder = tmp_path_factory.mktemp("hostile")
    OCuLaR(3, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(history).save(folder / "hostile")
    return folder


@pytest.fixture
def hostile(open_site: OpenSite, hostile_model: Path) -> Site:
    site = open_site(models=hostile_model)
    with site.database.writing() as transaction:
        ana = transaction.scalars(select(User).where(User.name == "ana")).one()
        ana.full_name = SCRIPT
        transaction.add_all(Assignment(client=name, user_id=ana.id) for name in CLIENTS)
    return site


def check_inert(page: httpx2.Response) -> None:
    """No tag or attribute but ours."""
    assert "html" in page.headers["content-type"]
    assert re.findall(r"<script[^>]*>", page.text) == [f'<script src="{address("app.js")}" defer>']
    tags = re.findall(r"<[a-zA-Z/!][^>]*>", page.text)
    assert not [tag for tag in tags if re.match(r'</?(img|i|iframe|object)\b|<svg(?! class="[\w ]+" viewBox=)', tag)]
    assert not re.search(r"\son\w+\s*=", re.sub(r'"[^"]*"', '""', " ".join(tags)))


@pytest.mark.parametrize("client", CLIENTS, ids=range(len(CLIENTS)))
def test_names_are_shown_as_text_on_every_page(hostile: Site, client: str) -> None:
    browser = hostile.browser("ana")
    product = hostile.open_product(client)
    pair = {"client": client, "product": product}
    answer = browser.submit("/feedback", **pair, status="pursuing", reason=SCRIPT, note="</textarea><script>x</script>")
    assert answer.status_code == 303
    followed = browser.get(answer.headers["location"])
    naming = [
        browser.get("/accounts"),
        browser.get("/client", params={"name": client}),
        browser.get("/calls"),
        followed,
    ]
    pages = [
        *naming,
        browser.get("/"),
        browser.get("/accounts", params={"search": client}),
        browser.get("/accounts", params={"product": client}),
        browser.get("/client/brief", params={"name": client}),
        browser.get("/prospect", params={"has": PRODUCTS[0], "attribute.x": SCRIPT}),
        browser.get("/prospect", params={"has": PRODUCTS[0]}),
        browser.get("/new-product", params={"buyers": client.splitlines()[0]}),
        browser.get("/recommendation", params=pair | {"also": PRODUCTS[0]}),
        browser.get("/calls", params={"seller": client}),
        hostile.browser("root").get("/calls"),
        browser.get("/patterns"),
        browser.get("/catalog", params={"search": client}),
        *(browser.get("/product", params={"name": name, "attribute": client, "seller": client}) for name in PRODUCTS),
        browser.get("/whitespace", params={"seller": client}),
        hostile.browser("root").get("/whitespace"),
        browser.get("/search", params={"q": client}),
        browser.get("/patterns", params={"search": client, "client_value": client, "product_value": client}),
        *(browser.get("/pattern", params={"number": n}) for n in hostile.services.served.patterns),
        browser.get("/patterns/tour"),
        *(browser.get("/patterns/tour", params={"number": n}) for n in hostile.services.served.patterns),
        hostile.browser("root").get("/team"),
        hostile.browser("root").get("/admin"),
        hostile.browser("root").get("/admin", params={"search": client}),
        hostile.browser("root").get("/performance", params={"seller": client, "team": client}),
        browser.get("/performance"),
        browser.get("/performance/rows"),
        browser.get("/performance/rows", params={"reason": client, "pattern": client, "stage": "open"}),
        browser.get("/news", params={"seller": client}),
        hostile.browser("root").get("/admin/audit"),
    ]
    for page in pages:
        assert page.status_code == 200
        check_inert(page)
    shown = " ".join(client.split())
    for page in naming:
        assert "".join(c for c in shown if c not in "\u202e\u202c") in text_of(page).replace("\r\n", " ").translate(
            {0x202E: None, 0x202C: None}
        )
    assert hostile.count(Feedback) == 1
    assert len(hostile.interactions.user_labels) == len(CLIENTS)


def test_names_are_text_in_whats_new_and_in_a_file_of_users(
    open_site: OpenSite, hostile_model: Path, tmp_path: Path
) -> None:
    models = Path(shutil.copytree(hostile_model, tmp_path / "models"))
    users, items = (
        [u for u in range(len(CLIENTS)) for _ in range(2)],
        [u % 5 + n for u in range(len(CLIENTS)) for n in (0, 1)],
    )
    history = Interactions.from_pairs(users, items, user_labels=CLIENTS, item_labels=PRODUCTS[:6])
    OCuLaR(3, 0.1, random_state=0).fit(history).save(models / "second")
    site = open_site(models=models)
    site.services.news.wait()
    root = site.browser("root")
    for kind in ("new", "dropped", "moved"):
        page = root.get("/news", params={"kind": kind})
        assert page.status_code == 200
        check_inert(page)
        assert kind == "moved" or text_of(page).count("/client?name=") > 5
    file = io.StringIO()
    csv.writer(file).writerows(
        [("username", "name", "team"), *((f"u{n}", c[:80], c[:80]) for n, c in enumerate(CLIENTS))]
    )
    answer = root.post(
        "/admin/users/preview", data={"csrf": root.csrf}, files={"file": (SCRIPT, file.getvalue().encode())}
    )
    review = root.get(answer.headers["location"])
    check_inert(review)
    key = re.search(r'name="key" value="([^"]+)"', review.text)
    assert key is not None
    check_inert(root.get(root.submit("/admin/users/import", key=key[1]).headers["location"]))
    check_inert(root.get("/admin/audit"))


def test_a_link_in_the_list_leads_to_its_client(hostile: Site) -> None:
    browser = hostile.browser("ana")
    links = re.findall(r'href="(/client\?name=[^"]*)"', text_of(browser.get("/accounts")))
    assert len(links) == len(CLIENTS)
    pages = [browser.get(link) for link in links]
    titles = [re.search(r"<h1><bdi>(.*?)</bdi></h1>", page.text, re.DOTALL) for page in pages]
    assert {html.unescape(title[1]) for title in titles if title} == {client_name(client) for client in CLIENTS}


@pytest.mark.parametrize("name", [*CLIENTS[:6], "\0", "x\0y", "L" * 20_000, "%00", "\u202e", "\ud7ff"])
def test_a_name_that_nobody_has_is_not_found_and_not_run(site: Site, name: str) -> None:
    browser = site.browser("ana")
    pages = [
        browser.get("/client", params={"name": name}),
        browser.get("/recommendation", params={"client": name, "product": name}),
        browser.submit("/feedback", client=name, product=name, status="won"),
    ]
    for page in pages:
        assert page.status_code in {404, 422}
        check_inert(page)
    assert site.count(User) == 5
    assert site.browser("root").get("/").status_code == 200


@pytest.mark.parametrize(
    ("database_url", "bad"),
    [
        *(("sqlite", bad) for bad in ("\0", "x\0y", "\ufffe", "'; DROP TABLE users; --", "é" * 150)),
        *(("postgresql", bad) for bad in ("\ufffe", "'; DROP TABLE users; --", "é" * 150)),
        *(("postgresql", bad) for bad in ("\0", "x\0y")),
    ],
    indirect=["database_url"],
)
def test_text_that_a_database_may_not_take_is_no_failure_of_ours(site: Site, bad: str) -> None:
    client, browser, root = site.clients("ana")[0], site.browser("ana"), site.browser("root")
    pair = {"client": client, "product": site.open_product(client), "status": "won"}
    answers = [
        site.stranger().sign_in(bad, bad),
        browser.submit("/feedback", **pair, note=bad, reason=bad),
        site.program("ana").post("/api/v1/feedback", json=pair | {"note": bad}),
        root.get("/admin/audit", params={"name": bad}),
        root.submit("/admin/users", name="new", role="seller", password="a long password", full_name=bad, team=bad),
        root.submit("/admin/users/password", name=bad, password="a long password"),
        root.submit("/admin/tokens", name="ana", label=bad),
    ]
    assert [answer.status_code for answer in answers if answer.status_code >= 500] == []
    assert site.count(User) >= 5


@pytest.mark.parametrize(
    "number",
    ["-1", "0", "9" * 12, "9" * 30],
)
def test_numbers_beyond_the_database_are_no_failure_of_ours(site: Site, number: str) -> None:
    root = site.browser("root")
    assert root.submit("/admin/tokens/revoke", number=number).status_code < 500
    assert root.get("/pattern", params={"number": number}).status_code < 500
    assert root.get("/admin/audit", params={"page": number}).status_code < 500


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The longest names that can be kept, in a script of three bytes a letter, and one that is longer."""
    letters = np.random.default_rng(0).integers(0x4E00, 0x9FA5, size=(5, LABEL))
    names = ["".join(map(chr, row)) for row in letters]
    history = Interactions.from_pairs(
        [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], user_labels=[*names[:2], names[2] * 2], item_labels=names[3:]
    )
    folder = tmp_path_factory.mktemp("long")
    OCuLaR(2, 0.1, random_state=0, tol=1e-3, max_iter=500).fit(history).save(folder / "long")
    return folder


def use(site: Site, client: str) -> list[int]:
    """Assign, open and judge a client."""
    root, product = site.browser("root"), str(site.interactions.item_labels[0])
    return [
        root.assign(f"client,seller\n{client},ana\n").status_code,
        root.get("/client", params={"name": client}).status_code,
        root.submit("/feedback", client=client, product=product, status="won").status_code,
    ]


@both_databases
def test_the_longest_names_can_be_assigned_and_judged(open_site: OpenSite, long_names: Path) -> None:
    site = open_site(models=long_names)
    assert use(site, str(site.interactions.user_labels[0])) == [303, 200, 303]


@both_databases
def test_a_name_that_is_too_long_to_be_kept_is_no_failure_of_ours(open_site: OpenSite, long_names: Path) -> None:
    site = open_site(models=long_names)
    assert [status for status in use(site, str(site.interactions.user_labels[2])) if status >= 500] == []
