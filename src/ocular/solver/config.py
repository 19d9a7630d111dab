"""What a fit is asked to do, and the state it works on."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.errors import ConfigError

LANES = 16  # factor columns are padded with zeros to a multiple of this, so that vector loops have no scalar tail
BIAS_COLUMN = 0.1  # what the other side holds in a bias's column: about the size of a membership, so one step fits both

INITS = ("auto", "overlap", "random")
LINE_SEARCHES = ("scaled", "paper")


@dataclass(frozen=True)
class FitConfig:
    """Parameters of a fit; see `ocular.OCuLaR` for what each means."""

    n_coclusters: int = 100
    regularization: float = 30.0
    relative: bool = False
    bias: bool = False
    background: float = 1e-4
    max_iter: int = 100
    tol: float = 1e-4
    beta: float = 0.5
    sigma: float = 0.1
    line_search: str = "scaled"
    init: str = "auto"
    seed: int | None = None
    n_threads: int | None = None

    def __post_init__(self) -> None:
        _check_whole("n_coclusters", self.n_coclusters, at_least=1)
        _check_whole("max_iter", self.max_iter, at_least=1)
        if self.n_threads is not None:
            _check_whole("n_threads", self.n_threads, at_least=1)
        _check_number("regularization", self.regularization, "at least 0", self.regularization >= 0)
        _check_number("tol", self.tol, "at least 0", self.tol >= 0)
        _check_number("background", self.background, "between 1e-12 and 1", 1e-12 <= self.background <= 1)
        _check_number("beta", self.beta, "between 0 and 1", 0 < self.beta < 1)
        _check_number("sigma", self.sigma, "between 0 and 1", 0 < self.sigma < 1)
        _check_choice("line_search", self.line_search, LINE_SEARCHES)
        _check_choice("init", self.init, INITS)

    @property
    def width(self) -> int:
        """Columns of the working arrays: co-clusters, the user's and the item's bias, zeros up to full lanes."""
        columns = self.n_coclusters + (2 if self.bias else 0)
        return -(-columns // LANES) * LANES

    @property
    def threads(self) -> int:
        if self.n_threads is not None:
            return self.n_threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_whole(name: str, value: object, at_least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < at_least:
        raise ConfigError(f"expected {name} to be a whole number of at least {at_least}, got {value!r}")


def _check_number(name: str, value: object, expected: str, good: bool) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.number)
        or not math.isfinite(value)
        or not good
    ):
        raise ConfigError(f"expected {name} to be a number {expected}, got {value!r}")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"expected {name} to be one of {', '.join(choices)}, got {value!r}")


@dataclass
class State:
    """Everything that changes during a fit: enough to go on from, bit for bit."""

    user_factors: NDArray[np.float32]  # (n_users, width)
    item_factors: NDArray[np.float32]  # (n_items, width)
    user_steps: NDArray[np.float32]  # (n_users,) the line search's first try
    item_steps: NDArray[np.float32]  # (n_items,)
    bias: float = 0.0
    history: list[float] = field(default_factory=list)  # Q after each sweep


class Backend(Protocol):
    """Where the sweeps run. The data and the state stay there; only Q comes back, the state when it is asked for."""

    def start(self, state: State) -> None: ...

    def sweep(self) -> float:
        """One step for every item row, then for every user row; returns Q."""
        ...

    def state(self) -> State: ...

    def close(self) -> None: ...


def user_weights(by_user: Adjacency, n_items: int, relative: bool) -> NDArray[np.float32]:
    """What a positive of each user weighs: 1, or unknowns / positives (R-OCuLaR)."""
    positives = by_user.degrees
    if not relative:
        return np.ones(len(positives), dtype=np.float32)
    weights = (n_items - positives) / np.maximum(positives, 1)
    return np.where(positives > 0, weights, 1.0).astype(np.float32)
