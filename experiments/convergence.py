"""
Distance to the best objective against time, for variants of the solver: MovieLens-1M, K=100, λ=30.

The best objective is the lowest that any variant reaches in 300 sweeps. The paper's figure compares its CPU and GPU
code this way; here it is the published line search against ours, and the starts.

python experiments/convergence.py --data DIR [--quick]
"""

from __future__ import annotations

import time
import warnings

from common import draw_lines, parse, save

from ocular import OCuLaR
from ocular.data.datasets import movielens
from ocular.synthetic import planted

VARIANTS = {
    "paper's search, random start": {"line_search": "paper", "init": "random"},
    "paper's search, our start": {"line_search": "paper", "init": "overlap"},
    "our search, random start": {"init": "random"},
    "our search, our start": {"init": "overlap"},
}


class Clock:
    """Remembers when each sweep ended, from the start of the fit on."""

    def __init__(self) -> None:
        self.begun, self.times = time.perf_counter(), list[float]()

    def __call__(self, _sweep: int, _objective: float) -> None:
        self.times.append(time.perf_counter() - self.begun)


def main() -> None:
    given = parse(__doc__)
    small = given.quick
    interactions = planted(100, 60, 4).interactions if small else movielens(given.data / "movielens-1m", min_rating=3)
    sweeps = 10 if small else 300
    warnings.simplefilter("ignore")  # tol=0 runs all sweeps
    OCuLaR(4, 1.0, max_iter=2, tol=0, init="overlap", random_state=0).fit(interactions)  # compiles
    curves = {}
    for name, options in VARIANTS.items():
        model = OCuLaR(4 if small else 100, 30.0, max_iter=sweeps, tol=0, random_state=0, **options)
        clock = Clock()
        model.fit(interactions, callback=clock)
        curves[name] = clock.times, list(model.history_)
    best = min(min(objectives) for _, objectives in curves.values())
    for name, (times, objectives) in curves.items():
        near = next((t for t, q in zip(times, objectives, strict=True) if q <= 1.01 * best), None)
        reached = "not within 1 % of the best" if near is None else f"within 1 % of the best after {near:.2f} s"
        print(f"{name:30} {reached}, {times[-1] / len(times):.4f} s per sweep")
    lines = {name: (t, [max(q / best - 1, 1e-6) for q in objectives]) for name, (t, objectives) in curves.items()}
    panels = {"relative distance to the best objective": lines}
    figure = draw_lines(panels, "MovieLens-1M, K=100, λ=30", "seconds", xscale="log", yscale="log")
    rounded = {
        name: {"seconds": [round(t, 4) for t in times], "objective": [round(q) for q in objectives]}
        for name, (times, objectives) in curves.items()
    }
    save(given, "convergence", rounded, figure)


if __name__ == "__main__":
    main()
