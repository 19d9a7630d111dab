"""
How recommendations perform: shown, pursued and won, with money, by week, seller, pattern and reason.

A result counts for the seller who recorded it; what a manager or administrator recorded counts for the client's seller.
What a deal was worth is the amount that somebody entered, or else the typical price of the product, an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from ocular.feedback import Status
from ocular.web.auth import Visitor
from ocular.web.errors import NotFoundError
from ocular.web.outcomes import NEVER, STATUSES, Outcomes, with_status
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.shown import WEEK, shown_by_week
from ocular.web.tables import Role, User
from ocular.web.visibility import Owner, in_team

NO_PATTERN, NO_REASON, OTHER = "Bestseller", "No reason given", "Other reasons"
HIDDEN_NAME = "A client"
MAX_REASONS = 8
DAY = 24 * 3600
CSV_COLUMNS = (
    "client", "product", "seller", "team", "status", "since", "pursued", "amount", "estimated", "reason", "pattern",
)  # fmt: skip

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Period:
    """Some days, the last one included, cut into weeks that end with the last day."""

    since: date
    until: date

    @property
    def n_weeks(self) -> int:
        return -(-((self.until - self.since).days + 1) // 7)

    @property
    def weeks(self) -> list[date]:
        """The first day of each week; the first week may be shorter."""
        starts = (self.until - timedelta(days=7 * (self.n_weeks - week) - 1) for week in range(self.n_weeks))
        return [max(start, self.since) for start in starts]

    @property
    def start(self) -> datetime:
        """The beginning of the first week, were it a whole one."""
        return _midnight(self.until + timedelta(days=1)) - timedelta(weeks=self.n_weeks)

    @property
    def moments(self) -> tuple[datetime, datetime]:
        return _midnight(self.since), _midnight(self.until + timedelta(days=1))

    def before(self) -> Period:
        """Return as many days before."""
        return Period(self.since - (self.until - self.since) - timedelta(days=1), self.since - timedelta(days=1))

    def includes(self, seconds: NDArray[np.int64]) -> Bools:
        since, until = (int(moment.timestamp()) for moment in self.moments)
        within: Bools = (seconds >= since) & (seconds < until)
        return within

    def week_of(self, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of the week of moments in the period."""
        return (seconds - int(self.start.timestamp())) // WEEK


@dataclass(frozen=True)
class Totals:
    """Results of a period, or of a part of them."""

    pursued: int
    won: int
    lost: int
    refused: int
    money: float | None  # of won; None where no amount and no price is known
    estimated: bool  # whether some of it is

    @property
    def win_rate(self) -> float | None:
        return self.won / (self.won + self.lost) if self.won + self.lost else None


@dataclass(frozen=True)
class Part:
    """The results of one seller or one pattern."""

    name: str
    totals: Totals
    weekly: list[float]  # money won each week, or deals where there are no prices
    key: str = ""  # username of a seller
    shown: int = 0


@dataclass(frozen=True)
class Row:
    """One recommendation in a list of results."""

    client: str | None  # label; None where the visitor may not see the client
    client_name: str
    product: str
    product_name: str
    seller: str
    team: str
    status: str
    at: datetime
    pursued: datetime | None
    amount: float | None
    estimated: bool
    reason: str
    pattern: str


