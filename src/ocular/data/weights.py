"""
Weights of positives in a fit: recent purchases, or large ones, may count for more.

A weight multiplies the likelihood of its pair. Recency is 2^(−age / half-life), where the age of a pair is the time
from its last purchase to the newest one in the data. Quantities and amounts are those of all purchases of the pair,
relative to the median pair of the same product: log2(1 + quantity / median), from 1/4 to 4, so that the median weighs
1, sixteen times as much weighs 4, and no single order outweighs the rest. Pairs whose quantity is not known weigh 1,
and pairs without a date are as old as the median. Weights from dates and amounts are scaled to a mean of 1, so that
the penalties of a fit keep their meaning.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Interactions, Purchases
from ocular.errors import ConfigError, DataError, Parameter
from ocular.validation import check_choice

QUANTITY, AMOUNT, VALUES = KINDS = ("quantity", "amount", "values")
UNITS = {"d": 1, "w": 7, "y": 365}  # days
MIN_RECENCY = 1e-3  # of the weight of the newest: what is older says little, but is still bought
MIN_SIZE, MAX_SIZE = 0.25, 4.0
DAY = 24 * 3600  # seconds
Floats = NDArray[np.float64]
_log = logging.getLogger("ocular")


def half_life_days(given: Any) -> float | None:
    """
    Return a half-life in days: a number, or text such as "180d", "26w" or "1y"; None stays None.

    >>> half_life_days("26w"), half_life_days(90)
    (182.0, 90.0)
    """
    if given is None:
        return None
    matched = re.fullmatch(r"\s*([0-9.]+)\s*([dwy]?)\s*", str(given).lower())
    try:
        days = float(matched[1]) * UNITS[matched[2] or "d"] if matched and not isinstance(given, bool) else 0.0
    except ValueError:
        days = 0.0
    if not 0 < days < np.inf:
        raise ConfigError(
            "expected ", Parameter("half_life"), f" to be a time above 0 such as 180d, 26w or 1y, got {given!r}"
        )
    return days


def check_kind(kind: Any, half_life: float | None) -> str | None:
    """Return what weights come from, or raise where it is no choice or goes with no half-life."""
    if kind is None:
        return None
    check_choice(kind, "weights", KINDS)
    if kind == VALUES and half_life is not None:
        given = Parameter("weights", VALUES), " or ", Parameter("half_life")
        raise ConfigError("expected either ", *given, ", got both; multiply the values yourself")
    return str(kind)


def weighted(interactions: Interactions, half_life: float | None, kind: str | None) -> Interactions:
    """Return the purchases with the weights that are asked for, in place of any that they had; None: as they are."""
    parts = [] if half_life is None else [_recency(interactions, half_life)]
    if kind in (QUANTITY, AMOUNT):
        parts.append(_sizes(interactions, kind))
    if not parts:
        return interactions
    weights = np.prod(parts, axis=0)
    return interactions.weighted(weights / weights.mean())


def given_weights(interactions: Interactions, sample_weight: Any) -> NDArray[Any]:
    """
    Return the weights that a caller gives: one for each pair, one for each user, or a matrix with them at its pairs.

    Where there are as many users as pairs an array is taken to be of pairs.
    """
    users, items = interactions.pair_users, interactions.by_user.indices
    given = sp.csr_array(sample_weight) if sp.issparse(sample_weight) else np.asarray(sample_weight)
    if given.ndim == 2:
        if given.shape != interactions.shape:
            raise DataError(f"expected a weight matrix of shape {interactions.shape}, got {given.shape}")
        return np.asarray(given[users, items]).ravel()
    if given.shape == (interactions.n_users,) and given.shape != (interactions.nnz,):
        return given[users]
    return given


def _recency(interactions: Interactions, half_life: float) -> Floats:
    """Return 2^(−age / half-life) of every pair."""
    purchases = interactions.purchases
    if purchases is None or purchases.time is None or np.isnat(purchases.time).all():
        raise _missing("date", Parameter("half_life"), Parameter("time"))
    seconds, known = purchases.time.astype("datetime64[s]").astype(np.int64), ~np.isnat(purchases.time)
    latest = np.full(interactions.nnz, np.iinfo(np.int64).min)
    np.maximum.at(latest, purchases.pair[known], seconds[known])
    has_date = latest > np.iinfo(np.int64).min
    age = (seconds[known].max() - np.where(has_date, latest, 0)) / DAY
    if not has_date.all():
        n, median = int((~has_date).sum()), float(np.median(age[has_date]))
        age[~has_date] = median
        if interactions.weights is None:  # else it is a refit, and has been said
            _log.warning(
                "%s of %s pairs have no date; they weigh as much as one of the median age, %.0f days",
                f"{n:,}", f"{interactions.nnz:,}", median,
            )  # fmt: skip
    weights: Floats = np.maximum(np.exp2(-age / half_life), MIN_RECENCY)
    return weights


def _sizes(interactions: Interactions, kind: str) -> Floats:
    """Return log2(1 + size / median of the product) of every pair, bounded; 1 where it is not known."""
    purchases = interactions.purchases
    if purchases is None or (sizes := _purchase_sizes(purchases, kind)) is None:
        column = "quantity" if kind == QUANTITY else "price"
        raise _missing(column, Parameter("weights", kind), Parameter(column))
    known = np.isfinite(sizes)
    total: Floats = np.zeros(interactions.nnz)
    np.add.at(total, purchases.pair[known], sizes[known])
    has_size = np.bincount(purchases.pair[known], minlength=interactions.nnz) > 0
    total = np.maximum(total, 0.0)  # more came back than is known to have been bought
    medians = _medians(interactions.by_user.indices[has_size], total[has_size], interactions.n_items)
    usual = medians[interactions.by_user.indices]
    relative = np.divide(total, usual, out=np.ones_like(total), where=has_size & (usual > 0))
    weights: Floats = np.clip(np.log2(1 + relative), MIN_SIZE, MAX_SIZE)
    return weights


def _purchase_sizes(purchases: Purchases, kind: str) -> Floats | None:
    """Return the quantity or the amount of every purchase, nan where it is not known; None where none is."""
    if kind == QUANTITY:
        return purchases.quantity
    if purchases.price is None:
        return None
    quantity = np.ones(len(purchases)) if purchases.quantity is None else purchases.quantity
    return purchases.price * np.where(np.isfinite(quantity), quantity, 1.0)


def _medians(groups: NDArray[np.int32], values: Floats, n_groups: int) -> Floats:
    """Return the median of the values of each group, 0 for an empty one."""
    order = np.lexsort((values, groups))
    counts = np.bincount(groups, minlength=n_groups)
    starts, filled = np.cumsum(counts) - counts, counts > 0
    medians, ordered = np.zeros(n_groups), values[order]
    low, high = starts + (counts - 1) // 2, starts + counts // 2
    medians[filled] = (ordered[low[filled]] + ordered[high[filled]]) / 2
    return medians


def _missing(what: str, parameter: Parameter, column: Parameter) -> DataError:
    return DataError(f"expected purchases with a {what} for ", parameter, ", got none; read them with ", column)
