"""
The row update of kernels.py over sparse memberships: its cost follows the non-zeros, not K.

It is exact. A co-cluster that neither the row nor any of its neighbours is in has a gradient of at least 0 at
membership 0, so the row stays out of it: only the others, the active ones, are ever looked at. Memberships are CSR
arrays (ends, columns, strengths). A row numbers its active co-clusters from 0 and copies its neighbours' memberships
with these numbers: all passes of the line search then run over memory that is contiguous or in the first cache.
"""

import numpy as np
from numba import njit

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
    likelihood,
)


# Not reordered: the compiler would turn the sum into gather instructions, which take longer than single loads.
@njit(nogil=True, fastmath={"contract"}, forceinline=True, error_model="numpy")
def affinity(row, slots, strengths):
    """Σ row[slots] · strengths, in four sums, so that none waits for the one before."""
    n = len(strengths)
    s0, s1, s2, s3 = ZERO, ZERO, ZERO, ZERO
    for a in range(0, n - n % 4, 4):
        s0 += row[slots[a]] * strengths[a]
        s1 += row[slots[a + 1]] * strengths[a + 1]
        s2 += row[slots[a + 2]] * strengths[a + 2]
        s3 += row[slots[a + 3]] * strengths[a + 3]
    for a in range(n - n % 4, n):
        s0 += row[slots[a]] * strengths[a]
    return (s0 + s1) + (s2 + s3)


@inlined
def row_likelihood(
    row, slots, other_ends, other_strengths, neighbours, row_weight, other_weights, background, slopes, gradient,
    diagonal, scratch,
):  # fmt: skip
    """What the positives add to Q with these memberships and, where `slopes` is true, to gradient and diagonal."""
    z, p, w, bits = scratch
    value, at = 0.0, 0
    for start in range(0, len(neighbours), BLOCK):
        block, begun = neighbours[start : start + BLOCK], at
        n = len(block)
        for j in range(n):
            strengths = other_strengths[other_ends[block[j]] : other_ends[block[j] + 1]]
            z[j] = affinity(row, slots[at:], strengths)
            at += len(strengths)
        value += likelihood(z, block, row_weight, other_weights, background, p, w, bits)
        if slopes:
            at = begun
            for j in range(n):
                odds = ONE / p[j] - ONE
                pull, curvature = ONE + w[j] * odds, w[j] * odds * (ONE + odds)
                for a in range(other_ends[block[j]], other_ends[block[j] + 1]):
                    g = other_strengths[a]
                    gradient[slots[at]] -= pull * g
                    diagonal[slots[at]] += curvature * g * g
                    at += 1
    return value


@compiled
def update_sparse_rows(
    row_ends, row_columns, row_strengths,  # the rows as they are, CSR
    other_ends, other_columns, other_strengths,  # the other side, CSR
    other_sum, indptr, indices, row_weights, other_weights, ridge, _free, background, steps, values, beta, sigma,
    scaled,
    new_columns, new_strengths, new_sizes,  # out: the new rows one after the other, and (n_rows,) how long each is
    first_row, last_row,
):  # fmt: skip
    """
    One line-searched step for each of the rows first_row..last_row−1; see kernels.update_rows.

    Returns the first row that is not done, because the place for the new rows might not have been enough for it, and
    how much of that place is taken.
    """
    K, room, taken = len(other_sum), len(new_columns), 0
    penalty = ridge[0]  # there are no biases here: all columns are memberships, and free
    floats = np.empty((3, BLOCK), np.float32)
    scratch = (floats[0], floats[1], floats[2], np.empty(BLOCK, np.int32))
    active, slot_of = np.empty(K + 1, np.int32), np.full(K, -1, np.int32)  # column of each slot, and back
    f, there, total = np.empty(K, np.float32), np.empty(K, np.float32), np.empty(K, np.float32)
    gradient, diagonal, slots = np.empty(K, np.float32), np.empty(K, np.float32), np.empty(1, np.int32)
    for r in range(first_row, last_row):
        neighbours, needed = indices[indptr[r] : indptr[r + 1]], 0
        for j in neighbours:
            needed += other_ends[j + 1] - other_ends[j]
        if needed > len(slots):
            slots = np.empty(2 * needed, np.int32)

        n_active = 0
        for a in range(row_ends[r], row_ends[r + 1]):
            active[n_active], slot_of[row_columns[a]], f[n_active] = row_columns[a], n_active, row_strengths[a]
            n_active += 1
        n_own, at = n_active, 0
        for j in neighbours:
            for k in other_columns[other_ends[j] : other_ends[j + 1]]:
                slot = slot_of[k]
                new = slot < 0  # without a branch, which nobody could predict
                slot = n_active if new else slot
                active[n_active], slot_of[k], slots[at] = k, slot, slot
                n_active += new
                at += 1
        f[n_own:n_active] = ZERO
        here = 0.0
        for a in range(n_active):
            k = active[a]
            slot_of[k] = -1
            total[a] = other_sum[k]
        for a in range(n_active):
            gradient[a], diagonal[a] = total[a] + TWO * penalty * f[a], TWO * penalty
            here += np.float64(f[a]) * np.float64(total[a] + penalty * f[a])
        if taken + n_active > room:
            return r, taken
        here += row_likelihood(
            f, slots, other_ends, other_strengths, neighbours, row_weights[r], other_weights, background, True,
            gradient, diagonal, scratch,
        )  # fmt: skip
        for a in range(n_active):
            diagonal[a] = gradient[a] / max(diagonal[a], MIN_CURVATURE) if scaled else gradient[a]  # now the direction

        size = steps[r] if scaled else beta
        enlarge, moved = True, False
        values[r] = here
        steps[r] = ONE
        while size > MIN_STEP:
            slope, value = 0.0, 0.0
            for a in range(n_active):
                there[a] = max(f[a] - size * diagonal[a], ZERO)
                slope += np.float64(gradient[a]) * np.float64(there[a] - f[a])
                value += np.float64(there[a]) * np.float64(total[a] + penalty * there[a])
            if -slope <= RESOLUTION * abs(here):
                break
            value += row_likelihood(
                there, slots, other_ends, other_strengths, neighbours, row_weights[r], other_weights, background,
                False, gradient, diagonal, scratch,
            )  # fmt: skip
            if value - here <= sigma * slope:
                moved = True
                values[r] = value
                steps[r] = min(size / beta, MAX_STEP) if enlarge else size
                break
            size *= beta
            enlarge = False

        row, begun = there if moved else f, taken
        for a in range(n_active):
            if row[a] > ZERO:
                new_columns[taken], new_strengths[taken] = active[a], row[a]
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
