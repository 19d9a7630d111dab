"""A model of made-up companies, databases with five people in them, and the application on top."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from argon2 import PasswordHasher
from sites import Site, running, settle, sqlite
from support import postgres_server

from ocular import Interactions, OCuLaR
from ocular.evaluation.calibration import calibrate
from ocular.synthetic.market import b2b
from ocular.web import credentials
from ocular.web.database import Database
from ocular.web.settings import LOOPBACK, Settings

OpenSite = Callable[..., Site]


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """The true parameters take a twentieth of a second each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credentials, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        patch.setattr(credentials, "_unknown_user", credentials._hasher.hash("nobody at all"))
        yield


@pytest.fixture(scope="session")
def companies() -> Interactions:
    return b2b(60, 30, random_state=0).interactions


@pytest.fixture(scope="session")
def first_model(companies: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one model; only read."""
    folder = tmp_path_factory.mktemp("models")
    model = OCuLaR(n_coclusters=6, regularization=0.3, tol=1e-4, max_iter=500, random_state=0).fit(companies)
    calibrate(model)
    model.save(folder / "first")
    return folder


@pytest.fixture(scope="session")
def sqlite_with_people(companies: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("database") / "people.db"
    fill(sqlite(path), companies)
    return path


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server of our own."""
    with postgres_server() as server:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("alter system set fsync = off")  # a new database for each test is slow enough
            connection.execute("select pg_reload_conf()")
        yield server.get_uri()


@pytest.fixture(scope="session")
def postgres_with_people(postgres: str, companies: Interactions) -> str:
    """The name of a database on the server to copy."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create database people")
    fill(other_database(postgres, "people"), companies)
    return "people"


def fill(url: str, interactions: Interactions) -> None:
    database = Database(url)
    database.upgrade()
    settle(database, interactions)
    database.close()


def other_database(url: str, name: str) -> str:
    """The address of another database on the same server: postgresql://user@/postgres?host=…"""
    return url.replace("/postgres?", f"/{name}?")


@pytest.fixture
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from fresh(request, tmp_path, people=False)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of its own for each test, with people and assignments."""
    yield from fresh(request, tmp_path, people=True)


def fresh(request: pytest.FixtureRequest, tmp_path: Path, *, people: bool) -> Iterator[str]:
    if getattr(request, "param", "sqlite") == "sqlite":
        path = tmp_path / "ocular.db"
        if people:
            shutil.copy(request.getfixturevalue("sqlite_with_people"), path)
        yield sqlite(path)
        return
    server, name = request.getfixturevalue("postgres"), f"test_{uuid.uuid4().hex}"
    template = request.getfixturevalue("postgres_with_people") if people else "template1"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'create database "{name}" template "{template}"')
        yield other_database(server, name)
        connection.execute(f'drop database "{name}" with (force)')


@pytest.fixture
def open_site(first_model: Path, database_url: str) -> Iterator[OpenSite]:
    """Open a site with other settings than usual; it is closed after the test."""
    with ExitStack() as stack:

        def open_one(**changes: Any) -> Site:
            usual = {
                "models": first_model,
                "database": database_url,
                "watch": 3600.0,
                "allowed_hosts": ("testserver", *LOOPBACK),
            }
            return stack.enter_context(running(Site(Settings(**usual | changes))))

        yield open_one


@pytest.fixture
def site(open_site: OpenSite) -> Site:
    return open_site()
