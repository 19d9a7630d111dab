"""
The row update on the CPU: `objective.RowProblem.step` in float32, compiled by Numba.

A row's neighbours are taken in blocks small enough to stay in the first cache while they are used twice, four at a
time: for the dot products, then for the gradient. exp and log are written out as polynomials on arrays, because the
compiler turns those into vector code and calls to the mathematics library not.
"""

import numpy as np

from ocular.compiling import njit

BLOCK = 64  # neighbours at a time

ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
SQRT2, LN2, HALF_LN2 = np.float32(2**0.5), np.float32(np.log(2)), np.float32(np.log(2) / 2)
LOG2_E = np.float32(1 / np.log(2))
LN2_HIGH, LN2_LOW = np.float32(0.693145751953125), np.float32(1.42860676533018e-06)  # their sum is ln 2
MAX_AFFINITY = np.float32(80)  # e^-80 is still a normal float32
# those of objective.py; written out, because Numba's cache does not see a change in another file
MAX_STEP, MIN_STEP, MIN_CURVATURE, RESOLUTION = np.float32(1.5), np.float32(1e-20), np.float32(1e-3), 1e-7

# The error model of NumPy: a check for division by zero would keep loops from becoming vector code.
compiled = njit(nogil=True, fastmath=True, cache=True, error_model="numpy")
# Helpers become part of each kernel. As functions of their own they would be linked to one copy when compiled and to
# another when loaded from the cache, with other vector loops and other last digits.
inlined = njit(nogil=True, fastmath=True, forceinline=True, error_model="numpy")


@inlined
def affinities(f, other, neighbours, z):
    """z[j] = ⟨f, other[neighbours[j]]⟩."""
    n, K = len(neighbours), len(f)
    quads = n - n % 4
    for j in range(0, quads, 4):
        g0, g1 = other[neighbours[j]], other[neighbours[j + 1]]
        g2, g3 = other[neighbours[j + 2]], other[neighbours[j + 3]]
        s0, s1, s2, s3 = ZERO, ZERO, ZERO, ZERO
        for k in range(K):
            s0 += f[k] * g0[k]
            s1 += f[k] * g1[k]
            s2 += f[k] * g2[k]
            s3 += f[k] * g3[k]
        z[j], z[j + 1], z[j + 2], z[j + 3] = s0, s1, s2, s3
    for j in range(quads, n):
        g0 = other[neighbours[j]]
        s0 = ZERO
        for k in range(K):
            s0 += f[k] * g0[k]
        z[j] = s0


@inlined
def add_neighbours(pull, curvature, other, neighbours, gradient, diagonal):
    """gradient −= Σ_j pull[j] g_j and diagonal += Σ_j curvature[j] g_j², g_j = other[neighbours[j]]."""
    n, K = len(neighbours), len(gradient)
    quads = n - n % 4
    for j in range(0, quads, 4):
        g0, g1 = other[neighbours[j]], other[neighbours[j + 1]]
        g2, g3 = other[neighbours[j + 2]], other[neighbours[j + 3]]
        p0, p1, p2, p3 = pull[j], pull[j + 1], pull[j + 2], pull[j + 3]
        c0, c1, c2, c3 = curvature[j], curvature[j + 1], curvature[j + 2], curvature[j + 3]
        for k in range(K):
            gradient[k] -= p0 * g0[k] + p1 * g1[k] + p2 * g2[k] + p3 * g3[k]
            diagonal[k] += c0 * g0[k] * g0[k] + c1 * g1[k] * g1[k] + c2 * g2[k] * g2[k] + c3 * g3[k] * g3[k]
    for j in range(quads, n):
        g0 = other[neighbours[j]]
        for k in range(K):
            gradient[k] -= pull[j] * g0[k]
            diagonal[k] += curvature[j] * g0[k] * g0[k]


@njit(nogil=True, fastmath={"contract", "nnan", "ninf", "nsz"}, forceinline=True)  # not reordered: small z must survive
def probabilities(z, n, background, p, bits):
    """p[j] = 1 − e^−(z[j] + background), with full relative accuracy for small z; bits is scratch."""
    power_of_two = bits.view(np.float32)
    for j in range(n):
        x = -min(z[j] + background, MAX_AFFINITY)
        m = np.floor(x * LOG2_E + HALF)
        r = x - m * LN2_HIGH - m * LN2_LOW  # e^x = 2^m e^r
        tail = np.float32(0.041666668) + r * (np.float32(0.008333365) + r * np.float32(0.0013944767))
        p[j] = r * (ONE + r * (HALF + r * (np.float32(0.16666667) + r * tail)))  # e^r − 1
        bits[j] = (np.int32(m) + 127) << 23
    for j in range(n):
        p[j] = (ONE - power_of_two[j]) - power_of_two[j] * p[j]


