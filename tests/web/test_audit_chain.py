"""The chain of the audit log: whatever is changed, moved or deleted is found, and pruning leaves a mark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from importlib.resources import files

import pytest
from alembic import command
from alembic.config import Config
from command import run
from sites import both_databases, drop_audit_guards
from sqlalchemy import delete, select, text, update
from sqlalchemy.exc import DBAPIError

from ocular.errors import ConfigError
from ocular.web.audit import audit, entry, prune
from ocular.web.audit_chain import append, verify
from ocular.web.database import Database
from ocular.web.tables import AuditEntry, AuditHead, Failure, now

both_empty = pytest.mark.parametrize("empty_database_url", ["sqlite", "postgresql"], indirect=True)
N_WRITERS, N_EACH = 8, 25
DAY = timedelta(days=1)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """With ten entries, one of each of the last 200 days' twentieths."""
    database = Database(database_url)
    start = now() - 200 * DAY
    with database.writing() as transaction:
        append(transaction, [entry("ana", "did", f"thing {n}") | {"at": start + 20 * n * DAY} for n in range(10)])
    yield database
    database.close()


def ids(database: Database) -> list[int]:
    with database.reading() as transaction:
        return list(transaction.scalars(select(AuditEntry.id).order_by(AuditEntry.id)))


def tamper(database: Database, *statements: object) -> None:
    drop_audit_guards(database)
    with database.writing() as transaction:
        for statement in statements:
            transaction.execute(statement)


@both_databases
@pytest.mark.parametrize(
    "change",
    [
        {"name": "ben"}, {"action": "did not"}, {"subject": ""}, {"address": "192.0.2.1"}, {"token": "7: other"},
        {"at": now()}, {"digest": "0" * 64},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_changed_field_is_found(database: Database, change: dict[str, object]) -> None:
    assert verify(database).fault == ""
    place = ids(database)[4]
    tamper(database, update(AuditEntry).where(AuditEntry.id == place).values(**change))
    assert verify(database).fault.startswith(f"entry {place} of ")


@both_databases
@pytest.mark.parametrize("place", [0, 5])
def test_a_deleted_entry_is_found_at_the_next(database: Database, place: int) -> None:
    before = ids(database)
    tamper(database, delete(AuditEntry).where(AuditEntry.id == before[place]))
    assert verify(database).fault.startswith(f"entry {before[place + 1]} of ")


@both_databases
def test_entries_deleted_at_the_end_are_found_by_the_head(database: Database) -> None:
    before = ids(database)
    tamper(database, delete(AuditEntry).where(AuditEntry.id > before[7]))
    assert verify(database).fault == f"after entry {before[7]}: 2 entries are missing at the end"
    with database.reading() as transaction:
        digest = transaction.scalars(select(AuditEntry.digest).where(AuditEntry.id == before[7])).one()
    tamper(database, update(AuditHead).values(count=8, digest=digest))
    assert verify(database).fault == "the head of the chain was changed by hand"


@both_databases
def test_swapped_entries_are_found(database: Database) -> None:
    one, other = ids(database)[3:5]
    moves = [(one, 9999), (other, one), (9999, other)]
    tamper(database, *(update(AuditEntry).where(AuditEntry.id == old).values(id=new) for old, new in moves))
    assert verify(database).fault.startswith(f"entry {one} of ")


@both_databases
def test_a_log_set_back_as_a_whole_is_found_by_a_digest_noted_elsewhere(database: Database) -> None:
    noted = verify(database).digest
    assert verify(database, noted).fault == ""
    assert "older or another one" in verify(database, "f" * 64).fault


@both_databases
@pytest.mark.parametrize(
    "statement", [update(AuditEntry).values(name="x"), delete(AuditEntry)], ids=["update", "delete"]
)
def test_the_database_refuses_changes(database: Database, statement: object) -> None:
    with pytest.raises(DBAPIError, match="entries of the audit log cannot be"), database.writing() as transaction:
        transaction.execute(statement)
    assert verify(database).fault == ""


@both_databases
def test_pruning_leaves_a_mark_and_a_whole_chain(database: Database) -> None:
    first = ids(database)
    with database.writing() as transaction:
        transaction.add_all([Failure(name="ana", address="", at=now() - 150 * DAY), Failure(name="ana", address="")])
        assert prune(transaction, (now() - 145 * DAY).date(), "root") == 3
    assert ids(database)[:-1] == first[3:]
    assert verify(database).fault == ""
    with database.writing() as transaction:
        assert prune(transaction, (now() - 100 * DAY).date(), "root") == 2
    assert verify(database).fault == ""
    with database.reading() as transaction:
        marks = transaction.scalars(select(AuditEntry.subject).where(AuditEntry.action == "audit pruned")).all()
        assert len(transaction.scalars(select(Failure)).all()) == 1
    assert re.fullmatch(r"2 entries before [\d-]+; 5 removed in all, the last with the digest \w{64}", marks[1])
    tamper(database, delete(AuditEntry).where(AuditEntry.id == first[5]))
    assert verify(database).fault.startswith(f"entry {first[6]} of ")


@both_databases
def test_young_entries_are_not_pruned(database: Database) -> None:
    latest = (now() - 90 * DAY).date()
    with pytest.raises(ConfigError, match=f"expected a day up to {latest}, got"), database.writing() as transaction:
        prune(transaction, latest + DAY, "root")
    assert len(ids(database)) == 10


WRITER = """
import sys
from ocular.web.audit import audit
from ocular.web.database import Database
database = Database(sys.argv[1])
for n in range(int(sys.argv[3])):
    with database.writing(60) as transaction:
        audit(transaction, sys.argv[2], "wrote", str(n))
"""


@both_databases
def test_processes_that_write_at_once_keep_the_chain_whole(database: Database, database_url: str) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, database_url, f"writer {n}", str(N_EACH)])
        for n in range(N_WRITERS)
    ]
    assert [writer.wait() for writer in writers] == [0] * N_WRITERS
    found = verify(database)
    assert (found.fault, found.n_entries) == ("", 10 + N_WRITERS * N_EACH)


