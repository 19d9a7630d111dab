"""
New products and new clients: a tenth of them is hidden from the fit but for attributes and a few purchases.

python experiments/cold_start.py --data DIR [--instances 3] [--choose 1]

New products are ranked among themselves for each client, new clients get a ranking of all products. Beside OCuLaR with
what it borrows: popularity (of new products, their first buyers), attribute-kNN (sum of the tf-idf cosines to what is
known of the other side), and what a refit with the first purchases gets, without taste and with it. --choose 1 measures
the constants of `ocular.cold_start` instead, on another tenth of what is left after the hidden one is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from common import draw_lines, parse, save

from ocular import Interactions, OCuLaR
from ocular.cold_start import neighbours, rows, start
from ocular.data.attributes import Features, describe
from ocular.data.datasets import citeulike, movielens
from ocular.data.interactions import Adjacency
from ocular.evaluation.metrics import measure
from ocular.synthetic import b2b

M, SHARE = 50, 0.1
FIRST = (0, 1, 3, 5)  # purchases of a new row that are known
MODEL = {"n_coclusters": 100, "regularization": 30.0, "links": 1.0, "peers": 0.5, "link_regularization": 100.0}
QUICK = {"n_coclusters": 8, "regularization": 2.0, "links": 1.0, "peers": 0.5}
WORTHS, LINK_WEIGHTS, VALUE_WEIGHTS, N_NEIGHBOURS = (1.0, 1.5, 3.0), (1.0, 2.0), (1.0, 2.0), (100, 200)

Table = np.ndarray  # scores, (rows, columns)
Values = tuple[float, float]  # recall@M, MAP@M


class Ranker(NamedTuple):
    """Ranks the columns of a table of scores, as `measure` asks for it."""

    scores: Table

    def recommend(self, userid: Any, user_items: Any, N: int) -> tuple[Any, Any]:
        """Return the N best columns of some rows, without those that they have."""
        scores = self.scores[userid]
        known = user_items.tocoo()
        scores[known.row, known.col] = -np.inf
        best = np.sort(np.argpartition(-scores, N - 1, axis=1)[:, :N], axis=1)
        found = np.take_along_axis(scores, best, axis=1)
        order = np.argsort(-found, axis=1, kind="stable")
        best, found = np.take_along_axis(best, order, axis=1), np.take_along_axis(found, order, axis=1)
        return np.where(found > -np.inf, best, -1), found


class Hidden(NamedTuple):
    """Purchases without some products (or clients), and these with their first purchases and the others."""

    train: Interactions
    attributes: dict[str, Any]  # of the hidden rows
    first: sp.csr_array  # clients × products, with the hidden ones only on their side
    later: sp.csr_array
    with_first: Interactions  # what a refit has: the hidden rows come last


def hide(data: Interactions, side: str, seed: int, share: float = SHARE) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of one side that are kept, and those that are hidden."""
    n = data.n_items if side == "product" else data.n_users
    chosen = np.sort(np.random.default_rng(seed).choice(n, round(n * share), replace=False))
    return np.setdiff1d(np.arange(n), chosen), chosen


def keep(data: Interactions, side: str, chosen: np.ndarray) -> Interactions:
    """Return the purchases of some products (or clients) alone."""
    matrix = data.to_matrix()
    if side == "product":
        matrix = sp.csr_array(matrix[:, chosen])
        changed = {"item_labels": data.item_labels[chosen], "item_attributes": _taken(data.item_attributes, chosen)}
    else:
        matrix = sp.csr_array(matrix[chosen])
        changed = {"user_labels": data.user_labels[chosen], "user_attributes": _taken(data.user_attributes, chosen)}
    matrix.sort_indices()
    return replace(data, by_user=_lists(matrix), n_items=matrix.shape[1], purchases=None, **changed)


def split(data: Interactions, side: str, known: np.ndarray, hidden: np.ndarray, k: int, seed: int) -> Hidden:
    """Return the purchases of the known rows, and of the hidden ones the first k, chosen at random, and the others."""
    matrix = data.to_matrix()
    mine = sp.csr_array(matrix[:, hidden].T if side == "product" else matrix[hidden])  # hidden rows first
    rng, first = np.random.default_rng(seed), []
    for row in range(mine.shape[0]):
        bought = mine.indices[mine.indptr[row] : mine.indptr[row + 1]]
        first.append(np.sort(rng.permutation(bought)[:k]))
    ends = np.concatenate([[0], np.cumsum([len(part) for part in first])])
    chosen = np.concatenate(first).astype(np.int32)
    shown = sp.csr_array((np.ones(len(chosen), dtype=np.float32), chosen, ends), shape=mine.shape)
    later = sp.csr_array(mine - shown)
    later.eliminate_zeros()
    turned = (shown.T.tocsr(), later.T.tocsr()) if side == "product" else (shown, later)
    train, order = keep(data, side, known), np.concatenate([known, hidden])
    joined = (sp.hstack if side == "product" else sp.vstack)([train.to_matrix(), turned[0]], format="csr")
    joined.sort_indices()
    refitted = replace(keep(data, side, order), by_user=_lists(joined))
    attributes = data.item_attributes if side == "product" else data.user_attributes
    return Hidden(train, _taken(attributes, hidden), *turned, refitted)


