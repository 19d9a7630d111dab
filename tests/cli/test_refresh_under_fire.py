"""ocular refresh killed, out of disk, and twice at once: what is served is always whole, calibrated and promoted."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command import run
from refresh_support import buy_more, hidden_files, refresh, served, summary_of

import ocular
from ocular.errors import ArtifactError
from ocular.refresh import pipeline
from ocular.refresh.promotion import PROMOTIONS_FILE
from ocular.refresh.serving import serving_order

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


def full_at(n: int, folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """Let everything that needs space below the folder fail from the nth on; return what was tried."""
    done: list[str] = []

    def counted(name: str, function: Any, is_ours: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if is_ours(*arguments):
                done.append(name)
                if len(done) >= n:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*arguments, **options)

        return call

    def below(path: Any, *_: Any) -> bool:
        return str(path).startswith(str(folder))

    def creates(path: Any, flags: int, *_: Any) -> bool:
        return is_new(path) and bool(flags & os.O_CREAT)

    def is_new(path: Any, *_: Any) -> bool:
        return below(path) and not Path(path).exists()

    def flushes(handle: int) -> bool:
        return below(Path(f"/proc/self/fd/{handle}").readlink())

    def writes(path: Any, mode: str = "r", *_: Any) -> bool:
        return is_new(path) and mode[0] in "wax"

    for name, function, is_ours in (
        ("open", os.open, creates), ("fsync", os.fsync, flushes), ("mkdir", os.mkdir, is_new),
        ("rename", os.rename, below), ("replace", os.replace, below),
    ):  # fmt: skip
        patch.setattr(os, name, counted(name, function, is_ours))
    patch.setattr(io, "open", counted("write", io.open, writes))  # Path.open, Path.write_bytes, Path.write_text
    return done


@pytest.mark.parametrize("promoted", [True, False])
def test_a_disk_that_is_full_at_any_step_leaves_what_was_served(
    place: Path, promoted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write fails in turn, until a run meets none that fails; without promotions the newest is served."""
    before = served(place)
    buy_more(place)
    if not promoted:
        (place / "models" / PROMOTIONS_FILE).unlink()
    steps: set[str] = set()
    for n in range(1, 100):
        attempt = Path(shutil.copytree(place, tmp_path / f"attempt {n}"))
        with monkeypatch.context() as patch:
            done = full_at(n, attempt / "models", patch)
            ended = refresh(attempt)
        steps |= {*done}
        if len(done) < n:
            break
        summary = summary_of(ended)
        assert ended.returncode == (0 if summary["status"] == "promoted" else 2), (n, done, ended)
        assert "No space left" in ended.stderr, (n, done)
        assert (served(attempt) == before) == (summary["status"] != "promoted"), (n, done)
        again = refresh(attempt)
        assert summary_of(again)["status"] in ("promoted", "unchanged"), (n, done, again)
        assert served(attempt) != before
        assert hidden_files(attempt) == []
        shutil.rmtree(attempt)
    assert summary_of(ended)["status"] == "promoted"
    assert n > 15
    assert steps == {"open", "fsync", "mkdir", "rename", "replace", "write"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A function that mounts a disk of so many kilobytes; needs root."""
    mounted: list[Path] = []

    def mount(kilobytes: int) -> Path:
        disk = tmp_path / f"disk {len(mounted)}"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", disk]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("needs the right to mount a small disk")
        mounted.append(disk)
        return disk

    yield mount
    for disk in mounted:
        subprocess.run(["umount", disk], check=True)


def test_a_small_disk_leaves_what_was_served(place: Path, small_disk: Callable[[int], Path]) -> None:
    """A real disk, with more room each time until a model fits: the write that fails wanders through the run."""
    before = served(place)
    buy_more(place)
    used = sum(-(-file.stat().st_size // 4096) * 4 for file in (place / "models").rglob("*") if file.is_file())
    outcomes = []
    for room in range(0, 4 * used, 8):
        disk = small_disk(used + room)
        try:
            shutil.copytree(place / "models", disk, dirs_exist_ok=True)
        except (OSError, shutil.Error):
            continue  # not even what is served
        (place / "small.toml").write_text(
            (place / "refresh.toml").read_text().replace('folder = "models"', f'folder = "{disk}"')
        )
        ended = run("refresh", place / "small.toml")
        name = serving_order(disk)[0][0]
        assert ocular.load(name).calibration_ is not None
        status = summary_of(ended)["status"]
        assert (name.name == before) == (status == "failed"), ended
        assert status == "promoted" or "No space left" in ended.stderr, ended
        outcomes.append(status)
        if status == "promoted" and "No space left" not in ended.stderr:
            break
    assert outcomes[-1] == "promoted"
    assert outcomes.count("failed") >= 3


def test_of_two_processes_at_once_one_makes_the_model(place: Path) -> None:
    before = served(place)
    buy_more(place)
    processes = [
        subprocess.Popen(
            [*COMMAND, place / "refresh.toml"],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ended = [(*process.communicate(), process.returncode) for process in processes]
    statuses = sorted(json.loads(out)["status"] for out, _, _ in ended)
    assert statuses in (["failed", "promoted"], ["promoted", "unchanged"]), ended
    assert served(place) != before
    assert len(serving_order(place / "models")) == 2
    assert hidden_files(place) == []
