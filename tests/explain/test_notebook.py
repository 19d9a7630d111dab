"""Tables for notebooks: text is text, numbers are short."""

from __future__ import annotations

import re

import numpy as np

from ocular.explain.notebook import html_table


def cells(html: str) -> list[str]:
    return re.findall(r"<td[^>]*>([^<]*)</td>", html)


def test_text_is_never_markup() -> None:
    html = html_table([{"<b>": "<script>alert(1)</script>", "b": "a & b\nc"}], "<i>caption</i>")
    assert cells(html) == ["&lt;script&gt;alert(1)&lt;/script&gt;", "a &amp; b c"]
    assert "<th>&lt;b&gt;</th>" in html
    assert "&lt;i&gt;caption&lt;/i&gt;</caption>" in html


def test_numbers_are_short_and_what_is_not_known_is_empty() -> None:
    html = html_table(
        [
            {
                "a": 0.123456,
                "b": 1234567,
                "c": 12345.6,
                "d": None,
                "e": float("nan"),
                "f": True,
                "g": np.float32(0.5),
                "h": np.int64(9000),
            }
        ]
    )
    assert cells(html) == ["0.123", "1,234,567", "12,346", "", "", "True", "0.5", "9,000"]


def test_long_tables_say_how_many_more() -> None:
    html = html_table([{"n": n, "m": n} for n in range(1203)], max_rows=3)
    assert cells(html) == ["0", "0", "1", "1", "2", "2", "… 1,200 more"]


def test_no_rows_are_an_empty_table() -> None:
    assert html_table([]) == "<table><thead><tr></tr></thead><tbody></tbody></table>"
