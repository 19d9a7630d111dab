"""A search on executors gives the table of a search on one machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from spark_support import executors

from ocular import Interactions
from ocular.errors import ConfigError, FitError
from ocular.evaluation import trial
from ocular.evaluation.search import Grid
from ocular.evaluation.search import search as search_locally
from ocular.spark import search

GRID = Grid([4, 8, 12], [1.0, 3.0, 10.0, 30.0])  # × 2 folds: 24 fits


def scores(found: Any) -> list[tuple[float, float, int]]:
    return [(row.mean, row.error, row.folds) for row in found.rows]


@pytest.fixture(scope="module")
def expected(sales: Interactions) -> Any:
    return search_locally(sales, GRID, folds=2, M=10, n_jobs=1)


def test_the_table_is_the_same_though_an_executor_is_killed(
    spark: Any, sales: Interactions, expected: Any, tmp_path: Path
) -> None:
    results, killed = tmp_path / "search.jsonl", []

    def kill_when_under_way() -> None:
        while not results.exists() or len(results.read_text().splitlines()) < 4:
            time.sleep(0.02)
        killed.append(executors(spark)[0])
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill_when_under_way, daemon=True)
    thread.start()
    found = search(sales, GRID, spark, folds=2, M=10, results=results)
    thread.join(10)
    assert killed
    assert scores(found) == scores(expected)
    assert found.best.point == expected.best.point
    assert len(results.read_text().splitlines()) == 1 + 24


def test_it_goes_on_from_what_one_machine_has_done(
    spark: Any, sales: Interactions, expected: Any, tmp_path: Path
) -> None:
    results = tmp_path / "search.jsonl"
    search_locally(sales, Grid([4], [1.0, 3.0]), folds=2, M=10, results=results)
    before = results.read_text()
    found = search(sales, Grid([4], [1.0, 3.0, 10.0]), spark, random_state=0, folds=2, M=10, results=results)
    assert results.read_text().startswith(before)
    assert [row.mean for row in found.rows] == [row.mean for row in expected.rows[:3]]


def test_weights_of_links_and_peers_are_the_same(spark: Any, sales: Interactions) -> None:
    options: dict[str, Any] = {"folds": 2, "M": 10, "links": "auto"}
    grid = Grid([4], [3.0, 30.0])
    found, expected = search(sales, grid, spark, **options), search_locally(sales, grid, **options)
    assert scores(found) == scores(expected)
    assert [row.weights for row in found.rows] == [row.weights for row in expected.rows]
    assert found.best.weights is not None


def test_warm_starts_are_refused(spark: Any, sales: Interactions) -> None:
    with pytest.raises(ConfigError, match="expected no warm starts on Spark"):
        search(sales, GRID, spark, warm_start=True)


def test_a_point_that_fails_is_told_when_all_others_are_measured(
    sales: Interactions, monkeypatch: Any, tmp_path: Path
) -> None:
    """On one machine, where a test can make a fit fail; the rule is the same."""
    real = trial.TrialRunner.run

    def run(self: Any, task: Any, *places: Any) -> Any:
        if task.point.n_coclusters == 4:
            raise FitError("expected a finite objective")
        return real(self, task, *places)

    monkeypatch.setattr(trial.TrialRunner, "run", run)
    results = tmp_path / "search.jsonl"
    with pytest.raises(
        FitError, match=r"2 of 4 fits failed, the first with GridPoint\(n_coclusters=4.*finite objective"
    ):
        search_locally(sales, Grid([4, 8], [3.0]), folds=2, M=10, results=results)
    assert len(results.read_text().splitlines()) == 1 + 2
