"""The assignments as rows of the served model, read from the database from time to time: lists need all of them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from ocular.web.database import Database
from ocular.web.registry import Registry, ServedModel
from ocular.web.shared_changes import SharedChanges
from ocular.web.tables import Assignment, User

MAX_AGE = 30.0  # seconds that assignments serve for lists; a single client is always looked up
NO_CLIENTS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class AssignedClients:
    """The clients of each person, as rows of a model."""

    version: str  # of the model
    stamp: str  # of the latest change of assignments when it was read
    expires: float  # when it is to be read again
    by_user: dict[int, NDArray[np.int64]]  # ascending
    teams: dict[int, str]  # of these users
    owner_of: dict[str, int]  # the person who has each client, by label: the model need not have the client

    def clients_of(self, user_id: int) -> NDArray[np.int64]:
        """Return the rows of the clients of one person, ascending."""
        return self.by_user.get(user_id, NO_CLIENTS)

    def owners(self, n_users: int) -> NDArray[np.int64]:
        """Return (n_users,) the person that each client is assigned to; −1 for nobody."""
        owners = np.full(n_users, -1, dtype=np.int64)
        for user_id, clients in self.by_user.items():
            owners[clients] = user_id
        return owners

    def all_clients(self) -> NDArray[np.int64]:
        """Return the rows of all clients that somebody has."""
        return np.concatenate([NO_CLIENTS, *self.by_user.values()])


class AssignmentCache:
    """One copy of the assignments, shared by all threads."""

    def __init__(self, database: Database, registry: Registry) -> None:
        self._database, self._registry, self._changes = database, registry, SharedChanges(database)
        self._assigned: AssignedClients | None = None
        self._reading = threading.Lock()

    def read(self, served: ServedModel) -> AssignedClients:
        """Return the assignments; one thread reads them again when they expire, while the others use the old ones."""
        assigned, stamp = self._assigned, self._changes.stamp("assignments")  # another process may have changed them
        if assigned is not None and _is_valid(assigned, served, stamp):
            if assigned.expires > time.monotonic() or not self._reading.acquire(blocking=False):
                return assigned
        else:
            self._reading.acquire()
        try:
            latest = self._assigned
            if latest is not None and latest is not assigned and _is_valid(latest, served, stamp):
                return latest  # another thread has just read it
            assigned = self._read(served, stamp)
            if served is self._registry.current:  # not for the last requests to the model before
                self._assigned = assigned
            return assigned
        finally:
            self._reading.release()

    def invalidate(self) -> None:
        """Have all processes read the assignments again, even where one is reading them at this moment."""
        self._changes.announce("assignments")

    def _read(self, served: ServedModel, stamp: str) -> AssignedClients:
        rows, clients_by_user, owner_of = served.interactions.user_rows, dict[int, list[int]](), dict[str, int]()
        with self._database.reading() as transaction:
            teams = dict(transaction.execute(select(User.id, User.team)).all())
            for client, user_id in transaction.execute(select(Assignment.client, Assignment.user_id)):
                owner_of[client] = user_id
                if client in rows:
                    clients_by_user.setdefault(user_id, []).append(rows[client])
        by_user = {
            user_id: np.sort(np.array(clients, dtype=np.int64))
            for user_id, clients in clients_by_user.items()
            if user_id in teams
        }
        return AssignedClients(served.version, stamp, time.monotonic() + MAX_AGE, by_user, teams, owner_of)


def _is_valid(assigned: AssignedClients, served: ServedModel, stamp: str) -> bool:
    return assigned.version == served.version and assigned.stamp == stamp
