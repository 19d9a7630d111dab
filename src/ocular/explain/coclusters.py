"""
Which users and items belong to a co-cluster, and what there is to say about it.

A co-cluster's typical item has the strength t = Σ f² / Σ f, the mean over its items where each counts by its strength;
so has its typical user. A user belongs if this co-cluster alone gives them its typical item with probability p or more,
1 − e^(−f·t) ≥ p, and an item belongs if it gives the item to its typical user. That does not change when strength moves
from one side to the other, which the model does not see either, and it lets the weak members of a strong co-cluster in.

By default p is 0.2, or in co-clusters that are weak, as they all are in sparse data, what half of the affinity of a
typical pair amounts to. benchmarks/recovery.py has planted co-clusters come back by this rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.explain.labels import Describer, Trait

MEMBER_PROBABILITY, MEMBER_SHARE = 0.2, 0.5
MOST_OVERLAPS = 10  # that a co-cluster names

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Overlap:
    """What a co-cluster shares with another one."""

    cocluster: int
    users: int
    items: int


@dataclass(frozen=True)
class CoCluster:
    """A group of users and a group of items that belong together."""

    index: int  # column of the factors
    label: str  # from its distinctive items and what its users have in common
    users: Ints  # strongest first
    items: Ints  # strongest first
    user_strengths: NDArray[np.float32]
    item_strengths: NDArray[np.float32]
    density: float  # share of its users × items pairs that are positive
    strength: float  # probability that it gives to a pair of typical members
    share: float  # of all positives that it explains: its part of their affinity
    traits: tuple[Trait, ...]  # attributes that its members have unusually often
    overlaps: tuple[Overlap, ...]  # with the co-clusters it shares most pairs with


@dataclass(frozen=True)
class Members:
    """The factors with everything below the threshold removed; column c holds the members of co-cluster c."""

    users: sp.csc_array  # (n_users, K)
    items: sp.csc_array  # (n_items, K)
    affinity: Floats  # (K,) of a typical pair
    _sorted: dict[tuple[str, int], tuple[Ints, NDArray[np.float32]]] = field(default_factory=dict, repr=False)

    def users_of(self, c: int) -> tuple[Ints, NDArray[np.float32]]:
        """Ids and strengths, strongest first."""
        return self._column("users", c)

    def items_of(self, c: int) -> tuple[Ints, NDArray[np.float32]]:
        """Ids and strengths, strongest first."""
        return self._column("items", c)

    def _column(self, side: str, c: int) -> tuple[Ints, NDArray[np.float32]]:
        if (side, c) not in self._sorted:  # explanations ask for the same ones again and again
            factors = getattr(self, side)
            span = slice(factors.indptr[c], factors.indptr[c + 1])
            rows, strengths = factors.indices[span].astype(np.int64), factors.data[span]
            order = np.lexsort((rows, -strengths))
            self._sorted[side, c] = rows[order], strengths[order]
        return self._sorted[side, c]

    @property
    def per_user(self) -> Ints:
        """In how many co-clusters each user is."""
        return np.bincount(self.users.indices, minlength=self.users.shape[0])

    @property
    def per_item(self) -> Ints:
        """In how many co-clusters each item is."""
        return np.bincount(self.items.indices, minlength=self.items.shape[0])


def find_members(
    user_factors: sp.csr_array, item_factors: sp.csr_array, probability: float | None = None, background: float = 0.0
) -> Members:
    """Who belongs: whom a co-cluster alone joins to its typical member with this probability, or the default rule."""
    users, items = sp.csc_array(user_factors), sp.csc_array(item_factors)
    typical_user, typical_item = _typical(users), _typical(items)
    affinity = typical_user * typical_item
    if probability is None:
        least = np.minimum(-np.log1p(-MEMBER_PROBABILITY), MEMBER_SHARE * affinity)
        least[affinity <= background] = np.inf  # it says less than nothing does, or one side is empty
    else:
        least = np.full(users.shape[1], -np.log1p(-probability))
    return Members(
        _at_least(users, least / np.maximum(typical_item, 1e-12)),
        _at_least(items, least / np.maximum(typical_user, 1e-12)),
        affinity,
    )


def _typical(factors: sp.csc_array) -> Floats:
    """Σ f² / Σ f of each column."""
    total = np.asarray(factors.sum(axis=0, dtype=np.float64)).ravel()
    squares = np.asarray(factors.multiply(factors).sum(axis=0, dtype=np.float64)).ravel()
    typical: Floats = squares / np.maximum(total, 1e-12)
    return typical


def _at_least(factors: sp.csc_array, least: Floats) -> sp.csc_array:
    kept = factors.copy()
    kept.data[kept.data < np.repeat(least, np.diff(kept.indptr))] = 0.0
    kept.eliminate_zeros()
    return kept


def list_coclusters(
    members: Members,
    user_factors: sp.csr_array,
    item_factors: sp.csr_array,
    user_base: Floats,
    item_base: Floats,
    interactions: Interactions,
) -> list[CoCluster]:
    """All with at least one user and one item, in the order of the factors' columns; bases add to every affinity."""
    users, items = _ones(members.users), _ones(members.items)
    bought = interactions.to_matrix()
    n_users, n_items = np.diff(users.indptr), np.diff(items.indptr)
    buyers = users.T.tocsr() @ bought  # (K, n_items)
    pairs = np.asarray(buyers.multiply(items.T.tocsr()).sum(axis=1)).ravel()
    share = _explained(
        user_factors.indptr, user_factors.indices, user_factors.data,
        item_factors.indptr, item_factors.indices, item_factors.data, user_factors.shape[1],
        interactions.by_user.indptr, interactions.by_user.indices, user_base, item_base,
    ) / interactions.nnz  # fmt: skip
    overlaps = _overlaps(users, items)
    describer = Describer(interactions, buyers)
    found = []
    for c in np.flatnonzero((n_users > 0) & (n_items > 0)).tolist():
        u, user_strengths = members.users_of(c)
        i, item_strengths = members.items_of(c)
        label, traits = describer.describe(c, u, i)
        found.append(
            CoCluster(
                index=c,
                label=label,
                users=u,
                items=i,
                user_strengths=user_strengths,
                item_strengths=item_strengths,
                density=float(pairs[c]) / (len(u) * len(i)),
                strength=float(-np.expm1(-members.affinity[c])),
                share=float(share[c]),
                traits=traits,
                overlaps=overlaps[c],
            )
        )
    return found


