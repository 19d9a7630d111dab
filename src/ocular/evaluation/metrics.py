"""
How well recommendations find purchases that were held out: recall@M, MAP@M, NDCG@M, precision@M, coverage, novelty.

recall and MAP are defined as in the paper. All metrics and all M come from one pass over the users with as many
recommendations as the largest M; nothing of the size users × items is built.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.compiling import njit
from ocular.data.interactions import Adjacency
from ocular.data.matrices import as_interactions
from ocular.errors import ConfigError, DataError, Parameter, Phrased
from ocular.explain.notebook import html_table
from ocular.solver.config import FitConfig
from ocular.solver.pool import RowPool
from ocular.validation import as_list, check_choice, check_whole

USERS_AT_ONCE = 4096
PER_USER = ("recall", "map", "ndcg", "precision")
METRICS = (*PER_USER, "coverage", "novelty")
USUAL_M = 10  # that a note suggests, or less where there are few products
_log = logging.getLogger("ocular")

Floats = NDArray[np.float64]


class Recommender(Protocol):
    """Anything with the `recommend` of implicit: OCuLaR, the baselines, and implicit's own models."""

    def recommend(self, userid: Any, user_items: Any, N: int) -> tuple[NDArray[Any], NDArray[Any]]: ...


class Ranking(NamedTuple):
    """recall@M and MAP@M as means over the users with held-out items."""

    recall: float
    map: float
    n_users: int


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Every metric at every M, and the value of every user for the paired comparison of models."""

    cutoffs: tuple[int, ...]
    users: NDArray[np.int64]  # those with held-out items
    left_out: int  # users without
    per_user: dict[str, Floats]  # metric -> (len(users), len(cutoffs))
    coverage: Floats  # (len(cutoffs),) share of the items that are recommended to at least one user
    novelty: Floats  # (len(cutoffs),) mean surprise of a recommended item, −log2 of the share of users who have it
    native: Callable[[Any], Any] | None = field(default=None)  # makes the caller's kind of frame

    def mean(self, metric: str, M: int) -> float:
        """Return one number: `scores.mean("recall", 50)`."""
        check_choice(metric, "metric", METRICS)
        if M not in self.cutoffs:
            raise ConfigError(f"expected M of {', '.join(map(str, self.cutoffs))}, got {M!r}")
        at = self.cutoffs.index(M)
        if metric in self.per_user:
            return float(self.per_user[metric][:, at].mean())
        return float(getattr(self, metric)[at])

    def to_dict(self) -> dict[str, Any]:
        """Return all means as {"recall@50": …}, with the number of users."""
        means = {f"{metric}@{M}": self.mean(metric, M) for metric in METRICS for M in self.cutoffs}
        return means | {"users": len(self.users), "left_out": self.left_out}

    def table(self) -> list[dict[str, Any]]:
        """Return a dictionary of all metrics for each M."""
        return [{"M": M, **{metric: self.mean(metric, M) for metric in METRICS}} for M in self.cutoffs]

    def to_frame(self) -> Any:
        """Return the table as a frame of the kind that the purchases came in, or of polars."""
        frame = pl.DataFrame(self.table())
        return frame if self.native is None else self.native(frame)

    def __repr__(self) -> str:
        M = self.cutoffs[-1]
        means = ", ".join(f"{metric}@{M} {self.mean(metric, M):.4f}" for metric in PER_USER)
        return f"Scores({means}; {len(self.users):,} users)"

    def _repr_html_(self) -> str:
        rows = [{name: round(value, 4) for name, value in row.items()} for row in self.table()]
        return html_table(rows, f"{len(self.users):,} users; {self.left_out:,} without held-out items")


def measure(
    model: Recommender,
    train: Any,
    test: Any,
    M: int | Iterable[int] = 50,
    n_threads: int | None = None,
) -> Scores:
    """
    Measure how well the M best items of each user, without those of `train`, find the user's items in `test`.

    `train` and `test` are Interactions or matrices of users × items, as `fit` takes them.

    recall@M(u) = |found| / |items of u in test|
    AP@M(u) = Σ_m precision(m) · [item m is in test] / min(|items of u in test|, M); MAP is its mean
    NDCG@M(u) = Σ_m [item m is in test] / log2(m + 1), relative to the best possible order
    precision@M(u) = |found| / M

    Users without items in `test` are left out of the means and counted.
    """
    cutoffs = tuple(sorted(check_cutoffs(M)))
    min_value = getattr(model, "min_value", None)
    train, test = as_interactions(train, min_value), as_interactions(test, min_value)
    if train.shape != test.shape:
        raise DataError(f"expected train and test of the same users and items, got {train.shape} and {test.shape}")
    users = np.flatnonzero(test.by_user.degrees)
    if len(users) == 0:
        raise DataError("expected purchases to test on, got none")
    owned = sp.csr_matrix(train.to_matrix())  # implicit takes nothing else
    if owned.multiply(test.to_matrix()).nnz == test.nnz:  # none of them can be recommended: every metric would be 0
        raise DataError(
            "expected held-out pairs, got pairs of train; split first: "
            "train, test = ocular.data.splits.random_split(purchases)"
        )
    n_best = min(cutoffs[-1], train.n_items)
    values = np.zeros((len(PER_USER), len(users), len(cutoffs)))
    times_shown = np.zeros((len(cutoffs), train.n_items), dtype=np.int64)
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(cutoffs[-1]) + 2))])
    with RowPool(FitConfig(n_threads=n_threads).threads) as pool:
        for first in range(0, len(users), USERS_AT_ONCE):
            block = users[first : first + USERS_AT_ONCE]
            ids = np.ascontiguousarray(model.recommend(block, owned[block], N=n_best)[0], dtype=np.int64)
            held_out = test.by_user.take(block)
            out = values[:, first : first + len(block)]
            pool.run(_measure_rows, held_out, held_out.indptr, held_out.indices, ids, np.array(cutoffs), discounts, out)
            for at, cutoff in enumerate(cutoffs):
                times_shown[at] += np.bincount(ids[:, :cutoff][ids[:, :cutoff] >= 0], minlength=train.n_items)
    surprise = -np.log2(np.maximum(train.by_item.degrees, 1) / train.n_users)
    return Scores(
        cutoffs,
        users,
        train.n_users - len(users),
        dict(zip(PER_USER, values, strict=True)),
        (times_shown > 0).mean(axis=1),
        times_shown @ surprise / np.maximum(times_shown.sum(axis=1), 1),
        train.native,
    )


def rank(model: Recommender, train: Any, test: Any, M: int = 50) -> Ranking:
    """Measure recall@M and MAP@M alone: see `measure`."""
    scores = measure(model, train, test, M)
    return Ranking(scores.mean("recall", M), scores.mean("map", M), len(scores.users))


def find_hits(ids: NDArray[Any], truth: Adjacency, users: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of the items ids[r] are in the row users[r] of `truth`; −1 never is."""
    width = np.int64(max(int(truth.indices.max(initial=0)), int(ids.max(initial=0))) + 1)
    rows = truth.take(users)
    bought = np.repeat(np.arange(len(users)), rows.degrees) * width + rows.indices
    recommended = np.arange(len(users))[:, None] * width + ids
    return np.isin(recommended, bought) & (ids >= 0)


