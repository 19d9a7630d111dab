"""Requests of somebody who means harm, or of a careless program: where from, how large, and what is answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from sites import Browser, Site

from ocular.web import app, static_files
from ocular.web.middleware import HEADERS
from ocular.web.tables import Feedback

OpenSite = Callable[..., Site]


def get_as_written(site: Site, path: str) -> tuple[int, dict[str, str], str]:
    """Clients tidy a path before they send it; somebody who means harm does not."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http", "method": "GET", "scheme": "https", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": b"", "headers": [(b"host", b"testserver")], "server": ("testserver", 443),
        "client": ("testclient", 50000), "http_version": "1.1",
    }  # fmt: skip

    given = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(given, None) or await anyio.sleep_forever()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    anyio.run(site.app, scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]).decode()


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/../../../../../../../../../etc/passwd", "/static/..\\app.py", "/static//etc/passwd",
     "/static/", "/static", "/../static/../app.py", "//evil.example", "//evil.example/..", "/app.py", "/docs", "/redoc",
     "/openapi.json", "/static/\0", "/static/" + "a" * 5000],
)  # fmt: skip
def test_no_file_but_ours_is_served(site: Site, path: str) -> None:
    status, headers, text = get_as_written(site, path)
    assert status in {303, 307, 404}
    assert not headers.get("location", "").startswith("//")
    assert "create_app" not in text
    assert "root:" not in text


