"""
The order of clients and products in a picture, such that overlapping co-clusters are seen as blocks.

Co-clusters form a chain in which those that share members are neighbours. A client or product stands where its
co-clusters are on the chain, weighted by its strength in them, so that who belongs to two neighbours lies between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

from ocular.explain.coclusters import CoCluster

Ids = NDArray[np.int64]
Members = tuple[NDArray[Any], NDArray[Any]]  # ids and their strengths, strongest first
MIN_MEMBERS = 5  # that each co-cluster of a sample can show


@dataclass(frozen=True)
class Arrangement:
    """Rows, columns and co-clusters of a picture in the order in which they are drawn."""

    users: Ids
    items: Ids
    coclusters: list[CoCluster]


def arrange(
    coclusters: Sequence[CoCluster], shape: tuple[int, int], max_rows: int, max_coclusters: int = 8
) -> Arrangement:
    """Return all of a side with at most `max_rows`; otherwise the strongest members of the clearest co-clusters."""
    count = max(1, min(max_coclusters, max_rows // MIN_MEMBERS))
    # what explains most purchases, but dense ones first: a block with holes everywhere shows nothing
    chosen = chain(sorted(coclusters, key=lambda cocluster: -cocluster.share * cocluster.density)[:count])
    users = [(cocluster.users, cocluster.user_strengths) for cocluster in chosen]
    items = [(cocluster.items, cocluster.item_strengths) for cocluster in chosen]
    return Arrangement(_side(users, shape[0], max_rows), _side(items, shape[1], max_rows), chosen)


def chain(coclusters: Sequence[CoCluster]) -> list[CoCluster]:
    """Return the co-clusters with those that share members side by side: the leaves of a cluster tree, ordered."""
    if len(coclusters) < 3:
        return list(coclusters)
    alike = _overlap([each.users for each in coclusters]) + _overlap([each.items for each in coclusters])
    apart = (2.0 - alike)[np.triu_indices(len(coclusters), 1)]
    order = leaves_list(linkage(apart, "average", optimal_ordering=True)).tolist()
    return [coclusters[c] for c in (order if order[0] <= order[-1] else order[::-1])]


def _overlap(members: list[NDArray[Any]]) -> NDArray[np.float64]:
    """Return (K, K) the shared members as a share of the smaller of two co-clusters."""
    sizes = np.array([len(ids) for ids in members])
    columns = np.repeat(np.arange(len(members)), sizes)
    held = sp.csr_array((np.ones(len(columns)), (np.concatenate(members), columns)))
    shared: NDArray[np.float64] = (held.T @ held).toarray()
    shared /= np.minimum.outer(sizes, sizes)
    return shared


def _side(members: list[Members], size: int, max_rows: int) -> Ids:
    """Return the shown rows: next to those with the same strongest co-cluster, leaning towards their other ones."""
    chosen = np.arange(size) if size <= max_rows else _strongest(members, max_rows)
    strength = np.zeros((len(chosen), len(members) + 1))
    strength[:, -1] = 1e-9  # the end of the chain, for those in no co-cluster
    for position, (ids, strengths) in enumerate(members):
        held = dict(zip(ids.tolist(), (strengths / strengths[0]).tolist(), strict=True))
        strength[:, position] = [held.get(row, 0.0) for row in chosen.tolist()]
    mean = strength @ np.arange(len(members) + 1) / strength.sum(axis=1)
    return chosen[np.lexsort((chosen, mean, strength.argmax(axis=1)))]


def _strongest(members: list[Members], max_rows: int) -> Ids:
    """Return the strongest of every co-cluster, then the second of every co-cluster, and so on."""
    turns = zip_longest(*(ids[:max_rows].tolist() for ids, _ in members))
    distinct = dict.fromkeys(member for turn in turns for member in turn if member is not None)
    return np.array(list(distinct)[:max_rows], dtype=np.int64)
