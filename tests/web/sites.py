"""The application as tests use it: with five people, their clients, browsers and programs."""

from __future__ import annotations

import html
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import uvicorn
from sqlalchemy import func, select, text
from starlette.testclient import TestClient

from ocular.advisor import Recommendation
from ocular.data.interactions import Interactions
from ocular.explain.value import ExpectedValues
from ocular.web import credentials, users
from ocular.web.app import create_app
from ocular.web.auth import Visitor
from ocular.web.database import Database
from ocular.web.outcomes import OutcomeLog
from ocular.web.services import Services
from ocular.web.settings import Settings
from ocular.web.tables import Assignment, AuditEntry, Base, Scope, Session, User

PASSWORD = "correct horse battery staple"
GENUINE_HASHER = credentials._hasher  # the tests use a quicker one


class Person(NamedTuple):
    role: str
    team: str
    clients: range  # rows of the interactions


PEOPLE = {
    "ana": Person("seller", "north", range(0, 15)),
    "ben": Person("seller", "north", range(15, 25)),
    "sue": Person("seller", "south", range(25, 40)),
    "max": Person("manager", "north", range(0)),
    "root": Person("admin", "", range(0)),
}
NOBODYS = range(40, 60)


both_databases = pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


def label(interactions: Interactions, row: int) -> str:
    return str(interactions.user_labels[row])


def settle(database: Database, interactions: Interactions) -> None:
    """The five people and their clients."""
    with database.writing() as transaction:
        hashed = credentials.hash_password(PASSWORD)
        for name, person in PEOPLE.items():
            user = User(
                name=name, full_name=f"{name.title()} Example", role=person.role, team=person.team, password=hashed
            )
            transaction.add(user)
            transaction.flush()
            transaction.add_all(Assignment(client=label(interactions, row), user_id=user.id) for row in person.clients)


class Browser(TestClient):
    """A browser that follows no redirection by itself."""

    def __init__(self, app: Any) -> None:
        super().__init__(app, base_url="https://testserver", follow_redirects=False, raise_server_exceptions=False)

    def sign_in(self, name: str, password: str = PASSWORD, **more: str) -> httpx2.Response:
        return self.post("/sign-in", data={"name": name, "password": password} | more)

    @cached_property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/model").text)
        assert found is not None
        return found[1]

    def submit(self, path: str, **fields: Any) -> httpx2.Response:
        """A form of ours."""
        return self.post(path, data={"csrf": self.csrf} | fields)

    def preview(self, content: str | bytes) -> httpx2.Response:
        """Assignments as a file: the page that comes after it, or the refusal."""
        answer = self.upload(content)
        return self.get(answer.headers["location"]) if answer.status_code == 303 else answer

    def upload(self, content: str | bytes) -> httpx2.Response:
        given = content if isinstance(content, bytes) else content.encode()
        return self.post(
            "/team/assignments/preview", data={"csrf": self.csrf}, files={"file": ("clients.csv", given, "text/csv")}
        )

    def confirm(self, page: httpx2.Response) -> httpx2.Response:
        """Press the button below a preview."""
        found = re.search(r'name="key" value="([^"]+)"', page.text)
        assert found is not None, page.text
        return self.submit("/team/assignments", key=found[1])

    def assign(self, content: str) -> httpx2.Response:
        """Both; the preview itself where it finds a mistake."""
        page = self.preview(content)
        return self.confirm(page) if page.status_code == 200 else page

    def signed_in(self) -> bool:
        return self.get("/model").status_code == 200