def check_cutoffs(M: int | Iterable[int]) -> tuple[int, ...]:
    """Return every M once, in the order given; raise where there is none or one makes no sense."""
    given = as_list(M)
    if not given:
        raise ConfigError("expected at least one M, got none; the paper uses 50")
    return tuple(dict.fromkeys(check_whole(cutoff, "M", 1) for cutoff in given))


def note_large_cutoff(M: int, n_items: int) -> None:
    """Log a note where M recommendations are so large a part of the products that no model could fail."""
    suggestion = min(USUAL_M, max(1, n_items // 6))
    if n_items < 3 * M and suggestion < M:
        many = f"{M:,} recommendations of {n_items:,} products find nearly everything; try "
        _log.warning(Phrased(many, Parameter("M", suggestion)))


@njit(nogil=True, cache=True)
def _measure_rows(indptr, held_out, ids, cutoffs, discounts, out, first_row, last_row):  # type: ignore[no-untyped-def]  # Numba infers
    """Fill out (4, rows, cutoffs) with recall, average precision, NDCG and precision of each row."""
    for r in range(first_row, last_row):
        row = held_out[indptr[r] : indptr[r + 1]]
        n, hits, at = len(row), 0, 0
        precisions = gain = 0.0
        for m in range(cutoffs[-1]):
            if m < ids.shape[1] and ids[r, m] >= 0:
                place = np.searchsorted(row, ids[r, m])
                if place < n and row[place] == ids[r, m]:
                    hits += 1
                    precisions += hits / (m + 1)
                    gain += discounts[m + 1] - discounts[m]
            if m + 1 == cutoffs[at]:
                out[0, r, at] = hits / n
                out[1, r, at] = precisions / min(n, m + 1)
                out[2, r, at] = gain / discounts[min(n, m + 1)]
                out[3, r, at] = hits / (m + 1)
                at += 1
