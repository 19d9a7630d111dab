"""
Search for K and λ: measure every point of a grid, a random sample of it, or the survivors of successive halving.

Trials run in processes of one thread each, and the table is the same for any number of them. Every finished trial
(a grid point on a fold) is a line of the results file, so that a killed search goes on where it was; a larger grid
reuses the lines that are there.

With links="auto" every point is measured with links and peers, whose weights are chosen without another fit: they are
fitted once per fold and process, with penalties that are chosen on the first fold without patterns. So scores are the
same in whatever order points are fitted.

Warm starts fit the λ of one K and fold from the largest down, each from the memberships before. They save half of the
sweeps, but the scores are then not those of a fit from scratch: far below them after a λ that is much too large, above
them at small ones. They are for a first look, and off by default.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from math import ceil, sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ocular.climbing import FIXED
from ocular.data.matrices import as_interactions
from ocular.errors import ClusterError, ConfigError, FitError, OcularError, Parameter, Phrased
from ocular.evaluation.fold_evidence import Weights
from ocular.evaluation.metrics import note_large_cutoff
from ocular.evaluation.results_file import ResultsFile
from ocular.evaluation.scorer import recall_scorer
from ocular.evaluation.search_result import SearchResult, SearchRow
from ocular.evaluation.trial import (
    GridPoint,
    SearchSettings,
    Trial,
    TrialRunner,
    TrialScore,
    begin_worker,
    run_in_worker,
)
from ocular.solver.config import FitConfig
from ocular.solver.devices import find_device
from ocular.tuning import MIN_HELD_OUT
from ocular.validation import as_list, check_choice, check_whole
from ocular.version import __version__

__all__ = ["Grid", "GridPoint", "SearchResult", "SearchRow", "recall_scorer", "search"]

STRATEGIES = ("grid", "random", "halving")
Submit = Callable[[Trial, Path | None, Path | None], Future[TrialScore]]
Workers = Callable[[TrialRunner, Sequence[str], Path], AbstractContextManager[Submit]]
_log = logging.getLogger("ocular")
KEEP_ONE_IN = 3  # grid points that go on to the next round of a halving


@dataclass(frozen=True)
class Grid:
    """
    The values to combine. `relative=(False, True)` tries OCuLaR and R-OCuLaR.

    A larger `tol` stops a fit earlier, which with many co-clusters is often more accurate, and always faster.
    """

    n_coclusters: int | Iterable[int]
    regularization: float | Iterable[float]
    relative: bool | Iterable[bool] = (False,)
    bias: bool | Iterable[bool] = (False,)
    tol: float | Iterable[float] = (FitConfig.tol,)

    @classmethod
    def of(cls, values: Any) -> Grid:
        """Return the grid of a mapping from names to values; raise ConfigError where it is none."""
        if isinstance(values, Grid):
            return values
        names, needed = tuple(cls.__dataclass_fields__), ("n_coclusters", "regularization")
        got = [str(name) for name in values] if isinstance(values, Mapping) else None
        if got is None or not set(needed) <= set(got) <= set(names):
            raise ConfigError(
                f"expected n_coclusters and regularization, and optionally {', '.join(names[2:])}, each with values "
                f"to try, got {type(values).__name__ if got is None else ', '.join(got) or 'nothing'}"
            )
        return cls(**values)

    def points(self) -> list[GridPoint]:
        """Return every combination once, in order; raise ConfigError where one makes no sense."""
        sides = {name: tuple(as_list(getattr(self, name))) for name in self.__dataclass_fields__}
        for name, values in sides.items():
            if not values:
                raise ConfigError("expected at least one value of ", Parameter(name), ", got none")
        return sorted({GridPoint(*values) for values in product(*sides.values())}, key=GridPoint.order)


def search(
    interactions: Any,
    grid: Grid | Mapping[str, Any],
    *,
    metric: str = "recall",
    M: int = 50,
    folds: int = 5,
    strategy: str = "grid",
    n_points: int | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
    devices: Sequence[str] | None = None,
    results: str | os.PathLike[str] | None = None,
    warm_start: bool = False,
    links: float | str = 0.0,
    link_regularization: float | str | None = None,
    peer_regularization: float | str | None = None,
    progress: bool = False,
    workers: Workers | None = None,
) -> SearchResult:
    """
    Measure the points of a grid on held-out pairs.

    Parameters
    ----------
    interactions : Interactions or matrix
        The purchases, as `OCuLaR.fit` takes them.
    grid : Grid or mapping
        The values to combine: Grid([20, 50], [10, 30]) or {"n_coclusters": [20, 50], "regularization": [10, 30]}.
    metric, M : str, int
        What decides: recall, map, ndcg or precision of M recommendations per client.
    folds : int
        Parts that are held out in turn, as by `ocular.data.splits.k_fold`. With 1 a quarter of the pairs is held out
        once, and the standard error is that over the clients.
    strategy : {"grid", "random", "halving"}
        "random" takes a random sample of `n_points`. "halving" measures all points (or `n_points` of them) on a first
        part of the folds, the best third of these on more, and so on; only what reached all folds can be chosen.
    n_jobs : int
        Processes to fit in. A script that uses several needs `if __name__ == "__main__":`.
    devices : list of str, optional
        GPUs such as ["cuda:0", "cuda:1"] instead of `n_jobs`: a process for each.
    results : path, optional
        File that keeps finished trials: the same search goes on from it.
    warm_start : bool
        Start each λ from the next larger one: faster, less exact.
    links : {0, "auto"}
        0 measures patterns alone, as in the paper. "auto" measures every point with links and peers, at no extra fit of
        patterns: the weights of links and peers and the popularity are those that do best on the held-out pairs of the
        fold (of a sample of clients where there are many), and the score is that of all its clients. A row has their
        medians over the folds, and so has `best_params_`. The search itself is a little optimistic, as any choice on
        held-out pairs.
    link_regularization, peer_regularization : float, optional
        The penalties of links and of peers. None chooses one for all points, by the part alone on the first fold.
    workers : callable, optional
        Runs the trials elsewhere, such as on Spark.

    A point that cannot be fitted raises FitError at the end, when all others are measured.
    """
    grid = Grid.of(grid)
    penalties = link_regularization, peer_regularization
    settings = SearchSettings(metric, M, folds, random_state, warm_start, links, *penalties)
    points = _select_points(grid.points(), strategy, n_points, random_state)
    if strategy == "halving" and folds < 2:
        raise ConfigError(f"expected at least 2 folds to halve by, got {folds}; use 5")
    interactions = as_interactions(interactions)
    n_jobs = check_whole(n_jobs, "n_jobs", 1)
    if devices is not None and (n_jobs > 1 or len(devices) == 0):
        raise ConfigError(f"expected either jobs or a list of devices, got {n_jobs} jobs and {len(devices)} devices")
    devices = ["cpu"] * n_jobs if devices is None else [find_device(device) for device in devices]
    note_large_cutoff(settings.M, interactions.n_items)
    runner = TrialRunner(interactions, settings, devices[0])
    if settings.has_links and not runner.evidence.can_choose:
        few = f"fewer than {MIN_HELD_OUT} held-out pairs are too few to choose weights on; taking "
        _log.warning(Phrased(few, Parameter("links", f"{FIXED.links:g}"), ", ", Parameter("peers", f"{FIXED.peers:g}")))
    depends_on = settings.to_dict() | {"ocular": __version__}  # everything that a score depends on
    if warm_start:  # and then on the points before it
        depends_on |= {"strategy": strategy, "points": [list(point.order()) for point in points]}
    results = None if results is None else Path(results)
    file = ResultsFile(results, {"data": interactions.fingerprint(), "settings": depends_on})
    rows: dict[GridPoint, SearchRow] = {}
    rounds = _halving_rounds(folds) if strategy == "halving" else [folds]
    with tempfile.TemporaryDirectory(prefix="ocular-search-") as temporary:
        # memberships outlive a killed search only beside its results
        factors_folder = Path(f"{results}.factors" if results is not None and warm_start else temporary)
        with (workers or _workers)(runner, devices, Path(temporary)) as submit:
            remaining, first = points, 0
            for number, last in enumerate(rounds):
                chains = [
                    [Trial(point, fold) for point in chain]
                    for fold in range(first, last)
                    for chain in _chains(remaining, warm_start)
                ]
                name = "search" if len(rounds) == 1 else f"search, round {number + 1} of {len(rounds)}"
                _run(chains, submit, file, len(devices), factors_folder, name if progress else None)
                rows |= {point: _row(point, file.scores(point, last)) for point in remaining}
                remaining = sorted(remaining, key=lambda point: (-rows[point].mean, point.simplicity()))
                remaining, first = remaining[: ceil(len(remaining) / KEEP_ONE_IN)], last
        if factors_folder != Path(temporary) and factors_folder.exists():
            with suppress(OSError):  # somebody else's files are in it
                factors_folder.rmdir()
    measured = tuple(rows[point] for point in points)
    return SearchResult(metric, settings.M, settings.folds, strategy, measured, interactions.native)


def _select_points(points: list[GridPoint], strategy: str, n_points: int | None, random_state: int) -> list[GridPoint]:
    """Return all points, or a random sample of `n_points` of them in the order of the grid."""
    check_choice(strategy, "strategy", STRATEGIES)
    if strategy == "random" and n_points is None:
        raise ConfigError("expected ", Parameter("n_points"), " with the strategy random, got None")
    if strategy == "grid" and n_points is not None:
        raise ConfigError("expected no ", Parameter("n_points"), f" with the strategy grid, got {n_points}")
    if n_points is None:
        return points
    size = check_whole(n_points, "n_points", 1)
    sample = np.random.default_rng(random_state).permutation(len(points))[:size]
    return [points[at] for at in sorted(sample.tolist())]


def _halving_rounds(folds: int) -> list[int]:
    """Return how many folds are done at the end of each round: 1, 2, 5 of five."""
    rounds = [folds]
    while rounds[0] > 1:
        rounds.insert(0, ceil(rounds[0] / KEEP_ONE_IN))
    return rounds


def _chains(points: Sequence[GridPoint], warm_start: bool) -> Iterator[list[GridPoint]]:
    """
    Return points that have to be fitted one after the other.

    With warm starts a chain is all λ of a variant and K from the largest down; without, each point is on its own.
    """
    ordered = sorted(points, key=GridPoint.order)
    if not warm_start:
        return ([point] for point in ordered)
    return (list(group)[::-1] for _, group in groupby(ordered, key=lambda point: point.order()[:-1]))


def _run(
    chains: list[list[Trial]], submit: Submit, file: ResultsFile, n_jobs: int, factors_folder: Path, name: str | None
) -> None:
    """Run every trial that the file does not have yet, each chain in its order, at most `n_jobs` at a time."""
    waiting: list[tuple[list[Trial], int]] = []
    for chain in reversed(chains):  # taken from the end
        at = next((at for at, trial in enumerate(chain) if trial not in file), len(chain))
        if at < len(chain):
            can_resume = at == 0 or chain[at - 1].factors_file(factors_folder).exists()
            waiting.append((chain, at if can_resume else 0))
    running: dict[Future[TrialScore], tuple[list[Trial], int]] = {}
    failed: dict[Trial, OcularError] = {}
    total = sum(trial.point.n_coclusters for chain, at in waiting for trial in chain[at:])
    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"  # by co-clusters: points take time in proportion
    with tqdm(total=total, desc=name, bar_format=form, disable=True if name is None else None) as bar:
        while waiting or running:
            while waiting and len(running) < n_jobs:
                chain, at = waiting.pop()
                start = chain[at - 1].factors_file(factors_folder) if at else None
                keep = chain[at].factors_file(factors_folder) if at + 1 < len(chain) else None
                running[submit(chain[at], start, keep)] = chain, at
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                chain, at = running.pop(future)
                try:
                    file.add(chain[at], future.result())
                except (FitError, ClusterError) as error:
                    failed[chain[at]] = error
                    continue
                if at:
                    chain[at - 1].factors_file(factors_folder).unlink(missing_ok=True)
                if at + 1 < len(chain):
                    waiting.append((chain, at + 1))
                bar.update(chain[at].point.n_coclusters)
    if failed:
        trial, cause = next(iter(failed.items()))
        raise FitError(
            f"{len(failed)} of {sum(map(len, chains))} fits failed, the first with {trial.point} on fold {trial.fold}: "
            f"{cause}"
        ) from cause
    for trial in (trial for chain in chains for trial in chain):
        trial.factors_file(factors_folder).unlink(missing_ok=True)  # what a kill may have left


@contextmanager
def _workers(runner: TrialRunner, devices: Sequence[str], folder: Path) -> Iterator[Submit]:
    """
    Run trials in this process, or in one for each device.

    Such processes read the purchases from a file in `folder`.
    """
    if len(devices) == 1:
        yield lambda *trial: _run_now(partial(runner.run, *trial))
        return
    data = runner.save(folder / "interactions.npz")
    context = get_context("spawn")
    free = context.SimpleQueue()  # each process takes one for itself
    for device in devices:
        free.put(device)
    executor = ProcessPoolExecutor(len(devices), context, begin_worker, (data, runner.settings, free))
    try:
        yield lambda *trial: executor.submit(run_in_worker, *trial)
    except BrokenProcessPool as error:
        raise FitError(
            "expected the processes of the search to run to their end, got one that was killed; use fewer jobs, or "
            'call search below `if __name__ == "__main__":`'
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _run_now(run: Callable[[], TrialScore]) -> Future[TrialScore]:
    future: Future[TrialScore] = Future()
    try:
        future.set_result(run())
    except FitError as error:
        future.set_exception(error)
    return future


def _row(point: GridPoint, scores: list[TrialScore]) -> SearchRow:
    values = [score.value for score in scores]
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else scores[0].error
    of_folds = [score.weights for score in scores if score.weights is not None]
    weights = Weights.typical(of_folds) if of_folds else None
    return SearchRow(point, fmean(values), error, len(values), sum(score.seconds for score in scores), weights)
