"""
Purchase histories from files, frames and databases.

Every source becomes a polars frame of the columns asked for; `to_interactions` turns a frame into Interactions, with
the same rules for all of them.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, DataError, MissingExtraError, UnknownNameError

Locate = Callable[[int], str]  # row of a frame -> where the user finds it: "sales.csv, line 7"


@dataclass(frozen=True)
class Columns:
    """Which column plays which part, and which rows count."""

    client: str
    product: str
    price: str | None = None
    quantity: str | None = None
    time: str | None = None
    value: str | None = None
    min_value: float | None = None
    client_attributes: Sequence[str] = ()
    product_attributes: Sequence[str] = ()
    drop_missing: bool = False

    def __post_init__(self) -> None:
        for side in ("client_attributes", "product_attributes"):
            given = getattr(self, side)
            object.__setattr__(self, side, (given,) if isinstance(given, str) else tuple(given))
        if self.client == self.product:
            raise ConfigError(f"expected two columns, one of clients and one of products, got {self.client!r} twice")
        if self.min_value is not None and self.value is None:
            raise ConfigError(f"expected a column to compare with min_value={self.min_value:g}; name it with value=")
        if self.min_value is not None and math.isnan(self.min_value):
            raise ConfigError("expected a number as min_value, got nan")

    @property
    def names(self) -> list[str]:
        """Every column that is read, once."""
        single = [self.client, self.product, self.price, self.quantity, self.time, self.value]
        named = [name for name in single if name is not None]
        return list(dict.fromkeys([*named, *self.client_attributes, *self.product_attributes]))


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

    Repeated purchases are one positive pair, and all their amounts are kept.
    Rows of frames, Parquet and SQL are numbered from 0 in messages, lines of files from 1.

    >>> import polars as pl
    >>> sales = pl.DataFrame({"who": ["Acme", "Acme", "Bolt"], "what": ["nut", "saw", "saw"]})
    >>> read(sales, client="who", product="what")
    Interactions(2 clients × 2 products, 3 pairs)
    """
    columns = Columns(
        client, product, price, quantity, time, value, min_value, client_attributes, product_attributes, drop_missing
    )
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
    raise DataError(f"expected .csv, .tsv, .txt (also .gz) or .parquet, got {path.name!r}")


def read_sql(
    query: str,
    url: str,
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
) -> Interactions:
    """
    Read what a query returns, one row a purchase; the other parameters are those of `read`.

    `url` is sqlite:///relative/path.db, sqlite:////absolute/path.db or postgresql://user:password@host:5432/database.
    """
    columns = Columns(
        client, product, price, quantity, time, value, min_value, client_attributes, product_attributes, drop_missing
    )
    return to_interactions(_sql_frame(query, url, columns.names), columns)


def _row(row: int) -> str:
    return f"row {row}"


def to_interactions(frame: pl.DataFrame, columns: Columns, locate: Locate = _row) -> Interactions:
    """The one place where rows become positives; `locate` tells the user where a bad row is."""
    if frame.is_empty():
        raise DataError("expected at least one purchase, got no rows")
    n_rows = len(frame)
    clients = _ids(frame[columns.client], locate)
    products = _ids(frame[columns.product], locate)
    missing = clients.is_null() | products.is_null()
    if missing.any():
        if not columns.drop_missing:
            raise DataError(
                f"{_first(missing, locate)}: expected {columns.client!r} and {columns.product!r} in every row, "
                f"got {missing.sum():,} without; fill them in, or pass drop_missing=True to leave them out"
            )
        # before anything else is looked at: what such a row holds is often a total or a remark
        frame, clients, products = frame.filter(~missing), clients.filter(~missing), products.filter(~missing)
        locate = _after_dropping(missing, locate)
    amounts: dict[str, Any] = {
        part: convert(frame[name], locate)
        for part, name, convert in (
            ("price", columns.price, to_numbers),
            ("quantity", columns.quantity, to_numbers),
            ("time", columns.time, to_times),
        )
        if name is not None
    }
    if columns.value is not None:
        positive = _positives(frame[columns.value], columns.min_value, locate)
        frame, clients, products = frame.filter(positive), clients.filter(positive), products.filter(positive)
        amounts = {part: values.filter(positive) for part, values in amounts.items()}
    if frame.is_empty():
        threshold = "" if columns.min_value is None else f" with {columns.value!r} at least {columns.min_value:g}"
        raise DataError(f"expected at least one purchase{threshold}, got none in {n_rows:,} rows")
    users, user_labels = _codes(clients)
    items, item_labels = _codes(products)
    return Interactions.from_pairs(
        users,
        items,
        user_labels=user_labels,
        item_labels=item_labels,
        user_attributes={a: _attribute(users, frame[a], len(user_labels)) for a in columns.client_attributes},
        item_attributes={a: _attribute(items, frame[a], len(item_labels)) for a in columns.product_attributes},
        **{part: values.to_numpy() for part, values in amounts.items()},
    )


