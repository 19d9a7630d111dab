"""Blocks of rows on the executors, and functions over each block."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark import RDD, Broadcast, SparkContext, StorageLevel

from ocular.data.interactions import Adjacency
from ocular.solver.backend import csr_rows
from ocular.solver.config import Factors
from ocular.solver.pool import RowPool
from ocular.spark.session import plain_errors

BLOCKS_PER_CORE = 2  # one more than it works on, so that a slow one does not wait alone
MAX_POSITIVES = 50_000_000  # of a block: 200 MB


class Block(NamedTuple):
    """Some consecutive rows."""

    first: int  # row
    positives: Adjacency


class Done(NamedTuple):
    """The result of a function over a block, and the seconds that it took."""

    first: int
    result: Any
    seconds: float


def cut(indptr: NDArray[np.int64], n_blocks: int) -> NDArray[np.int64]:
    """Return the first row of each block and the end of the last: blocks of about equal work, none empty."""
    work = indptr + np.arange(len(indptr))
    cuts = np.unique(np.searchsorted(work, np.linspace(0, work[-1], n_blocks + 1)))
    cuts[-1] = len(indptr) - 1
    return np.unique(cuts)


def slots(context: SparkContext) -> int:
    """Return how many tasks run at once."""
    per_task = int(context.getConf().get("spark.task.cpus", "1") or 1)
    return max(1, context.defaultParallelism // per_task)


def default_blocks(context: SparkContext, nnz: int) -> int:
    """Return the number of blocks of each side."""
    return max(BLOCKS_PER_CORE * slots(context), -(-nnz // MAX_POSITIVES))


class BlockRows:
    """One side of the positives, one partition of an RDD per block."""

    def __init__(
        self,
        blocks: RDD[Block],
        indptr: NDArray[np.int64],
        refused: NDArray[np.int64] | None = None,
        weight_sums: NDArray[np.float64] | None = None,
    ) -> None:
        """
        `indptr` and `refused` are the ends of the rows and of what they refused, if anything.

        `weight_sums` are those of the positives of each row; None: all weigh 1.
        """
        self.indptr, self._refused, self._weight_sums = indptr, refused, weight_sums
        self._blocks = blocks.persist(StorageLevel.MEMORY_AND_DISK)
        self._threads = int(blocks.context.getConf().get("spark.task.cpus", "1") or 1)

    @property
    def degrees(self) -> NDArray[np.int64]:
        return np.diff(self.indptr)

    @property
    def weight_sums(self) -> NDArray[np.float64]:
        """The sum of the weights of each row's positives."""
        return self.degrees.astype(np.float64) if self._weight_sums is None else self._weight_sums

    @property
    def ends(self) -> Adjacency:
        """The ends of the rows and of what they refused, without their contents."""
        nothing = np.empty(0, dtype=np.int32)
        return Adjacency(
            self.indptr, nothing, refused=None if self._refused is None else Adjacency(self._refused, nothing)
        )

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Done]:
        """Call function(block, pool, *arguments) for every block; broadcasts are opened first. Results by row."""
        with plain_errors():
            results = self._blocks.map(partial(_run, function, arguments, self._threads)).collect()
        return sorted(results, key=lambda done: done.first)

    def apply(self, function: Callable[..., Factors], *shared: Any) -> Any:
        """Return the rows of function(positives, pool, *shared) over all blocks."""
        sent = self._blocks.context.broadcast(shared)
        try:
            return joined([done.result for done in self.run(_apply, function, sent)])
        finally:
            sent.destroy()

    def stream(self) -> Iterator[Block]:
        """Yield one block after the other."""
        with plain_errors():
            yield from self._blocks.toLocalIterator()

    def gather(self) -> Adjacency:
        """Return all rows on this machine."""
        indices = np.empty(self.indptr[-1], dtype=np.int32)
        for block in self.stream():
            start = self.indptr[block.first]
            indices[start : start + len(block.positives.indices)] = block.positives.indices
        return Adjacency(self.indptr, indices)

    def release(self) -> None:
        """Let the executors drop the blocks."""
        self._blocks.unpersist()


def joined(parts: list[Any]) -> Any:
    """Return rows of several blocks as one table; sparse rows keep the order of their columns."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    ends = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.indptr) for part in parts]))])
    strengths, columns = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
    return csr_rows(strengths, columns, ends, parts[0].shape[1])


def _apply(block: Block, pool: RowPool, function: Callable[..., Factors], shared: tuple[Any, ...]) -> Factors:
    return function(block.positives, pool, *shared)


def _run(function: Callable[..., Any], arguments: tuple[Any, ...], n_threads: int, block: Block) -> Done:
    opened = [argument.value if isinstance(argument, Broadcast) else argument for argument in arguments]
    begun = time.perf_counter()
    with RowPool(n_threads) as pool:
        result = function(block, pool, *opened)
    return Done(block.first, result, time.perf_counter() - begun)
