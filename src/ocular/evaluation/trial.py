"""What one setting scores on one fold, in this process or in another."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ocular.data.interactions import Adjacency, Interactions
from ocular.data.splits import Split, k_fold, random_split
from ocular.errors import ConfigError, FitError
from ocular.evaluation.metrics import PER_USER, measure
from ocular.model import OCuLaR
from ocular.solver.config import FitConfig
from ocular.storage import write_file
from ocular.validation import check_whole

TEST_SHARE = 0.25  # of a single split


@dataclass(frozen=True)
class Point:
    """A setting to try."""

    n_coclusters: int
    regularization: float
    relative: bool = False
    bias: bool = False
    tol: float = FitConfig.tol

    def __post_init__(self) -> None:
        config = FitConfig(**asdict(self))
        for name in self.__dataclass_fields__:
            object.__setattr__(self, name, getattr(config, name))  # no NumPy numbers: they do not fit into JSON

    @property
    def variant(self) -> tuple[bool, bool, float]:
        return self.relative, self.bias, self.tol

    def order(self) -> tuple[bool, bool, float, int, float]:
        return *self.variant, self.n_coclusters, self.regularization

    def simplicity(self) -> tuple[int, float, bool, bool, float]:
        """Smaller is easier to read, or to fit."""
        return self.n_coclusters, -self.regularization, self.bias, self.relative, -self.tol


@dataclass(frozen=True)
class Settings:
    """What all points of a search have in common."""

    metric: str
    M: int
    folds: int
    random_state: int
    warm_start: bool = False

    def __post_init__(self) -> None:
        if self.metric not in PER_USER:
            raise ConfigError(f"expected a metric of {', '.join(PER_USER)}, got {self.metric!r}")
        for name, least in (("M", 1), ("folds", 1), ("random_state", 0)):
            object.__setattr__(self, name, check_whole(getattr(self, name), name, least))


class Task(NamedTuple):
    """A point to fit on the training part of a fold."""

    point: Point
    fold: int

    def place(self, folder: Path) -> Path:
        """Where the memberships are kept for the next λ."""
        p = self.point
        return folder / f"{p.n_coclusters}-{p.regularization!r}-{p.relative:d}{p.bias:d}-{p.tol!r}-{self.fold}.npz"


class Score(NamedTuple):
    """The mean over the clients of a fold, its standard error, and the time of fit and measurement."""

    value: float
    error: float
    seconds: float


class Bench:
    """Fits and measures; keeps the fold it was asked for last."""

    def __init__(self, history: Interactions, settings: Settings, device: str = "cpu") -> None:
        n_users, n_items = history.shape
        # without names and amounts, which are of no use here
        self.history = Interactions(history.by_user, n_items, np.arange(n_users), np.arange(n_items))
        self.settings, self._device = settings, device
        self._fold, self._split = 0, self._splits(0)  # refuses what can not be split

    def save(self, path: Path) -> Path:
        """The data as a file for `open`."""
        rows = self.history.by_user
        write_file(path, partial(np.savez, indptr=rows.indptr, indices=rows.indices, n_items=self.history.n_items))
        return path

    @classmethod
    def open(cls, path: Path, settings: Settings, device: str) -> Bench:
        with np.load(path, allow_pickle=False) as arrays:
            rows, n_items = Adjacency(arrays["indptr"], arrays["indices"]), int(arrays["n_items"])
        return cls(Interactions(rows, n_items, np.arange(len(rows)), np.arange(n_items)), settings, device)

    def run(self, task: Task, start: Path | None, keep: Path | None) -> Score:
        """
        Fit from the memberships in `start`, else as OCuLaR does, and measure.

        With `keep` the memberships are written there. Warm starts begin with "overlap": the several tries of "auto"
        would take longer than all λ together.
        """
        begun = time.perf_counter()
        if task.fold != self._fold:
            self._fold, self._split = task.fold, self._splits(task.fold)
        train, test = self._split
        init: Any = "overlap" if self.settings.warm_start else "auto"
        if start is not None:
            with np.load(start, allow_pickle=False) as arrays:
                init = arrays["users"], arrays["items"]
        model = OCuLaR(
            **asdict(task.point), init=init, random_state=self.settings.random_state, n_threads=1, device=self._device
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model.fit(train)
            except FitError as error:
                raise FitError(f"{error} (at {task.point})") from error
        if model.interrupted_:
            raise KeyboardInterrupt  # half a fit is no result
        if keep is not None:
            users, items = model.user_factors_.toarray(), model.item_factors_.toarray()
            write_file(keep, partial(np.savez, users=users, items=items))
        M, metric = self.settings.M, self.settings.metric
        each = measure(model, train, test, M, n_threads=1).per_user[metric][:, 0]
        spread = float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else 0.0
        return Score(float(each.mean()), spread, time.perf_counter() - begun)

    def _splits(self, fold: int) -> Split:
        folds, random_state = self.settings.folds, self.settings.random_state
        if folds == 1:
            return random_split(self.history, TEST_SHARE, random_state)
        return next(islice(k_fold(self.history, folds, random_state), fold, None))


_bench: Bench  # of a worker process


def begin_worker(data: Path, settings: Settings, devices: SimpleQueue[str]) -> None:
    """
    Read the data once, and take a device.

    Ctrl-C is for the parent to handle, and when the parent is killed its workers end too.
    """
    global _bench  # noqa: PLW0603  the only way from an initializer to the tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent, data.parent), daemon=True).start()
    _bench = Bench.open(data, settings, devices.get())


def _end_with(parent: BaseProcess, folder: Path) -> None:
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)  # its copy of the data
    os._exit(1)


def run_in_worker(task: Task, start: Path | None, keep: Path | None) -> Score:
    return _bench.run(task, start, keep)
