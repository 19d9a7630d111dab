"""What a repair has to know of every co-cluster, in one pass over the positives each."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types.

from __future__ import annotations

import math

import numpy as np

from ocular.compiling import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")


@compiled
def removal_losses(
    users,  # (n_users, width) bias columns included
    items,  # (n_items, width)
    indptr,  # (n_users + 1,)
    indices,  # (nnz,)
    weights,  # (n_users,)
    base,  # affinity of any pair
    n_coclusters,
    affinity,  # (nnz,) out
    losses,  # (n_coclusters,) out: what the positives lose without each co-cluster
    explained,  # (n_coclusters,) out: the affinity that it gives to positives
):
    """Fill in the affinity of every positive, and for every co-cluster what positives lose without it."""
    width = users.shape[1]
    active = np.empty(width, np.int64)
    part = np.empty(width)
    losses[:] = 0.0
    explained[:] = 0.0
    for u in range(len(indptr) - 1):
        n_active = 0
        for k in range(width):
            if users[u, k] > 0:
                active[n_active] = k
                n_active += 1
        for at in range(indptr[u], indptr[u + 1]):
            i = indices[at]
            z = base
            for a in range(n_active):
                k = active[a]
                part[a] = np.float64(users[u, k]) * np.float64(items[i, k])
                z += part[a]
            affinity[at] = z
            log_p = math.log(-math.expm1(-z))
            for a in range(n_active):
                k = active[a]
                if part[a] > 0 and k < n_coclusters:
                    explained[k] += part[a]
                    losses[k] += weights[u] * (log_p - math.log(-math.expm1(-max(z - part[a], base))))


@compiled
def split_block(
    members,  # (m,) users of the block
    column_of,  # (n_items,) the column of an item in the block, or −1
    indptr,
    indices,
    y,  # (n,) random numbers in, one for each item of the block; the items' side of the cut out
    x,  # (m,) out: the users' side of the cut
    iterations,  # of the power method
):
    """
    Find the second singular vectors of a block of positives, scaled by degrees, as spectral co-clustering does.

    Returns the positives of the block: their rows and columns in it, and their places among all positives.
    """
    m, n, size = len(members), len(y), 0
    for r in range(m):
        size += indptr[members[r] + 1] - indptr[members[r]]
    rows, columns, places = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    row_scale, column_scale = np.zeros(m), np.zeros(n)
    size = 0
    for r in range(m):
        for at in range(indptr[members[r]], indptr[members[r] + 1]):
            c = column_of[indices[at]]
            if c >= 0:
                rows[size], columns[size], places[size] = r, c, at
                row_scale[r] += 1.0
                column_scale[c] += 1.0
                size += 1
    first = np.sqrt(np.maximum(column_scale, 1.0) / np.maximum(column_scale, 1.0).sum())
    row_scale, column_scale = 1 / np.sqrt(np.maximum(row_scale, 1.0)), 1 / np.sqrt(np.maximum(column_scale, 1.0))
    for step in range(iterations + 1):
        shared, norm = 0.0, 0.0
        for c in range(n):
            shared += first[c] * y[c]
        for c in range(n):
            y[c] -= first[c] * shared
            norm += y[c] * y[c]
        norm = math.sqrt(norm) + 1e-12
        for c in range(n):
            y[c] *= column_scale[c] / norm
        x[:] = 0.0
        for at in range(size):
            x[rows[at]] += y[columns[at]]
        if step == iterations:
            break
        for r in range(m):
            x[r] *= row_scale[r] * row_scale[r]
        y[:] = 0.0
        for at in range(size):
            y[columns[at]] += x[rows[at]]
        for c in range(n):
            y[c] *= column_scale[c]
    for r in range(m):
        x[r] *= row_scale[r] * row_scale[r]
    return rows[:size], columns[:size], places[:size]
