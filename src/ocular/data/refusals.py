"""Refusals: pairs of a client and a product that are known not to fit, in whatever form a caller has them."""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import DataError

MAX_NAMES = 3  # that a note shows
Ints = NDArray[np.int64]
_log = logging.getLogger("ocular")


def refused_rows(refusals: Any, interactions: Interactions) -> Adjacency:
    """
    Return what each client refused, user -> items.

    `refusals` are Interactions (by name), a users × items matrix, or pairs (client, product) by name. Names that the
    purchases do not have are ignored, and so are pairs that were bought after all; a note says how many.
    """
    if sp.issparse(refusals) or (isinstance(refusals, np.ndarray) and refusals.shape == interactions.shape):
        users, items = _of_matrix(refusals, interactions)
    else:
        users, items = _of_names(_names(refusals), interactions)
    n_items = interactions.n_items
    codes = np.unique(users * n_items + items)
    bought = np.isin(codes, interactions.pair_users.astype(np.int64) * n_items + interactions.by_user.indices)
    if bought.any():
        _log.warning(
            "%s of %s refused pairs were bought; the purchase counts, the refusal does not",
            f"{int(bought.sum()):,}", f"{len(codes):,}",
        )  # fmt: skip
    codes = codes[~bought]
    ends = np.searchsorted(codes, np.arange(interactions.n_users + 1) * n_items).astype(np.int64)
    return Adjacency(ends, (codes % n_items).astype(np.int32))


def refusals_of(interactions: Interactions) -> list[tuple[Any, Any]] | None:
    """Return what was refused as pairs (client, product) by name; None where nothing was."""
    refused = interactions.refusals
    if refused is None:
        return None
    users = np.repeat(interactions.user_labels, refused.degrees)
    return list(zip(users.tolist(), interactions.item_labels[refused.indices].tolist(), strict=True))


def _of_matrix(refusals: Any, interactions: Interactions) -> tuple[Ints, Ints]:
    if refusals.shape != interactions.shape:
        raise DataError(f"expected refusals of shape {interactions.shape}, got {refusals.shape}")
    users, items = refusals.nonzero()
    return users.astype(np.int64), items.astype(np.int64)


def _names(refusals: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(refusals, Interactions):
        users, items = refusals.user_labels[refusals.pair_users], refusals.item_labels[refusals.by_user.indices]
        return zip(users.tolist(), items.tolist(), strict=True)
    try:
        pairs = [(client, product) for client, product in refusals]
    except (TypeError, ValueError):
        raise DataError(
            f"expected refusals as pairs (client, product), a matrix or Interactions, got {reprlib.repr(refusals)}"
        ) from None
    return pairs


def _of_names(pairs: Iterable[tuple[Any, Any]], interactions: Interactions) -> tuple[Ints, Ints]:
    rows, n = [], 0
    unknown: dict[str, None] = {}  # in the order they come
    for client, product in pairs:
        n += 1
        u, i = interactions.find_user(client), interactions.find_item(product)
        if u is None or i is None:
            unknown[str(client if u is None else product)] = None
        else:
            rows.append((u, i))
    if len(rows) < n:
        shown = ", ".join(map(repr, list(unknown)[:MAX_NAMES])) + (", …" if len(unknown) > MAX_NAMES else "")
        _log.warning(
            "%s of %s refusals are of clients or products without purchases and are ignored: %s",
            f"{n - len(rows):,}", f"{n:,}", shown,
        )  # fmt: skip
    found = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
