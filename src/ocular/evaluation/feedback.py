"""
What people made of recommendations, as a test: does a model put what they took up above what they refused?

The file is the feedback that the application exports: columns client, product and verdict, oldest first; the last word
on a pair counts. Models are fitted without the pairs that were judged, since what was won is in the purchases by now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from ocular.data.interactions import Interactions
from ocular.errors import DataError
from ocular.storage import escape_formula

TAKEN, REFUSED = ("pursue", "won"), ("not relevant", "lost")


class Judged(NamedTuple):
    """Pairs of the history that people judged."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    taken: NDArray[np.bool_]
    unknown: int  # pairs of clients or products that are not in the history


def read_judged(path: Path, history: Interactions) -> Judged:
    try:
        table = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{path} can not be read as CSV ({str(error).splitlines()[0]}); export the feedback again"
        ) from error
    missing = {"client", "product", "verdict"} - set(table.columns)
    if missing:
        raise DataError(
            f"expected the columns client, product and verdict in {path}, got none named {', '.join(missing)}"
        )
    last = {(row["client"], row["product"]): row["verdict"] for row in table.iter_rows(named=True)}
    strange = sorted({str(verdict) for verdict in last.values()} - {*TAKEN, *REFUSED})
    if strange:
        raise DataError(f"expected verdicts of {', '.join(TAKEN + REFUSED)} in {path}, got {strange[0]!r}")
    # the export marks names that a spreadsheet would take for formulas
    users, items = (
        {escape_formula(name): row for name, row in rows.items()} for rows in (history.user_rows, history.item_rows)
    )
    known = {pair: verdict for pair, verdict in last.items() if pair[0] in users and pair[1] in items}
    taken = np.array([verdict in TAKEN for verdict in known.values()], dtype=bool)
    if taken.all() or not taken.any():
        raise DataError(
            f"expected recommendations that were taken up and others that were refused in {path}, "
            f"got {int(taken.sum())} and {int((~taken).sum())} of clients and products in the purchases"
        )
    rows, columns = (
        np.array(ids, dtype=np.int64) for ids in zip(*((users[c], items[p]) for c, p in known), strict=True)
    )
    return Judged(rows, columns, taken, len(last) - len(known))


def leave_out(history: Interactions, judged: Judged) -> Interactions:
    """The purchases without the pairs that were judged."""
    pairs = history.pair_users.astype(np.int64) * history.n_items + history.by_user.indices
    return history.where(~np.isin(pairs, judged.users * history.n_items + judged.items))


def measure_judged(model: Any, judged: Judged) -> float:
    """How likely it is that a pair that was taken up has a higher score than one that was refused: 0.5 is chance."""
    users, row = np.unique(judged.users, return_inverse=True)
    items, column = np.unique(judged.items, return_inverse=True)
    ids, scores = model.recommend(users, N=len(items), items=items, filter_already_liked_items=False)
    table = np.empty((len(users), len(items)))
    np.put_along_axis(table, np.searchsorted(items, ids), scores, axis=1)
    return float(roc_auc_score(judged.taken, table[row, column]))
