"""
Who may see whom: the rules that pages, the API, exports, feedback and assignments share.

A seller sees their own clients. A manager sees the clients of the team and those that nobody has. An administrator
sees every client. People without a team are each a team of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import Session as Transaction
from sqlalchemy.orm import aliased

from ocular.web.assignment_cache import AssignmentCache
from ocular.web.auth import Visitor
from ocular.web.database import Database
from ocular.web.errors import NotFoundError
from ocular.web.registry import ServedModel
from ocular.web.settings import Names
from ocular.web.tables import Assignment, Feedback, Role, User

Query = Select[*tuple[Any, ...]]
Rows = NDArray[np.int64]


class Owner(NamedTuple):
    """The person that a client is assigned to."""

    user_id: int
    team: str


# ------------------------------------------------------------------------------------------------ the rules


def in_team(visitor: Visitor, person: Owner) -> bool:
    """Return whether the person is the visitor or somebody of the same team."""
    return person.user_id == visitor.user.id or (bool(person.team) and person.team == visitor.user.team)


def oversees(visitor: Visitor, person: Owner) -> bool:
    """Return whether a manager or administrator may see and assign the clients of the person."""
    return visitor.role is Role.ADMIN or in_team(visitor, person)


def may_see_client_of(visitor: Visitor, owner: Owner | None) -> bool:
    """Return whether the visitor may see a client of this owner; None stands for a client that nobody has."""
    if visitor.role is Role.SELLER:
        return owner is not None and owner.user_id == visitor.user.id
    return owner is None or oversees(visitor, owner)


# ------------------------------------------------------------------------------------------------ in the database


def may_see(transaction: Transaction, visitor: Visitor, client: str) -> bool:
    """Return whether the visitor may see the client, by the assignments of this moment."""
    query = select(User.id, User.team).join(Assignment, Assignment.user_id == User.id)
    owner = transaction.execute(query.where(Assignment.client == client)).first()
    return may_see_client_of(visitor, None if owner is None else Owner(*owner))


def overseen_sellers(transaction: Transaction, visitor: Visitor) -> list[User]:
    """Return the sellers whose clients a manager or administrator may see, by name; none for a seller."""
    if visitor.role is Role.SELLER:
        return []
    sellers = transaction.scalars(select(User).where(User.role == Role.SELLER).order_by(User.name))
    return [user for user in sellers if oversees(visitor, Owner(user.id, user.team))]


def owner_names(transaction: Transaction, clients: Collection[str]) -> dict[str, str]:
    """Return the full name of the person who has each of a few clients; a client that nobody has is left out."""
    query = select(Assignment.client, User.full_name).join(User, User.id == Assignment.user_id)
    return dict(transaction.execute(query.where(Assignment.client.in_(clients))).all())


def only_own_clients(query: Query, visitor: Visitor) -> Query:
    """Restrict a query of feedback to clients that are assigned to the visitor."""
    query = query.join(Assignment, Assignment.client == Feedback.client)
    return query.where(Assignment.user_id == visitor.user.id)


def only_overseen(query: Query, visitor: Visitor) -> Query:
    """
    Restrict a query of feedback to what a manager or administrator may read.

    An administrator reads everything. A manager reads feedback on clients that are the team's now, and of clients that
    nobody has what the team itself wrote.
    """
    if visitor.role is Role.ADMIN:
        return query
    owner, author = aliased(User), aliased(User)

    def of_team(person: Any) -> ColumnElement[bool]:  # in_team as SQL
        own: ColumnElement[bool] = person.id == visitor.user.id
        return own | (person.team == visitor.user.team) if visitor.user.team else own

    query = query.outerjoin(Assignment, Assignment.client == Feedback.client)
    query = query.outerjoin(owner, owner.id == Assignment.user_id).join(author, author.id == Feedback.user_id)
    return query.where(of_team(owner) | (Assignment.client.is_(None) & of_team(author)))


# ------------------------------------------------------------------------------------------------ in a model


class Visibility:
    """The clients of the served model that a visitor may see, and the names that they may read."""

    def __init__(self, database: Database, assignments: AssignmentCache, names: Names) -> None:
        self._database, self._assignments, self._names = database, assignments, names

    def find_client(self, served: ServedModel, visitor: Visitor, client: str) -> int:
        """Return the row of a client that the visitor may see; any other is not found, whether it exists or not."""
        row = served.interactions.user_rows.get(client)
        with self._database.reading() as transaction:  # asked in any case: time must not tell who exists
            if not may_see(transaction, visitor, "" if row is None else client) or row is None:
                raise NotFoundError("Client not found")
        return row

    def check_client(self, visitor: Visitor, client: str) -> None:
        """Raise unless the visitor may see the client, who need not be in the model any more."""
        with self._database.reading() as transaction:
            if not may_see(transaction, visitor, client):
                raise NotFoundError("Client not found")

    def clients_of(self, served: ServedModel, visitor: Visitor) -> Rows:
        """Return the rows of all clients that the visitor may see, ascending."""
        n_users = served.interactions.n_users
        if visitor.role is Role.ADMIN:
            return np.arange(n_users)
        assigned = self._assignments.read(served)
        if visitor.role is Role.SELLER:
            return assigned.clients_of(visitor.user.id)
        visible = np.ones(n_users, dtype=bool)
        for user_id, clients in assigned.by_user.items():
            visible[clients] = may_see_client_of(visitor, Owner(user_id, assigned.teams[user_id]))
        return np.flatnonzero(visible)

    def readable_names(self, served: ServedModel, visitor: Visitor) -> NDArray[np.bool_]:
        """Return (n_users,) whose names the visitor may read in a rationale."""
        n_users = served.interactions.n_users
        if visitor.role is Role.ADMIN or self._names is Names.EVERYBODY:
            return np.ones(n_users, dtype=bool)
        readable = np.zeros(n_users, dtype=bool)
        readable[self.clients_of(served, visitor)] = True
        if self._names is Names.TEAM:
            assigned = self._assignments.read(served)
            for user_id, clients in assigned.by_user.items():
                if in_team(visitor, Owner(user_id, assigned.teams[user_id])):
                    readable[clients] = True
        return readable
