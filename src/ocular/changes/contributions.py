"""What each kind of evidence adds to many pairs of a client and a product, and the strongest of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.compiling import njit
from ocular.model import OCuLaR

MAX_LINKED = 3  # products that links are named by
CLIENTS_AT_ONCE = 10_000

Ints = NDArray[np.int64]


class Contributions(NamedTuple):
    """What is known of each of n pairs in one model; nan and −1 for pairs that it does not have."""

    z: NDArray[np.float64]  # (n,) affinity
    by_kind: NDArray[np.float64]  # (n, 5) added by patterns, links, peers, taste and appeal
    pattern: NDArray[np.int32]  # (n,) the co-cluster that adds most
    linked: NDArray[np.int32]  # (n, MAX_LINKED) the owned products whose links add most


def contributions(model: OCuLaR, users: Ints, items: Ints) -> Contributions:
    """Return the contributions to pairs; those with a negative row are not in the model."""
    n, evidence = len(users), model.evidence()
    column_ends = np.cumsum(evidence.sizes)
    rows = evidence.item_rows
    table = rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data
    by_kind, pattern = np.full((n, len(column_ends)), np.nan), np.full(n, -1, dtype=np.int32)
    linked = np.full((n, MAX_LINKED), -1, dtype=np.int32)
    there = np.flatnonzero((users >= 0) & (items >= 0))
    there = there[np.argsort(users[there], kind="stable")]
    distinct, first = np.unique(users[there], return_index=True)
    ends = np.append(first, len(there))
    for begin in range(0, len(distinct), CLIENTS_AT_ONCE):
        block = distinct[begin : begin + CLIENTS_AT_ONCE]
        x = evidence.rows_of(block)
        _add_up(
            x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data, *table, column_ends,
            ends[begin : begin + len(block) + 1], there, items, by_kind, pattern, linked,
        )  # fmt: skip
    z = np.full(n, np.nan)
    u, i = users[there], items[there]
    base = model.config_.background + model.bias_
    z[there] = by_kind[there].sum(axis=1) + model.user_bias_[u] + model.item_bias_[i] + base
    return Contributions(z, by_kind, pattern, linked)


@njit(nogil=True, cache=True)
def _add_up(  # type: ignore[no-untyped-def]  # Numba infers
    user_ends, user_columns, user_strengths, item_ends, item_columns, item_strengths, column_ends,
    pair_ends, pairs, items, by_kind, pattern, linked,
):  # fmt: skip
    """Sum by kind over the columns that the rows of a client and a product share."""
    K, width = column_ends[0], column_ends[-1]
    x, largest = np.zeros(width, np.float32), np.empty(linked.shape[1])
    for r in range(len(user_ends) - 1):
        for a in range(user_ends[r], user_ends[r + 1]):
            x[user_columns[a]] = user_strengths[a]
        for at in range(pair_ends[r], pair_ends[r + 1]):
            p = pairs[at]
            by_kind[p] = 0.0
            largest[:] = 0.0
            strongest = 0.0
            for a in range(item_ends[items[p]], item_ends[items[p] + 1]):
                c = item_columns[a]
                added = np.float64(x[c]) * np.float64(item_strengths[a])
                if c < K:
                    by_kind[p, 0] += added
                    if added > strongest:
                        strongest, pattern[p] = added, c
                elif c < column_ends[1]:
                    by_kind[p, 1] += added
                    place = len(largest)
                    while place > 0 and added > largest[place - 1]:
                        place -= 1
                    for later in range(len(largest) - 1, place, -1):
                        largest[later], linked[p, later] = largest[later - 1], linked[p, later - 1]
                    if place < len(largest):
                        largest[place], linked[p, place] = added, c - K
                else:
                    by_kind[p, 2 + (c >= column_ends[2]) + (c >= column_ends[3])] += added
        for a in range(user_ends[r], user_ends[r + 1]):
            x[user_columns[a]] = 0.0
