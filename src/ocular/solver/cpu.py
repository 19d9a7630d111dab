"""The sweeps on the cores of this machine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.solver import kernels, sparse_kernels
from ocular.solver.config import BIAS_COLUMN, Factors, FitConfig, State, user_weights
from ocular.solver.pool import RowPool

FOLD_IN_STEPS, FOLD_IN_TOLERANCE = 100, 1e-6
SUM_BLOCK = 1024  # rows
# Share of the dense kernel's work from which on the sparse one is slower, though it does nothing needless
SPARSE = 0.1
PER_POSITIVE = 8  # what the sparse kernel does for each positive anyway, as a number of memberships
STAY = 1.5  # sparse memberships stay so up to this multiple of it: going over takes as long as some sweeps
LINE_BYTES = 64
GROWTH = 1.5  # place for new sparse rows, as a multiple of what the old ones take


def column_sums(table: Factors, pool: RowPool) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Sum and sum of squares of each column: blocks of a fixed size in threads, then in their order."""
    n_rows, width = table.shape
    blocks = np.empty((2, -(-n_rows // SUM_BLOCK), width))
    starts = [*range(0, n_rows, SUM_BLOCK), n_rows]
    if isinstance(table, np.ndarray):
        pool.run_chunks(kernels.sum_columns, pairwise(starts), table, blocks, SUM_BLOCK)
    else:
        pool.run_chunks(sparse_kernels.sum_sparse_columns, pairwise(starts), *_arrays(table), blocks, SUM_BLOCK)
    sums, squares = blocks.sum(axis=1)
    return sums.astype(np.float32), squares


def step_rows(
    pool: RowPool,
    config: FitConfig,
    rows: NDArray[np.float32],
    other: NDArray[np.float32],
    other_sum: NDArray[np.float32],
    positives: Adjacency,
    row_weights: NDArray[np.float32],
    other_weights: NDArray[np.float32],
    steps: NDArray[np.float32],
    values: NDArray[np.float64],
    bias: float,
    *,
    bias_column: int,
) -> None:
    """One line-searched step for every row, in place; `values` gets each row's share of Q."""
    ridge = np.zeros(config.width, dtype=np.float32)
    free = np.zeros(config.width, dtype=np.float32)
    ridge[: config.n_coclusters] = config.regularization
    free[: config.n_coclusters] = 1.0
    if config.bias:
        free[bias_column] = 1.0
    pool.run(
        kernels.update_rows, positives, rows, other, other_sum, positives.indptr, positives.indices, row_weights,
        other_weights, ridge, free, np.float32(config.background + bias), steps, values, np.float32(config.beta),
        config.sigma, config.line_search == "scaled",
    )  # fmt: skip


def step_sparse_rows(
    pool: RowPool,
    config: FitConfig,
    rows: sp.csr_array,
    other: sp.csr_array,
    affinities: NDArray[np.float32],
    other_sum: NDArray[np.float32],
    positives: Adjacency,
    row_weights: NDArray[np.float32],
    other_weights: NDArray[np.float32],
    steps: NDArray[np.float32],
    values: NDArray[np.float64],
) -> sp.csr_array:
    """The same for sparse rows, which are new, and with the affinities of the positives, changed in place."""
    sizes, old, others = np.zeros(len(positives), dtype=np.int64), _arrays(rows), _arrays(other)
    problem = (
        other_sum, positives.indptr, positives.indices, row_weights, other_weights, np.float32(config.regularization),
        np.float32(config.background), steps, values, np.float32(config.beta), config.sigma,
        config.line_search == "scaled",
    )  # fmt: skip
    parts: dict[int, tuple[NDArray[np.uint32], NDArray[np.float32]]] = {}  # new rows, by the first

    def step(first: int, last: int) -> None:
        while first < last:
            room = int(GROWTH * (rows.indptr[last] - rows.indptr[first])) + rows.shape[1]  # enough for one row at least
            columns, strengths = np.empty(room, dtype=np.uint32), np.empty(room, dtype=np.float32)
            done, taken = sparse_kernels.update_sparse_rows(
                *old, *others, affinities, *problem, columns, strengths, sizes, first, last
            )  # fmt: skip
            parts[first] = columns[:taken], strengths[:taken]
            first = done

    pool.run(step, positives)
    columns, strengths = (np.concatenate(side) for side in zip(*(parts[at] for at in sorted(parts)), strict=True))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    if ends[-1] < 2**31:
        ends = ends.astype(np.int32)  # else SciPy would give the columns 8 bytes each, too
    return sp.csr_array((strengths, columns.view(np.int32), ends), shape=rows.shape)


def _arrays(factors: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float32]]:
    """Always of the same types: a kernel is compiled for each combination of them."""
    columns = factors.indices.astype(np.int32, copy=False).view(np.uint32)  # without a sign, which Numba would look at
    return factors.indptr.astype(np.int64), columns, factors.data


def _dense(factors: Factors) -> NDArray[np.float32]:
    """Rows that begin with a cache line, as no allocator promises: loads across two lines take longer."""
    if isinstance(factors, np.ndarray) and factors.ctypes.data % LINE_BYTES == 0:
        return factors
    n_rows, width = factors.shape
    memory = np.empty(n_rows * width * 4 + LINE_BYTES, dtype=np.uint8)
    start = -memory.ctypes.data % LINE_BYTES
    table = memory[start : start + n_rows * width * 4].view(np.float32).reshape(n_rows, width)
    if isinstance(factors, np.ndarray):
        table[:] = factors
    else:
        factors.toarray(out=table)
    return table


def _row_sizes(factors: Factors, positives: Adjacency, pool: RowPool) -> NDArray[np.int64]:
    """How many memberships each row has."""
    if not isinstance(factors, np.ndarray):
        return np.asarray(np.diff(factors.indptr), dtype=np.int64)
    sizes = np.empty(len(factors), dtype=np.int64)
    pool.run(kernels.count_memberships, positives, factors, sizes)
    return sizes


class CpuBackend:
    """Numba kernels in threads."""

    def __init__(self, interactions: Interactions, config: FitConfig, *, sparse: float = SPARSE) -> None:
        """sparse: below which share of the work memberships become sparse; never with biases, which everybody has."""
        self._config = config
        self._sparse = 0.0 if config.bias else sparse
        self._pool = RowPool(config.threads)
        self._by_user, self._by_item = interactions.by_user, interactions.by_item
        self._user_weights = user_weights(interactions.by_user, interactions.n_items, config.relative)
        self._item_weights = np.ones(interactions.n_items, dtype=np.float32)
        self._user_values = np.empty(interactions.n_users)
        self._item_values = np.empty(interactions.n_items)
        self._n_unknown = interactions.n_users * interactions.n_items - interactions.nnz
        self._interactions = interactions

    def start(self, state: State) -> None:
        self._state = state
        self._affinities: NDArray[np.float32] | None = None  # of all positives, by user, while memberships are sparse

    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self._pool.close()

    def sweep(self) -> float:
        s, config, pool = self._state, self._config, self._pool
        self._choose_format()
        if config.bias:
            s.bias = self._updated_bias()
        items = self._by_item, self._item_weights, self._user_weights, s.item_steps, self._item_values
        users = self._by_user, self._user_weights, self._item_weights, s.user_steps, self._user_values
        user_sum, _ = column_sums(s.user_factors, pool)
        if self._affinities is None:
            step_rows(
                pool, config, s.item_factors, s.user_factors, user_sum, *items, s.bias,
                bias_column=config.n_coclusters + 1,
            )  # fmt: skip
        else:
            z = self._affinities[self._interactions.pairs_by_item]
            s.item_factors = step_sparse_rows(pool, config, s.item_factors, s.user_factors, z, user_sum, *items)
            self._affinities[self._interactions.pairs_by_item] = z
        item_sum, item_squares = column_sums(s.item_factors, pool)
        if self._affinities is None:
            step_rows(
                pool, config, s.user_factors, s.item_factors, item_sum, *users, s.bias, bias_column=config.n_coclusters
            )
        else:
            s.user_factors = step_sparse_rows(
                pool, config, s.user_factors, s.item_factors, self._affinities, item_sum, *users
            )
        penalty = float(item_squares[: config.n_coclusters].sum())
        likelihood = float(self._user_values.sum()) + s.bias * self._n_unknown
        return likelihood + config.regularization * penalty

    def _choose_format(self) -> None:
        """Dense or sparse memberships, whichever the next sweep is faster with."""
        s = self._state
        limit = self._sparse if isinstance(s.user_factors, np.ndarray) else STAY * self._sparse
        if limit == 0 or self.share_of_work() >= limit:
            s.user_factors, s.item_factors, self._affinities = _dense(s.user_factors), _dense(s.item_factors), None
        elif self._affinities is None:
            s.user_factors, s.item_factors = sp.csr_array(s.user_factors), sp.csr_array(s.item_factors)
            self._affinities = np.empty(len(self._by_user.indices), dtype=np.float32)
            self._pool.run(
                sparse_kernels.sparse_affinities, self._by_user, *_arrays(s.user_factors), *_arrays(s.item_factors),
                s.user_factors.shape[1], self._by_user.indptr, self._by_user.indices, self._affinities,
            )  # fmt: skip

    def share_of_work(self) -> float:
        """What the sparse kernel would do, relative to the dense one's multiplications."""
        s, nnz = self._state, int(self._by_user.indptr[-1])
        sides = (s.user_factors, self._by_user), (s.item_factors, self._by_item)
        work = sum(int(_row_sizes(*side, self._pool) @ side[1].degrees) for side in sides)
        return (work / max(2 * nnz, 1) + PER_POSITIVE) / self._config.n_coclusters

    def _updated_bias(self) -> float:
        """One EM step of the overall bias, as in `objective.updated_bias`."""
        s = self._state
        inverse = np.empty(len(self._by_user))
        self._pool.run(
            kernels.sum_inverse_probabilities, self._by_user, s.user_factors, s.item_factors,
            self._by_user.indptr, self._by_user.indices, self._user_weights, self._item_weights,
            np.float32(self._config.background + s.bias), inverse,
        )  # fmt: skip
        pairs = self._n_unknown + float((self._user_weights * self._by_user.degrees).sum(dtype=np.float64))
        return s.bias * float(inverse.sum()) / pairs if pairs else s.bias


def fold_in(
    positives: Adjacency, item_factors: NDArray[np.float32], config: FitConfig, bias: float
) -> NDArray[np.float32]:
    """
    The rows of new users, (n, width), with the items fixed: a convex problem for each, stepped to its minimum.

    `item_factors` are the working arrays of a fit, bias columns included.
    """
    n_items, K = len(item_factors), config.n_coclusters
    rows = fold_in_start(positives, item_factors, config)
    weights = user_weights(positives, n_items, config.relative)
    item_weights = np.ones(n_items, dtype=np.float32)
    steps, values = np.ones(len(rows), dtype=np.float32), np.full(len(rows), np.inf)
    with RowPool(config.threads if len(rows) > 1 else 1) as pool:
        item_sum, _ = column_sums(item_factors, pool)
        moving = np.arange(len(rows))
        for _ in range(FOLD_IN_STEPS):
            # each row goes on until it stands still by itself, so that its result does not depend on the others
            f, s, v = rows[moving], steps[moving], values[moving]
            step_rows(
                pool, config, f, item_factors, item_sum, positives.take(moving), weights[moving], item_weights, s, v,
                bias, bias_column=K,
            )  # fmt: skip
            still = values[moving] - v <= FOLD_IN_TOLERANCE * np.abs(v)
            rows[moving], steps[moving], values[moving] = f, s, v
            moving = moving[~still]
            if len(moving) == 0:
                break
    return rows


def fold_in_start(positives: Adjacency, item_factors: NDArray[np.float32], config: FitConfig) -> NDArray[np.float32]:
    """The sum of what each new user owns, scaled to a mean affinity of 1 with it."""
    K = config.n_coclusters
    rows = np.zeros((len(positives), config.width), dtype=np.float32)
    with RowPool(config.threads if len(rows) > 1 else 1) as pool:
        pool.run(kernels.sum_neighbours, positives, item_factors, positives.indptr, positives.indices, rows)
    rows[:, K:] = 0.0
    norms = np.einsum("rk,rk->r", rows, rows, dtype=np.float64)
    rows *= (positives.degrees / np.maximum(norms, 1e-9)).astype(np.float32)[:, None]
    if config.bias:
        rows[:, K + 1] = BIAS_COLUMN
    return rows
