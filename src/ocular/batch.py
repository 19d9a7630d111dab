"""Recommendations for many clients at once, each with its strongest reason: on this machine or in blocks elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Labels
from ocular.explain.reasons import APPEAL, LINKS, MAX_PEERS, PATTERN, PEERS, TASTE
from ocular.explain.value import ExpectedValues
from ocular.model import OCuLaR
from ocular.scoring import Scorer

MAX_OWNED = 3  # purchases that a reason names
# in place of a co-cluster's number; of the last two the value of an attribute is told too
NONE, BY_LINKS, BY_PEERS, BY_TASTE, BY_APPEAL = -1, -2, -3, -4, -5
KIND_OF = {BY_LINKS: LINKS, BY_PEERS: PEERS, BY_TASTE: TASTE, BY_APPEAL: APPEAL}
CLIENTS_AT_ONCE = 10_000  # memory goes with these × products that a block recommends


class Clients(NamedTuple):
    """Some clients of a model."""

    labels: Labels
    rows: sp.csr_array  # their evidence, as `ocular.evidence` has it
    bias: NDArray[np.float32]
    owned: Adjacency

    @classmethod
    def of(cls, model: OCuLaR, first: int, last: int) -> Clients:
        """Return the clients from row `first` to before row `last`."""
        data, rows = model.interactions_, np.arange(first, last)
        evidence = model.evidence().rows_of(rows)
        return cls(data.user_labels[first:last], evidence, model.user_bias_[first:last], data.by_user.take(rows))


class Batch:
    """What recommendations need of a model beside the clients: enough for an executor that knows no other client."""

    def __init__(self, model: OCuLaR, allowed: NDArray[np.bool_] | None = None) -> None:
        """Take `allowed`, a mask of the products to choose from; those that the fit excluded are never chosen."""
        data = model.interactions_
        self._scorer: Scorer = model.scorer(n_threads=1)
        self._allowed = ~model.excluded_items_ if allowed is None else allowed & ~model.excluded_items_
        self._base = model.config_.background + model.bias_
        evidence = model.evidence()
        self._items, self._members = evidence.item_rows, sp.csr_array(model.members().items)
        # columns of the rows: co-clusters, then the client's products (links), other clients (peers), values of
        # products (taste), values of clients (appeal)
        self._ends = np.cumsum(evidence.sizes)
        values = [
            features.names for features in (evidence.item_features, evidence.user_features) if features is not None
        ]
        self._value_names = pl.Series([*(name for names in values for name in names), None], dtype=pl.String)
        self._labels = pl.Series(data.item_labels.tolist())
        self._names = pl.Series([str(data.item_name(item)) for item in range(data.n_items)], dtype=pl.String)
        self._patterns = {pattern.index: pattern.label for pattern in model.coclusters()}
        self._calibration = model.calibration_
        self._values = ExpectedValues(data, model.calibration_)

    def recommend(self, clients: Clients, n: int) -> pl.DataFrame:
        """
        Return a row for each product, best first.

        client, rank, product, confidence, hit_rate where the model is calibrated; chance to buy, typical price of a
        unit, typical quantity of an order and expected value; and of the reason that adds most its kind ("pattern",
        "links", "peers", "taste" or "appeal"), the co-cluster's number (pattern) and label, its share of the affinity,
        the client's purchases behind it (because), of peers how many of the most similar clients bought the product
        (similar_buyers of similar_clients), and of taste and appeal the value of an attribute that adds most. These are
        null where there is no reason or it is of another kind, price and value where no typical price is known.
        """
        ids, affinity = self._scorer.top(clients.rows, clients.owned, min(n, len(self._labels)), self._allowed)
        rows, ranks = np.nonzero(ids >= 0)
        items = ids[rows, ranks]
        # z itself, not recovered from a confidence, which is 1 from z ≈ 17 on in float32
        z = (affinity + (clients.bias[:, None] + self._base))[rows, ranks].astype(np.float64)
        confidence = -np.expm1(-z)
        columns: dict[str, Any] = {
            "client": pl.Series(clients.labels.tolist()).gather(rows),
            "rank": ranks.astype(np.int32) + 1,
            "product": self._labels.gather(items),
            "confidence": confidence.astype(np.float32),
        }
        if self._calibration is not None:
            columns["hit_rate"] = pl.Series(self._calibration.known(confidence), nan_to_null=True).round(4)
        columns["chance"] = pl.Series(self._values.chances(confidence)).round(4)
        columns["typical_price"] = pl.Series(self._values.prices[items], nan_to_null=True)
        columns["typical_quantity"] = self._values.quantities[items]
        columns["value"] = pl.Series(self._values.values(items, confidence), nan_to_null=True).round(2)
        reasons = self._strongest_reasons(clients, ids)
        best, contribution = reasons[0][rows, ranks], reasons[1][rows, ranks]
        owned, similar = reasons[2][rows, ranks], reasons[3][rows, ranks]
        unknown, no_pattern = pl.Series(best == NONE), pl.Series(best < 0)
        labels = [self._patterns.get(c, f"pattern {c}") for c in best.tolist()]
        kinds = pl.Series(best).replace_strict(KIND_OF, default=PATTERN, return_dtype=pl.String)
        return pl.DataFrame(columns).with_columns(
            kind=kinds.set(unknown, None),
            pattern=pl.Series(best).set(no_pattern, None),
            pattern_label=pl.Series(labels, dtype=pl.String).set(no_pattern, None),
            share=pl.Series(contribution / z).round(4).set(unknown, None),
            because=self._joined_names(owned),
            similar_buyers=pl.Series(similar[:, 0]).set(pl.Series(best != BY_PEERS), None),
            similar_clients=pl.Series(similar[:, 1]).set(pl.Series(best != BY_PEERS), None),
            attribute=self._value_names.gather(reasons[4][rows, ranks] % len(self._value_names)),  # the last is null
        )

    def _joined_names(self, owned: NDArray[np.int32]) -> pl.Series:
        """Return the names of the items in each row, −1 for none, joined; null where a row has none."""
        columns = {
            str(c): self._names.gather(np.maximum(o, 0)).set(pl.Series(o < 0), None) for c, o in enumerate(owned.T)
        }
        joined = pl.DataFrame(columns).select(pl.concat_str(pl.all(), separator="; ", ignore_nulls=True)).to_series()
        return joined.replace("", None)

    def _strongest_reasons(
        self, clients: Clients, ids: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """
        Return of each pair the co-cluster (or kind) that adds most, what it adds, and the client's purchases.

        And of the most similar clients those who bought the product, and how many these clients are; and the number of
        the value that adds most where attributes do, −1 elsewhere.
        """
        best, contribution = np.full(ids.shape, NONE, dtype=np.int32), np.zeros(ids.shape)
        because = np.full((*ids.shape, MAX_OWNED), -1, dtype=np.int32)
        similar = np.zeros((*ids.shape, 2), dtype=np.int32)
        sides = [(s.indptr.astype(np.int64), s.indices, s.data) for s in (clients.rows, self._items, self._members)]
        owned, values = clients.owned, np.full(ids.shape, -1, dtype=np.int32)
        _strongest(
            *sides[0], *sides[1], *sides[2], owned.indptr, owned.indices, self._ends, ids, best, contribution, because,
            similar, values, MAX_PEERS,
        )  # fmt: skip
        return best, contribution, because, similar, values


def recommend_all(model: OCuLaR, n: int, allowed: NDArray[np.bool_] | None = None) -> pl.DataFrame:
    """Return the n best products of every client, as `Batch.recommend` does, block by block."""
    batch, n_users = Batch(model, allowed), model.interactions_.n_users
    starts = range(0, n_users, CLIENTS_AT_ONCE)
    return pl.concat(batch.recommend(Clients.of(model, s, min(s + CLIENTS_AT_ONCE, n_users)), n) for s in starts)


@njit(nogil=True, cache=True)
def _strongest(  # type: ignore[no-untyped-def]
    user_ends, user_columns, user_strengths, item_ends, item_columns, item_strengths,
    member_ends, member_columns, member_strengths, owned_ends, owned, ends, ids, best, contribution, because, similar,
    values, max_peers,
):  # fmt: skip
    """Find for each pair the co-cluster (or other kind) that adds most, what it adds, and what is behind it."""
    K, end_links, end_peers, end_taste, width = ends
    x = np.zeros(width, np.float32)
    value, value_strength = np.empty(2, np.int32), np.empty(2)
    closest, closeness = np.empty(max_peers, np.int32), np.empty(max_peers, np.float32)
    is_close = np.zeros(width, np.bool_)
    strength = np.empty(because.shape[2], np.float32)
    linked = np.empty(because.shape[2], np.int32)
    for r in range(ids.shape[0]):
        for a in range(user_ends[r], user_ends[r + 1]):
            x[user_columns[a]] = user_strengths[a]
        closest[:], closeness[:] = -1, 0.0
        for a in range(user_ends[r], user_ends[r + 1]):
            if end_links <= user_columns[a] < end_peers:
                _insert(user_columns[a], user_strengths[a], closest, closeness)
        for c in closest:
            if c >= 0:
                is_close[c] = True
        for n in range(ids.shape[1]):
            i = ids[r, n]
            if i < 0:
                continue
            links = peers = taste = appeal = 0.0
            value_strength[:] = 0.0
            linked[:], strength[:] = -1, 0.0
            for a in range(item_ends[i], item_ends[i + 1]):
                c = item_columns[a]
                added = np.float64(x[c]) * np.float64(item_strengths[a])
                if c < K:
                    if added > contribution[r, n]:
                        best[r, n], contribution[r, n] = c, added
                elif c < end_links:
                    links += added
                    _insert(c - K, added, linked, strength)
                elif c < end_peers:
                    peers += added
                    similar[r, n, 0] += is_close[c]
                else:
                    side = int(c >= end_taste)
                    if side == 0:
                        taste += added
                    else:
                        appeal += added
                    if added > value_strength[side]:
                        value[side], value_strength[side] = c - end_peers, added
            similar[r, n, 1] = (closest >= 0).sum()
            if links > contribution[r, n]:
                best[r, n], contribution[r, n], because[r, n] = BY_LINKS, links, linked
            if peers > contribution[r, n]:
                best[r, n], contribution[r, n], because[r, n] = BY_PEERS, peers, -1
            if taste > contribution[r, n]:
                best[r, n], contribution[r, n], because[r, n], values[r, n] = BY_TASTE, taste, -1, value[0]
            if appeal > contribution[r, n]:
                best[r, n], contribution[r, n], because[r, n], values[r, n] = BY_APPEAL, appeal, -1, value[1]
            if best[r, n] < 0:
                continue
            mine = owned[owned_ends[r] : owned_ends[r + 1]]
            _name_strongest(mine, best[r, n], member_ends, member_columns, member_strengths, because[r, n], strength)
            if because[r, n, 0] < 0:  # no member: whatever has a trace of it
                _name_strongest(mine, best[r, n], item_ends, item_columns, item_strengths, because[r, n], strength)
        for c in closest:
            if c >= 0:
                is_close[c] = False
        for a in range(user_ends[r], user_ends[r + 1]):
            x[user_columns[a]] = 0.0


@njit(nogil=True, cache=True)
def _name_strongest(items, c, ends, columns, strengths, names, strength):  # type: ignore[no-untyped-def]
    """Put the items with most strength in c into `names`, strongest first."""
    strength[:] = 0.0
    for i in items:
        for a in range(ends[i], ends[i + 1]):
            if columns[a] == c:
                _insert(i, strengths[a], names, strength)


@njit(nogil=True, cache=True)
def _insert(name, value, names, values):  # type: ignore[no-untyped-def]
    """Keep a name if its value is among the largest, which are in order."""
    if value <= values[-1]:
        return
    at = len(names) - 1
    while at > 0 and value > values[at - 1]:
        values[at], names[at] = values[at - 1], names[at - 1]
        at -= 1
    values[at], names[at] = value, name
