"""The recommendations of two models side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.changes.contributions import contributions
from ocular.changes.patterns import compare_patterns
from ocular.changes.result import (
    ALLOWED_NOW,
    BOUGHT,
    CAME,
    CLIENT_GONE,
    CLIENT_NEW,
    DISPLACED,
    EVIDENCE_GONE,
    EXCLUDED_NOW,
    MOVED_UP,
    NEW_EVIDENCE,
    PRODUCT_GONE,
    PRODUCT_NEW,
    RETURNED,
    WENT,
    ModelChanges,
    Pairs,
)
from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, DataError, UnknownNameError
from ocular.model import OCuLaR
from ocular.validation import as_list, check_n

SAME_SCORE = 0.1  # relative change of an affinity below which it is about the same
CLIENTS_AT_ONCE = 10_000
MAX_CELLS = 10_000_000  # that comparing lists takes at once

Ints = NDArray[np.int64]


def compare_models(old: OCuLaR, new: OCuLaR, n: int = 10, clients: Any = None) -> ModelChanges:
    """
    Return what changed from one model to another: the n best products of every client, and the patterns.

    Clients and products are matched by name. `clients` restricts the comparison of recommendations to some of them.

    >>> import ocular
    >>> from ocular.synthetic import planted
    >>> before = planted(40, 30, 3, random_state=0).interactions
    >>> model = ocular.OCuLaR(3, 1.0, random_state=0).fit(before)
    >>> ocular.compare_models(model, model, n=5).jaccard
    1.0
    """
    for model in (old, new):
        if not isinstance(model, OCuLaR) or not hasattr(model, "history_"):
            raise ConfigError(f"expected two fitted models, got {type(model).__name__}; load them with ocular.load")
    n = min(check_n(n), max(old.interactions_.n_items, new.interactions_.n_items))
    matched = match_models(old.interactions_, new.interactions_, clients)
    old_lists, new_lists = top_lists(old, matched.old_users, n), top_lists(new, matched.new_users, n)
    old_codes = np.where(old_lists >= 0, matched.old_codes[old_lists], -1)
    both = (matched.old_users >= 0) & (matched.new_users >= 0)
    stayed_old, stayed_new = find_stayed(old_codes, new_lists)
    n_stayed = stayed_old.sum(axis=1)
    n_all = (old_lists >= 0).sum(axis=1) + (new_lists >= 0).sum(axis=1) - n_stayed
    jaccards = np.where(n_all > 0, n_stayed / np.maximum(n_all, 1), 1.0)[both]
    pairs = changed_pairs(old, new, matched, (old_codes, stayed_old), (new_lists, stayed_new))
    return ModelChanges(
        n=n,
        jaccards=jaccards,
        n_new_clients=int((matched.old_users < 0).sum()),
        n_gone_clients=int((matched.new_users < 0).sum()),
        patterns=compare_patterns(old, new),
        old=old,
        new=new,
        pairs=pairs,
    )


class Matched(NamedTuple):
    """Clients of both models, and a number for each product of either: those of the new model have its rows."""

    old_users: Ints  # (n,) −1: new
    new_users: Ints  # (n,) −1: gone
    old_codes: Ints  # (n_items of the old model,)
    old_items: Ints  # by code: the row in the old model, or −1

    def new_items(self, codes: Ints, n_items: int) -> Ints:
        """Return the rows in the new model, −1 where it does not have the product."""
        return np.where(codes < n_items, codes, -1)


def match_models(before: Interactions, now: Interactions, clients: Any = None) -> Matched:
    """Match by name: the clients of the new model first, in its order, then those that are gone."""
    there, here = before.user_rows, now.user_rows
    if there.keys().isdisjoint(here):
        raise DataError("expected two models of the same clients, got none of the same name in both")
    names = [*here, *(name for name in there if name not in here)] if clients is None else _named(before, now, clients)
    old_users, new_users = (np.array([rows.get(name, -1) for name in names], dtype=np.int64) for rows in (there, here))
    codes = np.array([now.item_rows.get(name, -1) for name in before.item_rows], dtype=np.int64)
    gone = np.flatnonzero(codes < 0)
    codes[gone] = now.n_items + np.arange(len(gone))
    items = np.full(now.n_items + len(gone), -1, dtype=np.int64)
    items[codes] = np.arange(before.n_items)
    return Matched(old_users, new_users, codes, items)


def _named(before: Interactions, now: Interactions, clients: Iterable[Any]) -> list[str]:
    """Return the keys of clients that are given by key or name, in either model."""
    keys = []
    for name in as_list(clients):
        try:
            keys.append(str(now.user_labels[now.user_index(name)]))
        except UnknownNameError:
            if str(name) not in before.user_rows:
                raise
            keys.append(str(name))
    return list(dict.fromkeys(keys))


def top_lists(model: OCuLaR, users: Ints, n: int) -> Ints:
    """Return the rows of the n best products of each client, −1 where there is none."""
    lists = np.full((len(users), n), -1, dtype=np.int64)
    there, width = np.flatnonzero(users >= 0), min(n, model.interactions_.n_items)
    for first in range(0, len(there), CLIENTS_AT_ONCE):
        block = there[first : first + CLIENTS_AT_ONCE]
        lists[block, :width] = model.recommend(users[block], N=width)[0]
    return lists


def find_stayed(old: Ints, new: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which entries of each list are in the other one too."""
    stayed_old, stayed_new = np.zeros(old.shape, dtype=bool), np.zeros(new.shape, dtype=bool)
    step = max(1, MAX_CELLS // max(old.shape[1] * new.shape[1], 1))
    for first in range(0, len(old), step):
        a, b = old[first : first + step], new[first : first + step]
        same = (a[:, :, None] == b[:, None, :]) & (a >= 0)[:, :, None]
        stayed_old[first : first + step], stayed_new[first : first + step] = same.any(axis=2), same.any(axis=1)
    return stayed_old, stayed_new


def changed_pairs(
    old: OCuLaR,
    new: OCuLaR,
    matched: Matched,
    before: tuple[Ints, NDArray[np.bool_]],
    now: tuple[Ints, NDArray[np.bool_]],
) -> Pairs:
    """Return the recommendations that came and went, client by client, with what each model makes of them."""
    parts = []
    for is_new, (lists, stayed) in ((True, now), (False, before)):
        rows, ranks = np.nonzero((lists >= 0) & ~stayed)
        parts.append((rows, np.full(len(rows), is_new), ranks, lists[rows, ranks]))
    rows, came, ranks, codes = (np.concatenate(side) for side in zip(*parts, strict=True))
    order = np.lexsort((ranks, ~came, rows))
    rows, came, ranks, codes = rows[order], came[order], ranks[order], codes[order]
    old_users, new_users = matched.old_users[rows], matched.new_users[rows]
    old_items, new_items = matched.old_items[codes], matched.new_items(codes, new.interactions_.n_items)
    old_rows, new_rows = (old_users, old_items), (new_users, new_items)
    in_old, in_new = contributions(old, *old_rows), contributions(new, *new_rows)
    with np.errstate(invalid="ignore"):  # nan where one of them does not have the pair
        rose, fell = in_new.z > in_old.z * (1 + SAME_SCORE), in_new.z < in_old.z * (1 - SAME_SCORE)
    why = np.where(
        came,
        np.select(
            [old_users < 0, old_items < 0, find_owned(old, *old_rows), old.excluded_items_[old_items], rose],
            [CLIENT_NEW, PRODUCT_NEW, RETURNED, ALLOWED_NOW, NEW_EVIDENCE],
            MOVED_UP,
        ),
        np.select(
            [new_users < 0, new_items < 0, find_owned(new, *new_rows), new.excluded_items_[new_items], fell],
            [CLIENT_GONE, PRODUCT_GONE, BOUGHT, EXCLUDED_NOW, EVIDENCE_GONE],
            DISPLACED,
        ),
    )
    change = np.where(came, CAME, WENT)
    return Pairs(change, why, ranks + 1, old_users, new_users, old_items, new_items, in_old, in_new)


def find_owned(model: OCuLaR, users: Ints, items: Ints) -> NDArray[np.bool_]:
    """Return which pairs a model was fitted on."""
    data = model.interactions_
    bought = data.pair_users.astype(np.int64) * data.n_items + data.by_user.indices
    asked = np.where((users >= 0) & (items >= 0), users * data.n_items + items, -1)
    at = np.searchsorted(bought, asked)
    owned: NDArray[np.bool_] = bought[np.minimum(at, len(bought) - 1)] == asked
    return owned
