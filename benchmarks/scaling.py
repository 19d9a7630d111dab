"""
Time per sweep against the number of positives and of co-clusters, on random data with skewed popularity.

python benchmarks/scaling.py            1M to 20M positives, K from 50 to 400
python benchmarks/scaling.py --quick    a tenth of it
"""

from __future__ import annotations

import time
from itertools import pairwise

from common import parser, save

from ocular import Interactions, OCuLaR
from ocular.synthetic import skewed

K, SWEEPS = 50, 6
SIZES = (1, 2, 5, 10, 20)


def seconds_per_sweep(data: Interactions, K: int) -> float:
    """The fastest of a few sweeps: what the work costs, without the start and without what else the machine does."""
    marks: list[float] = []
    data.by_item  # noqa: B018  built once, outside of the clock
    model = OCuLaR(K, 30.0, max_iter=SWEEPS + 1, tol=0, random_state=0)
    model.fit(data, callback=lambda *_: marks.append(time.perf_counter()))
    return min(after - before for before, after in pairwise(marks))


def by_positives(title: str, shapes: list[tuple[int, int, int]]) -> dict[int, float]:
    print(f"{title}, K={K}\n  positives  users × items       seconds/sweep  ns/(positive·K)")
    times = {}
    for n_users, n_items, n_pairs in shapes:
        times[n_pairs] = seconds_per_sweep(skewed(n_users, n_items, n_pairs), K)
        cost = times[n_pairs] / n_pairs / K * 1e9
        print(f"{n_pairs:>11,}  {n_users:>7,} × {n_items:<7,}  {times[n_pairs]:>13.3f}  {cost:>15.2f}", flush=True)
    return times


def growth(times: dict[int, float]) -> float:
    """Cost per positive of the largest, relative to the smallest."""
    costs = [seconds / n_pairs for n_pairs, seconds in times.items()]
    return costs[-1] / costs[0]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true")
    quick = arguments.parse_args().quick
    unit = 100_000 if quick else 1_000_000
    clients, products = unit // 10, unit // 200
    seconds_per_sweep(skewed(1000, 500, 10_000), K)  # compiles

    fixed = by_positives("the same users and items buy more", [(clients, products, n * unit) for n in SIZES])
    print(f"cost per positive grows by {growth(fixed):.2f} (asked for: < 1.3)")
    grown = by_positives(
        "users and items grow too", [(24 * n * unit // 1000, 9 * n * unit // 10_000, n * unit) for n in SIZES]
    )
    print(f"cost per positive grows by {growth(grown):.2f}; the users' factors outgrow the caches")

    data = skewed(48 * unit // 1000, 18 * unit // 10_000, 2 * unit)
    by_K = {k: seconds_per_sweep(data, k) for k in (50, 100, 200, 400)}
    for k, seconds in by_K.items():
        print(f"K={k:<4} {seconds:.3f} seconds/sweep")
    linear = by_K[400] / by_K[50] / 8
    print(f"K × 8 takes {by_K[400] / by_K[50]:.2f} times as long: {linear:.2f} of linear (asked for: ≤ 1)")
    results = {"fixed": fixed, "grown": grown, "growth": [growth(fixed), growth(grown)], "by_K": by_K, "linear": linear}
    if not quick:
        save("scaling", {"K": K} | results)


if __name__ == "__main__":
    main()