class Performance:
    """The results that a visitor may see, of one period, and of one team or seller where asked for."""

    def __init__(
        self, services: Services, served: ServedModel, visitor: Visitor, period: Period, team: str, seller: str
    ) -> None:
        self.period, self.served = period, served
        self._services, self._visitor = services, visitor
        with services.database.reading() as transaction:
            self._users = {user.id: user for user in transaction.scalars(select(User).order_by(User.name))}
        self.people = [user for user in self._users.values() if self._may_see(user)]
        chosen = [
            user for user in self.people if (not team or user.team == team) and (not seller or user.name == seller)
        ]
        self._outcomes: Outcomes = services.outcomes.read()
        by_seller = np.isin(self._sellers, [user.id for user in chosen])
        self._pairs, self._sellers_of_pairs = self._outcomes.pairs[by_seller], self._sellers[by_seller]
        self._chosen = {user.id: user for user in chosen}
        self._by_status: dict[Status, Bools] = {}

    def _may_see(self, user: User) -> bool:
        if self._visitor.role is Role.SELLER:
            return user.id == self._visitor.user.id
        return self._visitor.role is Role.ADMIN or in_team(self._visitor, Owner(user.id, user.team))

    @cached_property
    def _sellers(self) -> NDArray[np.int64]:
        """The person that each pair of the log counts for."""
        pairs, texts = self._outcomes.pairs, self._outcomes.texts
        sellers = pairs["user"].copy()
        not_by_seller = np.flatnonzero(
            ~np.isin(sellers, [user.id for user in self._users.values() if user.role == Role.SELLER])
        )
        if len(not_by_seller):
            owners = self._services.assignments.read(self.served).owners(self.served.interactions.n_users)
            rows = self.served.interactions.user_rows
            for place in not_by_seller.tolist():
                row = rows.get(texts[pairs["client"][place]], -1)
                if row >= 0 and owners[row] >= 0:
                    sellers[place] = owners[row]
        return sellers

    # -------------------------------------------------------------------------------------------- numbers

    def totals(self, period: Period | None = None) -> Totals:
        """Return the results of the period, or of another one."""
        return self._totals(np.zeros(len(self._pairs), dtype=np.int64), 1, period or self.period)[0]

    def _totals(self, groups: NDArray[np.int64], n: int, period: Period) -> list[Totals]:
        """Return the results of each group; `groups` has the number of each pair's group."""
        pairs, now = self._pairs, period.includes(self._pairs["at"])
        worth, estimated = self._worth
        won = now & self._with(Status.WON)
        masks = (
            period.includes(pairs["pursued"]), won, now & self._with(Status.LOST), now & self._with(Status.NOT_A_FIT),
            won & estimated,
        )  # fmt: skip
        counts = np.stack([np.bincount(groups[mask], minlength=n) for mask in masks], axis=1).tolist()
        money = np.bincount(groups[won], np.nan_to_num(worth[won]), n).tolist()
        return [
            Totals(pursued, n_won, lost, refused, money[group] if self.has_money else None, n_estimated > 0)
            for group, (pursued, n_won, lost, refused, n_estimated) in enumerate(counts)
        ]

    def _weekly_won(self, groups: NDArray[np.int64], n: int) -> list[list[float]]:
        """Return the money won by each group in each week; deals where nothing has a price."""
        won = self._with(Status.WON) & self.period.includes(self._pairs["at"])
        weights = np.nan_to_num(self._worth[0]) if self.has_money else np.ones(len(won))
        cells = groups[won] * self.period.n_weeks + self.period.week_of(self._pairs["at"][won])
        weekly = np.bincount(cells, weights[won], n * self.period.n_weeks).reshape(n, self.period.n_weeks)
        return [list(row) for row in weekly.tolist()]

    @cached_property
    def has_money(self) -> bool:
        """Whether any amount or price is known."""
        prices = self.served.opportunities.expected_values.prices
        return bool(np.isfinite(prices).any() or np.isfinite(self._pairs["amount"]).any())

    def open_pipeline(self) -> tuple[int, float | None]:
        """Return how many recommendations are being pursued now, and what they are worth."""
        pursuing = self._with(Status.PURSUING)
        return int(pursuing.sum()), float(np.nansum(self._worth[0][pursuing])) if self.has_money else None

    def weekly(self) -> dict[str, list[float]]:
        """Return shown, pursued, won and money for each week."""
        pairs, worth = self._pairs, np.nan_to_num(self._worth[0])
        won = self._with(Status.WON)
        judged, pursued = self._by_week(pairs["judged"]), self._by_week(pairs["pursued"])
        shown = np.zeros(self.period.n_weeks)
        for week, user, count in self._shown:
            if user in self._chosen:
                shown[week] += count
        return {
            "shown": np.maximum(shown, judged).tolist(),  # whoever gives a status has seen it
            "pursued": pursued.tolist(),
            "won": self._by_week(pairs["at"], won).tolist(),
            "money": self._by_week(pairs["at"], won, worth).tolist(),
        }

    @cached_property
    def _shown(self) -> list[tuple[int, int, int]]:
        return shown_by_week(self._services.database, self.period.start, *self.period.moments)

    def by_seller(self) -> list[Part]:
        """Return the results of each person, most money first; without people who are neither seller nor active."""
        users, shown = list(self._chosen.values()), dict.fromkeys(self._chosen, 0)
        for _, user, count in self._shown:
            if user in shown:
                shown[user] += count
        ids = np.array([user.id for user in users], dtype=np.int64)
        order = np.argsort(ids)
        groups = order[np.searchsorted(ids[order], self._sellers_of_pairs)]
        counted = zip(
            users, self._totals(groups, len(users), self.period), self._weekly_won(groups, len(users)), strict=True
        )
        has_pairs = set(groups.tolist())
        parts = [
            Part(user.full_name, totals, weekly, user.name, shown[user.id])
            for place, (user, totals, weekly) in enumerate(counted)
            if place in has_pairs or (user.role == Role.SELLER and user.active)
        ]
        return sorted(parts, key=lambda part: (-(part.totals.money or 0), -part.totals.won, part.name))

    def by_pattern(self) -> list[Part]:
        """Return the results of each pattern by its name of today, most pursued first; other reasons by their kind."""
        names, groups = np.unique(self._patterns, return_inverse=True)
        totals, weekly = self._totals(groups, len(names), self.period), self._weekly_won(groups, len(names))
        parts = [Part(*of_name) for of_name in zip(names.tolist(), totals, weekly, strict=True)]
        active = [
            part for part in parts if part.totals.pursued + part.totals.won + part.totals.lost + part.totals.refused
        ]
        return sorted(active, key=lambda part: (-part.totals.pursued, -(part.totals.money or 0), part.name))

    def refusals(self) -> list[tuple[str, int]]:
        """Return the reasons of what was lost or no fit, most frequent first; rare ones together."""
        counts: dict[str, int] = {}
        for reason in self._reasons[self._refused].tolist():
            counts[reason] = counts.get(reason, 0) + 1
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if len(ranked) <= MAX_REASONS:
            return ranked
        return [*ranked[: MAX_REASONS - 1], (OTHER, sum(count for _, count in ranked[MAX_REASONS - 1 :]))]

    # -------------------------------------------------------------------------------------------- rows

    def select(self, stage: str = "", pattern: str = "", reason: str = "", week: int | None = None) -> list[int]:
        """Return the pairs of a stage of the period, or with any status in it, the latest first."""
        pairs = self._pairs
        when = pairs["pursued"] if stage == "pursued" else pairs["at"]
        chosen = self.period.includes(when)
        if stage == "refused":
            chosen &= self._refused
        elif stage == "open":
            chosen = self._with(Status.PURSUING)
        elif stage and stage != "pursued":
            chosen &= self._with(Status(stage))
        if pattern:
            chosen &= self._patterns == pattern
        if reason == OTHER:
            named = {name for name, _ in self.refusals()}
            chosen &= ~np.isin(self._reasons, list(named))
        elif reason:
            chosen &= self._reasons == reason
        if week is not None:
            chosen &= self.period.week_of(when) == week
        places = np.flatnonzero(chosen)
        return [int(place) for place in places[np.argsort(-when[places], kind="stable")]]

    def rows(self, places: Iterable[int]) -> Iterator[Row]:
        """Yield pairs in words; the name of a client that is not the visitor's any more is hidden."""
        texts, (worth, estimated), visible = self._outcomes.texts, self._worth, self._visible
        for place in places:
            pair = self._pairs[place]
            client, product = texts[pair["client"]], texts[pair["product"]]
            may_see, user = visible(client), self._users[int(self._sellers_of_pairs[place])]
            yield Row(
                client=client if may_see else None,
                client_name=self.served.client_name(client) if may_see else HIDDEN_NAME,
                product=product,
                product_name=self.served.product_name(product),
                seller=user.full_name,
                team=user.team,
                status=STATUSES[pair["status"]],
                at=_moment(pair["at"]),
                pursued=None if pair["pursued"] == NEVER else _moment(pair["pursued"]),
                amount=float(worth[place]) if np.isfinite(worth[place]) else None,
                estimated=bool(estimated[place]),
                reason=texts[pair["reason"]],
                pattern=str(self._patterns[place]),
            )

    def _visible(self, client: str) -> bool:
        row = self.served.interactions.user_rows.get(client)
        if row is not None:
            return bool(self._visible_rows[row])
        try:  # not in the model any more: rare enough to ask one by one
            self._services.visibility.check_client(self._visitor, client)
        except NotFoundError:
            return False
        return True

    @cached_property
    def _visible_rows(self) -> Bools:
        visible = np.zeros(self.served.interactions.n_users, dtype=bool)
        visible[self._services.visibility.clients_of(self.served, self._visitor)] = True
        return visible

    # -------------------------------------------------------------------------------------------- columns

    def _with(self, status: Status) -> Bools:
        if status not in self._by_status:
            self._by_status[status] = with_status(self._pairs, [status])
        return self._by_status[status]

    @cached_property
    def _refused(self) -> Bools:
        return with_status(self._pairs, [Status.NOT_A_FIT, Status.LOST]) & self.period.includes(self._pairs["at"])

    @cached_property
    def _worth(self) -> tuple[Floats, Bools]:
        """What each pair is or was worth, nan where it is not known, and where that is an estimate."""
        texts, values = self._outcomes.texts, self.served.opportunities.expected_values
        typical, rows = np.full(len(texts), np.nan), self.served.interactions.item_rows
        for code in np.unique(self._pairs["product"]).tolist():
            if (row := rows.get(texts[code])) is not None:
                typical[code] = values.prices[row] * values.quantities[row]
        entered = np.isfinite(self._pairs["amount"])
        worth = np.where(entered, self._pairs["amount"], typical[self._pairs["product"]])
        return worth, ~entered & np.isfinite(worth)

    @cached_property
    def _patterns(self) -> NDArray[np.object_]:
        """The name of the pattern of each pair, as it is called today."""
        codes, places = np.unique(self._pairs["label"], return_inverse=True)
        labels = self._services.news.current_labels(self.served, (self._outcomes.texts[code] for code in codes))
        return np.array([label or NO_PATTERN for label in labels], dtype=object)[places]

    @cached_property
    def _reasons(self) -> NDArray[np.object_]:
        codes, places = np.unique(self._pairs["reason"], return_inverse=True)
        reasons = (self._outcomes.texts[code].strip() for code in codes)
        return np.array([reason[:1].upper() + reason[1:] or NO_REASON for reason in reasons], dtype=object)[places]

    def _by_week(self, seconds: NDArray[np.int64], among: Bools | None = None, weights: Floats | None = None) -> Floats:
        within = self.period.includes(seconds)
        if among is not None:
            within = within & among
        weeks = self.period.week_of(seconds[within])
        return np.bincount(weeks, None if weights is None else weights[within], self.period.n_weeks).astype(np.float64)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
