"""CSV files a line at a time, which a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from ocular.storage import inert


def csv_lines(columns: Sequence[str], rows: Iterable[dict[str, object]]) -> Iterator[str]:
    yield _line(columns)
    for row in rows:
        yield _line([inert(row[name]) for name in columns])


def _line(cells: Sequence[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()
