"""
Feedback as a test: does a model rank what sellers took up above what they refused?

The file is the feedback that the application exports, with the columns client, product and status, oldest first; the
latest status of a pair counts. What is snoozed was neither taken up nor refused and is left out. Models are fitted
without the other pairs, since what was won is in the purchases by now.
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
from ocular.feedback import REFUSED, TAKEN_UP, Status
from ocular.storage import escape_formula

COLUMNS = ("client", "product", "status")


class FeedbackPairs(NamedTuple):
    """Client–product pairs with the latest status of each."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    taken_up: NDArray[np.bool_]  # pursuing or won; the others are not a fit or lost
    n_unknown: int = 0  # pairs of clients or products that are not in the purchases


def read_feedback(path: Path, interactions: Interactions) -> FeedbackPairs:
    """Read the application's export; raise DataError where it cannot serve as a test."""
    try:
        table = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path} cannot be read as CSV ({reason}); export the feedback again") from error
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise DataError(f"expected the columns {', '.join(COLUMNS)} in {path}, got none named {', '.join(missing)}")
    latest = {(row["client"], row["product"]): row["status"] for row in table.iter_rows(named=True)}
    unknown_statuses = sorted({str(status) for status in latest.values()} - set(Status))
    if unknown_statuses:
        raise DataError(f"expected a status of {', '.join(Status)} in {path}, got {unknown_statuses[0]!r}")
    latest = {pair: status for pair, status in latest.items() if status in TAKEN_UP | REFUSED}
    # the export marks names that a spreadsheet would take for formulas
    users = {escape_formula(name): row for name, row in interactions.user_rows.items()}
    items = {escape_formula(name): row for name, row in interactions.item_rows.items()}
    known = {pair: status for pair, status in latest.items() if pair[0] in users and pair[1] in items}
    taken_up = np.array([status in TAKEN_UP for status in known.values()], dtype=bool)
    if taken_up.all() or not taken_up.any():
        raise DataError(
            f"expected recommendations that were taken up and others that were refused in {path}, "
            f"got {int(taken_up.sum())} and {int((~taken_up).sum())} of clients and products in the purchases"
        )
    user_ids = np.array([users[client] for client, _ in known], dtype=np.int64)
    item_ids = np.array([items[product] for _, product in known], dtype=np.int64)
    return FeedbackPairs(user_ids, item_ids, taken_up, len(latest) - len(known))


def without_feedback(interactions: Interactions, pairs: FeedbackPairs) -> Interactions:
    """Return the purchases without the pairs that have feedback."""
    bought = interactions.pair_users.astype(np.int64) * interactions.n_items + interactions.by_user.indices
    return interactions.where(~np.isin(bought, pairs.users * interactions.n_items + pairs.items))


def feedback_auc(model: Any, pairs: FeedbackPairs) -> float:
    """
    Return the probability that a pair taken up scores higher than one refused: 0.5 is chance, 1 is perfect.

    What the model never recommends, because its fit excluded it, scores lowest.
    """
    users, rows = np.unique(pairs.users, return_inverse=True)
    items, columns = np.unique(pairs.items, return_inverse=True)
    ids, scores = model.recommend(users, N=len(items), items=items, filter_already_liked_items=False)
    found = ids >= 0
    table = np.full((len(users), len(items)), scores[found].min(initial=0.0) - 1.0)
    table[np.nonzero(found)[0], np.searchsorted(items, ids[found])] = scores[found]
    return float(roc_auc_score(pairs.taken_up, table[rows, columns]))