@inlined
def sum_of_logs(p, weights, n, bits):
    """Σ_j weights[j] log p[j] for normal positive p; bits is scratch."""
    pattern, mantissa = p.view(np.int32), bits.view(np.float32)
    total = ZERO
    for j in range(n):
        bits[j] = (pattern[j] & 0x7FFFFF) | 0x3F800000  # p without its exponent: in [1, 2)
    for j in range(n):
        exponent = np.float32(np.int32((pattern[j] >> 23) - 127))
        t = (mantissa[j] - SQRT2) / (mantissa[j] + SQRT2)  # log m = log √2 + 2 artanh t
        u = t * t
        series = TWO + u * (np.float32(0.6666667) + u * (np.float32(0.4) + u * np.float32(0.2857143)))
        total += weights[j] * (LN2 * exponent + HALF_LN2 + t * series)
    return total


@inlined
def likelihood(z, neighbours, row_weight, other_weights, pair_weights, background, p, w, bits):
    """
    What a block of positives with these affinities adds to Q; fills their probabilities p and weights w.

    `pair_weights`, those of the positives, are None where all weigh 1, and then cost nothing.
    """
    n = len(neighbours)
    probabilities(z, n, background, p, bits)
    known = ZERO
    for j in range(n):
        known += z[j]
        w[j] = row_weight * other_weights[neighbours[j]]
    if pair_weights is not None:
        for j in range(n):
            w[j] *= pair_weights[j]
    return -(known + sum_of_logs(p, w, n, bits))


@inlined
def row_value(
    f, other, other_sum, ridge, neighbours, row_weight, other_weights, pair_weights, background, slopes, gradient,
    diagonal, scratch,
):  # fmt: skip
    """A row's share of Q and, where `slopes` is true, its gradient and the diagonal of its Hessian."""
    z, p, w, pull, curvature, bits = scratch
    value = 0.0
    for k in range(len(f)):
        value += np.float64(f[k]) * np.float64(other_sum[k] + ridge[k] * f[k])
    if slopes:
        for k in range(len(f)):
            gradient[k] = other_sum[k] + TWO * ridge[k] * f[k]
            diagonal[k] = TWO * ridge[k]
    for start in range(0, len(neighbours), BLOCK):
        block = neighbours[start : start + BLOCK]
        n = len(block)
        affinities(f, other, block, z)
        pairs = None if pair_weights is None else pair_weights[start : start + BLOCK]
        value += likelihood(z, block, row_weight, other_weights, pairs, background, p, w, bits)
        if slopes:
            for j in range(n):
                odds = ONE / p[j] - ONE  # e^−z / (1 − e^−z)
                pull[j] = ONE + w[j] * odds
                curvature[j] = w[j] * odds * (ONE + odds)
            add_neighbours(pull, curvature, other, block, gradient, diagonal)
    return value


@inlined
def add_refused(total, other, refused, refusal):
    """total += refusal · Σ_j other[j] over what the row refused: unknowns that weigh 1 + refusal."""
    for j in refused:
        for k in range(len(total)):
            total[k] += refusal * other[j, k]


