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
from ocular.evaluation.trial import Trial, TrialRunner, TrialScore
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
    """What every task needs; a worker makes one runner of it for all of its tasks."""

    def __init__(self, runner: TrialRunner) -> None:
        self._rows, self._n_items, self._settings = (
            runner.interactions.by_user,
            runner.interactions.n_items,
            runner.settings,
        )

    @cached_property
    def runner(self) -> TrialRunner:
        labels = np.arange(len(self._rows)), np.arange(self._n_items)
        return TrialRunner(Interactions(self._rows, self._n_items, *labels), self._settings)


@contextmanager
def _executors(context: SparkContext, runner: TrialRunner, at_once: Sequence[str], _folder: Path) -> Iterator[Submit]:
    sent = context.broadcast(Sent(runner))

    def run(trial: Trial) -> TrialScore:
        with plain_errors():
            (score,) = context.parallelize([trial], 1).map(partial(_run, sent)).collect()
        return score

    threads = ThreadPoolExecutor(len(at_once))  # each waits for a job of one task
    try:
        yield lambda trial, _start, _keep: threads.submit(run, trial)
    finally:
        threads.shutdown(cancel_futures=True)
        sent.destroy()


def _run(sent: Broadcast[Sent], trial: Trial) -> TrialScore:
    return sent.value.runner.run(trial, None, None)
