"""
Purchases of the size and shape of the Netflix Prize on one machine: time per sweep against the fraction of the data,
a whole fit with product links and its peak memory, links alone, and top-50 for everybody, beside implicit. Every part
runs in a process of its own, so that its peak is its own.

python benchmarks/netflix.py                480,189 × 17,770, 85 million positives, K=200; takes about half an hour
python benchmarks/netflix.py --links-only   the fit and links alone; the other saved results stay; about 13 minutes
python benchmarks/netflix.py --quick        a fiftieth of the users and of the positives

Links are fitted by the likelihood to 500 candidates per title. Peers would take hours and are left out.
The data are made up. Activity and popularity are lognormal; people of a taste prefer the titles of its three genres.
The real ratings: 209 by the mean user, fewer than 10 by 3.4 % of them; 5,654 of the mean title, 232,944 of the first.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # implicit threads itself; BLAS threads inside make it slower

import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import parser, save, saved_result, seconds
from implicit.als import AlternatingLeastSquares
from recommend import compare

from ocular import Interactions, OCuLaR, load
from ocular.data.interactions import Adjacency
from ocular.evidence import EvidenceConfig, fit_product_links
from ocular.solver.config import FitConfig
from ocular.synthetic import skewed
from ocular.synthetic.sampling import draw_rows

USERS, ITEMS, PAIRS, K, REGULARIZATION = 480_189, 17_770, 85_000_000, 200, 60.0
FRACTIONS = (0.1, 0.25, 0.5, 0.75, 1.0)
SWEEPS = 4
GENRES, TASTES = 40, 120
ASKED = 20_000  # users for whom both rank all titles
LINKS = 1.0  # their weight beside the patterns; any but 0 takes the same time
MAX_MEMORY = 4.0  # GiB


def make(path: Path, n_users: int, n_pairs: int) -> dict[str, Any]:
    """Every user is of one taste and draws titles by popularity, those of its genres fifteen times as often."""
    rng = np.random.default_rng(0)
    popularity, activity = rng.lognormal(sigma=1.8, size=ITEMS), rng.lognormal(sigma=1.25, size=n_users)
    genre, taste = rng.integers(GENRES, size=ITEMS), np.sort(rng.integers(TASTES, size=n_users))
    genres = np.array([rng.choice(GENRES, 3, replace=False) for _ in range(TASTES)])
    activity *= 1.47 * n_pairs / activity.sum()  # about a third of what is drawn was drawn before
    ends, indices = [np.zeros(1, dtype=np.int64)], []
    for t in range(TASTES):
        liked = popularity * np.where(np.isin(genre, genres[t]), 15.0, 1.0)
        rows, columns = draw_rows(rng, activity[taste == t] / liked.sum(), liked)
        ends.append(rows[1:] + ends[-1][-1])
        indices.append(columns)
    by_user = Adjacency(np.concatenate(ends), np.concatenate(indices)).take(rng.permutation(n_users))
    np.savez(path, indptr=by_user.indptr, indices=by_user.indices)
    by_item = np.bincount(by_user.indices, minlength=ITEMS)
    return {
        "users": n_users, "items": ITEMS, "positives": len(by_user.indices),
        "users below 10": float((by_user.degrees < 10).mean()), "mean user": float(by_user.degrees.mean()),
        "mean title": float(by_item.mean()), "median title": float(np.median(by_item)),
        "first title": int(by_item.max()),
    }  # fmt: skip


def read(path: Path) -> Interactions:
    with np.load(path) as arrays:
        by_user = Adjacency(arrays["indptr"], arrays["indices"])
    return Interactions(by_user, ITEMS, np.arange(len(by_user)), np.arange(ITEMS))


def sweep_seconds(path: Path, fraction: float) -> float:
    """The fastest of a few sweeps on a random part of the positives."""
    data = read(path)
    data = data.where(np.random.default_rng(1).random(data.nnz) < fraction)
    marks: list[float] = []
    model = OCuLaR(K, REGULARIZATION, init="overlap", max_iter=SWEEPS, tol=0, random_state=0)
    model.fit(data, callback=lambda *_: marks.append(time.perf_counter()))
    return min(after - before for before, after in pairwise(marks))


def fit(path: Path, model_path: Path) -> dict[str, Any]:
    """Patterns, then links, in one fit; the patterns' time and memory are those after the last sweep."""
    data = read(path)
    model = OCuLaR(K, REGULARIZATION, links=LINKS, random_state=0)
    begun, marks = time.perf_counter(), []
    model.fit(data, callback=lambda *_: marks.append((time.perf_counter() - begun, peak_memory())))
    took, peak = time.perf_counter() - begun, peak_memory()
    model.save(model_path)
    memberships = [len(side.data) / side.shape[0] for side in (model.user_factors_, model.item_factors_)]
    return {
        "seconds": marks[-1][0], "sweeps": model.n_iter_, "converged": model.converged_, "peak of sweeps": marks[-1][1],
        "memberships": memberships, "seconds with links": took, "peak": peak,
    }  # fmt: skip


