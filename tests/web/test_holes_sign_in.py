"""Sign-in under attack: no more guesses are checked than allowed, pages do not wait for them, and nothing is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx2
import pytest
from sites import PASSWORD, Site, both_databases, drop_audit_guards, listening
from sqlalchemy import insert, select, update

from ocular.web import credentials
from ocular.web.auth import MAX_BY_NAME_AND_ADDRESS, WINDOW
from ocular.web.errors import TooManyError
from ocular.web.password_threads import MAX_CHECKING, MAX_WAITING
from ocular.web.tables import AuditEntry, Failure, Session, now

OpenSite = Callable[..., Site]
WRONG = "a wrong password"
PARALLEL = 40


class Stalled:
    """A hasher that checks nothing until it is told to go on."""

    def __init__(self) -> None:
        self.genuine, self.go_on, self.n_checked = credentials._hasher, threading.Event(), 0

    def verify(self, hashed: str, password: str) -> bool:
        self.n_checked += 1
        assert self.go_on.wait(60)
        return self.genuine.verify(hashed, password)


def test_pages_do_not_wait_for_sign_ins(open_site: OpenSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site = open_site(secure=False)
    signed_in = {site.cookie: site.browser("ana").cookies[site.cookie]}
    stalled = Stalled()
    monkeypatch.setattr(credentials, "_hasher", stalled)
    with listening(site) as address, ThreadPoolExecutor(PARALLEL) as guessers:

        def guess(number: int) -> httpx2.Response:
            return httpx2.post(f"{address}/sign-in", data={"name": f"name{number}", "password": WRONG}, timeout=60)

        guesses = [guessers.submit(guess, number) for number in range(PARALLEL)]
        until = time.monotonic() + 30
        allowed = MAX_CHECKING + MAX_WAITING
        while sum(guess.done() for guess in guesses) < PARALLEL - allowed and time.monotonic() < until:
            time.sleep(0.01)
        page = httpx2.get(f"{address}/model", cookies=signed_in, timeout=20)
        stalled.go_on.set()
        answers = [guess.result() for guess in guesses]
    assert page.status_code == 200
    away = [answer for answer in answers if answer.status_code == 503]
    assert len(away) == PARALLEL - allowed
    assert {answer.headers["retry-after"] for answer in away} == {"5"}
    assert "Too many people are signing in" in away[0].text
    assert stalled.n_checked == allowed


@both_databases
@pytest.mark.parametrize("name", ["ana", "nobody"])
def test_parallel_guesses_are_not_checked_more_often_than_allowed(
    site: Site, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stalled, barrier = Stalled(), threading.Barrier(PARALLEL)
    monkeypatch.setattr(credentials, "_hasher", stalled)
    monkeypatch.setattr(credentials, "_verifying", threading.Semaphore(PARALLEL))

    def guess(_: int) -> str:
        barrier.wait()
        threading.Timer(0.5, stalled.go_on.set).start()
        try:
            return str(site.services.authenticator.sign_in(name, WRONG, "192.0.2.1"))
        except TooManyError:
            return "locked"

    with ThreadPoolExecutor(PARALLEL) as guessers:
        told = list(guessers.map(guess, range(PARALLEL)))
    assert stalled.n_checked == MAX_BY_NAME_AND_ADDRESS
    assert sorted(told) == ["None"] * MAX_BY_NAME_AND_ADDRESS + ["locked"] * (PARALLEL - MAX_BY_NAME_AND_ADDRESS)


@both_databases
def test_attempts_while_locked_out_are_written_down_once_a_minute(site: Site) -> None:
    browser = site.stranger()
    for _ in range(MAX_BY_NAME_AND_ADDRESS):
        browser.sign_in("ana", WRONG)
    for _ in range(3):
        assert browser.sign_in("ana").status_code == 429
    assert [(e.name, e.address) for e in site.audited("sign-in while locked out")] == [("ana", "unknown")]
    drop_audit_guards(site.database)
    site.change(
        update(AuditEntry)
        .where(AuditEntry.action == "sign-in while locked out")
        .values(at=now() - timedelta(seconds=61))
    )
    assert browser.sign_in("ana").status_code == 429
    assert len(site.audited("sign-in while locked out")) == 2


@both_databases
def test_a_password_in_the_field_of_the_name_is_not_kept(site: Site) -> None:
    secret = "tr0ub4dor and some"
    browser = site.stranger()
    for _ in range(MAX_BY_NAME_AND_ADDRESS):
        assert browser.sign_in(secret, "").status_code == 401
    assert browser.sign_in(secret, "").status_code == 429  # it is counted all the same
    with site.database.reading() as transaction:
        stored = [*transaction.scalars(select(Failure.name)), *transaction.scalars(select(AuditEntry.name))]
    assert len(stored) >= 2 * MAX_BY_NAME_AND_ADDRESS
    assert not [name for name in stored if "tr0ub" in name]
    assert credentials.digest(secret)[:16] not in " ".join(stored)  # nor what could be found by trying


@both_databases
def test_a_clock_that_was_wrong_locks_nobody_out_for_years(site: Site) -> None:
    future = now() + timedelta(days=3650)
    site.change(insert(Failure).values([{"name": "ana", "address": "unknown", "at": future}] * 60))
    assert site.stranger().sign_in("ana").status_code == 303
    assert site.count(Failure) == 0
    nearly = now() + WINDOW / 2
    site.change(insert(Failure).values([{"name": "ana", "address": "unknown", "at": nearly}] * 60))
    assert int(site.stranger().sign_in("ana").headers["retry-after"]) <= WINDOW.total_seconds()


def test_a_session_from_before_the_clock_was_set_back_has_ended(site: Site) -> None:
    browser = site.browser("ana")
    site.change(update(Session).values(created=now() + timedelta(days=3650), seen=now() + timedelta(days=3650)))
    assert not browser.signed_in()


def test_the_right_password_is_not_counted(site: Site) -> None:
    for _ in range(3 * MAX_BY_NAME_AND_ADDRESS):
        assert site.services.authenticator.check_password("ana", PASSWORD, "192.0.2.1") is not None
    assert site.count(Failure) == 0
