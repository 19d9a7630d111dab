"""
Do the co-clusters that were planted come back, and the same ones from every seed?

The measure is the F1 of the (client, product) pairs of two co-clusters. Each planted co-cluster is matched to the found
one of largest F1 and each found one to the planted one; a score is the mean of both means. The number of co-clusters is
given to all methods that take one. Memberships become sets as each method has it; NMF has no rule, and gets half of a
component's largest value on each side.

python benchmarks/recovery.py [--quick]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from itertools import combinations, product
from statistics import mean
from typing import Any

import numpy as np
from common import parser, save
from numpy.typing import NDArray
from sklearn.cluster import SpectralCoclustering
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from ocular import Interactions, OCuLaR
from ocular.baselines.communities import bigclam, modularity
from ocular.synthetic import planted

SIZES = ((200, 100, 5), (500, 300, 10), (1000, 500, 20))  # clients, products, co-clusters
OVERLAPS = (0.0, 0.3, 0.6)
NOISE = (0.0, 0.01, 0.05)
LOW_NOISE = 0.01
DENSITY, SPARSE = 0.9, 0.4  # of the co-clusters; the sparse ones in one size
SEEDS = 2
STABILITY_SEEDS = 5
REGULARIZATION = 3.0  # for all sizes

Biclusters = tuple[NDArray[np.bool_], NDArray[np.bool_]]  # (n, n_users), (n, n_items)


def ocular(interactions: Interactions, K: int, seed: int) -> Biclusters:
    model = OCuLaR(K, REGULARIZATION, max_iter=300, n_threads=1, random_state=seed).fit(interactions)
    return model.rows_, model.columns_


def spectral(interactions: Interactions, K: int, seed: int) -> Biclusters:
    bought = interactions.to_matrix()
    users, items = (np.flatnonzero(side.degrees) for side in (interactions.by_user, interactions.by_item))
    model = SpectralCoclustering(K, random_state=seed).fit(bought[users][:, items])  # refuses empty rows
    rows, columns = (np.zeros((K, n), dtype=bool) for n in interactions.shape)
    rows[:, users], columns[:, items] = model.rows_, model.columns_
    return rows, columns


def nmf(interactions: Interactions, K: int, seed: int) -> Biclusters:
    model = NMF(K, init="nndsvda", max_iter=300, random_state=seed)
    users, items = model.fit_transform(interactions.to_matrix()).T, model.components_
    return tuple(side >= np.maximum(side.max(axis=1, keepdims=True) / 2, 1e-9) for side in (users, items))


METHODS: dict[str, Callable[[Interactions, int, int], Biclusters]] = {
    "OCuLaR": ocular,
    "spectral": spectral,
    "NMF": nmf,
    "modularity": lambda interactions, _, seed: modularity(interactions, method="louvain", random_state=seed),
    "BIGCLAM": lambda interactions, K, seed: bigclam(interactions, K, random_state=seed),
}


def best_match(first: Biclusters, second: Biclusters) -> float:
    """Mean F1 of the best matches in both directions; co-clusters without pairs are left out."""
    (rows, columns), (others, other_columns) = (_with_pairs(*side) for side in (first, second))
    if not len(rows) or not len(others):
        return 0.0
    shared = (rows @ others.T) * (columns @ other_columns.T)
    sizes = [side[0].sum(axis=1) * side[1].sum(axis=1) for side in ((rows, columns), (others, other_columns))]
    f1 = 2 * shared / (sizes[0][:, None] + sizes[1])
    return float(f1.max(axis=1).mean() + f1.max(axis=0).mean()) / 2


def _with_pairs(rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    whole = rows.any(axis=1) & columns.any(axis=1)
    return rows[whole].astype(np.float64), columns[whole].astype(np.float64)


def stability(interactions: Interactions, K: int, seeds: Iterable[int]) -> float:
    """Mean match of the co-clusters of each two seeds."""
    found = [ocular(interactions, K, seed) for seed in seeds]
    return mean(best_match(one, other) for one, other in combinations(found, 2))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true", help="the smallest size, one seed; nothing is saved")
    quick = arguments.parse_args().quick
    sizes, seeds = (SIZES[:1], 1) if quick else (SIZES, SEEDS)
    warnings.simplefilter("ignore", ConvergenceWarning)  # of NMF, whose last digits do not matter here
    grid = [(*setting, DENSITY) for setting in product(sizes, OVERLAPS, NOISE)]
    if not quick:
        grid += [(*setting, SPARSE) for setting in product(SIZES[1:2], OVERLAPS, NOISE)]
    cells = []
    columns = [*METHODS, "stability"]
    print(f"mean best-match F1, λ={REGULARIZATION:g}, {seeds} seeds")
    print(
        f"{'clients × products / K':24}{'density':>8}{'overlap':>8}{'noise':>7}" + "".join(f"{c:>12}" for c in columns)
    )
    for (n_users, n_items, K), overlap, noise, density in grid:
        truths = [
            planted(n_users, n_items, K, overlap=overlap, density=density, noise=noise, random_state=seed)
            for seed in range(seeds)
        ]
        scores = {
            name: mean(
                best_match((truth.rows, truth.columns), find(truth.interactions, K, seed))
                for seed, truth in enumerate(truths)
            )
            for name, find in METHODS.items()
        }
        scores["stability"] = stability(truths[0].interactions, K, range(STABILITY_SEEDS))
        setting = {"size": [n_users, n_items, K], "density": density, "overlap": overlap, "noise": noise}
        cells.append({**setting, "scores": scores})
        size = f"{n_users} × {n_items} / {K}"
        print(
            f"{size:24}{density:>8g}{overlap:>8g}{noise:>7g}" + "".join(f"{scores[c]:>12.3f}" for c in columns),
            flush=True,
        )
    means = {}
    for density in sorted({cell["density"] for cell in cells}):
        low = [cell["scores"] for cell in cells if cell["noise"] <= LOW_NOISE and cell["density"] == density]
        means[f"density {density:g}"] = {name: mean(scores[name] for scores in low) for name in columns}
    for name, scores in means.items():
        print(f"{f'mean, noise ≤ {LOW_NOISE:g}, {name}':47}" + "".join(f"{scores[c]:>12.3f}" for c in columns))
    if not quick:
        save("recovery", {"regularization": REGULARIZATION, "mean_at_low_noise": means, "cells": cells})


if __name__ == "__main__":
    main()
