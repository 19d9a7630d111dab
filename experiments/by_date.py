"""
By date: what would have been recommended before a date, against what was first bought in the 60 days after it.

python experiments/by_date.py --data DIR

Online Retail, three dates. Every method is tuned on an earlier date: the last 60 days before the test are held out and
its parameters are those that do best on them. Evidence is OCuLaR with links and peers, whose loss is chosen there too.
Each of them also gets the trend of the products (`ocular.data.trend`), with its exponent and half-life tuned likewise.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from common import draw_lines, parse, save
from scipy.stats import ttest_rel

from ocular.data.datasets import online_retail
from ocular.data.interactions import Interactions
from ocular.data.splits import time_split
from ocular.evaluation.comparison import Parameters, Result
from ocular.evaluation.protocol import SETTINGS, Method, backtest
from ocular.synthetic import b2b

DATES, DAYS, M = ("2011-07-01", "2011-09-01", "2011-11-01"), 60, 20
PATTERNS = {"n_coclusters": 100, "regularization": 30.0, "tol": 1e-3}
LOSSES = [PATTERNS | {"link_loss": loss} for loss in ("likelihood", "squares")]
TRENDS = [
    {"trend": trend, "trend_half_life": days} for trend, days in product((0.7, 1.0, 1.3), (7.0, 15.0, 30.0, 60.0))
]
WITH_TREND, RIVAL = "evidence with trend", "ease with trend"


def with_trend(settings: list[Parameters]) -> list[Parameters]:
    return [dict(setting) | trend for setting in settings for trend in TRENDS]


METHODS = {
    WITH_TREND: Method("evidence", LOSSES),
    RIVAL: Method("ease", with_trend(SETTINGS["ease"][1:])),
    "wals with trend": Method("wals", with_trend(SETTINGS["wals"][:4])),
    "item-knn with trend": Method("item-knn", with_trend(SETTINGS["item-knn"])),
    "popularity with trend": Method("popularity", with_trend([{}])),
    "evidence": Method("evidence", [setting | {"trend": 0.0} for setting in LOSSES]),
    "ease": Method("ease", SETTINGS["ease"]),
    "wals": Method("wals", SETTINGS["wals"][:4]),
    "popularity": Method("popularity"),
}


def main() -> None:
    given = parse(__doc__)
    if given.quick:
        data, dates = b2b(300, 60, random_state=0).interactions, ("2023-07-01",)
        methods = {name: METHODS[name] for name in (WITH_TREND, "popularity with trend", "popularity")}
    else:
        data, dates, methods = online_retail(given.data / "online-retail"), DATES, METHODS
    results: dict[str, Any] = {name: {} for name in methods}
    scores: dict[str, list[Result]] = {name: [] for name in methods}
    for date in dates:
        for name, method in methods.items():
            comparison = backtest(until(data, date), date, [method], tune="validation", metric="map", M=M)
            row = comparison.rows()[0]
            found = {metric: row[f"{metric}@{M}"] for metric in ("recall", "map")}
            results[name][date] = found | {"parameters": row["parameters"], "clients": row["clients"]}
            scores[name] += comparison.results
            print(f"{date} {name:22} recall@{M} {found['recall']:.4f} MAP@{M} {found['map']:.4f}", flush=True)
    print(f"\nmean of {len(dates)} dates")
    for name, by_date in results.items():
        means = (float(np.mean([each[metric] for each in by_date.values()])) for metric in ("recall", "map"))
        print(f"{name:22}" + "  ".join(f"{mean:.4f}" for mean in means))
    metrics = ("recall", "map") if RIVAL in methods else ()
    tests = {metric: paired_test(scores[WITH_TREND], scores[RIVAL], metric) for metric in metrics}
    for metric, (gain, p) in tests.items():
        print(f"{WITH_TREND} against {RIVAL}, {metric}@{M} per client: {gain:+.4f}, paired t-test p = {p:.2g}")
    panels = {
        f"{title}@{M}": {
            name: (range(len(dates)), [by_date[date][metric] for date in dates]) for name, by_date in results.items()
        }
        for title, metric in (("recall", "recall"), ("MAP", "map"))
    }
    save(
        given,
        "by_date",
        results | {f"{WITH_TREND} against {RIVAL}: gain and p": tests},
        draw_lines(panels, "Online Retail by date", "date", xticks=range(len(dates)), xticklabels=dates),
    )


def until(data: Interactions, date: str) -> Interactions:
    """Return the purchases up to the end of the test."""
    end = np.datetime64(date) + np.timedelta64(DAYS, "D")
    times = data.purchases.time  # Online Retail has them
    return data if end > np.nanmax(times) else time_split(data, end).train


def paired_test(ours: list[Result], theirs: list[Result], metric: str) -> tuple[float, float]:
    """Return the mean gain per client and date, and p of the paired t-test."""
    pairs = [(one.per_user(metric, M), other.per_user(metric, M)) for one, other in zip(ours, theirs, strict=True)]
    mine = np.array([one[user] for one, other in pairs for user in one.keys() & other.keys()])
    others = np.array([other[user] for one, other in pairs for user in one.keys() & other.keys()])
    return float((mine - others).mean()), float(ttest_rel(mine, others).pvalue)


if __name__ == "__main__":
    main()
