"""`ocular users` and the start of `ocular serve`: what they leave behind, and one line where something is wrong."""

from __future__ import annotations

import getpass
import os
import pwd
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from browser_support import COMMAND
from command import run
from sites import sqlite
from sqlalchemy import select

from ocular.web.database import Database
from ocular.web.tables import AuditEntry

SECRET = "a password of twelve"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.db"


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\n")
    return path


def add(file: Path, password: Path, name: str = "maria", **options: str) -> None:
    given = [part for key, value in options.items() for part in (f"--{key}", value)]
    done = run("users", "add", name, "--role", "admin", "--password-file", password, *given, "--db", sqlite(file))
    assert done.returncode == 0, done.stderr


def entries(file: Path) -> list[tuple[str, str, str]]:
    database = Database(sqlite(file))
    with database.reading() as transaction:
        found = transaction.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
    database.close()
    return [(entry.name, entry.action, entry.subject) for entry in found]


def test_what_the_command_does_is_written_down(file: Path, password: Path) -> None:
    add(file, password)
    run("users", "password", "Maria", "--password-file", password, "--db", sqlite(file))
    run("users", "lock", "maria", "--db", sqlite(file))
    run("users", "unlock", "maria", "--db", sqlite(file))
    run("users", "list", "--db", sqlite(file))
    who = f"cli:{getpass.getuser()}"
    assert entries(file) == [
        (who, "user added", "maria (admin)"),
        (who, "password set", "maria"),
        (who, "user locked", "maria"),
        (who, "user activated", "maria"),
    ]


def test_the_actor_is_who_the_system_says_not_the_environment(
    file: Path, password: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    add(file, password)
    assert entries(file)[0][0] == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"


def test_a_list_is_read_while_somebody_writes(file: Path, password: Path) -> None:
    add(file, password)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("begin immediate")
    done = run("users", "list", "--format", "csv", "--db", sqlite(file))
    other.execute("rollback")
    other.close()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith("maria,")


@pytest.mark.parametrize(
    "arguments", [["add", "ben", "--role", "seller"], ["password", "maria"]], ids=["add", "password"]
)
def test_others_write_while_somebody_types_a_password(
    file: Path, password: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    add(file, password)

    def typed(_file: object) -> str:
        other = sqlite3.connect(file, timeout=0.1)
        other.execute("update users set full_name = 'M'")
        other.commit()
        other.close()
        return SECRET

    monkeypatch.setattr(sys.modules["ocular.cli.users"], "_password", typed)
    done = run("users", *arguments, "--db", sqlite(file))
    assert done.returncode == 0, done.stderr


def test_nobody_types_a_password_in_vain(file: Path, password: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(file, password)
    monkeypatch.setattr(sys.modules["ocular.cli.users"], "_password", lambda _file: pytest.fail("asked"))
    done = run("users", "password", "nobody", "--db", sqlite(file))
    assert (done.returncode, done.stderr) == (
        2, "Error: User not found: 'nobody'\n",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ serving


def newer(file: Path, password: Path) -> None:
    """As a later version would leave it."""
    add(file, password)
    connection = sqlite3.connect(file)
    connection.execute("update alembic_version set version_num = '9999'")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("what", ["no-model", "no-database", "no-server", "newer"])
def test_what_keeps_it_from_serving_is_one_line(
    first_model: Path, tmp_path: Path, file: Path, password: Path, what: str
) -> None:
    models, database = first_model, sqlite(file)
    if what == "no-model":
        models = tmp_path
        told = f"expected a model in {tmp_path}, got none that can be read; "
    elif what == "no-database":
        database = "sqlite:////nowhere/at/all/ocular.db"
        told = "the database does not answer; check --db, and that the server runs"
    elif what == "no-server":
        database = "postgresql://ana@127.0.0.1:9/ocular"
        told = "the database does not answer; check --db, and that the server runs"
    else:
        newer(file, password)
        told = "expected a database of this version of ocular or an older one, got revision '9999'; "
    done = subprocess.run(
        [*COMMAND, "serve", str(models), "--db", database, "--port", "0"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Serving" not in done.stdout
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # besides the log
    assert len(lines) == 1
    assert lines[0].startswith(f"Error: {told}")
    assert "Traceback" not in done.stderr
