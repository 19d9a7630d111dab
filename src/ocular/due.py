"""
What is due again: products that a client buys at regular intervals and has not bought for about as long.

From dates alone; nothing is learned. The interval of a client and a product is the median number of days from one
purchase to the next. They are regular where most intervals are near that median, and due while the time since the last
purchase is about one interval: later on the client has more likely stopped. Several purchases on one day count once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.data.interactions import Interactions, Purchases
from ocular.data.splits import as_moment
from ocular.errors import DataError, Parameter
from ocular.explain.notebook import html_table
from ocular.explain.value import grouped_medians

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Times = NDArray[np.datetime64]

MIN_CLIENTS = 3  # behind the interval of a product
FIRST_DAY, END_OF_DAYS = np.datetime64("0001-01-01"), np.datetime64("10000-01-01")  # other dates are mistakes


@dataclass(frozen=True)
class DueRule:
    """
    When a product counts as bought regularly, and when as due.

    Measured by experiments/due.py on Online Retail, on days before those that it reports. Three intervals are the
    fewest whose median is more than a mean, and with two of them a smaller share is bought (35%, not 44%). The spread
    hardly changes the share; it makes the word "regularly" true. Of the windows tried, this one has the largest share.
    """

    min_purchases: int = 4  # on different days
    max_spread: float = 0.5  # median distance of the intervals from their median, relative to it
    due_from: float = 0.8  # intervals since the last purchase
    due_until: float = 1.5  # later on the client has more likely stopped


RULE = DueRule()


@dataclass(frozen=True)
class DueProduct:
    """A product that a client buys regularly and that is due again."""

    client: Any  # its name
    product: Any  # its name
    item: int  # its row
    last_purchase: date
    interval: float  # days: the client's median
    days_since: int  # the last purchase
    n_purchases: int  # by the client, on different days
    n_clients: int  # that buy the product regularly, this one among them
    product_interval: float | None  # the median of these clients' intervals; None where they are too few to tell
    usual_quantity: float | None  # the client's own medians; None where they are not known
    usual_price: float | None

    @property
    def overdue(self) -> float:
        """The days since the product was due; negative where it will be due soon."""
        return self.days_since - self.interval

    @property
    def state(self) -> str:
        """How late it is, in words: "3 days overdue", "due now" or "due in 3 days"."""
        late = round(self.overdue)
        return f"{in_days(late)} overdue" if late > 0 else f"due in {in_days(-late)}" if late < 0 else "due now"

    def text(self) -> str:
        """Return the dates behind it in words."""
        last, every = self.last_purchase, in_days(self.interval)
        bought = f"Bought {self.n_purchases:,} times, usually every {'day' if every == '1 day' else every}"
        dates = f"{bought}; last on {last.day} {last:%b %Y}, {in_days(self.days_since)} ago: {self.state}."
        if self.n_clients == 1:
            return f"{dates} No other client reorders it regularly."
        typically = "" if self.product_interval is None else f", typically every {in_days(self.product_interval)}"
        return f"{dates} {self.n_clients:,} clients reorder it regularly{typically}."


class DueList(list[DueProduct]):
    """What is due for a client, most often bought first; notebooks show it as a table."""

    def __init__(self, products: Iterable[DueProduct], frame: pl.DataFrame, reorders: Reorders, title: str) -> None:
        super().__init__(products)
        self.as_of = reorders.as_of  # a day
        self._frame, self._interactions, self.title = frame, reorders.interactions, title

    def __repr__(self) -> str:
        lines = (f"  {number}. {each.product}: {each.text()}" for number, each in enumerate(self, 1))
        return "\n".join([f"{self.title}:", *lines])

    def to_frame(self) -> Any:
        """Return a row for each product, in the kind of frame that the purchases came in."""
        return self._interactions.native(self._frame)

    def _repr_html_(self) -> str:
        rows = [
            {
                "product": each.product,
                "last purchase": each.last_purchase,
                "every … days": each.interval,
                "days since": each.days_since,
                "days overdue": each.overdue,
                "purchases": each.n_purchases,
                "clients": each.n_clients,
            }
            for each in self
        ]
        return html_table(rows, self.title)


@dataclass(frozen=True, eq=False)
class Reorders:
    """Every client and product with regular purchases up to a day, by client, then product."""

    interactions: Interactions
    as_of: np.datetime64  # a day
    rule: DueRule
    pairs: Ints  # (n,) ascending, positions in by_user.indices
    n_purchases: Ints  # (n,) on different days
    intervals: Floats  # (n,) median, in days
    last_days: Times  # (n,)

    @cached_property
    def users(self) -> Ints:
        """(n,) The client of each."""
        return np.searchsorted(self.interactions.by_user.indptr, self.pairs, side="right") - 1

    @cached_property
    def items(self) -> Ints:
        """(n,) The product of each."""
        return self.interactions.by_user.indices[self.pairs].astype(np.int64)

    @cached_property
    def n_clients(self) -> Ints:
        """(n_items,) How many clients buy each product regularly."""
        return np.bincount(self.items, minlength=self.interactions.n_items)

    @cached_property
    def product_intervals(self) -> Floats:
        """(n_items,) The median of the clients' intervals; nan where fewer than MIN_CLIENTS would reveal one."""
        medians = grouped_medians(self.items, self.intervals, self.interactions.n_items)
        return np.where(self.n_clients >= MIN_CLIENTS, medians, np.nan)

    @cached_property
    def days_since(self) -> Ints:
        """(n,) Days since the last purchase."""
        return (self.as_of - self.last_days).astype(np.int64)

    @cached_property
    def due(self) -> Ints:
        """The rows that are due, by client, and for each client what was bought most often first."""
        waited = self.days_since / self.intervals
        rows = np.flatnonzero((waited >= self.rule.due_from) & (waited <= self.rule.due_until))
        items = self.items[rows]
        return rows[np.lexsort((items, -self.n_clients[items], -self.n_purchases[rows], self.users[rows]))]

    @cached_property
    def usual_amounts(self) -> dict[str, Floats]:
        """The medians of quantity and price that each client paid for each product, (n,) each; nan if not known."""
        purchases, times = _dated(self.interactions)
        rows = np.flatnonzero(_made_until(purchases, times, self.as_of) & np.isin(purchases.pair, self.pairs))
        at = np.searchsorted(self.pairs, purchases.pair[rows])
        found = {}
        for name, values in (("usual_quantity", purchases.quantity), ("usual_price", purchases.price)):
            amounts = np.full(len(rows), np.nan) if values is None else values[rows]
            paid = amounts > 0  # no gifts and corrections
            found[name] = grouped_medians(at[paid], amounts[paid], len(self.pairs))
        return found

    def due_rows(self, n: int, allowed: Mask, user: int | None = None) -> Ints:
        """Return the first n rows that are due of a client, or of each, for products of the mask `allowed`."""
        first, last = (0, None) if user is None else np.searchsorted(self.users[self.due], [user, user + 1])
        rows = self.due[first:last]
        rows = rows[allowed[self.items[rows]]]
        return rows[self._ranks(rows) <= n]

    def _ranks(self, rows: Ints) -> Ints:
        """Return the place of each row, from 1, among those of its client, which stand together."""
        users = self.users[rows]
        return np.arange(1, len(rows) + 1) - np.searchsorted(users, users)

    def frame(self, rows: Ints) -> pl.DataFrame:
        """Return rows of `due_rows` as a frame, with names beside the keys where there are any."""
        data, users, items = self.interactions, self.users[rows], self.items[rows]
        columns = [
            _names("client", data.user_labels, users),
            *([] if data.user_names is None else [_names("client_name", data.user_names, users)]),
            pl.Series("rank", self._ranks(rows), dtype=pl.Int32),
            _names("product", data.item_labels, items),
            *([] if data.item_names is None else [_names("product_name", data.item_names, items)]),
            pl.Series("last_purchase", self.last_days[rows]),
            pl.Series("interval", self.intervals[rows]),
            pl.Series("days_since", self.days_since[rows]),
            pl.Series("overdue", self.days_since[rows] - self.intervals[rows]),
            pl.Series("n_purchases", self.n_purchases[rows]),
            pl.Series("n_clients", self.n_clients[items]),
            pl.Series("product_interval", self.product_intervals[items]).fill_nan(None),
            *(pl.Series(name, values[rows]).fill_nan(None) for name, values in self.usual_amounts.items()),
        ]
        return pl.DataFrame(columns)

    def due_list(self, rows: Ints, user: int) -> DueList:
        """Return rows of `due_rows` as a list for a client."""
        table, data = self.frame(rows), self.interactions
        client, items = data.user_name(user), self.items[rows].tolist()
        facts = table.select("last_purchase", "interval", "days_since", "n_purchases", "n_clients", "product_interval",
                             "usual_quantity", "usual_price").iter_rows(named=True)  # fmt: skip
        products = [
            DueProduct(client, data.item_name(item), item, **each) for item, each in zip(items, facts, strict=True)
        ]
        return DueList(products, table, self, f"Due again for {client} on {self.as_of}")


