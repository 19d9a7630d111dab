"""ocular diff: what a refit changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocular.cli.present import Row, format_option, render

if TYPE_CHECKING:
    from ocular.changes.patterns import PatternChange

MAX_ROWS = 20  # of each table


@click.command(short_help="Show what a refit changed.")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("-n", "count", type=click.IntRange(min=1), default=10, show_default=True, help="Products per client.")
@click.option(
    "--client", "clients", multiple=True, metavar="NAME", help="Show this client's recommendations only; repeatable."
)
@format_option("table", "json", "csv")
def diff(old: Path, new: Path, count: int, clients: tuple[str, ...], form: str) -> None:
    """
    Show what changed from the model folder OLD to the model folder NEW: recommendations that came and went, and why.

    \b
    ocular diff monday tuesday
    ocular diff monday tuesday --client "Acme Ltd"
    ocular diff monday tuesday --format csv > changes.csv

    \b
    bought meanwhile  the client has bought it
    new evidence      its score rose; detail names the kind that rose most, and its part of the score before and after
    evidence gone     its score fell
    displaced         its score is about the same, and others overtook it
    moved up          its score is about the same, and others dropped out
    returned          the client does not own it any more
    client new, client gone, product new, product gone, allowed now, excluded now

    The table shows the first rows; CSV has all recommendations, JSON also all patterns with the members that joined and
    left.
    """
    from ocular.changes.compare import compare_models
    from ocular.model import fitted_parameters, load

    before, after = load(old), load(new)
    parameters = fitted_parameters(before), fitted_parameters(after)
    differing = [f"{name} {parameters[0][name]} → {value}" for name, value in parameters[1].items()
                 if name != "init" and parameters[0][name] != value]  # fmt: skip
    if differing:  # then the scores differ for that reason too
        click.echo(f"note: the models have other parameters: {', '.join(differing)}", err=True)
    changes = compare_models(before, after, count, clients or None)
    if form == "json":
        click.echo(json.dumps(changes.to_dict(), indent=2, ensure_ascii=False))
        return
    if form == "csv":
        click.echo(render(changes.rows(), "csv"))
        return
    click.echo(changes.summary())
    _show([_short(row) for row in changes.rows(MAX_ROWS)], len(changes.pairs.why), "recommendations; --format csv")
    if not clients:
        _show(
            [_pattern_row(change) for change in changes.patterns[:MAX_ROWS]],
            len(changes.patterns),
            "patterns; --format json",
        )


def _show(rows: list[Row], n_all: int, rest: str) -> None:
    if rows:
        click.echo(f"\n{render(rows, 'table')}")
    if n_all > len(rows):
        click.echo(f"… {n_all - len(rows):,} more {rest} has all")


def _short(row: Row) -> Row:
    names = {"old_confidence": "before", "new_confidence": "now"}
    left_out = ("old_price", "new_price")
    return {names.get(name, name): value for name, value in row.items() if name not in left_out}


def _pattern_row(change: PatternChange) -> Row:
    return {
        "pattern": change.number,
        "label": change.label,
        "status": change.status,
        "was": change.old_number if change.old_number != change.number else None,
        "members": change.members_text(),
    }
