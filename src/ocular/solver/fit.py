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
from ocular.solver.attributes import SideAttributes
from ocular.solver.backend import Backend
from ocular.solver.checkpoint import Checkpoint, Data, Saver
from ocular.solver.config import FitConfig, State

_log = logging.getLogger("ocular")

Callback = Callable[[int, float], object]  # (sweep, objective)


@dataclass(frozen=True)
class FitResult:
    """The last state of a fit, and why it ended."""

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
    attributes: SideAttributes | None = None,
) -> FitResult:
    """
    Sweep until the relative decrease of Q falls below config.tol, config.max_iter is reached, or Ctrl-C.

    `start` makes the first state; it is not called where a checkpoint holds a later one. `attributes` are those that
    the backend fits, if any: a checkpoint belongs to them.
    """
    saver = None if checkpoint is None else Saver(checkpoint, data, config, attributes)
    saved = None if saver is None else saver.load()
    if saved is not None and checkpoint is not None:
        _log.info("resuming from %s after sweep %d", checkpoint.path, len(saved.objectives))
    elif saver is not None:
        saver.save_notes()
    with _interrupt_between_sweeps() as interrupt:
        state = start() if saved is None else saved
        objectives = state.objectives
        backend.start(state)
        converged = _has_converged(objectives, config.tol)
        interrupted = False
        while not converged and not interrupted and len(objectives) < config.max_iter:
            objective = backend.sweep()
            if not math.isfinite(objective):
                raise FitError(
                    f"expected a finite objective, got {objective} in sweep {len(objectives) + 1}; lower regularization"
                )
            objectives.append(objective)
            if callback is not None:
                callback(len(objectives), objective)
            converged = _has_converged(objectives, config.tol)
            interrupted = interrupt.is_set()
            if saver is not None and saver.due(len(objectives)):
                saver.save(_with_objectives(backend.state(), objectives))
    state = _with_objectives(backend.state(), objectives)
    if saver is not None:
        saver.save(state)
    return FitResult(state, converged, interrupted)


def _has_converged(objectives: list[float], tol: float) -> bool:
    if len(objectives) < 2:
        return False
    before, after = objectives[-2:]
    # not falling at all means float32 cannot resolve a further decrease
    return after >= before or (before - after) < tol * before


def _with_objectives(state: State, objectives: list[float]) -> State:
    state.objectives = objectives
    return state


@contextmanager
def _interrupt_between_sweeps() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets, so that no sweep is torn apart; a second Ctrl-C interrupts at once."""
    interrupt = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt  # signals reach the main thread only
        return

    def remember(_signal: int, _frame: FrameType | None) -> None:
        if interrupt.is_set():
            raise KeyboardInterrupt
        interrupt.set()

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
