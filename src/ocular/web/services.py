"""Who asks, and what they may do and see."""

from __future__ import annotations

import threading
import time
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import Depends, Form, Request
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session as Transaction

from ocular.web import credentials
from ocular.web.audit import Views
from ocular.web.auth import Gate, Visitor, plain_address
from ocular.web.database import Database
from ocular.web.errors import ForbiddenError, NotFoundError, SignInError, StaleFormError
from ocular.web.registry import Registry, Served
from ocular.web.settings import Names, Settings
from ocular.web.tables import Assignment, Key, Role, User
from ocular.web.uploads import Uploads

REMEMBERED = 30.0  # seconds that assignments are kept for lists; a single client is always looked up
COMPUTING = 2  # threads that explain and write pages at once: they take turns at one interpreter


class Assigned(NamedTuple):
    """Whose clients are whose, as rows of a model."""

    version: str  # of the model
    epoch: object  # in which it was read
    until: float  # when it is to be read again
    of_user: dict[int, NDArray[np.int64]]  # ascending
    teams: dict[int, str]  # of those users


class Application:
    """What every request needs; one for the whole process."""

    def __init__(self, settings: Settings, database: Database, registry: Registry) -> None:
        self.settings, self.database, self.registry = settings, database, registry
        self.gate, self.views, self.uploads = Gate(settings, database), Views(database), Uploads()
        self.computing = threading.BoundedSemaphore(COMPUTING)
        self._assigned: Assigned | None = None
        self._epoch = object()  # another one after each change of assignments
        self._reading, self._started = threading.Lock(), False

    def start(self) -> None:
        """Tables as they should be and a model to serve, or an error of one line; a second time does nothing."""
        if not self._started:
            self.database.upgrade()
            self.registry.start()
            self._started = True

    def stop(self) -> None:
        self.registry.stop()
        self.database.close()

    @property
    def served(self) -> Served:
        return self.registry.current

    @property
    def cookie(self) -> str:
        """A browser takes a name with this prefix only over TLS and from this very host."""
        return "__Host-ocular_session" if self.settings.secure else "ocular_session"

    @cached_property
    def key(self) -> str:
        """What forms are signed with."""
        with self.database.reading() as transaction:
            return transaction.scalars(select(Key.secret).where(Key.name == "forms")).one()

    # ------------------------------------------------------------------------------------------------ clients

    def may_see(self, visitor: Visitor, client: str, transaction: Transaction) -> bool:
        """Sellers their own clients, managers those of their team and those of nobody, administrators all."""
        owner = transaction.execute(
            select(User.id, User.team).join(Assignment).where(Assignment.client == client)
        ).first()
        if visitor.role is Role.ADMIN:
            return True
        if visitor.role is Role.SELLER:
            return owner is not None and owner.id == visitor.user.id
        return owner is None or visitor.in_team(owner.id, owner.team)

    def find_client(self, served: Served, visitor: Visitor, name: str) -> int:
        """The row of a client that the visitor may see; any other is not found, whether it exists or not."""
        row = served.advisor.model.interactions_.user_rows.get(name)
        with self.database.reading() as transaction:  # asked in any case: time must not tell who exists
            if not self.may_see(visitor, "" if row is None else name, transaction) or row is None:
                raise NotFoundError("there is no such client among yours")
        return row

    def clients_of(self, served: Served, visitor: Visitor) -> NDArray[np.int64]:
        """Rows of all clients that the visitor may see, ascending."""
        n_users = served.advisor.model.interactions_.n_users
        if visitor.role is Role.ADMIN:
            return np.arange(n_users)
        assigned = self.assignments(served)
        if visitor.role is Role.SELLER:
            return assigned.of_user.get(visitor.user.id, np.empty(0, dtype=np.int64))
        seen = np.ones(n_users, dtype=bool)
        for user, clients in assigned.of_user.items():
            seen[clients] = visitor.in_team(user, assigned.teams[user])
        return np.flatnonzero(seen)

    def names_shown(self, served: Served, visitor: Visitor) -> NDArray[np.bool_]:
        """(n_users,) whose names the visitor may read in a rationale."""
        n_users = served.advisor.model.interactions_.n_users
        if visitor.role is Role.ADMIN or self.settings.names is Names.EVERYBODY:
            return np.ones(n_users, dtype=bool)
        shown = np.zeros(n_users, dtype=bool)
        shown[self.clients_of(served, visitor)] = True
        if self.settings.names is Names.TEAM:
            assigned = self.assignments(served)
            for user, clients in assigned.of_user.items():
                if visitor.in_team(user, assigned.teams[user]):
                    shown[clients] = True
        return shown

    def assignments(self, served: Served) -> Assigned:
        """Read again from time to time, by one thread, while the others go on with what was read before."""
        assigned = self._assigned
        if assigned is not None and self._fits(assigned, served):
            if assigned.until > time.monotonic() or not self._reading.acquire(blocking=False):
                return assigned
        else:
            self._reading.acquire()
        try:
            again = self._assigned
            if again is not None and again is not assigned and self._fits(again, served):
                return again  # somebody else has just done it
            assigned = self._read_assignments(served, self._epoch)
            if served is self.served:  # not for the last requests to the model before
                self._assigned = assigned
            return assigned
        finally:
            self._reading.release()

    def _fits(self, assigned: Assigned, served: Served) -> bool:
        return assigned.version == served.version and assigned.epoch is self._epoch

    def _read_assignments(self, served: Served, epoch: object) -> Assigned:
        rows, owned = served.advisor.model.interactions_.user_rows, dict[int, list[int]]()
        with self.database.reading() as transaction:
            teams = dict(transaction.execute(select(User.id, User.team)).all())
            for client, user in transaction.execute(select(Assignment.client, Assignment.user_id)):
                if client in rows:
                    owned.setdefault(user, []).append(rows[client])
        of_user = {user: np.sort(np.array(found, dtype=np.int64)) for user, found in owned.items() if user in teams}
        return Assigned(served.version, epoch, time.monotonic() + REMEMBERED, of_user, teams)

    def forget_assignments(self) -> None:
        """What is being read at this moment is not taken for what there is from now on either."""
        self._epoch = object()

    def log_view(self, visitor: Visitor, action: str, subject: str) -> None:
        self.views.write(visitor.user.name, action, subject, visitor.address)


