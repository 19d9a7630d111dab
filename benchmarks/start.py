"""
Which start a fit should have: objective and recall@50 after a number of sweeps, for each `init`.

python benchmarks/start.py --data DIR
python benchmarks/start.py --data DIR --cost      what init="auto" costs and gains, against the same start without
                                                  several starts and repairs, and against init="overlap"

Costs are CPU seconds of the process with one thread, and ratios are of fits in turn, so that other work on the machine
counts as little as possible.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from statistics import mean
from typing import Any

from common import add_data_option, citeulike_a, movielens_1m, parser, save
from recovery import best_match
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import consensus_score

from ocular import Interactions, OCuLaR
from ocular.data.datasets import online_retail
from ocular.data.splits import random_split
from ocular.evaluation.metrics import rank
from ocular.synthetic import planted

SWEEPS = (5, 10, 20, 40)
SEEDS = 3
COCLUSTERS = (20, 100)
# the start that init="auto" has without several starts and repairs
PLAIN = {"MovieLens-1M": "overlap", "CiteULike-a": "seeds", "Online Retail": "overlap"}


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    arguments.add_argument("--cost", action="store_true", help='what init="auto" costs and gains')
    given = arguments.parse_args()
    if given.cost:
        measure_cost(given.data)
    else:
        compare_starts(given.data)


def measure_cost(data: Path) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    sets = {
        "MovieLens-1M": movielens_1m(data),
        "CiteULike-a": citeulike_a(data),
        "Online Retail": online_retail(data / "online-retail"),
    }
    results = {}
    print(f"λ=30, three quarters of the pairs, one thread, mean of {SEEDS} seeds; auto relative to the plain start")
    columns = f"{'sweeps':>7}{'CPU s':>8}{'ratio':>7}{'objective':>12}{'ratio':>9}{'recall@50':>11}"
    print(f"{'':14}{'K':>4} {'init':8}{columns}")
    for name, interactions in sets.items():
        train, test = random_split(interactions, random_state=0)
        for K in COCLUSTERS:
            inits = list(dict.fromkeys((PLAIN[name], "overlap", "auto")))
            cost_of(train, test, K, "auto", 0)  # compiles
            runs = {init: [] for init in inits}
            for seed in range(SEEDS):
                for init in inits:
                    runs[init].append(cost_of(train, test, K, init, seed))
            means = {init: {key: mean(run[key] for run in runs[init]) for key in runs[init][0]} for init in inits}
            plain = means[PLAIN[name]]
            for init, found in means.items():
                time_ratio, objective_ratio = (found[key] / plain[key] for key in ("seconds", "objective"))
                print(
                    f"{name:14}{K:>4} {init:8}{found['sweeps']:>7.0f}{found['seconds']:>8.2f}{time_ratio:>7.2f}"
                    f"{found['objective']:>12,.0f}{objective_ratio:>9.4f}{found['recall']:>11.4f}",
                    flush=True,
                )
            results[f"{name} {K}"] = means
    market = planted(5000, 2000, 100, overlap=0.3, density=0.9, noise=0.01, random_state=0)
    print("a hundred planted co-clusters, 5000 × 2000, λ=3: mean F1 of the best matches (recovery.py), CPU seconds")
    for init in ("overlap", "auto"):
        scores, times = [], []
        for seed in range(SEEDS):
            begun = time.process_time()
            model = OCuLaR(100, 3.0, init=init, max_iter=300, n_threads=1, random_state=seed).fit(market.interactions)
            times.append(time.process_time() - begun)
            scores.append(best_match((market.rows, market.columns), (model.rows_, model.columns_)))
        results[f"planted {init}"] = {"F1": mean(scores), "seconds": mean(times)}
        print(f"  {init:8}{mean(scores):.3f}{mean(times):>7.2f}", flush=True)
    save("start_cost", results)


def cost_of(train: Interactions, test: Interactions, K: int, init: str, seed: int) -> dict[str, Any]:
    begun = time.process_time()
    model = OCuLaR(K, 30.0, init=init, n_threads=1, random_state=seed).fit(train)
    seconds = time.process_time() - begun
    recall = rank(model, train, test)[0]
    return {"seconds": seconds, "sweeps": model.n_iter_, "objective": model.objective_, "recall": recall}


def compare_starts(data: Path) -> None:
    results = {}
    for name, interactions, K, regularization in (
        ("MovieLens-1M", movielens_1m(data), 200, 60.0),
        ("CiteULike-a", citeulike_a(data), 1000, 150.0),
    ):
        train, test = random_split(interactions, random_state=0)
        print(f"{name}, K={K}, λ={regularization:g}, mean of {SEEDS} seeds: objective, recall@50, MAP@50")
        for init in ("random", "overlap", "seeds"):
            for sweeps in SWEEPS:
                fits = [
                    OCuLaR(K, regularization, init=init, max_iter=sweeps, tol=0, random_state=seed).fit(train)
                    for seed in range(SEEDS)
                ]
                objective = sum(fit.objective_ for fit in fits) / SEEDS
                ranks = [rank(fit, train, test) for fit in fits]
                recall, precision = (sum(r[part] for r in ranks) / SEEDS for part in (0, 1))
                results[f"{name} {init} {sweeps}"] = [objective, recall, precision]
                print(f"  {init:8} {sweeps:>3} sweeps  {objective:>12,.0f}  {recall:.4f}  {precision:.4f}", flush=True)

    print(
        "planted co-clusters, 300 users × 200 items, K=8, mean of 10 seeds: objective, consensus score with the truth"
    )
    truth = planted(300, 200, 8, random_state=1)
    for init in ("random", "overlap", "seeds", "auto"):
        fits = [
            OCuLaR(8, 1.0, init=init, tol=1e-5, max_iter=500, random_state=s).fit(truth.interactions) for s in range(10)
        ]
        objective = sum(fit.objective_ for fit in fits) / len(fits)
        score = sum(consensus_score(fit.biclusters_, (truth.rows, truth.columns)) for fit in fits) / len(fits)
        results[f"planted {init}"] = [objective, score]
        print(f"  {init:8} {objective:>12,.0f}  {score:.3f}", flush=True)
    save("start", results)


if __name__ == "__main__":
    main()
