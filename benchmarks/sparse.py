"""
What many co-clusters cost on sparse data (CiteULike-a), as ratios within one run: a converged fit against K, an
accurate one against implicit's ALS, and a sweep of the sparse kernel against one of the dense kernel.

python benchmarks/sparse.py --data DIR
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # implicit threads itself; BLAS threads inside make it slower

from copy import deepcopy
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import add_data_option, citeulike_a, parser, save, seconds
from implicit.als import AlternatingLeastSquares

from ocular import Interactions, OCuLaR
from ocular.data.splits import random_split
from ocular.evaluation.metrics import rank
from ocular.solver.config import FitConfig, State
from ocular.solver.cpu import CpuBackend
from ocular.solver.start.initial import initial_state

SIZES = {100: None, 1000: 2.5, 4000: 6.0}  # K, and the ratio to the first that is asked for
ACCURATE: dict[str, Any] = {"n_coclusters": 4000, "regularization": 80.0, "tol": 5e-3}
RUNS = 3


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    given = arguments.parse_args()
    train, test = random_split(citeulike_a(given.data), random_state=0)

    print("a converged fit, λ=150, init='seeds'")
    fits, first = {}, 0.0
    for K, asked in SIZES.items():
        model = OCuLaR(K, 150.0, init="seeds", random_state=0)
        model.fit(train)  # compiles
        fastest = min(seconds(lambda model=model: model.fit(train)) for _ in range(RUNS))
        first = first or fastest
        found = rank(model, train, test)
        fits[K] = {"seconds": fastest, "ratio": fastest / first, "sweeps": model.n_iter_, "recall@50": found.recall}
        told = "" if asked is None else f" (asked for: ≤ {asked:g})"
        print(f"  K={K:<5} {fastest:6.2f} s, {model.n_iter_} sweeps, × {fastest / first:.2f}{told}, "
              f"recall@50 {found.recall:.4f}, MAP@50 {found.map:.4f}", flush=True)  # fmt: skip

    model = OCuLaR(**ACCURATE, random_state=0)
    als = AlternatingLeastSquares(factors=200, iterations=15, random_state=0)
    matrix = sp.csr_matrix(train.to_matrix())
    ours = min(seconds(lambda: model.fit(matrix)) for _ in range(RUNS))
    theirs = min(seconds(lambda: als.fit(matrix, show_progress=False)) for _ in range(RUNS))
    found = rank(model, train, test)
    print(f"{ACCURATE}: recall@50 {found.recall:.4f}, MAP@50 {found.map:.4f} (asked for: ≥ .40, .15)")
    print(f"  {ours:.2f} s; implicit's ALS, K=200, 15 iterations: {theirs:.2f} s, ratio {ours / theirs:.2f}")
    accurate = {"recall@50": found.recall, "map@50": found.map, "seconds": ours, "als": theirs, "ratio": ours / theirs}

    print("a sweep, sparse against dense, by the share of the dense kernel's multiplications that are left")
    sweeps = []
    for K in (400, 1000, 4000):
        for after in (3, 20):
            share, ratio = compare_kernels(train, K, after)
            sweeps.append({"K": K, "after": after, "share": share, "ratio": ratio})
            print(f"  K={K:<5} after {after:>2} sweeps: share {share:.3f}, time × {ratio:.2f}", flush=True)
    save("sparse", {"fits": fits, "accurate": accurate, "sweeps": sweeps})


def compare_kernels(train: Interactions, K: int, after: int) -> tuple[float, float]:
    """The share of the work, and the time of a sparse sweep relative to a dense one."""
    config = FitConfig(K, 150.0, init="seeds", seed=0)
    backend = CpuBackend(train, config)
    backend.start(initial_state(train, config))
    for _ in range(after):
        backend.sweep()
    state, share = backend.state(), backend.share_of_work()
    backend.close()
    sparse, dense = (sweep_seconds(train, config, state, limit) for limit in (np.inf, 0.0))
    return share, sparse / dense


def sweep_seconds(train: Interactions, config: FitConfig, state: State, limit: float) -> float:
    times = []
    for _ in range(RUNS):
        backend = CpuBackend(train, config, sparse=limit)
        backend.start(deepcopy(state))
        backend.sweep()  # changes the format
        times.append(seconds(backend.sweep))
        backend.close()
    return min(times)


if __name__ == "__main__":
    main()