def cold_scores(model: OCuLaR, hidden: Hidden, side: str) -> Table:
    """Return the scores that new rows have without a refit."""
    cold = model.cold_start()
    is_product = side == "product"
    features = cold.item_features if is_product else cold.user_features
    if is_product:
        new = cold.new_products(_lists(hidden.first.T), values=values_of(features, hidden))
        return (cold.for_products.rows_of(np.arange(model.interactions_.n_users)) @ cold.product_rows(new).T).toarray()
    new = cold.new_clients(_lists(hidden.first), values=values_of(features, hidden))
    return (cold.client_rows(new) @ cold.for_clients.item_rows.T).toarray()


def values_of(features: Features, hidden: Hidden) -> Adjacency:
    """Return the features of the hidden rows."""
    n = len(next(iter(hidden.attributes.values()), []))
    cells = [{name: column[row] for name, column in hidden.attributes.items()} for row in range(n)]
    described = [features.describe({name: cell[name] for name in features.columns}) for cell in cells]
    if not described:
        width = hidden.first.shape[0]
        return Adjacency(np.zeros(width + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
    ends = np.concatenate([[0], np.cumsum([len(row) for row in described])]).astype(np.int64)
    return Adjacency(ends, np.concatenate(described).astype(np.int32))


def knn_scores(hidden: Hidden, side: str) -> Table:
    """Return the sum of the tf-idf cosines of single values between a hidden row and the known rows."""
    data, is_product = hidden.train, side == "product"
    attributes, n = (data.item_attributes, data.n_items) if is_product else (data.user_attributes, data.n_users)
    both = {name: np.concatenate([values, hidden.attributes[name]]) for name, values in attributes.items()}
    single = describe(both, n + len(next(iter(both.values()))) - n, side)
    matrix = single.rows.matrix(len(single))[:, [len(value) == 1 for value in single.values]]
    known = sp.csr_array(matrix[:n])
    idf = np.log((1 + n) / (1 + np.bincount(known.indices, minlength=matrix.shape[1]))) + 1
    weighted = sp.csr_array(matrix @ sp.diags_array(idf))
    norms = np.maximum(np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel()), 1e-12)
    unit = sp.csr_array(sp.diags_array(1 / norms) @ weighted)
    cosines = sp.csr_array(unit[n:] @ unit[:n].T)  # hidden × known
    R = data.to_matrix()
    return np.asarray((R @ cosines.T if is_product else cosines @ R).todense())


def popular_scores(hidden: Hidden, side: str, rng: np.random.Generator) -> Table:
    """Return popularity: of known products, or of new ones as far as it is known; equal ones come at random."""
    shape = hidden.first.shape
    counts = np.asarray(hidden.first.sum(axis=0)).ravel()
    if side == "client":
        counts = hidden.train.by_item.degrees
    return np.tile(counts + 0.1 * rng.random(shape[1]), (shape[0], 1))


def refitted_scores(hidden: Hidden, side: str, parameters: dict[str, Any], **more: Any) -> Table:
    """Return the scores that a refit with the first purchases gives to the hidden rows."""
    model = fit(hidden.with_first, parameters | more)
    (n_users, n_items), known = model.interactions_.shape, hidden.train.shape
    users = np.arange(n_users) if side == "product" else np.arange(known[0], n_users)
    items = np.arange(known[1], n_items) if side == "product" else np.arange(n_items)
    return (model.evidence().rows_of(users) @ model.evidence().item_rows[items].T).toarray()


def fit(data: Interactions, parameters: dict[str, Any]) -> OCuLaR:
    return OCuLaR(**parameters, tol=1e-3, random_state=0).fit(data)


def value(scores: Table, hidden: Hidden) -> Values:
    found = measure(Ranker(scores), hidden.first, hidden.later, M)
    return found.mean("recall", M), found.mean("map", M)


def run(data: Interactions, side: str, instances: int, parameters: dict[str, Any]) -> dict[str, list[list[Values]]]:
    """Return by method and number of first purchases what each instance gets."""
    results: dict[str, list[list[Values]]] = {}
    has_attributes = bool(data.item_attributes if side == "product" else data.user_attributes)
    weight = "taste" if side == "product" else "appeal"
    for seed in range(instances):
        known, chosen = hide(data, side, seed)
        model = fit(keep(data, side, known), parameters)
        for at, k in enumerate(FIRST):
            hidden = split(data, side, known, chosen, k, seed)
            methods: dict[str, Callable[[], Table]] = {
                "popularity": partial(popular_scores, hidden, side, np.random.default_rng(seed)),
                "attribute-kNN": partial(knn_scores, hidden, side),
                "OCuLaR": partial(cold_scores, model, hidden, side),
                "refit": partial(refitted_scores, hidden, side, parameters),
                f"refit with {weight}": partial(refitted_scores, hidden, side, parameters, **{weight: 1.0}),
            }
            for name, scores in methods.items():
                needs_attributes = name == "attribute-kNN" or name.endswith(weight)
                nothing_is_known = k == 0 and (name.startswith("refit") or not (has_attributes or name == "popularity"))
                if nothing_is_known or (needs_attributes and not has_attributes):
                    continue
                results.setdefault(name, [[] for _ in FIRST])[at].append(value(scores(), hidden))
    return results


def choose(data: Interactions, side: str, instances: int, parameters: dict[str, Any]) -> None:
    """Print what each choice of constants gets on rows that no instance of the experiment tests."""
    grid = list(product(WORTHS, LINK_WEIGHTS, VALUE_WEIGHTS, N_NEIGHBOURS))
    found: dict[tuple[float, ...], list[Values]] = {point: [] for point in grid}
    for seed in range(instances):
        left = keep(data, side, hide(data, side, seed)[0])
        known, chosen = hide(left, side, seed)
        model = fit(keep(left, side, known), parameters)
        hidden = [split(left, side, known, chosen, k, seed) for k in FIRST]
        for point in grid:
            rows.ATTRIBUTES_WORTH, neighbours.N_NEIGHBOURS = point[0], int(point[3])
            for module in (rows, start):
                module.LINK_WEIGHT, module.VALUE_WEIGHT = point[1], point[2]
            found[point] += [value(cold_scores(model, part, side), part) for part in hidden]
    print("  κ over √n̄, weight of links, of attributes, neighbours: mean over 0, 1, 3, 5 first purchases")
    means = {point: np.mean(values, axis=0) for point, values in found.items()}
    for point in sorted(grid, key=lambda point: -means[point][0] * means[point][1] ** 2)[:8]:
        print("  {:4g} {:4g} {:4g} {:4g}".format(*point), "  {:.4f} / {:.4f}".format(*means[point]))


def main() -> None:
    given = parse(__doc__, instances=3, choose=0)
    logging.getLogger("ocular").setLevel(logging.ERROR)  # no note on every value that no known row has
    sets: dict[str, Callable[[], Interactions]] = {"B2B": lambda: b2b(300, 80, random_state=0).interactions}
    parameters = QUICK
    if not given.quick:
        parameters = MODEL
        sets = {
            "MovieLens-1M": lambda: movielens(given.data / "movielens-1m", min_rating=3),
            "CiteULike-a": lambda: citeulike(given.data / "citeulike-a"),
            "B2B": lambda: b2b(4000, 1500, random_state=0).interactions,
        }
    results: dict[str, Any] = {}
    panels: dict[str, Any] = {}
    for (name, load), side in product(sets.items(), ("product", "client")):
        data, title = load(), f"{name}, new {side}s"
        has_attributes = bool(data.item_attributes if side == "product" else data.user_attributes)
        print(f"{title}: recall@{M} / MAP@{M}, mean of {given.instances} instances", flush=True)
        if given.choose:
            choose(data, side, given.instances, parameters) if has_attributes else print("  no attributes")
            continue
        found = run(data, side, given.instances, parameters)
        print(f"  {'':24}" + "".join(f"{f'{k} first':>16}" for k in FIRST))
        means = {method: [np.mean(v, axis=0).tolist() if v else None for v in by_k] for method, by_k in found.items()}
        for method, by_k in means.items():
            cells = (" " * 16 if v is None else f"{v[0]:8.3f} / {v[1]:.3f}" for v in by_k)
            print(f"  {method:24}" + "".join(cells), flush=True)
        results[title] = means
        panels[title] = {
            method: ([k for k, v in zip(FIRST, by_k, strict=True) if v], [v[0] for v in by_k if v])
            for method, by_k in means.items()
        }
    if not given.choose:
        figure = draw_lines(panels, f"recall@{M}", "first purchases that are known")
        save(given, "cold_start", results, figure)


def _lists(matrix: Any) -> Adjacency:
    ordered = sp.csr_array(matrix)
    ordered.sort_indices()
    return Adjacency(ordered.indptr.astype(np.int64), ordered.indices.astype(np.int32))


def _taken(attributes: Any, chosen: np.ndarray) -> dict[str, Any]:
    return {name: values[chosen] for name, values in attributes.items()}


if __name__ == "__main__":
    main()
