"""Recommendations for many clients at once, each with its strongest reason: on this machine or in blocks elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Labels, merged
from ocular.explain.reasons import PATTERN
from ocular.explain.strongest import BY_PEERS, KIND_OF, NONE, Sides, find_strongest
from ocular.explain.value import ExpectedValues
from ocular.model import OCuLaR
from ocular.scoring import Scorer

CLIENTS_AT_ONCE = 10_000  # memory goes with these × products that a block recommends


class Clients(NamedTuple):
    """Some clients of a model."""

    labels: Labels
    rows: sp.csr_array  # their evidence, as `ocular.evidence` has it
    bias: NDArray[np.float32]
    owned: Adjacency  # and what they refused

    @classmethod
    def of(cls, model: OCuLaR, first: int, last: int) -> Clients:
        """Return the clients from row `first` to before row `last`."""
        data, rows = model.interactions_, np.arange(first, last)
        evidence = model.evidence().rows_of(rows)
        return cls(data.user_labels[first:last], evidence, model.user_bias_[first:last], data.by_user.take(rows))


class Batch:
    """What recommendations need of a model beside the clients: enough for an executor that has some of them."""

    def __init__(self, model: OCuLaR, allowed: NDArray[np.bool_] | None = None) -> None:
        """Take `allowed`, a mask of the products to choose from; those that the fit excluded are never chosen."""
        data = model.interactions_
        self._scorer: Scorer = model.scorer(n_threads=1)
        self._allowed = ~model.excluded_items_ if allowed is None else allowed & ~model.excluded_items_
        self._base = model.config_.background + model.bias_
        evidence = model.evidence()
        self._sides = Sides.of(evidence, model.members())
        values = (evidence.item_features, evidence.user_features)
        names = [name for features in values if features is not None for name in features.names]
        self._value_names = pl.Series([*names, None], dtype=pl.String)
        self._labels = pl.Series(data.item_labels.tolist())
        self._names = pl.Series([str(data.item_name(item)) for item in range(data.n_items)], dtype=pl.String)
        self._patterns = {pattern.index: pattern.label for pattern in model.coclusters()}
        self._calibration = model.calibration_
        self._values = ExpectedValues(data, model.calibration_)

    def recommend(self, clients: Clients, n: int) -> pl.DataFrame:
        """
        Return a row for each product, best first.

        client, rank, product, confidence, hit_rate where the model is calibrated; chance to buy, typical price of a
        unit, typical quantity of an order and expected value; and of the strongest reason, the one that an explanation
        shows first, its kind ("pattern", "links", "peers", "taste" or "appeal"), the co-cluster's number (pattern) and
        label, its share of the affinity, the client's purchases behind it (because), of peers how many of the most
        similar clients bought the product (similar_buyers of similar_clients), and of taste and appeal the value of an
        attribute that adds most. These are null where there is no reason to show or it is of another kind, price and
        value where no typical price is known.
        """
        hidden = merged(clients.owned, clients.owned.refused)
        ids, affinity = self._scorer.top(clients.rows, hidden, min(n, len(self._labels)), self._allowed)
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
        reasons = find_strongest(clients.rows, clients.owned, self._sides, ids)
        best, similar = reasons.best[rows, ranks], reasons.similar[rows, ranks]
        unknown, no_pattern = pl.Series(best == NONE), pl.Series(best < 0)
        labels = [self._patterns.get(c, f"pattern {c}") for c in best.tolist()]
        kinds = pl.Series(best).replace_strict(KIND_OF, default=PATTERN, return_dtype=pl.String)
        return pl.DataFrame(columns).with_columns(
            kind=kinds.set(unknown, None),
            pattern=pl.Series(best).set(no_pattern, None),
            pattern_label=pl.Series(labels, dtype=pl.String).set(no_pattern, None),
            share=pl.Series(reasons.contribution[rows, ranks] / z).round(4).set(unknown, None),
            because=self._joined_names(reasons.because[rows, ranks]),
            similar_buyers=pl.Series(similar[:, 0]).set(pl.Series(best != BY_PEERS), None),
            similar_clients=pl.Series(similar[:, 1]).set(pl.Series(best != BY_PEERS), None),
            attribute=self._value_names.gather(reasons.value[rows, ranks] % len(self._value_names)),  # the last is null
        )

    def _joined_names(self, owned: NDArray[np.int32]) -> pl.Series:
        """Return the names of the items in each row, −1 for none, joined; null where a row has none."""
        columns = {
            str(c): self._names.gather(np.maximum(o, 0)).set(pl.Series(o < 0), None) for c, o in enumerate(owned.T)
        }
        joined = pl.DataFrame(columns).select(pl.concat_str(pl.all(), separator="; ", ignore_nulls=True)).to_series()
        return joined.replace("", None)


def recommend_all(model: OCuLaR, n: int, allowed: NDArray[np.bool_] | None = None) -> pl.DataFrame:
    """Return the n best products of every client, as `Batch.recommend` does, block by block."""
    batch, n_users = Batch(model, allowed), model.interactions_.n_users
    starts = range(0, n_users, CLIENTS_AT_ONCE)
    return pl.concat(batch.recommend(Clients.of(model, s, min(s + CLIENTS_AT_ONCE, n_users)), n) for s in starts)
