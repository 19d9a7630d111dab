"""
What is due again: of what the dates of a client's purchases call due, the share that was bought within 30 days.

python experiments/due.py --data DIR

Online Retail. The rule is chosen on three days (outcomes until 30 August) and reported on three later ones. Beside it,
as many products per client: bestsellers, the client's most frequent products, the client's most recent ones; and what
the client buys just as regularly but is not due.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from common import draw_lines, parse, save
from numpy.typing import NDArray

from ocular.data.datasets import online_retail
from ocular.data.interactions import Interactions
from ocular.due import RULE, DueRule, Reorders, find_reorders
from ocular.synthetic import b2b

EARLIER, REPORTED = ("2011-05-31", "2011-06-30", "2011-07-31"), ("2011-08-31", "2011-09-30", "2011-10-31")
HORIZON = 30  # days
PURCHASES, SPREADS, WINDOWS = (3, 4, 5), (0.3, 0.5, np.inf), tuple(product((0.8, 1.0), (1.5, 2.0, 3.0)))
MIN_REGULAR = 10  # clients, to borrow the interval of a product

Ints = NDArray[np.int64]


def main() -> None:
    given = parse(__doc__)
    if given.quick:
        data, earlier, reported = b2b(600, 60, random_state=0).interactions, ("2024-05-31",), ("2024-10-31",)
    else:
        data, earlier, reported = online_retail(given.data / "online-retail"), EARLIER, REPORTED
    tuning = tune(data, earlier)
    results = {day: compare(data, day) for day in reported}
    for day, rows in results.items():
        print(f"\n{day}: {rows['due']['pairs']:,} pairs due for {rows['due']['clients']:,} clients")
        for name, row in rows.items():
            print(f"  {name:32}{row['share']:.3f} bought within {HORIZON} days ({row['pairs']:,} pairs)")
    print(f"\nmean of {len(reported)} days")
    names = list(results[reported[0]])
    for name in names:
        print(f"  {name:32}{np.mean([results[day][name]['share'] for day in reported]):.3f}")
    lines = {name: (range(len(reported)), [results[day][name]["share"] for day in reported]) for name in names}
    figure = draw_lines(
        {f"share bought within {HORIZON} days": lines}, "Online Retail: what is due", "day",
        xticks=range(len(reported)), xticklabels=reported, ylim=(0, 0.9),
    )  # fmt: skip
    save(given, "due", {"tuning": tuning, "reported": results}, figure)


def tune(data: Interactions, days: tuple[str, ...]) -> list[dict[str, Any]]:
    """Print and return what each rule would have called due on earlier days, and how much of it was bought."""
    print(f"rules on {', '.join(days)}\npurchases  spread  from  until  pairs  clients  bought")
    rows = []
    for n, spread, (start, end) in product(PURCHASES, SPREADS, WINDOWS):
        rule = DueRule(n, spread, start, end)
        row = total([measured(data, day, *due_pairs(find_reorders(data, day, rule))) for day in days])
        mark = "  ← the rule" if rule == RULE else ""
        settings = f"{n:9}  {spread:6}  {start:4}  {end:5}"
        print(f"{settings} {row['pairs']:6,}  {row['clients']:7,}   {row['share']:.3f}{mark}")
        rows.append(asdict(rule) | {"max_spread": None if np.isinf(spread) else spread} | row)
    row = total([measured(data, day, *borrowed_pairs(data, day)) for day in days])
    print(f"bought twice, due by its other clients' interval: {row['pairs']:,} pairs, {row['share']:.3f} bought")
    return [*rows, {"borrowed": True} | row]


def total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over several days; a client counts on each."""
    sums = {name: sum(row[name] for row in rows) for name in ("pairs", "clients", "bought")}
    return sums | {"share": sums["bought"] / max(sums["pairs"], 1)}


def compare(data: Interactions, day: str) -> dict[str, Any]:
    """Return the share bought of what is due, and of as many products per client chosen in other ways."""
    regular, known = find_reorders(data, day), known_pairs(data, day)
    users, items = due_pairs(regular)
    others = np.setdiff1d(np.arange(len(regular.pairs)), regular.due)
    counts = np.bincount(users, minlength=data.n_users)
    bestsellers = known.group_by("item").len().sort("len", "item", descending=[True, False])["item"].to_numpy()
    return {
        "due": measured(data, day, users, items),
        "bestsellers": measured(data, day, users, np.concatenate([bestsellers[:n] for n in counts])),
        "the client's most frequent": measured(data, day, *first_of(known, ["n", "last"], counts)),
        "the client's most recent": measured(data, day, *first_of(known, ["last", "n"], counts)),
        "as regular, not due": measured(data, day, regular.users[others], regular.items[others]),
    }


def due_pairs(reorders: Reorders) -> tuple[Ints, Ints]:
    """Return users and items of what is due, by user."""
    return reorders.users[reorders.due], reorders.items[reorders.due]


def borrowed_pairs(data: Interactions, day: str) -> tuple[Ints, Ints]:
    """Return what clients bought just twice and is due by the usual interval of those who buy it regularly."""
    regular, twice = find_reorders(data, day), known_pairs(data, day).filter(pl.col("n") == 2)
    users, items = twice["user"].to_numpy(), twice["item"].to_numpy()
    waited = (regular.as_of - twice["last"].to_numpy()).astype(np.int64) / regular.product_intervals[items]
    rows = (regular.n_clients[items] >= MIN_REGULAR) & (waited >= RULE.due_from) & (waited <= RULE.due_until)
    return users[rows], items[rows]


def known_pairs(data: Interactions, day: str) -> pl.DataFrame:
    """Return a row for each pair bought up to the end of a day: user, item, n (days of purchase) and the last one."""
    before = data.purchases.time < np.datetime64(day) + 1  # the data have times
    pairs, days = data.purchases.pair[before], data.purchases.time[before].astype("datetime64[D]")
    purchases = pl.DataFrame({"user": data.pair_users[pairs], "item": data.by_user.indices[pairs], "day": days})
    return purchases.group_by("user", "item").agg(n=pl.col("day").n_unique(), last=pl.col("day").max())


def first_of(known: pl.DataFrame, order: list[str], counts: Ints) -> tuple[Ints, Ints]:
    """Return as many pairs of each user as `counts` says, the highest by the columns `order` first."""
    wanted = pl.DataFrame({"user": np.arange(len(counts), dtype=np.int32), "count": counts})
    ranked = known.join(wanted, on="user").sort("user", *order, "item", descending=[False, True, True, False])
    first = ranked.filter(pl.int_range(pl.len()).over("user") < pl.col("count"))
    return first["user"].to_numpy(), first["item"].to_numpy()


def measured(data: Interactions, day: str, users: Ints, items: Ints) -> dict[str, Any]:
    """Return how many pairs there are, of how many clients, and how many of them were bought after the day."""
    start = np.datetime64(day) + 1
    later = (data.purchases.time >= start) & (data.purchases.time < start + HORIZON)
    pairs = data.purchases.pair[later]
    bought = data.pair_users[pairs] * np.int64(data.n_items) + data.by_user.indices[pairs]
    n_bought = int(np.isin(users * np.int64(data.n_items) + items, bought).sum())
    clients = len(np.unique(users))
    return {"pairs": len(users), "clients": clients, "bought": n_bought, "share": n_bought / max(len(users), 1)}


if __name__ == "__main__":
    main()
