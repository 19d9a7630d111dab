"""The log is one JSON object per line, with the fields that were given."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime

from ocular.web.logs import LogFormatter


def entry(level: int, message: str, **extra: object) -> dict[str, object]:
    logger = logging.getLogger("ocular.web.test_logs")
    given = extra.pop("exc_info", None)
    record = logger.makeRecord(logger.name, level, "file.py", 1, message, ("one",), given, extra=extra)  # type: ignore[arg-type]
    line = LogFormatter().format(record)
    assert "\n" not in line
    return json.loads(line)


def test_an_entry_has_time_level_event_and_its_fields() -> None:
    found = entry(logging.INFO, "serving the model %s", request="0a1b", status=200, color_message="\x1b[32m")
    at = datetime.fromisoformat(str(found.pop("at")))
    assert at.tzinfo is not None
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60
    assert found.pop("process") == os.getpid()
    assert found == {"level": "info", "event": "serving the model one", "request": "0a1b", "status": 200}


def test_an_exception_is_traced_in_the_same_line() -> None:
    try:
        _ = 1 / 0
    except ZeroDivisionError as error:
        found = entry(logging.ERROR, "failed: %s ü", exc_info=(type(error), error, error.__traceback__))
    assert (found["level"], found["event"]) == ("error", "failed: one ü")
    assert "ZeroDivisionError" in str(found["trace"])
