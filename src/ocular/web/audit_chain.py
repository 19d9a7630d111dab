"""
The hash chain of the audit log: each entry holds a keyed digest of its content and of the entry before it.

The head, one row that every writer locks, holds the number of entries ever written and the latest digest, signed.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session as Transaction

from ocular.web.database import PAGE, Database
from ocular.web.tables import AuditEntry, AuditHead, Key, now

KEY = "audit"  # name of the secret in the table of keys
PRUNED = "audit pruned"
_MARK = re.compile(r"; (\d+) removed in all, the last with the digest ([0-9a-f]{64})$")


def entry_digest(key: str, before: str, entry: dict[str, Any]) -> str:
    """Return the keyed digest of an entry that follows the one with the digest `before`."""
    content = [entry[name] for name in ("name", "action", "subject", "address", "token")]
    return _sign(key, "entry", before, entry["at"].isoformat(), *content)


def head_seal(key: str, count: int, digest: str) -> str:
    """Return the signature of the head, which no earlier entry gives away."""
    return _sign(key, "head", str(count), digest)


def _sign(key: str, *parts: str) -> str:
    return hmac.digest(key.encode(), json.dumps(parts).encode(), "sha256").hex()


def append(transaction: Transaction, entries: Sequence[dict[str, Any]]) -> None:
    """Add entries to the end of the chain; other writers wait until the transaction ends."""
    if not entries:
        return
    head, key = lock_head(transaction), read_key(transaction)
    rows, digest = [], head.digest
    for entry in entries:
        row = {"at": now(), "token": ""} | entry
        digest = entry_digest(key, digest, row)
        rows.append(row | {"digest": digest})
    transaction.execute(insert(AuditEntry), rows)
    count = head.count + len(rows)
    transaction.execute(update(AuditHead).values(count=count, digest=digest, seal=head_seal(key, count, digest)))


def lock_head(transaction: Transaction) -> AuditHead:
    """Return the head as it is now, locked until the transaction ends; in SQLite nobody else writes anyway."""
    query = select(AuditHead).with_for_update().execution_options(populate_existing=True)
    return transaction.scalars(query).one()


def read_key(transaction: Transaction) -> str:
    return transaction.scalars(select(Key.secret).where(Key.name == KEY)).one()


def delete_until(transaction: Transaction, last: int) -> None:
    """Delete the entries up to this id, past the triggers that guard them."""
    transaction.execute(update(AuditHead).values(prunable=last))
    transaction.execute(delete(AuditEntry).where(AuditEntry.id <= last))
    transaction.execute(update(AuditHead).values(prunable=0))


def clear(transaction: Transaction) -> None:
    """Begin a new log, for a demo that is filled anew."""
    lock_head(transaction)
    delete_until(transaction, transaction.scalar(select(func.max(AuditEntry.id))) or 0)
    seal = head_seal(read_key(transaction), 0, "")
    transaction.execute(update(AuditHead).values(count=0, digest="", seal=seal))


def pruning_mark(n_deleted: int, before: str, n_removed: int, digest: str) -> str:
    """Return the subject of the entry that pruning leaves: the chain goes on from the digest that it states."""
    mark = f"{n_deleted:,} entries before {before}"
    return f"{mark}; {n_removed} removed in all, the last with the digest {digest}" if n_deleted else mark


def read_mark(transaction: Transaction) -> tuple[int, str]:
    """Return the number of entries removed in all and the digest of the last of them, by the latest mark."""
    marks = select(AuditEntry.subject).where(AuditEntry.action == PRUNED).order_by(AuditEntry.id.desc())
    for subject in transaction.scalars(marks):
        if found := _MARK.search(subject):
            return int(found[1]), found[2]
    return 0, ""


@dataclass(frozen=True)
class Verification:
    """What became of the chain."""

    n_entries: int
    digest: str  # of the last entry
    fault: str = ""  # the first one


def verify(database: Database, known: str = "") -> Verification:
    """Return whether the chain is whole, and has the digest `known` that was noted elsewhere."""
    with database.reading() as transaction:
        if transaction.get_bind().dialect.name == "postgresql":  # one state for all pages, whoever writes meanwhile
            transaction.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        key, head = read_key(transaction), transaction.scalars(select(AuditHead)).one()
        removed, digest = read_mark(transaction)
        n_entries, last, met = 0, 0, known in ("", digest)
        while True:
            page = select(AuditEntry).where(AuditEntry.id > last).order_by(AuditEntry.id).limit(PAGE)
            rows = transaction.scalars(page).all()
            for row in rows:
                if entry_digest(key, digest, vars(row)) != row.digest:
                    return Verification(n_entries, digest, f"entry {row.id} {_of(row.at)}: {CHANGED}")
                n_entries, last, digest = n_entries + 1, row.id, row.digest
                met |= digest == known
            transaction.expunge_all()
            if len(rows) < PAGE:
                break
    if head.seal != head_seal(key, head.count, head.digest):
        return Verification(n_entries, digest, "the head of the chain was changed by hand")
    if (head.count, head.digest) != (removed + n_entries, digest):
        missing = head.count - removed - n_entries
        return Verification(n_entries, digest, f"after entry {last}: {missing:,} entries are missing at the end")
    if not met:
        return Verification(n_entries, digest, f"no entry has the digest {known}: the log is an older or another one")
    return Verification(n_entries, digest)


CHANGED = "it was changed, or the entry before it was changed, moved or deleted"


def _of(at: datetime) -> str:
    return f"of {at:%Y-%m-%d %H:%M:%S} UTC"
