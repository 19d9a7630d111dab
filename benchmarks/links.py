"""
Links and peers beside the patterns: recall@50 and MAP@50 on one 75/25 split, and the time that links take.

python benchmarks/links.py --data DIR

Weights are stated, and in the last rows chosen by "auto" on a tenth of the training data: links and peers at K=100, and
K and λ too, as `ocular fit` does; their time is given as a multiple of a fit of patterns alone. Times of links are the
fastest of three, as a share of implicit's ALS (K=100, 15 iterations) in the same run. Rankings for everybody are
counted in users per second, with evidence against patterns alone.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any

import implicit
import numpy as np
from common import add_data_option, citeulike_a, movielens_1m, parser, save, seconds
from threadpoolctl import threadpool_limits

from ocular import Interactions, OCuLaR
from ocular.data.datasets import online_retail
from ocular.data.splits import random_split
from ocular.evaluation.metrics import rank
from ocular.evidence import EvidenceConfig, fit_product_links
from ocular.solver.config import FitConfig

REPEATS = 3
PATTERNS = {"n_coclusters": 100, "regularization": 30.0, "tol": 1e-3, "random_state": 0}
EVIDENCE = {  # data set -> what is added to the patterns
    "MovieLens-1M": ({"links": 1.0, "link_regularization": 100.0}, {"peers": 0.5, "popularity": -0.1}),
    "CiteULike-a": ({"links": 2.0, "link_regularization": 300.0}, {"peers": 1.0, "popularity": -0.2}),
    "Online Retail": ({"links": 2.0, "link_regularization": 100.0}, {"peers": 0.5}),
}


def measure(name: str, train: Interactions, test: Interactions) -> dict[str, Any]:
    links, more = EVIDENCE[name]
    table = {}
    speed: dict[str, float] = {}
    plain = 0.0
    for title, evidence in (
        ("patterns", {}), ("+ links", links), ("+ links, peers", links | more), ("auto", {"links": "auto"}),
        ("all auto", {"n_coclusters": "auto", "regularization": "auto", "links": "auto"}),
    ):  # fmt: skip
        model = OCuLaR(**PATTERNS | evidence)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            took = seconds(lambda: model.fit(train))  # noqa: B023  run at once
        plain = plain or took
        recall, precision, _ = rank(model, train, test, M=50)
        row = evidence | {"recall@50": round(recall, 4), "map@50": round(precision, 4), "times": round(took / plain, 1)}
        table[title] = row | ({"chosen": asdict(model.evidence_config_)} if "auto" in title else {})
        print(f"{name:15}{title:16}{recall:.4f} / {precision:.4f}, {took / plain:.1f} × the time", flush=True)
        users = np.arange(train.n_users)
        speed[title] = train.n_users / min(seconds(lambda: model.recommend(users, N=50)) for _ in range(3))  # noqa: B023
    share = speed["+ links, peers"] / speed["patterns"]
    table["users ranked per second, share of patterns alone"] = round(share, 2)
    print(f"{name:15}users per second with evidence: {share:.2f} of patterns alone (target: ≥ 0.5)", flush=True)
    return table


def time_ratio(train: Interactions) -> float:
    config, matrix = EvidenceConfig(links=1.0, link_regularization=100.0), train.to_matrix()
    fit_product_links(train, config, FitConfig())  # compiles
    times: dict[str, list[float]] = {"links": [], "als": []}
    for _ in range(REPEATS):
        times["links"].append(seconds(lambda: fit_product_links(train, config, FitConfig())))
        als = implicit.als.AlternatingLeastSquares(factors=100, iterations=15, random_state=0)
        with threadpool_limits(1, "blas"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            times["als"].append(seconds(lambda: als.fit(matrix, show_progress=False)))  # noqa: B023  run at once
    return min(times["links"]) / min(times["als"])


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    data = arguments.parse_args().data
    sets = {
        "MovieLens-1M": lambda: movielens_1m(data),
        "CiteULike-a": lambda: citeulike_a(data),
        "Online Retail": lambda: online_retail(data / "online-retail"),
    }
    results = {}
    for name, load in sets.items():
        train, test = random_split(load(), random_state=0)
        results[name] = measure(name, train, test)
        if name == "MovieLens-1M":
            ratio = time_ratio(train)
            results["time of links as a share of ALS"] = round(ratio, 2)
            print(f"{name:15}links take {ratio:.2f} of the time of implicit's ALS (target: at most 0.5)", flush=True)
    save("links", {"results": results})


if __name__ == "__main__":
    main()
