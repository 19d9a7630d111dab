"""CSV files, written some lines at a time, which a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from fastapi.responses import StreamingResponse

from ocular.storage import escape_formula

CHUNK = 500  # lines


def csv_lines(columns: Sequence[str], rows: Iterable[dict[str, object]]) -> Iterator[str]:
    """Yield a header and the rows as text, CHUNK lines at a time."""
    yield "\ufeff" + _lines([columns])  # by this mark Excel knows that it is UTF-8
    cells = ([escape_formula(row[name]) for name in columns] for row in rows)
    while chunk := list(islice(cells, CHUNK)):
        yield _lines(chunk)


def _lines(rows: Iterable[Sequence[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue()


def download(name: str, columns: Sequence[str], rows: Iterable[dict[str, object]]) -> StreamingResponse:
    """Return a CSV file for download."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(csv_lines(columns, rows), media_type="text/csv; charset=utf-8", headers=headers)
