"""
Rows and weights with attributes on the CPU: `attribute_objective.py` in float32, compiled by Numba.

A row with attributes is stepped as in kernels.py, with the term of its attributes in value and slopes. The weights are
updated by two passes over the rows: one for the slopes, one for the values at all step sizes. Both add up fixed blocks
of rows, so that any number of threads gives the same bytes.
"""

import math

import numpy as np

from ocular.solver.kernels import (
    BLOCK,
    HALF_LN2,
    MAX_STEP,
    MIN_CURVATURE,
    MIN_STEP,
    ONE,
    RESOLUTION,
    SQRT2,
    TWO,
    ZERO,
    add_neighbours,
    add_refused,
    affinities,
    compiled,
    inlined,
    probabilities,
    row_value,
)


@inlined
def scores(f, weights, intercepts, places, t):
    """t[j] = −⟨w'_j, f'⟩ for the weights at `places`."""
    affinities(f, weights, places, t)
    for j in range(len(places)):
        t[j] = -(t[j] + intercepts[places[j]])


@inlined
def softmax(t, n, share, z, bits):
    """log(1 + Σ_j e^t[j]); fills share[j] = e^t[j] / (1 + Σ_j e^t[j]). z and bits are scratch."""
    top = ZERO
    for j in range(n):
        top = max(top, t[j])
    for j in range(n):
        z[j] = top - t[j]
    probabilities(z, n, ZERO, share, bits)
    total = ZERO
    for j in range(n):
        share[j] = ONE - share[j]
        total += share[j]
    total += np.float32(math.exp(-top))
    for j in range(n):
        share[j] /= total
    return top + np.float32(math.log(total))


@inlined
def logistic(t, n, share, value, z, bits):
    """value[j] = log(1 + e^t[j]) and share[j] = e^t[j] / (1 + e^t[j]); z and bits are scratch."""
    for j in range(n):
        z[j] = abs(t[j])
    probabilities(z, n, ZERO, share, bits)
    for j in range(n):
        both = TWO - share[j]  # 1 + e^−|t|, from 1 to 2
        share[j] = (ONE if t[j] > ZERO else both - ONE) / both
        x = (both - SQRT2) / (both + SQRT2)  # log both = log √2 + 2 artanh x
        u = x * x
        series = TWO + u * (np.float32(0.6666667) + u * (np.float32(0.4) + u * np.float32(0.2857143)))
        value[j] = max(t[j], ZERO) + HALF_LN2 + x * series


@inlined
def attribute_value(
    f, weights, intercepts, places, starts, exclusive, known, shown, slopes, strength, gradient, diagonal, scratch
):
    """A row's share of the term and, where `slopes` is true, what it adds to gradient and curvature."""
    t, share, pull, curvature, value, z, bits = scratch
    total = 0.0
    for b in range(len(exclusive)):
        if not known[b]:
            continue
        room = starts[b + 1] - starts[b] if exclusive[b] else BLOCK
        for first in range(starts[b], starts[b + 1], room):
            here = places[first : min(first + room, starts[b + 1])]
            n = len(here)
            scores(f, weights, intercepts, here, t)
            if exclusive[b]:
                total += softmax(t, n, share, z, bits)
            else:
                logistic(t, n, share, value, z, bits)
                for j in range(n):
                    total += value[j]
            for j in range(n):
                pull[j] = curvature[j] = strength * share[j]
            for v in shown:
                if first <= v < first + n:
                    total -= t[v - first]
                    pull[v - first] -= strength
            if slopes:
                add_neighbours(pull, curvature, weights, here, gradient, diagonal)
    return np.float64(strength) * total


@compiled
def update_attribute_rows(
    rows, other, other_sum, indptr, indices, pair_weights, refused_ends, refused, refusal, row_weights, other_weights,
    ridge, free, background, steps, values, beta, sigma, scaled,  # as in kernels.update_rows, attributes in values
    weights,  # (L, K) of the attributes' values; 0 in columns that are no memberships
    intercepts,  # (L,)
    places,  # (L,) 0, 1, 2, …
    starts,  # (n_attributes + 1,) the first weights of each attribute
    exclusive,  # (n_attributes,) whether a row has one value of it, or any number
    observed,  # (n_rows, n_attributes)
    shown_ends, shown,  # of each row: the weights of the values that it has
    strength,
    attribute_values,  # (n_rows,) out: the share of the attributes alone
    first_row, last_row,
):  # fmt: skip
    """One line-searched step for each of the rows first_row..last_row−1: kernels.update_rows with attributes."""
    K = rows.shape[1]
    floats = np.empty((5, BLOCK), np.float32)
    scratch = (floats[0], floats[1], floats[2], floats[3], floats[4], np.empty(BLOCK, np.int32))
    more, bits = room_for_values(starts)
    attribute_scratch = (more[0], more[1], more[2], more[3], more[4], more[5], bits)
    gradient, diagonal, direction = np.empty(K, np.float32), np.empty(K, np.float32), np.empty(K, np.float32)
    there, total = np.empty(K, np.float32), other_sum if refused_ends is None else other_sum.copy()
    for r in range(first_row, last_row):
        f, weight, known = rows[r], row_weights[r], observed[r]
        neighbours = indices[indptr[r] : indptr[r + 1]]
        pairs = None if pair_weights is None else pair_weights[indptr[r] : indptr[r + 1]]
        values_shown = shown[shown_ends[r] : shown_ends[r + 1]]
        if refused_ends is not None:
            total[:] = other_sum
            add_refused(total, other, refused[refused_ends[r] : refused_ends[r + 1]], refusal)
        here = row_value(
            f, other, total, ridge, neighbours, weight, other_weights, pairs, background, True, gradient, diagonal,
            scratch,
        )  # fmt: skip
        term = attribute_value(
            f, weights, intercepts, places, starts, exclusive, known, values_shown, True, strength, gradient,
            diagonal, attribute_scratch,
        )  # fmt: skip
        here += term
        for k in range(K):
            gradient[k] *= free[k]
            direction[k] = gradient[k] / max(diagonal[k], MIN_CURVATURE) if scaled else gradient[k]

        size = steps[r] if scaled else beta
        enlarge = True
        values[r], attribute_values[r] = here, term
        steps[r] = ONE
        while size > MIN_STEP:
            slope = 0.0
            for k in range(K):
                there[k] = max(f[k] - size * direction[k], ZERO)
                slope += np.float64(gradient[k]) * np.float64(there[k] - f[k])
            if -slope <= RESOLUTION * abs(here):
                break
            value = row_value(
                there, other, total, ridge, neighbours, weight, other_weights, pairs, background,
                False, gradient, diagonal, scratch,
            )  # fmt: skip
            term = attribute_value(
                there, weights, intercepts, places, starts, exclusive, known, values_shown, False, strength, gradient,
                diagonal, attribute_scratch,
            )  # fmt: skip
            value += term
            if value - here <= sigma * slope:
                f[:] = there
                values[r], attribute_values[r] = value, term
                steps[r] = min(size / beta, MAX_STEP) if enlarge else size
                break
            size *= beta
            enlarge = False