def _after_dropping(dropped: pl.Series, locate: Locate) -> Locate:
    kept = (~dropped).arg_true()
    return lambda row: locate(kept[row])


def _first(wrong: pl.Series, locate: Locate) -> str:
    return locate(wrong.arg_true()[0])


def _refuse(column: pl.Series, wrong: pl.Series, expected: str, remedy: str, locate: Locate) -> None:
    """Raise at the first row where `wrong` is true."""
    if wrong.any():
        got = repr(column.filter(wrong)[0])
        got = got if len(got) <= 60 else got[:57] + "..."
        raise DataError(f"{_first(wrong, locate)}: expected {expected} in column {column.name!r}, got {got}; {remedy}")


def _clean(text: pl.Series) -> pl.Series:
    """Text without surrounding white space; null where nothing is left."""
    return text.cast(pl.String).str.strip_chars().replace("", None)


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)


def _ids(column: pl.Series, locate: Locate) -> pl.Series:
    if _is_text(column.dtype):
        return _clean(column)
    if column.dtype.is_integer():
        # labels are int64; narrower numbers stay as they are, which saves gigabytes on 100M rows
        numbers = column.cast(pl.Int64, strict=False) if column.dtype == pl.UInt64 else column
        wrong = column.is_not_null() & numbers.is_null()
        _refuse(column, wrong, "whole numbers below 2^63", "convert the column to text", locate)
        return numbers
    if column.dtype.is_float() or column.dtype.is_decimal():
        # pandas turns whole numbers into floats as soon as one is missing; above 2^53 they have lost digits
        numbers = column.cast(pl.Float64).fill_nan(None)
        wrong = (numbers != numbers.floor()) | (numbers.abs() >= 2.0**53)
        _refuse(column, wrong, "names or whole numbers", "convert the column to text or integers", locate)
        return numbers.cast(pl.Int64)
    raise DataError(
        f"expected names or whole numbers in column {column.name!r}, got {column.dtype}; convert the column to text"
    )


def to_numbers(column: pl.Series, locate: Locate) -> pl.Series:
    """Float64, null where nothing is given."""
    if _is_text(column.dtype):
        text = _clean(column)
        numbers = text.cast(pl.Float64, strict=False)
        wrong = text.is_not_null() & numbers.is_null()
        remedy = "write it like 1234.5, or leave it empty where it is not known"
        _refuse(column, wrong, "a number", remedy, locate)
    elif column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
    else:
        raise DataError(f"expected numbers in column {column.name!r}, got {column.dtype}")
    numbers = numbers.fill_nan(None)
    _refuse(column, numbers.is_infinite(), "a finite number", "leave it empty", locate)
    return numbers


_CLOCKS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M")
_ZONED_CLOCKS = ("%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z")


def to_times(column: pl.Series, locate: Locate) -> pl.Series:
    """Datetime in UTC without a time zone, null where nothing is given."""
    if column.dtype == pl.Datetime and column.dtype.time_zone is not None:  # type: ignore[attr-defined]
        return column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).cast(pl.Datetime("ms"))
    if column.dtype in (pl.Date, pl.Datetime):
        return column.cast(pl.Datetime("ms"))
    if column.dtype.is_numeric():
        return _epoch_times(column, to_numbers(column, locate), locate)
    if not _is_text(column.dtype):
        raise DataError(f"expected dates in column {column.name!r}, got {column.dtype}")
    text = _clean(column)
    seconds = text.cast(pl.Int64, strict=False)
    if seconds.null_count() == text.null_count():
        return _epoch_times(column, seconds, locate)
    iso = text.str.replace("T", " ", literal=True).str.replace("Z$", "+00:00")
    times = pl.Series(column.name, [], pl.Datetime("ms")).extend_constant(None, len(iso))
    for clock in (*_CLOCKS, *_ZONED_CLOCKS):
        parsed = iso.str.to_datetime(clock, time_unit="ms", strict=False)
        if clock in _ZONED_CLOCKS:
            parsed = parsed.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        times = times.zip_with(times.is_not_null(), parsed)
        if times.null_count() == text.null_count():
            return times
    remedy = "write it like 2024-01-31 or 2024-01-31 14:30:00, or leave it empty where it is not known"
    _refuse(column, text.is_not_null() & times.is_null(), "a date", remedy, locate)
    return times


def _epoch_times(column: pl.Series, seconds: pl.Series, locate: Locate) -> pl.Series:
    # dates written as 20240131 and milliseconds would pass as seconds, of 1970 or of the year 50,000
    wrong = seconds.is_between(19_000_101, 21_001_231) | (seconds.abs() > 1e11)
    _refuse(column, wrong, "seconds since 1970 or ISO dates", "write it like 2024-01-31", locate)
    return (seconds.cast(pl.Int64) * 1000).cast(pl.Datetime("ms"))


