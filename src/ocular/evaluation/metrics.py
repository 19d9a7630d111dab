"""
How well recommendations find purchases that were held out: recall@M, MAP@M, NDCG@M, precision@M, coverage, novelty.

recall and MAP are defined as in the paper. All metrics and all M come from one pass over the users, each of whom is
asked once for as many items as the largest M; nothing of the size users × items is built.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import ConfigError, DataError
from ocular.solver.config import FitConfig
from ocular.solver.pool import RowPool
from ocular.validation import check_whole

USERS_AT_ONCE = 4096
PER_USER = ("recall", "map", "ndcg", "precision")
METRICS = (*PER_USER, "coverage", "novelty")

Floats = NDArray[np.float64]


class Recommender(Protocol):
    """Anything with implicit's recommend: OCuLaR, the baselines, and implicit's own models."""

    def recommend(self, userid: Any, user_items: Any, N: int) -> tuple[NDArray[Any], NDArray[Any]]: ...


class Ranking(NamedTuple):
    """Means over the users who have something to find."""

    recall: float
    map: float
    n_users: int


@dataclass(frozen=True, eq=False)
class Scores:
    """Every metric at every M, and for the paired comparison of models every user's part in it."""

    cutoffs: tuple[int, ...]
    users: NDArray[np.int64]  # those with something to find
    left_out: int  # users with nothing to find
    per_user: dict[str, Floats]  # metric -> (len(users), len(cutoffs))
    coverage: Floats  # (len(cutoffs),) share of the items that are recommended to anybody
    novelty: Floats  # (len(cutoffs),) mean surprise of a recommended item, −log2 of the share of users who have it

    def mean(self, metric: str, M: int) -> float:
        """One number: `scores.mean("recall", 50)`."""
        if metric not in METRICS:
            raise ConfigError(f"expected a metric of {', '.join(METRICS)}, got {metric!r}")
        if M not in self.cutoffs:
            raise ConfigError(f"expected M of {', '.join(map(str, self.cutoffs))}, got {M!r}")
        at = self.cutoffs.index(M)
        if metric in self.per_user:
            return float(self.per_user[metric][:, at].mean())
        return float(getattr(self, metric)[at])

    def to_dict(self) -> dict[str, Any]:
        """All means, as {"recall@50": …}, with the number of users."""
        means = {f"{metric}@{M}": self.mean(metric, M) for metric in METRICS for M in self.cutoffs}
        return means | {"users": len(self.users), "left_out": self.left_out}


def measure(
    model: Recommender,
    train: Interactions,
    test: Interactions,
    M: int | Iterable[int] = 50,
    n_threads: int | None = None,
) -> Scores:
    """
    How well the M best items of each user, those of `train` left out, find the user's items in `test`.

    recall@M(u) = |found| / |items of u in test|
    AP@M(u) = Σ_m precision(m) · [item m is in test] / min(|items of u in test|, M); MAP is its mean
    NDCG@M(u) = Σ_m [item m is in test] / log2(m + 1), relative to the best order there is
    precision@M(u) = |found| / M

    Users without items in `test` are left out of the means and counted.
    """
    cutoffs = _cutoffs(M)
    users = np.flatnonzero(test.by_user.degrees)
    if len(users) == 0:
        raise DataError("expected purchases to test on, got none")
    owned = sp.csr_matrix(train.to_matrix())  # implicit takes nothing else
    most = min(cutoffs[-1], train.n_items)
    values = np.zeros((len(PER_USER), len(users), len(cutoffs)))
    shown = np.zeros((len(cutoffs), train.n_items), dtype=np.int64)
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(cutoffs[-1]) + 2))])
    with RowPool(FitConfig(n_threads=n_threads).threads) as pool:
        for first in range(0, len(users), USERS_AT_ONCE):
            block = users[first : first + USERS_AT_ONCE]
            ids = np.ascontiguousarray(model.recommend(block, owned[block], N=most)[0], dtype=np.int64)
            wanted = test.by_user.take(block)
            out = values[:, first : first + len(block)]
            pool.run(_measure_rows, wanted, wanted.indptr, wanted.indices, ids, np.array(cutoffs), discounts, out)
            for at, cutoff in enumerate(cutoffs):
                shown[at] += np.bincount(ids[:, :cutoff][ids[:, :cutoff] >= 0], minlength=train.n_items)
    surprise = -np.log2(np.maximum(train.by_item.degrees, 1) / train.n_users)
    return Scores(
        cutoffs,
        users,
        train.n_users - len(users),
        dict(zip(PER_USER, values, strict=True)),
        (shown > 0).mean(axis=1),
        shown @ surprise / np.maximum(shown.sum(axis=1), 1),
    )


def rank(model: Recommender, train: Interactions, test: Interactions, M: int = 50) -> Ranking:
    """recall@M and MAP@M alone: see `measure`."""
    scores = measure(model, train, test, M)
    return Ranking(scores.mean("recall", M), scores.mean("map", M), len(scores.users))


def found(ids: NDArray[Any], truth: Adjacency, users: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of the items ids[r] are among the row users[r] of truth; −1 never is."""
    width = np.int64(max(int(truth.indices.max(initial=0)), int(ids.max(initial=0))) + 1)
    rows = truth.take(users)
    known = np.repeat(np.arange(len(users)), rows.degrees) * width + rows.indices
    asked = np.arange(len(users))[:, None] * width + ids
    return np.isin(asked, known) & (ids >= 0)


def _cutoffs(M: int | Iterable[int]) -> tuple[int, ...]:
    given = list(M) if isinstance(M, Iterable) else [M]
    if not given:
        raise ConfigError("expected at least one M, got none; the paper uses 50")
    return tuple(sorted({check_whole(cutoff, "M", 1) for cutoff in given}))


@njit(nogil=True, cache=True)
def _measure_rows(indptr, wanted, ids, cutoffs, discounts, out, first_row, last_row):  # type: ignore[no-untyped-def]  # Numba infers
    """Fills out (4, rows, cutoffs) with recall, average precision, NDCG and precision of each row."""
    for r in range(first_row, last_row):
        row = wanted[indptr[r] : indptr[r + 1]]
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