def test_our_own_files_are(site: Site) -> None:
    assert get_as_written(site, "/static/app.js")[0] == 200  # or the test before would pass without any
    browser = site.stranger()
    for name, kind in (("app.js", "javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
        first = browser.get(f"/static/{name}")
        assert kind in first.headers["content-type"]
        assert first.content == (Path(app.__file__).parent / "static" / name).read_bytes()
        again = browser.get(f"/static/{name}", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert browser.get(f"/static/{name}", headers={"if-none-match": '"other"'}).status_code == 200
        assert first.headers["cache-control"] == "no-cache"
        named = browser.get(static_files.address(name))
        assert named.content == first.content
        assert "immutable" in named.headers["cache-control"]
        assert browser.get(f"/static/{name}?v=older").headers["cache-control"] == "no-cache"
    assert browser.post("/static/app.js").status_code == 405


def test_pages_are_compressed_and_carry_no_secret_twice(site: Site) -> None:
    browser = site.browser("ana")
    pages = [browser.get("/accounts") for _ in range(2)]
    assert {page.headers["content-encoding"] for page in pages} == {"gzip"}
    secrets = {value for page in pages for value in re.findall(r'name="csrf" value="([^"]+)"', page.text)}
    assert len(secrets) > 1  # else their size would tell what else they hold
    for secret in secrets:
        assert browser.post("/sign-out", data={"csrf": secret + "00"}).status_code == 403
    assert browser.post("/sign-out", data={"csrf": secrets.pop()}).status_code == 303


@pytest.mark.parametrize("cookie", ["", "x", "ü", '"', "a" * 5000, "\0", "; ;=", "../../x", "%00", "a b"])
def test_a_broken_cookie_is_nobody(site: Site, cookie: str) -> None:
    answer = site.stranger().get("/", headers={"cookie": f"{site.cookie}={cookie}".encode()})
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=/")


# ------------------------------------------------------------------------------------------------ other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "https://testserver.evil.example"},
        {"origin": "https://testserver:8443"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_a_request_from_another_site_is_refused(site: Site, headers: dict[str, str]) -> None:
    client, browser, program = site.clients("ana")[0], site.browser("ana"), site.program("ana")
    fields = {"client": client, "product": site.open_product(client), "status": "won", "csrf": browser.csrf}
    answers = [
        browser.post("/feedback", data=fields, headers=headers),
        program.post("/api/v1/feedback", json=fields, headers=headers),
        site.stranger().post("/sign-in", data={"name": "ana", "password": "x"}, headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [403] * 3
    assert answers[1].json() == {"error": "This request came from another site"}
    for page in (answers[0], answers[2]):
        assert page.headers["content-type"].startswith("text/html")
        assert "This request came from another site." in page.text
    assert site.count(Feedback) == 0
    assert browser.get("/", headers=headers).status_code == 200  # a link is no harm


@pytest.mark.parametrize("headers", [{"origin": "https://testserver"}, {"sec-fetch-site": "same-origin"}], ids=str)
def test_a_request_of_our_own_pages_is_not(site: Site, headers: dict[str, str]) -> None:
    browser = site.browser("ana")
    assert browser.post("/sign-out", data={"csrf": browser.csrf}, headers=headers).status_code == 303


@pytest.mark.parametrize("host", ["evil.example", "testserver.evil.example", "evil.example:443", "x@testserver", ""])
def test_the_host_name_of_a_stranger_is_refused_and_not_repeated(site: Site, host: str) -> None:
    for path in ("/", "/sign-in", "/static", "/team/", "/api/v1/patterns/", "/healthz"):
        answer = site.stranger().get(path, headers={"host": host})
        assert answer.status_code == 400
        assert "location" not in answer.headers
        assert "evil" not in answer.text
        check_headers(answer)


@pytest.mark.parametrize("host", ["testserver", "TestServer:8443", "localhost", "127.0.0.1:8000", "[::1]:8000"])
def test_own_host_names_are_served_with_any_port(site: Site, host: str) -> None:
    assert site.stranger().get("/sign-in", headers={"host": host}).status_code == 200


def test_every_host_name_is_served_if_asked_for(open_site: OpenSite) -> None:
    site = open_site(allowed_hosts=("*",))
    assert site.stranger().get("/sign-in", headers={"host": "other.example"}).status_code == 200


# ------------------------------------------------------------------------------------------------ sizes

MOST = 50_000


def chunks(size: int) -> Iterator[bytes]:
    yield b'{"client": "'
    for _ in range(size // 1000):
        yield b"x" * 1000
    yield b'"}'


@pytest.fixture
def small(open_site: OpenSite) -> Site:
    return open_site(max_body=MOST, max_upload=MOST)


SENDERS: dict[str, Callable[[Browser, int], httpx2.Response]] = {
    "declared": lambda b, n: b.post("/sign-in", data={"name": "x" * n}),
    "file": lambda b, n: b.post("/team/assignments/preview", data={"csrf": ""}, files={"file": ("x.csv", b"x" * n)}),
    "json": lambda b, n: b.post("/api/v1/feedback", json={"client": "x" * n}),
    "chunked": lambda b, n: b.post("/api/v1/feedback", content=chunks(n), headers={"content-type": "application/json"}),
    "chunked-form": lambda b, n: b.post(
        "/sign-in", content=chunks(n), headers={"content-type": "application/x-www-form-urlencoded"}
    ),
    "lying": lambda b, n: b.post(
        "/api/v1/feedback", content=b"x" * n, headers={"content-type": "application/json", "content-length": "10"}
    ),
    "nonsense": lambda b, n: b.post(
        "/api/v1/feedback", content=b"x" * n, headers={"content-type": "application/json", "content-length": "-1"}
    ),
}


@pytest.mark.parametrize("send", SENDERS)
def test_a_body_that_is_too_large_is_refused(small: Site, send: str) -> None:
    answer = SENDERS[send](small.stranger(), MOST + 1000)
    assert answer.status_code == 413
    assert "Too large: the limit is 50,000 bytes" in answer.text
    assert HEADERS.items() <= dict(answer.headers).items()


@pytest.mark.parametrize("send", SENDERS)
def test_a_body_of_a_good_size_is_looked_at(small: Site, send: str) -> None:
    assert SENDERS[send](small.stranger(), MOST - 2000).status_code in {303, 401, 422}


@pytest.mark.parametrize(("path", "kind"), [("/sign-in", "text/html"), ("/api/v1/feedback", "application/json")])
def test_only_a_file_with_assignments_may_be_large(site: Site, path: str, kind: str) -> None:
    """Whoever has not signed in makes nobody read megabytes."""
    stranger = site.stranger()
    answer = stranger.post(path, content=b"x" * 200_000, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert "Too large: the limit is 128,000 bytes" in answer.text
    assert answer.headers["content-type"].startswith(kind)
    browser = site.browser("max")
    assert browser.upload("client,seller\n" + " , \n" * 50_000).status_code == 303
    assert browser.upload("client,seller\n" + " , \n" * 4_000_000).status_code == 413
    assert stranger.post("/team/assignments/preview/", content=b"x" * 200_000).status_code == 413


@pytest.mark.parametrize("path", ["/team/assignments/preview", "/admin/users/preview"])
@pytest.mark.parametrize(("name", "status"), [(None, 303), ("ana", 403)])
def test_a_file_is_not_read_before_the_session_is_checked(site: Site, path: str, name: str | None, status: int) -> None:
    cookie = "" if name is None else f"{site.cookie}={site.browser(name).cookies[site.cookie]}"
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http", "method": "POST", "scheme": "https", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": b"", "server": ("testserver", 443), "client": ("testclient", 50000), "http_version": "1.1",
        "headers": [
            (b"host", b"testserver"), (b"cookie", cookie.encode()), (b"content-type", b"multipart/form-data;boundary=x")
        ],
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body was read")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    anyio.run(site.app, scope, receive, send)
    assert sent[0]["status"] == status
    assert (b"connection", b"close") in sent[0]["headers"]


def test_a_refusal_before_any_route_keeps_the_navigation(site: Site) -> None:
    browser = site.browser("ana")
    pages = [
        browser.post("/feedback", data={"note": "x" * 200_000}),
        browser.post("/feedback", headers={"origin": "https://evil.example"}),
    ]
    assert [page.status_code for page in pages] == [413, 403]
    assert all("Sign out" in page.text for page in pages)


def test_a_length_beyond_all_numbers_is_refused(small: Site) -> None:
    answer = small.stranger().post("/sign-in", content=b"x", headers={"content-length": "9" * 5000})
    assert answer.status_code in {400, 413}


# ------------------------------------------------------------------------------------------------ headers


def failing(site: Site, monkeypatch: pytest.MonkeyPatch) -> Browser:
    def broken(*_: Any) -> None:
        raise RuntimeError("a fault of ours, with a secret")

    browser = site.browser("ana")
    monkeypatch.setattr("ocular.web.routes.patterns.view_card", broken)
    monkeypatch.setattr("ocular.web.routes.api.view_pattern", broken)
    return browser


def check_headers(answer: httpx2.Response, *, secure: bool = True) -> None:
    assert HEADERS.items() <= dict(answer.headers).items()
    assert "'unsafe" not in answer.headers["content-security-policy"]
    assert ("strict-transport-security" in answer.headers) == secure
    assert re.fullmatch(r"[0-9a-f]{12}", answer.headers["x-request-id"])


def test_every_answer_carries_the_headers(site: Site) -> None:
    browser = site.browser("ana")
    answers = {
        200: [browser.get("/"), browser.get("/static/app.js"), browser.get("/healthz"), browser.get("/metrics")],
        303: [site.stranger().get("/")],
        401: [browser.get("/api/v1/patterns"), site.stranger().sign_in("ana", "wrong")],
        403: [browser.get("/admin"), browser.post("/sign-out"), browser.post("/sign-out", headers={"origin": "x"})],
        404: [browser.get("/nowhere"), browser.get("/static/nowhere"), browser.get("/client", params={"name": "x"})],
        405: [browser.put("/sign-in"), browser.request("BREW", "/")],
        422: [browser.get("/client"), browser.get("/accounts", params={"page": "0"})],
    }
    for status, found in answers.items():
        for answer in found:
            assert answer.status_code == status, answer.request.url
            check_headers(answer)
            static = answer.request.url.path.startswith("/static/")
            assert (answer.headers.get("cache-control") == "no-store") != static


def test_without_tls_nothing_is_said_of_it(open_site: OpenSite) -> None:
    check_headers(open_site(secure=False).stranger().get("/sign-in"), secure=False)


@pytest.mark.parametrize("path", ["/patterns", "/api/v1/patterns"])
def test_a_fault_of_ours_is_told_in_one_line_without_its_cause(
    site: Site, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    browser = failing(site, monkeypatch)
    browser.headers["authorization"] = site.program("ana").headers["authorization"]
    answer = browser.get(path)
    assert answer.status_code == 500
    assert "omething went wrong on our side; it has been logged" in answer.text
    assert "secret" not in answer.text
    assert answer.headers["content-type"].startswith("application/json" if "api" in path else "text/html")


@pytest.mark.parametrize("path", ["/patterns", "/api/v1/patterns"])
def test_a_fault_of_ours_carries_the_headers_too(site: Site, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    browser = failing(site, monkeypatch)
    browser.headers["authorization"] = site.program("ana").headers["authorization"]
    check_headers(browser.get(path))


def test_logs_and_metrics_hold_no_names(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    client, browser = site.clients("ana")[0], site.browser("ana")
    with caplog.at_level("INFO", "ocular.web"):
        caplog.clear()
        browser.get("/client", params={"name": client})
        browser.get(f"/{client}")
        logged = [vars(record) for record in caplog.records if record.message == "request"]
    metrics = browser.get("/metrics").text
    assert [(fields["route"], fields["status"]) for fields in logged] == [("/client", 200), ("none", 404)]
    assert 'route="/client",status="200"' in metrics
    assert client not in f"{caplog.text} {logged} {metrics}"


def test_the_number_that_a_proxy_gave_a_request_is_taken_over(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "ocular.web"):
        answer = site.stranger().get("/healthz", headers={"x-request-id": "4f1c-Proxy_77"})
    assert answer.headers["x-request-id"] == "4f1c-Proxy_77"
    assert [vars(record)["request"] for record in caplog.records if record.message == "request"] == ["4f1c-Proxy_77"]


@pytest.mark.parametrize("given", ["", "short", "x" * 65, "a b c d e f", '{"level":"error"}', "Ä" * 9])
def test_a_number_that_is_none_is_replaced(site: Site, given: str) -> None:
    check_headers(site.stranger().get("/healthz", headers={"x-request-id": given.encode()}))
