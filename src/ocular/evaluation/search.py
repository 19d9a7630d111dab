"""
Which K and λ: every point of a grid, a random part of it, or the survivors of successive halving, measured on folds.

Points are fitted in processes, one thread each, and the table is the same for any number of them. Every finished
(point, fold) is a line of the results file, so that a killed search goes on where it was; where K, λ and the variants
are only added to, the old lines count too.

Warm starts fit the λ of one K and fold from the largest down, each from the memberships before. They save half of the
sweeps, but the scores are then not those that a fit from scratch will have: far below them after a λ that is much too
large, above them at small ones. So they are for looking around, and off by default.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby, product
from math import ceil, sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ocular.data.interactions import Interactions
from ocular.errors import ClusterError, ConfigError, FitError, OcularError
from ocular.evaluation.results_file import ResultsFile
from ocular.evaluation.scorer import recall_scorer
from ocular.evaluation.trial import Bench, Point, Score, Settings, Task, begin_worker, run_in_worker
from ocular.solver.config import FitConfig
from ocular.solver.devices import find_device
from ocular.validation import check_whole
from ocular.version import __version__

__all__ = ["Grid", "Point", "Row", "SearchResult", "recall_scorer", "search"]

STRATEGIES = ("grid", "random", "halving")
Submit = Callable[[Task, Path | None, Path | None], Future[Score]]
Workers = Callable[[Bench, Sequence[str], Path], AbstractContextManager[Submit]]
SURVIVORS = 3  # one in so many stays after each rung of a halving


@dataclass(frozen=True)
class Grid:
    """
    The values to combine. `relative=(False, True)` tries OCuLaR and R-OCuLaR.

    A larger `tol` stops a fit earlier, which with many co-clusters is often more accurate, and always faster.
    """

    n_coclusters: Iterable[int]
    regularization: Iterable[float]
    relative: Iterable[bool] = (False,)
    bias: Iterable[bool] = (False,)
    tol: Iterable[float] = (FitConfig.tol,)

    def points(self) -> list[Point]:
        """Every combination once, in order; raises ConfigError where one makes no sense."""
        sides = {name: tuple(getattr(self, name)) for name in self.__dataclass_fields__}
        for name, values in sides.items():
            if not values:
                raise ConfigError(f"expected at least one value of {name}, got none")
        return sorted({Point(*values) for values in product(*sides.values())}, key=Point.order)


@dataclass(frozen=True)
class Row:
    """One point with its mean over the folds it was measured on, the standard error of that, and the time it took."""

    point: Point
    mean: float
    error: float
    folds: int
    seconds: float


@dataclass(frozen=True)
class SearchResult:
    """All points that were measured, in the order of the grid."""

    metric: str
    M: int
    folds: int
    strategy: str
    rows: tuple[Row, ...]

    @property
    def best(self) -> Row:
        """The highest mean of those measured on all folds; of equal ones that with the fewest co-clusters."""
        return min(self._whole, key=lambda row: (-row.mean, row.point.simplicity()))

    @property
    def interpretable(self) -> Row:
        """The fewest co-clusters, then the largest λ, within one standard error of the best."""
        least = self.best.mean - self.best.error
        return min((row for row in self._whole if row.mean >= least), key=lambda row: row.point.simplicity())

    @property
    def _whole(self) -> list[Row]:
        return [row for row in self.rows if row.folds == self.folds]

    def table(self) -> list[dict[str, Any]]:
        """A dictionary for each point; `choice` marks the best one and the interpretable one."""
        names = {self.interpretable.point: "interpretable"} | {self.best.point: "best"}
        if self.best == self.interpretable:
            names = {self.best.point: "best, interpretable"}
        return [
            asdict(row.point)
            | {f"{self.metric}@{self.M}": row.mean, "error": row.error, "folds": row.folds, "seconds": row.seconds}
            | {"choice": names.get(row.point)}
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "M": self.M,
            "folds": self.folds,
            "strategy": self.strategy,
            "best": asdict(self.best.point),
            "interpretable": asdict(self.interpretable.point),
            "rows": self.table(),
        }


def search(
    history: Any,
    grid: Grid,
    *,
    metric: str = "recall",
    M: int = 50,
    folds: int = 5,
    strategy: str = "grid",
    n_points: int | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
    devices: Sequence[str] | None = None,
    results: Path | None = None,
    warm_start: bool = False,
    progress: bool = False,
    workers: Workers | None = None,
) -> SearchResult:
    """
    Measure the points of a grid on held-out pairs of a history: an Interactions, or a matrix of 0 and 1.

    `folds` are those of `ocular.data.splits.k_fold`; 1 is a single split that holds out a quarter of the pairs, and the
    standard error is then that over the clients. "random" draws `n_points` of the grid. "halving" measures all points
    (or `n_points` of them) on a first part of the folds, the best third of these on more, and so on: what was measured
    is kept, and only what reached all folds can be chosen. With n_jobs above 1 the fits run in processes of their own,
    which a script must allow for by `if __name__ == "__main__"`. `devices` such as ["cuda:0", "cuda:1"] are instead of
    n_jobs: a process for each, one point at a time on it; `workers` runs the fits elsewhere. `results` is the file to
    go on from. A point that can not be fitted is told at the end, when all others are measured.
    """
    settings = Settings(metric, M, folds, random_state, warm_start)
    points = _draw(grid.points(), strategy, n_points, random_state)
    if strategy == "halving" and folds < 2:
        raise ConfigError(f"expected at least 2 folds to halve by, got {folds}; use 5")
    history = history if isinstance(history, Interactions) else Interactions.from_matrix(history)
    n_jobs = check_whole(n_jobs, "n_jobs", 1)
    if devices is not None and (n_jobs > 1 or len(devices) == 0):
        raise ConfigError(f"expected either jobs or a list of devices, got {n_jobs} jobs and {len(devices)} devices")
    devices = ["cpu"] * n_jobs if devices is None else [find_device(device) for device in devices]
    bench = Bench(history, settings, devices[0])
    depends = asdict(settings) | {"ocular": __version__}  # what a score depends on
    if warm_start:  # on the points before it too
        depends |= {"strategy": strategy, "points": [list(point.order()) for point in points]}
    file = ResultsFile(results, {"data": history.fingerprint(), "settings": depends})
    rows: dict[Point, Row] = {}
    rungs = _rungs(folds) if strategy == "halving" else [folds]
    with tempfile.TemporaryDirectory(prefix="ocular-search-") as temporary:
        # memberships outlive a killed search only beside its results
        kept = Path(f"{results}.factors" if results is not None and warm_start else temporary)
        with (workers or _workers)(bench, devices, Path(temporary)) as submit:
            alive, first = points, 0
            for number, last in enumerate(rungs):
                chains = [
                    [Task(point, fold) for point in chain]
                    for fold in range(first, last)
                    for chain in _chains(alive, warm_start)
                ]
                name = "search" if len(rungs) == 1 else f"search, rung {number + 1} of {len(rungs)}"
                _run(chains, submit, file, len(devices), kept, name if progress else None)
                rows |= {point: _row(point, file.scores(point, last)) for point in alive}
                alive = sorted(alive, key=lambda point: (-rows[point].mean, point.simplicity()))
                alive, first = alive[: ceil(len(alive) / SURVIVORS)], last
        if kept != Path(temporary) and kept.exists():
            with suppress(OSError):  # somebody else's files are in it
                kept.rmdir()
    return SearchResult(metric, settings.M, settings.folds, strategy, tuple(rows[point] for point in points))


def _draw(points: list[Point], strategy: str, n_points: int | None, random_state: int) -> list[Point]:
    if strategy not in STRATEGIES:
        raise ConfigError(f"expected a strategy of {', '.join(STRATEGIES)}, got {strategy!r}")
    if (strategy == "random" and n_points is None) or (strategy == "grid" and n_points is not None):
        wanted = "a number of points to draw" if n_points is None else "no number of points"
        raise ConfigError(f"expected {wanted} with the strategy {strategy}, got {n_points}")
    if n_points is None:
        return points
    most = check_whole(n_points, "n_points", 1)
    chosen = np.random.default_rng(random_state).permutation(len(points))[:most]
    return [points[at] for at in sorted(chosen.tolist())]


def _rungs(folds: int) -> list[int]:
    """The folds that are done at the end of each rung: 1, 2, 5 of five."""
    rungs = [folds]
    while rungs[0] > 1:
        rungs.insert(0, ceil(rungs[0] / SURVIVORS))
    return rungs


def _chains(points: Sequence[Point], warm_start: bool) -> Iterator[list[Point]]:
    """Points that have to be fitted one after the other: all λ of a variant and K from the largest down, or single."""
    ordered = sorted(points, key=Point.order)
    if not warm_start:
        return ([point] for point in ordered)
    return (list(group)[::-1] for _, group in groupby(ordered, key=lambda point: point.order()[:-1]))


def _run(
    chains: list[list[Task]], submit: Submit, file: ResultsFile, n_jobs: int, kept: Path, name: str | None
) -> None:
    """Every task that the file does not have yet, each chain in its order, at most n_jobs at a time."""
    todo: list[tuple[list[Task], int]] = []
    for chain in reversed(chains):  # taken from the end
        at = next((at for at, task in enumerate(chain) if task not in file), len(chain))
        if at < len(chain):
            todo.append((chain, at if at == 0 or chain[at - 1].place(kept).exists() else 0))
    running: dict[Future[Score], tuple[list[Task], int]] = {}
    failed: dict[Task, OcularError] = {}
    total = sum(task.point.n_coclusters for chain, at in todo for task in chain[at:])
    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"  # by co-clusters: points take time in proportion
    with tqdm(total=total, desc=name, bar_format=form, disable=True if name is None else None) as bar:
        while todo or running:
            while todo and len(running) < n_jobs:
                chain, at = todo.pop()
                start = chain[at - 1].place(kept) if at else None
                keep = chain[at].place(kept) if at + 1 < len(chain) else None
                running[submit(chain[at], start, keep)] = chain, at
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                chain, at = running.pop(future)
                try:
                    file.add(chain[at], future.result())
                except (FitError, ClusterError) as error:
                    failed[chain[at]] = error
                    continue
                if at:
                    chain[at - 1].place(kept).unlink(missing_ok=True)
                if at + 1 < len(chain):
                    todo.append((chain, at + 1))
                bar.update(chain[at].point.n_coclusters)
    if failed:
        task, cause = next(iter(failed.items()))
        raise FitError(
            f"{len(failed)} of {sum(map(len, chains))} fits failed, the first with {task.point} on fold {task.fold}: "
            f"{cause}"
        ) from cause
    for task in (task for chain in chains for task in chain):
        task.place(kept).unlink(missing_ok=True)  # what a kill may have left


@contextmanager
def _workers(bench: Bench, devices: Sequence[str], folder: Path) -> Iterator[Submit]:
    """What runs a task: this process at once, or one for each device that reads the data from a file in `folder`."""
    if len(devices) == 1:
        yield lambda *task: _done(partial(bench.run, *task))
        return
    data = bench.save(folder / "history.npz")
    context = get_context("spawn")
    free = context.SimpleQueue()  # each process takes one for itself
    for device in devices:
        free.put(device)
    executor = ProcessPoolExecutor(len(devices), context, begin_worker, (data, bench.settings, free))
    try:
        yield lambda *task: executor.submit(run_in_worker, *task)
    except BrokenProcessPool as error:
        raise FitError(
            "expected the processes of the search to run to their end, got one that was killed; use fewer jobs, or "
            'call search below `if __name__ == "__main__":`'
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _done(run: Callable[[], Score]) -> Future[Score]:
    future: Future[Score] = Future()
    try:
        future.set_result(run())
    except FitError as error:
        future.set_exception(error)
    return future


def _row(point: Point, scores: list[Score]) -> Row:
    values = [score.value for score in scores]
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else scores[0].error
    return Row(point, fmean(values), error, len(values), sum(score.seconds for score in scores))
