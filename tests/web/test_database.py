"""The database: its tables, and what happens while it does not answer."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, timedelta
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sites import Site, both_databases
from sqlalchemy import event, inspect, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from ocular.errors import ConfigError
from ocular.feedback import Status
from ocular.web.audit import ViewLog
from ocular.web.database import Database, DatabaseError
from ocular.web.tables import AuditEntry, Base, Feedback, Key, Token, User, now

OpenSite = Callable[..., Site]
both_empty = pytest.mark.parametrize("empty_database_url", ["sqlite", "postgresql"], indirect=True)
only_postgres = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest.fixture
def database(empty_database_url: str) -> Iterator[Database]:
    database = Database(empty_database_url)
    yield database
    database.close()


@both_empty
def test_migrations_make_exactly_the_tables(database: Database) -> None:
    database.upgrade()
    with database._engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
        assert set(inspect(connection).get_table_names()) == {*Base.metadata.tables, "alembic_version"}


@both_empty
def test_an_upgrade_of_a_database_that_is_up_to_date_keeps_everything(database: Database) -> None:
    database.upgrade()
    with database.writing() as transaction:
        transaction.add(AuditEntry(name="ana", action="was here"))
    database.upgrade()
    with database.reading() as transaction:
        assert transaction.scalars(select(AuditEntry.action)).all() == ["was here"]


OLDER = (
    "insert into users (id, name, full_name, role, team, password, active, created) "
    "values (1, 'ana', 'Ana', 'seller', '', 'x', true, :now)",
    "insert into tokens (digest, user_id, label, created) values ('x', 1, 'our CRM', :now)",
    "insert into feedback (at, client, product, user_id, verdict, reason, note, model, confidence, pattern) "
    "values (:now, 'c', 'p', 1, 'won', '', '', 'm', 0.5, 7), (:now, 'd', 'p', 1, 'pursue', '', '', 'm', 0.5, null), "
    "(:now, 'e', 'p', 1, 'not relevant', '', '', 'm', 0.5, null), (:now, 'f', 'p', 1, 'lost', '', '', 'm', 0.5, null)",
)


def older(database: Database) -> None:
    """As the first version left it."""
    config = Config()
    config.set_main_option("script_location", str(files("ocular.web") / "migrations"))
    with database._engine.execution_options(writes=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for statement in OLDER:
            connection.execute(text(statement), {"now": "2024-01-31 12:00:00+00:00"})


@both_empty
def test_an_upgrade_keeps_what_an_older_version_wrote(database: Database) -> None:
    older(database)
    database.upgrade()
    with database.reading() as transaction:
        rows = transaction.scalars(select(Feedback).order_by(Feedback.id)).all()
        assert [(row.client, row.pattern, row.label) for row in rows[:2]] == [("c", 7, "pattern 7"), ("d", None, "")]
        assert [Status(row.status) for row in rows] == [Status.WON, Status.PURSUING, Status.NOT_A_FIT, Status.LOST]
        (token,) = transaction.scalars(select(Token))
        assert (token.label, token.user.name) == ("our CRM", "ana")
        assert token.scopes == "read feedback"
        assert token.expires > now() + timedelta(days=364)  # none ends with the upgrade
        assert [len(secret) for secret in transaction.scalars(select(Key.secret))] == [64, 64]  # of forms and audit log


@both_empty
def test_processes_that_start_at_once_upgrade_one_after_the_other(empty_database_url: str) -> None:
    databases, failed = [Database(empty_database_url) for _ in range(4)], []

    def upgrade(database: Database) -> None:
        try:
            database.upgrade()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=upgrade, args=[database]) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with databases[0].reading() as transaction:
        assert sorted(transaction.scalars(select(Key.name))) == ["audit", "forms"]
    for database in databases:
        database.close()


@both_empty
def test_an_upgrade_may_take_longer_than_a_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the limits of pages a large table would stay as it is for ever."""
    genuine, looked = command.upgrade, []

    def watched(config: Config, revision: str) -> None:
        connection = config.attributes["connection"]
        if connection.dialect.name == "postgresql":
            for name in ("statement_timeout", "lock_timeout"):
                assert connection.execute(text(f"show {name}")).scalar() == "0"
            assert connection.connection.driver_connection.limit == math.inf
        else:
            assert connection.execute(text("pragma busy_timeout")).scalar() == 3_600_000
        looked.append(revision)
        genuine(config, revision)

    monkeypatch.setattr(command, "upgrade", watched)
    database.upgrade()
    assert looked == ["head"]


@both_empty
def test_a_database_of_a_newer_version_is_refused(database: Database) -> None:
    database.upgrade()
    with database._engine.execution_options(writes=True).begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(ConfigError) as caught:
        database.upgrade()
    assert str(caught.value) == (
        "expected a database of this version of ocular or an older one, got revision '9999'; "
        "install the ocular that made it"
    )


