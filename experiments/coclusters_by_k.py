"""
Recall and what the co-clusters look like against K, for λ = 0, 30 and 100: the paper's figure on MovieLens.

Mean number of clients and products in a co-cluster, and its density, by the membership rule of docs/explanations.md.

python experiments/coclusters_by_k.py --data DIR [--quick]
"""

from __future__ import annotations

import warnings

import numpy as np
from common import draw_lines, parse, save

from ocular import OCuLaR
from ocular.data.datasets import movielens
from ocular.data.splits import random_split
from ocular.evaluation.metrics import measure
from ocular.synthetic import b2b

SIZES = (10, 20, 50, 100, 150, 200, 300)
STRENGTHS = (0.0, 30.0, 100.0)
QUANTITIES = ("recall@50", "clients", "products", "density")


def main() -> None:
    given = parse(__doc__)
    interactions = (
        b2b(300, 60, random_state=0).interactions
        if given.quick
        else movielens(given.data / "movielens-1m", min_rating=3)
    )
    sizes = (2, 4) if given.quick else SIZES
    train, test = random_split(interactions, 0.25, random_state=0)
    results: dict[str, list[list[float]]] = {}
    warnings.simplefilter("ignore")  # λ = 0 does not converge in 100 sweeps
    print(f"{'λ':>5}{'K':>6}" + "".join(f"{name:>12}" for name in QUANTITIES))
    for strength in STRENGTHS:
        rows = []
        for K in sizes:
            model = OCuLaR(K, strength, init="overlap", random_state=0).fit(train)
            found = model.coclusters()
            means = [np.mean([len(c.users) for c in found]), np.mean([len(c.items) for c in found]),
                     np.mean([c.density for c in found])]  # fmt: skip
            rows.append([measure(model, train, test, 50).mean("recall", 50), *map(float, means)])
            print(f"{strength:>5g}{K:>6}" + "".join(f"{value:>12.3f}" for value in rows[-1]), flush=True)
        results[f"λ = {strength:g}"] = rows
    panels = {
        quantity: {name: (sizes, [row[at] for row in rows]) for name, rows in results.items()}
        for at, quantity in enumerate(QUANTITIES)
    }
    figure = draw_lines(panels, "MovieLens-1M: co-clusters against K", "K")
    save(given, "coclusters_by_k", {"K": sizes, "quantities": QUANTITIES, "rows": results}, figure)


if __name__ == "__main__":
    main()
