"""Recommendations for many clients at once, each with its strongest reason: on this machine or in blocks elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Labels
from ocular.explain.value import ExpectedValues
from ocular.model import OCuLaR
from ocular.scoring import Scorer

MAX_OWNED = 3  # purchases that a reason names
CLIENTS_AT_ONCE = 10_000  # memory goes with these × products that a block recommends


class Clients(NamedTuple):
    """Some clients of a model."""

    labels: Labels
    factors: sp.csr_array
    bias: NDArray[np.float32]
    owned: Adjacency

    @classmethod
    def of(cls, model: OCuLaR, first: int, last: int) -> Clients:
        """Return the clients from row `first` to before row `last`."""
        data, rows = model.interactions_, np.arange(first, last)
        factors = model.user_factors_[first:last]
        return cls(data.user_labels[first:last], factors, model.user_bias_[first:last], data.by_user.take(rows))


class Batch:
    """What recommendations need of a model beside the clients: enough for an executor that knows no other client."""

    def __init__(self, model: OCuLaR, allowed: NDArray[np.bool_] | None = None) -> None:
        """Take `allowed`, a mask of the products to choose from; those that the fit excluded are never chosen."""
        data = model.interactions_
        self._scorer: Scorer = model.scorer(n_threads=1)
        self._allowed = ~model.excluded_items_ if allowed is None else allowed & ~model.excluded_items_
        self._base = model.config_.background + model.bias_
        self._items, self._members = model.item_factors_, sp.csr_array(model.members().items)
        self._labels = pl.Series(data.item_labels.tolist())
        self._names = pl.Series([str(data.item_name(item)) for item in range(data.n_items)], dtype=pl.String)
        self._patterns = {pattern.index: pattern.label for pattern in model.coclusters()}
        self._calibration = model.calibration_
        self._values = ExpectedValues(data, model.calibration_)

    def recommend(self, clients: Clients, n: int) -> pl.DataFrame:
        """
        Return a row for each product, best first.

        client, rank, product, confidence, hit_rate where the model is calibrated; price (typical, per unit), quantity
        (of a typical order) and expected value; and of the co-cluster that adds most its number (pattern), its label,
        its share of the affinity and what the client has of it (because). The last four are null where no co-cluster
        holds both, price and value where no typical price is known.
        """
        ids, affinity = self._scorer.top(clients.factors, clients.owned, min(n, len(self._labels)), self._allowed)
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
        columns["price"] = pl.Series(self._values.prices[items], nan_to_null=True)
        columns["quantity"] = self._values.quantities[items]
        columns["value"] = pl.Series(self._values.values(items, confidence), nan_to_null=True).round(2)
        reasons = self._strongest_reasons(clients, ids)
        pattern, contribution, owned = reasons[0][rows, ranks], reasons[1][rows, ranks], reasons[2][rows, ranks]
        unknown = pl.Series(pattern < 0)
        labels = [self._patterns.get(c, f"pattern {c}") for c in pattern.tolist()]
        return pl.DataFrame(columns).with_columns(
            pattern=pl.Series(pattern).set(unknown, None),
            pattern_label=pl.Series(labels, dtype=pl.String).set(unknown, None),
            share=pl.Series(contribution / z).round(4).set(unknown, None),
            because=self._joined_names(owned),
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
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int32]]:
        """Return of each pair the co-cluster that adds most, what it adds, and the client's purchases in it."""
        pattern, contribution = np.full(ids.shape, -1, dtype=np.int32), np.zeros(ids.shape)
        because = np.full((*ids.shape, MAX_OWNED), -1, dtype=np.int32)
        sides = [(s.indptr.astype(np.int64), s.indices, s.data) for s in (clients.factors, self._items, self._members)]
        owned, width = clients.owned, self._items.shape[1]
        _strongest(
            *sides[0], *sides[1], *sides[2], owned.indptr, owned.indices, width, ids, pattern, contribution, because
        )
        return pattern, contribution, because


def recommend_all(model: OCuLaR, n: int, allowed: NDArray[np.bool_] | None = None) -> pl.DataFrame:
    """Return the n best products of every client, as `Batch.recommend` does, block by block."""
    batch, n_users = Batch(model, allowed), model.interactions_.n_users
    starts = range(0, n_users, CLIENTS_AT_ONCE)
    return pl.concat(batch.recommend(Clients.of(model, s, min(s + CLIENTS_AT_ONCE, n_users)), n) for s in starts)


@njit(nogil=True, cache=True)
def _strongest(  # type: ignore[no-untyped-def]
    user_ends, user_columns, user_strengths, item_ends, item_columns, item_strengths,
    member_ends, member_columns, member_strengths, owned_ends, owned, K, ids, best, contribution, because,
):  # fmt: skip
    """Find for each pair the co-cluster that adds most, what it adds, and the client's strongest purchases in it."""
    f = np.zeros(K, np.float32)
    strength = np.empty(because.shape[2], np.float32)
    for r in range(ids.shape[0]):
        for a in range(user_ends[r], user_ends[r + 1]):
            f[user_columns[a]] = user_strengths[a]
        for n in range(ids.shape[1]):
            i = ids[r, n]
            if i < 0:
                continue
            for a in range(item_ends[i], item_ends[i + 1]):
                added = np.float64(f[item_columns[a]]) * np.float64(item_strengths[a])
                if added > contribution[r, n]:
                    best[r, n], contribution[r, n] = item_columns[a], added
            if best[r, n] < 0:
                continue
            mine = owned[owned_ends[r] : owned_ends[r + 1]]
            _name_strongest(mine, best[r, n], member_ends, member_columns, member_strengths, because[r, n], strength)
            if because[r, n, 0] < 0:  # no member: whatever has a trace of it
                _name_strongest(mine, best[r, n], item_ends, item_columns, item_strengths, because[r, n], strength)
        for a in range(user_ends[r], user_ends[r + 1]):
            f[user_columns[a]] = 0.0


@njit(nogil=True, cache=True)
def _name_strongest(items, c, ends, columns, strengths, names, strength):  # type: ignore[no-untyped-def]
    """Put the items with most strength in c into `names`, strongest first."""
    strength[:] = 0.0
    for i in items:
        for a in range(ends[i], ends[i + 1]):
            if columns[a] == c and strengths[a] > strength[-1]:
                at = len(names) - 1
                while at > 0 and strengths[a] > strength[at - 1]:
                    strength[at], names[at] = strength[at - 1], names[at - 1]
                    at -= 1
                strength[at], names[at] = strengths[a], i