def test_the_cause_is_logged_but_not_for_every_request(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OperationalError("select 1", {}, sqlite3.OperationalError("disk I/O error"))

    def told() -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        return [message for message in messages if message.startswith("the database")]

    monkeypatch.setattr("ocular.web.database._last_logged", -100.0)
    monkeypatch.setattr(site.database._engine, "connect", unreachable)
    for _ in range(3):
        assert site.stranger().get("/readyz").status_code == 503
    assert told() == ["the database does not answer: disk I/O error"]
    monkeypatch.setattr("ocular.web.database.LOG_EVERY", 0.0)
    site.stranger().get("/readyz")
    assert len(told()) == 2


@both_databases
def test_a_transaction_that_raises_leaves_nothing(database_url: str) -> None:
    database = Database(database_url)
    with suppress(ZeroDivisionError), database.writing() as transaction:
        transaction.add(AuditEntry(name="ana", action="half"))
        transaction.flush()
        _ = 1 / 0
    with database.reading() as transaction:
        assert transaction.scalars(select(AuditEntry)).all() == []
    database.close()


@both_databases
def test_a_broken_rule_is_not_an_unreachable_database(database_url: str) -> None:
    database = Database(database_url)
    with pytest.raises(IntegrityError), database.writing() as transaction:
        transaction.add(User(name="ana", full_name="again", role="seller", team="", password="x"))
    with pytest.raises(IntegrityError), database.writing() as transaction:
        transaction.add(Feedback(client="c", product="p", user_id=999, status="won", model="m", confidence=1.0))
    database.close()


@pytest.mark.parametrize(
    "database_url",
    ["sqlite", "postgresql"],
    indirect=True,
)
def test_times_are_in_utc_whatever_the_zone_of_the_server(database_url: str) -> None:
    if database_url.startswith("postgresql"):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("do $$ begin execute format('alter database %I set timezone to ''Asia/Tokyo''', "
                               "current_database()); end $$")  # fmt: skip
    database = Database(database_url)
    with database.writing() as transaction:
        transaction.add(AuditEntry(name="ana", action="x"))
    with database.reading() as transaction:
        at = transaction.scalars(select(AuditEntry.at)).one()
    database.close()
    assert at.tzinfo is not None
    assert abs(now() - at) < timedelta(minutes=1)
    assert at.utcoffset() == timedelta(0), "pages write UTC beside it"
    assert at.astimezone(UTC).isoformat() == at.isoformat()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ocular.db",
        "nosuch://x",
        "sqlite:/x:y:z",
        "oracle://x/y",
        "postgresql://host:port/x",
    ],
)
def test_a_bad_address_is_one_clear_line(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Database(url)
    assert str(caught.value).startswith(
        "expected a database such as sqlite:///ocular.db or postgresql://user@host/name"
    )
    assert "\n" not in str(caught.value)


def test_a_bad_address_does_not_show_its_password() -> None:
    with pytest.raises(ConfigError) as caught:
        Database("nosuch://ana:sesame@host/x")
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("url", ["sqlite:////nowhere/at/all/ocular.db", "postgresql://ana@127.0.0.1:9/ocular"])
def test_a_database_that_is_not_there_is_one_clear_line(url: str) -> None:
    database = Database(url)
    with pytest.raises(DatabaseError, match="the database does not answer"):
        database.upgrade()
    database.close()


# ------------------------------------------------------------------------------------------------ out of reach


def check_503(site: Site, ask: Callable[[], list]) -> None:
    pages = ask()
    assert [answer.status_code for answer in pages] == [503] * len(pages)
    for answer in pages:
        assert answer.headers["retry-after"] == "5"
        assert "Temporarily unavailable" in answer.text
        assert "content-security-policy" in answer.headers
    assert site.stranger().get("/healthz").status_code == 200


@both_databases
def test_pages_and_programs_hear_503_until_the_database_answers_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, program, client = site.browser("ana"), site.program("ana"), site.clients("ana")[0]
    fields = {"client": client, "product": site.open_product(client), "status": "won", "csrf": browser.csrf}

    def ask() -> list:
        return [
            browser.get("/"),
            browser.get("/client", params={"name": client}),
            browser.post("/feedback", data=fields),
            program.get("/api/v1/patterns"),
            program.post("/api/v1/feedback", json=fields),
            site.stranger().sign_in("ana"),
            site.stranger().get("/readyz"),
        ]

    def unreachable(*_: object, **__: object) -> None:
        raise OperationalError("select 1", {}, sqlite3.OperationalError("disk I/O error"))

    with monkeypatch.context() as patch:
        patch.setattr(site.database._engine, "connect", unreachable)
        patch.setattr("sqlalchemy.engine.base.OptionEngine.connect", unreachable)
        check_503(site, ask)
        assert ask()[3].json() == {"error": "Temporarily unavailable; try again in a moment"}
    assert [answer.status_code for answer in ask()] == [200, 200, 303, 200, 201, 303, 200]
    assert site.count(Feedback) == 2  # and none while it was away


@only_postgres
def test_connections_that_the_server_ended_are_made_anew(site: Site, postgres: str) -> None:
    browser = site.browser("ana")
    assert browser.signed_in()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname like 'test_%'")
    assert browser.signed_in()


@only_postgres
def test_a_server_that_lets_nobody_in_is_503_and_recovers(site: Site, postgres: str) -> None:
    browser = site.browser("ana")
    name = site.database._engine.url.database
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'alter database "{name}" allow_connections false')
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
        check_503(site, lambda: [browser.get("/"), site.stranger().get("/readyz")])
        connection.execute(f'alter database "{name}" allow_connections true')
    assert browser.signed_in()