def _positives(column: pl.Series, min_value: float | None, locate: Locate) -> pl.Series:
    """Which rows are purchases."""
    values = to_numbers(column, locate)
    _refuse(column, values.is_null(), "a value", "fill it in or take the row out", locate)
    if min_value is not None:
        return values >= min_value
    _refuse(column, ~values.is_in([0.0, 1.0]), "0 or 1", "pass min_value= to turn ratings into positives", locate)
    return values == 1


def _codes(ids: pl.Series) -> tuple[NDArray[Any], NDArray[Any]]:
    """The position of each id among the distinct ones, which are sorted."""
    labels = ids.unique().sort()
    known = pl.DataFrame({"id": labels}).with_row_index("code")
    codes = pl.DataFrame({"id": ids}).join(known, on="id", how="left", maintain_order="left")["code"]
    return codes.to_numpy(), labels.to_numpy()


def _attribute(codes: NDArray[Any], column: pl.Series, n: int) -> NDArray[Any]:
    """The first value that is known of each client or product."""
    values = _clean(column) if _is_text(column.dtype) else column
    if values.dtype.is_float() or values.dtype.is_decimal():
        values = values.cast(pl.Float64).fill_nan(None)
    known = pl.DataFrame({"code": pl.Series(codes, dtype=pl.UInt32), "value": values}).drop_nulls()
    first = known.unique("code", keep="first", maintain_order=True)
    everyone = pl.DataFrame({"code": np.arange(n, dtype=np.uint32)})
    return everyone.join(first, on="code", how="left", maintain_order="left")["value"].to_numpy()


def _require(names: Sequence[str], there: Sequence[str], place: str) -> None:
    for name in names:
        if there.count(name) == 1:
            continue
        if name in there:
            raise DataError(f"{place}: expected one column named {name!r}, got {there.count(name)}; rename the others")
        near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(f"{place}: no column named {name!r}{hint} (columns: {', '.join(there)})")


# Text files


class _Record(NamedTuple):
    line: int  # where it starts, as an editor counts
    fields: list[str]
    text: str

    @property
    def blank(self) -> bool:
        return len(self.fields) < 2 and not self.text.strip()  # a row of tabs is not blank


@dataclass(frozen=True)
class _TextFile:
    """The slow reader: it knows the line numbers, which polars does not."""

    path: Path
    separator: str = ","

    def lines(self) -> Iterator[str]:
        with self.path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"  # by content, as polars does, not by name
        with gzip.open(self.path) if packed else self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{self.path.name}, line {number}: expected UTF-8 text, got byte 0x{line[error.start]:02x}; "
                        "save the file as UTF-8"
                    ) from None

    def records(self) -> Iterator[_Record]:
        """The header and the rows; a quoted field may hold line breaks."""
        raw: list[str] = []

        def remembered() -> Iterator[str]:
            for line in self.lines():
                raw.append(line)
                yield line

        reader = csv.reader(remembered(), delimiter=self.separator, strict=True)
        start = 1
        try:
            for fields in reader:
                yield _Record(start, fields, "".join(raw))
                raw.clear()
                start = reader.line_num + 1
        except csv.Error as error:
            raise self._broken_quotes(start, str(error)) from None

    def header_and_rows(self) -> tuple[list[str], Iterator[_Record]]:
        records = self.records()
        header = next((record for record in records if not record.blank), None)
        if header is None:
            raise DataError(f"{self.path.name}: expected a header and rows, got an empty file")
        return [name.strip() for name in header.fields], records

    def check(self) -> list[int]:
        """Raise at the first broken row; else return the rows that are only blank lines."""
        header, rows = self.header_and_rows()
        blank = []
        for row, record in enumerate(rows):
            if record.blank:
                blank.append(row)
            elif len(record.fields) != len(header):
                raise DataError(
                    f"{self.path.name}, line {record.line}: expected {len(header)} fields as in the header, "
                    f"got {len(record.fields)}; put fields that contain {self.separator!r} in quotes"
                )
            elif record.text.count('"') % 2:
                raise self._broken_quotes(record.line, "a single quote in a field")
        return blank

    def locate(self, row: int) -> str:
        rows = (record for record in self.header_and_rows()[1] if not record.blank)
        return f"{self.path.name}, line {next(islice(rows, row, None)).line}"

    def _broken_quotes(self, line: int, got: str) -> DataError:
        return DataError(
            f"{self.path.name}, line {line}: expected closed quotes, got {got}; "
            'put the field in quotes and double the quotes inside, as in "5"" pipe"'
        )


