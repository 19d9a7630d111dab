"""
Top-50 for many users: users per second against implicit's `recommend` on factors of the same size, and whether the
answers are those of scoring every pair. And the other way round: the time to find the 50 users for an item.

python benchmarks/recommend.py [--data DIR]     made-up companies, and with DIR MovieLens-1M and CiteULike-a
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # implicit threads itself; BLAS threads inside make it slower

from typing import Any

import numpy as np
import scipy.sparse as sp
from common import add_data_option, citeulike_a, movielens_1m, parser, save, seconds
from implicit.cpu.als import AlternatingLeastSquares

from ocular import Interactions, OCuLaR
from ocular.synthetic.market import b2b

N, RUNS, CHECKED, MANY_ITEMS = 50, 3, 500, 300


def compare(model: OCuLaR, data: Interactions, users: np.ndarray) -> dict[str, Any]:
    """Compare both; they leave out what the users have, and print as they go."""
    matrix = sp.csr_matrix(data.to_matrix())[users]
    als = AlternatingLeastSquares(factors=model.n_coclusters)
    rng = np.random.default_rng(0)
    als.user_factors = rng.normal(size=(data.n_users, model.n_coclusters)).astype(np.float32)
    als.item_factors = rng.normal(size=(data.n_items, model.n_coclusters)).astype(np.float32)
    model.recommend(users[:100], matrix[:100], N=N)  # compiles
    ours = min(seconds(lambda: model.recommend(users, matrix, N=N)) for _ in range(RUNS))
    theirs = min(seconds(lambda: als.recommend(users, matrix, N=N)) for _ in range(RUNS))
    same = agreement(model, data, users[:: max(1, len(users) // CHECKED)])
    print(f"top-{N} of {data.n_items:,}, K={model.n_coclusters}: {len(users) / ours:,.0f} users per second, implicit "
          f"{len(users) / theirs:,.0f}, ratio {theirs / ours:.1f} (target: ≥ 3); "
          f"{same:.2%} of the places as by scoring every pair", flush=True)  # fmt: skip
    one, many = users_for_items(model)
    print(f"the {N} users for one item: {1000 * one:.1f} ms, for each of many: {1000 * many:.1f} ms", flush=True)
    return {
        "users": len(users),
        "items": data.n_items,
        "K": model.n_coclusters,
        "per second": len(users) / ours,
        "implicit": len(users) / theirs,
        "ratio": theirs / ours,
        "same": same,
        "seconds for one item": one,
        "seconds for each of many items": many,
    }


def users_for_items(model: OCuLaR) -> tuple[float, float]:
    """Return the seconds per item of `recommend_users`, one item after the other and many in one call."""
    items = np.arange(min(MANY_ITEMS, model.interactions_.n_items))
    model.recommend_users(0, N=N)  # sorts the users once
    one = seconds(lambda: [model.recommend_users(item, N=N) for item in items.tolist()]) / len(items)
    return one, seconds(lambda: model.recommend_users(items, N=N)) / len(items)


def agreement(model: OCuLaR, data: Interactions, users: np.ndarray) -> float:
    """Return the share of places that hold an item as good as the one that float64 scores of all pairs put there."""
    matrix = sp.csr_matrix(data.to_matrix())[users]
    scores = (model.user_factors_[users].astype(np.float64) @ model.item_factors_.T.astype(np.float64)).toarray()
    scores[matrix.nonzero()] = -np.inf
    found, _ = model.recommend(users, matrix, N=N)
    best = -np.sort(-scores, axis=1)[:, :N]
    return float(np.isclose(np.take_along_axis(scores, found.astype(np.int64), axis=1), best, rtol=1e-5).mean())


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments, required=False)
    folder = arguments.parse_args().data
    cases: dict[str, tuple[Interactions, dict[str, Any]]] = {
        "companies": (b2b(80_000, 3_000).interactions, {"n_coclusters": 200, "regularization": 300.0})
    }
    if folder is not None:
        cases["MovieLens-1M"] = movielens_1m(folder), {"n_coclusters": 200, "regularization": 60.0}
        cases["CiteULike-a"] = citeulike_a(folder), {"n_coclusters": 1000, "regularization": 150.0}
    results = {}
    for name, (data, settings) in cases.items():
        print(name)
        model = OCuLaR(**settings, init="overlap", tol=1e-3, random_state=0).fit(data)
        results[name] = compare(model, data, np.arange(data.n_users))
    save("recommend", results)


if __name__ == "__main__":
    main()
