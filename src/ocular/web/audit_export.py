"""The audit log as lines for other systems: JSON, and syslog by RFC 5424."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator

from ocular.web.audit import COLUMNS, AuditFilter
from ocular.web.database import Database, read_by_id
from ocular.web.tables import AuditEntry

PRIORITY = 13 * 8 + 5  # log audit, notice
PRIVATE = "ocular@32473"  # the number that RFC 5612 reserves for examples: we have none of our own


def exported_entries(database: Database, selection: AuditFilter) -> Iterator[dict[str, object]]:
    """Yield the selected entries with number and digest, oldest first."""
    for row in read_by_id(database, AuditEntry, selection.query()):
        named = {name: getattr(row, name) for name in COLUMNS}
        yield {"id": row.id} | named | {"at": row.at.isoformat(), "digest": row.digest}


def json_line(row: dict[str, object]) -> str:
    return json.dumps(row, ensure_ascii=False)


def syslog_line(row: dict[str, object]) -> str:
    """Return an entry as a line of syslog; line breaks and other control characters become spaces."""
    host = re.sub(r"[^!-~]", "", socket.gethostname())[:255] or "-"
    names = ("id", "name", "action", "subject", "address", "token", "digest")
    fields = " ".join(f'{name}="{_value(row[name])}"' for name in names)
    text = _plain(f"{row['name']} {row['action']} {row['subject']}".strip())
    return f"<{PRIORITY}>1 {row['at']} {host} ocular - audit [{PRIVATE} {fields}] \ufeff{text}"


def _value(value: object) -> str:
    return re.sub(r'(["\\\]])', r"\\\1", _plain(str(value)))


def _plain(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text)


FORMATS: dict[str, Callable[[dict[str, object]], str]] = {"jsonl": json_line, "syslog": syslog_line}
