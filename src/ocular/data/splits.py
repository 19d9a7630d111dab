"""Ways to hold out purchases, repeatable by their seed. Both sides keep every client, every product and all names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, DataError
from ocular.validation import check_share, check_whole, random_generator

MIN_SPAN = 0.1  # of the time of all purchases, that the median client must buy for


class Split(NamedTuple):
    """The purchases that a model is fitted to, and those that were held out."""

    train: Interactions
    test: Interactions


def random_split(interactions: Interactions, test_share: float = 0.25, random_state: int = 0) -> Split:
    """Hold out a random sample of all pairs: a quarter of them, as in the paper."""
    check_share(test_share, "test_share")
    rng = random_generator(random_state)
    n_test = round(test_share * interactions.nnz)
    if not 0 < n_test < interactions.nnz:
        raise DataError(
            f"expected at least one pair on each side, got {n_test} of {interactions.nnz} for testing; "
            "give more purchases or another test_share"
        )
    test = np.zeros(interactions.nnz, dtype=bool)
    test[rng.choice(interactions.nnz, n_test, replace=False, shuffle=False)] = True
    return _split(interactions, test)


def k_fold(interactions: Interactions, k: int = 5, random_state: int = 0) -> Iterator[Split]:
    """Hold out each k-th of the pairs in turn: every pair is tested in exactly one fold."""
    rng = random_generator(random_state)
    check_whole(k, "k", 2)
    if k > interactions.nnz:
        raise DataError(f"expected at least one pair per fold, got {interactions.nnz} pairs for {k} folds; lower k")
    fold = rng.permutation(np.arange(interactions.nnz, dtype=np.int32) % k)
    return (_split(interactions, fold == turn) for turn in range(k))


def per_user_split(interactions: Interactions, test_share: float = 0.25, random_state: int = 0) -> Split:
    """
    Hold out the same share of every client's pairs, to the nearest whole pair.

    Everybody with a purchase keeps at least one for training, so a single purchase is never held out.
    """
    check_share(test_share, "test_share")
    rng = random_generator(random_state)
    degrees = interactions.by_user.degrees
    n_test = np.minimum((test_share * degrees + 0.5).astype(np.int64), np.maximum(degrees - 1, 0))
    if not n_test.any():
        raise DataError(
            f"expected clients with enough purchases to hold out a share of {test_share:g}, "
            f"got at most {degrees.max(initial=0)} per client; raise test_share or use random_split"
        )
    # whole part the client, fraction random: one sort shuffles within every client and leaves them in their order
    order = np.argsort(interactions.pair_users + rng.random(interactions.nnz), kind="stable")
    place = np.arange(interactions.nnz) - np.repeat(interactions.by_user.indptr[:-1], degrees)
    test = np.empty(interactions.nnz, dtype=bool)
    test[order] = place < np.repeat(n_test, degrees)
    return _split(interactions, test)


def time_split(interactions: Interactions, date: str | date | np.datetime64) -> Split:
    """
    Learn from what was bought before a date, test on the pairs that were first bought on or after it.

    A pair bought both before and after is for training, with the amounts from before only. A purchase whose time is
    not known counts as made before.
    """
    moment = as_moment(date)
    purchases = interactions.purchases
    if purchases is None or purchases.time is None or np.isnat(purchases.time).all():
        raise DataError("expected purchases with a time, got none; read them with their date column")
    late = purchases.time >= moment  # False for NaT
    test = np.zeros(interactions.nnz, dtype=bool)
    test[purchases.pair[late]] = True
    test[purchases.pair[~late]] = False
    if test.all() or not test.any():
        missing = "pairs first bought on or after" if not test.any() else "purchases before"
        raise DataError(
            f"expected {missing} {moment}, got none; choose a date between "
            f"{np.nanmin(purchases.time)} and {np.nanmax(purchases.time)}"
        )
    early_rows = np.flatnonzero(~late)
    known = replace(interactions, purchases=purchases.take(early_rows, purchases.pair[early_rows]))
    return Split(known.where(~test), interactions.where(test))


def latest_split(interactions: Interactions, share: float) -> Split | None:
    """
    Hold out about this share of the pairs, those first bought last; None where that says little of what comes next.

    It says little where dates do not tell the pairs apart, and where most clients come once: the time from the first to
    the last purchase of the median client with several must be MIN_SPAN of the time of all. People who rate a hundred
    films in an evening have dates, but no next purchase.
    """
    purchases = interactions.purchases
    if purchases is None or purchases.time is None or np.isnat(purchases.time).all():
        return None
    known = ~np.isnat(purchases.time)
    pairs, seconds = purchases.pair[known], purchases.time[known].astype("datetime64[s]").astype(np.int64)
    users, never = interactions.pair_users[pairs], np.iinfo(np.int64).max
    begun, ended = np.full(interactions.n_users, never), np.full(interactions.n_users, -never)
    np.minimum.at(begun, users, seconds)
    np.maximum.at(ended, users, seconds)
    several = np.flatnonzero(np.bincount(users) > 1)
    total = seconds.max() - seconds.min()
    if len(several) == 0 or np.median((ended - begun)[several]) < MIN_SPAN * max(total, 1):
        return None
    first = np.full(interactions.nnz, never)
    np.minimum.at(first, pairs, seconds)
    times = np.sort(first[first < never])
    date = times[int((1 - share) * len(times))]
    return None if date == times[0] else time_split(interactions, date.astype("datetime64[s]"))


def is_by_time(split: Split) -> bool:
    """Return whether everything that is held out was bought after everything else."""
    train, test = (None if side.purchases is None else side.purchases.time for side in split)
    if train is None or test is None or np.isnat(train).all() or np.isnat(test).all():
        return False
    return bool(np.nanmin(test) > np.nanmax(train))


def _split(interactions: Interactions, test: NDArray[np.bool_]) -> Split:
    return Split(interactions.where(~test), interactions.where(test))


def as_moment(given: str | date | np.datetime64) -> np.datetime64:
    """Return a date or a time as NumPy's, in seconds and UTC, or raise where it is neither."""
    try:
        day = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise ConfigError(f"expected a date such as 2024-07-01, got {given!r}") from None
    if isinstance(day, datetime) and day.tzinfo is not None:
        day = day.astimezone(UTC).replace(tzinfo=None)  # NumPy's times are in UTC and know no zones
    if isinstance(day, date):  # as a datetime is
        day = np.datetime64(day, "s")
    if not isinstance(day, np.datetime64) or np.isnat(day):
        raise ConfigError(f"expected a date such as 2024-07-01, got {given!r}")
    moment: np.datetime64 = day.astype("datetime64[s]")
    return moment
