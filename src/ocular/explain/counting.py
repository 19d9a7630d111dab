"""Counting kernels of explanations: who has which purchases in common, and who of them bought."""

from __future__ import annotations

import numpy as np

from ocular.compiling import njit


@njit(nogil=True, cache=True)
def jaccard(indptr, indices, owned, sizes):  # type: ignore[no-untyped-def]
    """Return for each user |A ∩ owned| / |A ∪ owned| where A are the user's purchases, `sizes` many."""
    common = np.zeros(len(sizes))
    for i in owned:
        for u in indices[indptr[i] : indptr[i + 1]]:
            common[u] += 1
    for u in range(len(sizes)):
        if common[u]:
            common[u] /= len(owned) + sizes[u] - common[u]
    return common


@njit(nogil=True, cache=True)
def count_in_common(users, indptr, indices, owned, without, counts):  # type: ignore[no-untyped-def]
    """
    Return the places in `users` of those with some of the owned items, and how many, most first; ties stay in order.

    `counts`, (n_users,), is zero before and after.
    """
    for i in owned:
        for u in indices[indptr[i] : indptr[i + 1]]:
            counts[u] += 1
    if without >= 0:
        counts[without] = 0
    starts, n = np.zeros(len(owned) + 2, np.int64), len(owned)
    for u in users:
        starts[n - counts[u] + 1] += 1
    starts = starts.cumsum()  # a counting sort
    places, common = np.empty(starts[n], np.int64), np.empty(starts[n], np.int64)
    for a in range(len(users)):
        rank = n - counts[users[a]]
        if rank < n:
            places[starts[rank]], common[starts[rank]] = a, n - rank
            starts[rank] += 1
    for i in owned:
        counts[indices[indptr[i] : indptr[i + 1]]] = 0
    return places, common


@njit(nogil=True, cache=True)
def split_buyers(users, strengths, likeness, bought, contribution, related):  # type: ignore[no-untyped-def]
    """Return the users who bought, most alike first, and those who did not; buyers are related by their strengths."""
    buyers, others, n = np.empty(len(users), np.int64), np.empty(len(users), np.int64), 0
    keys = np.empty(len(users))
    for a in range(len(users)):
        if bought[users[a]]:
            buyers[n], keys[n] = users[a], -likeness[a]
            n += 1
            related[users[a]] += contribution * strengths[a]
        else:
            others[a - n] = users[a]
    return buyers[:n][np.argsort(keys[:n], kind="mergesort")], others[: len(users) - n]
