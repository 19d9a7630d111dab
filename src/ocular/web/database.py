"""
The database: SQLite in a file, or PostgreSQL. What a transaction has confirmed survives the end of the process.

A database that does not answer is one error, DatabaseError: pages turn it into 503, and the next request tries again.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from typing import Any, TypeVar

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, Select, create_engine, event, exc, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session

from ocular.errors import ConfigError, OcularError
from ocular.web.errors import RefusedError
from ocular.web.tables import AuditEntry, Base, Feedback

_log = logging.getLogger("ocular.web")
Row = TypeVar("Row", AuditEntry, Feedback)

WAIT = 5.0  # seconds for a lock or a connection
MAX_IDLE = 60  # seconds that a transaction may do nothing
BRIEF = 1.0  # seconds for a lock, where a page is only viewed
MIGRATION_LOCK = 0x6F63756C6172  # number of the PostgreSQL lock that is held while tables are changed
PAGE = 1000  # rows that are read at once
LOG_EVERY = 10.0  # seconds between two lines about a database that does not answer


class DatabaseError(OcularError):
    """The database cannot be reached now."""


class Database:
    """Transactions that read and transactions that write."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        # threads that write take turns here: SQLite would let them try again and again, and some of them in vain
        self._turn = threading.Semaphore(1 if self._engine.dialect.name == "sqlite" else 1000)

    def upgrade(self) -> None:
        """Create the tables, or bring those of an older version up to date: one process at a time, however long."""
        config = Config()
        config.set_main_option("script_location", str(files("ocular.web") / "migrations"))
        scripts = ScriptDirectory.from_config(config)
        with _reachable("check --db, and that the server runs"):
            if self._revision(scripts) == scripts.get_current_head():
                return  # without waiting for whoever writes
            with self._engine.execution_options(writes=True, wait=0).begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
                config.attributes["connection"] = connection
                command.upgrade(config, "head")

    def _revision(self, scripts: ScriptDirectory) -> str | None:
        """Return the revision of the tables; None for an empty database."""
        with self._engine.connect() as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
        if revision is not None and revision not in {script.revision for script in scripts.walk_revisions()}:
            raise ConfigError(
                f"expected a database of this version of ocular or an older one, got revision {revision!r}; "
                "install the ocular that made it"
            )
        return revision

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a transaction that only reads."""
        with _reachable(), Session(self._engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self, wait: float | None = None) -> Iterator[Session]:
        """Open a transaction: committed when the block ends, undone when it raises. `wait`: seconds for a lock."""
        engine = self._engine.execution_options(writes=True, **({} if wait is None else {"wait": wait}))
        if not self._turn.acquire(timeout=wait or WAIT):
            raise DatabaseError("The database is busy; try again in a moment")
        try:
            with _reachable(), Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
        finally:
            self._turn.release()

    def check(self) -> None:
        """Raise DatabaseError unless the database answers."""
        with self.reading() as session:
            session.execute(text("SELECT 1"))

    def close(self) -> None:
        self._engine.dispose()


def lock(session: Session, table: type[Base]) -> None:
    """Keep others from writing to the table until the transaction ends; in SQLite nobody else writes anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"LOCK TABLE {table.__tablename__} IN SHARE ROW EXCLUSIVE MODE"))


def read_by_id(database: Database, table: type[Row], query: Select[Row], after: int = 0) -> Iterator[Row]:
    """Yield the rows of a query in the order of their ids, PAGE at a time: whoever takes them slowly holds no lock."""
    while True:
        with database.reading() as transaction:
            rows = transaction.scalars(query.where(table.id > after).order_by(table.id).limit(PAGE)).all()
        yield from rows
        if len(rows) < PAGE:
            return
        after = rows[-1].id


_last_logged = -LOG_EVERY


