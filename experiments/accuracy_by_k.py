"""
Accuracy against the number of co-clusters: patterns alone, with links beside them, and with all that "auto" adds.

python experiments/accuracy_by_k.py --data DIR [--only "Online Retail"]

One 75/25 split. On a tenth of the training data λ is chosen for the patterns alone, for every K anew, then the weights
and penalties of what is added to these patterns. With links a number of co-clusters that people can read is as accurate
as many more.
"""

from __future__ import annotations

from typing import Any

from common import draw_lines, parse, save, saved_results

from ocular.data.datasets import movielens, online_retail
from ocular.evaluation.protocol import Method, compare
from ocular.synthetic import b2b

M = 50
COCLUSTERS, FEW = (25, 50, 100, 200, 400, 800), (4, 8)
SETS = ("MovieLens-1M", "Online Retail")
REGULARIZATIONS = (10.0, 20.0, 40.0, 60.0, 100.0)
PATTERNS = "patterns"
KINDS: dict[str, dict[str, Any]] = {
    "with links": {"links": "auto", "peers": 0.0, "popularity": 0.0},
    "with links, peers, popularity": {"links": "auto"},
}


def main() -> None:
    given = parse(__doc__, sets=SETS)
    sets: dict[str, Any] = {"B2B": lambda: b2b(300, 60, random_state=0).interactions}
    if not given.quick:
        sets = {
            "MovieLens-1M": lambda: movielens(given.data / "movielens-1m", min_rating=3),
            "Online Retail": lambda: online_retail(given.data / "online-retail"),
        }
    results = saved_results(given, "accuracy_by_k")
    for name, load in sets.items():
        if given.only in (None, name) or given.quick:
            results[name] = measure(name, load(), FEW if given.quick else COCLUSTERS)
    panels = {
        f"{name}: {title}@{M}": {
            kind: ([int(K) for K in rows], [row[metric] for row in rows.values()]) for kind, rows in kinds.items()
        }
        for name, kinds in results.items()
        for title, metric in (("recall", "recall"), ("MAP", "map"))
    }
    scales = {"xscale": "log", "xticks": COCLUSTERS, "xticklabels": COCLUSTERS}
    figure = draw_lines(panels, "Accuracy by co-clusters", "co-clusters", n_rows=len(results), **scales)
    save(given, "accuracy_by_k", results, figure)


def measure(name: str, data: Any, coclusters: tuple[int, ...]) -> dict[str, Any]:
    """Return recall, MAP and the parameters that were chosen, for each kind of evidence and each K."""
    kinds: dict[str, Any] = {kind: {} for kind in (PATTERNS, *KINDS)}
    for K in coclusters:
        settings = [{"n_coclusters": K, "regularization": strength, "tol": 1e-3} for strength in REGULARIZATIONS]
        patterns = kinds[PATTERNS][K] = accuracy(data, Method("ocular", settings))
        for kind, evidence in KINDS.items():
            kinds[kind][K] = accuracy(data, Method("evidence", [patterns["parameters"] | evidence]))
        for kind, rows in kinds.items():
            values = f"recall@{M} {rows[K]['recall']:.4f}, MAP@{M} {rows[K]['map']:.4f}"
            print(f"{name}, K={K}, λ={rows[K]['parameters']['regularization']:g}, {kind}: {values}", flush=True)
    return kinds


def accuracy(data: Any, method: Method) -> dict[str, Any]:
    found = compare(data, [method], instances=1, M=M).results[0]
    return {metric: found.mean(metric, M) for metric in ("recall", "map")} | {"parameters": dict(found.parameters)}


if __name__ == "__main__":
    main()
