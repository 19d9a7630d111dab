"""What a model changed against the one before it, as compact columns of rows of the new model."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ocular.changes.compare import changed_pairs, find_owned, find_stayed, match_models, top_lists
from ocular.changes.contributions import contributions
from ocular.changes.patterns import CHANGED, compare_patterns
from ocular.changes.result import (
    ALLOWED_NOW,
    BOUGHT,
    CAME,
    CLIENT_NEW,
    DISPLACED,
    EVIDENCE_GONE,
    EXCLUDED_NOW,
    MOVED_UP,
    NEW_EVIDENCE,
    PRODUCT_GONE,
    PRODUCT_NEW,
    RETURNED,
)
from ocular.explain.names import product_name
from ocular.explain.value import typical_prices
from ocular.model import OCuLaR

NEW, DROPPED, MOVED = 0, 1, 2
RANK = "rank"  # why a recommendation that stayed is told
WHYS = (
    PRODUCT_NEW, RETURNED, ALLOWED_NOW, NEW_EVIDENCE, MOVED_UP, PRODUCT_GONE, BOUGHT, EXCLUDED_NOW, EVIDENCE_GONE,
    DISPLACED, RANK,
)  # fmt: skip
MIN_MOVE = 2  # places in the list

COLUMN = np.dtype(
    [
        ("user", np.int32),
        ("item", np.int32),  # a row of the new model, or n_items + the place in `gone`
        ("kind", np.int8),  # NEW, DROPPED or MOVED
        ("why", np.int8),  # place in WHYS
        ("old_rank", np.int16),  # 0: was not in the list
        ("new_rank", np.int16),  # 0: is not in the list
        ("old_score", np.float32),  # nan where the old model does not have the pair
        ("new_score", np.float32),
        ("evidence", np.int8),  # the kind of evidence that changed most, a column of Contributions.by_kind
        ("pattern", np.int32),  # the strongest one in the new model, or −1
        ("linked", np.int32, (3,)),  # owned products whose links add most, or −1
    ]
)


@dataclass(frozen=True, eq=False)
class Changes:
    """Recommendations that are new, dropped or moved, for clients that both models have."""

    since: str  # version of the model before
    rows: NDArray[np.void]  # of COLUMN, by client
    gone: list[str]  # names of products that only the old model had
    bought: NDArray[np.int64]  # user · n_items + item of purchases that only the new model has, ascending
    old_buyers: NDArray[np.int64]  # (n_items,) clients who had bought each product
    old_prices: NDArray[np.float64]  # (n_items,) typical prices, nan where not known
    renamed: dict[str, str]  # labels of patterns that are the same by their members, old to new

    @property
    def n_items(self) -> int:
        return len(self.old_buyers)

    @cached_property
    def _new_codes(self) -> NDArray[np.int64]:
        new = self.rows[self.rows["kind"] == NEW]
        return np.sort(new["user"].astype(np.int64) * self.n_items + new["item"])

    def is_new(self, users: ArrayLike, items: ArrayLike) -> NDArray[np.bool_]:
        """Return which pairs of rows of the new model came into the list of their client."""
        codes = np.asarray(users, dtype=np.int64) * self.n_items + np.asarray(items, dtype=np.int64)
        if not len(self._new_codes):
            return np.zeros(codes.shape, dtype=bool)
        places = np.minimum(np.searchsorted(self._new_codes, codes), len(self._new_codes) - 1)
        found: NDArray[np.bool_] = self._new_codes[places] == codes
        return found

    def bought_by(self, user: int) -> list[int]:
        """Return what a client bought since the model before."""
        first, last = np.searchsorted(self.bought, [user * self.n_items, (user + 1) * self.n_items])
        return [int(code) - user * self.n_items for code in self.bought[first:last]]

    def to_bytes(self) -> bytes:
        """Return everything but `renamed`, compressed."""
        buffer = io.BytesIO()
        texts = np.frombuffer(json.dumps([self.since, self.gone]).encode(), dtype=np.uint8)
        np.savez_compressed(
            buffer, rows=self.rows, texts=texts, bought=self.bought, old_buyers=self.old_buyers,
            old_prices=self.old_prices,
        )  # fmt: skip
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, renamed: dict[str, str]) -> Changes:
        """Read what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            since, gone = json.loads(arrays["texts"].tobytes())
            return cls(
                since, arrays["rows"], gone, arrays["bought"], arrays["old_buyers"], arrays["old_prices"], renamed
            )


