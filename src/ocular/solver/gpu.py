"""
The backend that sweeps on a GPU, by NVIDIA Warp; docs/gpu.md says how, and what it takes.

The data and the memberships are copied to the device once, every sweep runs there, and only the objective comes back.
On Warp's CPU device ("warp-cpu") the same kernels run without a GPU, one row after the other: that is for tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import warp as wp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import ConfigError
from ocular.solver import gpu_kernels
from ocular.solver.config import Factors, FitConfig, State, padded, user_weights
from ocular.solver.cpu import FOLD_IN_STEPS, FOLD_IN_TOLERANCE, fold_in_start
from ocular.solver.devices import SUM_BLOCK, check_memory, tile_width

RANKED_AT_ONCE = 1 << 28  # bytes of scores on the device
PER_SCORE = 16  # bytes: the score and its item, and the same again to sort them


def count_gpus() -> int:
    """Return the number of CUDA devices that Warp sees."""
    return int(wp.get_cuda_device_count())


def free_bytes(device: str) -> float:
    """Return the bytes that can be allocated; the operating system hands out those of the CPU."""
    warp_device = wp.get_device(device.removeprefix("warp-"))
    return float(warp_device.free_memory) if warp_device.is_cuda else np.inf


@dataclass
class Side:
    """Users or items on the device."""

    indptr: Any  # positives of the rows
    indices: Any
    order: Any  # the longest row first: it must not be the one that all others wait for in the end
    weights: Any  # of the rows
    values: Any  # of the rows: their shares of Q
    free: Any  # of the columns: 1 where they may move
    rows: Any  # (n, width)
    steps: Any


class Device:
    """A device that runs the kernels, and the arrays there that all of them need."""

    def __init__(self, name: str, config: FitConfig, max_rows: int) -> None:
        self.name = name.removeprefix("warp-")
        self.config = config
        self.width = tile_width(config.n_coclusters + 2 * config.bias)
        self.kernels = gpu_kernels.row_kernels(self.width)
        self.members = np.arange(self.width) < config.n_coclusters  # columns that are memberships
        self.ridge = self.put(config.regularization * self.members.astype(np.float32))
        blocks = -(-max_rows // SUM_BLOCK), self.width
        self.sums, self.squares = self.empty(blocks, wp.float64), self.empty(blocks, wp.float64)
        self.total = self.empty(self.width, wp.float32)
        self.penalties = self.empty(self.width, wp.float64)

    def put(self, array: NDArray[Any]) -> Any:
        return wp.array(array, device=self.name)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Any:
        return wp.empty(shape, dtype=dtype, device=self.name)

    def side(self, positives: Adjacency, weights: NDArray[np.float32], bias_column: int) -> Side:
        n, free = len(positives), self.members.copy()
        if self.config.bias:
            free[bias_column] = True
        return Side(
            indptr=self.put(positives.indptr.astype(np.int32)),
            indices=self.put(positives.indices),
            order=self.put(np.argsort(-positives.degrees, kind="stable").astype(np.int32)),
            weights=self.put(weights),
            values=self.empty(n, wp.float64),
            free=self.put(free.astype(np.float32)),
            rows=self.empty((n, self.width), wp.float32),
            steps=self.empty(n, wp.float32),
        )

    def fill(self, side: Side, rows: Factors, steps: NDArray[np.float32]) -> None:
        side.rows.assign(padded(rows, self.width))
        side.steps.assign(steps)

    def step(self, side: Side, other: Any, other_weights: Any, bias: float, n_steps: int = 1) -> None:
        """Take line-searched steps for every row of a side, in place; `penalties` gets those of the other side."""
        config = self.config
        n_blocks = -(-other.shape[0] // SUM_BLOCK)
        sums, squares = self.sums[:n_blocks], self.squares[:n_blocks]
        self.launch(gpu_kernels.sum_columns, sums.shape, other, sums, squares)
        self.launch(gpu_kernels.finish_sums, self.width, sums, squares, self.ridge, self.total, self.penalties)
        self.launch_rows(
            self.kernels.update_rows, side, side.rows, other, self.total, side.indptr, side.indices, side.weights,
            other_weights, self.ridge, side.free, config.background + bias, side.steps, side.values, config.beta,
            config.sigma, int(config.line_search == "scaled"), n_steps, FOLD_IN_TOLERANCE,
        )  # fmt: skip

    def launch(self, kernel: Any, dim: Any, *arguments: Any) -> None:
        wp.launch(kernel, dim, list(arguments), device=self.name)

    def launch_rows(self, kernel: Any, side: Side, *arguments: Any) -> None:
        """Launch a block of threads per row."""
        wp.launch_tiled(
            kernel, dim=[len(side.order)], inputs=[side.order, *arguments], block_dim=self.kernels.threads,
            device=self.name,
        )  # fmt: skip


class GpuBackend:
    """Sweeps by Warp kernels on a device."""

    def __init__(self, interactions: Interactions, config: FitConfig, device: str) -> None:
        K = config.n_coclusters
        n_users, n_items = interactions.shape
        check_memory(device, free_bytes(device), (n_users, n_items, interactions.nnz), config)
        weights = user_weights(interactions.by_user, n_items, config.relative)
        self._config = config
        self._device = Device(device, config, max(n_users, n_items))
        self._users = self._device.side(interactions.by_user, weights, K)
        self._items = self._device.side(interactions.by_item, np.ones(n_items, dtype=np.float32), K + 1)
        self._n_unknown = n_users * n_items - interactions.nnz
        self._n_pairs = self._n_unknown + float((weights * interactions.by_user.degrees).sum(dtype=np.float64))

    def start(self, state: State) -> None:
        self._device.fill(self._users, state.user_factors, state.user_steps)
        self._device.fill(self._items, state.item_factors, state.item_steps)
        self._bias, self._objectives = state.bias, state.objectives

    def sweep(self) -> float:
        users, items, step = self._users, self._items, self._device.step
        if self._config.bias:
            self._bias = self._updated_bias()
        step(items, users.rows, users.weights, self._bias)
        step(users, items.rows, items.weights, self._bias)
        likelihood = float(wp.utils.array_sum(users.values)) + self._bias * self._n_unknown
        return likelihood + float(wp.utils.array_sum(self._device.penalties))

    def _updated_bias(self) -> float:
        """Return the bias after an EM step, as in `objective.updated_bias`; it overwrites the users' values."""
        users, items = self._users, self._items
        self._device.launch_rows(
            self._device.kernels.sum_inverse_probabilities, users, users.rows, items.rows, users.indptr, users.indices,
            users.weights, items.weights, self._config.background + self._bias, users.values,
        )  # fmt: skip
        inverse = float(wp.utils.array_sum(users.values))
        return self._bias * inverse / self._n_pairs if self._n_pairs else self._bias

    def state(self) -> State:
        users, items, width = self._users, self._items, self._config.width
        return State(
            users.rows.numpy()[:, :width].copy(),
            items.rows.numpy()[:, :width].copy(),
            users.steps.numpy().copy(),
            items.steps.numpy().copy(),
            self._bias,
            self._objectives,
        )

    def close(self) -> None:
        for name in ("_device", "_users", "_items"):
            self.__dict__.pop(name, None)  # and with it the memory


