"""Tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any


def html_table(rows: Sequence[Mapping[str, Any]], caption: str = "") -> str:
    """Return rows of equal columns as an HTML table; None is an empty cell."""
    if not rows:
        return f"<p>{escape(caption)}: none</p>"
    head = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(_cell(value) for value in row.values())}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"
