"""The backend that sweeps on the cores of this machine, and the fold-in of new users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import DataError
from ocular.solver import kernels, sparse_kernels
from ocular.solver.attribute_steps import AttributeSide
from ocular.solver.attributes import Attributes, SideAttributes
from ocular.solver.backend import SPARSE, BaseBackend, column_sums, csr_parts, csr_rows, weight_sums
from ocular.solver.config import BIAS_COLUMN, FitConfig, State, column_settings, padded, row_extras, user_weights
from ocular.solver.pool import RowPool

FOLD_IN_STEPS, FOLD_IN_TOLERANCE = 100, 1e-6
Floats = NDArray[np.float32]
GROWTH = 1.5  # space for new sparse rows, as a multiple of what the old ones take


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
    """Take one line-searched step for every row, in place; `values` gets each row's share of Q."""
    ridge, free = column_settings(config, bias_column)
    pool.run(
        kernels.update_rows, positives, rows, other, other_sum, positives.indptr, positives.indices,
        *row_extras(positives, config.refusal_weight), row_weights, other_weights, ridge, free,
        np.float32(config.background + bias), steps, values, np.float32(config.beta), config.sigma,
        config.line_search == "scaled",
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
    """Return the sparse rows after such a step; `affinities`, those of the positives, change in place."""
    sizes, old, others = np.zeros(len(positives), dtype=np.int64), csr_parts(rows), csr_parts(other)
    problem = (
        other_sum, positives.indptr, positives.indices, *row_extras(positives, config.refusal_weight), row_weights,
        other_weights, np.float32(config.regularization),
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
    return csr_rows(strengths, columns.view(np.int32), ends, rows.shape[1])


class CpuBackend(BaseBackend):
    """
    Sweeps by Numba kernels in threads.

    With attributes memberships stay dense: a row may join a co-cluster that none of its neighbours is in.
    """

    def __init__(
        self,
        interactions: Interactions,
        config: FitConfig,
        *,
        sparse: float = SPARSE,
        attributes: SideAttributes | None = None,
    ) -> None:
        users, items = attributes if attributes is not None and config.attribute_strength > 0 else (None, None)
        sparse = sparse if users is None and items is None else 0.0
        super().__init__(interactions.by_user, interactions.by_item, config, sparse=sparse)
        self._interactions = interactions
        for side, rows, n in (("users", users, interactions.n_users), ("items", items, interactions.n_items)):
            if rows is not None and len(rows) != n:  # the kernels trust it
                raise DataError(f"expected attributes of {n} {side}, got {len(rows)} rows")
        self._user_attributes = None if users is None else AttributeSide(users, config, self._pool)
        self._item_attributes = None if items is None else AttributeSide(items, config, self._pool)

    def start(self, state: State) -> None:
        super().start(state)
        K = self._config.n_coclusters
        if self._user_attributes is not None and state.user_attribute_weights is None:
            state.user_attribute_weights = self._user_attributes.attributes.initial_weights(K)
        if self._item_attributes is not None and state.item_attribute_weights is None:
            state.item_attribute_weights = self._item_attributes.attributes.initial_weights(K)
        self._affinities: NDArray[np.float32] | None = None  # of all positives, by user, while memberships are sparse

    def sweep(self) -> float:
        objective = super().sweep()
        for side in (self._user_attributes, self._item_attributes):
            if side is not None:
                objective += side.cost
        return objective

    def _choose_format(self) -> None:
        super()._choose_format()
        s = self._state
        if isinstance(s.user_factors, np.ndarray) or isinstance(s.item_factors, np.ndarray):
            self._affinities = None
        elif self._affinities is None:
            self._affinities = np.empty(len(self._by_user.indices), dtype=np.float32)
            self._pool.run(
                sparse_kernels.sparse_affinities, self._by_user, *csr_parts(s.user_factors),
                *csr_parts(s.item_factors), s.user_factors.shape[1], self._by_user.indptr, self._by_user.indices,
                self._affinities,
            )  # fmt: skip

    def _step_items(self, user_sum: NDArray[np.float32]) -> None:
        s, config, pool = self._state, self._config, self._pool
        items = self._by_item, self._item_weights, self._user_weights, s.item_steps, self._item_values
        if self._item_attributes is not None and s.item_attribute_weights is not None:
            self._item_attributes.step(
                s.item_attribute_weights, s.item_factors, s.user_factors, user_sum, *items, s.bias,
                bias_column=config.n_coclusters + 1,
            )  # fmt: skip
        elif self._affinities is None:
            step_rows(
                pool, config, s.item_factors, s.user_factors, user_sum, *items, s.bias,
                bias_column=config.n_coclusters + 1,
            )  # fmt: skip
        else:
            z = self._affinities[self._interactions.pairs_by_item]
            s.item_factors = step_sparse_rows(pool, config, s.item_factors, s.user_factors, z, user_sum, *items)
            self._affinities[self._interactions.pairs_by_item] = z

    def _step_users(self, item_sum: NDArray[np.float32]) -> None:
        s, config, pool = self._state, self._config, self._pool
        users = self._by_user, self._user_weights, self._item_weights, s.user_steps, self._user_values
        if self._user_attributes is not None and s.user_attribute_weights is not None:
            self._user_attributes.step(
                s.user_attribute_weights, s.user_factors, s.item_factors, item_sum, *users, s.bias,
                bias_column=config.n_coclusters,
            )  # fmt: skip
        elif self._affinities is None:
            step_rows(
                pool, config, s.user_factors, s.item_factors, item_sum, *users, s.bias, bias_column=config.n_coclusters
            )
        else:
            s.user_factors = step_sparse_rows(
                pool, config, s.user_factors, s.item_factors, self._affinities, item_sum, *users
            )

    def _positive_weights(self) -> NDArray[np.float64]:
        return weight_sums(self._by_user)

    def _inverse_probabilities(self) -> NDArray[np.float64]:
        s, inverse = self._state, np.empty(len(self._by_user))
        self._pool.run(
            kernels.sum_inverse_probabilities, self._by_user, s.user_factors, s.item_factors,
            self._by_user.indptr, self._by_user.indices, row_extras(self._by_user, 1.0)[0], self._user_weights,
            self._item_weights, np.float32(self._config.background + s.bias), inverse,
        )  # fmt: skip
        return inverse


def fold_in(
    positives: Adjacency, item_factors: NDArray[np.float32], config: FitConfig, bias: float
) -> NDArray[np.float32]:
    """
    Return the rows of new users, (n, width), with the items fixed: each is a convex problem, stepped to its minimum.

    `item_factors` are the working arrays of a fit, bias columns included.
    """
    n_items, K = len(item_factors), config.n_coclusters
    rows = fold_in_start(positives, item_factors, config)
    weights = user_weights(positives, n_items, config.relative)
    item_weights = np.ones(n_items, dtype=np.float32)
    with RowPool(config.threads if len(rows) > 1 else 1) as pool:
        item_sum, _ = column_sums(item_factors, pool)

        def step(moving: NDArray[np.int64], f: Floats, steps: Floats, values: NDArray[np.float64]) -> None:
            step_rows(
                pool, config, f, item_factors, item_sum, positives.take(moving), weights[moving], item_weights, steps,
                values, bias, bias_column=K,
            )  # fmt: skip

        settle(rows, step)
    return rows


def settle(rows: Floats, step: Callable[[NDArray[np.int64], Floats, Floats, NDArray[np.float64]], None]) -> None:
    """
    Step rows in place until each stands still by itself, so that its result does not depend on the others.

    `step` gets the numbers of the rows that still move, a copy of them, their steps and their values, to change.
    """
    steps, values = np.ones(len(rows), dtype=np.float32), np.full(len(rows), np.inf)
    moving = np.arange(len(rows))
    for _ in range(FOLD_IN_STEPS):
        f, s, v = rows[moving], steps[moving], values[moving]
        step(moving, f, s, v)
        still = values[moving] - v <= FOLD_IN_TOLERANCE * np.abs(v)
        rows[moving], steps[moving], values[moving] = f, s, v
        moving = moving[~still]
        if len(moving) == 0:
            break


def fold_in_attributes(
    attributes: Attributes,
    attribute_weights: Floats,
    config: FitConfig,
    *,
    prior: NDArray[Any] | None = None,
    buyers: Adjacency | None = None,
    other: Floats | None = None,
    bias: float = 0.0,
) -> Floats:
    """
    Return the memberships of new rows, (n, K), from their attributes and the weights of a fit, all of which stay fixed.

    Each row minimises strength · −log P(its attributes) + λ‖f − prior‖² over f ≥ 0, a convex problem. `prior`, (K,), is
    what a row without attributes gets: zeros by default, or the mean membership of the rows that were fitted. With
    `buyers`, the rows of the other side that are known to have each new one, and `other`, that side's memberships, the
    likelihood of those purchases is added; everybody else counts as an unknown, as in a fit. Positives weigh 1.
    """
    n, K = len(attributes), config.n_coclusters
    if attribute_weights.shape != (attributes.n_weights, K + 1):
        expected = attributes.n_weights, K + 1
        raise DataError(f"expected weights of shape {expected} for these attributes, got {attribute_weights.shape}")
    config = replace(config, bias=False)
    if buyers is None or other is None:
        buyers = Adjacency(np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        other = np.empty((0, K), dtype=np.float32)
    table = padded(other[:, :K], config.width)
    mean = padded(np.zeros((1, K), dtype=np.float32) if prior is None else np.asarray(prior)[None], config.width)
    rows = fold_in_start(buyers, table, config) + mean
    ones = np.ones(n, dtype=np.float32), np.ones(len(table), dtype=np.float32)
    with RowPool(config.threads if n > 1 else 1) as pool:
        # λ‖f − m‖² = λ‖f‖² − 2λ⟨m, f⟩ + constant
        other_sum = column_sums(table, pool)[0] - np.float32(2 * config.regularization) * mean[0]

        def step(moving: NDArray[np.int64], f: Floats, steps: Floats, values: NDArray[np.float64]) -> None:
            side = AttributeSide(attributes.take(moving), config, pool)
            side.step_rows(
                attribute_weights, f, table, other_sum, buyers.take(moving), ones[0][moving], ones[1], steps, values,
                bias, bias_column=K,
            )  # fmt: skip

        settle(rows, step)
    return rows[:, :K]


def fold_in_start(positives: Adjacency, item_factors: NDArray[np.float32], config: FitConfig) -> NDArray[np.float32]:
    """Return the sum of the items that each new user owns, scaled to a mean affinity of 1 with them."""
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
