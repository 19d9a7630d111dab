"""What became of recommendations: how many have which status, by pattern and by seller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from ocular.feedback import Status
from ocular.web.auth import Visitor
from ocular.web.database import Database
from ocular.web.feedback import latest_ids
from ocular.web.tables import Assignment, Feedback
from ocular.web.visibility import Query, only_overseen


@dataclass(frozen=True)
class Outcomes:
    """The number of recommendations with each status."""

    counts: dict[Status, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def hit_rate(self) -> float | None:
        """The share of won recommendations among those that were won or lost."""
        won, lost = self.counts[Status.WON], self.counts[Status.LOST]
        return won / (won + lost) if won + lost else None


def total_outcomes(parts: Iterable[Outcomes]) -> Outcomes:
    """Return the sum of several outcomes; zeros for none."""
    counts = dict.fromkeys(Status, 0)
    for outcomes in parts:
        for status, count in outcomes.counts.items():
            counts[status] += count
    return Outcomes(counts)


@dataclass(frozen=True)
class PatternOutcomes:
    """What became of the recommendations whose strongest reason was one pattern, or another kind, of one model."""

    model: str
    label: str
    outcomes: Outcomes


def outcomes_by_pattern(database: Database, visitor: Visitor) -> list[PatternOutcomes]:
    """Return outcomes, the newest model first, and within a model the pattern with most feedback first."""
    key = (Feedback.model, Feedback.pattern, Feedback.label)  # the other kinds have no number, but a label
    query = only_overseen(select(*key, Feedback.status, func.count()), visitor)
    query = query.where(Feedback.id.in_(latest_ids())).group_by(*key, Feedback.status)
    counts: dict[tuple[str, int | None, str], dict[Status, int]] = {}
    with database.reading() as transaction:
        for model, pattern, label, status, count in transaction.execute(query):
            counts.setdefault((model, pattern, label), dict.fromkeys(Status, 0))[Status(status)] = count
        first_use = dict(
            transaction.execute(select(Feedback.model, func.min(Feedback.id)).group_by(Feedback.model)).all()
        )
    by_pattern = [
        PatternOutcomes(model, label or "no pattern", Outcomes(of_status))
        for (model, _, label), of_status in counts.items()
    ]
    return sorted(by_pattern, key=lambda part: (-first_use[part.model], -part.outcomes.total, part.label))


def outcomes_by_owner(database: Database, visitor: Visitor) -> dict[int, Outcomes]:
    """Return what became of the recommendations to the clients of each person, by the person's number."""
    owner = aliased(Assignment)
    query: Query = select(owner.user_id, Feedback.status, func.count()).select_from(Feedback)
    query = only_overseen(query.join(owner, owner.client == Feedback.client), visitor)
    query = query.where(Feedback.id.in_(latest_ids())).group_by(owner.user_id, Feedback.status)
    counts: dict[int, dict[Status, int]] = {}
    with database.reading() as transaction:
        for user_id, status, count in transaction.execute(query):
            counts.setdefault(user_id, dict.fromkeys(Status, 0))[Status(status)] = count
    return {user_id: Outcomes(of_status) for user_id, of_status in counts.items()}
