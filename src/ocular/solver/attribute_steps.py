"""
How a fit uses the attributes of a side.

`attribute_objective.py` has the definition. A sweep steps the rows of a side with the term in their value and slopes,
then updates the weights, which is a convex problem with the memberships fixed: O(positives · K + J · K · N) in all, for
N rows with J values.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.solver import attribute_kernels
from ocular.solver.attributes import Attributes
from ocular.solver.config import FitConfig, column_settings, row_extras
from ocular.solver.pool import RowPool

WEIGHT_RIDGE = 1.0  # ρ
WEIGHT_SIZES = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625)  # of a step of the weights
WEIGHT_STEPS = 2  # after each sweep of the rows
MAX_BLOCKS, MIN_BLOCK = 64, 1024  # of rows whose slopes are added up together

Floats = NDArray[np.float32]


class AttributeSide:
    """Steps the rows of one side and the weights of their attributes; `cost` is what the attributes then add to Q."""

    cost: float

    def __init__(self, attributes: Attributes, config: FitConfig, pool: RowPool) -> None:
        self.attributes, self._config, self._pool = attributes, config, pool
        self._shape = np.arange(attributes.n_weights, dtype=np.int32), attributes.starts, attributes.exclusive
        self._groups = np.array([first for first, _ in attributes.groups()])
        block = max(MIN_BLOCK, -(-len(attributes) // MAX_BLOCKS))  # not by threads, whose number changes no byte
        self._block, self._bounds = block, [*range(0, len(attributes), block), len(attributes)]

    def step(
        self,
        weights: Floats,
        rows: Floats,
        other: Floats,
        other_sum: Floats,
        positives: Adjacency,
        row_weights: Floats,
        other_weights: Floats,
        steps: Floats,
        values: NDArray[np.float64],
        bias: float,
        *,
        bias_column: int,
    ) -> None:
        """
        Do what `cpu.step_rows` does, then update the weights, all in place.

        `values` gets each row's share of Q without its attributes, which are in `cost`.
        """
        problem = rows, other, other_sum, positives, row_weights, other_weights, steps, values, bias
        values -= self.step_rows(weights, *problem, bias_column=bias_column)
        self.cost = self.step_weights(weights, rows)

    def step_rows(
        self,
        weights: Floats,
        rows: Floats,
        other: Floats,
        other_sum: Floats,
        positives: Adjacency,
        row_weights: Floats,
        other_weights: Floats,
        steps: Floats,
        values: NDArray[np.float64],
        bias: float,
        *,
        bias_column: int,
    ) -> NDArray[np.float64]:
        """Do what `cpu.step_rows` does, and return the part of each row's share of Q that its attributes are."""
        config, a, shares = self._config, self.attributes, np.empty(len(rows))
        ridge, free = column_settings(config, bias_column)
        self._pool.run(
            attribute_kernels.update_attribute_rows, positives, rows, other, other_sum, positives.indptr,
            positives.indices, *row_extras(positives, config.refusal_weight), row_weights, other_weights, ridge, free,
            np.float32(config.background + bias), steps, values, np.float32(config.beta), config.sigma,
            config.line_search == "scaled",
            *_spread(weights, rows.shape[1]), *self._shape, a.observed, a.ends, a.values,
            np.float32(config.attribute_strength), shares,
        )  # fmt: skip
        return shares

    def step_weights(self, weights: Floats, rows: Floats, n_steps: int = WEIGHT_STEPS) -> float:
        """Update the weights in place by gradient steps, and return what the attributes then add to Q."""
        sums = self._sums_by_value(rows, weights.shape[1] - 1)
        total = 0.0
        for _ in range(n_steps):
            value, direction = self._direction(weights, rows, sums)
            grows = self._changes(weights, direction, rows)
            sizes = np.array([0.0, *WEIGHT_SIZES])
            moved = weights - sizes[:, None, None] * direction  # (n_sizes, L, K + 1)
            linear = (sums * moved).sum(axis=2) + WEIGHT_RIDGE * (moved**2).sum(axis=2)
            costs = np.add.reduceat(linear, self._groups, axis=1)
            costs[1:] += np.add.reduceat(grows, self._groups, axis=1)
            best = costs.argmin(axis=0)
            chosen = np.repeat(best, np.diff([*self._groups, len(weights)]))
            weights[:] = moved[chosen, np.arange(len(weights))]
            total = value + float(costs.min(axis=0).sum())
        return self._config.attribute_strength * total

    def _sums_by_value(self, rows: Floats, K: int) -> NDArray[np.float64]:
        """Return Σ f' over the rows with each value, (L, K + 1): it stays the same while the weights change."""
        members = self.attributes.by_weight
        sums = np.empty((len(members), rows.shape[1]))
        self._pool.run(attribute_kernels.sum_rows_by_value, members, rows, members.indptr, members.indices, sums)
        return np.column_stack([sums[:, :K], members.degrees])

    def _direction(self, weights: Floats, rows: Floats, sums: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return Σ log(1 + Σ e^t), and the gradient of the weights divided by the diagonal of its Hessian."""
        n_blocks, L, K = len(self._bounds) - 1, len(weights), weights.shape[1] - 1
        slopes = np.empty((2, n_blocks, L, rows.shape[1]), dtype=np.float32)
        intercepts, values = np.empty((2, n_blocks, L)), np.empty((n_blocks, L))
        self._pool.run_chunks(
            attribute_kernels.weight_slopes, pairwise(self._bounds), rows, *_spread(weights, rows.shape[1]),
            *self._shape, self.attributes.observed, self._block, slopes, intercepts, values,
        )  # fmt: skip
        added = slopes.sum(axis=1, dtype=np.float64)[:, :, :K]
        first, second = np.concatenate([added, intercepts.sum(axis=1)[:, :, None]], axis=2)
        direction = (sums - first + 2 * WEIGHT_RIDGE * weights) / (second + 2 * WEIGHT_RIDGE)
        return float(values.sum()), direction.astype(np.float32).astype(np.float64)  # as the kernel will see it

    def _changes(self, weights: Floats, direction: NDArray[np.float64], rows: Floats) -> NDArray[np.float64]:
        """Return by how much Σ log(1 + Σ e^t) grows with each size of a step, (n_sizes, L)."""
        width, sizes = rows.shape[1], np.array(WEIGHT_SIZES, dtype=np.float32)
        changes = np.empty((len(self._bounds) - 1, len(sizes), len(weights)))
        self._pool.run_chunks(
            attribute_kernels.weight_line, pairwise(self._bounds), rows, *_spread(weights, width),
            *_spread(direction, width), *self._shape, self.attributes.observed, sizes, self._block, changes,
        )  # fmt: skip
        grows: NDArray[np.float64] = changes.sum(axis=0)
        return grows


def _spread(weights: NDArray[Any], width: int) -> tuple[Floats, Floats]:
    """Return weights and intercepts as the kernels take them, with zeros in columns that are no memberships."""
    out = np.zeros((len(weights), width), dtype=np.float32)
    out[:, : weights.shape[1] - 1] = weights[:, :-1]
    return out, weights[:, -1].astype(np.float32)
