"""
Which users and items belong to a co-cluster.

Two members of strength δ are joined with probability 1 − e^(−δ²) by that co-cluster alone. A user and an item belong
if they reach δ = √(−log(1 − p)) for a chosen p. What one side has in strength the other may lack without a change of
the model, so strengths are first brought to the same largest value on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

MEMBER_PROBABILITY = 0.1


@dataclass(frozen=True)
class CoCluster:
    """A group of users and a group of items that belong together."""

    index: int
    users: NDArray[np.int64]  # strongest first
    items: NDArray[np.int64]  # strongest first
    user_strengths: NDArray[np.float32]
    item_strengths: NDArray[np.float32]
    density: float  # share of its users × items pairs that are positive


def memberships(
    user_factors: sp.csr_array, item_factors: sp.csr_array, probability: float = MEMBER_PROBABILITY
) -> tuple[sp.csc_array, sp.csc_array]:
    """The factors with every entry below the threshold removed; column c holds the members of co-cluster c."""
    users, items = sp.csc_array(user_factors), sp.csc_array(item_factors)
    largest = np.column_stack([users.max(axis=0).toarray(), items.max(axis=0).toarray()])
    least = np.sqrt(-np.log1p(-probability))
    balance = np.sqrt(np.divide(largest[:, 0], largest[:, 1], out=np.ones(len(largest)), where=largest[:, 1] > 0))
    return _at_least(users, least * balance), _at_least(items, least / np.maximum(balance, 1e-12))


def _at_least(factors: sp.csc_array, least: NDArray[np.float64]) -> sp.csc_array:
    kept = factors.copy()
    kept.data[kept.data < np.repeat(least, np.diff(kept.indptr))] = 0.0
    kept.eliminate_zeros()
    return kept


def list_coclusters(
    user_factors: sp.csr_array,
    item_factors: sp.csr_array,
    positives: sp.csr_array,
    probability: float = MEMBER_PROBABILITY,
) -> list[CoCluster]:
    """All co-clusters with at least one user and one item, in the order of the factors' columns."""
    users, items = memberships(user_factors, item_factors, probability)
    found = []
    for c in range(users.shape[1]):
        u, user_strengths = _column(users, c)
        i, item_strengths = _column(items, c)
        if len(u) and len(i):
            density = positives[u][:, i].nnz / (len(u) * len(i))
            found.append(CoCluster(c, u, i, user_strengths, item_strengths, density))
    return found


def _column(factors: sp.csc_array, c: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    rows = factors.indices[factors.indptr[c] : factors.indptr[c + 1]].astype(np.int64)
    strengths = factors.data[factors.indptr[c] : factors.indptr[c + 1]]
    order = np.lexsort((rows, -strengths))
    return rows[order], strengths[order]
