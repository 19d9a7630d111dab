"""
Attributes in the likelihood, as in the paper: what they cost, and what they are good for.

python experiments/attribute_likelihood.py --data DIR [--quick]

Cost: CPU time of a sweep with attributes less that of one without, on made-up purchases, against the number of values J
and the number of items N; the paper's count is J · K · N.

Accuracy: recall@50 and MAP@50 of patterns alone on one 75/25 split, for several strengths; with all training purchases,
and with a tenth of them. λ is the best of a few for strength 0, on the same split, and kept for the others: what
attributes gain is not what another λ would gain.

New products: a tenth of the products is hidden from the fit but for their attributes; they are ranked among themselves
for every client who bought some. Without attributes their order is random.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import draw_lines, parse, save
from matplotlib.figure import Figure

from ocular import OCuLaR
from ocular.data.datasets import movielens
from ocular.data.interactions import Interactions
from ocular.data.splits import Split, random_split
from ocular.evaluation.metrics import measure
from ocular.solver.attributes import Attributes, Categories, SideAttributes, Tags
from ocular.solver.config import FitConfig
from ocular.solver.cpu import CpuBackend
from ocular.solver.start.initial import initial_state
from ocular.synthetic import b2b, skewed

M = 50
VALUES, ITEMS = (2, 8, 32, 128, 512), (2_500, 5_000, 10_000, 20_000, 40_000)
USUAL_VALUES, USUAL_ITEMS, USERS, PAIRS = 32, 10_000, 10_000, 300_000
STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0)
REGULARIZATIONS = (10.0, 30.0, 60.0, 100.0, 300.0, 1000.0, 3000.0)
SIDES: dict[str, tuple[str, ...]] = {"products": ("item",), "clients": ("user",), "both": ("user", "item")}


def main() -> None:
    given = parse(__doc__, coclusters=50)
    warnings.simplefilter("ignore")  # sweeps that are timed do not converge
    K = 4 if given.quick else given.coclusters
    cost = measure_cost(K, quick=given.quick)
    results: dict[str, Any] = {"cost": cost, "accuracy": {}, "new products": {}}
    for name, (data, size) in data_sets(given, K).items():
        accuracy = results["accuracy"][name] = {}
        for share in (1.0,) if given.quick else (1.0, 0.1):
            accuracy[f"{share:g} of the purchases"] = measure_accuracy(name, data, size, share, quick=given.quick)
        results["new products"][name] = measure_new_products(name, data, size, quick=given.quick)
    save(given, "attribute_likelihood", results, draw_cost(cost))


def draw_cost(cost: dict[str, Any]) -> Figure:
    """Draw the seconds that attributes add to a sweep against J and against N."""
    by_values = {kind: (line["values"], line["seconds"]) for kind, line in cost["by values"].items()}
    by_items = {kind: (line["items"], line["seconds"]) for kind, line in cost["by items"].items()}
    values, items = (f"seconds, N = {USUAL_ITEMS:,}", by_values), (f"seconds, J = {USUAL_VALUES}", by_items)
    title = f"What attributes add to a sweep, K = {cost['co-clusters']}"
    return draw_lines(dict([values, items]), title, "number of values J (left), of items N (right)")


def data_sets(given: Any, K: int) -> dict[str, tuple[Interactions, int]]:
    """Return each data set and the number of co-clusters that it is fitted with."""
    if given.quick:
        return {"B2B": (b2b(120, 40, random_state=0).interactions, K)}
    return {
        "MovieLens-1M": (movielens(given.data / "movielens-1m", min_rating=3), K),
        "B2B, 4,000 × 800": (b2b(4000, 800, random_state=0).interactions, K),
    }


# ---------------------------------------------------------------------------------------------------------------- cost


def measure_cost(K: int, *, quick: bool) -> dict[str, Any]:
    """Time sweeps for several J with N fixed, and for several N with J fixed."""
    values, items = ((2, 8), (50, 100)) if quick else (VALUES, ITEMS)
    usual_items, n_users, n_pairs = (80, 60, 500) if quick else (USUAL_ITEMS, USERS, PAIRS)
    results: dict[str, Any] = {"co-clusters": K, "pairs": n_pairs, "by values": {}, "by items": {}}
    for kind in ("one value per item", "several"):
        data = skewed(n_users, usual_items, n_pairs)
        plain = sweep_seconds(data, K, None)
        seconds = [sweep_seconds(data, K, made_up(usual_items, J, kind)) - plain for J in values]
        results["by values"][kind] = {"values": values, "seconds": seconds, "without": plain}
        print(f"{kind}, N = {usual_items:,}, K = {K}; a sweep without attributes takes {plain:.3f} s")
        for J, took in zip(values, seconds, strict=True):
            print(f"  J = {J:3}: + {took:.4f} s, {took / (J * K * usual_items) * 1e9:.2f} ns per J·K·N", flush=True)
        seconds = []
        for n in items:
            data = skewed(n_users, n, n_pairs)
            plain = sweep_seconds(data, K, None)
            seconds.append(sweep_seconds(data, K, made_up(n, USUAL_VALUES, kind)) - plain)
            each = seconds[-1] / (USUAL_VALUES * K * n) * 1e9
            print(f"  J = {USUAL_VALUES}, N = {n:6,}: + {seconds[-1]:.4f} s, {each:.2f} ns per J·K·N", flush=True)
        results["by items"][kind] = {"items": items, "seconds": seconds}
    return results


def made_up(n: int, J: int, kind: str) -> SideAttributes:
    """Random attributes of n items with J values."""
    rng = np.random.default_rng(0)
    if kind == "several":
        column: Categories | Tags = Tags(sp.csr_array((rng.random((n, J)) < 0.1).astype(np.int8)))
    else:
        column = Categories(rng.integers(0, J, n), J)
    return SideAttributes(items=Attributes.of(n, [column]))


def sweep_seconds(data: Interactions, K: int, attributes: SideAttributes | None, n_sweeps: int = 5) -> float:
    """Return the CPU time of the fastest of some sweeps, after two that warm up."""
    config = FitConfig(K, 30.0, init="random", seed=0, n_threads=1, attribute_strength=1.0)
    backend = CpuBackend(data, config, sparse=0.0, attributes=attributes)
    backend.start(initial_state(data, config))
    ends = [time.process_time()]
    for _ in range(n_sweeps + 2):
        backend.sweep()
        ends.append(time.process_time())
    backend.close()
    return float(np.diff(ends)[2:].min())


# ------------------------------------------------------------------------------------------------------------ accuracy


def measure_accuracy(name: str, data: Interactions, K: int, share: float, *, quick: bool) -> dict[str, Any]:
    """Measure every strength on one split, with the attributes of either side and of both."""
    split = random_split(data, 0.25)
    if share < 1:
        some = np.random.default_rng(1).random(split.train.nnz) < share
        split = Split(split.train.where(some), split.test)
    strengths = STRENGTHS[:2] if quick else STRENGTHS
    found = {each: accuracy(split, K, each, 0.0, "both") for each in REGULARIZATIONS}
    chosen = max(found, key=lambda each: found[each]["recall"])
    results: dict[str, Any] = {"regularization": chosen, "none": found[chosen]}
    show(f"{name}, {split.train.nnz:,} purchases, K = {K}, λ = {chosen:g}, without attributes", found[chosen])
    for side in SIDES:
        rows = results[side] = {}
        for strength in strengths[1:]:
            rows[strength] = accuracy(split, K, chosen, strength, side)
            show(f"  {side}, strength {strength:g}", rows[strength])
    return results


def accuracy(split: Split, K: int, regularization: float, strength: float, side: str) -> dict[str, float]:
    """Fit and measure one strength."""
    train = with_attributes(split.train, side)
    scores = measure(new_model(K, regularization, strength).fit(train), split.train, split.test, M)
    return {"recall": scores.mean("recall", M), "map": scores.mean("map", M)}


def new_model(K: int, regularization: float, strength: float) -> OCuLaR:
    return OCuLaR(K, regularization, attribute_strength=strength, tol=1e-3, random_state=0, n_threads=1)


def with_attributes(data: Interactions, side: str) -> Interactions:
    """Return the purchases with the attributes of the named side alone, or of both."""
    others = {f"{each}_attributes": {} for each in ("user", "item") if each not in SIDES[side]}
    return replace(data, **others)


def measure_new_products(name: str, data: Interactions, K: int, *, quick: bool) -> dict[str, Any]:
    """Rank products among themselves that the fit has not seen, by memberships from their attributes."""
    hidden = np.random.default_rng(0).random(data.n_items) < 0.1
    pairs, bought = data.to_matrix()[:, ~hidden], data.to_matrix()[:, hidden]
    attributes = {name: cells[~hidden] for name, cells in data.item_attributes.items()}
    train = Interactions.from_pairs(*pairs.nonzero(), pairs.shape, item_attributes=attributes)
    results: dict[Any, dict[str, float]] = {"random": rank_all(np.zeros(bought.shape), bought)}
    show(f"{name}, {hidden.sum()} new products, in random order", results["random"])
    for strength in STRENGTHS[1:3] if quick else STRENGTHS[1:]:
        model = new_model(K, 30.0, strength).fit(train)
        factors = [
            model.memberships_from_attributes({name: cells[i] for name, cells in known(model, data).items()})
            for i in np.flatnonzero(hidden)
        ]
        scores = model.user_factors_.toarray() @ np.array(factors).T
        results[strength] = rank_all(scores, bought)
        show(f"{name}, {hidden.sum()} new products, strength {strength:g}", results[strength])
    return results


def known(model: OCuLaR, data: Interactions) -> dict[str, Any]:
    """Return the attributes of the products that the likelihood of the model uses."""
    used = {attribute for attribute, _ in model.attribute_labels()}
    return {attribute: cells for attribute, cells in data.item_attributes.items() if attribute in used}


def rank_all(scores: np.ndarray, bought: Any) -> dict[str, float]:
    """Return mean recall and average precision at M of the clients who bought any of these products."""
    recalls, precisions = [], []
    for u in np.flatnonzero(np.diff(bought.indptr)):
        truth = bought.indices[bought.indptr[u] : bought.indptr[u + 1]]
        hits = np.isin(np.argsort(-scores[u], kind="stable")[:M], truth)
        recalls.append(hits.sum() / len(truth))
        precisions.append((np.cumsum(hits) / np.arange(1, len(hits) + 1) * hits).sum() / min(len(truth), M))
    return {"recall": float(np.mean(recalls)), "map": float(np.mean(precisions))}


def show(what: str, scores: dict[str, float]) -> None:
    print(f"{what}: recall@{M} {scores['recall']:.4f}, MAP@{M} {scores['map']:.4f}", flush=True)


if __name__ == "__main__":
    main()
