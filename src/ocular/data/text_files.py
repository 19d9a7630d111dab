"""CSV and its relatives: polars reads them, and a slow reader tells the line where one is broken."""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from ocular.data.encodings import as_utf8, decode_utf8, open_plain
from ocular.data.tables import one_line, require
from ocular.data.values import Locate
from ocular.errors import DataError

STANDARD_INPUT = "standard input"


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

    content: Path | bytes  # UTF-8
    name: str
    separator: str = ","

    def lines(self) -> Iterator[str]:
        with open_plain(self.content) as file:
            for number, line in enumerate(file, start=1):
                yield decode_utf8(line, number, self.name)

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
            raise DataError(f"{self.name}: expected a header and rows, got an empty file")
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
                    f"{self.name}, line {record.line}: expected {len(header)} fields as in the header, "
                    f"got {len(record.fields)}; put fields that contain {self.separator!r} in quotes"
                )
            elif record.text.count('"') % 2:
                raise self._broken_quotes(record.line, "a single quote in a field")
        return blank

    def locate(self, row: int) -> str:
        rows = (record for record in self.header_and_rows()[1] if not record.blank)
        return f"{self.name}, line {next(islice(rows, row, None)).line}"

    def _broken_quotes(self, line: int, got: str) -> DataError:
        return DataError(
            f"{self.name}, line {line}: expected closed quotes, got {got}; "
            'put the field in quotes and double the quotes inside, as in "5"" pipe"'
        )


def text_frame(
    source: Path | bytes,
    names: Sequence[str],
    encoding: str | None = None,
    constants: Mapping[str, str | None] | None = None,
) -> tuple[pl.DataFrame, Locate]:
    """
    Return the columns of a CSV, TSV or TXT file, all as text, and how to find the line of a row.

    Constants are columns that the file does not have itself: its folder says what they are.
    """
    name = STANDARD_INPUT if isinstance(source, bytes) else source.name
    try:
        content = as_utf8(source, name, encoding)
        first = next((line for line in _TextFile(content, name).lines() if line.strip()), "")
        unquoted = re.sub('"[^"]*"', "", first)
        file = _TextFile(content, name, max(",\t;|", key=unquoted.count))
        header, _ = file.header_and_rows()
        given = {key: value for key, value in (constants or {}).items() if key not in header}
        require(names, [*header, *given], name)
        try:
            frame = pl.read_csv(content, separator=file.separator, infer_schema=False, glob=False)
        except pl.exceptions.PolarsError as error:
            file.check()
            raise DataError(f"{name}: expected {len(header)} columns of text, got {one_line(error)}") from error
        if frame.is_empty():
            raise DataError(f"{name}: expected rows after the header, got none")
        # polars fills a row that is too short with nulls, the last column for certain
        blank = file.check() if frame.to_series(-1).null_count() else []
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: expected a file that can be read, got {one_line(error)}") from error
    chosen = pl.DataFrame({key: frame.to_series(header.index(key)) for key in names if key not in given})
    if blank:
        chosen = chosen.filter(np.isin(np.arange(len(chosen)), blank, invert=True))
    added = (pl.lit(value, pl.String).alias(key) for key, value in given.items() if key in names)
    return chosen.with_columns(*added).select(names), file.locate
