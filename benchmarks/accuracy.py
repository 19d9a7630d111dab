"""
Accuracy on public data with the paper's metrics: recall@50 and MAP@50, 75/25 splits over pairs.

python benchmarks/accuracy.py --data DIR
"""

from __future__ import annotations

import numpy as np
from common import add_data_option, citeulike_a, movielens_1m, parser, save

from ocular import Interactions, OCuLaR
from ocular.data.splits import random_split
from ocular.evaluation.metrics import rank

# name, data, parameters, and the least recall@50 and MAP@50 that are asked for
CASES = (
    ("OCuLaR, MovieLens-1M", "movielens", {"n_coclusters": 200, "regularization": 60}, (0.420, 0.208)),
    ("R-OCuLaR, MovieLens-1M", "movielens", {"n_coclusters": 200, "regularization": 120, "relative": True}, None),
    ("OCuLaR with biases, MovieLens-1M", "movielens", {"n_coclusters": 200, "regularization": 60, "bias": True}, None),
    ("OCuLaR, CiteULike-a", "citeulike", {"n_coclusters": 400, "regularization": 300}, (0.33, 0.095)),
)


def measure(interactions: Interactions, parameters: dict[str, object], splits: int) -> dict[str, object]:
    results, sweeps = [], []
    for seed in range(splits):
        train, test = random_split(interactions, random_state=seed)
        model = OCuLaR(**parameters, tol=1e-5, max_iter=60, random_state=seed)
        model.fit(train)
        results.append(rank(model, train, test, M=50)[:2])
        sweeps.append(model.n_iter_)
    mean, error = np.mean(results, axis=0), np.std(results, axis=0, ddof=1) / np.sqrt(splits)
    return {
        "recall@50": round(float(mean[0]), 4),
        "map@50": round(float(mean[1]), 4),
        "standard_errors": [round(float(e), 4) for e in error],
        "sweeps": sweeps,
    }


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    arguments.add_argument("--splits", type=int, default=3)
    given = arguments.parse_args()
    data = {"movielens": movielens_1m(given.data), "citeulike": citeulike_a(given.data)}
    table = {}
    print(f"{'':34}recall@50  MAP@50   asked for        K     λ")
    for name, source, parameters, least in CASES:
        result = measure(data[source], parameters, given.splits)
        table[name] = parameters | result
        asked = "" if least is None else f"≥ {least[0]:.3f}, {least[1]:.3f}"
        print(
            f"{name:34}{result['recall@50']:.4f}     {result['map@50']:.4f}   {asked:15}"
            f"{parameters['n_coclusters']:>4}  {parameters['regularization']:>4}",
            flush=True,
        )
    save("accuracy", {"splits": given.splits, "cases": table})


if __name__ == "__main__":
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # 60 sweeps are enough here, as the numbers show
    main()
