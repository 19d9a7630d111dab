"""What a refit keeps of the model before it, beside its start: the labels of patterns that are still the same."""

from __future__ import annotations

from collections.abc import Iterable

from ocular.data.interactions import Interactions
from ocular.explain.coclusters import CoClusters, Members

MIN_OVERLAP = 0.5  # Jaccard similarity of the members, clients and products, from which a pattern is the same


def kept_labels(patterns: CoClusters, before: Interactions, members: Members, now: Interactions) -> dict[int, str]:
    """Return the old label of each co-cluster, by its number, that has mostly the members it had before."""
    labels = {}
    for pattern in patterns:
        old = names_of(before, pattern.users, pattern.items)
        new = names_of(now, members.users_of(pattern.index)[0], members.items_of(pattern.index)[0])
        if len(old & new) >= MIN_OVERLAP * len(old | new):
            labels[pattern.index] = pattern.label
    return labels


def names_of(data: Interactions, users: Iterable[int], items: Iterable[int]) -> set[tuple[str, str]]:
    """Return clients and products by name, so that those of different models can be compared."""
    clients = {("client", str(data.user_labels[u])) for u in users}
    return clients | {("product", str(data.item_labels[i])) for i in items}
