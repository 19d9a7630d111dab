"""
Nearest neighbours by cosine, which explain themselves: similar clients bought it, or the client has similar products.

This is our own implementation because no library at hand serves users and items alike: scikit-learn's NearestNeighbors
breaks ties arbitrarily and counts a row as its own neighbour; implicit has only the item side, counts an item as its
own neighbour, and sums over the neighbours of what the client has instead of those of the candidate, which finds fewer
of the held-out purchases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ocular.baselines.base import Baseline, Scores
from ocular.compiling import njit
from ocular.data.interactions import Adjacency, Interactions
from ocular.explain.names import client_name, isolated, join_names, product_name
from ocular.scoring import offer
from ocular.solver.config import FitConfig
from ocular.solver.pool import RowPool
from ocular.validation import check_id, check_whole


@dataclass(frozen=True, eq=False)
class Evidence:
    """The reasons for a score: neighbours, strongest first, whose contributions sum to it."""

    user: int
    item: int
    neighbours: tuple[int, ...]
    contributions: tuple[float, ...]
    interactions: Interactions

    @property
    def score(self) -> float:
        return sum(self.contributions)

    @property
    def _client(self) -> str:
        return isolated(client_name(self.interactions.user_name(self.user)))

    @property
    def _product(self) -> str:
        return isolated(product_name(self.interactions.item_name(self.item)))

    def _because(self) -> str:
        if self.item in self.interactions.by_user[self.user]:
            return f"{self._product}, which {self._client} has already, scores {self.score:.2f} because"
        return f"{self._product} is recommended to {self._client} because"

    def _names(self, name: Callable[[int], Any], noun: str) -> str:
        return join_names([name(row) for row in self.neighbours], noun, isolated)


class SimilarClients(Evidence):
    """Evidence whose `neighbours` are users."""

    def text(self) -> str:
        """Return the reason in a sentence."""
        if not self.neighbours:
            return f"There is no reason for {self._product}: no client similar to {self._client} bought it."
        similar = "similar clients" if len(self.neighbours) > 1 else "a similar client"
        return f"{self._because()} {similar} ({self._names(self.interactions.user_name, 'Client')}) bought it."


class SimilarProducts(Evidence):
    """Evidence whose `neighbours` are items."""

    def text(self) -> str:
        """Return the reason in a sentence."""
        if not self.neighbours:
            return f"There is no reason for {self._product}: {self._client} has no product similar to it."
        return f"{self._because()} the client has {self._names(self.interactions.item_name, 'Item')}."


class _KNN(Baseline):
    """k nearest neighbours, of users or of items."""

    def __init__(self, k: int = 80) -> None:
        self.k = k

    def check(self, shape: tuple[int, int]) -> None:  # noqa: ARG002  any size will do
        check_whole(self.k, "k", 1)

    def _pair(self, user: int, item: int) -> tuple[int, int]:
        check_is_fitted(self)
        ids = zip((user, item), self.interactions_.shape, ("user", "item"), strict=True)
        u, i = (check_id(given, n, kind) for given, n, kind in ids)
        return u, i


class UserKNN(_KNN):
    """
    Items that similar users have: score(u, i) = Σ cos(u, v) over those of the k users nearest to u who have i.

    Parameters
    ----------
    k : int
        Neighbours of a user, who is not one of them; of equally near ones the earlier count.

    Attributes
    ----------
    neighbours_ : scipy CSR array (n_users, n_users), float32
        Cosines of each user's neighbours.
    """

    def _fit(self, matrix: sp.csr_array) -> None:
        self.neighbours_ = nearest(matrix, matrix, self.k, own=True)
        self._matrix = matrix

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:
        known = self._as_fitted(rows, users)
        scores = np.empty(rows.shape, dtype=np.float32)
        scores[known] = (self.neighbours_[users[known]] @ self._matrix).toarray()
        if not known.all():
            scores[~known] = (nearest(rows[~known], self._matrix, self.k) @ self._matrix).toarray()
        return scores

    def explain(self, user: int, item: int) -> SimilarClients:
        """Return the neighbours of a fitted user who have the item, with their cosines."""
        u, i = self._pair(user, item)
        near = self.neighbours_[[u]]
        buyers = np.isin(near.indices, self.interactions_.by_item[i])
        return SimilarClients(u, i, *_strongest(near.indices[buyers], near.data[buyers]), self.interactions_)


class ItemKNN(_KNN):
    """
    Items similar to the user's own: score(u, i) = Σ cos(i, j) over those of the k items nearest to i that u has.

    Parameters
    ----------
    k : int
        Neighbours of an item, which is not one of them; of equally near ones the earlier count.

    Attributes
    ----------
    neighbours_ : scipy CSR array (n_items, n_items), float32
        Cosines of each item's neighbours.
    """

    def _fit(self, matrix: sp.csr_array) -> None:
        by_item = matrix.T.tocsr()
        self.neighbours_ = nearest(by_item, by_item, self.k, own=True)
        self._gains = self.neighbours_.T.tocsr()  # row j: what having j adds to each item

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:  # noqa: ARG002  rows say it all
        return np.asarray((rows @ self._gains).toarray())

    def explain(self, user: int, item: int) -> SimilarProducts:
        """Return the neighbours of the item that a fitted user has, with their cosines."""
        u, i = self._pair(user, item)
        near = self.neighbours_[[i]]
        owned = np.isin(near.indices, self.interactions_.by_user[u])
        return SimilarProducts(u, i, *_strongest(near.indices[owned], near.data[owned]), self.interactions_)


def nearest(rows: sp.csr_array, others: sp.csr_array, k: int, own: bool = False) -> sp.csr_array:
    """
    Return the cosines (n_rows, n_others) of the k others nearest to each row of zeros and ones, if above 0.

    Of equally near ones the earlier count. With `own` the rows are the others, and none is its own neighbour.
    """
    k = min(k, others.shape[0])
    turned, given = (Adjacency(m.indptr.astype(np.int64), m.indices.astype(np.int32)) for m in (others.T.tocsr(), rows))
    counts = np.zeros(len(given), dtype=np.int64)
    ids, squares = np.empty((len(given), k), dtype=np.int32), np.empty((len(given), k))
    with RowPool(FitConfig().threads) as pool:
        pool.run(
            _nearest_rows, given, given.indptr, given.indices, turned.indptr, turned.indices,
            np.diff(others.indptr).astype(np.int64), own, ids, squares, counts,
        )  # fmt: skip
    filled = np.arange(k) < counts[:, None]
    ends = np.concatenate([[0], np.cumsum(counts)])
    joined = sp.csr_array(
        (np.sqrt(squares[filled]).astype(np.float32), ids[filled], ends), shape=(len(given), others.shape[0])
    )
    joined.sort_indices()
    return joined


@njit(nogil=True, cache=True)
def _nearest_rows(row_ptr, columns, turned_ptr, turned, sizes, own, ids, squares, counts, first_row, last_row):  # type: ignore[no-untyped-def]  # Numba infers
    """Fill ids and squared cosines: ratios of whole numbers, so that equal ones are equal to the last bit."""
    shared, seen = np.zeros(len(sizes), np.int64), np.empty(len(sizes), np.int32)
    for r in range(first_row, last_row):
        n = 0
        for column in columns[row_ptr[r] : row_ptr[r + 1]]:
            for other in turned[turned_ptr[column] : turned_ptr[column + 1]]:
                if shared[other] == 0:
                    seen[n] = other
                    n += 1
                shared[other] += 1
        size = 0
        for other in seen[:n]:
            square = shared[other] * shared[other] / ((row_ptr[r + 1] - row_ptr[r]) * sizes[other])
            shared[other] = 0
            if own and other == r:
                continue
            size = offer(squares[r], ids[r], size, square, other)
        counts[r] = size


def _strongest(neighbours: NDArray[np.int32], cosines: Scores) -> tuple[tuple[int, ...], tuple[float, ...]]:
    order = np.lexsort((neighbours, -cosines))
    return tuple(neighbours[order].tolist()), tuple(cosines[order].tolist())
