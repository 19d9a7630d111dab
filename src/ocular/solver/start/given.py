"""A start that the caller gives: memberships of users and of items."""

from __future__ import annotations

import hashlib
import reprlib
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.ordering import Ordering, taken
from ocular.errors import ConfigError, Parameter
from ocular.solver.config import GIVEN, INITS


def given_start(init: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the memberships of users and of items as dense arrays."""
    try:
        users, items = (np.array(f.toarray() if sp.issparse(f) else f, dtype=np.float32) for f in init)
    except (TypeError, ValueError) as error:
        choices = f"one of {', '.join(INITS)} or two arrays (users, items)"
        raise ConfigError("expected ", Parameter("init"), f" to be {choices}, got {reprlib.repr(init)}") from error
    return users, items


def ordered_start(init: Any, ordering: Ordering) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the memberships that the caller gives in the order of names; where their number is wrong, as they are."""
    sides = zip(given_start(init), (ordering.users, ordering.items), strict=True)
    users, items = (
        taken(table, rows) if rows is not None and len(rows) == len(table) else table for table, rows in sides
    )
    return users, items


def start_name(init: Any) -> str:
    """Return a name that tells one given start from another, so that a checkpoint of another start is refused."""
    digest = hashlib.sha256()
    for rows in given_start(init):
        digest.update(str(rows.shape).encode() + rows.tobytes())
    return GIVEN + digest.hexdigest()