@both_empty
def test_entries_of_an_older_version_are_brought_into_the_chain(empty_database_url: str) -> None:
    database, config = Database(empty_database_url), Config()
    config.set_main_option("script_location", str(files("ocular.web") / "migrations"))
    with database._engine.execution_options(writes=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        old = "insert into audit (at, name, action, subject, address) values (:at, 'ana', 'did', :subject, '')"
        rows = [{"at": f"2024-01-31 12:00:00.{n:06}+00:00", "subject": f"thing {n}"} for n in range(1200)]
        connection.execute(text(old), rows)
    database.upgrade()
    with database.writing() as transaction:
        audit(transaction, "ana", "did", "something new")
    found = verify(database)
    assert (found.fault, found.n_entries) == ("", 1201)
    tamper(database, update(AuditEntry).where(AuditEntry.subject == "thing 7").values(subject="nothing"))
    assert verify(database).fault.startswith("entry 8 of 2024-01-31")
    database.close()


# ------------------------------------------------------------------------------------------------ the commands


@both_databases
def test_verify_says_yes_or_the_first_broken_entry(database: Database, database_url: str) -> None:
    done = run("audit", "verify", "--db", database_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"10 entries, none changed or missing; head \w{64}\n", done.stdout)
    place = ids(database)[2]
    tamper(database, update(AuditEntry).where(AuditEntry.id == place).values(name="ben"))
    done = run("audit", "verify", "--db", database_url)
    assert done.returncode == 1
    assert f"the audit log is broken: entry {place} of " in done.stderr


def export(url: str, form: str, *more: object) -> list[str]:
    done = run("audit", "export", "--format", form, *more, "--db", url)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_export_is_written_down_and_chosen_by_day(database: Database, database_url: str) -> None:
    rows = [json.loads(line) for line in export(database_url, "jsonl", "--since", (now() - 50 * DAY).date())]
    assert [row["subject"] for row in rows] == ["thing 8", "thing 9", "jsonl"]
    assert {*rows[0]} == {"id", "at", "name", "action", "subject", "address", "token", "digest"}
    assert rows[2]["action"] == "audit exported"
    assert verify(database).fault == ""


def test_syslog_lines_follow_the_standard_whatever_the_names_hold(database: Database, database_url: str) -> None:
    with database.writing() as transaction:
        audit(transaction, "ana", "did", 'a "quoted]\\ name\n<13>1 forged', "192.0.2.1", "7: our CRM")
    line = export(database_url, "syslog")[10]
    assert re.match(r"<109>1 \d{4}-\d\d-\d\dT[\d:]+(\.\d{1,6})?\+00:00 \S+ ocular - audit \[ocular@32473 id=", line)
    assert r'subject="a \"quoted\]\\ name <13>1 forged" address="192.0.2.1" token="7: our CRM"' in line
    assert line.endswith('] \ufeffana did a "quoted]\\ name <13>1 forged')


def test_prune_by_command(database: Database, database_url: str) -> None:
    day = (now() - 145 * DAY).date()
    assert run("audit", "prune", "--before", day, "--db", database_url).stdout == f"3 entries before {day} deleted\n"
    done = run("audit", "prune", "--before", now().date(), "--db", database_url)
    assert done.returncode != 0
    assert "entries of the last 90 days stay" in done.stderr
