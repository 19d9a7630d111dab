"""
What it costs to choose all parameters: CPU time of an "all auto" fit as a multiple of a plain one, and its accuracy.

python benchmarks/tuning.py --data DIR

A plain fit is OCuLaR(100, 30, tol=1e-3): patterns alone. Beside it stands a fit with the chosen parameters given as
numbers, so that the difference to "all auto" is the choice alone. Fits take turns, on one thread, and the fastest of
three counts. Recall@50 and MAP@50 are those of one 75/25 split; the tuned model is that of `experiments/table_1.py`.
What is tested is a random part, so that parameters are chosen on one too; where purchases have dates, choosing on the
latest ones, the default, is measured besides.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict
from typing import Any

from common import add_data_option, citeulike_a, movielens_1m, parser, save

from ocular import Interactions, OCuLaR
from ocular.data.datasets import online_retail
from ocular.data.splits import random_split
from ocular.evaluation.metrics import rank

REPEATS = 3
SETTINGS: dict[str, Any] = {"tol": 1e-3, "random_state": 0, "n_threads": 1}
TUNED = {"MovieLens-1M": 0.4505, "CiteULike-a": 0.4408, "Online Retail": 0.4568}  # recall@50 in table_1.py
MAX_TIMES, MAX_LOSS = 5.0, 0.01


def measure(name: str, train: Interactions, test: Interactions) -> dict[str, Any]:
    auto = OCuLaR("auto", "auto", links="auto", validation="random", **SETTINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto.fit(train)  # compiles
        K, strength = auto.config_.n_coclusters, auto.config_.regularization
        models = {
            "plain": OCuLaR(100, 30.0, **SETTINGS),
            "fixed": OCuLaR(K, strength, **asdict(auto.evidence_config_), **SETTINGS),
            "auto": auto,
            "by date": OCuLaR("auto", "auto", links="auto", **SETTINGS),
        }
        times: dict[str, list[float]] = {title: [] for title in models}
        for _ in range(REPEATS):
            for title, model in models.items():
                begun = time.process_time()
                model.fit(train)
                times[title].append(time.process_time() - begun)
    best = {title: min(taken) for title, taken in times.items()}
    of_plain, of_fixed = best["auto"] / best["plain"], best["auto"] / best["fixed"]
    recall, precision, _ = rank(auto, train, test, M=50)
    by_date = rank(models["by date"], train, test, M=50)
    print(
        f"{name:15}all auto: {of_plain:.1f} × a plain fit (target: at most {MAX_TIMES:g}), {of_fixed:.1f} × a fit with "
        f"these parameters, which is {best['fixed'] / best['plain']:.1f} × a plain one; {recall:.4f} / {precision:.4f} "
        f"(target: recall of at least {TUNED[name] - MAX_LOSS:.4f}); by date, where there are dates: "
        f"{best['by date'] / best['plain']:.1f} × a plain fit, {by_date.recall:.4f} / {by_date.map:.4f}",
        flush=True,
    )
    choice = auto.tuning_
    assert choice is not None
    return {
        "times a plain fit": round(of_plain, 2),
        "times a fit with the same parameters": round(of_fixed, 2),
        "by date": {
            "times a plain fit": round(best["by date"] / best["plain"], 2),
            "recall@50": round(by_date.recall, 4),
            "map@50": round(by_date.map, 4),
        },
        "recall@50": round(recall, 4),
        "map@50": round(precision, 4),
        "chosen": choice.to_dict(),
    }


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    data = arguments.parse_args().data
    sets = {
        "MovieLens-1M": lambda: movielens_1m(data),
        "CiteULike-a": lambda: citeulike_a(data),
        "Online Retail": lambda: online_retail(data / "online-retail"),
    }
    results = {name: measure(name, *random_split(load(), random_state=0)) for name, load in sets.items()}
    save("tuning", {"results": results})


if __name__ == "__main__":
    main()
