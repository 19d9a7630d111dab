"""What people made of recommendations: kept for good, with the version of the model that made them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import func, select

from ocular.data.interactions import Interactions
from ocular.web.access import Visitor, audit
from ocular.web.database import Database
from ocular.web.tables import CLOSED, Assignment, Feedback, Role, User, Verdict

COLUMNS = ("at", "client", "product", "verdict", "reason", "note", "seller", "team", "model", "confidence", "pattern")


def keep(
    database: Database, visitor: Visitor, client: str, product: str, verdict: Verdict, reason: str, note: str,
    model: str, confidence: float, pattern: int | None,
) -> int:  # fmt: skip
    row = Feedback(
        client=client, product=product, user_id=visitor.user.id, verdict=verdict, reason=reason.strip(),
        note=note.strip(), model=model, confidence=confidence, pattern=pattern,
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


def closed_pairs(database: Database, known: Interactions, visitor: Visitor) -> set[tuple[int, int]]:
    """Rows of client and product whose latest word is that nothing more is to be done; a seller's own clients."""
    last = select(func.max(Feedback.id)).group_by(Feedback.client, Feedback.product)
    if visitor.role is Role.SELLER:
        last = last.join(Assignment, Assignment.client == Feedback.client)
        last = last.where(Assignment.user_id == visitor.user.id)
    chosen = select(Feedback.client, Feedback.product).where(Feedback.id.in_(last), Feedback.verdict.in_(CLOSED))
    with database.reading() as transaction:
        pairs = transaction.execute(chosen).all()
    users, items = known.user_rows, known.item_rows
    return {(users[c], items[p]) for c, p in pairs if c in users and p in items}


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


def latest(database: Database, team: str | None) -> list[Feedback]:
    """The latest word on every pair, by sellers of the team, or of all."""
    last = select(func.max(Feedback.id)).group_by(Feedback.client, Feedback.product)
    chosen = select(Feedback).where(Feedback.id.in_(last)).order_by(Feedback.id)
    if team is not None:
        chosen = chosen.join(User, User.id == Feedback.user_id).where(User.team == team)
    with database.reading() as transaction:
        return list(transaction.scalars(chosen))


def funnel(rows: Iterable[Feedback]) -> Funnel:
    counts = dict.fromkeys(Verdict, 0)
    for row in rows:
        counts[Verdict(row.verdict)] += 1
    return Funnel(counts)


def funnels_by_pattern(rows: Iterable[Feedback]) -> dict[int | None, Funnel]:
    grouped: dict[int | None, list[Feedback]] = {}
    for row in rows:
        grouped.setdefault(row.pattern, []).append(row)
    return {pattern: funnel(found) for pattern, found in grouped.items()}


def export_rows(database: Database, team: str | None) -> Iterator[dict[str, object]]:
    """Everything that was ever said, oldest first, a row at a time."""
    chosen = select(Feedback).order_by(Feedback.id)
    if team is not None:
        chosen = chosen.join(User, User.id == Feedback.user_id).where(User.team == team)
    with database.reading() as transaction:
        for row in transaction.scalars(chosen.execution_options(yield_per=1000)):
            values = {name: getattr(row, name) for name in COLUMNS if name not in {"at", "seller", "team"}}
            yield {"at": row.at.isoformat(), "seller": row.user.name, "team": row.user.team} | values
