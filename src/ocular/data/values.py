"""Columns of names, numbers and dates as people write them: each is converted whole, or its first bad row is named."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ocular.errors import ConfigError, DataError, Parameter

_log = logging.getLogger("ocular")

Locate = Callable[[int], str]  # row of a frame -> where the user finds it: "sales.csv, line 7"
Remedy = Sequence[Any]  # parts of a message, some of them parameters

MAX_SHOWN = 60  # characters of a bad value in a message
MIN_YEAR = 1900
SPELLINGS = {" ": "[ \u00a0\u202f]", "'": "['’]"}  # of a separator of thousands: spaces may be unbreakable


@dataclass(frozen=True)
class Formats:
    """How numbers and dates are written in text."""

    decimal: str = "."
    thousands: str | None = None
    date_format: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("decimal", self.decimal), ("thousands", self.thousands)):
            if value is None and name == "thousands":
                continue
            if not isinstance(value, str) or len(value) != 1 or value.isalnum() or value in "+-":
                raise ConfigError("expected ", Parameter(name), f" to be one character such as . or , got {value!r}")
        if self.decimal == self.thousands:
            raise ConfigError(
                "expected ", Parameter("decimal"), " and ", Parameter("thousands"),
                f" to differ, got {self.decimal!r} for both",
            )  # fmt: skip
        if self.date_format is not None and "%" not in self.date_format:
            raise _bad_date_format(self.date_format)


PLAIN = Formats()


def refuse(
    column: pl.Series, wrong: pl.Series, expected: str, remedy: Remedy | Callable[[Any], Remedy], locate: Locate
) -> None:
    """Raise at the first row where `wrong` is true; the remedy may depend on the value there."""
    if wrong.any():
        value = column.filter(wrong)[0]
        shown = repr(value)
        shown = shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 3] + "..."
        place = locate(wrong.arg_true()[0])
        parts = remedy(value) if callable(remedy) else remedy
        raise DataError(f"{place}: expected {expected} in column {column.name!r}, got {shown}; ", *parts)


def clean(text: pl.Series) -> pl.Series:
    """Return text without surrounding white space, null where nothing is left."""
    return text.cast(pl.String).str.strip_chars().replace("", None)


def is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null)


def to_ids(column: pl.Series, locate: Locate) -> pl.Series:
    """Return the keys of clients or products: text or whole numbers, null where none is given."""
    if is_text(column.dtype):
        return clean(column)
    if column.dtype.is_integer():
        # labels are int64; narrower numbers stay as they are, which saves gigabytes on 100M rows
        numbers = column.cast(pl.Int64, strict=False) if column.dtype == pl.UInt64 else column
        wrong = column.is_not_null() & numbers.is_null()
        refuse(column, wrong, "whole numbers below 2^63", ["convert the column to text"], locate)
        return numbers
    if column.dtype.is_float() or column.dtype.is_decimal():
        # pandas turns whole numbers into floats as soon as one is missing; above 2^53 they have lost digits
        numbers = column.cast(pl.Float64).fill_nan(None)
        wrong = (numbers != numbers.floor()) | (numbers.abs() >= 2.0**53)
        refuse(column, wrong, "names or whole numbers", ["convert the column to text or integers"], locate)
        return numbers.cast(pl.Int64)
    raise DataError(
        f"expected names or whole numbers in column {column.name!r}, got {column.dtype}; convert the column to text"
    )


# Numbers


def to_numbers(column: pl.Series, locate: Locate, formats: Formats = PLAIN) -> pl.Series:
    """Return a column as Float64, null where nothing is given."""
    if is_text(column.dtype):
        text = clean(column)
        numbers = _parsed(text, formats)
        wrong = text.is_not_null() & numbers.is_null()
        refuse(column, wrong, "a number", lambda value: _number_remedy(value.strip(), formats), locate)
        if formats.decimal == "." and formats.thousands is None:
            _note_thousands(text)
    elif column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
    else:
        raise DataError(f"expected numbers in column {column.name!r}, got {column.dtype}")
    numbers = numbers.fill_nan(None)
    refuse(column, numbers.is_infinite(), "a finite number", ["leave it empty"], locate)
    return numbers


def _parsed(text: pl.Series, formats: Formats) -> pl.Series:
    """Thousands count only in groups of three: with thousands="." 12.5 is an error and not 125."""
    if formats.thousands is not None:
        separator = SPELLINGS.get(formats.thousands, re.escape(formats.thousands))
        grouped = text.str.contains(rf"^[+-]?\d{{1,3}}(?:{separator}\d{{3}})+(?:{re.escape(formats.decimal)}\d*)?$")
        text = text.str.replace_all(separator, "").zip_with(grouped.fill_null(False), text)
    if formats.decimal != ".":
        points = text.str.contains(".", literal=True).fill_null(False)
        text = text.str.replace(formats.decimal, ".", literal=True).set(points, None)
    return text.cast(pl.Float64, strict=False)


def _note_thousands(text: pl.Series) -> None:
    """Say so where every number with a point may be thousands: 1.200 is 1200 in German, and 1.2 here."""
    pointed = text.filter(text.str.contains(".", literal=True).fill_null(False))
    if len(pointed) and pointed.str.contains(r"^[+-]?[1-9]\d{0,2}\.\d{3}$").all():
        first = pointed[0]
        _log.warning(
            'column %r: %s was read as %s; pass decimal="," and thousands="." if it is %s',
            text.name,
            first,
            f"{float(first):.15g}",
            first.replace(".", ""),
        )


def _number_remedy(value: str, formats: Formats) -> Remedy:
    """Return what to pass so that a number of this form can be read."""
    comma, point = Parameter("decimal", '","'), Parameter("decimal", '"."')
    by_point, by_comma = Parameter("thousands", '"."'), Parameter("thousands", '","')
    forms: tuple[tuple[str, Remedy], ...] = (
        (r"\d{1,3}(\.\d{3})+,\d*|\d{1,3}(\.\d{3}){2,}", ["pass ", comma, " and ", by_point]),
        (r"\d{1,3}(,\d{3})+\.\d*|\d{1,3}(,\d{3}){2,}", ["pass ", by_comma]),
        (r"\d{1,3},\d{3}", ["pass ", comma, " where this is about one, ", by_comma, " where it is a thousand or more"]),
        (r"\d+,\d*", ["pass ", comma]),
        (r"\d{1,3}([ \u00a0\u202f]\d{3})+(\.\d*)?", ["pass ", Parameter("thousands", '" "')]),
        (r"\d{1,3}([ \u00a0\u202f]\d{3})+,\d*", ["pass ", comma, " and ", Parameter("thousands", '" "')]),
        (r"\d{1,3}(['’]\d{3})+(\.\d*)?", ["pass ", Parameter("thousands", '"\'"')]),
        (r"\d+\.\d*", ["pass ", point]),
    )
    for form, remedy in forms:
        if re.fullmatch(f"[+-]?(?:{form})", value) and not _clashes(remedy, formats):
            return remedy
    return [f"write it like 1234{formats.decimal}5, or leave it empty where it is not known"]


def _clashes(remedy: Remedy, formats: Formats) -> bool:
    """Whether what a remedy passes would make the decimal sign that of thousands, which is refused."""
    passed = {part.name: part.value for part in remedy if isinstance(part, Parameter)}
    return (passed.get("decimal") == f'"{formats.thousands}"' and "thousands" not in passed) or (
        passed.get("thousands") == f'"{formats.decimal}"' and "decimal" not in passed
    )


# Dates

_CLOCKS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M")
_ZONED_CLOCKS = ("%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z")


def to_times(column: pl.Series, locate: Locate, formats: Formats = PLAIN) -> pl.Series:
    """Return a column as Datetime in UTC without a time zone, null where nothing is given."""
    if column.dtype in (pl.Date, pl.Datetime):
        return _in_utc(column)
    numeric = column.dtype.is_numeric()
    if not numeric and not is_text(column.dtype):
        raise DataError(f"expected dates in column {column.name!r}, got {column.dtype}")
    if formats.date_format is not None:
        text = clean(to_numbers(column, locate).cast(pl.Int64) if column.dtype.is_float() else column)
        times = _formatted(text, formats.date_format)
        expected, remedy = f"a date like {formats.date_format}", ["check ", Parameter("date_format")]
        refuse(column, text.is_not_null() & times.is_null(), expected, remedy, locate)
        # %Y takes 24 for the year 24, and without a year it is the year 1
        remedy = ["pass a ", Parameter("date_format"), " with %Y for a year of four digits, %y for one of two"]
        refuse(column, times.dt.year() < MIN_YEAR, f"a date from {MIN_YEAR} on", remedy, locate)
        return times
    if numeric:
        return _epoch_times(column, to_numbers(column, locate), locate)
    text = clean(column)
    seconds = text.cast(pl.Int64, strict=False)
    if seconds.null_count() == text.null_count():
        return _epoch_times(column, seconds, locate)
    iso = text.str.replace("T", " ", literal=True).str.replace("Z$", "+00:00")
    times = pl.Series(column.name, [], pl.Datetime("ms")).extend_constant(None, len(iso))
    for clock in (*_CLOCKS, *_ZONED_CLOCKS):
        parsed = _in_utc(iso.str.to_datetime(clock, time_unit="ms", strict=False))
        times = times.zip_with(times.is_not_null(), parsed)
        if times.null_count() == text.null_count():
            return times
    refuse(column, text.is_not_null() & times.is_null(), "a date", _date_remedy, locate)
    return times


def _in_utc(times: pl.Series) -> pl.Series:
    if getattr(times.dtype, "time_zone", None) is not None:
        times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return times.cast(pl.Datetime("ms"))


def _formatted(text: pl.Series, date_format: str) -> pl.Series:
    try:
        return _in_utc(text.str.to_datetime(date_format, time_unit="ms", strict=False))
    except pl.exceptions.PolarsError as error:
        raise _bad_date_format(date_format) from error


def _bad_date_format(date_format: str) -> ConfigError:
    return ConfigError(
        "expected ", Parameter("date_format"), f" to name day, month and year, as %d.%m.%Y does, got {date_format!r}"
    )  # fmt: skip


def _date_remedy(value: str) -> Remedy:
    """Return what to pass so that a date of this form can be read."""
    parts = re.fullmatch(r"(\d{1,2}([./-])\d{1,2}\2\d{4})( \d{1,2}:\d{2}(:\d{2})?)?", value.strip())
    if not parts:
        form = "write it like 2024-01-31 or 2024-01-31 14:30:00, or leave it empty where it is not known; other forms: "
        return [form, Parameter("date_format")]
    sign, clock, seconds = parts[2], parts[3], parts[4]
    rest = f"{sign}%Y" + (" %H:%M" if clock else "") + (":%S" if seconds else "")
    day_first = Parameter("date_format", f'"%d{sign}%m{rest}"')
    if sign == ".":
        return ["pass ", day_first]
    return ["pass ", day_first, " or, where the month comes first, ", Parameter("date_format", f'"%m{sign}%d{rest}"')]


def _epoch_times(column: pl.Series, seconds: pl.Series, locate: Locate) -> pl.Series:
    # dates written as 20240131 and milliseconds would pass as seconds, of 1970 or of the year 50,000
    wrong = seconds.is_between(19_000_101, 21_001_231) | (seconds.abs() > 1e11)
    remedy = ["write it like 2024-01-31, or pass ", Parameter("date_format", '"%Y%m%d"'), " for dates like 20240131"]
    refuse(column, wrong, "seconds since 1970 or ISO dates", remedy, locate)
    return (seconds.cast(pl.Int64) * 1000).cast(pl.Datetime("ms"))
