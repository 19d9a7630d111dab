"""Backends: what runs the sweeps of a fit, and the part of a sweep that cores and clusters have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.solver import kernels, sparse_kernels
from ocular.solver.config import Factors, FitConfig, State, user_weights
from ocular.solver.pool import RowPool

SUM_BLOCK = 1024  # rows
# Share of the dense kernel's work above which the sparse one is slower, though it does nothing needless
SPARSE = 0.1
PER_POSITIVE = 8  # what the sparse kernel does for each positive anyway, as a number of memberships
STAY = 1.5  # sparse memberships stay sparse up to this multiple of SPARSE: a change takes as long as some sweeps
LINE_BYTES = 64


class Backend(Protocol):
    """Where the sweeps run. Data and state stay there; a sweep returns Q only, and the state is fetched on request."""

    def start(self, state: State) -> None:
        """Take over a state, which the sweeps then change."""
        ...

    def sweep(self) -> float:
        """Step every item row, then every user row, and return Q."""
        ...

    def state(self) -> State: ...

    def close(self) -> None: ...


class BaseBackend(ABC):
    """
    A sweep without its row steps, which a subclass adds.

    The sums, the format of the memberships and the objective are computed here, always in the same order, so that every
    way to step the rows ends with the same bytes. Of `by_user` and `by_item` only the ends of the rows, and of what
    they refused, are used.
    """

    def __init__(self, by_user: Adjacency, by_item: Adjacency, config: FitConfig, *, sparse: float = SPARSE) -> None:
        """Memberships become sparse below the share `sparse` of the work; never with biases, which every row has."""
        self._config, self._by_user, self._by_item = config, by_user, by_item
        self._sparse = 0.0 if config.bias else sparse
        self._pool = RowPool(config.threads)
        self._user_weights = user_weights(by_user, len(by_item), config.relative)
        self._item_weights = np.ones(len(by_item), dtype=np.float32)
        self._user_values, self._item_values = np.empty(len(by_user)), np.empty(len(by_item))  # each row's share of Q
        refused = 0 if by_user.refused is None else int(by_user.refused.indptr[-1])
        # a refused pair counts c times
        self._n_unknown = len(by_user) * len(by_item) - int(by_user.indptr[-1]) + (config.refusal_weight - 1) * refused

    def start(self, state: State) -> None:
        self._state = state

    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self._pool.close()

    def sweep(self) -> float:
        s, config = self._state, self._config
        self._choose_format()
        if config.bias:
            s.bias = self._updated_bias()
        user_sum, _ = column_sums(s.user_factors, self._pool)
        self._step_items(user_sum)
        item_sum, item_squares = column_sums(s.item_factors, self._pool)
        self._step_users(item_sum)
        penalty = float(item_squares[: config.n_coclusters].sum())
        likelihood = float(self._user_values.sum()) + s.bias * self._n_unknown
        return likelihood + config.regularization * penalty

    @abstractmethod
    def _step_items(self, user_sum: NDArray[np.float32]) -> None:
        """Step every item row: change factors, steps and values of the items."""

    @abstractmethod
    def _step_users(self, item_sum: NDArray[np.float32]) -> None:
        """Step every user row: change factors, steps and values of the users."""

    @abstractmethod
    def _inverse_probabilities(self) -> NDArray[np.float64]:
        """Return Σ w / p over the positives of each user, (n_users,)."""

    @abstractmethod
    def _positive_weights(self) -> NDArray[np.float64]:
        """Return Σ w_ui over the positives of each user, (n_users,)."""

    def _choose_format(self) -> None:
        """Make the memberships dense or sparse, whichever makes the next sweep faster."""
        s = self._state
        limit = self._sparse if isinstance(s.user_factors, np.ndarray) else STAY * self._sparse
        if limit == 0 or self.share_of_work() >= limit:
            s.user_factors, s.item_factors = dense(s.user_factors), dense(s.item_factors)
        else:
            s.user_factors, s.item_factors = sp.csr_array(s.user_factors), sp.csr_array(s.item_factors)

    def share_of_work(self) -> float:
        """Return the work of the sparse kernel relative to the dense one's multiplications."""
        s, nnz = self._state, int(self._by_user.indptr[-1])
        sides = (s.user_factors, self._by_user), (s.item_factors, self._by_item)
        work = sum(int(_row_sizes(*side, self._pool) @ side[1].degrees) for side in sides)
        return (work / max(2 * nnz, 1) + PER_POSITIVE) / self._config.n_coclusters

    def _updated_bias(self) -> float:
        """Return the overall bias after one EM step, as in `objective.updated_bias`."""
        s = self._state
        inverse = self._inverse_probabilities()
        pairs = self._n_unknown + float((self._user_weights * self._positive_weights()).sum(dtype=np.float64))
        return s.bias * float(inverse.sum()) / pairs if pairs else s.bias


def column_sums(table: Factors, pool: RowPool) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the sum and the sum of squares of each column: fixed blocks in threads, then added in their order."""
    n_rows, width = table.shape
    blocks = np.empty((2, -(-n_rows // SUM_BLOCK), width))
    starts = [*range(0, n_rows, SUM_BLOCK), n_rows]
    if isinstance(table, np.ndarray):
        pool.run_chunks(kernels.sum_columns, pairwise(starts), table, blocks, SUM_BLOCK)
    else:
        pool.run_chunks(sparse_kernels.sum_sparse_columns, pairwise(starts), *csr_parts(table), blocks, SUM_BLOCK)
    sums, squares = blocks.sum(axis=1)
    return sums.astype(np.float32), squares


def weight_sums(positives: Adjacency) -> NDArray[np.float64]:
    """Return the sum of the weights of each row's positives."""
    if positives.weights is None:
        return positives.degrees.astype(np.float64)
    rows = np.repeat(np.arange(len(positives)), positives.degrees)
    return np.asarray(np.bincount(rows, positives.weights, minlength=len(positives)), dtype=np.float64)


def csr_parts(factors: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float32]]:
    """Return ends, columns, strengths, always of the same types: a kernel is compiled for each combination of them."""
    columns = factors.indices.astype(np.int32, copy=False).view(np.uint32)  # without a sign, which Numba would look at
    return factors.indptr.astype(np.int64), columns, factors.data


def csr_rows(
    strengths: NDArray[np.float32], columns: NDArray[np.int32], ends: NDArray[np.int64], width: int
) -> sp.csr_array:
    """Return sparse rows with ends of 4 bytes where they suffice: else SciPy gives the columns 8 bytes each, too."""
    ends = ends.astype(np.int32 if ends[-1] < 2**31 else np.int64)
    return sp.csr_array((strengths, columns, ends), shape=(len(ends) - 1, width))


def dense(factors: Factors) -> NDArray[np.float32]:
    """Return a dense table whose memory begins with a cache line: loads across two lines take longer."""
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
    """Return how many memberships each row has."""
    if not isinstance(factors, np.ndarray):
        return np.asarray(np.diff(factors.indptr), dtype=np.int64)
    sizes = np.empty(len(factors), dtype=np.int64)
    pool.run(kernels.count_memberships, positives, factors, sizes)
    return sizes
