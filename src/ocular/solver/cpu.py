"""The sweeps on the cores of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.solver import kernels
from ocular.solver.config import BIAS_COLUMN, FitConfig, State, user_weights

FOLD_IN_STEPS, FOLD_IN_TOLERANCE = 100, 1e-6
SUM_BLOCK = 1024  # rows
CHUNKS_PER_THREAD = 16  # small enough that no thread waits long for the last one


class RowPool:
    """Runs a kernel over all rows in threads. Rows do not depend on each other, so the result has the same bytes."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._helpers = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None

    def run(self, kernel: Callable[..., None], rows: Adjacency, *arguments: Any) -> None:
        """kernel(*arguments, first_row, last_row) for chunks of rows of about equal work."""
        work = rows.indptr + np.arange(len(rows) + 1)  # a row costs something even without positives
        shares = np.linspace(0, work[-1], self.n_threads * CHUNKS_PER_THREAD + 1)
        cuts = np.unique(np.searchsorted(work, shares))
        cuts[-1] = len(rows)
        self.run_chunks(kernel, pairwise(cuts.tolist()), *arguments)

    def run_chunks(self, kernel: Callable[..., None], chunks: Iterable[tuple[int, int]], *arguments: Any) -> None:
        """kernel(*arguments, first, last) for each of the chunks."""
        todo = iter(list(chunks))  # each thread takes the next chunk when it has done one

        def work() -> None:
            for first, last in todo:
                kernel(*arguments, first, last)

        helpers = [self._helpers.submit(work) for _ in range(self.n_threads - 1)] if self._helpers is not None else []
        work()
        for helper in helpers:
            helper.result()

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def column_sums(table: NDArray[np.float32], pool: RowPool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum and sum of squares of each column: blocks of a fixed size in threads, then in their order."""
    blocks = np.empty((2, -(-len(table) // SUM_BLOCK), table.shape[1]))
    starts = [*range(0, len(table), SUM_BLOCK), len(table)]
    pool.run_chunks(kernels.sum_columns, pairwise(starts), table, blocks, SUM_BLOCK)
    sums, squares = blocks.sum(axis=1)
    return sums, squares


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


class CpuBackend:
    """Numba kernels in threads."""

    def __init__(self, interactions: Interactions, config: FitConfig) -> None:
        self._config = config
        self._pool = RowPool(config.threads)
        self._by_user, self._by_item = interactions.by_user, interactions.by_item
        self._user_weights = user_weights(interactions.by_user, interactions.n_items, config.relative)
        self._item_weights = np.ones(interactions.n_items, dtype=np.float32)
        self._user_values = np.empty(interactions.n_users)
        self._item_values = np.empty(interactions.n_items)
        self._n_unknown = interactions.n_users * interactions.n_items - interactions.nnz

    def start(self, state: State) -> None:
        self._state = state

    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self._pool.close()

    def sweep(self) -> float:
        s, config = self._state, self._config
        if config.bias:
            s.bias = self._updated_bias()
        user_sum = column_sums(s.user_factors, self._pool)[0].astype(np.float32)
        step_rows(
            self._pool, config, s.item_factors, s.user_factors, user_sum, self._by_item, self._item_weights,
            self._user_weights, s.item_steps, self._item_values, s.bias, bias_column=config.n_coclusters + 1,
        )  # fmt: skip
        item_sum, item_squares = column_sums(s.item_factors, self._pool)
        step_rows(
            self._pool, config, s.user_factors, s.item_factors, item_sum.astype(np.float32), self._by_user,
            self._user_weights, self._item_weights, s.user_steps, self._user_values, s.bias,
            bias_column=config.n_coclusters,
        )  # fmt: skip
        penalty = float(item_squares[: config.n_coclusters].sum())
        likelihood = float(self._user_values.sum()) + s.bias * self._n_unknown
        return likelihood + config.regularization * penalty

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
    rows = np.zeros((len(positives), config.width), dtype=np.float32)
    weights = user_weights(positives, n_items, config.relative)
    item_weights = np.ones(n_items, dtype=np.float32)
    steps, values = np.ones(len(rows), dtype=np.float32), np.full(len(rows), np.inf)
    with RowPool(config.threads if len(rows) > 1 else 1) as pool:
        pool.run(kernels.sum_neighbours, positives, item_factors, positives.indptr, positives.indices, rows)
        rows[:, K:] = 0.0
        # the sum of what is owned, scaled to a mean affinity of 1 with it
        norms = np.einsum("rk,rk->r", rows, rows, dtype=np.float64)
        rows *= (positives.degrees / np.maximum(norms, 1e-9)).astype(np.float32)[:, None]
        if config.bias:
            rows[:, K + 1] = BIAS_COLUMN
        item_sum = column_sums(item_factors, pool)[0].astype(np.float32)
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
