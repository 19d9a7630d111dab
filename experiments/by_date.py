"""
By date: what would have been recommended before a date, against what was first bought in the 60 days after it.

python experiments/by_date.py --data DIR

Online Retail, three dates. Every method is tuned on an earlier date: the last 60 days before the test are held out and
its parameters are those that do best on them. Evidence is OCuLaR with links and peers, whose loss is chosen there too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import draw_lines, parse, save

from ocular.data.datasets import online_retail
from ocular.data.interactions import Interactions
from ocular.data.splits import time_split
from ocular.evaluation.protocol import SETTINGS, Method, backtest
from ocular.synthetic import b2b

DATES, DAYS, M = ("2011-07-01", "2011-09-01", "2011-11-01"), 60, 20
PATTERNS = [{"n_coclusters": 100, "regularization": 30.0, "tol": 1e-3}]
METHODS = [
    Method("evidence", [PATTERNS[0] | {"link_loss": loss} for loss in ("likelihood", "squares")]),
    Method("ocular", SETTINGS["ocular"][:10]),
    Method("ease", SETTINGS["ease"]),
    Method("wals", SETTINGS["wals"]),
    Method("slim", SETTINGS["slim"]),
    Method("popularity"),
]


def main() -> None:
    given = parse(__doc__)
    if given.quick:
        data, dates, methods = b2b(300, 60, random_state=0).interactions, ("2023-07-01",), [METHODS[0], METHODS[-1]]
    else:
        data, dates, methods = online_retail(given.data / "online-retail"), DATES, METHODS
    results: dict[str, Any] = {method.name: {} for method in methods}
    for date in dates:
        for method in methods:
            comparison = backtest(
                until(data, date), date, [method], tune="validation", metric="map", M=M, report=report
            )
            row = comparison.rows()[0]
            found = {name: row[f"{name}@{M}"] for name in ("recall", "map")}
            results[method.name][date] = found | {"parameters": row["parameters"], "clients": row["clients"]}
            print(f"{date} {method.name:12} recall@{M} {found['recall']:.4f} MAP@{M} {found['map']:.4f}", flush=True)
    print(f"\nmean of {len(dates)} dates")
    for name, by_date in results.items():
        means = (float(np.mean([each[metric] for each in by_date.values()])) for metric in ("recall", "map"))
        print(f"{name:12}" + "  ".join(f"{mean:.4f}" for mean in means))
    panels = {
        f"{title}@{M}": {
            name: (range(len(dates)), [by_date[date][metric] for date in dates]) for name, by_date in results.items()
        }
        for title, metric in (("recall", "recall"), ("MAP", "map"))
    }
    save(
        given,
        "by_date",
        results,
        draw_lines(panels, "Online Retail by date", "date", xticks=range(len(dates)), xticklabels=dates),
    )


def until(data: Interactions, date: str) -> Interactions:
    """Return the purchases up to the end of the test."""
    end = np.datetime64(date) + np.timedelta64(DAYS, "D")
    times = data.purchases.time  # Online Retail has them
    return data if end > np.nanmax(times) else time_split(data, end).train


def report(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
