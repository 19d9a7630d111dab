"""The application is killed and its database goes away, both while people work: nothing that was confirmed is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import psycopg
import pytest
from browser_support import PASSWORD, Server, serving, small_model
from sqlalchemy import select
from support import postgres_server

from ocular.synthetic.market import b2b
from ocular.web.app import MAX_THREADS
from ocular.web.database import Database
from ocular.web.tables import Feedback, Role, Scope
from ocular.web.users import add_token, add_user

WRITERS, CONFIRMED = 4, 60  # threads, and answers before something happens
OUTAGE = 3.0  # seconds


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    small_model(folder / "first")
    return folder


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    with postgres_server() as server:
        yield server


def make_token(database: str) -> str:
    """Of an administrator, who may judge every recommendation."""
    opened = Database(database)
    opened.upgrade()
    with opened.writing() as transaction:
        token = add_token(transaction, add_user(transaction, "maria", Role.ADMIN, PASSWORD), "crash test", scopes=Scope)
    opened.close()
    return token


def kept(database: str) -> dict[int, str]:
    """Notes by number, as the database has them now."""
    opened = Database(database)
    with opened.reading() as transaction:
        found = dict(transaction.execute(select(Feedback.id, Feedback.note)).all())
    opened.close()
    return found


class Writers:
    """Threads that judge recommendations one after the other and remember what was confirmed."""

    def __init__(self, server: Server, token: str) -> None:
        self.confirmed: dict[int, str] = {}
        self.answers: Counter[int] = Counter()
        self._server, self._headers, self._stop = server, {"authorization": f"Bearer {token}"}, threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def _write(self, number: int) -> None:
        with httpx2.Client(base_url=self._server.url, headers=self._headers, timeout=30) as client:
            pattern = client.get("/api/v1/patterns").json()[0]
            pair = {"client": pattern["typical_clients"][number], "product": pattern["typical_products"][0]}
            for count in range(100_000):
                note = f"{number}-{count}"
                if self._stop.is_set():
                    return
                try:
                    got = client.post("/api/v1/feedback", json=pair | {"status": "not a fit", "note": note})
                except httpx2.TransportError:
                    return  # the server is gone
                self.answers[got.status_code] += 1
                if got.status_code == 201:
                    self.confirmed[got.json()["id"]] = note

    @contextmanager
    def working(self) -> Iterator[Writers]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def wait_for(self, more: int) -> None:
        """So many confirmed from now on."""
        wanted = len(self.confirmed) + more
        wait(lambda: len(self.confirmed) >= wanted)


def wait(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def killed_under_load(models: Path, database: str, log: Path) -> None:
    token = make_token(database)
    with serving(models, database, log) as server:
        with Writers(server, token).working() as writers:
            writers.wait_for(CONFIRMED)
            server.kill()
        assert set(writers.answers) == {201}
    found = kept(database)
    assert len(writers.confirmed) >= CONFIRMED
    assert writers.confirmed.items() <= found.items()
    assert len(found) <= len(writers.confirmed) + WRITERS  # at most one each that was kept and not confirmed


def test_killed_with_sqlite(models: Path, tmp_path: Path) -> None:
    killed_under_load(models, f"sqlite:///{tmp_path / 'web.db'}", tmp_path / "log")


def test_killed_with_postgres(models: Path, postgres: Any, tmp_path: Path) -> None:
    postgres.psql("create database killed")
    killed_under_load(models, postgres.get_uri("killed"), tmp_path / "log")


def workers_of(server: Server) -> list[int]:
    """The processes that the server started to answer for it."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def workers_killed_under_load(models: Path, database: str, log: Path, *, everybody: bool) -> None:
    """Kill one worker of two, or both of them and the parent; what was confirmed is there."""
    token = make_token(database)
    with serving(models, database, log, "--workers", "2") as server:
        with Writers(server, token).working() as writers:
            writers.wait_for(CONFIRMED)
            workers = workers_of(server)
            assert len(workers) == 2
            for worker in workers if everybody else workers[:1]:
                os.kill(worker, signal.SIGKILL)
            if everybody:
                server.kill()
        if not everybody:
            with Writers(server, token).working() as more:  # by the one that is left, and by the one started anew
                more.wait_for(CONFIRMED)
            assert set(more.answers) == {201}
            assert more.confirmed.items() <= kept(database).items()
        assert set(writers.answers) == {201}
    assert len(writers.confirmed) >= CONFIRMED
    assert writers.confirmed.items() <= kept(database).items()


@pytest.mark.parametrize("everybody", [False, True], ids=["one worker", "all"])
def test_workers_killed_with_sqlite(models: Path, tmp_path: Path, everybody: bool) -> None:
    workers_killed_under_load(models, f"sqlite:///{tmp_path / 'web.db'}", tmp_path / "log", everybody=everybody)


