"""
Purchases from files, frames and databases.

Every source becomes a polars frame of the columns asked for, and `tables.to_interactions` turns that into Interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ocular.data.databases import duckdb_frame, sql_frame
from ocular.data.encodings import check_encoding
from ocular.data.files import files_frame, is_duckdb
from ocular.data.frames import to_polars
from ocular.data.interactions import Interactions
from ocular.data.tables import Columns, to_interactions
from ocular.errors import ConfigError, DataError, Parameter


def read(
    source: Any,
    *,
    client: str,
    product: str,
    price: str | None = None,
    quantity: str | None = None,
    time: str | None = None,
    value: str | None = None,
    min_value: float | None = None,
    client_name: str | None = None,
    product_name: str | None = None,
    client_attributes: Sequence[str] = (),
    product_attributes: Sequence[str] = (),
    drop_missing: bool = False,
    keep_returned: bool = False,
    currency: str = "",
    encoding: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    date_format: str | None = None,
    query: str | None = None,
) -> Interactions:
    """
    Read purchases: a row for each, with the columns chosen by name.

    Parameters
    ----------
    source : path, sequence of paths, or frame
        A .csv, .tsv or .txt file with a header (also .gz; the separator is the one of comma, tab, semicolon and bar
        that the header has most of), a Parquet file, a folder of either, a pattern such as "sales/2024-*.csv", several
        of these in a list, a .duckdb file, or "-" for standard input; with `query` a database as in `read_sql`.
        Folders named key=value are columns, as Hive and Spark write them. Or a frame: pandas, polars, Arrow, a DuckDB
        relation and whatever else Narwhals knows or has `__arrow_c_stream__`.
    client, product : str
        Who bought, and what: the keys. From text files they are always text, so leading zeros survive; elsewhere whole
        numbers stay numbers, also those that pandas turned into floats. Text is stripped of surrounding white space.
        Clients and products come out sorted by key, whatever the order of the rows.
    price, quantity, time : str, optional
        Amounts and dates; empty means not known. The price is that of one unit where there is a quantity. Dates are ISO
        (2024-01-31, with or without a time of day and a time zone, which is converted to UTC) or whole numbers, which
        are seconds since 1970; other forms need `date_format`.
    value, min_value : str and float, optional
        A column of ratings and the least rating that counts as a purchase. Without `min_value` the column holds 1 for
        a purchase and 0 for none. Clients and products without any purchase left are not in the result.
    client_name, product_name : str, optional
        What people read in place of the keys, such as a description: the most frequent where there are several.
    client_attributes, product_attributes : sequence of str
        Columns to keep for each client or product: the first value that is known, None or nan where none is.
    drop_missing : bool
        Leave out rows without a client or product instead of refusing them.
    keep_returned : bool
        Keep what a client bought and fully returned as a purchase.
    currency : str
        What is written before prices, "£" or "EUR".
    encoding : str, optional
        Of text files: by default UTF-8, or UTF-16 or UTF-32 with a byte order mark. Older Windows programs write
        "cp1252".
    decimal, thousands : str
        How numbers are written in text: decimal="," and thousands="." for 1.234,56.
    date_format : str, optional
        How dates are written: "%d.%m.%Y" for 31.01.2024.
    query : str, optional
        The query to read from a database; for a .duckdb file with several tables also the name of one.

    Rows with a quantity of zero or less are returns and not purchases: they are left out, together with the pairs of
    client and product whose returned quantities cancel the bought ones; with `time`, a return from before the first
    purchase cancels nothing. Both are counted in the log (logger "ocular").
    Repeated purchases are one positive pair, and all their amounts are kept.
    Rows of frames, Parquet and SQL are numbered from 0 in messages, lines of files from 1.

    >>> import polars as pl
    >>> sales = pl.DataFrame({"who": ["Acme", "Acme", "Bolt"], "what": ["nut", "saw", "saw"]})
    >>> read(sales, client="who", product="what")
    Interactions(2 clients × 2 products, 3 pairs)
    """
    columns = Columns(
        client, product, price, quantity, time, value, min_value, client_attributes, product_attributes, drop_missing,
        currency, client_name, product_name, keep_returned, decimal, thousands, date_format,
    )  # fmt: skip
    check_encoding(encoding)
    paths = _paths(source)
    if paths is None:
        frame, kind = to_polars(source, columns.names)
        return to_interactions(frame, columns, frame_kind=kind)
    if query is not None:
        if len(paths) > 1:
            raise ConfigError("expected one database with ", Parameter("query"), f", got {len(paths)} sources")
        return to_interactions(sql_frame(query, str(paths[0]), columns.names), columns)
    if len(paths) == 1 and is_duckdb(paths[0]) and "://" not in str(paths[0]):
        return to_interactions(duckdb_frame(paths[0], None, columns.names), columns)
    frame, locate = files_frame(paths, columns.names, encoding)
    return to_interactions(frame, columns, locate)


def read_sql(query: str, url: str, **columns: Any) -> Interactions:
    """
    Read what a query returns, a row for each purchase; the other parameters are those of `read`.

    `url` is sqlite:///relative/path.db, sqlite:////absolute/path.db, postgresql://user:password@host:5432/database or
    the path of a .duckdb file, for which `query` may also be the name of a table.
    """
    return read(url, query=query, **columns)


def _paths(source: Any) -> list[str | Path] | None:
    """Return the paths that a source consists of, or None where it is a frame."""
    if isinstance(source, str | Path):
        return [source]
    if not isinstance(source, list | tuple | set | frozenset):
        return None
    wrong = [part for part in source if not isinstance(part, str | Path)]
    if wrong or not source:
        got = type(wrong[0]).__name__ if wrong else "an empty list"
        raise DataError(f"expected a list of paths, got {got}")
    return sorted(source) if isinstance(source, set | frozenset) else [*source]
