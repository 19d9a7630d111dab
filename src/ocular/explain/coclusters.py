"""
The co-clusters of a model: which users and items belong to each, and what describes it.

A co-cluster's typical item has the strength t = Σ f² / Σ f, the mean over its items where each counts by its strength;
so has its typical user. A user belongs if this co-cluster alone gives them its typical item with probability p or more,
1 − e^(−f·t) ≥ p, and an item belongs if it gives the item to its typical user. That does not change when strength moves
from one side to the other, which the model does not see either, and it lets the weak members of a strong co-cluster in.

By default p is 0.2, or in co-clusters that are weak, as they all are in sparse data, what half of the affinity of a
typical pair amounts to. benchmarks/recovery.py has planted co-clusters come back by this rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.compiling import njit
from ocular.data.interactions import Interactions
from ocular.explain.labels import Describer, Trait
from ocular.explain.notebook import html_table

MEMBER_PROBABILITY, MEMBER_SHARE = 0.2, 0.5
MAX_OVERLAPS = 10  # that a co-cluster names
MAX_LINES = 10  # of a list of co-clusters that is printed

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Overlap:
    """The number of users and items that a co-cluster shares with another one."""

    cocluster: int
    users: int
    items: int


@dataclass(frozen=True, eq=False, repr=False)
class CoCluster:
    """A set of users and a set of items that belong together."""

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

    def __repr__(self) -> str:
        size = f"{_counted(len(self.users), 'client')} × {_counted(len(self.items), 'product')}"
        return f"CoCluster({self.index}, {self.label!r}, {size}, density {self.density:.0%})"


class CoClusters(list[CoCluster]):
    """The co-clusters of a model: a list that prints short, shows as a table in notebooks and becomes a frame."""

    def __init__(self, coclusters: Iterable[CoCluster], interactions: Interactions) -> None:
        super().__init__(coclusters)
        self._interactions = interactions

    def __repr__(self) -> str:
        lines = [f"  {cocluster!r}" for cocluster in self[:MAX_LINES]]
        more = [f"  … {len(self) - MAX_LINES:,} more; to_frame() has all"] if len(self) > MAX_LINES else []
        return "\n".join([f"CoClusters({len(self):,})", *lines, *more])

    def _repr_html_(self) -> str:
        rows = [
            {
                "co-cluster": c.index,
                "label": c.label,
                "clients": len(c.users),
                "products": len(c.items),
                "density": f"{c.density:.0%}",
                "share of purchases": f"{c.share:.1%}",
            }
            for c in self
        ]
        return html_table(rows, _counted(len(self), "co-cluster"))

    def to_frame(self) -> Any:
        """Return a row per co-cluster, as the kind of frame that the purchases came in (polars by default)."""
        frame = pl.DataFrame(
            {
                "cocluster": [c.index for c in self],
                "label": [c.label for c in self],
                "clients": [len(c.users) for c in self],
                "products": [len(c.items) for c in self],
                "density": [c.density for c in self],
                "strength": [c.strength for c in self],
                "share": [c.share for c in self],
                "traits": ["; ".join(map(str, c.traits)) for c in self],
            },
            schema={"cocluster": pl.Int64, "label": pl.String, "clients": pl.Int64, "products": pl.Int64,
                    "density": pl.Float64, "strength": pl.Float64, "share": pl.Float64, "traits": pl.String},
        )  # fmt: skip
        return self._interactions.native(frame)

    def members_frame(self) -> Any:
        """
        Return a row per member of a co-cluster, strongest first: all clients of the first, its products, and so on.

        `key` is the label in the purchases (as text where clients and products have different kinds of labels), `name`
        is what people read.
        """
        data = self._interactions
        keys = [pl.Series(labels.tolist()) for labels in (data.user_labels, data.item_labels)]
        if keys[0].dtype != keys[1].dtype:
            keys = [key.cast(pl.String) for key in keys]
        names = (
            pl.Series([str(data.user_name(user)) for user in range(data.n_users)], dtype=pl.String),
            pl.Series([str(data.item_name(item)) for item in range(data.n_items)], dtype=pl.String),
        )
        parts = [
            pl.DataFrame({"key": keys[n].gather(rows), "name": names[n].gather(rows), "strength": strengths})
            .select(pl.lit(c.index, pl.Int64).alias("cocluster"), pl.lit(side).alias("side"), pl.all())
            for c in self
            for n, side, rows, strengths in (
                (0, "client", c.users, c.user_strengths), (1, "product", c.items, c.item_strengths)
            )
        ]  # fmt: skip
        schema: dict[str, Any] = {"cocluster": pl.Int64, "side": pl.String, "key": keys[0].dtype, "name": pl.String,
                  "strength": pl.Float32}  # fmt: skip
        return data.native(pl.concat(parts) if parts else pl.DataFrame(schema=schema))


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


@dataclass(frozen=True)
class Members:
    """The factors with everything below the threshold removed; column c holds the members of co-cluster c."""

    users: sp.csc_array  # (n_users, K)
    items: sp.csc_array  # (n_items, K)
    affinity: Floats  # (K,) of a typical pair
    _sorted: dict[tuple[str, int], tuple[Ints, NDArray[np.float32]]] = field(default_factory=dict, repr=False)

    def users_of(self, c: int) -> tuple[Ints, NDArray[np.float32]]:
        """Return ids and strengths, strongest first."""
        return self._column("users", c)

    def items_of(self, c: int) -> tuple[Ints, NDArray[np.float32]]:
        """Return ids and strengths, strongest first."""
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
        """The number of co-clusters that each user is in."""
        return np.bincount(self.users.indices, minlength=self.users.shape[0])

    @property
    def per_item(self) -> Ints:
        """The number of co-clusters that each item is in."""
        return np.bincount(self.items.indices, minlength=self.items.shape[0])


def find_members(
    user_factors: sp.csr_array, item_factors: sp.csr_array, probability: float | None = None, background: float = 0.0
) -> Members:
    """
    Return the members of each co-cluster.

    A member is whom the co-cluster alone joins to its typical member with this probability; None is the default rule.
    """
    users, items = sp.csc_array(user_factors), sp.csc_array(item_factors)
    typical_user, typical_item = _typical(users), _typical(items)
    affinity = typical_user * typical_item
    if probability is None:
        z = np.minimum(-np.log1p(-MEMBER_PROBABILITY), MEMBER_SHARE * affinity)
        z[affinity <= background] = np.inf  # weaker than the background, or one side is empty
    else:
        z = np.full(users.shape[1], -np.log1p(-probability))
    return Members(
        _at_least(users, z / np.maximum(typical_item, 1e-12)),
        _at_least(items, z / np.maximum(typical_user, 1e-12)),
        affinity,
    )


def _typical(factors: sp.csc_array) -> Floats:
    """Return Σ f² / Σ f of each column."""
    total = np.asarray(factors.sum(axis=0, dtype=np.float64)).ravel()
    squares = np.asarray(factors.multiply(factors).sum(axis=0, dtype=np.float64)).ravel()
    typical: Floats = squares / np.maximum(total, 1e-12)
    return typical


def _at_least(factors: sp.csc_array, thresholds: Floats) -> sp.csc_array:
    """Return the factors without the entries below their column's threshold."""
    strong = factors.copy()
    strong.data[strong.data < np.repeat(thresholds, np.diff(strong.indptr))] = 0.0
    strong.eliminate_zeros()
    return strong


