"""
The row update on a GPU: `objective.RowProblem.step` in float32, compiled by NVIDIA Warp.

A block of threads works on one row. The threads share the columns, eight each at most, and keep the row, its gradient
and the diagonal of its Hessian in registers; the rows of four neighbours at a time are read once for their dot products
and their slopes. Only its own block writes a row, so nothing is added up with atomics and the same start gives the same
bytes. On Warp's CPU device a block is one thread that has all columns; the code is the same.

docs/gpu.md says how this maps to the hardware.
"""

from functools import cache
from typing import Any, NamedTuple

import warp as wp

from ocular.solver.devices import SUM_BLOCK, TILE
from ocular.solver.objective import MAX_STEP, MIN_CURVATURE, MIN_STEP, RESOLUTION

wp.config.log_level = wp.LOG_WARNING

COLUMNS = 8  # of each thread at most: with more of them a row would not fit into the registers
MAX_THREADS = 1024  # in a block
NOT_OFFERED = wp.constant(1.0)  # as a key among negated affinities: after all of them


def block_threads(width: int) -> int:
    """One warp up to 256 columns: a sum over it needs no shared memory and no waiting. Then a warp for each 256."""
    return min(TILE * -(-width // (TILE * COLUMNS)), MAX_THREADS)


# ------------------------------------------------------------------------------------------ one positive, one column


@wp.func
def probability(z: float) -> float:
    """1 − e^(−z), with full relative accuracy for small z."""
    if z < 0.5:
        tail = 0.0083333333 - z * (0.0013888889 - z * (0.0001984127 - z * 2.4801587e-5))
        return z * (1.0 - z * (0.5 - z * (0.16666667 - z * (0.041666667 - z * tail))))
    return 1.0 - wp.exp(-z)


@wp.func
def likelihood(z: wp.vec4, weights: wp.vec4, n: int, background: float) -> wp.float64:
    """What the first n of four positives with these affinities add to Q."""
    total = float(0.0)
    for q in range(4):
        if q < n:
            total -= z[q] + weights[q] * wp.log(probability(z[q] + background))
    return wp.float64(total)


@wp.func
def slopes(z: wp.vec4, weights: wp.vec4, n: int, background: float):
    """How much the first n of four positives pull at the row, and what they add to its curvature; 0 for the others."""
    pull = wp.vec4(0.0)
    curvature = wp.vec4(0.0)
    for q in range(4):
        if q < n:
            odds = 1.0 / probability(z[q] + background) - 1.0
            pull[q] = 1.0 + weights[q] * odds
            curvature[q] = weights[q] * odds * (1.0 + odds)
    return pull, curvature


@wp.func
def products(f: float, g0: float, g1: float, g2: float, g3: float) -> wp.vec4:
    return wp.vec4(f * g0, f * g1, f * g2, f * g3)


@wp.func
def pulled(gradient: float, g0: float, g1: float, g2: float, g3: float, pull: wp.vec4) -> float:
    return gradient - (pull[0] * g0 + pull[1] * g1 + pull[2] * g2 + pull[3] * g3)


@wp.func
def curved(diagonal: float, g0: float, g1: float, g2: float, g3: float, c: wp.vec4) -> float:
    return diagonal + (c[0] * g0 * g0 + c[1] * g1 * g1 + c[2] * g2 * g2 + c[3] * g3 * g3)


@wp.func
def known_value(f: float, other_sum: float, ridge: float) -> wp.float64:
    """What a column adds to Q whatever the positives are: its share of the sum over all pairs, and the penalty."""
    return wp.float64(f) * wp.float64(other_sum + ridge * f)


@wp.func
def known_slope(f: float, other_sum: float, ridge: float) -> float:
    return other_sum + 2.0 * ridge * f


@wp.func
def direction_of(gradient: float, diagonal: float, scaled: int) -> float:
    if scaled != 0:
        return gradient / wp.max(diagonal, wp.static(MIN_CURVATURE))
    return gradient


@wp.func
def projected(f: float, direction: float, size: float) -> float:
    return wp.max(f - size * direction, 0.0)


@wp.func
def promised(gradient: float, there: float, f: float) -> wp.float64:
    return wp.float64(gradient) * wp.float64(there - f)


# -------------------------------------------------------------------------------------------------------------- rows


class RowKernels(NamedTuple):
    """The kernels with a block for each row, for tables of one width."""

    update_rows: wp.Kernel
    sum_inverse_probabilities: wp.Kernel
    threads: int  # of a block


@cache
def row_kernels(width: int) -> RowKernels:
    """Compiled when they are first launched, and kept in Warp's cache on disk."""
    threads = block_threads(width)
    row_kernel = wp.kernel(
        module="unique",
        module_options={"block_dim": threads},
        # up to here a block fits into a multiprocessor with as many registers as the compiler likes
        launch_bounds=threads if threads > 256 else None,
        enable_backward=False,
        grid_stride=False,
    )

    @wp.func
    def row_of(table: wp.array2d[float], r: int):
        return wp.tile_load(table[r], shape=width, bounds_check=False)

    @wp.func
    def columns_of(table: wp.array[float]):
        return wp.tile_load(table, shape=width, bounds_check=False)

    @wp.func
    def four_of(indices: wp.array[wp.int32], j: int, end: int) -> wp.vec4i:
        """The neighbours from j on; after the end the last one again, whose affinity is then not counted."""
        last = end - 1
        return wp.vec4i(
            indices[j], indices[wp.min(j + 1, last)], indices[wp.min(j + 2, last)], indices[wp.min(j + 3, last)]
        )

    @wp.func
    def weights_of(at: wp.vec4i, row_weight: float, other_weights: wp.array[float]) -> wp.vec4:
        return row_weight * wp.vec4(
            other_weights[at[0]], other_weights[at[1]], other_weights[at[2]], other_weights[at[3]]
        )

    @wp.func
    def affinities(f: Any, other: wp.array2d[float], at: wp.vec4i) -> wp.vec4:
        """⟨f, g⟩ with four neighbours g, in one sum over the block."""
        g0, g1, g2, g3 = row_of(other, at[0]), row_of(other, at[1]), row_of(other, at[2]), row_of(other, at[3])
        return wp.tile_sum(wp.tile_map(products, f, g0, g1, g2, g3))[0]

    @row_kernel
    def update_rows(
        order: wp.array[wp.int32],  # the rows to step, the longest first
        rows: wp.array2d[float],  # (n_rows, width) updated in place
        other: wp.array2d[float],  # (n_other, width)
        other_sum: wp.array[float],  # (width,) sum over all rows of the other side
        indptr: wp.array[wp.int32],  # (n_rows + 1,) positives of the rows
        indices: wp.array[wp.int32],  # (nnz,)
        row_weights: wp.array[float],  # (n_rows,) a positive weighs row_weights[r] * other_weights[j]
        other_weights: wp.array[float],  # (n_other,)
        ridge: wp.array[float],  # (width,) penalty of each column
        free: wp.array[float],  # (width,) 1 where the column may move, 0 where it is a constant
        background: float,
        steps: wp.array[float],  # (n_rows,) the step to try first; updated in place
        values: wp.array[wp.float64],  # (n_rows,) out: the row's share of Q at its new place
        beta: float,
        sigma: wp.float64,
        scaled: int,  # 0: the paper's line search
        n_steps: int,  # at most, of each row
        tolerance: wp.float64,  # a row stands still where a step gains no more than this share of its value
    ):
        """Line-searched steps for each of the rows."""
        r = order[wp.tid()]
        start = indptr[r]
        end = indptr[r + 1]
        weight = row_weights[r]
        step = steps[r]
        value = wp.float64(wp.inf)
        for _ in range(n_steps):
            f = row_of(rows, r)
            gradient = wp.tile_map(known_slope, f, columns_of(other_sum), columns_of(ridge))
            diagonal = 2.0 * columns_of(ridge)
            here = wp.tile_sum(wp.tile_map(known_value, f, columns_of(other_sum), columns_of(ridge)))[0]
            for j in range(start, end, 4):
                at = four_of(indices, j, end)
                g0, g1, g2, g3 = row_of(other, at[0]), row_of(other, at[1]), row_of(other, at[2]), row_of(other, at[3])
                z = wp.tile_sum(wp.tile_map(products, f, g0, g1, g2, g3))[0]
                w = weights_of(at, weight, other_weights)
                here += likelihood(z, w, end - j, background)
                pull, curvature = slopes(z, w, end - j, background)
                gradient = wp.tile_map(pulled, gradient, g0, g1, g2, g3, pull)
                diagonal = wp.tile_map(curved, diagonal, g0, g1, g2, g3, curvature)
            gradient = gradient * columns_of(free)
            direction = wp.tile_map(direction_of, gradient, diagonal, scaled)

            before = value
            value = here
            size = beta
            if scaled != 0:
                size = step
            step = float(1.0)
            enlarge = bool(True)
            while size > wp.static(MIN_STEP):
                there = wp.tile_map(projected, f, direction, size)
                slope = wp.tile_sum(wp.tile_map(promised, gradient, there, f))[0]
                if -slope <= wp.float64(wp.static(RESOLUTION)) * wp.abs(here):
                    break
                trial = wp.tile_sum(wp.tile_map(known_value, there, columns_of(other_sum), columns_of(ridge)))[0]
                for j in range(start, end, 4):
                    at = four_of(indices, j, end)
                    z = affinities(there, other, at)
                    trial += likelihood(z, weights_of(at, weight, other_weights), end - j, background)
                if trial - here <= sigma * slope:
                    wp.tile_store(rows[r], there, bounds_check=False)
                    value = trial
                    step = size
                    if enlarge:
                        step = wp.min(size / beta, wp.static(MAX_STEP))
                    break
                size *= beta
                enlarge = False
            if before - value <= tolerance * wp.abs(value):
                break
        values[r] = value
        steps[r] = step

    @row_kernel
    def sum_inverse_probabilities(
        order: wp.array[wp.int32],
        rows: wp.array2d[float],
        other: wp.array2d[float],
        indptr: wp.array[wp.int32],
        indices: wp.array[wp.int32],
        row_weights: wp.array[float],
        other_weights: wp.array[float],
        background: float,
        out: wp.array[wp.float64],
    ):
        """out[r] = Σ_j w_j / p_j over the row's positives: what the overall bias needs."""
        r = order[wp.tid()]
        end = indptr[r + 1]
        f = row_of(rows, r)
        total = wp.float64(0.0)
        for j in range(indptr[r], end, 4):
            at = four_of(indices, j, end)
            z = affinities(f, other, at)
            w = weights_of(at, row_weights[r], other_weights)
            for q in range(4):
                if j + q < end:
                    total += wp.float64(w[q] / probability(z[q] + background))
        out[r] = total

    return RowKernels(update_rows, sum_inverse_probabilities, threads)


# ----------------------------------------------------------------------------------------------------- column sums


@wp.kernel(enable_backward=False)
def sum_columns(table: wp.array2d[float], sums: wp.array2d[wp.float64], squares: wp.array2d[wp.float64]):
    """Sum and sum of squares of each column, over the rows of block b."""
    b, k = wp.tid()
    total = wp.float64(0.0)
    square = wp.float64(0.0)
    for r in range(b * SUM_BLOCK, wp.min((b + 1) * SUM_BLOCK, table.shape[0])):
        value = wp.float64(table[r, k])
        total += value
        square += value * value
    sums[b, k] = total
    squares[b, k] = square


@wp.kernel(enable_backward=False)
def finish_sums(
    sums: wp.array2d[wp.float64],
    squares: wp.array2d[wp.float64],
    ridge: wp.array[float],
    out: wp.array[float],  # (width,) the sums
    penalties: wp.array[wp.float64],  # (width,) ridge · Σ table²
):
    """Blocks in their order: the same bytes each time."""
    k = wp.tid()
    total = wp.float64(0.0)
    square = wp.float64(0.0)
    for b in range(sums.shape[0]):
        total += sums[b, k]
        square += squares[b, k]
    out[k] = float(total)
    penalties[k] = wp.float64(ridge[k]) * square


# ----------------------------------------------------------------------------------------------------------- top-N

# products and sums rounded one by one, as `ocular.scoring` does it: ties are ties on both
exactly = wp.kernel(module="unique", module_options={"fuse_fp": False}, enable_backward=False)


@exactly
def score_rows(
    row_ptr: wp.array[wp.int64],  # of the users, CSR
    coclusters: wp.array[wp.int32],
    strengths: wp.array[float],
    items: wp.array2d[float],  # (K, n_items)
    base: wp.array[float],  # (n_items,)
    offered: wp.array[wp.bool],  # (n_items,)
    first_row: int,
    keys: wp.array2d[float],  # (n_rows, n_items) out: the negated affinities, so that the best comes first
    places: wp.array2d[wp.int32],  # out: 0, 1, 2, …
):
    """One thread for each pair: neighbouring threads read neighbouring items."""
    u, i = wp.tid()
    score = base[i]
    for a in range(int(row_ptr[first_row + u]), int(row_ptr[first_row + u + 1])):
        score += strengths[a] * items[coclusters[a], i]
    keys[u, i] = wp.where(offered[i], -score, NOT_OFFERED)
    places[u, i] = i


@wp.kernel(enable_backward=False)
def leave_out(
    owned_ptr: wp.array[wp.int64], owned: wp.array[wp.int32], place: wp.array[wp.int32], first_row: int,
    keys: wp.array2d[float],
):  # fmt: skip
    u = wp.tid()
    for a in range(int(owned_ptr[first_row + u]), int(owned_ptr[first_row + u + 1])):
        keys[u, place[owned[a]]] = NOT_OFFERED


@wp.kernel(enable_backward=False)
def take_best(
    keys: wp.array2d[float], places: wp.array2d[wp.int32], ids: wp.array2d[wp.int32], scores: wp.array2d[float]
):
    """The first of the sorted entries; −1 and nan where there are none left."""
    u, n = wp.tid()
    found = keys[u, n] != NOT_OFFERED
    ids[u, n] = wp.where(found, places[u, n], -1)
    scores[u, n] = wp.where(found, -keys[u, n], wp.nan)
