"""Threads that run a kernel over all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Self

import numpy as np

from ocular.data.interactions import Adjacency

CHUNKS_PER_THREAD = 16  # small enough that no thread waits long for the last one


class RowPool:
    """Threads for kernels over rows. Rows do not depend on each other, so any number gives the same bytes."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._helpers = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None

    def run(self, kernel: Callable[..., object], rows: Adjacency, *arguments: Any) -> None:
        """Call kernel(*arguments, first_row, last_row) for chunks of rows of about equal work."""
        work = rows.indptr + np.arange(len(rows) + 1)  # a row costs something even without positives
        shares = np.linspace(0, work[-1], self.n_threads * CHUNKS_PER_THREAD + 1)
        cuts = np.unique(np.searchsorted(work, shares))
        cuts[-1] = len(rows)
        self.run_chunks(kernel, pairwise(cuts.tolist()), *arguments)

    def run_chunks(self, kernel: Callable[..., object], chunks: Iterable[tuple[int, int]], *arguments: Any) -> None:
        """Call kernel(*arguments, first, last) for each of the chunks."""
        todo = iter(list(chunks))  # each thread takes the next chunk when it has done one

        def work() -> None:
            for first, last in todo:
                kernel(*arguments, first, last)

        helpers = [self._helpers.submit(work) for _ in range(self.n_threads - 1)] if self._helpers is not None else []
        try:
            work()
        finally:
            for _ in todo:  # after Ctrl-C the others end with the chunk that they are at
                pass
        for helper in helpers:
            helper.result()

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
