"""Rows as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ocular.errors import Parameter, Phrased
from ocular.explain.names import one_line
from ocular.storage import escape_formula, write_file

Row = dict[str, Any]

# parameters whose option is not their name with dashes
OPTIONS = {
    "n_coclusters": "--coclusters",
    "n_threads": "--threads",
    "random_state": "--seed",
    "n_clients": "--clients",
    "n_products": "--products",
    "n_patterns": "--patterns",
}


def as_option(parameter: Parameter) -> str:
    """Return a parameter that a message mentions as the option that the user types."""
    option = OPTIONS.get(parameter.name, f"--{parameter.name.replace('_', '-')}")
    return option if parameter.value in (None, True) else f"{option} {parameter.value}"


def phrase(message: object) -> str:
    """Return an error or a warning of the library in the words of the command line."""
    return message.phrase(as_option) if isinstance(message, Phrased) else str(message)


class Notes(logging.Handler):
    """Shows what the library logs as one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"note: {record.getMessage()}", err=True)


def format_option(*forms: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--format with these choices, the first by default."""
    return click.option(
        "--format", "form", type=click.Choice(forms), default=forms[0], show_default=True, help="How to print."
    )


def deliver(text: str, output: Path | None) -> None:
    """Print, or write to a file and say so."""
    if output is None:
        click.echo(text)
        return
    write_file(output, lambda file: file.write(f"{text}\n".encode()))
    click.echo(f"written to {output}")


def render(rows: Sequence[Row], form: str) -> str:
    """All rows, which have the same keys, as text."""
    if form == "json":
        return json.dumps(rows, indent=2, ensure_ascii=False)
    if form == "csv":
        return _csv(rows)
    return _table(rows)


def _csv(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: escape_formula(value) for name, value in row.items()} for row in rows)
    return out.getvalue().rstrip("\n")


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return "nothing to show"
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    cells = [[_cell(row[name]) for name in names] for row in rows]
    right = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
    widths = [max(len(name), *(len(line[k]) for line in cells)) for k, name in enumerate(names)]
    lines = [names, ["─" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            text.rjust(w) if r else text.ljust(w) for text, w, r in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    text = f"{value:,.{2 if value >= 1 else 3}f}" if isinstance(value, float) else str(value)
    return one_line(text)  # a name with a line break must not break the table, nor one with an escape the terminal
