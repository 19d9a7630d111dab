"""
The fine grid over K and λ on a made-up business of the paper's size (80,000 clients × 3,000 products): 25 × 25 points.

One split, recall@50, fits that stop early (tol=1e-3). Every finished point is kept in results/fine_grid.jsonl: a killed
run goes on from it. The paper reports more than two days for its 625 points on one CPU, and 8 minutes on 8 GPUs.

python experiments/fine_grid.py [--jobs 2] [--points N] [--quick]
"""

from __future__ import annotations

import time

import numpy as np
from common import parse, save

from ocular.evaluation.search import Grid, search
from ocular.plots import plot_search
from ocular.synthetic import b2b


def main() -> None:
    given = parse(__doc__, needs_data=False, jobs=2, points=None)
    if given.quick:
        interactions, grid, jobs = b2b(200, 50, random_state=0).interactions, Grid([2, 4], [1.0, 10.0]), 1
    else:
        interactions, jobs = b2b(80_000, 3000, random_state=0).interactions, given.jobs
        sizes = np.geomspace(10, 400, 25).round().astype(int).tolist()
        grid = Grid(sizes, np.geomspace(10, 2000, 25).round(1).tolist(), tol=[1e-3])
    begun = time.perf_counter()
    result = search(
        interactions, grid, folds=1, strategy="grid" if given.points is None else "random", n_points=given.points,
        n_jobs=jobs, results=None if given.quick else given.output / "fine_grid.jsonl", progress=True,
    )  # fmt: skip
    work = sum(row.seconds for row in result.rows)
    minutes = (time.perf_counter() - begun) / 60
    print(
        f"{len(result.rows)} points: {work / 60:.1f} minutes of work; this run of {jobs} processes took {minutes:.1f}"
    )
    best, simple = result.best, result.interpretable
    print(f"best: K={best.point.n_coclusters}, λ={best.point.regularization:g}: recall@50 {best.mean:.4f}")
    print(f"interpretable: K={simple.point.n_coclusters}, λ={simple.point.regularization:g}: {simple.mean:.4f}")
    times = {"minutes": minutes, "minutes_of_work": work / 60, "processes": jobs}
    save(given, "fine_grid", result.to_dict() | times, plot_search(result))


if __name__ == "__main__":
    main()
