"""
The row update of kernels.py over sparse memberships: its cost follows the non-zeros, not K.

It is exact. A co-cluster that neither the row nor any of its neighbours is in has a gradient of at least 0 at
membership 0, so the row stays out of it; and so it does where it is not a member and the gradient is not negative.
Refusals only raise the gradient.
Only the others, the movers, are stepped. Memberships are CSR arrays (ends, columns, strengths). The affinity of every
positive is kept from one half-sweep to the next: a row begins with the slopes, and each trial is one pass more.
"""

import numpy as np

from ocular.compiling import njit
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
from ocular.solver.prefetch import LINE, prefetch

AHEAD = 2  # neighbours
TINY = np.float32(1e-30)


# Not reordered: the compiler would turn the sum into gather instructions, which take longer than single loads.
@njit(nogil=True, fastmath={"contract"}, forceinline=True, error_model="numpy")
def affinity(row, columns, strengths):
    """Σ row[columns] · strengths, in four sums, so that none waits for the one before."""
    n = len(strengths)
    s0, s1, s2, s3 = ZERO, ZERO, ZERO, ZERO
    for a in range(0, n - n % 4, 4):
        s0 += row[columns[a]] * strengths[a]
        s1 += row[columns[a + 1]] * strengths[a + 1]
        s2 += row[columns[a + 2]] * strengths[a + 2]
        s3 += row[columns[a + 3]] * strengths[a + 3]
    for a in range(n - n % 4, n):
        s0 += row[columns[a]] * strengths[a]
    return (s0 + s1) + (s2 + s3)


@inlined
def await_row(other_ends, other_columns, other_strengths, neighbours, j):
    """Its first two cache lines; the others the processor guesses."""
    at = other_ends[neighbours[min(j, len(neighbours) - 1)]]
    prefetch(other_columns, at)
    prefetch(other_strengths, at)
    prefetch(other_columns, at + LINE)
    prefetch(other_strengths, at + LINE)


@inlined
def affinities(row, other_ends, other_columns, other_strengths, neighbours, z):
    """z[j] = ⟨row, other[neighbours[j]]⟩."""
    for j in range(len(neighbours)):
        await_row(other_ends, other_columns, other_strengths, neighbours, j + AHEAD)
        first, last = other_ends[neighbours[j]], other_ends[neighbours[j] + 1]
        z[j] = affinity(row, other_columns[first:last], other_strengths[first:last])


@compiled
def sparse_affinities(
    row_ends, row_columns, row_strengths, other_ends, other_columns, other_strengths, K, indptr, indices, z,
    first_row, last_row,
):  # fmt: skip
    """z of all positives of the rows, with the same bits as update_sparse_rows leaves there."""
    row = np.zeros(K, np.float32)
    for r in range(first_row, last_row):
        for a in range(row_ends[r], row_ends[r + 1]):
            row[row_columns[a]] = row_strengths[a]
        there = slice(indptr[r], indptr[r + 1])
        affinities(row, other_ends, other_columns, other_strengths, indices[there], z[there])
        for a in range(row_ends[r], row_ends[r + 1]):
            row[row_columns[a]] = ZERO


@compiled
def own_affinities(
    row_ends, row_columns, row_strengths, other_ends, other_columns, other_strengths, K, indptr, indices, z,
    first_row, last_row,
):  # fmt: skip
    """
    The same affinities with the bits that the other side's half-sweep has left: summed over the columns of the row.

    For whoever does not keep them: on a cluster they would have to be sent around as often as the positives.
    """
    other = np.zeros(K, np.float32)
    for r in range(first_row, last_row):
        own = slice(row_ends[r], row_ends[r + 1])
        columns, strengths = row_columns[own], row_strengths[own]
        for j in range(indptr[r], indptr[r + 1]):
            first, last = other_ends[indices[j]], other_ends[indices[j] + 1]
            for a in range(first, last):
                other[other_columns[a]] = other_strengths[a]
            z[j] = affinity(other, columns, strengths)
            for a in range(first, last):
                other[other_columns[a]] = ZERO


