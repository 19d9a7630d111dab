"""The result of a query: SQLite and PostgreSQL through ADBC, DuckDB through its own package."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import polars as pl

from ocular.data.files import is_duckdb, nearest_file
from ocular.data.tables import one_line, require
from ocular.errors import DataError, MissingExtraError, Parameter

SOCKET_FOLDERS = (Path("/var/run/postgresql"), Path("/run/postgresql"), Path("/tmp"))  # noqa: S108  as psycopg looks
_DRIVERS = {
    "sqlite": "adbc_driver_sqlite",
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
}


def sql_frame(query: str, url: str, names: Sequence[str]) -> pl.DataFrame:
    """Return the named columns of the result."""
    if is_duckdb(url) and ("://" not in url or url.startswith("duckdb:///")):
        return duckdb_frame(url.removeprefix("duckdb:///"), query, names)
    scheme = url.partition("://")[0].partition("+")[0]
    if scheme not in _DRIVERS or "://" not in url:
        raise DataError(
            "expected a database URL that starts with sqlite:/// or postgresql://, or a .duckdb file, got another"
        )
    address = _sqlite_address(url) if scheme == "sqlite" else _postgres_address(url)
    try:
        import_module("pyarrow")
        driver = import_module(f"{_DRIVERS[scheme]}.dbapi")
    except ImportError:
        raise MissingExtraError(
            f"reading {scheme} needs ADBC; install it with: pip install 'ocular-rec[sql]'"
        ) from None
    try:
        with closing(driver.connect(address)) as connection, closing(connection.cursor()) as cursor:
            if scheme == "sqlite":
                # types are inferred from the first batch: all rows in one, or 3 followed by 3.5 fails; the driver
                # reserves memory for as many rows as it is told, so they are counted first
                cursor.execute(f"SELECT count(*) FROM ({query.rstrip().rstrip(';')})")  # noqa: S608  the user's own query
                n_rows = max(cursor.fetchone()[0], 1)
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(n_rows)})
            cursor.execute(query)
            table = cursor.fetch_arrow_table()
    except (driver.Error, OSError) as error:
        # `from None`, because the driver's own message may repeat the password
        got = _without_secrets(one_line(error), url)
        raise DataError(f"expected rows from the database, got: {got}; check the URL and the query") from None
    require(names, table.column_names, "query")
    kinds = {name: (table.field(name).metadata or {}).get(b"POSTGRESQL:type") for name in names}
    for name, kind in kinds.items():
        if kind == b"money":
            raise DataError(
                f"expected numbers in column {name!r}, got money, which arrives in cents; use {name}::numeric"
            )
    frame = pl.DataFrame(table.select(list(names)))
    return frame.with_columns(_plain(column, kinds[column.name] == b"numeric") for column in frame)


def duckdb_frame(path: str | Path, query: str | None, names: Sequence[str]) -> pl.DataFrame:
    """Return the named columns of a table or a query of a DuckDB file; without one, of its only table."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(f"expected a DuckDB file, got {str(file)!r}, which is not there{nearest_file(file)}")
    try:
        duckdb = import_module("duckdb")
    except ImportError:
        raise MissingExtraError(
            "reading a DuckDB file needs duckdb; install it with: pip install 'ocular-rec[sql]'"
        ) from None
    try:
        with closing(duckdb.connect(str(file), read_only=True)) as connection:
            tables = [
                row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
            ]
            if query is None and len(tables) != 1:
                raise DataError(
                    f"{file.name}: expected one table, got {len(tables)} ({', '.join(sorted(tables))}); "
                    "name a table or write a query with ",
                    Parameter("query"),
                )
            table = tables[0] if query is None else query
            statement = f"SELECT * FROM {_quoted(table)}" if table in tables else table  # noqa: S608  the user's own
            relation = connection.sql(statement)
            if relation is None:
                raise DataError("expected a query that returns rows, got another statement; write SELECT …")
            require(names, relation.columns, "query" if query else file.name)
            # by way of pyarrow: polars reading a relation itself makes DuckDB 2.0 report leaks at exit
            return pl.DataFrame(relation.select(*map(_quoted, names)).to_arrow_table())
    except duckdb.Error as error:
        raise DataError(f"{file.name}: expected rows from DuckDB, got: {one_line(error)}; check the query") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain(column: pl.Series, numeric: bool) -> pl.Series:
    """Return what is inside a type that only the database knows; `numeric` arrives as text."""
    if not isinstance(column.dtype, pl.BaseExtension):
        return column
    stored = column.ext.storage()
    if not numeric:
        return stored
    whole = stored.cast(pl.Int64, strict=False)
    return whole if whole.null_count() == stored.null_count() else stored.cast(pl.Float64)


def _sqlite_address(url: str) -> str:
    path = Path(url.partition(":///")[2])
    if not path.is_file():  # SQLite would make an empty database
        raise DataError(f"expected an SQLite file, got {str(path)!r}, which is not there{nearest_file(path)}")
    return f"file:{quote(str(path))}?mode=ro"


_HOST = r"(\[[0-9A-Fa-f:.%]*\]|[\w.%-]*)(:\d*)?"
_POSTGRES = re.compile(rf"(([\w.~!$&'()*+,;=:-]|%[0-9A-Fa-f]{{2}})*@)?{_HOST}(,{_HOST})*([/?][^@]*)?")


def _postgres_address(url: str) -> str:
    # libpq cuts a password with a bare @ or / in the wrong place, and repeats the piece in its message
    address = url.partition("://")[2]
    if not _POSTGRES.fullmatch(address):
        raise DataError(
            "expected a URL like postgresql://user:password@host:5432/database, got another form; "
            "write special characters as percent codes (@ as %40, / as %2F)"
        )
    return f"postgresql://{address}{_socket(address)}"


def _socket(address: str) -> str:
    """
    Return the folder of the server's socket as a parameter, where the address names no host; else nothing.

    ADBC brings its own libpq, which looks into the temporary folder only; servers of Linux packages are elsewhere.
    """
    parts = urlsplit(f"postgresql://{address}")
    host, _, port = parts.netloc.rpartition("@")[2].partition(":")
    given = dict(parse_qsl(parts.query))
    if (
        host
        or given.keys() & {"host", "hostaddr", "service"}
        or os.environ.keys() & {"PGHOST", "PGHOSTADDR", "PGSERVICE"}
    ):
        return ""
    port = port or given.get("port") or os.environ.get("PGPORT") or "5432"
    for folder in SOCKET_FOLDERS:
        if (folder / f".s.PGSQL.{port}").exists():
            return f"{'&' if '?' in address else '?'}host={quote(str(folder), safe='')}"
    return ""


def _without_secrets(text: str, url: str) -> str:
    login = url.partition("://")[2].rpartition("@")[0]
    for secret in (login.partition(":")[2], *re.findall("password=([^&]*)", url)):
        for form in {secret, unquote(secret)} - {""}:
            text = text.replace(form, "***")
    return text
