"""A table of purchases becomes Interactions: the same rules wherever the table came from."""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, DataError, Parameter, UnknownNameError

_log = logging.getLogger("ocular")

# of purchases, beside those of the source, whose names are the user's
CLIENT, PRODUCT = "ocular:client", "ocular:product"
AMOUNTS = {part: f"ocular:{part}" for part in ("price", "quantity", "time")}

# where values are not 0 and 1
RATINGS = "pass ", Parameter("min_value"), " to turn ratings into positives"

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
    currency: str = ""

    def __post_init__(self) -> None:
        for side in ("client_attributes", "product_attributes"):
            given = getattr(self, side)
            object.__setattr__(self, side, (given,) if isinstance(given, str) else tuple(given))
        if self.client == self.product:
            raise ConfigError(f"expected two columns, one of clients and one of products, got {self.client!r} twice")
        if self.currency and (len(self.currency) > 8 or not self.currency.isprintable() or self.price is None):
            got = "no price column" if self.price is None else repr(self.currency)
            raise ConfigError(f"expected a currency of at most 8 characters, such as £ or EUR, with a price, got {got}")
        if self.min_value is not None and self.value is None:
            given = Parameter("min_value", f"{self.min_value:g}")
            raise ConfigError("expected a column to compare with ", given, "; name it with ", Parameter("value"))
        if self.min_value is not None and math.isnan(self.min_value):
            raise ConfigError("expected a number as ", Parameter("min_value"), ", got nan")

    @property
    def names(self) -> list[str]:
        """Every column that is read, once."""
        single = [self.client, self.product, self.price, self.quantity, self.time, self.value]
        named = [name for name in single if name is not None]
        return list(dict.fromkeys([*named, *self.client_attributes, *self.product_attributes]))


def _row(row: int) -> str:
    return f"row {row}"


def to_interactions(frame: pl.DataFrame, columns: Columns, locate: Locate = _row) -> Interactions:
    """A table becomes a history; `locate` tells the user where a bad row is."""
    if frame.is_empty():
        raise DataError("expected at least one purchase, got no rows")
    n_rows = len(frame)
    frame = to_purchases(frame, columns, locate)
    if frame.is_empty():
        raise no_purchase(columns, n_rows)
    users, user_labels = _codes(frame[CLIENT])
    items, item_labels = _codes(frame[PRODUCT])
    amounts: dict[str, Any] = {part: frame[name].to_numpy() for part, name in AMOUNTS.items() if name in frame.columns}
    return Interactions.from_pairs(
        users,
        items,
        user_labels=user_labels,
        item_labels=item_labels,
        user_attributes={a: _attribute(users, frame[a], len(user_labels)) for a in columns.client_attributes},
        item_attributes={a: _attribute(items, frame[a], len(item_labels)) for a in columns.product_attributes},
        currency=columns.currency,
        **amounts,
    )


def no_purchase(columns: Columns, n_rows: int) -> DataError:
    threshold = "" if columns.min_value is None else f" with {columns.value!r} at least {columns.min_value:g}"
    return DataError(f"expected at least one purchase{threshold}, got none in {n_rows:,} rows")


def to_purchases(frame: pl.DataFrame, columns: Columns, locate: Locate = _row) -> pl.DataFrame:
    """
    The one place where rows become purchases: those that count, checked, with the columns CLIENT, PRODUCT and AMOUNTS
    beside their own. Every row is looked at by itself.
    """
    n_rows = len(frame)
    clients = _ids(frame[columns.client], locate)
    products = _ids(frame[columns.product], locate)
    missing = clients.is_null() | products.is_null()
    if missing.any():
        if not columns.drop_missing:
            raise DataError(
                f"{_first(missing, locate)}: expected {columns.client!r} and {columns.product!r} in every row, "
                f"got {missing.sum():,} without; fill them in, or pass ",
                Parameter("drop_missing", True),
                " to leave them out",
            )
        _log.info(
            "left out %s of %s rows without %r or %r",
            f"{missing.sum():,}",
            f"{n_rows:,}",
            columns.client,
            columns.product,
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
    positive = pl.repeat(True, len(frame), eager=True)
    if columns.value is not None:
        positive = _positives(frame[columns.value], columns.min_value, locate)
        _log.info("%s of %s rows are purchases by %r", f"{positive.sum():,}", f"{len(frame):,}", columns.value)
    if "quantity" in amounts and (returned := (amounts["quantity"] <= 0).fill_null(False)).any():
        _log.info("left out %s rows with a quantity of zero or less (returns)", f"{returned.sum():,}")
        positive &= ~returned
    named = {CLIENT: clients, PRODUCT: products} | {AMOUNTS[part]: values for part, values in amounts.items()}
    return frame.with_columns(**named).filter(positive)


def _after_dropping(dropped: pl.Series, locate: Locate) -> Locate:
    kept = (~dropped).arg_true()
    return lambda row: locate(kept[row])


def _first(wrong: pl.Series, locate: Locate) -> str:
    return locate(wrong.arg_true()[0])


def _refuse(column: pl.Series, wrong: pl.Series, expected: str, remedy: Sequence[Any] | str, locate: Locate) -> None:
    """Raise at the first row where `wrong` is true; the remedy may be parts, some of them parameters."""
    if wrong.any():
        got = repr(column.filter(wrong)[0])
        got = got if len(got) <= 60 else got[:57] + "..."
        parts = [remedy] if isinstance(remedy, str) else remedy
        raise DataError(f"{_first(wrong, locate)}: expected {expected} in column {column.name!r}, got {got}; ", *parts)


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
    _refuse(column, ~values.is_in([0.0, 1.0]), "0 or 1", RATINGS, locate)
    return values == 1


def _codes(ids: pl.Series) -> tuple[NDArray[Any], NDArray[Any]]:
    """The position of each id among the distinct ones, which are sorted."""
    labels = ids.unique().sort()
    return codes_of(ids, labels), labels.to_numpy()


def codes_of(ids: pl.Series, labels: pl.Series) -> NDArray[Any]:
    known = pl.DataFrame({"id": labels}).with_row_index("code")
    return pl.DataFrame({"id": ids}).join(known, on="id", how="left", maintain_order="left")["code"].to_numpy()


def _attribute(codes: NDArray[Any], column: pl.Series, n: int) -> NDArray[Any]:
    """The first value that is known of each client or product."""
    values = _clean(column) if _is_text(column.dtype) else column
    if values.dtype.is_float() or values.dtype.is_decimal():
        values = values.cast(pl.Float64).fill_nan(None)
    known = pl.DataFrame({"code": pl.Series(codes, dtype=pl.UInt32), "value": values}).drop_nulls()
    first = known.unique("code", keep="first", maintain_order=True)
    everyone = pl.DataFrame({"code": np.arange(n, dtype=np.uint32)})
    return everyone.join(first, on="code", how="left", maintain_order="left")["value"].to_numpy()


def require(names: Sequence[str], there: Sequence[str], place: str) -> None:
    for name in names:
        if there.count(name) == 1:
            continue
        if name in there:
            raise DataError(f"{place}: expected one column named {name!r}, got {there.count(name)}; rename the others")
        near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(f"{place}: no column named {name!r}{hint} (columns: {', '.join(there)})")


def one_line(error: Exception) -> str:
    return " ".join(str(error).strip().partition("\n")[0].split())
