"""Who asks, and what they may do and see."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import Depends, Form, Request
from numpy.typing import NDArray
from sqlalchemy import delete, func, insert, select
from sqlalchemy import update as change
from sqlalchemy.orm import Session as Transaction

from ocular.web import credentials
from ocular.web.database import Database
from ocular.web.errors import ForbiddenError, NotFoundError, SignInError, TooManyError
from ocular.web.registry import Registry, Served
from ocular.web.settings import Names, Settings
from ocular.web.tables import Assignment, AuditEntry, Failure, Role, Session, Token, User, now

COOKIE = "ocular_session"
WINDOW, BY_NAME, BY_ADDRESS = timedelta(minutes=15), 5, 50  # refused sign-ins before no more are looked at
MOST_UPLOADS = 20  # that wait for a decision
REMEMBERED = 30.0  # seconds that assignments are kept for lists; a single client is always looked up


@dataclass(frozen=True)
class Visitor:
    """Somebody who has signed in, or a program with a token."""

    user: User
    csrf: str  # "" for a token, which no other site can make a browser send
    address: str

    @property
    def role(self) -> Role:
        return Role(self.user.role)


class Assigned(NamedTuple):
    """Whose clients are whose, as rows of a model."""

    version: str  # of the model
    until: float  # when it is to be read again
    of_user: dict[int, NDArray[np.int64]]  # ascending
    of_team: dict[str, NDArray[np.bool_]]  # (n_users,)


class Application:
    """What every request needs; one for the whole process."""

    def __init__(self, settings: Settings, database: Database, registry: Registry) -> None:
        self.settings, self.database, self.registry = settings, database, registry
        self._assigned: Assigned | None = None
        self._reading = threading.Lock()
        self._uploads: dict[str, tuple[int, str]] = {}

    @property
    def served(self) -> Served:
        return self.registry.current

    # ------------------------------------------------------------------------------------------------ clients

    def may_see(self, visitor: Visitor, client: str, transaction: Transaction) -> bool:
        """Sellers their own clients, managers those of their team and those of nobody, administrators all."""
        if visitor.role is Role.ADMIN:
            return True
        owner = transaction.execute(
            select(User.id, User.team).join(Assignment).where(Assignment.client == client)
        ).first()
        if visitor.role is Role.SELLER:
            return owner is not None and owner.id == visitor.user.id
        return owner is None or owner.team == visitor.user.team

    def find_client(self, visitor: Visitor, name: str) -> int:
        """The row of a client that the visitor may see; any other is not found, whether it exists or not."""
        row = self.served.advisor.model.interactions_.user_rows.get(name)
        with self.database.reading() as transaction:
            if row is None or not self.may_see(visitor, name, transaction):
                raise NotFoundError("there is no such client among yours")
        return row

    def find_product(self, name: str) -> int:
        row = self.served.advisor.model.interactions_.item_rows.get(name)
        if row is None:
            raise NotFoundError("there is no such product")
        return row

    def clients_of(self, visitor: Visitor) -> NDArray[np.int64]:
        """Rows of all clients that the visitor may see, ascending."""
        n_users = self.served.advisor.model.interactions_.n_users
        if visitor.role is Role.ADMIN:
            return np.arange(n_users)
        assigned = self._assignments()
        if visitor.role is Role.SELLER:
            return assigned.of_user.get(visitor.user.id, np.empty(0, dtype=np.int64))
        others = [clients for team, clients in assigned.of_team.items() if team != visitor.user.team]
        return np.flatnonzero(~np.any(others, axis=0)) if others else np.arange(n_users)

    def names_shown(self, visitor: Visitor) -> NDArray[np.bool_]:
        """(n_users,) whose names the visitor may read in a rationale."""
        n_users = self.served.advisor.model.interactions_.n_users
        if visitor.role is Role.ADMIN or self.settings.names is Names.EVERYBODY:
            return np.ones(n_users, dtype=bool)
        shown = np.zeros(n_users, dtype=bool)
        shown[self.clients_of(visitor)] = True
        if self.settings.names is Names.TEAM:
            shown |= self._assignments().of_team.get(visitor.user.team, False)
        return shown

    def _assignments(self) -> Assigned:
        """Read again from time to time, by one thread, while the others go on with what was read before."""
        assigned, served = self._assigned, self.served
        if assigned is not None and assigned.version == served.version:
            if assigned.until > time.monotonic() or not self._reading.acquire(blocking=False):
                return assigned
        else:
            self._reading.acquire()
        try:
            if self._assigned is assigned:  # nobody else has just done it
                self._assigned = self._read_assignments(served)
            return self._assigned or self._read_assignments(served)
        finally:
            self._reading.release()

    def _read_assignments(self, served: Served) -> Assigned:
        history = served.advisor.model.interactions_
        rows, owned = history.user_rows, dict[int, list[int]]()
        with self.database.reading() as transaction:
            teams = {user.id: user.team for user in transaction.scalars(select(User))}
            for client, user in transaction.execute(select(Assignment.client, Assignment.user_id)):
                if client in rows:
                    owned.setdefault(user, []).append(rows[client])
        of_user = {user: np.sort(np.array(found, dtype=np.int64)) for user, found in owned.items()}
        of_team = {team: np.zeros(history.n_users, dtype=bool) for team in teams.values()}
        for user, clients in of_user.items():
            of_team[teams[user]][clients] = True
        return Assigned(served.version, time.monotonic() + REMEMBERED, of_user, of_team)

    def forget_assignments(self) -> None:
        self._assigned = None

    # ------------------------------------------------------------------------------------------------ uploads

    def keep_upload(self, visitor: Visitor, content: str) -> str:
        """Keep a file between the look at it and the decision; returns the key to it."""
        for key in [*self._uploads][: max(0, len(self._uploads) - MOST_UPLOADS + 1)]:
            self._uploads.pop(key, None)  # the oldest
        key = credentials.new_secret()
        self._uploads[key] = visitor.user.id, content
        return key

    def take_upload(self, visitor: Visitor, key: str) -> str:
        owner, content = self._uploads.get(key, (None, ""))
        if owner != visitor.user.id:
            raise NotFoundError("the file is not here any more; choose it again")
        del self._uploads[key]
        return content

    # ------------------------------------------------------------------------------------------------ signing in

    def sign_in(self, name: str, password: str, address: str) -> str | None:
        """The secret of a new session, or None; after too many refusals nothing is looked at for a while."""
        name = name.strip().casefold()
        since = now() - WINDOW
        with self.database.reading() as transaction:
            recent = select(func.count()).select_from(Failure).where(Failure.at > since)
            by_name = transaction.scalar(recent.where(Failure.name == name)) or 0
            by_address = transaction.scalar(recent.where(Failure.address == address)) or 0
            user = transaction.scalar(select(User).where(User.name == name))
        if by_name >= BY_NAME or by_address >= BY_ADDRESS:
            raise TooManyError("too many attempts; wait a quarter of an hour")
        good = credentials.verify_password(password, None if user is None or not user.active else user.password)
        with self.database.writing() as transaction:
            if user is None or not good:
                transaction.add(Failure(name=name[:80], address=address))
                audit(transaction, name[:80], "sign-in refused", address=address)
                return None
            secret = credentials.new_secret()
            transaction.add(
                Session(
                    digest=credentials.digest(secret), user_id=user.id, csrf=credentials.new_secret(), address=address
                )
            )
            transaction.execute(delete(Failure).where((Failure.name == name) | (Failure.at < since)))
            transaction.execute(delete(Session).where(Session.created < now() - self.settings.lifetime))
            audit(transaction, user.name, "signed in", address=address)
            return secret

    def visitor_of_session(self, secret: str, address: str) -> Visitor | None:
        with self.database.reading() as transaction:
            session = transaction.get(Session, credentials.digest(secret))
        if session is None or not session.user.active:
            return None
        age, idle = now() - session.created, now() - session.seen
        if age > self.settings.lifetime or idle > self.settings.idle:
            return None
        if idle > timedelta(minutes=1):
            with self.database.writing() as transaction:
                transaction.execute(change(Session).where(Session.digest == session.digest).values(seen=now()))
        return Visitor(session.user, session.csrf, address)

    def visitor_of_token(self, secret: str, address: str) -> Visitor | None:
        with self.database.reading() as transaction:
            token = transaction.scalar(select(Token).where(Token.digest == credentials.digest(secret)))
        if token is None or not token.user.active:
            return None
        if token.used is None or now() - token.used > timedelta(minutes=1):
            with self.database.writing() as transaction:
                transaction.execute(change(Token).where(Token.id == token.id).values(used=now()))
        return Visitor(token.user, "", address)


def audit(transaction: Transaction, name: str, action: str, subject: str = "", address: str = "") -> None:
    transaction.execute(insert(AuditEntry), {"name": name, "action": action, "subject": subject, "address": address})


# ------------------------------------------------------------------------------------------------ for routes


async def application(request: Request) -> Application:  # async: it need not wait for a thread
    found: Application = request.app.state.application
    return found


App = Annotated[Application, Depends(application)]


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else ""


class Allowed:
    """A dependency of a route: who may use it. The test of all routes and roles reads `roles` from here."""

    def __init__(self, *roles: Role, by: str) -> None:
        """by: "session" for pages, "token" for the API."""
        self.roles, self.by = frozenset(roles), by

    def __call__(self, request: Request, app: App) -> Visitor:
        visitor = self._session(request, app) if self.by == "session" else self._token(request, app)
        if visitor is None:
            raise SignInError("sign in first" if self.by == "session" else "expected a valid token: Bearer …")
        request.state.visitor = visitor  # a refusal keeps the navigation
        if visitor.role not in self.roles:
            raise ForbiddenError("this is not for your role")
        return visitor

    @staticmethod
    def _session(request: Request, app: Application) -> Visitor | None:
        secret = request.cookies.get(COOKIE)
        return app.visitor_of_session(secret, address_of(request)) if secret else None

    @staticmethod
    def _token(request: Request, app: Application) -> Visitor | None:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        return app.visitor_of_token(secret.strip(), address_of(request)) if kind.lower() == "bearer" else None


EVERYBODY, LEADERS, ADMINS = tuple(Role), (Role.MANAGER, Role.ADMIN), (Role.ADMIN,)


def by_session(*roles: Role) -> Any:
    return Depends(Allowed(*roles, by="session"))


def by_token(*roles: Role) -> Any:
    return Depends(Allowed(*roles, by="token"))


AnyVisitor = Annotated[Visitor, by_session(*EVERYBODY)]
Leader = Annotated[Visitor, by_session(*LEADERS)]
Admin = Annotated[Visitor, by_session(*ADMINS)]
AnyProgram = Annotated[Visitor, by_token(*EVERYBODY)]
LeaderProgram = Annotated[Visitor, by_token(*LEADERS)]


def genuine(visitor: AnyVisitor, csrf: Annotated[str, Form()] = "") -> None:
    """A form of ours: it carries the secret of the session, which no other site knows."""
    if not credentials.same(csrf, visitor.csrf):
        raise ForbiddenError("this form is too old or not ours; go back, reload the page and try again")


Genuine = Depends(genuine)
