"""ocular refresh killed, out of disk, and twice at once: what is served is always whole, calibrated and promoted."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from refresh_support import buy_more, hidden_files, refresh, served, summary_of

import ocular
from ocular.errors import ArtifactError
from ocular.refresh import pipeline
from ocular.refresh.promotion import PROMOTIONS_FILE

STEPS = ("save", "begin promotions", "promote")


@pytest.mark.parametrize("step", STEPS)
def test_a_full_disk_leaves_what_was_served(place: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = served(place)
    buy_more(place)

    def full(*_: Any, **__: Any) -> None:
        raise ArtifactError("could not write: No space left on device")

    with monkeypatch.context() as patch:
        if step == "save":
            patch.setattr(pipeline.OCuLaR, "save", full)
        elif step == "promote":
            patch.setattr(pipeline, "write_promotions", full)
        else:
            (place / "models" / PROMOTIONS_FILE).unlink()
            patch.setattr(pipeline, "write_promotions", full)
        done = refresh(place)
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert served(place) == before
    assert summary_of(refresh(place))["status"] == "promoted"


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(ocular.__file__).parents[1])}
COMMAND = (sys.executable, "-c", "from ocular.cli import main; main()", "refresh")


def test_files_that_may_not_grow_leave_what_was_served(place: Path) -> None:
    """A real failing write, whichever comes first: no file may be larger than 2 kB."""
    before = served(place)
    buy_more(place)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = subprocess.run(
        [*COMMAND, place / "refresh.toml"],
        env=ENVIRONMENT,
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "could not write" in done.stderr
    assert served(place) == before
    assert summary_of(refresh(place))["status"] == "promoted"


def check_after_kill(place: Path, before: str) -> None:
    """What is served is whole and calibrated, and the next run puts everything right."""
    finished = served(place) != before
    done = refresh(place)
    assert done.returncode == 0, done.stderr
    assert summary_of(done)["status"] == ("unchanged" if finished else "promoted")
    assert hidden_files(place) == []
    assert served(place) != before


@pytest.mark.parametrize("seed", range(int(os.environ.get("OCULAR_KILLS", "3"))))
def test_a_kill_at_a_random_moment_leaves_a_whole_promoted_model(place: Path, seed: int) -> None:
    before = served(place)
    buy_more(place, seed=seed)
    process = subprocess.Popen(
        [*COMMAND, place / "refresh.toml"], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    process.stderr.readline()  # the purchases are read: what comes now is what a kill may interrupt
    time.sleep(random.Random(seed).random() * 2)
    process.kill()
    process.communicate()
    check_after_kill(place, before)


KILL_AT_WRITE = """
import os, signal, sys
from ocular.cli import main
left, fsync = int(sys.argv.pop(1)), os.fsync
def count(handle):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(handle)
os.fsync = count
main()
"""


@pytest.mark.parametrize("n", [1, 3, 5, 7, 9, 10])
def test_a_kill_at_the_nth_write_leaves_a_whole_promoted_model(place: Path, n: int) -> None:
    """Every file is flushed before it gets its name: the writes of checkpoint, model and promotion in turn."""
    before = served(place)
    buy_more(place, seed=n)
    command = [sys.executable, "-c", KILL_AT_WRITE, str(n), "refresh", place / "refresh.toml"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    check_after_kill(place, before)
