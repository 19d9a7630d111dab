"""
The database: SQLite in a file, or PostgreSQL. What a transaction has confirmed survives the end of the process.

A database that does not answer is one error, DatabaseError: pages turn it into 503, and the next request tries again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, exc, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session

from ocular.errors import ConfigError, OcularError
from ocular.web.errors import RefusedError

WAIT = 5  # seconds for a lock or a connection


class DatabaseError(OcularError):
    """The database can not be reached now."""


class Database:
    """Transactions that read and transactions that write."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)

    def upgrade(self) -> None:
        """Make the tables, or bring those of an older version up to date."""
        config = Config()
        config.set_main_option("script_location", str(files("ocular.web") / "migrations"))
        with _reachable(), self._engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with _reachable(), Session(self._engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Committed when the block ends; nothing of it is kept when it raises."""
        engine = self._engine.execution_options(writes=True)
        with _reachable(), Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    def check(self) -> None:
        with self.reading() as session:
            session.execute(text("SELECT 1"))

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except DataError:
        raise RefusedError("expected text and numbers that the database can keep, got others") from None
    except exc.TimeoutError as error:
        raise DatabaseError("the database is busy; try again in a moment") from error
    except DBAPIError as error:
        if error.connection_invalidated or not isinstance(error.orig, _refusals(error)):
            raise DatabaseError("the database does not answer; it is tried again with the next request") from error
        raise


def _refusals(error: DBAPIError) -> tuple[type[BaseException], ...]:
    """What a database that answers may say: the data break a rule. Everything else means that it does not answer."""
    module = __import__(type(error.orig).__module__.partition(".")[0])
    return module.IntegrityError, module.DataError, module.ProgrammingError


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = create_engine(parsed, pool_size=10, connect_args={"timeout": WAIT})
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        patience = f"-c statement_timeout={WAIT}s -c lock_timeout={WAIT}s"
        return create_engine(
            parsed, pool_pre_ping=True, pool_size=10, pool_timeout=WAIT,
            connect_args={"connect_timeout": WAIT, "options": patience, "tcp_user_timeout": WAIT * 1000},
        )  # fmt: skip
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError):
        raise ConfigError(  # without what follows: it may hold a password
            "expected a database such as sqlite:///ocular.db or postgresql://user@host/name, "
            f"got another address beginning with {url.partition(':')[0]!r}"
        ) from None


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver would begin transactions at times of its own
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # a transaction that reads first and writes later could be refused half-way: one that will write says so at once
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
