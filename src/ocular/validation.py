"""What callers pass to the estimator, checked: ids, counts, masks, a start of their own."""

from __future__ import annotations

import hashlib
import reprlib
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import ConfigError, DataError
from ocular.solver.config import GIVEN, INITS

MOST = 1_000_000  # recommendations at once: memory goes with it


def given_start(init: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A start that the user gave: memberships of users and of items."""
    try:
        users, items = (np.array(f.toarray() if sp.issparse(f) else f, dtype=np.float32) for f in init)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"expected init to be one of {', '.join(INITS)} or two arrays (users, items), got {reprlib.repr(init)}"
        ) from error
    return users, items


def start_name(init: Any) -> str:
    """Tells one given start from another, so that a checkpoint of another one is not taken up."""
    digest = hashlib.sha256()
    for rows in given_start(init):
        digest.update(str(rows.shape).encode() + rows.tobytes())
    return GIVEN + digest.hexdigest()


def frame_labels(X: Any) -> dict[str, list[str]]:
    """The names of a pandas table of clients × products; none of anything else."""
    if not (hasattr(X, "columns") and hasattr(X, "index")):
        return {}
    named = {"user_labels": [str(name) for name in X.index], "item_labels": [str(name) for name in X.columns]}
    return {side: names for side, names in named.items() if len(set(names)) == len(names)}


def check_count(N: object) -> None:
    if not isinstance(N, int | np.integer) or isinstance(N, bool) or not 1 <= N <= MOST:
        raise ConfigError(f"expected N to be a whole number from 1 to {MOST:,}, got {N!r}")


def single_id(ids: NDArray[np.int64], kind: str) -> int:
    if ids.size != 1:
        raise DataError(f"expected one {kind} id, got {ids.size}")
    return int(ids.flat[0])


def checked_ids(ids: int | ArrayLike, n: int, kind: str) -> NDArray[np.int64]:
    given = np.asarray(ids)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise DataError(
            f"expected whole numbers as {kind} ids, got {given.dtype}; names go through interactions_.{kind}_index"
        )
    if given.size and (given.min() < 0 or given.max() >= n):
        raise DataError(f"expected {kind} ids from 0 to {n - 1}, got {given.min() if given.min() < 0 else given.max()}")
    return np.atleast_1d(given).astype(np.int64)


def allowed_rows(only: ArrayLike | None, without: ArrayLike | None, n: int, kind: str) -> NDArray[np.bool_] | None:
    if only is None and without is None:
        return None
    allowed = np.full(n, only is None)
    if only is not None:
        allowed[checked_ids(only, n, kind)] = True
    if without is not None:
        allowed[checked_ids(without, n, kind)] = False
    return allowed


def given_rows(user_items: Any, n_items: int, min_value: float | None = None) -> Adjacency:
    """What users own, given as an Interactions or a matrix with a column for each item."""
    given = isinstance(user_items, Interactions)
    rows = user_items if given else Interactions.from_matrix(user_items, min_value=min_value)
    if rows.n_items != n_items:
        raise DataError(f"expected a column for each of {n_items} items, got {rows.n_items}")
    return rows.by_user


def rows_of(ids: NDArray[np.int64], rows: Adjacency, n_users: int) -> Adjacency:
    """The row of each id: a row for each of them is taken as it is, one for every fitted user is looked up."""
    if len(rows) == len(ids):
        return rows
    if len(rows) == n_users:
        return rows.take(ids)
    raise DataError(f"expected user_items with a row for each of {len(ids)} ids or of {n_users} users, got {len(rows)}")
