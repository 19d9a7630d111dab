"""
A start from a fitted model: clients and products that it knows by name go on from its memberships.

Co-clusters keep their numbers. Rows that the model does not know, or that it knows nothing of, are fitted to those of
the other side, which stay as they are: clients first, then products. What has vanished is dropped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions, Labels
from ocular.errors import ConfigError, DataError, Parameter
from ocular.solver import sparse_kernels
from ocular.solver.backend import column_sums, csr_parts
from ocular.solver.config import BIAS_COLUMN, GIVEN, Factors, FitConfig, State, padded, user_weights
from ocular.solver.cpu import FOLD_IN_STEPS, FOLD_IN_TOLERANCE, fold_in_start, step_rows, step_sparse_rows
from ocular.solver.pool import RowPool

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Previous:
    """What a start takes from a fitted model."""

    user_factors: sp.csr_array  # (n_users, K)
    item_factors: sp.csr_array  # (n_items, K)
    user_bias: Floats
    item_bias: Floats
    bias: float
    interactions: Interactions  # for the names

    def name(self) -> str:
        """Return a name that tells this start from others, so that a checkpoint of another start is refused."""
        digest = hashlib.sha256(repr(float(self.bias)).encode())
        for factors in (self.user_factors, self.item_factors):
            for part in (factors.indptr.astype(np.int64), factors.indices.astype(np.int64), factors.data):
                digest.update(part.tobytes())
        for bias, labels in (
            (self.user_bias, self.interactions.user_labels),
            (self.item_bias, self.interactions.item_labels),
        ):
            digest.update(bias.tobytes() + "\n".join(map(str, labels)).encode())
        return GIVEN + digest.hexdigest()

    def check(self, interactions: Interactions, n_coclusters: int) -> None:
        """Refuse a start that does not fit these purchases, before anything is done."""
        K, data = self.user_factors.shape[1], self.interactions
        if n_coclusters != K:
            given = Parameter("n_coclusters"), f" to be {K}, as in the model to start from, got {n_coclusters}"
            raise ConfigError("expected ", *given, "; pass ", Parameter("n_coclusters", K))
        for side, there, here in (
            ("client", data.user_rows, interactions.user_rows),
            ("product", data.item_rows, interactions.item_rows),
        ):
            if there.keys().isdisjoint(here):
                raise DataError(
                    f"expected a model to start from with some of these {side}s, got none of the same name; leave out ",
                    Parameter("start"),
                )

    def state(self, interactions: Interactions, config: FitConfig) -> State:
        """Return the state before the first sweep of a fit to `interactions`, in their order."""
        K, data = config.n_coclusters, self.interactions
        weights = user_weights(interactions.by_user, interactions.n_items, config.relative)
        known = _matched(interactions.user_labels, data.user_rows)
        users = _Side(interactions.by_user, weights, config, bias_column=K)
        users.take(self.user_factors, self.user_bias, known)
        known, ones = _matched(interactions.item_labels, data.item_rows), np.ones(interactions.n_items, np.float32)
        items = _Side(interactions.by_item, ones, config, bias_column=K + 1)
        items.take(self.item_factors, self.item_bias, known)
        bias = self.bias if config.bias else 0.0
        users.fold_in(items, bias)
        items.fold_in(users, bias)
        if len(lost := users.blank()):
            # new clients who have nothing but new products: the co-cluster that others need least is theirs
            users.place(lost, int(np.argmin(users.totals()[:K] * items.totals()[:K])))
            items.fold_in(users, bias)
        steps = np.ones(interactions.n_users, np.float32), np.ones(interactions.n_items, np.float32)
        return State(users.factors, items.factors, *steps, bias)


class _Side:
    """The rows of users or of items while they are put together: sparse, or dense where every row has a bias."""

    def __init__(self, positives: Adjacency, weights: Floats, config: FitConfig, *, bias_column: int) -> None:
        self.positives, self.weights, self.config, self.bias_column = positives, weights, config, bias_column
        self.factors: Factors = sp.csr_array((len(positives), config.width), dtype=np.float32)

    def take(self, factors: sp.csr_array, bias: Floats, known: Ints) -> None:
        """Take the rows over from a model's memberships and biases; `known` is the row there, or −1."""
        config, rows = self.config, np.flatnonzero(known >= 0)
        wide = sp.csr_array((factors.data, factors.indices, factors.indptr), (factors.shape[0], config.width))
        self.factors = _spread(wide[known[rows]], rows, len(known))
        if config.bias:
            self.factors = padded(self.factors, config.width)
            self.factors[rows, self.bias_column] = bias[known[rows]] / BIAS_COLUMN
            self.factors[:, self._constant_column] = BIAS_COLUMN

    @property
    def _constant_column(self) -> int:
        """Where the rows hold what the other side's biases are multiplied with."""
        K = self.config.n_coclusters
        return K + 1 if self.bias_column == K else K

    def blank(self) -> Ints:
        """Return the rows with positives that are in no co-cluster."""
        K, factors = self.config.n_coclusters, self.factors
        empty = ~factors[:, :K].any(axis=1) if isinstance(factors, np.ndarray) else np.diff(factors.indptr) == 0
        return np.flatnonzero(empty & (self.positives.degrees > 0))

    def totals(self) -> Floats:
        """Return the sum of each column."""
        with RowPool(self.config.threads) as pool:
            return column_sums(self.factors, pool)[0]

    def place(self, rows: Ints, cocluster: int) -> None:
        """Make the rows members of one co-cluster."""
        if isinstance(self.factors, np.ndarray):
            self.factors[rows, cocluster] = 1.0
        else:
            strengths = np.ones(len(rows), dtype=np.float32), (rows, np.full(len(rows), cocluster))
            self.factors = sp.csr_array(self.factors + sp.csr_array(strengths, shape=self.factors.shape))

    def fold_in(self, other: _Side, bias: float) -> None:
        """Fit the blank rows to the other side, as `cpu.fold_in` does for users."""
        blank = self.blank()
        if not len(blank):
            return
        positives, config = self.positives.take(blank), self.config
        steps, values = np.ones(len(blank), dtype=np.float32), np.full(len(blank), np.inf)
        rows = self._start(positives, other)
        z = np.empty(len(positives.indices), dtype=np.float32)
        with RowPool(config.threads) as pool:
            total, _ = column_sums(other.factors, pool)
            problem = total, positives, self.weights[blank], other.weights, steps, values
            if not isinstance(rows, np.ndarray):
                pool.run(
                    sparse_kernels.sparse_affinities, positives, *csr_parts(rows), *csr_parts(other.factors),
                    config.width, positives.indptr, positives.indices, z,
                )  # fmt: skip
            for _ in range(FOLD_IN_STEPS):
                before = values.copy()
                if isinstance(rows, np.ndarray):
                    step_rows(pool, config, rows, other.factors, *problem, bias, bias_column=self.bias_column)
                else:
                    rows = step_sparse_rows(pool, config, rows, other.factors, z, *problem)
                if (before - values <= FOLD_IN_TOLERANCE * np.abs(values)).all():
                    break
        if isinstance(rows, np.ndarray):
            self.factors[blank] = rows
        else:
            self.factors = sp.csr_array(self.factors + _spread(rows, blank, len(self.positives)))

    def _start(self, positives: Adjacency, other: _Side) -> Factors:
        """Return the sum of the other side's rows, scaled to a mean affinity of 1 with them."""
        if isinstance(other.factors, np.ndarray):
            rows = fold_in_start(positives, other.factors, self.config)
            rows[:, self.bias_column], rows[:, self._constant_column] = 0.0, BIAS_COLUMN
            return rows
        sums = sp.csr_array(positives.matrix(other.factors.shape[0]) @ other.factors)
        norms = np.asarray(sums.multiply(sums).sum(axis=1, dtype=np.float64)).ravel()
        sums.data *= np.repeat((positives.degrees / np.maximum(norms, 1e-9)).astype(np.float32), np.diff(sums.indptr))
        sums.sort_indices()
        return sums


def _matched(labels: Labels, rows: dict[str, int]) -> Ints:
    """Return the row of each name, −1 where there is none."""
    return np.array([rows.get(str(label), -1) for label in labels], dtype=np.int64)


def _spread(table: sp.csr_array, rows: Ints, n: int) -> sp.csr_array:
    """Return a table of n rows with those of `table` at `rows`, which ascend, and nothing elsewhere."""
    sizes = np.zeros(n, dtype=np.int64)
    sizes[rows] = np.diff(table.indptr)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    spread = sp.csr_array((table.data, table.indices, ends), shape=(n, table.shape[1]))
    spread.sort_indices()
    return spread