@pytest.mark.parametrize("everybody", [False, True], ids=["one worker", "all"])
def test_workers_killed_with_postgres(models: Path, postgres: Any, tmp_path: Path, everybody: bool) -> None:
    name = f"workers_{int(everybody)}"
    postgres.psql(f"create database {name}")
    workers_killed_under_load(models, postgres.get_uri(name), tmp_path / "log", everybody=everybody)


def test_database_goes_away_and_comes_back(models: Path, postgres: Any, tmp_path: Path) -> None:
    postgres.psql("create database away")
    database = postgres.get_uri("away")
    token = make_token(database)
    with (
        serving(models, database, tmp_path / "log") as server,
        httpx2.Client(base_url=server.url, timeout=30, follow_redirects=True) as person,
        Writers(server, token).working() as writers,
    ):
        assert person.post("/sign-in", data={"name": "maria", "password": PASSWORD}).status_code == 200
        writers.wait_for(CONFIRMED)

        postgres.stop()
        away_until = time.monotonic() + OUTAGE
        confirmed = len(writers.confirmed)
        while time.monotonic() < away_until:
            answers = {address: person.get(address) for address in ("/", "/patterns", "/team", "/admin/audit")}
            assert {address: got.status_code for address, got in answers.items()} == dict.fromkeys(answers, 503)
            assert all("Temporarily unavailable" in got.text for got in answers.values())
            assert all(got.headers["retry-after"] == "5" for got in answers.values())
            assert person.get("/readyz").status_code == 503
            assert person.get("/healthz").status_code == 200
        assert len(writers.confirmed) - confirmed <= WRITERS  # those that were under way

        postgres.ensure_postgres_running()
        writers.wait_for(CONFIRMED)
        assert person.get("/").status_code == 200  # still signed in
        assert person.get("/readyz").status_code == 200
    assert set(writers.answers) == {201, 503}
    assert writers.confirmed.items() <= kept(database).items()


# ------------------------------------------------------------------------------------------------ not even a refusal


def many(person: httpx2.Client, address: str) -> Callable[[], Counter[int]]:
    """Begin more requests than there are threads for; the result waits for all answers and counts their statuses."""
    statuses: Counter[int] = Counter()

    def ask() -> None:
        statuses[person.get(address).status_code] += 1

    threads = [threading.Thread(target=ask) for _ in range(MAX_THREADS + 2)]
    for thread in threads:
        thread.start()

    def result() -> Counter[int]:
        for thread in threads:
            thread.join()
        return statuses

    return result


@contextmanager
def somebody(server: Server, database: str) -> Iterator[httpx2.Client]:
    """An administrator who is signed in."""
    make_token(database)
    with httpx2.Client(base_url=server.url, timeout=60, limits=httpx2.Limits(max_connections=50)) as person:
        assert person.post("/sign-in", data={"name": "maria", "password": PASSWORD}).status_code == 303
        yield person


def lives_on(server: Server) -> None:
    """What needs no database is there at once, though every thread waits for one."""
    with httpx2.Client(base_url=server.url, timeout=2.0) as watcher:
        for address in ("/healthz", "/metrics", "/static/style.css"):
            assert watcher.get(address).status_code == 200


def test_a_locked_database_keeps_nobody_from_reading(models: Path, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'web.db'}"
    with serving(models, database, tmp_path / "log") as server, somebody(server, database) as person:
        client = "/client?" + urlencode({"name": str(b2b(80, 40).interactions.user_labels[0])})
        assert person.get(client).status_code == 200
        other = sqlite3.connect(tmp_path / "web.db", isolation_level=None)
        other.execute("begin immediate")
        answers = many(person, client)
        lives_on(server)
        assert person.get("/").status_code == 200
        assert person.get("/readyz").status_code == 200
        assert set(answers()) == {503}  # it is not written down, so it is not shown
        other.execute("rollback")
        other.close()
        assert person.get(client).status_code == 200


def test_a_database_that_hangs_is_given_up_on(models: Path, postgres: Any, tmp_path: Path) -> None:
    """It takes every question and answers none: no limit of its own ends that."""
    postgres.psql("create database hanging")
    database = postgres.get_uri("hanging")
    with serving(models, database, tmp_path / "log") as server, somebody(server, database) as person:
        assert person.get("/").status_code == 200
        stopped = processes(database)
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        try:
            answers = many(person, "/")
            lives_on(server)
            assert person.get("/readyz").status_code == 503
            assert set(answers()) == {503}
            lives_on(server)
        finally:
            for process in stopped:
                os.kill(process, signal.SIGCONT)
        wait(lambda: person.get("/").status_code == 200)


def processes(database: str) -> list[int]:
    """Those of the server that answer its questions, and the one that makes them."""
    with psycopg.connect(database) as connection:
        others = "select pid from pg_stat_activity where datname = 'hanging' and pid <> pg_backend_pid()"
        pids = [pid for (pid,) in connection.execute(others)]
        (folder,) = connection.execute("show data_directory").fetchone() or ("",)
    return [int((Path(folder) / "postmaster.pid").read_text().split()[0]), *pids]
