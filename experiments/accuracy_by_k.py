"""
Accuracy against the number of co-clusters, by patterns alone and with links and peers beside them.

python experiments/accuracy_by_k.py --data DIR

One 75/25 split; weights are chosen on a validation part of the training data. With links a number of co-clusters that
people can read is as accurate as thousands.
"""

from __future__ import annotations

from typing import Any

from common import draw_lines, parse, save

from ocular.data.datasets import movielens, online_retail
from ocular.evaluation.protocol import Method, compare
from ocular.synthetic import b2b

M = 50
COCLUSTERS = (25, 50, 100, 200, 400, 800)
REGULARIZATION = {"MovieLens-1M": 60.0, "Online Retail": 45.0}  # fair for every K


def main() -> None:
    given = parse(__doc__)
    sets: dict[str, Any] = {"B2B": lambda: b2b(300, 60, random_state=0).interactions}
    numbers: tuple[int, ...] = (4, 8)
    if not given.quick:
        numbers = COCLUSTERS
        sets = {
            "MovieLens-1M": lambda: movielens(given.data / "movielens-1m", min_rating=3),
            "Online Retail": lambda: online_retail(given.data / "online-retail"),
        }
    results: dict[str, Any] = {}
    for name, load in sets.items():
        data = load()
        for title, evidence in (("patterns", {"links": 0.0, "peers": 0.0}), ("with links", {"links": "auto"})):
            rows = results[f"{name}, {title}"] = {}
            for K in numbers:
                patterns = {"n_coclusters": K, "regularization": REGULARIZATION.get(name, 5.0), "tol": 1e-3}
                found = compare(data, [Method("evidence", [patterns | evidence])], instances=1, M=M).results[0]
                rows[K] = {metric: found.mean(metric, M) for metric in ("recall", "map")}
                values = f"recall@{M} {rows[K]['recall']:.4f}, MAP@{M} {rows[K]['map']:.4f}"
                print(f"{name}, {title}, K={K}: {values}", flush=True)
    panels = {
        f"{title}@{M}": {name: (list(rows), [row[metric] for row in rows.values()]) for name, rows in results.items()}
        for title, metric in (("recall", "recall"), ("MAP", "map"))
    }
    figure = draw_lines(panels, "Accuracy and the number of co-clusters", "co-clusters", xscale="log")
    save(given, "accuracy_by_k", results, figure)


if __name__ == "__main__":
    main()
