"""Blocks of rows on the executors: what is asked of them is a function over each block."""

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

PER_SLOT = 2  # blocks for each core: one more than it works on, so that a slow one does not wait alone
LARGEST = 50_000_000  # positives of a block: 200 MB


class Block(NamedTuple):
    """Some rows, one after the other."""

    first: int  # row
    positives: Adjacency


class Done(NamedTuple):
    """What came of a block, and the seconds that its function took."""

    first: int
    result: Any
    seconds: float


def cut(indptr: NDArray[np.int64], n_blocks: int) -> NDArray[np.int64]:
    """The first row of each block and the end of the last: blocks of about equal work, none empty."""
    work = indptr + np.arange(len(indptr))
    cuts = np.unique(np.searchsorted(work, np.linspace(0, work[-1], n_blocks + 1)))
    cuts[-1] = len(indptr) - 1
    return np.unique(cuts)


def slots(context: SparkContext) -> int:
    """How many tasks run at once."""
    per_task = int(context.getConf().get("spark.task.cpus", "1") or 1)
    return max(1, context.defaultParallelism // per_task)


def default_blocks(context: SparkContext, nnz: int) -> int:
    return max(PER_SLOT * slots(context), -(-nnz // LARGEST))


class BlockRows:
    """One side of the positives, a partition of an RDD for each block."""

    def __init__(self, blocks: RDD[Block], indptr: NDArray[np.int64]) -> None:
        self.indptr = indptr
        self._blocks = blocks.persist(StorageLevel.MEMORY_AND_DISK)
        self._threads = int(blocks.context.getConf().get("spark.task.cpus", "1") or 1)

    @property
    def degrees(self) -> NDArray[np.int64]:
        return np.diff(self.indptr)

    @property
    def ends(self) -> Adjacency:
        """How long the rows are, without what is in them."""
        return Adjacency(self.indptr, np.empty(0, dtype=np.int32))

    def run(self, function: Callable[..., Any], *arguments: Any) -> list[Done]:
        """function(block, pool, *arguments) for every block, in the order of the rows; broadcasts are opened first."""
        with plain_errors():
            found = self._blocks.map(partial(_run, function, arguments, self._threads)).collect()
        return sorted(found, key=lambda done: done.first)

    def apply(self, function: Callable[..., Factors], *shared: Any) -> Any:
        sent = self._blocks.context.broadcast(shared)
        try:
            return joined([done.result for done in self.run(_apply, function, sent)])
        finally:
            sent.destroy()

    def stream(self) -> Iterator[Block]:
        """One block after the other."""
        with plain_errors():
            yield from self._blocks.toLocalIterator()

    def release(self) -> None:
        self._blocks.unpersist()


def joined(parts: list[Any]) -> Any:
    """Rows of several blocks as one table; sparse rows keep the order of their columns."""
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
