"""What a client bought and when, as pages show it: the newest purchases, and the amount of each month."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions, Purchases
from ocular.explain.names import product_name

MAX_PURCHASES, MAX_MONTHS = 200, 36


@dataclass(frozen=True)
class PurchaseView:
    """A purchase; None stands for what the data does not have."""

    product: str  # the label
    product_name: str
    day: date | None = None
    quantity: float | None = None
    price: float | None = None  # paid for one unit
    amount: float | None = None  # price × quantity


@dataclass(frozen=True)
class OwnedProduct:
    """A product with all purchases of it by one client."""

    product_name: str
    purchases: int
    amount: float | None


@dataclass(frozen=True)
class Timeline:
    """All purchases of one client."""

    purchases: list[PurchaseView]  # newest first, at most MAX_PURCHASES
    n_purchases: int
    n_products: int
    spend: float | None  # None where no price is known
    last: date | None  # day of the newest purchase
    owned: list[OwnedProduct]  # by amount, or by number of purchases where prices are not known
    months: list[str] = field(default_factory=list)  # from the first purchase to the newest of all clients
    amounts: list[float] = field(default_factory=list)  # of each month; purchases where prices are not known


def view_timeline(interactions: Interactions, user: int, until: date | None = None) -> Timeline:
    """Return what a client bought; months go on to `until`, the day of the newest purchase of all."""
    pairs, items = interactions.by_user.indptr[user : user + 2], interactions.by_user[user]
    if interactions.purchases is None:
        bought = [_view(interactions, item) for item in items[:MAX_PURCHASES].tolist()]
        owned = [OwnedProduct(view.product_name, 1, None) for view in bought]
        return Timeline(bought, len(items), len(items), None, None, owned)
    span = slice(*np.searchsorted(interactions.purchases.pair, pairs).tolist())  # purchases are sorted by pair
    mine = interactions.purchases.take(np.arange(span.start, span.stop), interactions.purchases.pair[span])
    bought_items = interactions.by_user.indices[mine.pair]
    amounts = _amounts(mine)
    order = _newest_first(mine)
    views = [_view(interactions, int(bought_items[row]), mine, row, amounts) for row in order[:MAX_PURCHASES].tolist()]
    spend = None if amounts is None or np.isnan(amounts).all() else float(np.nansum(amounts))
    times = np.full(len(mine), "NaT", "datetime64[s]") if mine.time is None else mine.time
    last = None if np.isnat(times).all() else _as_date(np.nanmax(times))
    counted = np.ones(len(mine)) if amounts is None or spend is None else np.nan_to_num(amounts)
    months, by_month = ([], []) if last is None else _by_month(times, counted, max(until or last, last))
    owned = _owned(interactions, bought_items, amounts)
    return Timeline(views, len(mine), len(items), spend, last, owned, months, by_month)


def _view(
    interactions: Interactions,
    item: int,
    mine: Purchases | None = None,
    row: int = 0,
    amounts: NDArray[np.float64] | None = None,
) -> PurchaseView:
    label, name = str(interactions.item_labels[item]), str(product_name(interactions.item_name(item)))
    if mine is None:
        return PurchaseView(label, name)
    return PurchaseView(
        label, name,
        day=None if mine.time is None or np.isnat(mine.time[row]) else _as_date(mine.time[row]),
        quantity=None if mine.quantity is None else _known(mine.quantity[row]),
        price=None if mine.price is None else _known(mine.price[row]),
        amount=None if amounts is None else _known(amounts[row]),
    )  # fmt: skip


def _amounts(mine: Purchases) -> NDArray[np.float64] | None:
    """Return what was paid for each purchase, where a quantity that is not known counts as one."""
    if mine.price is None:
        return None
    return mine.price * (1.0 if mine.quantity is None else np.nan_to_num(mine.quantity, nan=1.0))


def _newest_first(mine: Purchases) -> NDArray[np.int64]:
    """Return the order of purchases by day; those without a day come last."""
    if mine.time is None:
        return np.arange(len(mine))
    return np.lexsort((np.arange(len(mine)), -mine.time.astype(np.int64), np.isnat(mine.time)))


def _by_month(
    times: NDArray[np.datetime64], amounts: NDArray[np.float64], until: date
) -> tuple[list[str], list[float]]:
    """Return the months from the first purchase on, at most MAX_MONTHS, and the sum of amounts in each."""
    known = ~np.isnat(times)
    months = times[known].astype("datetime64[M]").astype(np.int64)
    end = int(np.datetime64(until, "M").astype(np.int64))
    first = max(int(months.min()), end - MAX_MONTHS + 1)
    inside = months >= first
    sums = np.bincount(months[inside] - first, amounts[known][inside], minlength=end - first + 1)
    names = [_as_date(np.datetime64(month, "M")).strftime("%b %Y") for month in range(first, end + 1)]
    return names, [max(0.0, float(value)) for value in sums]  # a month of returns is no negative bar


def _owned(
    interactions: Interactions, items: NDArray[np.int32], amounts: NDArray[np.float64] | None
) -> list[OwnedProduct]:
    """Return the products that a client paid most for, then those bought most often."""
    distinct, places, counts = np.unique(items, return_inverse=True, return_counts=True)
    paid = np.zeros(len(distinct)) if amounts is None else np.bincount(places, np.nan_to_num(amounts), len(distinct))
    order = np.lexsort((distinct, -counts, -paid))[:MAX_PURCHASES]
    names = (str(product_name(interactions.item_name(int(distinct[place])))) for place in order)
    return [
        OwnedProduct(name, int(counts[place]), float(paid[place]) if paid[place] > 0 else None)
        for name, place in zip(names, order, strict=True)
    ]


def _known(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _as_date(moment: np.datetime64) -> date:
    return date.fromisoformat(str(moment.astype("datetime64[D]")))
