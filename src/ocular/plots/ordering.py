"""
Which clients and products a picture shows, and in which order, so that overlapping co-clusters are seen as blocks.

Co-clusters form a chain in which those that share members are neighbours. A client or product stands where its
co-clusters are on the chain, weighted by its strength in them, so that who belongs to two neighbours lies between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

Ids = NDArray[np.int64]
Members = tuple[NDArray[Any], NDArray[Any]]  # ids and their strengths, strongest first
FEW = 5  # members that each co-cluster of a sample can show at least


class Group(Protocol):
    """What a picture needs of a co-cluster."""

    @property
    def index(self) -> int: ...
    @property
    def label(self) -> str: ...
    @property
    def users(self) -> NDArray[Any]: ...
    @property
    def items(self) -> NDArray[Any]: ...
    @property
    def user_strengths(self) -> NDArray[Any]: ...
    @property
    def item_strengths(self) -> NDArray[Any]: ...
    @property
    def density(self) -> float: ...
    @property
    def share(self) -> float: ...


@dataclass(frozen=True)
class Arrangement:
    """Rows, columns and co-clusters of a picture in the order in which they are drawn."""

    users: Ids
    items: Ids
    coclusters: list[Group]


def arrange(coclusters: Sequence[Group], shape: tuple[int, int], most: int, most_coclusters: int = 8) -> Arrangement:
    """All of a side with at most `most` rows; otherwise the strongest members of the clearest co-clusters."""
    count = max(1, min(most_coclusters, most // FEW))
    # what explains most purchases, but dense ones first: a block with holes everywhere shows nothing
    chosen = chain(sorted(coclusters, key=lambda group: -group.share * group.density)[:count])
    users = [(group.users, group.user_strengths) for group in chosen]
    items = [(group.items, group.item_strengths) for group in chosen]
    return Arrangement(_side(users, shape[0], most), _side(items, shape[1], most), chosen)


def chain(coclusters: Sequence[Group]) -> list[Group]:
    """The co-clusters with those that share members side by side: the optimal order of a cluster tree's leaves."""
    if len(coclusters) < 3:
        return list(coclusters)
    alike = _overlap([group.users for group in coclusters]) + _overlap([group.items for group in coclusters])
    apart = (2.0 - alike)[np.triu_indices(len(coclusters), 1)]
    order = leaves_list(linkage(apart, "average", optimal_ordering=True)).tolist()
    return [coclusters[c] for c in (order if order[0] <= order[-1] else order[::-1])]


def _overlap(members: list[NDArray[Any]]) -> NDArray[np.float64]:
    """(K, K) shared members as a share of the smaller of two groups."""
    sizes = np.array([len(ids) for ids in members])
    columns = np.repeat(np.arange(len(members)), sizes)
    held = sp.csr_array((np.ones(len(columns)), (np.concatenate(members), columns)))
    shared: NDArray[np.float64] = (held.T @ held).toarray()
    shared /= np.minimum.outer(sizes, sizes)
    return shared


def _side(members: list[Members], size: int, most: int) -> Ids:
    """The shown rows: each with those whose strongest group is the same, leaning towards its other groups."""
    chosen = np.arange(size) if size <= most else _strongest(members, most)
    strength = np.zeros((len(chosen), len(members) + 1))
    strength[:, -1] = 1e-9  # the end of the chain, for who is in no group
    for position, (ids, strengths) in enumerate(members):
        held = dict(zip(ids.tolist(), (strengths / strengths[0]).tolist(), strict=True))
        strength[:, position] = [held.get(row, 0.0) for row in chosen.tolist()]
    mean = strength @ np.arange(len(members) + 1) / strength.sum(axis=1)
    return chosen[np.lexsort((chosen, mean, strength.argmax(axis=1)))]


def _strongest(members: list[Members], most: int) -> Ids:
    """The strongest of every group, then the second of every group, and so on."""
    turns = zip_longest(*(ids[:most].tolist() for ids, _ in members))
    distinct = dict.fromkeys(member for turn in turns for member in turn if member is not None)
    return np.array(list(distinct)[:most], dtype=np.int64)