def text_frame(path: Path, names: Sequence[str]) -> tuple[pl.DataFrame, Locate]:
    """The columns of a CSV, TSV or TXT file, all as text, and how to find the line of a row."""
    try:
        first = next((line for line in _TextFile(path).lines() if line.strip()), "")
        unquoted = re.sub('"[^"]*"', "", first)
        file = _TextFile(path, max(",\t;|", key=unquoted.count))
        header, _ = file.header_and_rows()
        _require(names, header, path.name)
        try:
            frame = pl.read_csv(path, separator=file.separator, infer_schema=False, glob=False)
        except pl.exceptions.PolarsError as error:
            file.check()
            raise DataError(f"{path.name}: expected {len(header)} columns of text, got {one_line(error)}") from error
        if frame.is_empty():
            raise DataError(f"{path.name}: expected rows after the header, got none")
        # polars fills a row that is too short with nulls, the last column for certain
        blank = file.check() if frame.to_series(-1).null_count() else []
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path.name}: expected a file that can be read, got {one_line(error)}") from error
    chosen = pl.DataFrame({name: frame.to_series(header.index(name)) for name in names})
    if blank:
        chosen = chosen.filter(np.isin(np.arange(len(chosen)), blank, invert=True))
    return chosen, file.locate


# Frames and Parquet


def _frame(source: Any, names: Sequence[str]) -> pl.DataFrame:
    place = f"{type(source).__module__.partition('.')[0]} frame"
    if isinstance(source, pl.LazyFrame):
        _require(names, source.collect_schema().names(), place)
        return source.select(names).collect()
    if place == "pandas frame" and hasattr(source, "columns"):
        return _pandas_frame(source, names)
    if not hasattr(source, "__arrow_c_stream__"):
        raise DataError(f"expected a path or a pandas, polars or Arrow frame, got {type(source).__name__}")
    try:
        frame = pl.DataFrame(source)
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{place}: expected columns that polars can hold, got {one_line(error)}") from error
    _require(names, frame.columns, place)
    return frame.select(names)


def _pandas_frame(source: Any, names: Sequence[str]) -> pl.DataFrame:
    there = [str(name) for name in source.columns]
    _require(names, there, "pandas frame")
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
        _require(names, table.collect_schema().names(), path.name)
        return table.select(names).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path.name}: expected Parquet, got a file that cannot be read ({one_line(error)})") from error


def one_line(error: Exception) -> str:
    return " ".join(str(error).strip().partition("\n")[0].split())


# Databases

_DRIVERS = {
    "sqlite": "adbc_driver_sqlite",
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
}


def _sql_frame(query: str, url: str, names: Sequence[str]) -> pl.DataFrame:
    scheme = url.partition("://")[0].partition("+")[0]
    if scheme not in _DRIVERS or "://" not in url:
        raise DataError("expected a database URL that starts with sqlite:/// or postgresql://, got another")
    address = _sqlite_address(url) if scheme == "sqlite" else _postgres_address(url)
    try:
        driver = import_module(f"{_DRIVERS[scheme]}.dbapi")
    except ImportError:
        raise MissingExtraError(
            f"reading {scheme} needs ADBC; install it with: pip install 'ocular-rec[sql]'"
        ) from None
    try:
        with closing(driver.connect(address)) as connection, closing(connection.cursor()) as cursor:
            if scheme == "sqlite":
                # types are inferred from the first batch: all rows in one, or 3 followed by 3.5 fails
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(2**30)})
            cursor.execute(query)
            table = cursor.fetch_arrow_table()
    except (driver.Error, OSError) as error:
        # `from None`, because the driver's own message may repeat the password
        got = _without_secrets(one_line(error), url)
        raise DataError(f"expected rows from the database, got: {got}; check the URL and the query") from None
    _require(names, table.column_names, "query")
    kinds = {name: (table.field(name).metadata or {}).get(b"POSTGRESQL:type") for name in names}
    for name, kind in kinds.items():
        if kind == b"money":
            raise DataError(
                f"expected numbers in column {name!r}, got money, which arrives in cents; use {name}::numeric"
            )
    frame = pl.DataFrame(table.select(list(names)))
    return frame.with_columns(_plain(column, kinds[column.name] == b"numeric") for column in frame)


def _plain(column: pl.Series, numeric: bool) -> pl.Series:
    """What is inside a type that only the database knows; `numeric` arrives as text."""
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
        raise DataError(f"expected an SQLite file, got {str(path)!r}, which is not there")
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
    return f"postgresql://{address}"


def _without_secrets(text: str, url: str) -> str:
    login = url.partition("://")[2].rpartition("@")[0]
    for secret in (login.partition(":")[2], *re.findall("password=([^&]*)", url)):
        for form in {secret, unquote(secret)} - {""}:
            text = text.replace(form, "***")
    return text
