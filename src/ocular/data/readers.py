"""
Purchase histories from files, frames and databases.

Every source becomes a polars frame of the columns asked for, and `tables.to_interactions` turns that into Interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from ocular.data.databases import sql_frame
from ocular.data.interactions import Interactions
from ocular.data.tables import Columns, one_line, require, to_interactions
from ocular.data.text_files import text_frame
from ocular.errors import DataError, MissingExtraError


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
    client_attributes: Sequence[str] = (),
    product_attributes: Sequence[str] = (),
    drop_missing: bool = False,
    currency: str = "",
) -> Interactions:
    """
    Read a purchase history: one row a purchase, columns chosen by name.

    Parameters
    ----------
    source : path or frame
        A .csv, .tsv or .txt file with a header (also .gz; UTF-8; the separator is the one of comma, tab, semicolon and
        bar that the header has most of), a Parquet file or a folder of Parquet files, or a pandas, polars or Arrow
        frame.
    client, product : str
        Who bought, and what. From text files names are always text, so leading zeros survive; elsewhere whole numbers
        stay numbers, also those that pandas turned into floats. Text is stripped of surrounding white space. Clients
        and products come out sorted by name, whatever the order of the rows.
    price, quantity, time : str, optional
        Amounts and dates; empty means not known. Dates are ISO (2024-01-31, with or without a time of day and a time
        zone, which is converted to UTC) or whole numbers, which are seconds since 1970.
    value, min_value : str and float, optional
        A column of ratings and the least rating that counts as a purchase. Without `min_value` the column holds 1 for
        a purchase and 0 for none. Clients and products without any purchase left are not in the result.
    client_attributes, product_attributes : sequence of str
        Columns to keep for each client or product: the first value that is known, None or nan where none is.
    drop_missing : bool
        Leave out rows without a client or product instead of refusing them.
    currency : str
        What is written before prices, "£" or "EUR".

    Rows with a quantity of zero or less are returns and not purchases; they are left out and counted in the log.
    Repeated purchases are one positive pair, and all their amounts are kept.
    Rows of frames, Parquet and SQL are numbered from 0 in messages, lines of files from 1.

    >>> import polars as pl
    >>> sales = pl.DataFrame({"who": ["Acme", "Acme", "Bolt"], "what": ["nut", "saw", "saw"]})
    >>> read(sales, client="who", product="what")
    Interactions(2 clients × 2 products, 3 pairs)
    """
    columns = Columns(
        client, product, price, quantity, time, value, min_value, client_attributes, product_attributes, drop_missing,
        currency,
    )  # fmt: skip
    if not isinstance(source, str | Path):
        return to_interactions(_frame(source, columns.names), columns)
    path = Path(source).expanduser()
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if not path.exists():
        raise DataError(f"expected a file or folder, got {str(path)!r}, which is not there")
    if path.is_dir() or kind in ("parquet", "pq"):
        return to_interactions(_parquet_frame(path, columns.names), columns)
    if kind in ("csv", "tsv", "txt"):
        frame, locate = text_frame(path, columns.names)
        return to_interactions(frame, columns, locate)
    raise DataError(f"expected .csv, .tsv, .txt (also .gz) or .parquet, got {path.name!r}; save it as one of them")


def read_sql(query: str, url: str, **columns: Any) -> Interactions:
    """
    Read what a query returns, one row a purchase; the other parameters are those of `read`.

    `url` is sqlite:///relative/path.db, sqlite:////absolute/path.db or postgresql://user:password@host:5432/database.
    """
    chosen = Columns(**columns)
    return to_interactions(sql_frame(query, url, chosen.names), chosen)


def _frame(source: Any, names: Sequence[str]) -> pl.DataFrame:
    place = f"{type(source).__module__.partition('.')[0]} frame"
    if isinstance(source, pl.LazyFrame):
        require(names, source.collect_schema().names(), place)
        return source.select(names).collect()
    if place == "pandas frame" and hasattr(source, "columns"):
        return _pandas_frame(source, names)
    if not hasattr(source, "__arrow_c_stream__"):
        raise DataError(f"expected a path or a pandas, polars or Arrow frame, got {type(source).__name__}")
    try:
        frame = pl.DataFrame(source)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{place}: expected columns that polars can hold, got {one_line(error)}") from error
    require(names, frame.columns, place)
    return frame.select(names)


def _pandas_frame(source: Any, names: Sequence[str]) -> pl.DataFrame:
    there = [str(name) for name in source.columns]
    require(names, there, "pandas frame")
    infer_type = import_module("pandas.api.types").infer_dtype
    chosen = source.iloc[:, [there.index(name) for name in names]].set_axis(list(names), axis=1)
    for name in names:
        if infer_type(chosen[name], skipna=True) in ("mixed", "mixed-integer"):
            kinds = sorted({type(value).__name__ for value in chosen[name].dropna()})
            raise DataError(
                f"expected one type of value in column {name!r}, got {' and '.join(kinds)}; "
                f"convert it, for example with frame[{name!r}].astype(str)"
            )
    try:
        return pl.from_pandas(chosen)
    except ModuleNotFoundError:
        raise MissingExtraError(
            "a pandas frame is read through pyarrow; install it with: pip install pyarrow"
        ) from None
    except (ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise DataError(f"expected text, numbers or dates in a pandas frame, got {one_line(error)}") from error


def _parquet_frame(path: Path, names: Sequence[str]) -> pl.DataFrame:
    files = [path]
    if path.is_dir():
        parts = (file.relative_to(path).parts for file in sorted(path.rglob("*.parquet")))
        # Spark leaves unfinished parts in folders such as _temporary
        files = [path.joinpath(*part) for part in parts if not any(name.startswith(("_", ".")) for name in part)]
    if not files:
        raise DataError(f"expected .parquet files in the folder {str(path)!r}, got none")
    try:
        table = pl.scan_parquet(files, glob=False)
        require(names, table.collect_schema().names(), path.name)
        return table.select(names).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path.name}: expected Parquet, got a file that cannot be read ({one_line(error)})") from error
