"""The purchases of one model in the numbering of another, matched by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions

Ints = NDArray[np.int64]


def rows_by_label(rows: Mapping[str, int], labels: NDArray[Any]) -> Ints:
    """Return the row of each label, −1 where there is none; `rows` are by label as text."""
    return np.array([rows.get(str(label), -1) for label in labels.tolist()], dtype=np.int64)


def pair_codes(interactions: Interactions, users: Ints, items: Ints, n_items: int) -> Ints:
    """
    Return a number for each pair: row · n_items + column, −1 where either is not known.

    `users` and `items` are the rows and columns in the other numbering, which has n_items columns.
    """
    row, column = users[interactions.pair_users], items[interactions.by_user.indices]
    return np.where((row >= 0) & (column >= 0), row * n_items + column, -1)
