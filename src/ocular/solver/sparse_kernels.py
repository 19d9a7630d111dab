"""
The row update of kernels.py over sparse memberships: its cost follows the non-zeros, not K.

It is exact. A co-cluster that neither the row nor any of its neighbours is in has a gradient of at least 0 at
membership 0, so the row stays out of it: only the others, the active ones, are ever looked at. Memberships are CSR
arrays (ends, columns, strengths); what belongs to the active co-clusters of the row at hand stands in dense scratch of
width K that is written when a co-cluster becomes active and never cleared.
"""

import numpy as np

from ocular.solver.kernels import (
    BLOCK,
    MAX_STEP,
    MIN_CURVATURE,
    MIN_STEP,
    ONE,
    RESOLUTION,
    TWO,
    ZERO,
    compiled,
    inlined,
    probabilities,
    sum_of_logs,
)


@inlined
def likelihood(z, neighbours, row_weight, other_weights, background, p, w, bits):
    """What a block of positives with these affinities adds to Q; p and w are filled on the way."""
    n = len(neighbours)
    probabilities(z, n, background, p, bits)
    known = ZERO
    for j in range(n):
        known += z[j]
        w[j] = row_weight * other_weights[neighbours[j]]
    return -(known + sum_of_logs(p, w, n, bits))


@compiled
def update_sparse_rows(
    row_ends, row_columns, row_strengths,  # the rows as they are, CSR
    other_ends, other_columns, other_strengths,  # the other side, CSR
    other_sum, indptr, indices, row_weights, other_weights, ridge, free, background, steps, values, beta, sigma, scaled,
    new_columns, new_strengths, new_sizes,  # out: the new rows one after the other, and (n_rows,) how long each is
    first_row, last_row,
):  # fmt: skip
    """
    One line-searched step for each of the rows first_row..last_row−1; see kernels.update_rows.

    Returns the first row that is not done, because the place for the new rows might not have been enough for it, and
    how much of that place is taken.
    """
    K, room, taken = len(other_sum), len(new_columns), 0
    z, p, w = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    pull, curvature, bits = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.int32)
    f, there = np.empty(K, np.float32), np.empty(K, np.float32)
    gradient, diagonal = np.empty(K, np.float32), np.empty(K, np.float32)
    active, active_for = np.empty(K, np.int32), np.full(K, -1, np.int32)
    for r in range(first_row, last_row):
        neighbours, n_active, here = indices[indptr[r] : indptr[r + 1]], 0, 0.0
        for a in range(row_ends[r], row_ends[r + 1]):
            k, strength = row_columns[a], row_strengths[a]
            active[n_active], active_for[k] = k, r
            n_active += 1
            f[k], diagonal[k] = strength, TWO * ridge[k]
            gradient[k] = other_sum[k] + TWO * ridge[k] * strength
            here += np.float64(strength) * np.float64(other_sum[k] + ridge[k] * strength)
        for start in range(0, len(neighbours), BLOCK):
            block = neighbours[start : start + BLOCK]
            for j in range(len(block)):
                total = ZERO
                for a in range(other_ends[block[j]], other_ends[block[j] + 1]):
                    k = other_columns[a]
                    if active_for[k] != r:
                        active[n_active], active_for[k] = k, r
                        n_active += 1
                        f[k], gradient[k], diagonal[k] = ZERO, other_sum[k], TWO * ridge[k]
                    total += f[k] * other_strengths[a]
                z[j] = total
            here += likelihood(z, block, row_weights[r], other_weights, background, p, w, bits)
            for j in range(len(block)):
                odds = ONE / p[j] - ONE
                pull[j], curvature[j] = ONE + w[j] * odds, w[j] * odds * (ONE + odds)
            for j in range(len(block)):
                for a in range(other_ends[block[j]], other_ends[block[j] + 1]):
                    k, g = other_columns[a], other_strengths[a]
                    gradient[k] -= pull[j] * g
                    diagonal[k] += curvature[j] * g * g
        if taken + n_active > room:
            return r, taken
        for a in range(n_active):
            k = active[a]
            gradient[k] *= free[k]
            diagonal[k] = gradient[k] / max(diagonal[k], MIN_CURVATURE) if scaled else gradient[k]  # now the direction

        size = steps[r] if scaled else beta
        enlarge, moved = True, False
        values[r] = here
        steps[r] = ONE
        while size > MIN_STEP:
            slope, value = 0.0, 0.0
            for a in range(n_active):
                k = active[a]
                there[k] = max(f[k] - size * diagonal[k], ZERO)
                slope += np.float64(gradient[k]) * np.float64(there[k] - f[k])
                value += np.float64(there[k]) * np.float64(other_sum[k] + ridge[k] * there[k])
            if -slope <= RESOLUTION * abs(here):
                break
            for start in range(0, len(neighbours), BLOCK):
                block = neighbours[start : start + BLOCK]
                for j in range(len(block)):
                    total = ZERO
                    for a in range(other_ends[block[j]], other_ends[block[j] + 1]):
                        total += there[other_columns[a]] * other_strengths[a]
                    z[j] = total
                value += likelihood(z, block, row_weights[r], other_weights, background, p, w, bits)
            if value - here <= sigma * slope:
                moved = True
                values[r] = value
                steps[r] = min(size / beta, MAX_STEP) if enlarge else size
                break
            size *= beta
            enlarge = False

        row = there if moved else f
        begun = taken
        for a in range(n_active):
            k = active[a]
            if row[k] > ZERO:
                new_columns[taken], new_strengths[taken] = k, row[k]
                taken += 1
        new_sizes[r] = taken - begun
    return last_row, taken


@compiled
def sum_sparse_columns(ends, columns, strengths, out, block, first_row, last_row):
    """out[0, b] = Σ rows and out[1, b] = Σ rows², over the rows of block b."""
    b = first_row // block
    out[:, b] = 0.0
    for a in range(ends[first_row], ends[last_row]):
        value = np.float64(strengths[a])
        out[0, b, columns[a]] += value
        out[1, b, columns[a]] += value * value


@compiled
def lean_rows(
    indptr, indices, other_ends, other_columns, other_strengths, scale, columns, strengths, sizes, first_row, last_row
):
    """The columns that weigh most in Σ_j other[j] · scale over the row's positives, in no order, and their weights."""
    total, seen, most = np.zeros(len(scale), np.float32), np.empty(len(scale), np.int32), columns.shape[1]
    for r in range(first_row, last_row):
        n = 0
        for j in indices[indptr[r] : indptr[r + 1]]:
            for a in range(other_ends[j], other_ends[j + 1]):
                k = other_columns[a]
                if total[k] == ZERO:
                    seen[n] = k
                    n += 1
                total[k] += other_strengths[a]
        taken, weakest = 0, 0
        for a in range(n):
            weight = total[seen[a]] * scale[seen[a]]
            total[seen[a]] = ZERO
            at = taken
            if taken < most:
                taken += 1
            elif weight > strengths[r, weakest]:
                at = weakest
            else:
                continue
            columns[r, at], strengths[r, at] = seen[a], weight
            if taken == most:
                for b in range(most):
                    if strengths[r, b] < strengths[r, weakest]:
                        weakest = b
        sizes[r] = taken
