"""A saved model on purchases that it has not seen."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ocular.data.interactions import Interactions
from ocular.errors import DataError
from ocular.evaluation.matching import pair_codes, rows_by_label
from ocular.evaluation.metrics import Scores, measure
from ocular.model import OCuLaR


def measure_saved(model: OCuLaR, purchases: Interactions, M: int = 50) -> tuple[Scores, int, int]:
    """
    Measure how well a fitted model finds purchases made since, without fitting anything.

    What the model was fitted on is left out, and so are clients and products that it does not know. Returned are the
    scores, the number of new pairs that they are of, and the number of those with a client or product unknown to it.
    """
    known = model.interactions_
    users = rows_by_label(known.user_rows, purchases.user_labels)
    items = rows_by_label(known.item_rows, purchases.item_labels)
    codes = pair_codes(purchases, users, items, known.n_items)
    unknown = int((codes < 0).sum())
    fitted = pair_codes(known, np.arange(known.n_users), np.arange(known.n_items), known.n_items)
    new = np.setdiff1d(codes[codes >= 0], fitted)
    if len(new) == 0:
        raise DataError(
            "expected purchases that the model was not fitted on, of clients and products that it knows, got none; "
            "give purchases made since"
        )
    held_out = sp.csr_array((np.ones(len(new), dtype=np.float32), divmod(new, known.n_items)), shape=known.shape)
    return measure(model, known, held_out, M=M), len(new), unknown
