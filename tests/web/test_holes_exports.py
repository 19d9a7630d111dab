"""Downloads that nobody reads: they hold no connection to the database, and one person has only a few of them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import httpx2
import pytest
from sites import Site, both_databases, listening
from sqlalchemy import insert

from ocular.web import csv_export, database
from ocular.web.csv_export import MAX_OPEN
from ocular.web.tables import Feedback

OpenSite = Callable[..., Site]
UNREAD = 32
ROWS = 12_000


def stall(address: str, cookie: str) -> socket.socket:
    """Ask for a file and read the beginning of the answer only."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, _, port = address.removeprefix("http://").partition(":")
    opened.connect((host, int(port)))
    opened.sendall(f"GET /team/feedback.csv HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookie}\r\n\r\n".encode())
    opened.settimeout(20)
    return opened


@pytest.fixture
def talkative(open_site: OpenSite) -> Site:
    """A site with 12 MB of feedback, more than sockets keep."""
    site = open_site(secure=False)
    said = {
        "client": site.clients("ana")[0], "product": "x", "user_id": site.visitor("ana").user.id, "status": "won",
        "note": "n" * 1000, "model": "first", "confidence": 0.5,
    }  # fmt: skip
    with site.database.writing() as transaction:
        transaction.execute(insert(Feedback), [said] * ROWS)
    return site


@both_databases
def test_unread_downloads_of_one_person_leave_the_pages_to_the_others(talkative: Site) -> None:
    site = talkative
    cookie = site.cookie
    manager, ana = site.browser("max").cookies[cookie], site.browser("ana").cookies[cookie]
    with listening(site) as address:
        unread = [stall(address, f"{cookie}={manager}") for _ in range(UNREAD)]
        statuses = [int(each.recv(12)[9:12]) for each in unread]
        assert sorted(statuses) == [200] * MAX_OPEN + [429] * (UNREAD - MAX_OPEN)
        for _ in range(5):
            assert httpx2.get(f"{address}/model", cookies={cookie: ana}, timeout=20).status_code == 200
        until = time.monotonic() + 20
        while in_use(site) and time.monotonic() < until:  # until buffers are full
            time.sleep(0.05)
        assert in_use(site) == 0
        for each in unread:
            each.close()
        until = time.monotonic() + 20
        while (again := download(address, cookie, manager)).status_code == 429 and time.monotonic() < until:
            time.sleep(0.05)
    assert again.status_code == 200
    assert again.text.count("\n") == ROWS + 1  # nothing is lost between two pages of rows


def in_use(site: Site) -> int:
    """Connections to the database that are not in the pool."""
    return int(site.database._engine.pool.checkedout())  # type: ignore[attr-defined]


def download(address: str, cookie: str, secret: str) -> httpx2.Response:
    return httpx2.get(f"{address}/team/feedback.csv", cookies={cookie: secret}, timeout=60)


def test_a_download_that_nobody_takes_is_given_up(talkative: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_export, "STALLED", 0.2)
    cookie = talkative.cookie
    manager = talkative.browser("max").cookies[cookie]
    with listening(talkative) as address:
        unread = [stall(address, f"{cookie}={manager}") for _ in range(MAX_OPEN)]
        assert [int(each.recv(12)[9:12]) for each in unread] == [200] * MAX_OPEN
        until = time.monotonic() + 20
        while talkative.services.exports._open.total() and time.monotonic() < until:
            time.sleep(0.05)
        assert talkative.services.exports._open.total() == 0
        for each in unread:
            each.close()


@both_databases
def test_rows_are_read_in_pages(talkative: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PAGE", 7)
    rows = talkative.program("max").get("/api/v1/feedback", params={"after": 3, "limit": 20}).json()
    first = rows[0]["id"]
    assert [row["id"] for row in rows] == list(range(first, first + 20))