def list_coclusters(
    members: Members,
    user_factors: sp.csr_array,
    item_factors: sp.csr_array,
    user_base: Floats,
    item_base: Floats,
    interactions: Interactions,
    kept_labels: Mapping[int, str] | None = None,
) -> CoClusters:
    """Return those with at least a user and an item, by column of the factors; bases add to every affinity."""
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
    listed = np.flatnonzero((n_users > 0) & (n_items > 0)).tolist()
    both_sides = [(c, members.users_of(c)[0], members.items_of(c)[0]) for c in listed]
    described = Describer(interactions, buyers).describe(both_sides, kept_labels)
    coclusters = []
    for c, (label, traits) in zip(listed, described, strict=True):
        u, user_strengths = members.users_of(c)
        i, item_strengths = members.items_of(c)
        coclusters.append(
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
    return CoClusters(coclusters, interactions)


@njit(cache=True)
def _explained(u_ptr, u_col, u_val, i_ptr, i_col, i_val, K, row_ptr, row_items, user_base, item_base):  # type: ignore[no-untyped-def]  # Numba infers
    """Return for each co-cluster c the sum over the positives of f_uc f_ic / z_ui."""
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
    """Return for each co-cluster those that it shares most pairs with; builds a table of K × K."""
    shared_users, shared_items = (users.T @ users).toarray(), (items.T @ items).toarray()
    shared_pairs = shared_users * shared_items
    np.fill_diagonal(shared_pairs, 0)
    order = np.argsort(-shared_pairs, axis=1, kind="stable")[:, :MAX_OVERLAPS]
    return [
        tuple(Overlap(int(o), int(shared_users[c, o]), int(shared_items[c, o])) for o in others if shared_pairs[c, o])
        for c, others in enumerate(order)
    ]


def _ones(members: sp.csc_array) -> sp.csc_array:
    ones = np.ones(members.nnz, dtype=np.int64)
    return sp.csc_array((ones, members.indices, members.indptr), shape=members.shape)
