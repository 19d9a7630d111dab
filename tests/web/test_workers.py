"""Several processes serve one site: what one takes another goes on with, and none of them is missed for long."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest
from browser_support import PASSWORD, Server, add_user, serving, small_model

from ocular.web.shared_arrays import SharedArrays
from ocular.web.workers import PREFIX

TRIES = 200


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    small_model(folder / "first")
    return folder


@pytest.fixture
def server(models: Path, tmp_path: Path) -> Iterator[Server]:
    database, own = f"sqlite:///{tmp_path / 'web.db'}", tmp_path / "models"
    shutil.copytree(models, own)
    add_user(database, "root", "admin")
    add_user(database, "sara", "seller")
    with serving(own, database, tmp_path / "log", "--workers", "2") as server:
        yield server


def wait(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def process_of(server: Server, answer: httpx2.Response) -> int:
    """The process that gave an answer, as the log has it."""
    line, wanted = "", f'"request": "{answer.headers["x-request-id"]}"'

    def is_logged() -> bool:  # the line is written after the answer
        nonlocal line
        line = next((found for found in server.log.read_text().splitlines(keepends=True) if wanted in found), "")
        return line.endswith("\n")

    wait(is_logged)
    return int(json.loads(line)["process"])


def ask(server: Server, worker: int, cookies: httpx2.Cookies, address: str) -> httpx2.Response:
    """Get a page from one of the workers: on new connections, until it is the one that answers."""
    for _ in range(TRIES):
        with httpx2.Client(base_url=server.url, cookies=cookies, timeout=30) as browser:
            answer = browser.get(address)
        if process_of(server, answer) == worker:
            return answer
    raise AssertionError(f"worker {worker} did not answer once in {TRIES} requests")


def workers_of(server: Server) -> set[int]:
    """The processes that answer."""
    found = set[int]()
    for _ in range(TRIES):
        with httpx2.Client(base_url=server.url, timeout=30) as browser:
            found.add(process_of(server, browser.get("/healthz")))
        if len(found) == 2:
            return found
    return found


def test_another_worker_goes_on_with_an_upload(server: Server, models: Path) -> None:
    workers = workers_of(server)
    assert len(workers) == 2
    client = str(small_model(models / "first").interactions_.user_labels[0])
    with httpx2.Client(base_url=server.url, timeout=30) as browser:
        assert browser.post("/sign-in", data={"name": "root", "password": PASSWORD}).status_code == 303
        csrf = re.search(r'name="csrf" value="([^"]+)"', browser.get("/model").text)
        assert csrf is not None
        file = {"file": ("clients.csv", f'client,seller\n"{client}",sara\n'.encode(), "text/csv")}
        uploaded = browser.post("/team/assignments/preview", data={"csrf": csrf[1]}, files=file)
        assert uploaded.status_code == 303
        (other,) = workers - {process_of(server, uploaded)}
        page = ask(server, other, browser.cookies, "/team/assignments")
        assert page.status_code == 200
        key = re.search(r'name="key" value="([^"]+)"', page.text)
        assert key is not None
        assert browser.post("/team/assignments", data={"csrf": csrf[1], "key": key[1]}).status_code == 303
        for worker in workers:  # both know of it at once
            lines = ask(server, worker, browser.cookies, "/team").text
            assert re.search(r"79\b", lines), lines  # of 80 clients are unassigned


def test_metrics_are_those_of_all_workers(server: Server) -> None:
    workers = workers_of(server)
    counts = []
    for worker in workers:
        text = ask(server, worker, httpx2.Cookies(), "/metrics").text
        counted = re.search(r'ocular_requests_total\{.*route="/healthz".*\} ([\d.]+)', text)
        assert counted is not None
        counts.append(float(counted[1]))
    assert counts[0] == counts[1] >= 2


def test_all_workers_change_over_to_a_new_model(server: Server, models: Path) -> None:
    workers, own = workers_of(server), server.log.parent / "models"
    small_model(own / "second", random_state=1)

    def versions() -> set[str]:
        answers = (ask(server, worker, httpx2.Cookies(), "/readyz") for worker in workers)
        return {answer.json()["model"].partition("-")[0] for answer in answers}

    wait(lambda: versions() == {"second"})


def test_a_worker_that_dies_is_replaced_with_one_line_in_the_log(server: Server) -> None:
    victim = min(workers_of(server))
    os.kill(victim, signal.SIGKILL)
    assert server.status("/readyz") == 200  # the other one answers
    wait(lambda: len(workers_of(server) - {victim}) == 2)
    said = [line for line in server.log.read_text().splitlines() if "a worker ended with -9" in line]
    assert len(said) == 1


def array_folders(server: Server) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{server.process.pid}-*"))


def test_workers_end_with_their_parent(server: Server) -> None:
    workers = workers_of(server)
    (folder,) = array_folders(server)
    assert folder.stat().st_mode & 0o777 == 0o700
    server.kill()
    wait(lambda: server.status("/healthz") is None)
    wait(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    shutil.rmtree(folder)


def test_told_to_stop_all_of_them_end_and_the_arrays_go(server: Server) -> None:
    assert array_folders(server)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert server.status("/healthz") is None
    assert not array_folders(server)


def test_an_error_at_the_start_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    server = Server(tmp_path / "models", f"sqlite:///{tmp_path / 'web.db'}", tmp_path / "log", "--workers", "2")
    assert server.process.wait(60) != 0
    said = server.log.read_text().splitlines()
    assert [line for line in said if "expected a model in" in line]
    assert not [line for line in said if "Traceback" in line]


def test_arrays_are_mapped_and_those_of_other_models_removed(tmp_path: Path) -> None:
    given = {"a": np.arange(5.0), "nothing": np.empty(0, dtype=np.int32)}
    shared = SharedArrays(tmp_path)
    first = shared.share(given, "one")
    again = SharedArrays(tmp_path).share({name: np.zeros_like(values) for name, values in given.items()}, "one")
    assert all(np.array_equal(first[name], again[name]) for name in given)  # from the same files
    shared.share(given, "two")
    shared.keep_only("two")
    assert [file.name for file in tmp_path.iterdir()] == ["two"]
    assert first["a"].sum() == 10.0  # what is mapped stays


def test_arrays_that_cannot_be_written_are_kept_in_memory(tmp_path: Path) -> None:
    given = {"a": np.arange(5.0)}
    assert SharedArrays(tmp_path / "gone").share(given, "one") is given
