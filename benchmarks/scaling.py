"""
Time per sweep against the number of positives and of co-clusters, on random data with skewed popularity.

python benchmarks/scaling.py            1M to 20M positives, K from 50 to 400
python benchmarks/scaling.py --quick    a tenth of it
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise

from common import parser, save

from ocular import Interactions, OCuLaR
from ocular.data.synthetic import skewed

SWEEPS = 4


def seconds_per_sweep(data: Interactions, K: int) -> float:
    """The median of a few sweeps, without the start and the data's second orientation."""
    marks: list[float] = []
    data.by_item  # noqa: B018  built once, outside of the clock
    model = OCuLaR(K, 30.0, max_iter=SWEEPS + 1, tol=0, random_state=0)
    model.fit(data, callback=lambda *_: marks.append(time.perf_counter()))
    return statistics.median(after - before for before, after in pairwise(marks))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true")
    given = arguments.parse_args()
    million = 100_000 if given.quick else 1_000_000
    K = 50
    seconds_per_sweep(skewed(1000, 500, 10_000), K)  # compiles

    print(f"positives    seconds/sweep   ns/(positive·K)   K={K}")
    by_size = {}
    for n in (1, 2, 5, 10, 20):
        # as many users and items per positive throughout, so that only the size changes
        data = skewed(24_000 * n * million // 1_000_000, 900 * n * million // 1_000_000, n * million)
        by_size[data.nnz] = seconds_per_sweep(data, K)
        print(
            f"{data.nnz:>11,}  {by_size[data.nnz]:>13.3f}   {by_size[data.nnz] / data.nnz / K * 1e9:>15.2f}", flush=True
        )
    costs = [time_ / size for size, time_ in by_size.items()]
    growth = costs[-1] / costs[0]
    print(f"cost per positive grows by {growth:.2f} from the smallest to the largest (asked for: < 1.3)")

    data = skewed(48_000, 1_800, 2 * million)
    by_K = {k: seconds_per_sweep(data, k) for k in (50, 100, 200, 400)}
    print("K     seconds/sweep")
    for k, time_ in by_K.items():
        print(f"{k:>4}  {time_:>13.3f}")
    linear = by_K[400] / by_K[50] / 8
    print(f"K × 8 takes {by_K[400] / by_K[50]:.2f} times as long: {linear:.2f} of linear (asked for: ≤ 1)")
    save("scaling", {"K": K, "seconds_by_positives": by_size, "growth": growth, "seconds_by_K": by_K, "linear": linear})


if __name__ == "__main__":
    main()
