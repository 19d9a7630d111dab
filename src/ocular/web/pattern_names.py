"""
The names that managers gave to patterns.

A name is stored with the most typical products of its pattern, not with its number: after a refit it goes to the
pattern whose products are most alike, if they are alike enough.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select

from ocular.explain.names import one_line
from ocular.web.audit import audit
from ocular.web.auth import Visitor
from ocular.web.database import Database, DatabaseError
from ocular.web.errors import ConflictError, RefusedError
from ocular.web.registry import ServedModel
from ocular.web.tables import NAME, PatternName

MAX_AGE = 5.0  # seconds until a name that another process saved is shown here
MAX_PRODUCTS = 20  # that a pattern is known by
MIN_ALIKE = 0.4  # similarity from which a name goes to a pattern


@dataclass(frozen=True)
class GivenNames:
    """The names of the patterns of one model, and the row of each in the database."""

    version: str
    expires: float
    names: Mapping[int, str]  # by number of the pattern
    rows: Mapping[int, int]


class PatternNames:
    """One copy of the names, shared by all threads."""

    def __init__(self, database: Database) -> None:
        self._database, self._reading = database, threading.Lock()
        self._given: GivenNames | None = None

    def names_of(self, served: ServedModel) -> Mapping[int, str]:
        """Return the given names by number of the pattern; those that cannot be read again now stay as they are."""
        return self._current(served).names

    def rename(self, served: ServedModel, visitor: Visitor, number: int, name: str) -> None:
        """Save the name of a pattern; an empty one brings back the automatic name."""
        name, before = one_line(name), served.pattern_label(number)
        if len(name) > NAME:
            raise RefusedError(f"Use at most {NAME} characters for the name")
        others = {served.pattern_label(other).casefold() for other in served.patterns if other != number}
        if name.casefold() in others:
            raise ConflictError(f"Another pattern is called {name}; choose another name")
        row, products = self._read(served).rows.get(number), json.dumps(_typical_products(served, number))
        with self._database.writing() as transaction:
            transaction.execute(delete(PatternName).where((PatternName.id == row) | (PatternName.products == products)))
            if name:
                transaction.add(PatternName(name=name, products=products, user_id=visitor.user.id))
            subject = f"{before} → {name or served.patterns[number].label}"
            audit(transaction, visitor.user.name, "pattern renamed", subject, visitor.address)
        with self._reading:  # what another thread is reading at this moment may be older
            self._given = None

    def _current(self, served: ServedModel) -> GivenNames:
        given = self._given
        if given is not None and given.version == served.version:
            if given.expires > time.monotonic() or not self._reading.acquire(blocking=False):
                return given
        else:
            self._reading.acquire()
        try:
            self._given = given = self._read(served)
        except DatabaseError:
            if given is None or given.version != served.version:
                raise
        finally:
            self._reading.release()
        return given

    def _read(self, served: ServedModel) -> GivenNames:
        with self._database.reading() as transaction:
            saved = list(transaction.scalars(select(PatternName).order_by(PatternName.id.desc())))
        typical = {number: _typical_products(served, number) for number in served.patterns} if saved else {}
        pairs = [
            (alike, place, number)
            for place, row in enumerate(saved)
            for number, products in typical.items()
            if (alike := similarity(json.loads(row.products), products)) >= MIN_ALIKE
        ]
        names, rows, taken = dict[int, str](), dict[int, int](), set[int]()
        for _, place, number in sorted(pairs, key=lambda pair: (-pair[0], *pair[1:])):
            if number not in names and place not in taken:
                names[number], rows[number] = saved[place].name, saved[place].id
                taken.add(place)
        return GivenNames(served.version, time.monotonic() + MAX_AGE, names, rows)


def similarity(before: Sequence[str], now: Sequence[str]) -> float:
    """
    Return how alike two lists of products are, from 0 to 1: the first of each count most.

    >>> similarity(["saw", "vise"], ["saw", "vise"]), similarity(["saw"], ["sail"])
    (1.0, 0.0)
    """
    old, new = ({product: (1 + rank) ** -0.5 for rank, product in enumerate(products)} for products in (before, now))
    shared = sum(min(old[product], new[product]) for product in old.keys() & new.keys())
    return float(shared / max(sum(old.values()) + sum(new.values()) - shared, 1e-12))


def _typical_products(served: ServedModel, number: int) -> list[str]:
    labels = served.interactions.item_labels
    return [str(labels[item]) for item in served.patterns[number].items[:MAX_PRODUCTS].tolist()]