@both_databases
def test_a_database_with_all_connections_taken_is_503(open_site: OpenSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site = open_site()
    browser = site.browser("ana")
    monkeypatch.setattr(site.database._engine.pool, "_timeout", 0.1)
    with ExitStack() as taken:
        for _ in range(30):  # as many as the pool may hold
            taken.enter_context(site.database.reading()).execute(text("select 1"))
        assert browser.get("/").status_code == 503
    assert browser.signed_in()


def test_a_locked_sqlite_file_is_503_and_recovers(
    open_site: OpenSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ocular.web.database.WAIT", 0.1)
    site = open_site()
    browser, client = site.browser("ana"), site.clients("ana")[0]
    fields = {"client": client, "product": site.open_product(client), "status": "won"}
    fields["csrf"] = browser.csrf
    other = sqlite3.connect(tmp_path / "ocular.db", isolation_level=None)
    other.execute("begin immediate")
    answer = browser.submit("/feedback", **fields)
    assert answer.status_code == 503
    other.execute("rollback")
    other.close()
    assert browser.submit("/feedback", **fields).status_code == 303
    assert site.count(Feedback) == 1


def test_a_view_that_can_not_be_written_down_is_refused_soon(
    open_site: OpenSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ocular.web.audit.BRIEF", 0.2)
    waited: list[float | None] = []
    site = open_site()
    browser, client, genuine = site.browser("ana"), site.clients("ana")[0], site.database.writing
    monkeypatch.setattr(site.database, "writing", lambda wait=None: waited.append(wait) or genuine(wait))
    other = sqlite3.connect(tmp_path / "ocular.db", isolation_level=None)
    other.execute("begin immediate")
    assert browser.get("/client", params={"name": client}).status_code == 503
    assert waited == [0.2]
    assert browser.get("/").status_code == 200  # whoever only reads does not wait
    other.execute("rollback")
    other.close()
    assert browser.get("/client", params={"name": client}).status_code == 200
    assert len(site.audited("client viewed")) == 1


@both_databases
def test_views_at_once_share_a_transaction_and_none_is_lost(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database, commits = Database(database_url), []
    event.listen(database._engine, "commit", commits.append)
    views, genuine = ViewLog(database), database.writing

    def slow(*given: float) -> object:
        time.sleep(0.05)
        return genuine(*given)

    monkeypatch.setattr(database, "writing", slow)
    threads = [threading.Thread(target=views.write, args=(f"n{n}", "viewed")) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as transaction:
        assert {*transaction.scalars(select(AuditEntry.name))} == {f"n{n}" for n in range(20)}
    assert len(commits) < 10
    monkeypatch.setattr(database, "writing", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        views.write("ana", "viewed")
    database.close()


def test_two_processes_may_share_an_sqlite_file(open_site: OpenSite) -> None:
    one, other = open_site(), open_site()
    client = one.clients("ana")[0]
    fields = {"client": client, "product": one.open_product(client), "status": "won"}
    browser = one.browser("ana")
    assert browser.submit("/feedback", **fields).status_code == 303
    again = other.stranger()
    again.cookies = browser.cookies
    assert again.signed_in()  # a session is good in both
    assert other.count(Feedback) == 1


def test_a_second_connection_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    """Without them, another process that disconnects takes itself for the last one and removes the log of changes."""
    database = Database(f"sqlite:///{tmp_path / 'web.db'}")
    database.upgrade()
    with database.reading() as first, database.reading() as second:
        for transaction in (first, second):
            transaction.execute(text("select count(*) from users"))
        visit = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('select count(*) from users').fetchall()"
        subprocess.run([sys.executable, "-c", visit, tmp_path / "web.db"], check=True)
        assert (tmp_path / "web.db-wal").exists()
    database.close()
