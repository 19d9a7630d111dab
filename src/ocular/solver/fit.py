"""The one fit loop: sweeps on any backend until Q stops falling."""

from __future__ import annotations

import logging
import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from ocular.errors import FitError
from ocular.solver.checkpoint import Checkpoint, Data, Saver
from ocular.solver.config import Backend, FitConfig, State

_log = logging.getLogger("ocular")

Callback = Callable[[int, float], object]  # (sweep, objective)


@dataclass(frozen=True)
class FitResult:
    """How a fit ended."""

    state: State
    converged: bool
    interrupted: bool


def run_fit(
    data: Data,
    config: FitConfig,
    backend: Backend,
    start: Callable[[], State],
    *,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
) -> FitResult:
    """
    Sweep until the relative decrease of Q falls below config.tol, config.max_iter is reached, or Ctrl-C.

    `start` makes the first state; it is not called where a checkpoint holds a later one.
    """
    saver = None if checkpoint is None else Saver(checkpoint, data, config)
    saved = None if saver is None else saver.load()
    if saved is not None and checkpoint is not None:
        _log.info("going on from %s after sweep %d", checkpoint.path, len(saved.history))
    with _interrupt_between_sweeps() as wanted:
        state = start() if saved is None else saved
        history = state.history
        backend.start(state)
        converged = _has_converged(history, config.tol)
        interrupted = False
        while not converged and not interrupted and len(history) < config.max_iter:
            objective = backend.sweep()
            if not math.isfinite(objective):
                raise FitError(
                    f"expected a finite objective, got {objective} in sweep {len(history) + 1}; lower regularization"
                )
            history.append(objective)
            if callback is not None:
                callback(len(history), history[-1])
            converged = _has_converged(history, config.tol)
            interrupted = wanted.is_set()
            if saver is not None and saver.due(len(history)):
                saver.save(_with_history(backend.state(), history))
    state = _with_history(backend.state(), history)
    if saver is not None:
        saver.save(state)
    return FitResult(state, converged, interrupted)


def _has_converged(history: list[float], tol: float) -> bool:
    if len(history) < 2:
        return False
    before, after = history[-2:]
    # not falling at all means float32 can not resolve a further decrease
    return after >= before or (before - after) < tol * before


def _with_history(state: State, history: list[float]) -> State:
    state.history = history
    return state


@contextmanager
def _interrupt_between_sweeps() -> Iterator[threading.Event]:
    """Ctrl-C sets the event instead of tearing a sweep apart; a second one interrupts at once."""
    wanted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield wanted  # signals reach the main thread only
        return

    def remember(_signal: int, _frame: FrameType | None) -> None:
        if wanted.is_set():
            raise KeyboardInterrupt
        wanted.set()

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield wanted
    finally:
        signal.signal(signal.SIGINT, before)
