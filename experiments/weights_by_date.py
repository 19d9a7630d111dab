"""
Weights of purchases by date: do recent or large purchases deserve to count for more?

python experiments/weights_by_date.py --data DIR [--dates 3]

Online Retail: what would have been recommended before a date, against what was first bought in the 60 days after it, as
in by_date.py. Patterns, links and the trend of products have fixed parameters and are fitted with each kind of weights;
--dates takes the first so many of the dates there.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from by_date import DATES, until
from common import draw_lines, parse, save

from ocular import OCuLaR
from ocular.data.datasets import online_retail
from ocular.data.splits import time_split
from ocular.evaluation.metrics import measure
from ocular.synthetic import b2b

M = 20
VARIANTS: dict[str, dict[str, Any]] = {
    "all alike": {},
    "half-life 30d": {"half_life": "30d"},
    "half-life 90d": {"half_life": "90d"},
    "half-life 180d": {"half_life": "180d"},
    "half-life 365d": {"half_life": "365d"},
    "quantity": {"weights": "quantity"},
    "amount": {"weights": "amount"},
    "90d and amount": {"half_life": "90d", "weights": "amount"},
}
PARTS = {  # by how they weigh, so that each is fitted once
    "patterns": {"links": 0.0},
    "patterns + links": {"links": 1.0},
    "patterns + links, trend": {"links": 1.0, "trend": 1.0, "trend_half_life": 30.0},
}


def main() -> None:
    given = parse(__doc__, dates=len(DATES))
    if given.quick:
        data, dates, K = b2b(300, 60, random_state=0).interactions, ("2023-07-01",), 10
    else:
        data, dates, K = online_retail(given.data / "online-retail"), DATES[: given.dates], 100
    results: dict[str, Any] = {part: {name: {} for name in VARIANTS} for part in PARTS}
    for date in dates:
        train, test = time_split(until(data, date), date)
        usual: dict[str, Any] = {}
        for name, weights in VARIANTS.items():
            fit = OCuLaR(
                K, 30.0, links=1.0, link_regularization=100.0, tol=1e-3, random_state=0, n_threads=1, **weights
            ).fit(train)
            for part, changes in PARTS.items():
                model = copy(fit)
                model.evidence_config_ = replace(fit.evidence_config_, **changes)
                scores = measure(model, train, test, M, n_threads=1).per_user
                ap = scores["map"][:, 0]
                gain = ap - usual.setdefault(part, ap)
                z = float(gain.mean() / max(gain.std() / np.sqrt(len(ap)), 1e-12))
                found = {"recall": float(scores["recall"][:, 0].mean()), "map": float(ap.mean()), "z": z}
                results[part][name][date] = found
                print(
                    f"{date} {part:24} {name:15} recall@{M} {found['recall']:.4f} MAP@{M} {found['map']:.4f} "
                    f"(z of the difference in MAP {z:+.1f})",
                    flush=True,
                )
    print(f"\nmean of {len(dates)} dates")
    for part, variants in results.items():
        for name, by_date in variants.items():
            means = (float(np.mean([each[metric] for each in by_date.values()])) for metric in ("recall", "map"))
            print(f"{part:24} {name:15}" + "  ".join(f"{mean:.4f}" for mean in means))
    panels = {
        f"{title}@{M}, {part}": {
            name: (range(len(dates)), [by_date[date][metric] for date in dates]) for name, by_date in variants.items()
        }
        for title, metric in (("recall", "recall"), ("MAP", "map"))
        for part, variants in results.items()
    }
    ticks = {"xticks": range(len(dates)), "xticklabels": dates}
    save(given, "weights_by_date", results, draw_lines(panels, "Weights of purchases by date", "date", **ticks))


if __name__ == "__main__":
    main()
