"""Every route × everybody who may ask: the cells come from the routes themselves, so that none can be forgotten."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx2
import pytest
from sites import PASSWORD, Browser, Site, running, sqlite

from ocular.web.app import API, create_app
from ocular.web.assignments import Preview
from ocular.web.dependencies import EVERYBODY, Allowed, check_csrf
from ocular.web.middleware import SAFE
from ocular.web.settings import Settings
from ocular.web.tables import AuditEntry, Role, Scope
from ocular.web.uploads import Kind
from ocular.web.user_import import UserPreview

PUBLIC = {
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("GET", "/sign-in/sso"),
    ("GET", "/sign-in/sso/callback"),  # the signed cookie says whose sign-on it is
    ("GET", "/sign-in/once/{token}"),  # the token says who may
    ("GET", "/invitation/{token}"),
    ("POST", "/invitation/{token}"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/static"),
}
LEADERS, ADMINS = {Role.MANAGER, Role.ADMIN}, {Role.ADMIN}
NARROW = {  # all others are for everybody who has signed in
    "/pattern/name": LEADERS,
    "/team": LEADERS,
    "/team/assignments": LEADERS,
    "/team/assignments/preview": LEADERS,
    "/team/assignments/match": LEADERS,
    "/team/assignments.csv": LEADERS,
    "/team/feedback.csv": LEADERS,
    "/metrics": ADMINS,
    "/admin": ADMINS,
    "/admin/audit": ADMINS,
    "/admin/audit.csv": ADMINS,
    "/admin/tokens": ADMINS,
    "/admin/tokens/revoke": ADMINS,
    "/admin/users": ADMINS,
    "/admin/users/active": ADMINS,
    "/admin/users/import": ADMINS,
    "/admin/users/invitations.csv": ADMINS,
    "/admin/users/link": ADMINS,
    "/admin/users/invite": ADMINS,
    "/admin/users/preview": ADMINS,
    "/admin/users/edit": ADMINS,
    "/admin/users/password": ADMINS,
    "/admin/users/sign-out": ADMINS,
}
MONITORING = {"/metrics", f"{API}/openapi.json"}  # open to sessions and to tokens: test_requests.py
SINGLE_SIGN_ON = {"/sign-in/sso/again", "/admin/users/link"}
ENDING = {"/sign-out", "/account/password"}  # the session
BY_ROLE = {Role.SELLER: "ana", Role.MANAGER: "max", Role.ADMIN: "root"}


class Way(NamedTuple):
    """A method and a path, and who may go there by what."""

    method: str
    path: str
    roles: frozenset[Role] | None  # None: no rule is declared
    by: str | None
    checks_csrf: bool
    scope: str | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def flat(routes: Iterable[Any]) -> Iterator[Any]:
    """Routes, those of included routers too."""
    for route in routes:
        if hasattr(route, "effective_route_contexts"):
            yield from route.effective_route_contexts()
        elif getattr(route, "routes", None):
            yield from flat(route.routes)
        else:
            yield route


def calls(dependant: Any) -> Iterator[Any]:
    for found in dependant.dependencies:
        yield found.call
        yield from calls(found)


def ways(routes: Iterable[Any]) -> Iterator[Way]:
    for route in flat(routes):
        needed = list(calls(route.dependant)) if hasattr(route, "dependant") else []
        rules = [call for call in needed if isinstance(call, Allowed)]
        roles = frozenset.intersection(*(rule.roles for rule in rules)) if rules else None
        by = rules[0].by if rules else None
        scope = getattr(rules[0], "scope", None) if rules else None
        for method in sorted((getattr(route, "methods", None) or {"GET"}) - {"HEAD"}):
            yield Way(method, route.path, roles, by, check_csrf in needed, scope)


WAYS = list(ways(create_app(Settings(Path("nowhere"))).routes))
CLOSED = [way for way in WAYS if way.roles is not None]
UNSAFE = [way for way in CLOSED if way.by == "session" and way.method not in SAFE]


@pytest.fixture(scope="module")
def shared(first_model: Path, sqlite_with_people: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    path = tmp_path_factory.mktemp("access") / "ocular.db"
    shutil.copy(sqlite_with_people, path)
    with running(Site(Settings(first_model, sqlite(path), watch=3600.0, allowed_hosts=("testserver",)))) as site:
        yield site


@pytest.fixture(scope="module")
def forgeries(shared: Site) -> dict[str, str]:
    stale = shared.browser("root")
    stale.submit("/sign-out")
    return {"none": "", "stale": stale.csrf, "foreign": shared.browser("ana").csrf, "empty": " "}


@pytest.fixture(scope="module")
def shared_root(shared: Site) -> Browser:
    return shared.browser("root")


def kept_file(site: Site, browser: Browser, content: str, kind: Kind = "assignments") -> str:
    """The key to a file that waits for the decision of whoever asks."""
    secret = browser.cookies.get(site.cookie)
    visitor = site.services.authenticator.visitor_of_session(secret, "") if secret else None
    if visitor is None:
        return ""
    preview = Preview(new=1) if kind == "assignments" else UserPreview()
    return site.services.uploads.store(visitor.user.id, "clients.csv", content.encode(), preview, kind).key


def ask(site: Site, browser: Browser, way: Way, csrf: str = "") -> httpx2.Response:
    """With everything that the route needs."""
    client = site.clients("ana")[0]
    pair = {"client": client, "product": site.open_product(client)}
    csv = f'client,seller\n"{client}",ana\n'
    key, users_key = kept_file(site, browser, csv), kept_file(site, browser, "username\nben\n", "users")
    number = next(iter(site.services.served.patterns))
    needs: dict[str, dict[str, Any]] = {
        "GET /client": {"params": {"name": client}},
        "GET /client/brief": {"params": {"name": client}},
        "GET /recommendation": {"params": pair},
        "GET /pattern": {"params": {"number": number}},
        "GET /product": {"params": {"name": pair["product"]}},
        "GET /product/clients.csv": {"params": {"name": pair["product"]}},
        "POST /product/calls": {"data": {"product": pair["product"], "chosen": json.dumps([client, ""])}},
        "POST /pattern/name": {"data": {"number": number, "name": "Shops"}},
        "POST /feedback": {"data": pair | {"status": "pursuing"}},
        "POST /team/assignments": {"data": {"key": key}},
        "POST /team/assignments/preview": {"data": {}, "files": {"file": ("clients.csv", csv.encode())}},
        "POST /team/assignments/match": {"data": {}},
        "POST /admin/users/invite": {"data": {"name": "ben"}},
        "POST /admin/users/import": {"data": {"key": users_key}},
        "POST /admin/users/preview": {"data": {}, "files": {"file": ("users.csv", b"username\nnew\n")}},
        "POST /admin/users": {"data": {"name": "new", "role": "seller", "password": "a password of a new one"}},
        "POST /admin/users/edit": {"data": {"name": "ben", "role": "seller", "team": "north"}},
        "POST /account/password": {"data": {"old": PASSWORD, "new": PASSWORD}},
        "POST /admin/users/password": {"data": {"name": "ben", "password": "a new password for ben"}},
        "POST /admin/users/active": {"data": {"name": "ben", "active": "true"}},
        "POST /admin/users/link": {"data": {"name": "ben", "subject": "s-1"}},
        "POST /admin/users/sign-out": {"data": {"name": "ben"}},
        "POST /admin/tokens": {"data": {"name": "ben", "label": "a program"}},
        "POST /admin/tokens/revoke": {"data": {"number": "1"}},
        "POST /sign-out": {"data": {}},
        f"GET {API}/recommendations": {"params": {"client": client}},
        f"GET {API}/due": {"params": {"client": client}},
        f"GET {API}/explanation": {"params": pair},
        f"POST {API}/feedback": {"json": pair | {"status": "pursuing"}},
        f"POST {API}/prospects": {"json": {"purchases": [pair["product"]]}},
        f"POST {API}/new-products": {
            "json": {"attributes": {"family": str(site.interactions.item_attributes["family"][0])}}
        },
    }
    given = needs.get(str(way), {})
    if csrf and "data" in given:
        given["data"] |= {"csrf": csrf}
    return browser.request(
        way.method, way.path.replace(":path", "").format(number=number, product=pair["product"]), **given
    )


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_route_says_who_may_use_it(way: Way) -> None:
    if (way.method, way.path) in PUBLIC:
        assert way.roles is None
        return
    narrow = NARROW | ({f"{API}/feedback": LEADERS} if way.method == "GET" else {})
    assert way.roles == narrow.get(way.path, frozenset(EVERYBODY))
    assert way.by == ("token" if way.path.startswith(API) else "session")
    assert way.checks_csrf == (way in UNSAFE)


PROGRAMS = [way for way in CLOSED if way.by == "token" and way.path not in MONITORING]


@pytest.mark.parametrize("way", PROGRAMS, ids=str)
def test_a_program_needs_the_scope_of_the_route(shared: Site, way: Way) -> None:
    assert way.scope == (Scope.FEEDBACK if (way.method, way.path) == ("POST", f"{API}/feedback") else Scope.READ)
    (other,) = set(Scope) - {way.scope}
    assert ask(shared, shared.program("root", way.scope), way).status_code in {200, 201}
    refused = ask(shared, shared.program("root", other), way)
    assert refused.status_code == 403
    assert refused.json() == {"error": f"expected a token with the scope {way.scope}; create one under Admin"}
    documented = shared.app.openapi()["paths"][way.path.replace(":path", "")][way.method.lower()]
    assert documented["security"] == [{"HTTPBearer": [way.scope]}]


def test_the_table_of_routes_is_the_whole_application() -> None:
    """A way to walk routes that finds nothing would pass every test here."""
    assert {path for _, path in PUBLIC} | NARROW.keys() < {way.path for way in WAYS}
    assert len(CLOSED) > 20
    assert len(UNSAFE) > 8


@pytest.mark.parametrize("way", CLOSED, ids=str)
def test_nobody_is_led_to_the_sign_in(shared: Site, way: Way) -> None:
    answer = ask(shared, shared.stranger(), way)
    if way.by == "token":
        assert answer.status_code == 401
        assert answer.json() == {"error": "expected a valid token: Bearer …"}
        return
    if str(way) == "POST /feedback":  # on the page itself, with what was written
        assert answer.status_code == 401
        assert 'action="/sign-in"' in answer.text
        return
    assert answer.status_code == 303
    path, _, then = answer.headers["location"].partition("?next=")
    assert path == "/sign-in"
    assert unquote(then) == (answer.request.url.raw_path.decode() if way.method == "GET" else "")


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("way", CLOSED, ids=str)
def test_a_route_is_open_to_its_roles_and_to_no_others(shared: Site, way: Way, role: Role) -> None:
    if way.by == "token":
        answer = ask(shared, shared.program(BY_ROLE[role]), way)
    else:
        browser = shared.browser(BY_ROLE[role])
        answer = ask(shared, browser, way, browser.csrf)
    if role in way.roles:
        if way.path in SINGLE_SIGN_ON:  # test_sso.py opens them on a site that has it
            assert answer.status_code == 404
            return
        assert answer.status_code in {200, 201, 303}, answer.text
        assert not answer.headers.get("location", "").startswith("/sign-in") or way.path in ENDING
    else:
        assert answer.status_code == 403
        assert "have access" in answer.text


@pytest.mark.parametrize("way", [way for way in CLOSED if way.path not in MONITORING], ids=str)
def test_a_session_opens_no_program_route_and_a_token_no_page(shared: Site, way: Way) -> None:
    wrong = shared.browser("root") if way.by == "token" else shared.program("root")
    led = 401 if way.by == "token" or str(way) == "POST /feedback" else 303
    assert ask(shared, wrong, way).status_code == led


@pytest.mark.parametrize("forgery", ["none", "stale", "foreign", "empty"])
@pytest.mark.parametrize("way", UNSAFE, ids=str)
def test_a_form_that_is_not_ours_changes_nothing(
    shared: Site, shared_root: Browser, forgeries: dict[str, str], way: Way, forgery: str
) -> None:
    browser, given = shared_root, forgeries[forgery]
    before = shared.count(AuditEntry)
    answer = ask(shared, browser, way, given)
    assert answer.status_code == 403
    assert "This page expired" in answer.text
    assert shared.count(AuditEntry) == before  # every change is audited
    assert browser.signed_in()
