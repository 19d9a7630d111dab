"""The contract of all baselines: `fit` and `recommend` as OCuLaR has them, on blocks of users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ocular.data.matrices import as_interactions, check_positives, owned_rows, rows_for_ids
from ocular.errors import DataError
from ocular.validation import allowed_mask, check_ids, check_n

MAX_CELLS = 1_500_000  # of a block: scores, their order and a sparse product in between stay below 64 MB

Ids = NDArray[np.int32]
Scores = NDArray[np.float32]


class Baseline(ABC, BaseEstimator):  # type: ignore[misc]
    """
    A recommender of items to users.

    A subclass refuses what it cannot fit in `check`, learns in `_fit` and scores blocks of users in `_scores`.

    Attributes
    ----------
    interactions_ : Interactions
        What was fitted.
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Fit users × items: an Interactions, or any sparse or dense matrix of 0 and 1."""
        interactions = check_positives(as_interactions(X))
        self.check(interactions.shape)
        self._fit(interactions.to_matrix())
        self.interactions_ = interactions
        # items by falling popularity: among equal scores the more popular one then simply comes first
        self._order = np.argsort(-interactions.by_item.degrees, kind="stable").astype(np.int32)
        return self

    def check(self, shape: tuple[int, int]) -> None:
        """Raise where a fit to users × items of this shape could not run: its parameters, its packages, its memory."""

    def recommend(
        self,
        userid: int | ArrayLike,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> tuple[Ids, Scores]:
        """
        Return (ids, scores) of the N best items for a user (1-D) or for many users (2-D), best first.

        `user_items` holds what the users have, by default what was fitted: a row for each id of `userid`, or one for
        every fitted user. A row other than the fitted one of its id is scored as a new user. `items` restricts the
        choice, `filter_items` leaves some out. Where fewer than N items are left, ids are −1 and scores nan. Items of
        equal score come by popularity.
        """
        check_is_fitted(self)
        check_n(N)
        users = check_ids(userid, self.interactions_.n_users, "user")
        if users.ndim > 1:
            raise DataError(f"expected user ids as one number or a list, got {users.ndim} dimensions")
        n_users, n_items = self.interactions_.shape
        owned = self.interactions_.by_user if user_items is None else owned_rows(user_items, n_items)
        rows = (owned.take(users) if user_items is None else rows_for_ids(users, owned, n_users)).matrix(n_items)
        allowed = allowed_mask(items, filter_items, n_items, "item")
        ids = np.full((len(users), N), -1, dtype=np.int32)
        scores = np.full((len(users), N), np.nan, dtype=np.float32)
        for block in blocks(len(users), n_items):
            costs = -self._scores(rows[block], users[block])
            if filter_already_liked_items:
                costs[rows[block].nonzero()] = np.inf
            if allowed is not None:
                costs[:, ~allowed] = np.inf
            costs = costs[:, self._order]
            top = best(costs, int(N))
            cost = np.take_along_axis(costs, top, axis=1)
            left = cost < np.inf
            ids[block, : top.shape[1]] = np.where(left, self._order[top], -1)
            scores[block, : top.shape[1]] = np.where(left, -cost, np.nan)
        return (ids[0], scores[0]) if np.ndim(userid) == 0 else (ids, scores)

    @abstractmethod
    def _fit(self, matrix: sp.csr_array) -> None:
        """Learn from a matrix of users × items whose entries are float32 ones."""

    @abstractmethod
    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:
        """Return the scores (b, n_items) of users whose ids are `users` (b,) and who have `rows` (b, n_items)."""

    def _as_fitted(self, rows: sp.csr_array, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are those that were fitted for their users; the others are new users."""
        fitted = self.interactions_.by_user.take(users).matrix(self.interactions_.n_items)
        return np.asarray(np.diff((rows != fitted).indptr) == 0)


def blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows that together have at most MAX_CELLS cells, or one row."""
    size = max(MAX_CELLS // max(n_columns, 1), 1)
    return (slice(first, min(first + size, n_rows)) for first in range(0, n_rows, size))


def best(costs: Scores, n: int) -> NDArray[np.int64]:
    """Return the columns (rows, min(n, columns)) of the smallest costs in each row; of equal ones the earlier."""
    n = min(n, costs.shape[1])
    top = np.argpartition(costs, n - 1, axis=1)[:, :n]
    limit = np.take_along_axis(costs, top, axis=1).max(axis=1, keepdims=True)
    # argpartition takes any of those that cost as much as the last: where some are left over, the earlier ones belong
    for r in np.flatnonzero(np.count_nonzero(costs <= limit, axis=1) > n):
        below, equal = np.flatnonzero(costs[r] < limit[r]), np.flatnonzero(costs[r] == limit[r])
        top[r] = np.concatenate([below, equal[: n - len(below)]])
    top.sort(axis=1)
    order = np.argsort(np.take_along_axis(costs, top, axis=1), axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1)
