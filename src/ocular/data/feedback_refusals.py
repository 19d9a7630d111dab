"""Refusals in the feedback that the application stores: what sellers marked "Not a fit"."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ocular.data.databases import sql_frame
from ocular.data.tables import one_line
from ocular.errors import DataError
from ocular.feedback import NEUTRAL_REASONS, Status
from ocular.storage import escape_formula

COLUMNS = ("client", "product", "status", "reason")
QUERY = "SELECT client, product, status, reason FROM feedback ORDER BY id"
NEUTRAL = frozenset(reason.casefold() for reason in NEUTRAL_REASONS)

Pairs = list[tuple[str, str]]


def is_database(place: str) -> bool:
    return "://" in place


def is_feedback(place: str) -> bool:
    """Return whether a CSV file is the application's export of feedback, by its columns."""
    try:
        header = pl.read_csv(Path(place), n_rows=0, infer_schema=False).columns
    except (OSError, pl.exceptions.PolarsError):
        return False
    return set(COLUMNS) <= set(header)


def read_feedback_refusals(place: str) -> Pairs:
    """
    Return the pairs whose latest status is "not a fit", from the application's database or its export as CSV.

    Pairs whose reason says nothing against the product, as "Bad timing" does, are left out.
    """
    table = sql_frame(QUERY, place, COLUMNS) if is_database(place) else _export(place)
    latest = {(row["client"], row["product"]): row for row in table.iter_rows(named=True)}
    return [
        pair
        for pair, row in latest.items()
        if row["status"] == Status.NOT_A_FIT and str(row["reason"] or "").strip().casefold() not in NEUTRAL
    ]


def _export(place: str) -> pl.DataFrame:
    try:
        table = pl.read_csv(Path(place), infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{place} cannot be read as CSV ({one_line(error)}); export the feedback again") from error
    return table.with_columns(pl.col("client", "product").map_elements(_plain, return_dtype=pl.String))


def _plain(name: str) -> str:
    """Return a name without the mark that the export puts before what a spreadsheet would take for a formula."""
    return name[1:] if name.startswith("'") and escape_formula(name[1:]) == name else name
