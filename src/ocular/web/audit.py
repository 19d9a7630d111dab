"""The audit log: who did what, when and from where; written with the action, read by administrators, pruned by age."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session as Transaction

from ocular.errors import ConfigError
from ocular.web.audit_chain import PRUNED, append, delete_until, lock_head, pruning_mark, read_mark
from ocular.web.database import BRIEF, Database, DatabaseError, read_by_id
from ocular.web.tables import LABEL, NAME, AuditEntry, Failure, now

COLUMNS = ("at", "name", "action", "subject", "address", "token")
MIN_AGE = timedelta(days=90)  # of what may be pruned


def audit(
    transaction: Transaction, name: str, action: str, subject: str = "", address: str = "", token: str = ""
) -> None:
    """Write an entry in the transaction of the action itself: both are stored, or neither."""
    append(transaction, [entry(name, action, subject, address, token)])


def entry(name: str, action: str, subject: str = "", address: str = "", token: str = "") -> dict[str, Any]:
    """Return an entry to append; `token` is that of the program which acts on behalf of the person."""
    return {
        "name": name[:NAME], "action": action, "subject": subject, "address": address, "token": token[:LABEL],
        "at": now(),
    }  # fmt: skip


class ViewLog:
    """
    Writes entries for viewed pages, which are many: those that wait for the disk at the same time share a transaction.

    Nobody sees what cannot be logged: they get an error after BRIEF seconds.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._turn, self._lock = database, threading.Lock(), threading.Lock()
        self._waiting: list[tuple[dict[str, Any], Future[None]]] = []

    def write(self, name: str, action: str, subject: str = "", address: str = "", token: str = "") -> None:
        """Write an entry; return when it is stored."""
        stored: Future[None] = Future()
        with self._lock:
            self._waiting.append((entry(name, action, subject, address, token), stored))
        if self._turn.acquire(timeout=BRIEF):
            try:
                if not stored.done():
                    self._write_all()
            finally:
                self._turn.release()
        if not stored.done():
            raise DatabaseError("The database is busy; try again in a moment")
        stored.result()

    def _write_all(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        try:
            with self._database.writing(BRIEF) as transaction:
                append(transaction, [written for written, _ in waiting])
        except Exception as error:
            for _, stored in waiting:
                stored.set_exception(error)
        else:
            for _, stored in waiting:
                stored.set_result(None)


@dataclass(frozen=True)
class AuditFilter:
    """Selects entries by person, action and days; an empty field selects all."""

    name: str = ""
    action: str = ""  # or a part of it
    since: date | None = None
    until: date | None = None  # that day too

    def query(self) -> Select[AuditEntry]:
        """Return the query of the selected entries."""
        query = select(AuditEntry)
        if self.name.strip():
            query = query.where(func.lower(AuditEntry.name) == self.name.strip().lower())
        if self.action.strip():
            query = query.where(func.lower(AuditEntry.action).contains(self.action.strip().lower(), autoescape=True))
        if self.since is not None:
            query = query.where(AuditEntry.at >= _midnight(self.since))
        if self.until is not None:
            query = query.where(AuditEntry.at <= datetime.combine(self.until, time.max, UTC))
        return query


def export_rows(database: Database, selection: AuditFilter) -> Iterator[dict[str, object]]:
    """Yield the selected entries as rows, oldest first."""
    for row in read_by_id(database, AuditEntry, selection.query()):
        yield {name: getattr(row, name) for name in COLUMNS} | {"at": row.at.isoformat()}


def prune(transaction: Transaction, before: date, name: str) -> int:
    """
    Delete entries and refused sign-ins from before the day, in the name of whoever asks; return the number of entries.

    A mark in the chain says what was deleted. Entries younger than MIN_AGE are refused. The first entry that stays
    keeps all after it, even those of a clock that was wrong: the chain has no holes.
    """
    latest = (now() - MIN_AGE).date()
    if before > latest:
        raise ConfigError(f"expected a day up to {latest}, got {before}; entries of the last {MIN_AGE.days} days stay")
    lock_head(transaction)
    transaction.execute(delete(Failure).where(Failure.at < _midnight(before)))
    first_kept = transaction.scalar(select(func.min(AuditEntry.id)).where(AuditEntry.at >= _midnight(before)))
    too_old = AuditEntry.id < first_kept if first_kept is not None else AuditEntry.id > 0
    last = transaction.scalars(select(AuditEntry).where(too_old).order_by(AuditEntry.id.desc()).limit(1)).first()
    count = transaction.scalar(select(func.count()).where(too_old)) or 0
    removed = read_mark(transaction)[0] + count
    append(transaction, [entry(name, PRUNED, pruning_mark(count, str(before), removed, last.digest if last else ""))])
    if last is not None:
        delete_until(transaction, last.id)
    return count


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
