"""
How much a refit reshuffles: top-10 Jaccard similarity, mean over clients, on Online Retail at K=100.

python benchmarks/stability.py --data DIR [--coclusters K] [--clients N] [--date DATE]

A fit to what was bought before DATE against fits to two days more, to 99 % of its pairs, with another seed, and to the
same pairs with rows and columns shuffled: patterns alone, with links and peers, and implicit's ALS (15 iterations).
With start= the first two go on from the model before them. --clients takes the first N clients only, to try it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # implicit threads itself; BLAS threads inside make it slower

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import add_data_option, parser, save
from implicit.cpu.als import AlternatingLeastSquares

from ocular import Interactions, OCuLaR
from ocular.data.datasets import online_retail
from ocular.data.splits import time_split

N, DAYS, REMOVED = 10, 2, 0.01
LATER, FEWER, SEED, SHUFFLED = "two days more", "1 % of the pairs removed", "another seed", "rows and columns shuffled"
TARGETS = {LATER: 0.85, FEWER: 0.88, SEED: 0.75, SHUFFLED: 1.0}
START_TARGET = 0.90  # of the first two with start=
PATTERNS = {"regularization": 30.0}
EVIDENCE: dict[str, dict[str, Any]] = {  # what is added to the patterns
    "patterns": {},
    "patterns + links + peers": {"links": 1.0, "peers": 0.5, "link_regularization": 100.0},
    'links="auto"': {"links": "auto", "taste": 0.0, "appeal": 0.0},
}

Lists = dict[str, set[str]]  # client -> products, by name
Fit = Callable[[Interactions, int, Any], tuple[Any, Lists]]  # data, seed, start -> model, lists


def by_name(data: Interactions, ids: np.ndarray) -> Lists:
    names = [str(label) for label in data.item_labels]
    return {str(label): {names[i] for i in row if i >= 0} for label, row in zip(data.user_labels, ids, strict=True)}


def ocular_fit(K: int, evidence: dict[str, Any]) -> Fit:
    def fit(data: Interactions, seed: int, start: Any) -> tuple[Any, Lists]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = OCuLaR(K, **PATTERNS, **evidence, random_state=seed).fit(data, start=start)
        return model, by_name(data, model.recommend(np.arange(data.n_users), N=N)[0])

    return fit


def als_fit(K: int) -> Fit:
    def fit(data: Interactions, seed: int, _start: Any) -> tuple[Any, Lists]:
        matrix = sp.csr_matrix(data.to_matrix())
        model = AlternatingLeastSquares(factors=K, iterations=15, random_state=seed)
        model.fit(matrix, show_progress=False)
        return model, by_name(data, model.recommend(np.arange(data.n_users), matrix, N=N)[0])

    return fit


def jaccard(one: Lists, other: Lists) -> float:
    """Return the mean over clients in both."""
    shares = [len(one[c] & other[c]) / max(len(one[c] | other[c]), 1) for c in one.keys() & other.keys()]
    return float(np.mean(shares))


def present(data: Interactions, rows: np.ndarray | None = None, columns: np.ndarray | None = None) -> Interactions:
    """Return the clients and products with purchases, by name, as a file with these purchases would give them."""
    rows = np.flatnonzero(data.by_user.degrees) if rows is None else rows
    columns = np.flatnonzero(data.by_item.degrees) if columns is None else columns
    names = {"user_labels": data.user_labels[rows], "item_labels": data.item_labels[columns]}
    return Interactions.from_matrix(data.to_matrix()[rows][:, columns], **names)


def variants(full: Interactions, date: np.datetime64) -> dict[str, Interactions]:
    base = present(time_split(full, date).train)
    rng = np.random.default_rng(0)
    keep = np.ones(base.nnz, dtype=bool)
    keep[rng.choice(base.nnz, round(REMOVED * base.nnz), replace=False)] = False
    order = rng.permutation(base.n_users), rng.permutation(base.n_items)
    return {
        "base": base,
        LATER: present(time_split(full, date + np.timedelta64(DAYS, "D")).train),
        FEWER: present(base.where(keep)),
        SEED: base,
        SHUFFLED: present(base, *order),
    }


def measure(name: str, fit: Fit, data: dict[str, Interactions], *, has_start: bool) -> dict[str, Any]:
    model, lists = fit(data["base"], 0, None)
    table: dict[str, Any] = {}
    for title, target in TARGETS.items():
        _, others = fit(data[title], int(title == SEED), None)
        table[title] = told(name, title, jaccard(lists, others), target)
        if has_start and title in (LATER, FEWER):
            title_of_start = f"{title}, start="
            _, others = fit(data[title], 0, model)
            table[title_of_start] = told(name, title_of_start, jaccard(lists, others), START_TARGET)
    return table


def told(name: str, title: str, value: float, target: float) -> float:
    print(f"{name:28}{title:36}{value:.3f} (target: ≥ {target:.2f})", flush=True)
    return round(value, 4)


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    arguments.add_argument("--coclusters", type=int, default=100)
    arguments.add_argument("--clients", type=int, help="the first so many clients only; nothing is saved")
    arguments.add_argument("--date", type=np.datetime64, default=np.datetime64("2011-12-01"))
    chosen = arguments.parse_args()
    full = online_retail(chosen.data / "online-retail")
    if chosen.clients:
        full = full.where(full.pair_users < chosen.clients)
    data = variants(full, chosen.date)
    print(f"before {chosen.date}: {data['base']!r}; {DAYS} days more: {data[LATER]!r}", flush=True)
    results = {
        name: measure(name, ocular_fit(chosen.coclusters, evidence), data, has_start=True)
        for name, evidence in EVIDENCE.items()
    }
    results["implicit ALS"] = measure("implicit ALS", als_fit(chosen.coclusters), data, has_start=False)
    if not chosen.clients:
        setting = {"K": chosen.coclusters, "date": str(chosen.date), "n": N, "evidence": EVIDENCE}
        save("stability", {"setting": setting, "targets": TARGETS | {"start=": START_TARGET}, "results": results})


if __name__ == "__main__":
    main()
