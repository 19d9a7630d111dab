"""Who did what, when and from where: written with what was done, read by administrators, pruned by age."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Select, delete, func, insert, select
from sqlalchemy.orm import Session as Transaction

from ocular.web.database import BRIEF, Database, DatabaseError
from ocular.web.tables import NAME, AuditEntry, Failure

COLUMNS = ("at", "name", "action", "subject", "address")


def audit(transaction: Transaction, name: str, action: str, subject: str = "", address: str = "") -> None:
    transaction.execute(insert(AuditEntry), _entry(name, action, subject, address))


def _entry(name: str, action: str, subject: str, address: str) -> dict[str, str]:
    return {"name": name[:NAME], "action": action, "subject": subject, "address": address}


class Views:
    """
    Views, which come thick and fast: those that wait while the disk confirms the ones before share a transaction.

    Nobody sees what can not be written down; they hear so soon.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._turn, self._lock = database, threading.Lock(), threading.Lock()
        self._waiting: list[tuple[dict[str, str], Future[None]]] = []

    def write(self, name: str, action: str, subject: str = "", address: str = "") -> None:
        """Returns when it is kept."""
        kept: Future[None] = Future()
        with self._lock:
            self._waiting.append((_entry(name, action, subject, address), kept))
        if self._turn.acquire(timeout=BRIEF):
            try:
                if not kept.done():
                    self._write_all()
            finally:
                self._turn.release()
        if not kept.done():
            raise DatabaseError("the database is busy; try again in a moment")
        kept.result()

    def _write_all(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        try:
            with self._database.writing(BRIEF) as transaction:
                transaction.execute(insert(AuditEntry), [entry for entry, _ in waiting])
        except Exception as error:
            for _, kept in waiting:
                kept.set_exception(error)
        else:
            for _, kept in waiting:
                kept.set_result(None)


@dataclass(frozen=True)
class Wanted:
    """Which entries: of a person, of a kind, of some days; all where nothing is said."""

    name: str = ""
    action: str = ""  # or a part of it
    since: date | None = None
    until: date | None = None  # that day too

    def entries(self) -> Select[AuditEntry]:
        chosen = select(AuditEntry)
        if self.name.strip():
            chosen = chosen.where(func.lower(AuditEntry.name) == self.name.strip().lower())
        if self.action.strip():
            chosen = chosen.where(func.lower(AuditEntry.action).contains(self.action.strip().lower(), autoescape=True))
        if self.since is not None:
            chosen = chosen.where(AuditEntry.at >= _midnight(self.since))
        if self.until is not None:
            chosen = chosen.where(AuditEntry.at < _midnight(self.until) + timedelta(days=1))
        return chosen


def export_rows(database: Database, wanted: Wanted) -> Iterator[dict[str, object]]:
    """Oldest first, a row at a time."""
    with database.reading() as transaction:
        chosen = wanted.entries().order_by(AuditEntry.id).execution_options(yield_per=1000)
        for row in transaction.scalars(chosen):
            yield {name: getattr(row, name) for name in COLUMNS} | {"at": row.at.isoformat()}


def prune(transaction: Transaction, before: date) -> int:
    """Delete what is older than the day; returns how many entries."""
    transaction.execute(delete(Failure).where(Failure.at < _midnight(before)))
    gone = AuditEntry.at < _midnight(before)
    count = transaction.scalar(select(func.count()).where(gone)) or 0
    transaction.execute(delete(AuditEntry).where(gone))
    return count


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
