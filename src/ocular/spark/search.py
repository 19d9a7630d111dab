"""The search on Spark: every (K, λ, fold) is a task, and the data are broadcast once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import Broadcast, SparkContext
from pyspark.sql import SparkSession

from ocular.data.interactions import Interactions
from ocular.errors import ConfigError
from ocular.evaluation.search import Grid, SearchResult, Submit
from ocular.evaluation.search import search as search_locally
from ocular.evaluation.trial import Bench, Score, Task
from ocular.spark.blocks import slots
from ocular.spark.session import plain_errors


def search(
    interactions: Any,
    grid: Grid,
    spark: SparkSession,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    **options: Any,
) -> SearchResult:
    """
    Return the same table as `ocular.evaluation.search.search`, whose other options it takes but for warm starts.

    As many points are fitted at once as there are cores, or n_jobs. Spark retries a task that was lost with its
    executor; one that fails every time is reported when all others are measured and written to `results`.
    """
    if options.get("warm_start"):
        raise ConfigError("expected no warm starts on Spark, where points do not wait for each other; leave them out")
    context = spark.sparkContext
    return search_locally(
        interactions,
        grid,
        random_state=random_state,
        n_jobs=n_jobs or slots(context),
        workers=partial(_executors, context),
        **options,
    )


class Sent:
    """The data of every task; a worker makes one bench of it for all of its tasks."""

    def __init__(self, bench: Bench) -> None:
        self._rows, self._n_items, self._settings = bench.history.by_user, bench.history.n_items, bench.settings

    @cached_property
    def bench(self) -> Bench:
        labels = np.arange(len(self._rows)), np.arange(self._n_items)
        return Bench(Interactions(self._rows, self._n_items, *labels), self._settings)


@contextmanager
def _executors(context: SparkContext, bench: Bench, at_once: Sequence[str], _folder: Path) -> Iterator[Submit]:
    sent = context.broadcast(Sent(bench))

    def run(task: Task) -> Score:
        with plain_errors():
            (score,) = context.parallelize([task], 1).map(partial(_run, sent)).collect()
        return score

    threads = ThreadPoolExecutor(len(at_once))  # each waits for a job of one task
    try:
        yield lambda task, _start, _keep: threads.submit(run, task)
    finally:
        threads.shutdown(cancel_futures=True)
        sent.destroy()


def _run(sent: Broadcast[Sent], task: Task) -> Score:
    return sent.value.bench.run(task, None, None)
