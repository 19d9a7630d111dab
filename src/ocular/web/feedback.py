"""What people made of recommendations: kept for good, with the version of the model that made them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import aliased

from ocular.data.interactions import Interactions
from ocular.web.audit import audit
from ocular.web.auth import Visitor
from ocular.web.database import Database
from ocular.web.feedback_seal import Shown
from ocular.web.tables import CLOSED, LABEL, Assignment, Feedback, Role, User, Verdict

Chosen = Select[*tuple[Any, ...]]
COLUMNS = (
    "at", "client", "product", "verdict", "reason", "note", "seller", "team", "model", "confidence", "pattern", "label",
)  # fmt: skip


def keep(
    database: Database, visitor: Visitor, client: str, product: str, verdict: Verdict, reason: str, note: str,
    shown: Shown,
) -> int:  # fmt: skip
    row = Feedback(
        client=client, product=product, user_id=visitor.user.id, verdict=verdict, reason=reason.strip(),
        note=note.strip(), model=shown.model, confidence=shown.confidence, pattern=shown.pattern,
        label=shown.label[:LABEL],
    )  # fmt: skip
    with database.writing() as transaction:
        transaction.add(row)
        audit(transaction, visitor.user.name, f"feedback: {verdict}", f"{client} · {product}", visitor.address)
        transaction.flush()
        return row.id


def history(database: Database, client: str, product: str) -> list[Feedback]:
    """All that was said of a recommendation, the latest first."""
    with database.reading() as transaction:
        of_pair = (Feedback.client == client) & (Feedback.product == product)
        return list(transaction.scalars(select(Feedback).where(of_pair).order_by(Feedback.id.desc())))


def standing(database: Database, client: str) -> dict[str, Feedback]:
    """The latest word on each product of a client."""
    with database.reading() as transaction:
        rows = transaction.scalars(select(Feedback).where(Feedback.client == client).order_by(Feedback.id))
        return {row.product: row for row in rows}


def _last() -> Chosen:
    """Numbers of the latest word on every pair."""
    return select(func.max(Feedback.id)).group_by(Feedback.client, Feedback.product)


def _owned(chosen: Chosen, visitor: Visitor) -> Chosen:
    chosen = chosen.join(Assignment, Assignment.client == Feedback.client)
    return chosen.where(Assignment.user_id == visitor.user.id)


def closed_pairs(database: Database, known: Interactions, visitor: Visitor) -> set[tuple[int, int]]:
    """Rows of client and product whose latest word is that nothing more is to be done; a seller's own clients."""
    last = _owned(_last(), visitor) if visitor.role is Role.SELLER else _last()
    chosen = select(Feedback.client, Feedback.product).where(Feedback.id.in_(last), Feedback.verdict.in_(CLOSED))
    with database.reading() as transaction:
        pairs = transaction.execute(chosen).all()
    users, items = known.user_rows, known.item_rows
    return {(users[c], items[p]) for c, p in pairs if c in users and p in items}


def pursued(database: Database, visitor: Visitor, most: int) -> list[Feedback]:
    """What is to be done, the latest first: a seller's own clients, or those of the team."""
    last = _owned(_last(), visitor) if visitor.role is Role.SELLER else _last()
    chosen = select(Feedback).where(Feedback.id.in_(last), Feedback.verdict == Verdict.PURSUE)
    if visitor.role is not Role.SELLER:
        chosen = _within(chosen, visitor)
    with database.reading() as transaction:
        return list(transaction.scalars(chosen.order_by(Feedback.id.desc()).limit(most)))


def _within(chosen: Chosen, visitor: Visitor) -> Chosen:
    """Of clients that are the team's now, and of nobody's clients what the team itself has said; all for an admin."""
    if visitor.role is Role.ADMIN:
        return chosen
    owner, author = aliased(User), aliased(User)

    def mate(who: Any) -> ColumnElement[bool]:
        own: ColumnElement[bool] = who.id == visitor.user.id
        return own | (who.team == visitor.user.team) if visitor.user.team else own

    chosen = chosen.outerjoin(Assignment, Assignment.client == Feedback.client)
    chosen = chosen.outerjoin(owner, owner.id == Assignment.user_id).join(author, author.id == Feedback.user_id)
    return chosen.where(mate(owner) | (Assignment.client.is_(None) & mate(author)))


