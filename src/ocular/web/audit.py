"""Who did what, when and from where: written with what was done, read by administrators, pruned by age."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Select, delete, func, insert, select
from sqlalchemy.orm import Session as Transaction

from ocular.web.database import Database
from ocular.web.tables import NAME, AuditEntry, Failure

COLUMNS = ("at", "name", "action", "subject", "address")


def audit(transaction: Transaction, name: str, action: str, subject: str = "", address: str = "") -> None:
    entry = {"name": name[:NAME], "action": action, "subject": subject, "address": address}
    transaction.execute(insert(AuditEntry), entry)


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
