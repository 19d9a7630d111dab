"""Which recommendations sellers have seen: noted in memory while pages are made, and written in the background."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, cast, extract, func, select
from sqlalchemy.dialects import postgresql, sqlite

from ocular.web.auth import Visitor
from ocular.web.database import Database, DatabaseError
from ocular.web.registry import ServedModel
from ocular.web.tables import LABEL, Role, Shown, now

DELAY = 1.0  # seconds until what was noted is written
MAX_WAITING = 50_000  # pairs that wait for a database that does not answer
MAX_KNOWN = 200_000  # pairs that are remembered as written
WEEK = 7 * 24 * 3600  # seconds


class ShownLog:
    """Remembers the first time that each pair of client and product was shown; a page never waits for it."""

    def __init__(self, database: Database) -> None:
        self._database, self._lock, self._writing = database, threading.Lock(), threading.Lock()
        self._waiting: dict[str, dict[str, Any]] = {}
        self._known: set[int] = set()
        self._timer: threading.Timer | None = None

    def note(self, visitor: Visitor, pairs: Iterable[tuple[str, str]], served: ServedModel) -> None:
        """Note that a seller was shown recommendations, as labels of client and product; other roles only look on."""
        if visitor.role is Role.SELLER:
            self.add(visitor.user.id, pairs, served.version)

    def add(self, user_id: int, pairs: Iterable[tuple[str, str]], version: str) -> None:
        """Note pairs for a person, whatever the role: they are written within a second or so."""
        new = [pair for pair in pairs if hash(pair) not in self._known and max(map(len, pair)) <= LABEL]
        if not new:
            return
        at = now()
        with self._lock:
            for client, product in new[: MAX_WAITING - len(self._waiting)]:
                row = {"client": client, "product": product, "at": at, "user_id": user_id, "model": version}
                self._waiting.setdefault(pair_digest(client, product), row)
                self._known.add(hash((client, product)))
            if self._timer is None:
                self._timer = threading.Timer(DELAY, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write what was noted; a pair that is there already keeps its first time."""
        with self._writing:
            with self._lock:
                waiting, self._waiting, self._timer = self._waiting, {}, None
                if len(self._known) > MAX_KNOWN:
                    self._known.clear()
            if not waiting:
                return
            try:
                with self._database.writing() as transaction:
                    is_sqlite = transaction.get_bind().dialect.name == "sqlite"
                    insert = sqlite.insert(Shown) if is_sqlite else postgresql.insert(Shown)
                    rows = [{"pair": pair} | row for pair, row in waiting.items()]
                    transaction.execute(insert.on_conflict_do_nothing(), rows)
            except DatabaseError:  # they go with the next ones
                with self._lock:
                    self._waiting = waiting | self._waiting

    def stop(self) -> None:
        """Write what is left."""
        with self._lock:
            timer = self._timer
        if timer is not None:
            timer.cancel()
        self.flush()


def pair_digest(client: str, product: str) -> str:
    """Return the key of a pair of labels, which themselves are too long for one."""
    return hashlib.sha256(json.dumps([client, product]).encode()).hexdigest()


def shown_by_week(database: Database, start: datetime, since: datetime, until: datetime) -> list[tuple[int, int, int]]:
    """Return week after `start`, person and number of recommendations first shown to them, from `since` to `until`."""
    week = (cast(extract("epoch", Shown.at), BigInteger) - int(start.timestamp())) // WEEK
    query = select(week, Shown.user_id, func.count()).where(Shown.at >= since, Shown.at < until)
    with database.reading() as transaction:
        rows = transaction.execute(query.group_by(week, Shown.user_id)).all()
    return [(int(number), user_id, count) for number, user_id, count in rows]
