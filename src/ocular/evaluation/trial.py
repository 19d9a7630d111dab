"""The trials of a search: a grid point is fitted and measured on one fold, in this process or in another."""

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

from ocular.data.interactions import Interactions, rows_of
from ocular.data.splits import Split, k_fold, random_split
from ocular.errors import ConfigError, FitError, Parameter
from ocular.evaluation.fold_evidence import FoldEvidence, Penalties, Weights, choose_penalties
from ocular.evaluation.metrics import PER_USER, measure
from ocular.evidence import EvidenceConfig
from ocular.model import OCuLaR
from ocular.solver.config import FitConfig
from ocular.storage import write_file
from ocular.tuning import AUTO
from ocular.validation import check_choice, check_whole

PENALTIES = ("link_regularization", "peer_regularization")
TEST_SHARE = 0.25  # held out where there is a single split instead of folds


@dataclass(frozen=True)
class GridPoint:
    """One combination of parameters to try."""

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
        """Everything but K and λ."""
        return self.relative, self.bias, self.tol

    def order(self) -> tuple[bool, bool, float, int, float]:
        """Return a sort key: by variant, then K, then λ."""
        return *self.variant, self.n_coclusters, self.regularization

    def simplicity(self) -> tuple[int, float, bool, bool, float]:
        """Return a sort key: smaller is easier to read, or faster to fit."""
        return self.n_coclusters, -self.regularization, self.bias, self.relative, -self.tol


@dataclass(frozen=True)
class SearchSettings:
    """What all trials of a search have in common."""

    metric: str
    M: int
    folds: int
    random_state: int
    warm_start: bool = False
    links: float | str = 0.0  # or AUTO
    link_regularization: float | str | None = None  # None and AUTO: chosen
    peer_regularization: float | str | None = None

    def __post_init__(self) -> None:
        check_choice(self.metric, "metric", PER_USER)
        for name, low in (("M", 1), ("folds", 1), ("random_state", 0)):
            object.__setattr__(self, name, check_whole(getattr(self, name), name, low))
        if isinstance(self.links, bool) or self.links not in (AUTO, 0):
            raise ConfigError("expected ", Parameter("links"), f' to be "auto" or 0, got {self.links!r}')
        for name in PENALTIES:
            penalty = getattr(self, name)
            if penalty is not None and not self.has_links:
                add = " without links, got ", penalty, "; add ", Parameter("links", AUTO)
                raise ConfigError("expected no ", Parameter(name), *add)
            chosen = penalty in (None, AUTO)
            object.__setattr__(self, name, None if chosen else getattr(EvidenceConfig(**{name: penalty}), name))

    @property
    def has_links(self) -> bool:
        """Whether points are measured with links and peers."""
        return self.links == AUTO

    def to_dict(self) -> dict[str, Any]:
        """Return what scores depend on for JSON; without links there is no word of them, as in files of old."""
        values = asdict(self)
        if not self.has_links:
            del values["links"]
        return {name: value for name, value in values.items() if name not in PENALTIES or value is not None}


class Trial(NamedTuple):
    """A grid point to fit on the training part of a fold."""

    point: GridPoint
    fold: int

    def factors_file(self, folder: Path) -> Path:
        """Return the file that hands the fitted memberships on to the trial of the next λ."""
        p = self.point
        return folder / f"{p.n_coclusters}-{p.regularization!r}-{p.relative:d}{p.bias:d}-{p.tol!r}-{self.fold}.npz"


class TrialScore(NamedTuple):
    """The mean over the clients of a fold, its standard error, and the time of fit and measurement."""

    value: float
    error: float
    seconds: float
    weights: Weights | None = None  # of links and peers, in a search with them