def has_dates(interactions: Interactions) -> bool:
    """Return whether the date of some purchase is known."""
    times = None if interactions.purchases is None else interactions.purchases.time
    return times is not None and bool(_plausible(times).any())


def find_reorders(
    interactions: Interactions, as_of: str | date | np.datetime64 | None = None, rule: DueRule = RULE
) -> Reorders:
    """
    Return the clients and products with regular purchases up to the end of a day, by default that of the newest one.

    A purchase without a date is left out, and so is one whose quantity is not positive, which is a return.
    """
    purchases, times = _dated(interactions)
    moment = times[_plausible(times)].max() if as_of is None else as_moment(as_of)
    last_day = moment.astype("datetime64[D]")
    known = _made_until(purchases, times, last_day)
    pairs, days = purchases.pair[known], times[known].astype("datetime64[D]")
    order = np.lexsort((days, pairs))
    pairs, days = pairs[order], days[order].astype(np.int64)
    new_day = np.ones(len(pairs), dtype=bool)  # not the second purchase on a day
    new_day[1:] = (pairs[1:] != pairs[:-1]) | (days[1:] != days[:-1])
    pairs, days = pairs[new_day], days[new_day]

    distinct, starts, counts = np.unique(pairs, return_index=True, return_counts=True)
    owners, gaps = np.repeat(np.arange(len(distinct)), counts)[1:], np.diff(days)
    measured = (pairs[1:] == pairs[:-1]) & (counts[owners] >= rule.min_purchases)
    owners, gaps = owners[measured], gaps[measured]
    intervals = grouped_medians(owners, gaps, len(distinct))
    spreads = grouped_medians(owners, np.abs(gaps - intervals[owners]), len(distinct)) / intervals
    rows = np.flatnonzero(spreads <= rule.max_spread)  # nan for too few purchases
    last_days = days[starts[rows] + counts[rows] - 1].astype("datetime64[D]")
    return Reorders(interactions, last_day, rule, distinct[rows], counts[rows], intervals[rows], last_days)


