"""
What became of recommendations: the latest status of every pair of client and product, as columns in memory.

Feedback is only ever added, so that each request reads on from where the last one stopped. Where rows are gone or
others have their numbers, as after a backup was restored, all of it is read again. Pairs are those of all models
together: a refit changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from ocular.data.interactions import Interactions
from ocular.feedback import Status
from ocular.web.database import Database
from ocular.web.tables import Feedback

STATUSES = tuple(Status)
PURSUED = frozenset({Status.PURSUING, Status.WON, Status.LOST})  # somebody took it up
TAIL = 200  # rows that are read again: another process may commit a smaller number later
NEVER = -1

PAIR = np.dtype(
    [
        ("id", np.int64),  # of the latest feedback, as what follows down to `product`
        ("at", np.int64),  # seconds since 1970
        ("status", np.int8),  # place in STATUSES
        ("due", np.int32),  # as date.toordinal() counts days; 0 where there is none
        ("user", np.int64),
        ("amount", np.float64),
        ("confidence", np.float64),
        ("label", np.int32),  # these four are places in Outcomes.texts
        ("reason", np.int32),
        ("client", np.int32),
        ("product", np.int32),
        ("pursued", np.int64),  # when it was first pursued; NEVER
        ("judged", np.int64),  # when it first got any status
    ]
)
COLUMNS = (
    Feedback.id, Feedback.at, Feedback.client, Feedback.product, Feedback.user_id, Feedback.status, Feedback.amount,
    Feedback.confidence, Feedback.label, Feedback.reason, Feedback.due,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Every pair with feedback, as an array of PAIR."""

    pairs: NDArray[np.void]
    texts: list[str]  # labels, reasons, clients and products


class ModelRows(NamedTuple):
    """The row of each text in a model, were it a client or a product; −1 for none."""

    interactions: Interactions
    users: NDArray[np.int64]
    items: NDArray[np.int64]


class OutcomeLog:
    """One copy of the outcomes, shared by all threads."""

    def __init__(self, database: Database) -> None:
        self._database, self._lock = database, threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._pairs, self._n = np.empty(1024, dtype=PAIR), 0
        self._place: dict[tuple[int, int], int] = {}  # of each pair of client and product
        self._texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._last, self._recent = 0, dict[int, datetime]()  # when the latest feedback was given, by its number
        self._outcomes = Outcomes(self._pairs[:0].copy(), self._texts)
        self._rows: ModelRows | None = None

    def read(self) -> Outcomes:
        """Return the outcomes with all feedback that is stored by now."""
        with self._lock, self._database.reading() as transaction:
            is_new = Feedback.id > self._last - TAIL
            stamp = transaction.execute(select(func.count(), func.max(Feedback.at)).where(is_new)).one()
            if tuple(stamp) == (len(self._recent), max(self._recent.values(), default=None)):
                return self._outcomes
            rows = transaction.execute(select(*COLUMNS).where(is_new).order_by(Feedback.id)).all()
            if not self._recent.items() <= {row.id: row.at for row in rows}.items():
                self._forget()
                rows = transaction.execute(select(*COLUMNS).order_by(Feedback.id)).all()
            for row in rows:
                if row.id not in self._recent:
                    self._add(row)
            self._last = max((row.id for row in rows), default=self._last)
            self._recent = {row.id: row.at for row in rows if row.id > self._last - TAIL}
            self._outcomes = Outcomes(self._pairs[: self._n].copy(), self._texts)
            return self._outcomes

    def rows(self, outcomes: Outcomes, interactions: Interactions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of the client and the product of each pair in a model; −1 where it does not have them."""
        known, n = self._rows, len(outcomes.texts)
        if known is None or known.interactions is not interactions:
            known = ModelRows(interactions, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        new = outcomes.texts[len(known.users) : n]  # texts are only ever added
        if new:
            users, items = (
                np.concatenate([rows, np.array([places.get(text, -1) for text in new], dtype=np.int64)])
                for rows, places in ((known.users, interactions.user_rows), (known.items, interactions.item_rows))
            )
            known = ModelRows(interactions, users, items)
        self._rows = known
        return known.users[outcomes.pairs["client"]], known.items[outcomes.pairs["product"]]

    def _add(self, row: Any) -> None:
        number, at, client, product, user, status, amount, confidence, label, reason, due = row  # as COLUMNS
        seconds, status = int(at.timestamp()), Status(status)
        key = self._code(client), self._code(product)
        place = self._place.setdefault(key, self._n)
        if place == self._n:
            self._n += 1
            if self._n > len(self._pairs):
                self._pairs = np.concatenate([self._pairs, np.empty_like(self._pairs)])
            self._pairs[place] = (0, 0, 0, 0, 0, np.nan, 0.0, 0, 0, *key, NEVER, seconds)
        pair = self._pairs[place]
        if status in PURSUED and pair["pursued"] == NEVER:
            pair["pursued"] = seconds
        if number > pair["id"]:
            pair["id"], pair["at"], pair["user"], pair["confidence"] = number, seconds, user, confidence
            pair["status"], pair["amount"] = STATUSES.index(status), np.nan if amount is None else amount
            pair["label"], pair["reason"] = self._code(label), self._code(reason)
            pair["due"] = 0 if due is None else due.toordinal()

    def _code(self, text: str) -> int:
        code = self._codes.setdefault(text, len(self._texts))
        if code == len(self._texts):
            self._texts.append(text)
        return code


def with_status(pairs: NDArray[np.void], statuses: Iterable[Status]) -> NDArray[np.bool_]:
    """Return which pairs have one of the statuses."""
    return np.isin(pairs["status"], [STATUSES.index(status) for status in statuses])