class TrialRunner:
    """Runs trials on one set of purchases; the split, the links and the peers of the latest fold stay in memory."""

    def __init__(self, interactions: Interactions, settings: SearchSettings, device: str = "cpu") -> None:
        n_users, n_items = interactions.shape
        # without names and amounts, which are of no use here
        self.interactions = Interactions(interactions.by_user, n_items, np.arange(n_users), np.arange(n_items))
        self.settings, self._device = settings, device
        self._fold, self._split = 0, self._make_split(0)  # refuses what cannot be split
        self._evidence: FoldEvidence | None = None
        self._penalties: dict[bool, Penalties] = {}

    def save(self, path: Path) -> Path:
        """Write the purchases to a file for `open`."""
        arrays: dict[str, Any] = self.interactions.arrays()
        write_file(path, partial(np.savez, n_items=self.interactions.n_items, **arrays))
        return path

    @classmethod
    def open(cls, path: Path, settings: SearchSettings, device: str) -> TrialRunner:
        """Return a runner on the purchases that `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            rows, n_items = rows_of(dict(arrays)), int(arrays["n_items"])
        return cls(Interactions(rows, n_items, np.arange(len(rows)), np.arange(n_items)), settings, device)

    def run(self, trial: Trial, start: Path | None, keep: Path | None) -> TrialScore:
        """
        Fit from the memberships in the file `start`, or as OCuLaR does without one, and measure.

        In a search with links the point is measured with those weights of links, peers and popularity that do best on
        the same held-out purchases. Their choice is a matter of scores alone: links and peers are those of the fold.

        The fitted memberships are written to `keep` where it is given. Warm starts begin with "overlap": the several
        starts that "auto" tries would take longer than all λ together.
        """
        begun = time.perf_counter()
        if trial.fold != self._fold:
            self._fold, self._split, self._evidence = trial.fold, self._make_split(trial.fold), None
        train, test = self._split
        init: Any = "overlap" if self.settings.warm_start else "auto"
        if start is not None:
            with np.load(start, allow_pickle=False) as arrays:
                init = arrays["users"], arrays["items"]
        model = OCuLaR(
            **asdict(trial.point), init=init, random_state=self.settings.random_state, n_threads=1, device=self._device
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model.fit(train)
            except FitError as error:
                raise FitError(f"{error} (at {trial.point})") from error
        if model.interrupted_:
            raise KeyboardInterrupt  # the score of half a fit would mislead
        if keep is not None:
            users, items = model.user_factors_.toarray(), model.item_factors_.toarray()
            write_file(keep, partial(np.savez, users=users, items=items))
        M, metric = self.settings.M, self.settings.metric
        weights = self.evidence.add_to(model, self._penalties_of(model.config_)) if self.settings.has_links else None
        values = measure(model, train, test, M, n_threads=1).per_user[metric][:, 0]
        standard_error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
        return TrialScore(float(values.mean()), standard_error, time.perf_counter() - begun, weights)

    @property
    def evidence(self) -> FoldEvidence:
        """The links and peers of the latest fold."""
        if self._evidence is None:
            self._evidence = FoldEvidence(self._split, self.settings.metric, self.settings.M, n_threads=1)
        return self._evidence

    def _penalties_of(self, config: FitConfig) -> Penalties:
        """Return those given, or those of the first fold for all, so that the weights of folds can be compared."""
        if config.relative not in self._penalties:
            first = self._split if self._fold == 0 else self._make_split(0)
            given: dict[str, Any] = dict(
                zip(("links", "peers"), map(asdict(self.settings).get, PENALTIES), strict=True)
            )
            found = choose_penalties(first, self.settings.metric, self.settings.M, config, given)
            self._penalties[config.relative] = found
        return self._penalties[config.relative]

    def _make_split(self, fold: int) -> Split:
        folds, random_state = self.settings.folds, self.settings.random_state
        if folds == 1:
            return random_split(self.interactions, TEST_SHARE, random_state)
        return next(islice(k_fold(self.interactions, folds, random_state), fold, None))


_runner: TrialRunner  # of a worker process


def begin_worker(data: Path, settings: SearchSettings, devices: SimpleQueue[str]) -> None:
    """
    Set up a worker process: read the purchases once, and take a device.

    Ctrl-C is for the parent to handle, and when the parent is killed its workers end too.
    """
    global _runner  # noqa: PLW0603  the only way from an initializer to the tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent, data.parent), daemon=True).start()
    _runner = TrialRunner.open(data, settings, devices.get())


def _end_with(parent: BaseProcess, folder: Path) -> None:
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)  # its copy of the data
    os._exit(1)


def run_in_worker(trial: Trial, start: Path | None, keep: Path | None) -> TrialScore:
    """Run a trial in the worker process that `begin_worker` set up."""
    return _runner.run(trial, start, keep)
