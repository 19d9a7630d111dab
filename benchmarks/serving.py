"""The application as benchmarks run it: a process of its own with people who are signed in already."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.orm import Session as Transaction

from ocular.web.credentials import digest, hash_password, new_secret
from ocular.web.tables import Role, Session, User


class Browser(NamedTuple):
    """What a signed-in browser sends along."""

    cookie: str
    csrf: str


def add_people(transaction: Transaction, roles: dict[str, tuple[Role, str]]) -> dict[str, tuple[User, Browser]]:
    """Add people by name, each with a role and a team; all have one password, whose hash takes its time."""
    hashed = hash_password("correct horse battery staple")
    people = {
        name: (
            User(name=name, full_name=name.title(), role=role, team=team, password=hashed),
            Browser(new_secret(), new_secret()),
        )
        for name, (role, team) in roles.items()
    }
    transaction.add_all(user for user, _ in people.values())
    transaction.flush()
    transaction.add_all(
        Session(digest=digest(browser.cookie), user_id=user.id, csrf=browser.csrf, address="127.0.0.1")
        for user, browser in people.values()
    )
    return people


def start(models: Path, database: str, log: Path, profile: Path | None) -> tuple[subprocess.Popen[bytes], str, float]:
    """The process, its address, and the seconds until it was ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = "from ocular.cli import main; main()"
    if profile is not None:
        run = PROFILED.format(profile=str(profile))
    begun, url = time.perf_counter(), f"http://127.0.0.1:{port}"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", run, "serve", str(models), "--db", database, "--port", str(port), "--insecure"],
            stdout=file, stderr=file,
        )  # fmt: skip
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return process, url, time.perf_counter() - begun
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    raise SystemExit(f"the server ended: {log.read_text()[-2000:]}")


# routes run in threads of a pool, each of which needs a profile of its own
PROFILED = """
import cProfile, functools, pstats, threading
import starlette.concurrency, anyio.to_thread
local, all_profiles = threading.local(), []
real = anyio.to_thread.run_sync
def in_thread(function, *arguments):
    if not hasattr(local, "profile"):
        local.profile = cProfile.Profile()
        all_profiles.append(local.profile)
    return local.profile.runcall(function, *arguments)
anyio.to_thread.run_sync = lambda function, *arguments, **options: real(
    functools.partial(in_thread, function), *arguments, **options)
from ocular.cli import main
try:
    main()
finally:
    found = [p for p in all_profiles if p.getstats()]
    total = pstats.Stats(found[0])
    for one in found[1:]:
        total.add(one)
    total.dump_stats({profile!r})
"""


def memory(pid: int) -> float:
    """The most that the process ever had, in GiB; nan where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return float("nan")
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 2**20


def processor_seconds(pid: int) -> float:
    status = Path(f"/proc/{pid}/stat")
    if not status.exists():
        return float("nan")
    fields = status.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
