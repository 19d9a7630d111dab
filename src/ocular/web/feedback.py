"""What people said of recommendations: stored for good, with the version of the model that made them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice

import numpy as np
from sqlalchemy import func, select

from ocular.feedback import CLOSED, OPEN, Status
from ocular.web.audit import audit
from ocular.web.auth import Visitor
from ocular.web.database import Database, read_by_id
from ocular.web.errors import ConflictError, InputError
from ocular.web.feedback_seal import ShownRecommendation, open_seal, shown_recommendation
from ocular.web.opportunities import Pairs
from ocular.web.outcomes import with_status
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.tables import Feedback, now
from ocular.web.visibility import Query, only_overseen

COLUMNS = (
    "at", "client", "product", "status", "reason", "note", "seller", "team", "model", "confidence", "pattern", "label",
    "due", "amount",
)  # fmt: skip


@dataclass(frozen=True)
class NewFeedback:
    """What a person or program says of a recommendation."""

    client: str
    product: str
    status: Status
    reason: str = ""
    note: str = ""
    due: date | None = None  # of the follow-up, or the day on which a snoozed one returns
    amount: float | None = None  # what a deal was worth, once won


def record(services: Services, served: ServedModel, visitor: Visitor, given: NewFeedback, seal: str) -> int:
    """
    Store feedback on a recommendation and return its number.

    With a valid seal it counts for the recommendation that was shown, though the model may know neither the client nor
    the product any more; without one, for what the served model recommends now.
    """
    given = _checked(given, now().date())
    shown = open_seal(services.signing_key, given.client, given.product, seal)
    if shown is not None and not served.knows(given.client, given.product):  # as after a refit without them
        services.visibility.check_client(visitor, given.client)
    else:
        user = services.visibility.find_client(served, visitor, given.client)
        item = served.find_product(given.product)
        if given.status in OPEN and item in served.interactions.by_user[user]:
            raise ConflictError("The client already owns this product")
    if shown is None:
        with services.computing:
            shown = shown_recommendation(served, served.advisor.explain(given.client, given.product))
    services.shown.add(visitor.user.id, [(given.client, given.product)], shown.model)
    return save_feedback(services.database, visitor, given, shown)


def _checked(given: NewFeedback, today: date) -> NewFeedback:
    """Return the feedback without a date or an amount that its status has no use for; raise where the date is wrong."""
    status, due = given.status, given.due
    if status is Status.SNOOZED and (due is None or due <= today):
        raise InputError("Choose a day after today to snooze a recommendation")
    if status is Status.PURSUING and due is not None and due < today:
        raise InputError(f"Choose today or a later day for a follow-up, not {due}")
    return replace(given, due=due if status in OPEN else None, amount=given.amount if status is Status.WON else None)


def save_feedback(database: Database, visitor: Visitor, given: NewFeedback, shown: ShownRecommendation) -> int:
    """Add a row of feedback and return its number."""
    row = Feedback(
        client=given.client, product=given.product, user_id=visitor.user.id, status=given.status,
        reason=given.reason.strip(), note=given.note.strip(), model=shown.model, confidence=shown.confidence,
        pattern=shown.pattern, label=shown.label, due=given.due, amount=given.amount,
    )  # fmt: skip
    subject = f"{given.client} · {given.product}"
    with database.writing() as transaction:
        transaction.add(row)
        audit(transaction, visitor.user.name, f"feedback: {given.status}", subject, visitor.address, visitor.token)
        transaction.flush()
        return row.id


def feedback_on(database: Database, client: str, product: str) -> list[Feedback]:
    """Return all feedback on a recommendation, the latest first."""
    with database.reading() as transaction:
        of_pair = (Feedback.client == client) & (Feedback.product == product)
        return list(transaction.scalars(select(Feedback).where(of_pair).order_by(Feedback.id.desc())))


def latest_by_product(database: Database, client: str) -> dict[str, Feedback]:
    """Return the latest feedback on each product of a client."""
    with database.reading() as transaction:
        rows = transaction.scalars(select(Feedback).where(Feedback.client == client).order_by(Feedback.id))
        return {row.product: row for row in rows}


def latest_ids() -> Query:
    """Select the number of the latest feedback on every pair of client and product."""
    return select(func.max(Feedback.id)).group_by(Feedback.client, Feedback.product)


def closed_pairs(services: Services, served: ServedModel, *, pursued: bool = False) -> Pairs:
    """
    Return the rows of client and product that lists leave out: closed, or snoozed until a later day.

    `pursued` adds those that are being pursued. They are those of all clients; a list takes what concerns its own.
    """
    outcomes = services.outcomes.read()
    users, items = services.outcomes.rows(outcomes, served.interactions)
    snoozed = with_status(outcomes.pairs, [Status.SNOOZED]) & (outcomes.pairs["due"] > now().date().toordinal())
    left_out = with_status(outcomes.pairs, CLOSED | {Status.PURSUING} if pursued else CLOSED) | snoozed
    left_out &= (users >= 0) & (items >= 0)
    return np.stack([users[left_out], items[left_out]], axis=1)


def latest_by_pair(database: Database, clients: Collection[str]) -> dict[tuple[str, str], Feedback]:
    """Return the latest feedback on each product of a few clients."""
    with database.reading() as transaction:
        rows = transaction.scalars(select(Feedback).where(Feedback.client.in_(clients)).order_by(Feedback.id))
        return {(row.client, row.product): row for row in rows}


def latest_feedback(database: Database, visitor: Visitor, limit: int) -> list[Feedback]:
    """Return the latest feedback on each pair that the visitor oversees, the latest first."""
    query = only_overseen(select(Feedback).where(Feedback.id.in_(latest_ids())), visitor)
    with database.reading() as transaction:
        return list(transaction.scalars(query.order_by(Feedback.id.desc()).limit(limit)))


def export_rows(
    database: Database, visitor: Visitor, *, after: int = 0, limit: int | None = None
) -> Iterator[dict[str, object]]:
    """Yield all feedback that the visitor oversees, oldest first: at most `limit` rows that follow a number."""
    for row in islice(read_by_id(database, Feedback, only_overseen(select(Feedback), visitor), after), limit):
        columns = {name: getattr(row, name) for name in ("id", *COLUMNS) if name not in {"at", "seller", "team"}}
        yield {"at": row.at.isoformat(), "seller": row.user.name, "team": row.user.team} | columns
