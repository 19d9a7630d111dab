"""What all commands share when they print: rows as a table, JSON or CSV, messages, notes."""

from __future__ import annotations

import csv
import io
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ocular.errors import Parameter, Phrased
from ocular.explain.names import one_line
from ocular.storage import escape_formula, write_file

Row = dict[str, Any]
MAX_WIDTH = 100_000  # of a table that does not go to a terminal: nothing is cut off

# parameters whose option is not their name with dashes
OPTIONS = {
    "n_coclusters": "--coclusters",
    "n_threads": "--threads",
    "weights": "--weight",
    "random_state": "--seed",
    "client_attributes": "--client-attribute",
    "product_attributes": "--product-attribute",
    "n_clients": "--clients",
    "n_products": "--products",
    "n_patterns": "--patterns",
    "n_jobs": "--jobs",
    "n_points": "--points",
    "M": "--at",
    "N": "-n",
}


class Interrupted(Exception):  # noqa: N818  it is no error
    """Ctrl-C ended a command; the message says what was skipped and how to go on."""


def as_option(parameter: Parameter) -> str:
    """Return a parameter that a message mentions as the option that the user types."""
    option = OPTIONS.get(parameter.name, f"--{parameter.name.replace('_', '-')}")
    return option if parameter.value is None or parameter.value is True else f"{option} {parameter.value}"


def phrase(message: object) -> str:
    """Return an error or a warning of the library in the words of the command line."""
    return message.phrase(as_option) if isinstance(message, Phrased) else str(message)


class Notes(logging.Handler):
    """Print what the library logs, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        message = phrase(record.msg) if isinstance(record.msg, Phrased) else record.getMessage()
        click.echo(f"note: {message}", err=True)


def format_option(*forms: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --format with these choices, the first by default."""
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
    """Return rows, which all have the same keys, as text: table, json, jsonl or csv."""
    if form == "json":
        return json.dumps(rows, indent=2, ensure_ascii=False)
    if form == "jsonl":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return _csv(rows) if form == "csv" else _table(rows)


def _csv(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: escape_formula(value) for name, value in row.items()} for row in rows)
    return out.getvalue().rstrip("\n")


def _table(rows: Sequence[Row]) -> str:
    """
    Return a plain table: aligned columns below a rule, without those that are empty in every row.

    On a terminal long texts wrap; in a pipe every row is one line of any length.
    """
    if not rows:
        return "nothing to show"
    from rich.box import Box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    rule_only = Box("    \n    \n ─  \n    \n    \n    \n    \n    \n")
    table = Table(box=rule_only, show_edge=False, padding=(0, 1, 0, 0), header_style="bold" if terminal else "")
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    for name in names:
        numeric = all(isinstance(row[name], int | float | None) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric or not terminal)
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in names))
    console = Console(file=io.StringIO(), force_terminal=terminal, width=None if terminal else MAX_WIDTH)
    with console.capture() as printed:
        console.print(table)
    return "\n".join(line.rstrip() for line in printed.get().rstrip("\n").splitlines())


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    text = f"{value:,.{2 if value >= 1 else 3}f}" if isinstance(value, float) else str(value)
    return one_line(text)  # a name with a line break must not break the table, nor one with an escape the terminal
