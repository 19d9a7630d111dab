"""
The back-test of a new model against the served one, on the same purchases.

Purchases that both models were fitted on are drawn at random and hidden from both: each model is fitted again with its
own parameters, without them and without a start, the served one on the purchases that it was made from, the new one
on today's. Both then recommend the same number of products to the same clients, from the products that both know,
leaving out whatever either has seen the client buy: `at` of them, but no more than a tenth of the products.

Neither has seen what it is asked for, and neither is asked for anything that it cannot know; what is left are the
differences in parameters and in purchases, which is what a refresh changes. A source that is damaged in a way that
counts do not show makes the new model worse at purchases that are known to be true. The new model may be worse by as
much as chance explains: with few purchases a gate on the mean alone would refuse at random.

Where purchases have dates, a second comparison hides what was first bought after a date, from both: can each foresee
what came next? It sees nothing of the days since, which is why the random one stays.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ocular.data.interactions import Interactions
from ocular.data.splits import latest_split, time_split
from ocular.errors import DataError
from ocular.evaluation.calibration import unfitted_twin
from ocular.evaluation.matching import pair_codes, rows_by_label
from ocular.evaluation.metrics import measure
from ocular.model import OCuLaR

MIN_PAIRS = 20  # to hide: fewer say nothing


class Backtest(NamedTuple):
    """What both models found of the hidden purchases."""

    recall: float  # of the new model
    served_recall: float
    standard_error: float  # of the difference, over clients
    at: int  # recommendations per client
    hidden: int  # purchases
    clients: int  # who made them

    @property
    def ratio(self) -> float:
        """How much the new model finds of what the served one finds; 1 where that finds nothing."""
        return self.recall / self.served_recall if self.served_recall > 0 else 1.0

    @property
    def may_be_chance(self) -> bool:
        """Whether the new model is no worse than chance explains: by less than two standard errors."""
        return self.served_recall - self.recall < 2 * self.standard_error


class _Side(NamedTuple):
    """One model in the numbering of the other: rows and columns there, −1 where it does not know them."""

    model: OCuLaR
    users: NDArray[np.int64]
    items: NDArray[np.int64]

    def codes(self, interactions: Interactions, n_items: int) -> NDArray[np.int64]:
        """Return the pairs of interactions with this side's clients and products, in the other numbering."""
        return pair_codes(interactions, self.users, self.items, n_items)


def compare_with_served(new: OCuLaR, served: OCuLaR, share: float, at: int, seed: int = 0) -> Backtest | None:
    """Return how both do on a random share of the purchases that both know; None where these are too few."""
    sides, allowed = _sides(new, served), _allowed(new, served)
    codes = [side.codes(side.model.interactions_, len(allowed)) for side in sides]
    common = _common(codes, allowed)
    n_hidden = round(share * len(common))
    if n_hidden < MIN_PAIRS or n_hidden == len(common):
        return None
    hidden = np.sort(np.random.default_rng(seed).choice(common, n_hidden, replace=False))
    shown = [side.model.interactions_.where(~np.isin(code, hidden)) for side, code in zip(sides, codes, strict=True)]
    return _compare(sides, shown, hidden, allowed, at)


def compare_by_date(new: OCuLaR, served: OCuLaR, share: float, at: int) -> Backtest | None:
    """
    Return how both foresee the purchases that both know as the latest, from those before them.

    The date is that after which the served model's clients made this share of their first purchases of a product.
    None where dates say little of what comes next, as in `latest_split`, or where the purchases are too few.
    """
    split = latest_split(served.interactions_, share)
    if split is None or split.test.purchases is None or split.test.purchases.time is None:
        return None
    date = np.nanmin(split.test.purchases.time)
    sides, allowed = _sides(new, served), _allowed(new, served)
    try:
        splits = [time_split(side.model.interactions_, date) for side in sides]
    except DataError:  # today's purchases have no dates, or none on one of its sides
        return None
    late = [side.codes(part.test, len(allowed)) for side, part in zip(sides, splits, strict=True)]
    hidden = _common(late, allowed)
    if len(hidden) < MIN_PAIRS:
        return None
    return _compare(sides, [part.train for part in splits], hidden, allowed, at)


