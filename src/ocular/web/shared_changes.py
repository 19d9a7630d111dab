"""How processes on one database learn that another one changed what they keep in memory: by a stamp they ask for."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import select

from ocular.web import credentials
from ocular.web.database import Database
from ocular.web.tables import Change

Subject = Literal["assignments"]


class SharedChanges:
    """The stamps of the latest changes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stamp(self, subject: Subject) -> str:
        """Return what differs after each change; empty before the first one."""
        with self._database.reading() as transaction:
            return transaction.scalar(select(Change.stamp).where(Change.subject == subject)) or ""

    def announce(self, subject: Subject) -> None:
        """Have all processes read it again; call it after the change is stored."""
        with self._database.writing() as transaction:
            transaction.merge(Change(subject=subject, stamp=credentials.new_secret()))
