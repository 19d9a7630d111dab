"""Tables for notebooks: what Jupyter shows where an object has `_repr_html_`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from numbers import Integral, Real
from typing import Any

from ocular.explain.names import one_line

MAX_ROWS = 20  # that a table shows before it says how many more there are


def html_table(rows: Sequence[Mapping[str, Any]], caption: str = "", max_rows: int = MAX_ROWS) -> str:
    """
    Return rows as a plain HTML table with the keys of the first as its header; all text is escaped.

    Numbers are short and aligned to the right, and what is not known (None or nan) is left empty.

    >>> html_table([{"product": "<saw>", "score": 0.25}])
    '<table><thead><tr><th>product</th><th>score</th></tr></thead><tbody><tr><td style="text-align: left">&lt;saw&gt;</td><td style="text-align: right">0.25</td></tr></tbody></table>'
    """  # noqa: E501  one line of output
    columns = list(rows[0]) if rows else []
    head = "".join(f"<th>{escape(one_line(str(column)))}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(row.get(name)) for name in columns)}</tr>" for row in rows[:max_rows])
    if len(rows) > max_rows:
        more = f"{len(rows) - max_rows:,} more"
        body += f'<tr><td colspan="{len(columns)}" style="text-align: left">… {more}</td></tr>'
    title = f'<caption style="text-align: left">{escape(one_line(caption))}</caption>' if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return f'<td style="text-align: {"right" if number else "left"}">{escape(_text(value))}</td>'


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool) or not isinstance(value, Real):
        return "" if value is None else one_line(str(value))
    if isinstance(value, Integral):
        return f"{int(value):,}"
    number = float(value)
    return "" if math.isnan(number) else f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