@contextmanager
def _reachable(remedy: str = "it is tried again with the next request") -> Iterator[None]:
    try:
        yield
    except DataError:
        raise RefusedError("Some text or numbers cannot be stored; check what you entered") from None
    except exc.TimeoutError as error:
        _log_outage(error)
        raise DatabaseError("The database is busy; try again in a moment") from error
    except DBAPIError as error:
        if error.connection_invalidated or not isinstance(error.orig, _rule_errors(error)):
            _log_outage(error)
            raise DatabaseError(f"the database does not answer; {remedy}") from error
        raise


def _log_outage(error: exc.SQLAlchemyError) -> None:
    """Log the cause, but not for every request that it affects."""
    global _last_logged  # noqa: PLW0603
    if time.monotonic() - _last_logged > LOG_EVERY:
        _last_logged = time.monotonic()
        cause = str(getattr(error, "orig", None) or error).strip()
        _log.error("the database does not answer: %s", " ".join(cause.split()))


def _rule_errors(error: DBAPIError) -> tuple[type[BaseException], ...]:
    """Return the errors of a database that answers: the data break a rule. Any other means that it does not answer."""
    module = __import__(type(error.orig).__module__.partition(".")[0])
    return module.IntegrityError, module.DataError, module.ProgrammingError


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            waiting = {"pool_timeout": WAIT} if parsed.database not in (None, "", ":memory:") else {}
            engine = create_engine(parsed, pool_size=20, connect_args={"timeout": WAIT}, **waiting)
            event.listen(engine, "do_connect", _create_sqlite)
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        seconds = max(1, round(WAIT))
        limits = f"-c statement_timeout={seconds}s -c lock_timeout={seconds}s"
        limits += f" -c idle_in_transaction_session_timeout={MAX_IDLE}s"
        engine = create_engine(
            parsed, pool_pre_ping=True, pool_size=20, pool_timeout=WAIT,
            connect_args={"connect_timeout": seconds, "options": limits, "tcp_user_timeout": seconds * 1000},
        )  # fmt: skip
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError):
        raise ConfigError(  # without what follows: it may hold a password
            "expected a database such as sqlite:///ocular.db or postgresql://user@host/name, "
            f"got another address beginning with {url.partition(':')[0]!r}"
        ) from None
    event.listen(engine, "do_connect", _connect_postgres)
    event.listen(engine, "begin", _begin_postgres)
    return engine


def _create_sqlite(_dialect: Any, _record: Any, arguments: Any, _options: Any) -> None:
    """
    Create the file for its owner only; SQLite gives the files beside it the same rights.

    A file that is there must not be opened here: closing it would end all locks that this process has on it, and
    another process that disconnects would then remove the log of changes from under our other connections.
    """
    path = str(arguments[0])
    if not path.startswith((":", "file:")):
        with suppress(OSError):  # it is there, or SQLite says what is wrong
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver would begin transactions at times of its own
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # a transaction that reads first and writes later could be refused half-way: one that will write says so at once
    options = connection.get_execution_options()
    if not options.get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    wait = options.get("wait", WAIT) or 3600.0  # an hour is for ever
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(wait * 1000)}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


class _LimitedConnection(psycopg.Connection[Any]):
    """A connection that gives up on a server which takes a statement and never answers, so that its own limits fail."""

    limit = WAIT + 1  # seconds per statement: the server's own limit comes first

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        return super().wait(self._limited(gen), *args, **options)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until = time.monotonic() + self.limit
        try:
            state = next(gen)
            while True:
                ready = yield state
                if not ready and time.monotonic() > until:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"expected an answer within {self.limit:g} s, got none")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


def _connect_postgres(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
    return _LimitedConnection.connect(*arguments, **options)


def _begin_postgres(connection: Connection) -> None:
    wait, raw = connection.get_execution_options().get("wait"), connection.connection.driver_connection
    if isinstance(raw, _LimitedConnection):
        raw.limit = math.inf if wait == 0 else (wait or WAIT) + 1
    if wait is not None:
        limit = round(wait * 1000)  # 0: none
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = {limit}")
