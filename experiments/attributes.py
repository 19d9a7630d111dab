"""
Attributes as in the paper, as evidence (taste and appeal), and both: known and new products, all else alike.

python experiments/attributes.py --data DIR [--instances 3]

Known products: a random quarter of the purchases is held out. Weights, with those of taste and appeal among them, are
chosen on a tenth of the rest (links="auto"). New products: a tenth of the products is hidden but for their attributes
and ranked among themselves, as in cold_start.py: by memberships that the paper's term gives them, by what they borrow
from taste and links, or by the sum of both, each scaled to mean 1. The strength of the paper's term is the best of two
for recall on a tenth of the training part. Nothing is chosen on the test part. K = 100, λ = 30.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from cold_start import MODEL, QUICK, cold_scores, hide, keep, split, value
from common import draw_lines, parse, save
from matplotlib.figure import Figure

from ocular import Interactions, OCuLaR
from ocular.data.datasets import citeulike, movielens, online_retail
from ocular.data.splits import random_split
from ocular.errors import ConfigError, DataError
from ocular.evaluation.metrics import measure
from ocular.synthetic import b2b

M = 50
STRENGTHS = (1.0, 10.0)
FIXED: dict[str, Any] = {"tol": 1e-3, "random_state": 0}
AUTO: dict[str, Any] = {"links": "auto", "validation": "random"}
NONE = {"taste": 0.0, "appeal": 0.0}
ROWS = {  # what a row has: the paper's term, taste and appeal
    "without attributes": (False, False),
    "paper's term": (True, False),
    "taste and appeal": (False, True),
    "both": (True, True),
}


def main() -> None:
    given = parse(__doc__, instances=3)
    logging.getLogger("ocular").setLevel(logging.ERROR)  # no note on every value that no known product has
    sets: dict[str, Callable[[], Interactions]] = {"B2B": lambda: b2b(300, 80, random_state=0).interactions}
    model = QUICK
    if not given.quick:
        model = MODEL
        sets = {
            "MovieLens-1M": lambda: movielens(given.data / "movielens-1m", min_rating=3),
            "CiteULike-a": lambda: citeulike(given.data / "citeulike-a"),
            "B2B": lambda: b2b(4000, 1500, random_state=0).interactions,
            "Online Retail": lambda: online_retail(
                given.data / "online-retail"
            ),  # last: its products have no attributes
        }
    results: dict[str, Any] = {}
    for name, load in sets.items():
        data = load()
        print(f"{name}: recall@{M} / MAP@{M}, mean of {given.instances} instances", flush=True)
        size = {each: model[each] for each in ("n_coclusters", "regularization")}
        strength = choose_strength(data, size)
        print(f"  strength of the paper's term: {strength or 'cannot be fitted to these attributes'}", flush=True)
        results[name] = {"strength": strength}
        for title, (has_term, has_evidence) in ROWS.items():
            if has_term and strength is None:
                continue
            term = {"attribute_strength": strength} if has_term else {}
            row = {"known": known_products(data, given.instances, size | term | ({} if has_evidence else NONE))}
            if data.item_attributes and (has_term or has_evidence):
                row["new"] = new_products(data, given.instances, model | term, has_evidence=has_evidence)
            results[name][title] = row
            print(f"  {title:20}" + "   ".join(f"{each} {r:.4f} / {p:.4f}" for each, (r, p) in row.items()), flush=True)
    save(given, "attributes", results, draw(results))


def draw(results: dict[str, Any]) -> Figure:
    """Draw recall of known and of new products."""
    rows_of = {name: {title: row for title, row in found.items() if title in ROWS} for name, found in results.items()}
    panels = {
        f"{each} products, recall@{M}": {
            name: (
                [list(ROWS).index(t) for t in rows if each in rows[t]],
                [r[each][0] for r in rows.values() if each in r],
            )
            for name, rows in rows_of.items()
            if any(each in row for row in rows.values())
        }
        for each in ("known", "new")
    }
    ticks = {"xticks": range(len(ROWS)), "xticklabels": list(ROWS)}
    return draw_lines(panels, "What attributes add", "", **ticks)


def choose_strength(data: Interactions, size: dict[str, Any]) -> float | None:
    """Return the strength of the paper's term that finds most held-out purchases; None where it cannot be fitted."""
    train, held_out = random_split(random_split(data, random_state=0).train, 0.1, random_state=0)
    recalls = {}
    for strength in STRENGTHS:
        try:
            model = OCuLaR(**size, **FIXED, attribute_strength=strength).fit(train)
        except (ConfigError, DataError) as error:
            print(f"  {error}", flush=True)
            return None
        recalls[strength] = measure(model, train, held_out, M).mean("recall", M)
    return max(recalls, key=recalls.__getitem__)


def known_products(data: Interactions, instances: int, parameters: dict[str, Any]) -> list[float]:
    """Return mean recall and MAP of all that is held out."""
    values = []
    for seed in range(instances):
        train, test = random_split(data, random_state=seed)
        scores = measure(OCuLaR(**parameters, **AUTO, **FIXED).fit(train), train, test, M)
        values.append([scores.mean("recall", M), scores.mean("map", M)])
    return np.mean(values, axis=0).tolist()


def new_products(data: Interactions, instances: int, parameters: dict[str, Any], *, has_evidence: bool) -> list[float]:
    """Return mean recall and MAP of products that the fit has not seen, ranked among themselves."""
    values = []
    for seed in range(instances):
        known, chosen = hide(data, "product", seed)
        model = OCuLaR(**parameters, **FIXED).fit(keep(data, "product", known))
        hidden = split(data, "product", known, chosen, 0, seed)
        scores = [cold_scores(model, hidden, "product")] if has_evidence else []
        if model.attribute_strength:
            scores.append(scores_by_memberships(model, hidden.attributes))
        values.append(value(sum(table / table.mean() for table in scores), hidden))
    return np.mean(values, axis=0).tolist()


def scores_by_memberships(model: OCuLaR, attributes: dict[str, Any]) -> np.ndarray:
    """Return the scores of new products by the memberships that the paper's term gives them."""
    used = {attribute for attribute, _ in model.attribute_labels()}
    cells = {attribute: column for attribute, column in attributes.items() if attribute in used}
    n = len(next(iter(attributes.values())))
    rows = [{attribute: column[row] for attribute, column in cells.items()} for row in range(n)]
    return model.user_factors_ @ np.array([model.memberships_from_attributes(row) for row in rows]).T


if __name__ == "__main__":
    main()
