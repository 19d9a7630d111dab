"""
The introductory example of the OCuLaR paper: 12 clients, 12 items, three overlapping co-clusters.

The paper shows the matrix as a picture only. This one has all that the text says: Item 4 is in all three co-clusters,
Client 6 in two of them, three purchases inside the co-clusters are withheld, and Item 4 is recommended to Client 6 with
confidence 0.83 because of Items 1-3 with Clients 4-5 and of Items 5-9 with Clients 7-9. How many of the three
modularity and BIGCLAM find depends on what the text leaves open: none to two; the paper says one.

python experiments/intro_example.py [--output DIR | --quick]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular import OCuLaR
from ocular.baselines.communities import bigclam, modularity
from ocular.plots import plot_evidence, plot_matrix, plot_probabilities, save_figure

SIZE = 12
COCLUSTERS = (
    ((0, 1, 2, 3, 4, 10, 11), (0, 4, 10, 11)),  # Client 4 and Item 4 are where it meets the second
    (range(4, 7), range(1, 5)),
    (range(6, 10), range(4, 10)),
)
WITHHELD = ((4, 11), (5, 2), (6, 4))  # one in each co-cluster; the last one is in two
REGULARIZATION = 0.1
CLIENT, ITEM = 6, 4

Pairs = Iterable[tuple[int, int]]


def matrix() -> NDArray[np.int64]:
    """Clients × items: 1 inside the co-clusters, 0 elsewhere and where withheld."""
    bought = np.zeros((SIZE, SIZE), dtype=np.int64)
    for clients, items in COCLUSTERS:
        bought[np.ix_(clients, items)] = 1
    bought[tuple(zip(*WITHHELD, strict=True))] = 0
    return bought


def fit(seed: int = 0) -> OCuLaR:
    return OCuLaR(3, REGULARIZATION, max_iter=500, tol=1e-6, n_threads=1, random_state=seed).fit(matrix())


def probabilities(model: OCuLaR) -> NDArray[np.float64]:
    return model.predict_proba(np.arange(SIZE)[:, None], np.arange(SIZE))


def recommended(model: OCuLaR, n: int = len(WITHHELD)) -> list[tuple[int, int]]:
    """The n most probable pairs that were not bought, best first."""
    unknown = np.where(matrix() == 1, -1.0, probabilities(model))
    best = np.argsort(-unknown, axis=None)[:n]
    return [(int(u), int(i)) for u, i in zip(*np.unravel_index(best, unknown.shape), strict=True)]


def inside(rows: NDArray[np.bool_], columns: NDArray[np.bool_], pairs: Pairs = WITHHELD) -> list[tuple[int, int]]:
    """The pairs of which one community holds both the client and the item."""
    return [(u, i) for u, i in pairs if (rows[:, u] & columns[:, i]).any()]


def found(model: OCuLaR, seed: int = 0) -> dict[str, list[tuple[int, int]]]:
    """The withheld pairs that each method finds. OCuLaR must also rank them before all other unknown pairs."""
    data = model.interactions_
    best = set(recommended(model))
    return {
        "OCuLaR": [pair for pair in inside(model.rows_, model.columns_) if pair in best],
        "modularity": inside(*modularity(data)),
        "BIGCLAM": inside(*bigclam(data, 3, random_state=seed)),
    }


def drawing(model: OCuLaR) -> str:
    """The matrix as text: # bought, o recommended, · unknown."""
    marks = np.where(matrix() == 1, "#", "·")
    marks[tuple(zip(*recommended(model), strict=True))] = "o"
    lines = [f"{u:>2}  " + "  ".join(row) for u, row in enumerate(marks)]
    return "\n".join(["   " + " ".join(f"{i:>2}" for i in range(SIZE)), *lines])


def pictures(model: OCuLaR, folder: Path) -> None:
    """The matrix in the order of its co-clusters with the recommended squares, and the probabilities of all pairs."""
    recommendations = recommended(model)
    for theme in ("light", "dark"):
        save_figure(folder / f"intro_matrix_{theme}.png", plot_matrix(model, theme=theme, recommended=recommendations))
    save_figure(folder / "intro_probabilities.png", plot_probabilities(model))
    save_figure(folder / "intro_evidence.png", plot_evidence(model, CLIENT, ITEM))


def results(model: OCuLaR) -> dict[str, Any]:
    explanation = model.explain(CLIENT, ITEM)
    return {
        "regularization": REGULARIZATION,
        "confidence": explanation.confidence,
        "contributions": [reason.contribution for reason in explanation.reasons],
        "recommended": recommended(model),
        "found": found(model),
        "probabilities": probabilities(model).round(4).tolist(),
        "rationale": explanation.text(),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    arguments.add_argument("--quick", action="store_true", help="write nothing")
    given = arguments.parse_args()
    model = fit()
    outcome = results(model)
    print("clients × items: # bought, o recommended, · unknown")
    print(drawing(model))
    print("\nprobabilities")
    print("\n".join(" ".join(f"{p:.2f}" for p in row) for row in probabilities(model)))
    print(f"\n{outcome['rationale']}\n")
    print("method      withheld recommendations found")
    for method, pairs in outcome["found"].items():
        print(f"{method:10}  {len(pairs)} of {len(WITHHELD)}")
    if not given.quick:
        given.output.mkdir(parents=True, exist_ok=True)
        (given.output / "intro_example.json").write_text(json.dumps(outcome, indent=2) + "\n")
        pictures(model, given.output)


if __name__ == "__main__":
    main()
