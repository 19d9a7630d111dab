"""
Does an early stop help? Recall@50, MAP@50 and CPU time for several `tol`, at sizes that are read and at accurate ones.

python benchmarks/tolerance.py --data DIR

Random split, a quarter of the pairs held out, one thread, mean over seeds.
"""

from __future__ import annotations

import time
import warnings
from statistics import mean

from common import add_data_option, citeulike_a, movielens_1m, parser, save
from sklearn.exceptions import ConvergenceWarning

from ocular import OCuLaR
from ocular.data.datasets import online_retail
from ocular.data.splits import random_split
from ocular.evaluation.metrics import rank

SETTINGS = ((100, 30.0), (800, 60.0), (4000, 80.0))
TOLERANCES = (1e-4, 5e-4, 2e-3, 5e-3)
DEFAULT_SETS = "Online Retail,CiteULike-a"
SETS = {
    "Online Retail": lambda data: online_retail(data / "online-retail"),
    "CiteULike-a": citeulike_a,
    "MovieLens-1M": movielens_1m,
}


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    arguments = parser(__doc__)
    add_data_option(arguments)
    arguments.add_argument("--sets", default=DEFAULT_SETS, help=f"of {', '.join(SETS)}, separated by commas")
    arguments.add_argument("--coclusters", help="only these K, separated by commas")
    arguments.add_argument("--seeds", type=int, default=2)
    given = arguments.parse_args()
    chosen = given.coclusters and {int(K) for K in given.coclusters.split(",")}
    settings = [setting for setting in SETTINGS if not chosen or setting[0] in chosen]
    results = {}
    for name in given.sets.split(","):
        train, test = random_split(SETS[name](given.data), random_state=0)
        print(f"{name}, mean of {given.seeds} seeds")
        for K, regularization in settings:
            for tol in TOLERANCES:
                found = []
                for seed in range(given.seeds):
                    begun = time.process_time()
                    model = OCuLaR(K, regularization, tol=tol, n_threads=1, random_state=seed).fit(train)
                    found.append((time.process_time() - begun, model.n_iter_, *rank(model, train, test)[:2]))
                seconds, sweeps, recall, precision = (mean(column) for column in zip(*found, strict=True))
                results[f"{name} K={K} tol={tol:g}"] = [seconds, sweeps, recall, precision]
                print(
                    f"  K={K:<5} λ={regularization:<4g} tol={tol:<7g}{sweeps:>5.0f} sweeps {seconds:>7.1f} s  "
                    f"recall@50 {recall:.4f}  MAP@50 {precision:.4f}",
                    flush=True,
                )
    if given.sets == DEFAULT_SETS and not chosen:
        save("tolerance", results)


if __name__ == "__main__":
    main()
