"""What one person may not see of the others' clients, wherever it could be shown."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from sites import NOBODYS, Browser, Site, label, text_of
from sqlalchemy import event, update

from ocular.web.settings import Names
from ocular.web.tables import Assignment, Feedback

OpenSite = Callable[..., Site]
MISSING = "No Such Company AG"


def answers(site: Site, browser: Browser, program: Browser, client: str) -> list[tuple[int, str]]:
    """All ways to ask for a client."""
    product = str(site.interactions.item_labels[0])
    pair = {"client": client, "product": product}
    found = [
        browser.get("/client", params={"name": client}),
        browser.get("/client/brief", params={"name": client}),
        browser.get("/recommendation", params=pair),
        browser.get("/recommendation", params=pair | {"also": product}),
        browser.submit("/feedback", **pair, status="won"),
        program.get("/api/v1/recommendations", params={"client": client}),
        program.get("/api/v1/due", params={"client": client}),
        program.get("/api/v1/explanation", params=pair),
        program.post("/api/v1/feedback", json=pair | {"status": "won"}),
        program.post("/api/v1/new-products", json={"buyers": [client]}),
    ]
    # the secret of a session is masked anew on every page
    return [(answer.status_code, re.sub(r'name="csrf" value="[^"]+"', "", answer.text)) for answer in found]


@pytest.mark.parametrize(
    ("visitor", "owner"), [("ana", "ben"), ("ana", "sue"), ("ana", None), ("sue", "ana"), ("max", "sue")]
)
def test_a_client_of_others_is_answered_like_one_that_does_not_exist(
    site: Site, visitor: str, owner: str | None
) -> None:
    browser, program = site.browser(visitor), site.program(visitor)
    client = site.clients(owner)[0] if owner else label(site.interactions, NOBODYS[0])
    others = answers(site, browser, program, client)
    assert others == answers(site, browser, program, MISSING)
    assert {status for status, _ in others} == {404}
    assert site.count(Feedback) == 0


@pytest.mark.parametrize("visitor", ["ana", "max"])
def test_the_database_is_asked_as_often_for_whoever_does_not_exist(site: Site, visitor: str) -> None:
    """Or the time of an answer would tell."""
    browser, statements = site.browser(visitor), []

    @event.listens_for(site.database._engine, "before_cursor_execute")
    def count(*given: object) -> None:
        statements.append(given[2])

    def asked(client: str) -> list[object]:
        statements.clear()
        assert browser.get("/client", params={"name": client}).status_code == 404
        return [*statements]

    theirs = asked(site.clients("sue")[0])
    assert theirs == asked(MISSING)
    assert any("assignments" in str(statement) for statement in theirs)


def test_the_nearest_names_are_not_suggested(site: Site) -> None:
    theirs = site.clients("sue")[0]
    for answer in (
        site.browser("ana").get("/client", params={"name": theirs[:-1]}),
        site.program("ana").get("/api/v1/recommendations", params={"client": theirs[:-1]}),
    ):
        assert answer.status_code == 404
        assert theirs not in text_of(answer)


@pytest.mark.parametrize("visitor", ["ana", "ben", "sue"])
def test_the_list_of_a_seller_is_what_they_own(site: Site, visitor: str) -> None:
    assert listed(site, site.browser(visitor)) == set(site.clients(visitor))


def test_a_manager_sees_the_team_and_what_is_nobodys(site: Site) -> None:
    nobodys = {label(site.interactions, row) for row in NOBODYS}
    assert listed(site, site.browser("max")) == {*site.clients("ana"), *site.clients("ben"), *nobodys}
    for client in (site.clients("ana")[0], label(site.interactions, NOBODYS[0])):
        assert site.browser("max").get("/client", params={"name": client}).status_code == 200


def test_an_administrator_sees_all(site: Site) -> None:
    assert listed(site, site.browser("root")) == set(site.interactions.user_labels)


def test_a_search_finds_only_ones_own(site: Site) -> None:
    mine, theirs = site.clients("ana")[0], site.clients("sue")[0]
    browser = site.browser("ana")
    assert names_on(site, browser.get("/accounts", params={"search": theirs})) == {theirs}  # in the box, and no more
    assert "No matching clients." in browser.get("/accounts", params={"search": theirs}).text
    assert names_on(site, browser.get("/accounts", params={"search": mine.upper()})) == {mine}


def listed(site: Site, browser: Browser) -> set[str]:
    """The clients on all pages of the list."""
    return set().union(*(names_on(site, browser.get("/accounts", params={"page": page})) for page in (1, 2)))


def names_on(site: Site, answer: httpx2.Response) -> set[str]:
    assert answer.status_code == 200
    return {name for name in site.interactions.user_labels if name in text_of(answer)}


# ------------------------------------------------------------------------------------------------ names of others


def everything(site: Site, visitor: str, clients: Iterable[str]) -> str:
    """All that a visitor can read of patterns and of some clients."""
    browser, program = site.browser(visitor), site.program(visitor)
    patterns = list(site.services.served.patterns)
    found = [browser.get(path) for path in ("/", "/accounts", "/calls", "/calls.csv")]
    found += [browser.get("/patterns"), program.get("/api/v1/patterns")]
    found += [browser.get(path) for path in ("/performance", "/performance/rows", "/performance.csv", "/news")]
    found += [browser.get("/catalog"), *(browser.get("/whitespace", params={"page": page}) for page in (1, 2))]
    for product in map(str, site.interactions.item_labels[:4]):
        found += [browser.get(path, params={"name": product}) for path in ("/product", "/product/clients.csv")]
        found += [program.get(f"/api/v1/products/{quote(product, safe='')}/clients")]
        found += [browser.get(path, params={"q": product}) for path in ("/search", "/search.json")]
    found += [browser.get("/pattern", params={"number": number}) for number in patterns]
    found += [browser.get("/patterns/tour"), browser.get("/patterns", params={"mine": "true"})]
    found += [browser.get("/patterns/tour", params={"number": number}) for number in patterns]
    found += [program.get(f"/api/v1/patterns/{number}") for number in patterns]
    for client in clients:
        found += [
            browser.get("/client", params={"name": client}),
            browser.get("/client/brief", params={"name": client}),
            program.get("/api/v1/recommendations", params={"client": client, "n": 10}),
        ]
        for product in (site.open_product(client, place) for place in range(2)):
            pair = {"client": client, "product": product}
            found += [
                browser.get("/recommendation", params=pair),
                browser.get("/recommendation", params=pair | {"also": str(site.interactions.item_labels[0])}),
                program.get("/api/v1/explanation", params=pair),
            ]
    assert all(answer.status_code == 200 for answer in found)
    pages = [text_of(answer) if "html" in answer.headers["content-type"] else answer.text for answer in found]
    return "\n".join(pages)


@pytest.mark.parametrize(
    ("names", "visitor", "readable"),
    [
        (Names.EVERYBODY, "ana", {"ana", "ben", "sue", None}),
        (Names.TEAM, "ana", {"ana", "ben"}),
        (Names.TEAM, "sue", {"sue"}),
        (Names.TEAM, "max", {"ana", "ben", None}),
        (Names.NOBODY, "ana", {"ana"}),
        (Names.NOBODY, "max", {"ana", "ben", None}),
        (Names.NOBODY, "root", {"ana", "ben", "sue", None}),
    ],
)
def test_names_are_read_by_those_who_may(
    open_site: OpenSite, names: Names, visitor: str, readable: set[str | None]
) -> None:
    site = open_site(names=names)
    clients = site.clients("sue" if visitor == "sue" else "ana")[:3]
    text = everything(site, visitor, clients)
    owners = site.owners()
    occurring = {name for name in site.interactions.user_labels if name in text}
    assert {owners.get(name) for name in occurring} == readable


def test_hidden_clients_count_without_a_name(open_site: OpenSite) -> None:
    site = open_site(names=Names.NOBODY)
    program = site.program("ana")
    reasons = [
        reason
        for client in site.clients("ana")
        for found in program.get("/api/v1/recommendations", params={"client": client}).json()
        for reason in found["reasons"]
    ]
    assert any(reason["n_hidden_clients"] for reason in reasons)
    for reason in reasons:
        assert len(reason["similar_clients"]) + reason["n_hidden_clients"] == reason["bought_by"]
        others = [row["name"] for row in reason["matrix"]["rows"] if not row["self"]]
        assert set(others) <= {"a client", *site.clients("ana")}


# ------------------------------------------------------------------------------------------------ moving


def test_a_moved_client_is_the_new_sellers_at_once(site: Site) -> None:
    client = site.clients("ana")[0]
    ana, ben, max_ = site.browser("ana"), site.browser("ben"), site.browser("max")
    assert client in listed(site, ana)
    assert max_.assign(f'client,seller\n"{client}",ben\n').status_code == 303
    assert [b.get("/client", params={"name": client}).status_code for b in (ana, ben)] == [404, 200]
    assert client not in listed(site, ana)
    assert client in listed(site, ben)


def test_a_client_moved_by_another_process_is_gone_at_once_and_from_lists_soon(
    open_site: OpenSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ocular.web.assignment_cache.MAX_AGE", 0.3)
    one, other = open_site(), open_site()
    client = one.clients("ana")[0]
    ana, ben = one.browser("ana"), one.browser("ben")
    assert client in listed(one, ana)
    other.browser("max").assign(f'client,seller\n"{client}",ben\n')
    assert [b.get("/client", params={"name": client}).status_code for b in (ana, ben)] == [404, 200]
    time.sleep(0.35)
    assert client not in listed(one, ana)
    assert client in listed(one, ben)


def test_a_client_moved_while_lists_are_read_is_not_missed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before the import must not be remembered after it."""
    cache, client = site.services.assignments, site.clients("ana")[0]
    ana, ben, genuine = site.visitor("ana"), site.visitor("ben"), cache._read
    moved = update(Assignment).where(Assignment.client == client).values(user_id=ben.user.id)

    def slow(*given: Any) -> Any:
        found = genuine(*given)
        monkeypatch.setattr(cache, "_read", genuine)
        site.change(moved)
        cache.invalidate()
        return found

    monkeypatch.setattr(cache, "_read", slow)
    clients_of, served = site.services.visibility.clients_of, site.services.served
    row = site.interactions.user_rows[client]
    assert row in clients_of(served, ana)  # it began before
    assert row not in clients_of(served, ana)
    assert row in clients_of(served, ben)


def test_filters_name_no_values_that_only_clients_of_others_have(site: Site) -> None:
    data, page = site.interactions, site.browser("ana").get("/accounts").text
    mine = [data.user_rows[client] for client in site.clients("ana")]
    for values in data.user_attributes.values():
        theirs = {str(value) for value in values} - {str(values[row]) for row in mine}
        for value in theirs:
            assert f':{html.escape(value)}"' not in page
