"""
Which start a fit should have: objective and recall@50 after a number of sweeps, for each `init`.

python benchmarks/start.py --data DIR
"""

from __future__ import annotations

from common import add_data_option, citeulike_a, movielens_1m, parser, save
from sklearn.metrics import consensus_score

from ocular import OCuLaR
from ocular.data.splits import random_split
from ocular.evaluation.metrics import rank
from ocular.synthetic import planted

SWEEPS = (5, 10, 20, 40)
SEEDS = 3


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    given = arguments.parse_args()
    results = {}
    for name, history, K, regularization in (
        ("MovieLens-1M", movielens_1m(given.data), 200, 60.0),
        ("CiteULike-a", citeulike_a(given.data), 1000, 150.0),
    ):
        train, test = random_split(history, random_state=0)
        print(f"{name}, K={K}, λ={regularization:g}, mean of {SEEDS} seeds: objective, recall@50, MAP@50")
        for init in ("random", "overlap", "seeds"):
            for sweeps in SWEEPS:
                fits = [
                    OCuLaR(K, regularization, init=init, max_iter=sweeps, tol=0, random_state=seed).fit(train)
                    for seed in range(SEEDS)
                ]
                objective = sum(fit.objective_ for fit in fits) / SEEDS
                ranks = [rank(fit, train, test) for fit in fits]
                recall, precision = (sum(r[part] for r in ranks) / SEEDS for part in (0, 1))
                results[f"{name} {init} {sweeps}"] = [objective, recall, precision]
                print(f"  {init:8} {sweeps:>3} sweeps  {objective:>12,.0f}  {recall:.4f}  {precision:.4f}", flush=True)

    print(
        "planted co-clusters, 300 users × 200 items, K=8, mean of 10 seeds: objective, consensus score with the truth"
    )
    truth = planted(300, 200, 8, random_state=1)
    for init in ("random", "overlap", "seeds", "auto"):
        fits = [
            OCuLaR(8, 1.0, init=init, tol=1e-5, max_iter=500, random_state=s).fit(truth.interactions) for s in range(10)
        ]
        objective = sum(fit.objective_ for fit in fits) / len(fits)
        score = sum(consensus_score(fit.biclusters_, (truth.rows, truth.columns)) for fit in fits) / len(fits)
        results[f"planted {init}"] = [objective, score]
        print(f"  {init:8} {objective:>12,.0f}  {score:.3f}", flush=True)
    save("start", results)


if __name__ == "__main__":
    main()
