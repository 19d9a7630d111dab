"""
recall@M and MAP@M against M on MovieLens-1M, all methods of the paper: its figure of the same name.

One 75/25 instance; the parameters are those that table_1.py chose on validation data.

python experiments/recall_at_m.py --data DIR [--quick]
"""

from __future__ import annotations

import json

from common import RESULTS, draw_lines, parse, save

from ocular.data.datasets import movielens
from ocular.data.splits import random_split
from ocular.evaluation.metrics import measure
from ocular.evaluation.protocol import Method
from ocular.synthetic import b2b

MODELS = ("ocular", "r-ocular", "wals", "bpr", "user-knn", "item-knn", "ease")
CUTOFFS = (5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
TABLE = "MovieLens-1M | {} | validation | 10"


def main() -> None:
    given = parse(__doc__)
    if given.quick:
        interactions = b2b(200, 60, random_state=0).interactions
        models = {"ocular": {"n_coclusters": 4, "regularization": 4.0}, "user-knn": {}}
    else:
        interactions = movielens(given.data / "movielens-1m", min_rating=3)
        chosen = json.loads((RESULTS / "table_1.json").read_text())
        models = {name: chosen[TABLE.format(name)]["parameters"] for name in MODELS}
    train, test = random_split(interactions, 0.25, random_state=0)
    results = {}
    for name, parameters in models.items():
        scores = measure(Method(name).make(parameters, 0).fit(train), train, test, CUTOFFS)
        results[name] = {metric: [scores.mean(metric, M) for M in CUTOFFS] for metric in ("recall", "map")}
        values = "  ".join(f"{value:.3f}" for value in results[name]["recall"])
        print(f"{name:10} recall@M  {values}", flush=True)
    panels = {
        label: {name: (CUTOFFS, found[metric]) for name, found in results.items()}
        for label, metric in (("recall@M", "recall"), ("MAP@M", "map"))
    }
    figure = draw_lines(panels, "MovieLens-1M, 75/25", "M")
    save(given, "recall_at_m", {"M": CUTOFFS, "models": results}, figure)


if __name__ == "__main__":
    main()
