"""What callers pass in place of Interactions: matrices and frames of users × items, and rows of single users."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import DataError


def as_interactions(X: Any, min_value: float | None = None) -> Interactions:
    """Return an Interactions as it is, and a matrix or a pandas table of clients × products as Interactions."""
    if isinstance(X, Interactions):
        return X
    return Interactions.from_matrix(X, min_value=min_value, **frame_labels(X))


def frame_labels(X: Any) -> dict[str, Any]:
    """Return the names in a pandas table of clients × products; none for anything else."""
    if not (hasattr(X, "columns") and hasattr(X, "index")):
        return {}
    named = {"user_labels": [str(name) for name in X.index], "item_labels": [str(name) for name in X.columns]}
    return {side: names for side, names in named.items() if len(set(names)) == len(names)}


def check_positives(interactions: Interactions) -> Interactions:
    """Return the interactions, or raise where there is nothing to learn from."""
    if interactions.nnz == 0:
        raise DataError(f"expected at least one positive, got none in {interactions.n_users} × {interactions.n_items}")
    return interactions


def owned_rows(user_items: Any, n_items: int, min_value: float | None = None) -> Adjacency:
    """Return what users own, given as Interactions or as a matrix with a column for each item."""
    rows = as_interactions(user_items, min_value)
    if rows.n_items != n_items:
        raise DataError(f"expected a column for each of {n_items} items, got {rows.n_items}")
    return rows.by_user


def rows_for_ids(ids: NDArray[np.int64], rows: Adjacency, n_users: int) -> Adjacency:
    """Return a row for each id: as many rows as ids are taken as they are, one for every fitted user is looked up."""
    if len(rows) == len(ids):
        return rows
    if len(rows) == n_users:
        return rows.take(ids)
    raise DataError(f"expected user_items with a row for each of {len(ids)} ids or of {n_users} users, got {len(rows)}")
