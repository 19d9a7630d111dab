"""The pipeline: recommendations that somebody works on or has closed of late, with their dates and values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from ocular.feedback import OPEN, Status
from ocular.web.auth import Visitor
from ocular.web.database import Database
from ocular.web.feedback import latest_ids
from ocular.web.registry import ServedModel
from ocular.web.tables import Assignment, Feedback, Role, User, now
from ocular.web.visibility import Query, only_overseen, only_own_clients

STAGES = (Status.PURSUING, Status.SNOOZED, Status.WON, Status.LOST)
RECENT = timedelta(days=90)  # that won and lost calls stay in sight


class Order(StrEnum):
    DUE = "due"
    VALUE = "value"
    ADDED = "added"
    CLIENT = "client"


class Call(NamedTuple):
    """A recommendation in the pipeline; client and product are labels, since only those on a page need a name."""

    client: str
    product: str
    stage: Status
    added: datetime
    due: date | None
    overdue: bool
    chance: float | None  # None for a product that the model does not have any more
    confidence: float
    value: float | None  # expected value, or what the deal was worth once won
    reason: str
    note: str
    seller: str  # the name of who has the client, or else of who gave the status
    seller_name: str  # as people read it


def read_pipeline(database: Database, served: ServedModel, visitor: Visitor) -> list[Call]:
    """Return the calls of a seller's own clients, or of those that a manager or administrator oversees."""
    owner, held = aliased(User), aliased(Assignment)
    author = aliased(User)
    columns = (Feedback.client, Feedback.product, Feedback.status, Feedback.at, Feedback.due, Feedback.confidence,
               Feedback.amount, Feedback.reason, Feedback.note)  # fmt: skip
    sellers = (func.coalesce(owner.name, author.name), func.coalesce(owner.full_name, author.full_name))
    query: Query = select(*columns, *sellers).join(author, author.id == Feedback.user_id)
    query = query.outerjoin(held, held.client == Feedback.client).outerjoin(owner, owner.id == held.user_id)
    if visitor.role is Role.SELLER:
        query = query.where(Feedback.id.in_(only_own_clients(latest_ids(), visitor)))
    else:
        query = only_overseen(query.where(Feedback.id.in_(latest_ids())), visitor)
    is_open = Feedback.status.in_(OPEN)
    is_recent = Feedback.status.in_([Status.WON, Status.LOST]) & (Feedback.at >= now() - RECENT)
    with database.reading() as transaction:
        rows = transaction.execute(query.where(is_open | is_recent).order_by(Feedback.id.desc())).all()
    items, worth, today = served.interactions.item_rows, served.opportunities.expected_values, now().date()
    places = np.array([items.get(row.product, -1) for row in rows], dtype=np.int64)
    confidences = np.array([row.confidence for row in rows], dtype=np.float64)
    chances = np.where(places >= 0, worth.chances(confidences), np.nan)
    values = np.where(places >= 0, worth.values(places, confidences), np.nan)
    return [
        Call(
            client, product, Status(status), at, due, status == Status.PURSUING and due is not None and due < today,
            _known(chance), confidence, amount if status == Status.WON else _known(value), *rest,
        )
        for (client, product, status, at, due, confidence, amount, *rest), chance, value in zip(
            rows, chances.tolist(), values.tolist(), strict=True
        )
    ]  # fmt: skip


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
        Order.ADDED: lambda call: -call.added.timestamp(),
        Order.CLIENT: lambda call: served.client_name(call.client).casefold(),
    }
    return sorted(calls, key=keys[order])