@njit(cache=True)
def _explained(u_ptr, u_col, u_val, i_ptr, i_col, i_val, K, row_ptr, row_items, user_base, item_base):  # type: ignore[no-untyped-def]  # Numba infers
    """Σ over the positives of f_uc f_ic / z_ui, for each co-cluster c."""
    explained = np.zeros(K)
    f_u = np.zeros(K)
    for u in range(len(row_ptr) - 1):
        for a in range(u_ptr[u], u_ptr[u + 1]):
            f_u[u_col[a]] = u_val[a]
        for r in range(row_ptr[u], row_ptr[u + 1]):
            i = row_items[r]
            z = user_base[u] + item_base[i]
            for b in range(i_ptr[i], i_ptr[i + 1]):
                z += f_u[i_col[b]] * i_val[b]
            for b in range(i_ptr[i], i_ptr[i + 1]):
                explained[i_col[b]] += f_u[i_col[b]] * i_val[b] / z
        for a in range(u_ptr[u], u_ptr[u + 1]):
            f_u[u_col[a]] = 0.0
    return explained


def _overlaps(users: sp.csc_array, items: sp.csc_array) -> list[tuple[Overlap, ...]]:
    """For each co-cluster those that it shares most pairs with; a table of K × K."""
    shared_users, shared_items = (users.T @ users).toarray(), (items.T @ items).toarray()
    shared_pairs = shared_users * shared_items
    np.fill_diagonal(shared_pairs, 0)
    order = np.argsort(-shared_pairs, axis=1, kind="stable")[:, :MOST_OVERLAPS]
    return [
        tuple(Overlap(int(o), int(shared_users[c, o]), int(shared_items[c, o])) for o in others if shared_pairs[c, o])
        for c, others in enumerate(order)
    ]


def _ones(members: sp.csc_array) -> sp.csc_array:
    ones = np.ones(members.nnz, dtype=np.int64)
    return sp.csc_array((ones, members.indices, members.indptr), shape=members.shape)