def _sides(new: OCuLaR, served: OCuLaR) -> tuple[_Side, _Side]:
    today = new.interactions_
    return (
        _Side(new, np.arange(today.n_users), np.arange(today.n_items)),
        _Side(served, rows_by_label(today.user_rows, served.interactions_.user_labels),
              rows_by_label(today.item_rows, served.interactions_.item_labels)),
    )  # fmt: skip


def _allowed(new: OCuLaR, served: OCuLaR) -> NDArray[np.bool_]:
    """Return which products both may recommend, in the numbering of the new model."""
    items = rows_by_label(new.interactions_.item_rows, served.interactions_.item_labels)
    allowed = np.zeros(new.interactions_.n_items, dtype=bool)
    allowed[items[(items >= 0) & ~served.excluded_items_]] = True
    return allowed & ~new.excluded_items_


def _common(codes: Sequence[NDArray[np.int64]], allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the pairs that are on both sides, of products that both may recommend, sorted."""
    common: NDArray[np.int64] = np.intersect1d(codes[0], codes[1])
    return common[(common >= 0) & allowed[common % len(allowed)]]


def _compare(
    sides: Sequence[_Side],
    shown: Sequence[Interactions],
    hidden: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    at: int,
) -> Backtest:
    """Fit each side again to what it is shown, and return how much of the hidden pairs it recommends."""
    n_items = len(allowed)
    seen = np.unique(np.concatenate([side.codes(part, n_items) for side, part in zip(sides, shown, strict=True)]))
    seen = seen[seen >= 0]
    at = max(1, min(at, int(allowed.sum()) // 10))  # of few products nearly all would be recommended
    recalls = []
    for side, part in zip(sides, shown, strict=True):
        twin = _fit_again(side.model, part)
        twin.excluded_items_ = ~_at(allowed, side.items)
        train, test = (_matrix(pairs, side, n_items) for pairs in (seen, hidden))
        scores = measure(twin, train, test, M=at)
        recalls.append(scores.per_user["recall"][np.argsort(side.users[scores.users]), 0])  # the same clients
    new_recall, served_recall = recalls
    error = float(np.std(new_recall - served_recall, ddof=1) / np.sqrt(len(new_recall))) if len(new_recall) > 1 else 0.0
    return Backtest(
        float(new_recall.mean()), float(served_recall.mean()), error, at, len(hidden), clients=len(new_recall)
    )


def _fit_again(model: OCuLaR, shown: Interactions) -> OCuLaR:
    twin = unfitted_twin(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the model itself has said so already
        twin.fit(shown)
    if twin.interrupted_:
        raise KeyboardInterrupt
    return twin


def _at(values: NDArray[np.bool_], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.where(rows >= 0, values[np.maximum(rows, 0)], False)


def _matrix(codes: NDArray[np.int64], side: _Side, n_items: int) -> sp.csr_array:
    """Return pairs, in the numbering of the new model, as a matrix in that of a side."""
    interactions: Interactions = side.model.interactions_
    user_of, item_of = _inverse(side.users), _inverse(side.items)
    users = _at_or_none(user_of, codes // n_items)
    items = _at_or_none(item_of, codes % n_items)
    both = (users >= 0) & (items >= 0)
    ones = np.ones(int(both.sum()), dtype=np.float32)
    return sp.csr_array((ones, (users[both], items[both])), shape=interactions.shape)


def _inverse(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    inverse = np.full(rows.max(initial=-1) + 1, -1, dtype=np.int64)
    inverse[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    return inverse


def _at_or_none(values: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    found = np.full(len(places), -1, dtype=np.int64)
    inside = places < len(values)
    found[inside] = values[places[inside]]
    return found
