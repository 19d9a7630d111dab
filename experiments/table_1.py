"""
Table I of the paper: recall@50 and MAP@50 of all methods, mean of ten random 75/25 instances.

Every method is tuned by recall@50 on a tenth of the first instance's training data (the paper tuned on the test data;
`--tune test` does that). What is finished is kept in results/table_1.json, and the next run goes on from
there.

python experiments/table_1.py --data DIR [--only MovieLens-1M] [--tune validation|test] [--instances 10] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ocular.data.datasets import citeulike, movielens, online_retail
from ocular.data.interactions import Interactions
from ocular.evaluation.protocol import SETTINGS, Method, compare
from ocular.storage import write_file
from ocular.synthetic import b2b

RESULTS = Path(__file__).parent / "results"
M = 50
EVIDENCE, EASE_BY_MAP = "evidence", "ease by MAP"
MODELS = (EVIDENCE, "ocular", "r-ocular", "wals", "ease", EASE_BY_MAP, "slim", "rp3beta", "bpr", "user-knn", "item-knn",
          "popularity")  # fmt: skip
PAPER = {  # recall@50, MAP@50
    "MovieLens-1M": {"ocular": (0.4021, 0.1809), "r-ocular": (0.4086, 0.1805), "wals": (0.3982, 0.1513),
                     "bpr": (0.3587, 0.1434), "user-knn": (0.3757, 0.1639), "item-knn": (0.3238, 0.1329)},
    "CiteULike-a": {"ocular": (0.3042, 0.0906), "r-ocular": (0.3177, 0.0916), "wals": (0.3331, 0.1003),
                    "bpr": (0.0801, 0.0157), "user-knn": (0.2699, 0.0882), "item-knn": (0.2921, 0.1287)},
    "B2B": {"ocular": (0.5240, 0.1801), "r-ocular": (0.4780, 0.1651), "wals": (0.5283, 0.1749),
            "bpr": (0.4407, 0.1325), "user-knn": (0.4995, 0.1797), "item-knn": (0.4840, 0.1568)},
}  # fmt: skip
# K, λ and tol of OCuLaR, then of R-OCuLaR
GRIDS = {
    "MovieLens-1M": (((200, 400, 800, 1600), (50.0, 60.0, 75.0), (1e-4, 2e-3)),
                     ((200, 400, 800), (90.0, 120.0, 180.0), (1e-4, 2e-3))),
    "CiteULike-a": (((1000, 4000, 8000), (80.0, 100.0, 150.0), (1e-4, 1e-3, 5e-3)),
                    ((1000, 4000), (100.0, 150.0, 300.0), (1e-3, 5e-3))),
    "Online Retail": (((400, 800, 1600), (30.0, 45.0, 60.0, 80.0), (1e-4, 1e-3)),
                      ((400, 800, 1600), (60.0, 120.0, 200.0), (1e-4, 1e-3))),
    "B2B": (((200, 400, 800), (200.0, 300.0, 400.0, 600.0), (1e-3, 5e-3)),
            ((200, 400), (400.0, 800.0, 1600.0), (1e-3, 5e-3))),
}  # fmt: skip


# patterns that evidence is added to: K, λ, tol
PATTERNS = {
    "MovieLens-1M": ((100, 30.0, 1e-3), (400, 60.0, 2e-3)),
    "CiteULike-a": ((100, 30.0, 1e-3), (1000, 80.0, 5e-3), (4000, 80.0, 5e-3)),
    "Online Retail": ((100, 30.0, 1e-3), (800, 60.0, 1e-3)),
    "B2B": ((200, 300.0, 1e-3), (400, 400.0, 5e-3)),
}


def datasets(data: Path | None, quick: bool) -> dict[str, Callable[[], Interactions]]:
    if quick:
        return {"B2B": lambda: b2b(300, 60, random_state=0).interactions}
    made_up = {"B2B": lambda: b2b(80_000, 3000, random_state=0).interactions}
    if data is None:
        return made_up
    return {
        "MovieLens-1M": lambda: movielens(data / "movielens-1m", min_rating=3),
        "CiteULike-a": lambda: citeulike(data / "citeulike-a"),
        "Online Retail": lambda: online_retail(data / "online-retail"),
        **made_up,
    }


def methods(name: str, quick: bool) -> dict[str, Method]:
    """Return every method by the title of its row, with the settings it may choose from."""
    if quick:
        few = {"n_coclusters": 6, "regularization": 5.0}
        return {
            EVIDENCE: Method(EVIDENCE, [few]),
            "ocular": Method("ocular", [few]),
            "user-knn": Method("user-knn"),
            "popularity": Method("popularity"),
        }
    own, relative = (
        [{"n_coclusters": K, "regularization": strength, "tol": tol} for K, strength, tol in product(*grid)]
        for grid in GRIDS[name]
    )
    large = [{"factors": 400, "alpha": 10.0, "regularization": strength} for strength in (30.0, 100.0)]
    patterns = [{"n_coclusters": K, "regularization": strength, "tol": tol} for K, strength, tol in PATTERNS[name]]
    settings = SETTINGS | {
        EVIDENCE: patterns, "ocular": own, "r-ocular": relative, "wals": [*SETTINGS["wals"], *large],
    }  # fmt: skip
    rows = {title: title.partition(" ")[0] for title in MODELS}
    return {title: Method(model, settings.get(model, [{}])) for title, model in rows.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = os.environ.get("OCULAR_DATA")
    arguments.add_argument("--data", type=Path, default=None if folder is None else Path(folder))
    arguments.add_argument("--only", help="one data set")
    arguments.add_argument("--models", help="some of the models, separated by commas")
    arguments.add_argument("--tune", choices=("validation", "test"), default="validation")
    arguments.add_argument("--instances", type=int, default=10)
    arguments.add_argument("--output", type=Path, default=RESULTS / "table_1.json")
    arguments.add_argument(
        "--quick", action="store_true", help="a small made-up set and three methods; nothing is written"
    )
    given = arguments.parse_args()
    selected = MODELS if given.models is None else given.models.split(",")
    instances = 2 if given.quick else given.instances
    done: dict[str, Any] = {}
    if given.output.exists() and not given.quick:
        done = json.loads(given.output.read_text())
    for name, load in datasets(given.data, given.quick).items():
        if given.only not in (None, name):
            continue
        interactions = None
        for title, method in methods(name, given.quick).items():
            key = f"{name} | {title} | {given.tune} | {instances}"
            if key in done or title not in selected:
                continue
            interactions = load() if interactions is None else interactions
            metric = "map" if title == EASE_BY_MAP else "recall"
            protocol = {"instances": instances, "tune": given.tune, "metric": metric, "M": M}
            comparison = compare(interactions, [method], **protocol, report=report)
            done[key] = summary(comparison.to_dict()["instances"][method.name], comparison.rows()[0])
            if not given.quick:
                write_file(given.output, lambda file: file.write((json.dumps(done, indent=2) + "\n").encode()))
        show(name, done, given.tune, instances)


def report(line: str) -> None:
    print(line, flush=True)


def summary(instances: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    values = {metric: [instance[f"{metric}@{M}"] for instance in instances] for metric in ("recall", "map")}
    return {"parameters": row["parameters"], "fit_seconds": row["fit_seconds"], **values}


def show(name: str, done: dict[str, Any], tune: str, instances: int) -> None:
    """Print the table of one data set: ours with its standard error, and the paper's."""
    print(f"\n{name}: mean of {instances} instances ± standard error, parameters chosen on {tune} data")
    print(f"{'':12}{'recall@50':>18}{'paper':>8}{'MAP@50':>18}{'paper':>8}  parameters")
    for model in MODELS:
        found = done.get(f"{name} | {model} | {tune} | {instances}")
        if found is None:
            continue
        paper = PAPER.get(name, {}).get(model)
        cells = []
        for at, metric in enumerate(("recall", "map")):
            values = np.array(found[metric])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            cells.append(f"{values.mean():>10.4f} ± {error:.4f}" + (f"{paper[at]:>9.4f}" if paper else f"{'':>9}"))
        print(f"{model:12}{''.join(cells)}  {found['parameters']}", flush=True)


if __name__ == "__main__":
    main()