@compiled
def update_sparse_rows(
    row_ends, row_columns, row_strengths,  # the rows as they are, CSR
    other_ends, other_columns, other_strengths,  # the other side, CSR
    affinity_of,  # (nnz,) of each positive of the rows; updated in place
    other_sum, indptr, indices, pair_weights, refused_ends, refused, refusal, row_weights, other_weights, penalty,
    background, steps, values, beta, sigma, scaled,
    new_columns, new_strengths, new_sizes,  # out: the new rows one after the other, and (n_rows,) how long each is
    first_row, last_row,
):  # fmt: skip
    """
    One line-searched step for each of the rows first_row..last_row−1; see kernels.update_rows.

    Returns the first row that is not done, because the place for the new rows might not have been enough for it, and
    how much of that place is taken.
    """
    K, room, taken = len(other_sum), len(new_columns), 0
    p, w, bits = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.int32)
    row, slopes = np.zeros(K, np.float32), np.zeros((K, 2), np.float32)  # by column: place; pull and curvature
    active = np.empty(K + 1, np.uint32)
    movers, f, there = np.empty(K, np.uint32), np.empty(K, np.float32), np.empty(K, np.float32)
    total, gradient, direction = np.empty(K, np.float32), np.empty(K, np.float32), np.empty(K, np.float32)
    trial, sums = np.empty(1, np.float32), other_sum if refused_ends is None else other_sum.copy()
    for r in range(first_row, last_row):
        first, last, weight = indptr[r], indptr[r + 1], row_weights[r]
        neighbours, z = indices[first:last], affinity_of[first:last]
        pairs = None if pair_weights is None else pair_weights[first:last]
        if len(neighbours) > len(trial):
            trial = np.empty(2 * len(neighbours), np.float32)

        if refused_ends is not None:
            for j in refused[refused_ends[r] : refused_ends[r + 1]]:
                for a in range(other_ends[j], other_ends[j + 1]):
                    sums[other_columns[a]] += refusal * other_strengths[a]

        n_active, here = 0, 0.0
        for a in range(row_ends[r], row_ends[r + 1]):
            k = row_columns[a]
            active[n_active], row[k], slopes[k, 0] = k, row_strengths[a], TINY
            n_active += 1
        for start in range(0, len(neighbours), BLOCK):
            block = neighbours[start : start + BLOCK]
            block_weights = None if pairs is None else pairs[start : start + BLOCK]
            here += likelihood(z[start:], block, weight, other_weights, block_weights, background, p, w, bits)
            for j in range(len(block)):
                await_row(other_ends, other_columns, other_strengths, neighbours, start + j + AHEAD)
                odds = ONE / p[j] - ONE
                pull, curvature = ONE + w[j] * odds, w[j] * odds * (ONE + odds)
                for a in range(other_ends[block[j]], other_ends[block[j] + 1]):
                    k, g = other_columns[a], other_strengths[a]
                    active[n_active] = k
                    n_active += slopes[k, 0] == ZERO  # without a branch, which nobody could predict
                    slopes[k, 0] += pull * g
                    slopes[k, 1] += curvature * g * g
        if taken + n_active > room:
            return r, taken
        n = 0
        for a in range(n_active):
            k = active[a]
            slope = sums[k] + TWO * penalty * row[k] - slopes[k, 0]
            if (row[k] > ZERO) | (slope < ZERO):
                movers[n], f[n], total[n], gradient[n], direction[n] = k, row[k], sums[k], slope, slopes[k, 1]
                n += 1
            slopes[k, 0], slopes[k, 1] = ZERO, ZERO
        if refused_ends is not None and refused_ends[r] < refused_ends[r + 1]:
            sums[:] = other_sum
        for a in range(n):
            here += np.float64(f[a]) * np.float64(total[a] + penalty * f[a])
            curvature = max(direction[a] + TWO * penalty, MIN_CURVATURE)
            direction[a] = gradient[a] / curvature if scaled else gradient[a]

        size = steps[r] if scaled else beta
        enlarge, moved = True, False
        values[r] = here
        steps[r] = ONE
        while size > MIN_STEP:
            slope, value = 0.0, 0.0
            for a in range(n):
                there[a] = max(f[a] - size * direction[a], ZERO)
                slope += np.float64(gradient[a]) * np.float64(there[a] - f[a])
                value += np.float64(there[a]) * np.float64(total[a] + penalty * there[a])
            if -slope <= RESOLUTION * abs(here):
                break
            for a in range(n):
                row[movers[a]] = there[a]
            affinities(row, other_ends, other_columns, other_strengths, neighbours, trial)
            for start in range(0, len(neighbours), BLOCK):
                block = neighbours[start : start + BLOCK]
                block_weights = None if pairs is None else pairs[start : start + BLOCK]
                value += likelihood(trial[start:], block, weight, other_weights, block_weights, background, p, w, bits)
            if value - here <= sigma * slope:
                moved = True
                values[r] = value
                steps[r] = min(size / beta, MAX_STEP) if enlarge else size
                break
            size *= beta
            enlarge = False

        if not moved:
            for a in range(n):
                there[a], row[movers[a]] = f[a], f[a]
            affinities(row, other_ends, other_columns, other_strengths, neighbours, trial)
        z[:] = trial[: len(neighbours)]
        begun = taken
        for a in range(n):
            row[movers[a]] = ZERO
            new_columns[taken], new_strengths[taken] = movers[a], there[a]
            taken += there[a] > ZERO
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