@compiled
def update_rows(
    rows,  # (n_rows, K) updated in place
    other,  # (n_other, K)
    other_sum,  # (K,) sum over all rows of the other side
    indptr,  # (n_rows + 1,) positives of the rows
    indices,  # (nnz,)
    pair_weights,  # (nnz,), or None; a positive weighs row_weights[r] * other_weights[j] * its own weight
    refused_ends,  # (n_rows + 1,) what the rows refused, or None
    refused,
    refusal,  # by how much more than 1 it weighs
    row_weights,  # (n_rows,)
    other_weights,  # (n_other,)
    ridge,  # (K,) penalty of each column
    free,  # (K,) 1 where the column may move, 0 where it is a constant
    background,
    steps,  # (n_rows,) the step to try first; updated in place
    values,  # (n_rows,) out: the row's share of Q at its new place
    beta,
    sigma,
    scaled,  # False: the paper's line search
    first_row,
    last_row,
):
    """One line-searched step for each of the rows first_row..last_row−1."""
    K = rows.shape[1]
    floats = np.empty((5, BLOCK), np.float32)
    scratch = (floats[0], floats[1], floats[2], floats[3], floats[4], np.empty(BLOCK, np.int32))
    gradient, diagonal, direction = np.empty(K, np.float32), np.empty(K, np.float32), np.empty(K, np.float32)
    there, total = np.empty(K, np.float32), other_sum if refused_ends is None else other_sum.copy()
    for r in range(first_row, last_row):
        f, weight = rows[r], row_weights[r]
        neighbours = indices[indptr[r] : indptr[r + 1]]
        pairs = None if pair_weights is None else pair_weights[indptr[r] : indptr[r + 1]]
        if refused_ends is not None:
            total[:] = other_sum
            add_refused(total, other, refused[refused_ends[r] : refused_ends[r + 1]], refusal)
        here = row_value(
            f, other, total, ridge, neighbours, weight, other_weights, pairs, background, True, gradient, diagonal,
            scratch,
        )  # fmt: skip
        for k in range(K):
            gradient[k] *= free[k]
            direction[k] = gradient[k] / max(diagonal[k], MIN_CURVATURE) if scaled else gradient[k]

        size = steps[r] if scaled else beta
        enlarge = True
        values[r] = here
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
            if value - here <= sigma * slope:
                f[:] = there
                values[r] = value
                steps[r] = min(size / beta, MAX_STEP) if enlarge else size
                break
            size *= beta
            enlarge = False


@compiled
def sum_inverse_probabilities(
    rows, other, indptr, indices, pair_weights, row_weights, other_weights, background, out, first_row, last_row
):
    """out[r] = Σ_j w_j / p_j over the row's positives: what the overall bias needs."""
    z, p, bits = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.int32)
    for r in range(first_row, last_row):
        neighbours = indices[indptr[r] : indptr[r + 1]]
        total = 0.0
        for start in range(0, len(neighbours), BLOCK):
            block = neighbours[start : start + BLOCK]
            affinities(rows[r], other, block, z)
            probabilities(z, len(block), background, p, bits)
            if pair_weights is not None:
                for j in range(len(block)):
                    p[j] /= pair_weights[indptr[r] + start + j]
            for j in range(len(block)):
                total += np.float64(row_weights[r] * other_weights[block[j]] / p[j])
        out[r] = total


@compiled
def sum_neighbours(other, indptr, indices, out, first_row, last_row):
    """out[r] = Σ_j other[j] over the row's positives."""
    for r in range(first_row, last_row):
        total, neighbours = out[r], indices[indptr[r] : indptr[r + 1]]
        total[:] = ZERO
        quads = len(neighbours) - len(neighbours) % 4
        for j in range(0, quads, 4):
            g0, g1 = other[neighbours[j]], other[neighbours[j + 1]]
            g2, g3 = other[neighbours[j + 2]], other[neighbours[j + 3]]
            for k in range(len(total)):
                total[k] += (g0[k] + g1[k]) + (g2[k] + g3[k])
        for j in range(quads, len(neighbours)):
            g0 = other[neighbours[j]]
            for k in range(len(total)):
                total[k] += g0[k]


@compiled
def sum_columns(table, out, block, first_row, last_row):
    """out[0, b] = Σ table[r] and out[1, b] = Σ table[r]², over the rows of block b."""
    b = first_row // block
    out[:, b] = 0.0
    for r in range(first_row, last_row):
        for k in range(table.shape[1]):
            value = np.float64(table[r, k])
            out[0, b, k] += value
            out[1, b, k] += value * value


@compiled
def count_memberships(table, out, first_row, last_row):
    """out[r] = how many entries of table[r] are not 0."""
    for r in range(first_row, last_row):
        n = 0
        for k in range(table.shape[1]):
            n += table[r, k] != ZERO
        out[r] = n


@compiled
def take_memberships(table, ends, columns, strengths, first_row, last_row):
    """The entries of table[r] that are not 0, and their columns, from ends[r] on."""
    for r in range(first_row, last_row):
        at = ends[r]
        for k in range(table.shape[1]):
            if table[r, k] != ZERO:
                columns[at], strengths[at] = k, table[r, k]
                at += 1
