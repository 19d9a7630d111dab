"""What tests in a browser, crash tests and screenshots share: a small model, a real server, people and Chromium."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ocular import OCuLaR
from ocular.synthetic.market import b2b

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserType

COMMAND = (sys.executable, "-c", "from ocular.cli import main; main()")
PASSWORD = "correct horse battery staple"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]


def chromium_path() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


needs_chromium = pytest.mark.skipif(
    chromium_path() is None and os.environ.get("CI") != "true",
    reason="needs Chromium; as root on Debian: apt-get install chromium",
)


def start_chromium(kind: BrowserType) -> Browser:
    return kind.launch(executable_path=chromium_path(), args=FLAGS)


def small_model(folder: Path, random_state: int = 0) -> OCuLaR:
    """80 made-up companies × 40 products, saved in the folder."""
    model = OCuLaR(6, 20.0, random_state=random_state).fit(b2b(80, 40).interactions)
    model.save(folder)
    return model


def add_user(database: str, name: str, role: str, team: str = "", full_name: str = "") -> None:
    subprocess.run(
        [*COMMAND, "users", "add", name, "--role", role, "--team", team, "--full-name", full_name,
         "--password-file", "-", "--db", database],
        input=PASSWORD, text=True, check=True, capture_output=True,
    )  # fmt: skip


class Server:
    """`ocular serve` as a process of its own on a free port of this machine."""

    def __init__(self, models: Path, database: str, log: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{port}", log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*COMMAND, "serve", str(models), "--db", database, "--port", str(port), "--insecure", *options],
                stdout=file, stderr=file, env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def wait(self, seconds: float = 120.0) -> None:
        """Until it answers."""
        end = time.monotonic() + seconds
        while self.status("/readyz") != 200:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, f"no answer after {seconds} s: {self.log.read_text()}"
            time.sleep(0.05)

    def status(self, address: str, **headers: str) -> int | None:
        """What a GET is answered with; None if nobody listens."""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + address, headers=headers), timeout=30) as got:
                return int(got.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return None

    def kill(self) -> None:
        """As a power cut would: nothing is finished, nothing is said."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


@contextlib.contextmanager
def serving(models: Path, database: str, log: Path, *options: str) -> Iterator[Server]:
    server = Server(models, database, log, *options)
    try:
        server.wait()
        yield server
    finally:
        server.stop()
