"""Recommendations for many clients at once, each with its strongest reason: on this machine or in blocks elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Labels
from ocular.model import OCuLaR
from ocular.scoring import Scorer

MOST_OWNED = 3  # purchases that a reason names


class Clients(NamedTuple):
    """Some clients of a model."""

    labels: Labels
    factors: sp.csr_array
    bias: NDArray[np.float32]
    owned: Adjacency

    @classmethod
    def of(cls, model: OCuLaR, first: int, last: int) -> Clients:
        history, rows = model.interactions_, np.arange(first, last)
        factors = model.user_factors_[first:last]
        return cls(history.user_labels[first:last], factors, model.user_bias_[first:last], history.by_user.take(rows))


class Batch:
    """What recommendations need of a model beside the clients: enough for an executor that knows no other client."""

    def __init__(self, model: OCuLaR) -> None:
        history = model.interactions_
        self._scorer: Scorer = model.scorer(n_threads=1)
        self._base = model.config_.background + model.bias_
        self._items, self._members = model.item_factors_, sp.csr_array(model.members().items)
        self._names = history.item_labels
        self._patterns = {pattern.index: pattern.label for pattern in model.coclusters()}
        self._calibration = model.calibration_

    def recommend(self, clients: Clients, n: int) -> pl.DataFrame:
        """
        A row for each product, best first: client, rank, product, confidence, hit_rate where the model is calibrated,
        and of the co-cluster that adds most its number, its label, its share of the affinity and what the client has
        of it. These are null where no co-cluster speaks for the product.
        """
        n = min(n, len(self._names))
        ids, affinity = self._scorer.top(clients.factors, clients.owned, n)
        confidence = -np.expm1(-(affinity + (clients.bias[:, None] + self._base)))
        best, part, because = self._reasons(clients, ids)
        rows, places = np.nonzero(ids >= 0)
        chosen = ids[rows, places], best[rows, places], because[rows, places]
        told: dict[str, Any] = {
            "client": pl.Series(clients.labels.tolist()).gather(rows),
            "rank": places.astype(np.int32) + 1,
            "product": self._product(chosen[0]),
            "confidence": confidence[rows, places],
        }
        if self._calibration is not None:
            told["hit_rate"] = pl.Series(self._calibration.known(told["confidence"]), nan_to_null=True).round(4)
        share = part[rows, places] / np.maximum(-np.log1p(-told["confidence"].astype(np.float64)), 1e-12)
        patterns = pl.Series(chosen[1].astype(np.int32))
        known = pl.Series(chosen[1] >= 0)
        labels = [self._patterns.get(c, f"pattern {c}") for c in chosen[1].tolist()]
        owned = [self._product(chosen[2][:, a]).cast(pl.String) for a in range(MOST_OWNED)]
        names = pl.DataFrame(
            {str(a): pl.Series(o).set(pl.Series(chosen[2][:, a] < 0), None) for a, o in enumerate(owned)}
        )
        frame = pl.DataFrame(told).with_columns(
            pattern=patterns.set(~known, None),
            pattern_label=pl.Series(labels, dtype=pl.String).set(~known, None),
            share=pl.Series(share).round(4).set(~known, None),
            because=names.select(pl.concat_str(pl.all(), separator="; ", ignore_nulls=True)).to_series(),
        )
        return frame.with_columns(because=pl.col("because").replace("", None))

    def _product(self, ids: NDArray[Any]) -> pl.Series:
        return pl.Series(self._names.tolist()).gather(np.maximum(ids, 0))

    def _reasons(self, clients: Clients, ids: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        best, part = np.full(ids.shape, -1, dtype=np.int32), np.zeros(ids.shape)
        because = np.full((*ids.shape, MOST_OWNED), -1, dtype=np.int32)
        sides = [(s.indptr.astype(np.int64), s.indices, s.data) for s in (clients.factors, self._items, self._members)]
        owned, width = clients.owned, self._items.shape[1]
        _strongest(*sides[0], *sides[1], *sides[2], owned.indptr, owned.indices, width, ids, best, part, because)
        return best, part, because


@njit(nogil=True, cache=True)
def _strongest(  # type: ignore[no-untyped-def]
    user_ends, user_columns, user_strengths, item_ends, item_columns, item_strengths,
    member_ends, member_columns, member_strengths, owned_ends, owned, K, ids, best, part, because,
):  # fmt: skip
    """Of each pair: the co-cluster that adds most, what it adds, and the client's strongest purchases in it."""
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
                if added > part[r, n]:
                    best[r, n], part[r, n] = item_columns[a], added
            if best[r, n] < 0:
                continue
            mine = owned[owned_ends[r] : owned_ends[r + 1]]
            _name_strongest(mine, best[r, n], member_ends, member_columns, member_strengths, because[r, n], strength)
            if because[r, n, 0] < 0:  # no member: whoever has a trace of it
                _name_strongest(mine, best[r, n], item_ends, item_columns, item_strengths, because[r, n], strength)
        for a in range(user_ends[r], user_ends[r + 1]):
            f[user_columns[a]] = 0.0


@njit(nogil=True, cache=True)
def _name_strongest(items, c, ends, columns, strengths, names, strength):  # type: ignore[no-untyped-def]
    """The items with most strength in c, strongest first."""
    strength[:] = 0.0
    for i in items:
        for a in range(ends[i], ends[i + 1]):
            if columns[a] == c and strengths[a] > strength[-1]:
                at = len(names) - 1
                while at > 0 and strengths[a] > strength[at - 1]:
                    strength[at], names[at] = strength[at - 1], names[at - 1]
                    at -= 1
                strength[at], names[at] = strengths[a], i