def _dated(interactions: Interactions) -> tuple[Purchases, Times]:
    """Return the purchases and their times, or raise where no date is known."""
    purchases = interactions.purchases
    if purchases is None or purchases.time is None or not has_dates(interactions):
        raise DataError(
            "expected purchase dates to tell what is due, got none; read the purchases with ", Parameter("time")
        )
    return purchases, purchases.time


def _made_until(purchases: Purchases, times: Times, last_day: np.datetime64) -> Mask:
    """Return which purchases were made up to the end of a day and are no returns."""
    known = _plausible(times) & (times < last_day + 1)
    return known if purchases.quantity is None else known & ~(purchases.quantity <= 0)  # what is not known counts


def _plausible(times: Times) -> Mask:
    """Return which times are known and in a year that a calendar has."""
    return (times >= FIRST_DAY) & (times < END_OF_DAYS)  # False for NaT


def _names(name: str, texts: NDArray[Any], rows: Ints) -> pl.Series:
    kind = pl.Int64 if np.issubdtype(texts.dtype, np.integer) else pl.String
    return pl.Series(name, texts[rows].tolist(), dtype=kind)


def in_days(n: float) -> str:
    """
    Return a number of days as people say it.

    >>> in_days(1), in_days(30.5)
    ('1 day', '30 days')
    """
    return f"{n:,.0f} day{'' if round(n) == 1 else 's'}"
