"""The pipeline: recommendations that somebody works on or has closed of late, with their dates and values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from ocular.feedback import OPEN, Status
from ocular.web.auth import Visitor
from ocular.web.outcomes import STATUSES, with_status
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.tables import Feedback, Role, User, now
from ocular.web.visibility import Owner, in_team

STAGES = (Status.PURSUING, Status.SNOOZED, Status.WON, Status.LOST)
NOBODY = -1  # in place of a person's number
RECENT = timedelta(days=90)  # that won and lost calls stay in sight


Ints = NDArray[np.int64]


class Order(StrEnum):
    DUE = "due"
    VALUE = "value"
    ADDED = "added"
    CLIENT = "client"


class Call(NamedTuple):
    """A recommendation in the pipeline; client and product are labels, since only those on a page need a name."""

    number: int  # of the latest feedback
    client: str
    product: str
    stage: Status
    at: int  # when it got its status, in seconds since 1970
    due: date | None
    overdue: bool
    chance: float | None  # None for a product that the model does not have any more
    confidence: float
    value: float | None  # expected value, or what the deal was worth once won
    reason: str
    seller: str  # the name of who has the client, or else of who gave the status
    seller_name: str  # as people read it

    @property
    def added(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


def read_pipeline(services: Services, served: ServedModel, visitor: Visitor) -> list[Call]:
    """Return the calls of a seller's own clients, or of those that a leader oversees, the newest first."""
    outcomes = services.outcomes.read()
    recent = with_status(outcomes.pairs, [Status.WON, Status.LOST]) & (
        outcomes.pairs["at"] >= int((now() - RECENT).timestamp())
    )
    places = np.flatnonzero(with_status(outcomes.pairs, OPEN) | recent)
    places = places[np.argsort(-outcomes.pairs["id"][places])]
    pairs, texts = outcomes.pairs[places], outcomes.texts
    items = services.outcomes.rows(outcomes, served.interactions)[1][places]
    owner_of, people = services.assignments.read(served).owner_of, _people(services)
    owners = np.array([owner_of.get(texts[client], NOBODY) for client in pairs["client"].tolist()], dtype=np.int64)
    owners[~np.isin(owners, list(people))] = NOBODY  # who left since assignments were read
    seen = _is_seen(visitor, people, owners, pairs["user"])
    pairs, items, owners = pairs[seen], items[seen], owners[seen]
    worth, today = served.opportunities.expected_values, now().date()
    chances = np.where(items >= 0, worth.chances(pairs["confidence"]), np.nan).tolist()
    values = np.where(items >= 0, worth.values(items, pairs["confidence"]), np.nan)
    values = np.where(pairs["status"] == STATUSES.index(Status.WON), pairs["amount"], values).tolist()
    calls = []
    columns = (pairs[name].tolist() for name in ("id", "client", "product", "status", "at", "due", "confidence"))
    sellers = np.where(owners == NOBODY, pairs["user"], owners).tolist()
    for (number, client, product, code, at, day, confidence), chance, value, reason, seller in zip(
        zip(*columns, strict=True), chances, values, pairs["reason"].tolist(), sellers, strict=True
    ):
        status, due = STATUSES[code], date.fromordinal(day) if day else None
        overdue = status is Status.PURSUING and due is not None and due < today
        calls.append(
            Call(
                number, texts[client], texts[product], status, at, due, overdue,
                _known(chance), confidence, _known(value), texts[reason], people[seller].name, people[seller].full_name,
            )
        )  # fmt: skip
    return calls


def _people(services: Services) -> dict[int, User]:
    with services.database.reading() as transaction:
        return {user.id: user for user in transaction.scalars(select(User))}


def _is_seen(visitor: Visitor, people: dict[int, User], owners: Ints, authors: Ints) -> NDArray[np.bool_]:
    """Return which calls the visitor may read, by who has the client and who gave the status: see `only_overseen`."""
    if visitor.role is Role.SELLER:
        return np.asarray(owners == visitor.user.id)
    if visitor.role is Role.ADMIN:
        return np.ones(len(owners), dtype=bool)
    team = [user.id for user in people.values() if in_team(visitor, Owner(user.id, user.team))]
    seen: NDArray[np.bool_] = np.isin(owners, team) | ((owners == NOBODY) & np.isin(authors, team))
    return seen


def read_notes(services: Services, calls: Iterable[Call]) -> dict[int, str]:
    """Return the note of each of a few calls, by its number."""
    with services.database.reading() as transaction:
        query = select(Feedback.id, Feedback.note).where(Feedback.id.in_([call.number for call in calls]))
        return dict(transaction.execute(query).all())


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class Total:
    """The number of calls and what they are worth together, as far as it is known."""

    count: int
    value: float | None  # None where no call has a value
    overdue: int


def total(calls: Iterable[Call]) -> Total:
    """Return the total of some calls."""
    calls = list(calls)
    values = [call.value for call in calls if call.value is not None]
    return Total(len(calls), sum(values) if values else None, sum(call.overdue for call in calls))


def ordered(calls: Iterable[Call], order: Order, served: ServedModel) -> list[Call]:
    """Return the calls in an order; those that are equal stay as they are, the newest first."""
    keys = {
        Order.DUE: lambda call: (call.due is None, call.due or date.max),
        Order.VALUE: lambda call: -(call.value or 0.0),
        Order.ADDED: lambda call: -call.at,
        Order.CLIENT: lambda call: served.client_name(call.client).casefold(),
    }
    return sorted(calls, key=keys[order])