def fold_in(
    positives: Adjacency, item_factors: NDArray[np.float32], config: FitConfig, bias: float, device: str
) -> NDArray[np.float32]:
    """Do what `cpu.fold_in` does, with all its steps in one launch."""
    n_items = len(item_factors)
    check_memory(device, free_bytes(device), (len(positives), n_items, len(positives.indices)), config)
    there = Device(device, config, n_items)
    users = there.side(positives, user_weights(positives, n_items, config.relative), config.n_coclusters)
    there.fill(users, fold_in_start(positives, item_factors, config), np.ones(len(positives), dtype=np.float32))
    items, weights = there.put(padded(item_factors, there.width)), there.put(np.ones(n_items, dtype=np.float32))
    there.step(users, items, weights, bias, FOLD_IN_STEPS)
    return np.array(users.rows.numpy()[:, : config.width])


def rank_rows(
    device: str, row_ptr: NDArray[np.int64], coclusters: NDArray[np.int32], strengths: NDArray[np.float32],
    member_ptr: NDArray[np.int64], members: NDArray[np.uint32], member_strengths: NDArray[np.float32],
    base: NDArray[np.float32], place: NDArray[np.int32], owned_ptr: NDArray[np.int64], owned: NDArray[np.int32],
    allowed: NDArray[np.bool_], ids: NDArray[np.int32], scores: NDArray[np.float32],
) -> None:  # fmt: skip
    """Do what `scoring._rank` does, for as many rows at a time as memory allows: all scores, sorted."""
    name, n_items = device.removeprefix("warp-"), len(base)
    n_rows, n = len(ids), min(ids.shape[1], n_items)
    table = sp.csr_array((member_strengths, members.astype(np.int32), member_ptr), (len(member_ptr) - 1, n_items))

    def put(array: NDArray[Any]) -> Any:
        return wp.array(array, device=name)

    room = free_bytes(device) - 4 * table.shape[0] * n_items
    if room < 2 * PER_SCORE * n_items:
        raise ConfigError(
            f"expected place for {table.shape[0]} × {n_items} memberships on {device}, got {room / 1e9:.2f} GB beside "
            "them; use the device cpu"
        )
    users = put(row_ptr), put(coclusters), put(strengths), put(table.toarray()), put(base), put(allowed)
    theirs = put(owned_ptr), put(owned), put(place)
    max_rows = max(1, int(min(room / 2, RANKED_AT_ONCE)) // (PER_SCORE * n_items))
    for first in range(0, n_rows, max_rows):
        shape = min(max_rows, n_rows - first), n_items
        count = shape[0] * n_items
        keys, places = (wp.empty(2 * count, dtype=dtype, device=name) for dtype in (wp.float32, wp.int32))
        tables = keys[:count].reshape(shape), places[:count].reshape(shape)
        best = [wp.empty((shape[0], n), dtype=dtype, device=name) for dtype in (wp.int32, wp.float32)]
        wp.launch(gpu_kernels.score_rows, shape, [*users, first, *tables], device=name)
        wp.launch(gpu_kernels.leave_out, shape[0], [*theirs, first, tables[0]], device=name)
        starts = put(np.arange(0, count + 1, n_items, dtype=np.int32))
        wp.utils.segmented_sort_pairs(keys, places, count, starts)  # stable: of equal scores the earlier item is first
        wp.launch(gpu_kernels.take_best, (shape[0], n), [*tables, *best], device=name)
        for out, chosen in zip((ids, scores), best, strict=True):
            out[first : first + shape[0], :n] = chosen.numpy()
