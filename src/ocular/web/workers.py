"""
Several processes for one site: a parent that listens and workers that accept on its socket.

Workers are started anew, not forked: threads and locks of the parent would be in an unknown state in a fork. Each holds
one end of a pipe to the parent; when the parent is gone, however it ended, the pipe ends and so does the worker.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ocular.errors import ConfigError, OcularError
from ocular.web.logs import configure_logs
from ocular.web.settings import Settings

STOP_SECONDS = 30.0  # for requests that are under way
MIN_PAUSE, MAX_PAUSE = 0.5, 30.0  # seconds before a worker that died is started again; doubled each time
STEADY = 60.0  # seconds after which a worker counts as well
PREFIX = "ocular-arrays-"

_log = logging.getLogger("ocular.web")
_spawn = multiprocessing.get_context("spawn")
Serve = Callable[[Settings, socket.socket, Callable[[], object]], None]  # settings, socket, what to call when ready


@dataclass
class Worker:
    """One process, and when to start it again once it has ended."""

    process: BaseProcess
    pipe: Connection  # from it comes "" when it serves, or an error of one line
    started: float
    pause: float = MIN_PAUSE
    due: float | None = None


def run_workers(
    settings: Settings, listening: socket.socket, n: int, serve: Serve, ready: Callable[[], object]
) -> None:
    """Serve with n workers until SIGTERM or SIGINT; `ready` is called once all of them serve."""
    configure_logs()
    with _array_folder() as folder, _stop_signals() as stop:
        settings = replace(settings, arrays=folder)
        metrics = folder / ".metrics"  # whichever worker is asked counts for all
        metrics.mkdir(mode=0o700)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)
        workers = [_start(settings, listening, serve) for _ in range(n)]
        try:
            if all(_is_ready(worker, stop) for worker in workers):
                ready()
                _watch(workers, stop, lambda: _start(settings, listening, serve))
        finally:
            _stop(workers)


def _start(settings: Settings, listening: socket.socket, serve: Serve) -> Worker:
    ours, theirs = _spawn.Pipe()
    process = _spawn.Process(target=_work, args=(settings, listening, theirs, serve), name="worker")
    process.start()
    theirs.close()  # or the pipe would not end with the worker
    return Worker(process, ours, time.monotonic())


def _is_ready(worker: Worker, stop: socket.socket) -> bool:
    """Wait until a worker serves; False if we are to stop. Its error becomes ours."""
    if stop in wait([worker.pipe, worker.process.sentinel, stop]):
        return False
    try:
        error = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        error = f"expected a worker that serves, got one that ended with {worker.process.exitcode}; see the log"
    if error:
        raise ConfigError(error)
    return True


def _watch(workers: list[Worker], stop: socket.socket, start: Callable[[], Worker]) -> None:
    """Start workers that died again, after a pause that grows with each time, until we are to stop."""
    while True:
        for place, worker in enumerate(workers):
            if worker.due is None and not worker.process.is_alive():
                lived = time.monotonic() - worker.started
                worker.pause = MIN_PAUSE if lived > STEADY else min(2 * worker.pause, MAX_PAUSE)
                worker.due = time.monotonic() + worker.pause
                _log.error(
                    "a worker ended with %s; another is started in %g s",
                    worker.process.exitcode, worker.pause, extra={"worker": worker.process.pid},
                )  # fmt: skip
            elif worker.due is not None and worker.due <= time.monotonic():
                worker.pipe.close()
                workers[place] = replace(start(), pause=worker.pause)
        alive = [worker.process.sentinel for worker in workers if worker.due is None]
        next_start = min((worker.due for worker in workers if worker.due is not None), default=None)
        timeout = None if next_start is None else max(0.0, next_start - time.monotonic())
        if stop in wait([*alive, stop], timeout):
            return


def _stop(workers: list[Worker]) -> None:
    """Ask all workers to finish what they do, and end those that take too long."""
    until = time.monotonic() + STOP_SECONDS
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(max(0.0, until - time.monotonic()))
        if worker.process.is_alive():
            _log.error("a worker did not stop within %g s", STOP_SECONDS, extra={"worker": worker.process.pid})
            worker.process.kill()
            worker.process.join()
        worker.pipe.close()


@contextmanager
def _stop_signals() -> Iterator[socket.socket]:
    """Yield a socket that can be read once we were told to stop."""
    told, tell = socket.socketpair()

    def remember(_number: int, _frame: Any) -> None:
        with suppress(OSError):
            tell.send(b"x", socket.MSG_DONTWAIT)

    before = {number: signal.signal(number, remember) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        told.close()
        tell.close()


@contextmanager
def _array_folder() -> Iterator[Path]:
    """Yield a folder for the arrays of models; those of servers that were killed are removed."""
    for other in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError, ValueError):
            if other.stat().st_uid == os.getuid() and not _exists(int(other.name.removeprefix(PREFIX).split("-")[0])):
                shutil.rmtree(other, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


# --------------------------------------------------------------------------------------------------------- in a worker


def _work(settings: Settings, listening: socket.socket, pipe: Connection, serve: Serve) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which tells us
    threading.Thread(target=_follow_parent, args=(pipe,), name="parent", daemon=True).start()
    try:
        serve(settings, listening, lambda: pipe.send(""))
    except OcularError as error:
        pipe.send(str(error))


def _follow_parent(pipe: Connection) -> None:
    """End this process when the parent has ended: requests under way are finished, within limits."""
    with suppress(EOFError, OSError):
        pipe.recv()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS)
    os._exit(1)
