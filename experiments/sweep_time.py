"""
Time of a sweep against the fraction of the data, for K = 10, 50 and 100: the paper's figure on Netflix.

The data are made up in Netflix's shape, 480,189 × 17,770 with activity and popularity by power laws; `--pairs` says how
many positives all of it has (Netflix with ratings of at least 3: about 85 million; the default is what fits into a few
minutes). Fractions are random parts of the pairs. Times are the best of three sweeps after the first two.

python experiments/sweep_time.py [--pairs 20000000] [--quick]
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from common import draw_lines, parse, save

from ocular import OCuLaR
from ocular.data.interactions import Interactions
from ocular.synthetic import skewed

SIZES = (10, 50, 100)
FRACTIONS = (0.2, 0.4, 0.6, 0.8, 1.0)
SHAPE, PAIRS = (480_189, 17_770), 20_000_000


def main() -> None:
    given = parse(__doc__, needs_data=False, pairs=PAIRS)
    interactions = skewed(500, 100, 5000) if given.quick else skewed(*SHAPE, given.pairs)
    rng = np.random.default_rng(0)
    order = rng.random(interactions.nnz)
    warnings.simplefilter("ignore")  # five sweeps do not converge
    seconds: dict[int, list[float]] = {K: [] for K in SIZES}
    for fraction in FRACTIONS:
        part = interactions.where(order < fraction)
        for K in SIZES:
            seconds[K].append(sweep_seconds(part, K))
            print(f"{fraction:.0%} ({part.nnz:,} pairs), K={K}: {seconds[K][-1]:.4f} s per sweep", flush=True)
    for K, times in seconds.items():
        print(f"K={K}: five times the data take {times[-1] / times[0]:.2f} times as long (linear: 5)")
    lines = {f"K = {K}": (FRACTIONS, times) for K, times in seconds.items()}
    figure = draw_lines(
        {"seconds per sweep": lines}, f"{interactions.nnz:,} pairs in Netflix's shape", "fraction of the data"
    )
    save(given, "sweep_time", {"pairs": interactions.nnz, "fractions": FRACTIONS, "seconds": seconds}, figure)


def sweep_seconds(interactions: Interactions, K: int) -> float:
    ends: list[float] = []
    OCuLaR(K, 30.0, max_iter=5, tol=0, init="random", random_state=0).fit(
        interactions, callback=lambda _sweep, _objective: ends.append(time.perf_counter())
    )
    return float(np.diff(ends)[1:].min())


if __name__ == "__main__":
    main()
