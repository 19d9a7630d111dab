"""
The order of names, in which everything is fitted: the order that rows come in must not change a recommendation.

Random numbers, sums of float32 and ties all go by position. A fit therefore puts clients and products into the order of
their names first, as a reader numbers them, and its result back into the order of the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions, Labels

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ordering:
    """The rows of clients and of products in the order of their names; None where they come in it already."""

    users: Ints | None = None
    items: Ints | None = None

    @classmethod
    def of(cls, interactions: Interactions) -> Ordering:
        """Return the ordering of these clients and products."""
        return cls(_sorted(interactions.user_labels), _sorted(interactions.item_labels))

    @property
    def is_given(self) -> bool:
        """Whether clients and products come in order already, so that nothing has to be done."""
        return self.users is None and self.items is None

    @cached_property
    def user_ranks(self) -> Ints | None:
        """The place of each client in the order of names."""
        return None if self.users is None else np.argsort(self.users)

    @cached_property
    def item_ranks(self) -> Ints | None:
        """The place of each product in the order of names."""
        return None if self.items is None else np.argsort(self.items)

    def sort(self, interactions: Interactions) -> Interactions:
        """Return who bought what in the order of names, with weights, refusals and attributes, without amounts."""
        if self.is_given:
            return interactions
        rows = interactions.by_user if self.users is None else interactions.by_user.take(self.users)
        labels = taken(interactions.user_labels, self.users), taken(interactions.item_labels, self.items)
        return Interactions(
            self.sort_columns(rows),
            interactions.n_items,
            *labels,
            user_attributes={name: taken(cells, self.users) for name, cells in interactions.user_attributes.items()},
            item_attributes={name: taken(cells, self.items) for name, cells in interactions.item_attributes.items()},
        )

    def sort_columns(self, rows: Adjacency) -> Adjacency:
        """Return rows of products with the products in the order of names."""
        if self.item_ranks is None:
            return rows
        values = np.ones(len(rows.indices), dtype=np.int8) if rows.weights is None else rows.weights.copy()
        shape = len(rows), len(self.item_ranks)
        matrix = sp.csr_array((values, self.item_ranks[rows.indices].astype(np.int32), rows.indptr), shape=shape)
        matrix.sort_indices()
        weights = None if rows.weights is None else matrix.data
        refused = None if rows.refused is None else self.sort_columns(rows.refused)
        return Adjacency(rows.indptr, matrix.indices.astype(np.int32), weights, refused)

    def column_ranks(self, n_first: int, n_items: int, n_users: int, n_last: int = 0) -> Ints | None:
        """Return the places of columns: others, then products, then clients, each all or none, then others."""
        if (self.item_ranks is None or not n_items) and (self.user_ranks is None or not n_users):
            return None
        items = np.arange(n_items) if self.item_ranks is None else self.item_ranks[:n_items]
        users = np.arange(n_users) if self.user_ranks is None else self.user_ranks[:n_users]
        last = n_first + n_items + n_users + np.arange(n_last)
        return np.concatenate([np.arange(n_first), n_first + items, n_first + n_items + users, last])


def taken(table: Any, rows: Ints | None) -> Any:
    """Return the rows of an array or a sparse table in another order; None leaves them as they are."""
    return table if rows is None else table[rows]


def taken_twice(table: sp.csr_array, rows: Ints | None) -> sp.csr_array:
    """Return a square table with its rows and its columns in another order."""
    if rows is None:
        return table
    moved = sp.csr_array(table[rows][:, rows])
    moved.sort_indices()
    return moved


def _sorted(labels: Labels) -> Ints | None:
    if bool((labels[:-1] <= labels[1:]).all()):
        return None
    return np.argsort(labels, kind="stable")