def find_product(served: Served, name: str) -> int:
    row = served.advisor.model.interactions_.item_rows.get(name)
    if row is None:
        raise NotFoundError("there is no such product")
    return row


# ------------------------------------------------------------------------------------------------ for routes


async def application(request: Request) -> Application:  # async: it need not wait for a thread
    found: Application = request.app.state.application
    return found


App = Annotated[Application, Depends(application)]


async def current(app: App) -> Served:
    return app.served


Model = Annotated[Served, Depends(current)]  # one for the whole request, though a newer one may come in the middle


def address_of(request: Request) -> str:
    return plain_address(request.client.host if request.client is not None else None)


def of_session(request: Request, app: App) -> Visitor | None:
    secret = request.cookies.get(app.cookie)
    return app.gate.visitor_of_session(secret, address_of(request)) if secret else None


def of_token(request: Request, app: App) -> Visitor | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return app.gate.visitor_of_token(secret.strip(), address_of(request)) if kind.lower() == "bearer" else None


class Allowed:
    """A dependency of a route: who may use it. The test of all routes and roles reads `roles` from here."""

    by: str  # "session" for pages, "token" for the API

    def __init__(self, *roles: Role) -> None:
        self.roles = frozenset(roles)

    def _check(self, request: Request, visitor: Visitor | None) -> Visitor:
        if visitor is None:
            raise SignInError("sign in first" if self.by == "session" else "expected a valid token: Bearer …")
        request.state.visitor = visitor  # a refusal keeps the navigation
        if visitor.role not in self.roles:
            raise ForbiddenError("this is not for your role")
        return visitor


class BySession(Allowed):
    by = "session"

    async def __call__(self, request: Request, visitor: Annotated[Visitor | None, Depends(of_session)]) -> Visitor:
        return self._check(request, visitor)


class ByToken(Allowed):
    by = "token"

    async def __call__(self, request: Request, visitor: Annotated[Visitor | None, Depends(of_token)]) -> Visitor:
        return self._check(request, visitor)


EVERYBODY, LEADERS, ADMINS = tuple(Role), (Role.MANAGER, Role.ADMIN), (Role.ADMIN,)
AnyVisitor = Annotated[Visitor, Depends(BySession(*EVERYBODY))]
Leader = Annotated[Visitor, Depends(BySession(*LEADERS))]
Admin = Annotated[Visitor, Depends(BySession(*ADMINS))]
AnyProgram = Annotated[Visitor, Depends(ByToken(*EVERYBODY))]
LeaderProgram = Annotated[Visitor, Depends(ByToken(*LEADERS))]


async def genuine(visitor: AnyVisitor, csrf: Annotated[str, Form()] = "") -> None:
    """A form of ours: it carries the secret of the session, which no other site knows."""
    if not credentials.same(csrf, visitor.csrf):
        raise StaleFormError("this form is too old or not ours; go back, reload the page and try again")


Genuine: Any = Depends(genuine)
