"""The log: one JSON object per line, on standard error, for programs that collect it."""

from __future__ import annotations

import logging
import sys
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter


class LogFormatter(JsonFormatter):
    """Writes `level`, `event`, `process`, fields given as `extra`, `trace` for an exception, and `at` in UTC."""

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "message", "process"], timestamp="at", json_ensure_ascii=False,
            rename_fields={"levelname": "level", "message": "event", "exc_info": "trace"},
            reserved_attrs=[*RESERVED_ATTRS, "color_message"],  # uvicorn's message once more
        )  # fmt: skip

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return log_data | {"level": log_data["level"].lower()}


def configure_logs() -> None:
    """Send the log of the application and of the server to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    for name in ("ocular.web", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