@dataclass(frozen=True)
class Funnel:
    """How many recommendations stand where."""

    counts: dict[Verdict, int]

    @property
    def judged(self) -> int:
        return sum(self.counts.values())

    @property
    def hit_rate(self) -> float | None:
        """Won of those that came to an end."""
        won, lost = self.counts[Verdict.WON], self.counts[Verdict.LOST]
        return won / (won + lost) if won + lost else None


def added(funnels: Iterable[Funnel]) -> Funnel:
    counts = dict.fromkeys(Verdict, 0)
    for funnel in funnels:
        for verdict, count in funnel.counts.items():
            counts[verdict] += count
    return Funnel(counts)


@dataclass(frozen=True)
class OfPattern:
    """What became of the recommendations that a pattern of a model spoke for."""

    model: str
    label: str
    funnel: Funnel


def by_pattern(database: Database, visitor: Visitor) -> list[OfPattern]:
    """The newest model first, and of each model the pattern with most verdicts first."""
    key = (Feedback.model, Feedback.pattern)
    chosen = _within(select(*key, Feedback.verdict, func.count(), func.max(Feedback.label)), visitor)
    chosen = chosen.where(Feedback.id.in_(_last())).group_by(*key, Feedback.verdict)
    labels: dict[tuple[str, int | None], str] = {}
    counts: dict[tuple[str, int | None], dict[Verdict, int]] = {}
    with database.reading() as transaction:
        for model, pattern, verdict, count, label in transaction.execute(chosen):
            labels[model, pattern] = label or "no pattern"
            counts.setdefault((model, pattern), dict.fromkeys(Verdict, 0))[Verdict(verdict)] = count
        began = dict(transaction.execute(select(Feedback.model, func.min(Feedback.id)).group_by(Feedback.model)).all())
    found = [OfPattern(model, labels[model, pattern], Funnel(c)) for (model, pattern), c in counts.items()]
    return sorted(found, key=lambda f: (-began[f.model], -f.funnel.judged, f.label))


def by_owner(database: Database, visitor: Visitor) -> dict[int, Funnel]:
    """What became of the recommendations to the clients of each person."""
    owner = aliased(Assignment)
    chosen: Chosen = select(owner.user_id, Feedback.verdict, func.count()).select_from(Feedback)
    chosen = _within(chosen.join(owner, owner.client == Feedback.client), visitor)
    chosen = chosen.where(Feedback.id.in_(_last())).group_by(owner.user_id, Feedback.verdict)
    counts: dict[int, dict[Verdict, int]] = {}
    with database.reading() as transaction:
        for user, verdict, count in transaction.execute(chosen):
            counts.setdefault(user, dict.fromkeys(Verdict, 0))[Verdict(verdict)] = count
    return {user: Funnel(found) for user, found in counts.items()}


def latest(database: Database, visitor: Visitor, most: int) -> list[Feedback]:
    """The latest words on pairs, the latest first."""
    chosen = _within(select(Feedback).where(Feedback.id.in_(_last())), visitor)
    with database.reading() as transaction:
        return list(transaction.scalars(chosen.order_by(Feedback.id.desc()).limit(most)))


def export_rows(
    database: Database, visitor: Visitor, *, after: int = 0, limit: int | None = None
) -> Iterator[dict[str, object]]:
    """Everything that was ever said, oldest first, a row at a time; what follows a number, and so many."""
    chosen = _within(select(Feedback).where(Feedback.id > after), visitor).order_by(Feedback.id).limit(limit)
    with database.reading() as transaction:
        for row in transaction.scalars(chosen.execution_options(yield_per=1000)):
            plain = {name: getattr(row, name) for name in ("id", *COLUMNS) if name not in {"at", "seller", "team"}}
            yield {"at": row.at.isoformat(), "seller": row.user.name, "team": row.user.team} | plain
