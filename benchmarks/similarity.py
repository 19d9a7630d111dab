"""
What the ten nearest items have in common: genres of MovieLens-1M, tags of CiteULike-a, by several similarities.

python benchmarks/similarity.py --data DIR

Jaccard is that of the genres or tags of an item and of each of its ten nearest, cosine that of the same weighted by how
rare they are; both are means over 2,000 items with at least five buyers. No similarity has seen genres or tags. "as
similar_items" is what a model with links answers, the line above it what one without them does.
"""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import add_data_option, citeulike_a, movielens_1m, parser, save
from numpy.typing import NDArray

from ocular import Interactions, OCuLaR
from ocular.scoring import rows_with_links

N_NEAREST, N_ITEMS, MIN_BUYERS, AT_ONCE = 10, 2000, 5, 250

Rows = Callable[[NDArray[np.int64]], NDArray[np.float64]]  # items -> similarities to all items


def genres(_data: Path, interactions: Interactions) -> list[list[str]]:
    return [str(kinds).split("|") for kinds in interactions.item_attributes["genres"]]


def tags(data: Path, _interactions: Interactions) -> list[list[str]]:
    with gzip.open(data / "citeulike-a" / "item-tag.dat.gz", "rt") as lines:
        return [line.split()[1:] for line in lines]


SETS: dict[str, tuple[Callable[[Path], Interactions], Callable[..., list[list[str]]], float]] = {
    "MovieLens-1M": (movielens_1m, genres, 100.0),
    "CiteULike-a": (citeulike_a, tags, 300.0),
}


def unit(rows: Any) -> sp.csr_array:
    rows = sp.csr_array(rows, dtype=np.float64)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.maximum(norms, 1e-12)) @ rows)


def similarities(model: OCuLaR) -> dict[str, Rows]:
    links = model.links_.astype(np.float64)
    into = links @ sp.diags_array(1 / np.maximum(np.sqrt(np.asarray(links.power(2).sum(axis=0)).ravel()), 1e-12))
    memberships, buyers = unit(model.item_factors_), unit(model.interactions_.to_matrix().T)
    mixed = unit(rows_with_links(model.item_factors_, model.links_))
    profiles = unit(mixed[:, model.item_factors_.shape[1] :])

    def cosine(rows: sp.csr_array) -> Rows:
        return lambda items: (rows[items] @ rows.T).toarray()

    def symmetric(table: Any) -> Rows:
        both = sp.csr_array(table + table.T)
        return lambda items: both[items].toarray()

    def sum_of(weight: float, one: Rows, other: Rows) -> Rows:
        return lambda items: one(items) + weight * other(items)

    return {
        "buyers": cosine(buyers),
        "memberships": cosine(memberships),
        "links, S + Sᵀ": symmetric(links),
        "links, each item's of length 1": symmetric(into),
        "links, cosine of S + Sᵀ": cosine(profiles),
        "memberships + .1 buyers": sum_of(0.1, cosine(memberships), cosine(buyers)),
        "as similar_items": sum_of(0.1, cosine(mixed), cosine(buyers)),
    }


def measure(labels: list[list[str]], degrees: NDArray[np.int64], similar: Rows) -> tuple[float, float]:
    names, place = np.unique([label for item in labels for label in item], return_inverse=True)
    sizes = np.array([len(item) for item in labels])
    table = sp.csr_array(
        (np.ones(len(place)), place, np.concatenate([[0], np.cumsum(sizes)])), (len(labels), len(names))
    )
    weighted = unit(table @ sp.diags_array(np.log(len(labels) / np.bincount(place))))
    known = np.flatnonzero((degrees >= MIN_BUYERS) & (sizes > 0))
    asked = np.sort(np.random.default_rng(0).choice(known, min(N_ITEMS, len(known)), replace=False))
    jaccards, cosines = [], []
    for first in range(0, len(asked), AT_ONCE):
        items = asked[first : first + AT_ONCE]
        alike = similar(items)
        alike[np.arange(len(items)), items] = -1
        alike[:, sizes == 0] = -1
        near = np.argsort(-alike, axis=1, kind="stable")[:, :N_NEAREST]
        common = np.take_along_axis((table[items] @ table.T).toarray(), near, axis=1)
        jaccards.append(common / (sizes[items][:, None] + sizes[near] - common))
        cosines.append(np.take_along_axis((weighted[items] @ weighted.T).toarray(), near, axis=1))
    return float(np.concatenate(jaccards).mean()), float(np.concatenate(cosines).mean())


def main() -> None:
    arguments = parser(__doc__)
    add_data_option(arguments)
    data = Path(arguments.parse_args().data)
    results: dict[str, Any] = {}
    for name, (load, labels_of, ridge) in SETS.items():
        interactions = load(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = OCuLaR(100, 30, links=1.0, link_regularization=ridge, tol=1e-3, random_state=0).fit(interactions)
        labels = labels_of(data, interactions)
        results[name] = {}
        for title, similar in similarities(model).items():
            jaccard, cosine = measure(labels, interactions.by_item.degrees, similar)
            results[name][title] = {"jaccard": round(jaccard, 4), "cosine": round(cosine, 4)}
            print(f"{name:14}{title:34}Jaccard {jaccard:.4f}, cosine {cosine:.4f}", flush=True)
    save("similarity", {"results": results})


if __name__ == "__main__":
    main()