def find_changes(old: OCuLaR, new: OCuLaR, since: str, depth: int) -> Changes:
    """Compare the `depth` best products of every client in two models."""
    before, now = old.interactions_, new.interactions_
    matched = match_models(before, now)
    # each of these takes as much memory as all that follows, and leaves little behind
    there = matched.old_items[: now.n_items]
    renamed, bought = _renamed(old, new), _bought(old, new, matched.old_users, there)
    old_prices = np.where(there >= 0, typical_prices(before)[there], np.nan)
    n = min(depth, max(before.n_items, now.n_items))
    old_lists, new_lists = top_lists(old, matched.old_users, n), top_lists(new, matched.new_users, n)
    old_codes = np.where(old_lists >= 0, matched.old_codes[old_lists], -1)
    stayed_old, stayed_new = find_stayed(old_codes, new_lists)
    pairs = changed_pairs(old, new, matched, (old_codes, stayed_old), (new_lists, stayed_new))
    told = (pairs.old_users >= 0) & (pairs.new_users >= 0) & (pairs.why != CLIENT_NEW)
    came = pairs.change == CAME
    gone_place = np.cumsum(matched.old_codes >= now.n_items) - 1  # of each product of the old model
    rows = np.empty(len(told), dtype=COLUMN)
    rows["user"] = pairs.new_users
    rows["item"] = np.where(pairs.new_items >= 0, pairs.new_items, now.n_items + gone_place[pairs.old_items])
    rows["kind"] = np.where(came, NEW, DROPPED)
    rows["why"] = [WHYS.index(why) if why in WHYS else -1 for why in pairs.why.tolist()]
    rows["old_rank"], rows["new_rank"] = np.where(came, 0, pairs.rank), np.where(came, pairs.rank, 0)
    gained = np.nan_to_num(pairs.in_new.by_kind - pairs.in_old.by_kind)
    rows["evidence"] = np.where(came, gained.argmax(axis=1), gained.argmin(axis=1))
    rows["pattern"], rows["linked"] = pairs.in_new.pattern, pairs.in_new.linked
    rows["old_score"], rows["new_score"] = -np.expm1(-pairs.in_old.z), -np.expm1(-pairs.in_new.z)
    moved = _moved(old, new, matched.old_users, matched.old_items, old_codes, new_lists, stayed_new)
    rows = np.concatenate([rows[told], moved])
    gone = [product_name(before.item_name(item)) for item in np.flatnonzero(matched.old_codes >= now.n_items).tolist()]
    buyers = np.bincount(before.by_user.indices, minlength=before.n_items)
    return Changes(
        since, rows[np.argsort(rows["user"], kind="stable")], gone, bought,
        np.where(there >= 0, buyers[there], 0), old_prices, renamed,
    )  # fmt: skip


def _moved(
    old: OCuLaR,
    new: OCuLaR,
    old_users: NDArray[np.int64],
    old_items: NDArray[np.int64],
    old_codes: NDArray[np.int64],
    new_lists: NDArray[np.int64],
    stayed: NDArray[np.bool_],
) -> NDArray[np.void]:
    """Return the recommendations that stayed in the list and moved in it by some places."""
    users, new_rank = np.nonzero(stayed)  # the clients of the new model come first, in its order
    items = new_lists[users, new_rank]
    old_rank = (old_codes[users] == items[:, None]).argmax(axis=1)
    far = np.abs(old_rank - new_rank) >= MIN_MOVE
    users, items, old_rank, new_rank = users[far], items[far], old_rank[far], new_rank[far]
    in_old, in_new = contributions(old, old_users[users], old_items[items]), contributions(new, users, items)
    gained = in_new.by_kind - in_old.by_kind
    rows = np.empty(len(users), dtype=COLUMN)
    rows["user"], rows["item"], rows["kind"], rows["why"] = users, items, MOVED, WHYS.index(RANK)
    rows["old_rank"], rows["new_rank"] = old_rank + 1, new_rank + 1
    rows["old_score"], rows["new_score"] = -np.expm1(-in_old.z), -np.expm1(-in_new.z)
    rows["evidence"] = np.where(new_rank < old_rank, gained.argmax(axis=1), gained.argmin(axis=1))
    rows["pattern"], rows["linked"] = in_new.pattern, in_new.linked
    return rows


def _bought(old: OCuLaR, new: OCuLaR, old_users: NDArray[np.int64], old_items: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the purchases of clients of both models that only the new one has."""
    data = new.interactions_
    users, items = data.pair_users.astype(np.int64), data.by_user.indices.astype(np.int64)
    fresh = (old_users[users] >= 0) & ~find_owned(old, old_users[users], old_items[items])
    return np.sort(users[fresh] * data.n_items + items[fresh])


def _renamed(old: OCuLaR, new: OCuLaR) -> dict[str, str]:
    labels = {pattern.index: pattern.label for pattern in old.coclusters()}
    changed = [change for change in compare_patterns(old, new) if change.status == CHANGED]
    pairs = ((labels[change.old_number], change.label) for change in changed if change.old_number is not None)
    return {before: now for before, now in pairs if before and now and before != now}
