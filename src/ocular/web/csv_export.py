"""CSV files, written some lines at a time, which a spreadsheet opens without running anything."""

from __future__ import annotations

import csv
import io
import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import islice

from anyio import fail_after
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from ocular.storage import escape_formula
from ocular.web.auth import Visitor
from ocular.web.errors import TooManyError

CHUNK = 500  # lines
MAX_OPEN, RETRY = 3, 10  # downloads of one person at once; seconds after which another attempt is worthwhile
STALLED = 60.0  # seconds that a chunk may take

_log = logging.getLogger("ocular.web")


def csv_lines(columns: Sequence[str], rows: Iterable[dict[str, object]]) -> Generator[str]:
    """Yield a header and the rows as text, CHUNK lines at a time."""
    yield "\ufeff" + _lines([columns])  # by this mark Excel knows that it is UTF-8
    cells = ([escape_formula(row[name]) for name in columns] for row in rows)
    while chunk := list(islice(cells, CHUNK)):
        yield _lines(chunk)


def _lines(rows: Iterable[Sequence[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue()


class Exports:
    """The CSV files that are being downloaded: nobody has more than MAX_OPEN at once, and none is waited for long."""

    def __init__(self) -> None:
        self._open, self._lock = Counter[int](), threading.Lock()

    def download(
        self, visitor: Visitor, name: str, columns: Sequence[str], rows: Iterable[dict[str, object]]
    ) -> StreamingResponse:
        """Return a CSV file for download."""
        person = visitor.user.id
        with self._lock:
            if self._open[person] >= MAX_OPEN:
                raise TooManyError(f"expected at most {MAX_OPEN} downloads at once; wait for one to end", RETRY)
            self._open[person] += 1
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return _Download(csv_lines(columns, rows), headers, partial(self._close, person))

    def _close(self, person: int) -> None:
        with self._lock:
            self._open[person] -= 1


class _Download(StreamingResponse):
    """Lines that are sent one chunk after the other, until somebody goes away or takes none for STALLED seconds."""

    def __init__(self, lines: Generator[str], headers: dict[str, str], close: Callable[[], None]) -> None:
        super().__init__(lines, media_type="text/csv; charset=utf-8", headers=headers)
        self._lines, self._close = lines, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            with fail_after(STALLED):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except (TimeoutError, ClientDisconnect):
            _log.info("a download was given up: nobody took it")
        finally:
            self._lines.close()
            self._close()