@dataclass
class Site:
    settings: Settings

    def __post_init__(self) -> None:
        self.app = create_app(self.settings)

    @property
    def services(self) -> Services:
        services: Services = self.app.state.services
        return services

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def interactions(self) -> Interactions:
        return self.services.served.interactions

    def clients(self, name: str) -> list[str]:
        return [label(self.interactions, row) for row in PEOPLE[name].clients]

    def open_product(self, client: str, place: int = 0) -> str:
        """A product that is recommended to the client: the best, or one after it."""
        served = self.services.served
        return served.product_of(served.advisor.recommend(client, place + 1)[place])

    def worth(self, found: Recommendation) -> float | None:
        """The expected value of a recommendation, by the library."""
        model = self.services.served.advisor.model
        values = ExpectedValues(model.interactions_, model.calibration_)
        return values.value(found.explanation.item, found.confidence)

    def stranger(self) -> Browser:
        return Browser(self.app)

    def browser(self, name: str) -> Browser:
        browser = Browser(self.app)
        assert browser.sign_in(name).status_code == 303
        return browser

    def program(self, name: str, *scopes: str) -> Browser:
        """With a token that acts as somebody, for everything unless scopes are given."""
        with self.database.writing() as transaction:
            secret = users.add_token(transaction, users.find_user(transaction, name), "test", scopes=scopes or Scope)
        program = Browser(self.app)
        program.headers["authorization"] = f"Bearer {secret}"
        return program

    def count(self, table: type[Base]) -> int:
        with self.database.reading() as transaction:
            return transaction.scalar(select(func.count()).select_from(table)) or 0

    def audited(self, action: str) -> list[AuditEntry]:
        with self.database.reading() as transaction:
            return list(transaction.scalars(select(AuditEntry).where(AuditEntry.action == action)))

    def owners(self) -> dict[str, str]:
        """The seller of each assigned client."""
        with self.database.reading() as transaction:
            owned = select(Assignment.client, User.name).join(User, User.id == Assignment.user_id)
            return dict(tuple(row) for row in transaction.execute(owned))

    @property
    def cookie(self) -> str:
        return self.services.cookie

    def change(self, *statements: Any) -> None:
        """Behind the back of the application."""
        with self.database.writing() as transaction:
            for statement in statements:
                transaction.execute(statement)
        self.services.outcomes = OutcomeLog(self.services.database)  # people only ever add feedback: it is read once

    def visitor(self, name: str) -> Visitor:
        with self.database.reading() as transaction:
            return Visitor(users.find_user(transaction, name), "", "unknown")

    def session_of(self, browser: Browser) -> Session:
        with self.database.reading() as transaction:
            found = transaction.get(Session, credentials.digest(browser.cookies[self.cookie]))
        assert found is not None
        return found


@contextmanager
def running(site: Site) -> Iterator[Site]:
    with TestClient(site.app):
        yield site


@contextmanager
def listening(site: Site) -> Iterator[str]:
    """The site on a socket, in one event loop as in earnest."""
    with socket.create_server(("127.0.0.1", 0)) as open_socket:
        server = uvicorn.Server(uvicorn.Config(site.app, log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [open_socket]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{open_socket.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def drop_audit_guards(database: Database) -> None:
    """Do what somebody can who owns the database: without the triggers, entries of the audit log can be changed."""
    with database.writing() as transaction:
        of = " ON audit" if transaction.get_bind().dialect.name == "postgresql" else ""
        for name in ("audit_no_update", "audit_no_delete"):
            transaction.execute(text(f"DROP TRIGGER IF EXISTS {name}{of}"))


def sqlite(path: Path) -> str:
    return f"sqlite:///{path}"


def text_of(answer: httpx2.Response) -> str:
    """A page with its entities read as characters."""
    return html.unescape(answer.text)


def rows_of(page: str) -> list[list[str]]:
    """The cells of the tables of a page, without markup."""
    rows = [re.findall(r"<t[hd]\b.*?</t[hd]>", row, re.DOTALL) for row in re.findall(r"<tr.*?</tr>", page, re.DOTALL)]
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in rows]


def say(site: Site, browser: Browser, client: str, status: str, *, place: int = 0, **more: str) -> str:
    """Give feedback on one of the client's recommendations; return its product."""
    product = site.open_product(client, place)
    answer = browser.submit("/feedback", client=client, product=product, status=status, **more)
    assert answer.status_code == 303
    return product