@inlined
def room_for_values(starts):
    """Scratch for the values of the largest attribute."""
    room = BLOCK
    for b in range(len(starts) - 1):
        room = max(room, starts[b + 1] - starts[b])
    return np.empty((6, room), np.float32), np.empty(room, np.int32)


@compiled
def sum_rows_by_value(rows, ends, members, out, first, last):
    """out[v] = Σ rows[r] over the rows that have the value v: they do not change while the weights do."""
    for v in range(first, last):
        out[v] = 0.0
        for r in members[ends[v] : ends[v + 1]]:
            for k in range(rows.shape[1]):
                out[v, k] += rows[r, k]


@compiled
def weight_slopes(
    rows, weights, intercepts, places, starts, exclusive, observed, block,
    slopes,  # (2, n_blocks, L, K) out: Σ p f and Σ p (1 − p) f², over the rows of each block
    intercept_slopes,  # (2, n_blocks, L) out: Σ p and Σ p (1 − p)
    values,  # (n_blocks, L) out: Σ log(1 + Σ e^t), at the first weights of each softmax
    first_row, last_row,
):  # fmt: skip
    """What one block of rows adds to the slopes of all weights."""
    at = first_row // block
    for out in (slopes[0, at], slopes[1, at]):
        out[:] = ZERO
    intercept_slopes[:, at] = 0.0
    values[at] = 0.0
    floats, bits = room_for_values(starts)
    t, share, value, z = floats[0], floats[1], floats[2], floats[3]
    for r in range(first_row, last_row):
        f = rows[r]
        for b in range(len(exclusive)):
            if not observed[r, b]:
                continue
            first, n = starts[b], starts[b + 1] - starts[b]
            scores(f, weights, intercepts, places[first : starts[b + 1]], t)
            if exclusive[b]:
                values[at, first] += softmax(t, n, share, z, bits)
            else:
                logistic(t, n, share, value, z, bits)
                for j in range(n):
                    values[at, first + j] += value[j]
            for j in range(n):
                pull, curvature = share[j], share[j] * (ONE - share[j])
                intercept_slopes[0, at, first + j] += pull
                intercept_slopes[1, at, first + j] += curvature
                gradient, diagonal = slopes[0, at, first + j], slopes[1, at, first + j]
                for k in range(len(f)):
                    gradient[k] += pull * f[k]
                    diagonal[k] += curvature * f[k] * f[k]


@compiled
def weight_line(
    rows, weights, intercepts, direction, intercept_direction, places, starts, exclusive, observed, sizes, block,
    changes,  # (n_blocks, n_sizes, L) out: by how much Σ log(1 + Σ e^t) grows, at the first weights of each softmax
    first_row, last_row,
):  # fmt: skip
    """What one block of rows says of weights − size · direction, for all sizes."""
    at = first_row // block
    changes[at] = 0.0
    floats, bits = room_for_values(starts)
    t, d, share, value, z, moved = floats[0], floats[1], floats[2], floats[3], floats[4], floats[5]
    before = np.empty(len(t), np.float32)
    for r in range(first_row, last_row):
        for b in range(len(exclusive)):
            if not observed[r, b]:
                continue
            first, n = starts[b], starts[b + 1] - starts[b]
            here = places[first : starts[b + 1]]
            scores(rows[r], weights, intercepts, here, t)
            scores(rows[r], direction, intercept_direction, here, d)
            if exclusive[b]:
                before[0] = softmax(t, n, share, z, bits)
            else:
                logistic(t, n, share, before, z, bits)
            for s in range(len(sizes)):
                for j in range(n):
                    moved[j] = t[j] - sizes[s] * d[j]
                if exclusive[b]:
                    changes[at, s, first] += softmax(moved, n, share, z, bits) - before[0]
                else:
                    logistic(moved, n, share, value, z, bits)
                    for j in range(n):
                        changes[at, s, first + j] += value[j] - before[j]