def fit_links(path: Path) -> dict[str, Any]:
    """Product links alone, the other orientation of the data included."""
    data, links = read(path), []
    took = seconds(lambda: links.append(fit_product_links(data, EvidenceConfig(links=LINKS), FitConfig())))
    return {"seconds": took, "peak": peak_memory(), "links per title": links[0].nnz / ITEMS}


def compile_kernels() -> None:
    """Fill Numba's cache, so that no part measures the compiler."""
    OCuLaR(K, REGULARIZATION, init="overlap", links=LINKS, max_iter=20, tol=0).fit(skewed(500, 200, 5000))


def fit_als(path: Path) -> dict[str, Any]:
    matrix = sp.csr_matrix(read(path).to_matrix())
    als = AlternatingLeastSquares(factors=K, iterations=1, random_state=0)
    return {"seconds": seconds(lambda: als.fit(matrix, show_progress=False)), "peak": peak_memory()}


def recommend(path: Path, model_path: Path) -> dict[str, Any]:
    data = read(path)
    users = np.random.default_rng(2).choice(data.n_users, min(ASKED, data.n_users), replace=False)
    fitted = load(model_path)
    # a sweep more without links: rankings are compared by patterns alone
    patterns = OCuLaR(K, REGULARIZATION, init=(fitted.user_factors_, fitted.item_factors_), max_iter=1, tol=0)
    return compare(patterns.fit(data), data, np.sort(users))


def peak_memory() -> float:
    """GiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def alone(part: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(part, *arguments).result()


def measure_sweeps(path: Path) -> dict[str, Any]:
    times = {}
    for fraction in FRACTIONS:
        times[fraction] = alone(sweep_seconds, path, fraction)
        print(f"{fraction:>5.0%} of the positives: {times[fraction]:7.2f} seconds/sweep", flush=True)
    growth = times[1.0] / times[FRACTIONS[0]] * FRACTIONS[0]
    print(f"all cost {growth:.2f} times as much per positive as a tenth")
    return {"sweeps": times, "growth": growth}


def measure_fits(path: Path, model_path: Path) -> dict[str, Any]:
    both = alone(fit, path, model_path)
    print(f"patterns, K={K}: {both['seconds']:.0f} s, {both['sweeps']} sweeps, peak {both['peak of sweeps']:.2f} GiB; "
          f"memberships of a user, of a title: {np.round(both['memberships'], 1)}\n"
          f"patterns and links in one fit: {both['seconds with links']:.0f} s, peak {both['peak']:.2f} GiB "
          f"(target: ≤ {MAX_MEMORY:g})", flush=True)  # fmt: skip
    links = alone(fit_links, path)
    links["share of patterns"] = links["seconds"] / both["seconds"]
    print(f"links alone: {links['seconds']:.0f} s, {links['share of patterns']:.2f} of the time of patterns "
          f"(target: < 1); peak {links['peak']:.2f} GiB (target: ≤ {MAX_MEMORY:g}); "
          f"{links['links per title']:.0f} links per title", flush=True)  # fmt: skip
    return {"fit": both, "links": links}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--links-only", action="store_true")
    given = arguments.parse_args()
    share = 50 if given.quick else 1
    with TemporaryDirectory() as folder:
        path, model_path = Path(folder) / "interactions.npz", Path(folder) / "model"
        data = alone(make, path, USERS // share, PAIRS // share)
        print(
            "  ".join(f"{name} {value:,.4g}" if value < 1 else f"{name} {value:,.0f}" for name, value in data.items())
        )
        alone(compile_kernels)
        results: dict[str, Any] = {"K": K, "regularization": REGULARIZATION, "data": data}
        if not given.links_only:
            results |= measure_sweeps(path)
        results |= measure_fits(path, model_path)
        if not given.links_only:
            als = results["als"] = alone(fit_als, path)
            print(f"implicit's ALS: {als['seconds']:.0f} s an iteration, peak {als['peak']:.2f} GiB", flush=True)
            results["recommend"] = alone(recommend, path, model_path)
    if not given.quick:
        save("netflix", saved_result("netflix") | results)


if __name__ == "__main__":
    main()
