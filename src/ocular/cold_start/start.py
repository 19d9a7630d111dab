"""Scores of new products and new clients: rows like those of `ocular.evidence`, in which the weights are their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.cold_start.rows import LINK_WEIGHT, VALUE_WEIGHT, NewRows, Side, for_new_links
from ocular.data.attributes import Features
from ocular.data.interactions import Adjacency
from ocular.evidence import Evidence, client_features, fit_appeal, fit_taste, product_features
from ocular.scoring import Scorer
from ocular.solver.config import FitConfig

Ids = NDArray[np.int32]
Scores = NDArray[np.float32]


class Biases(NamedTuple):
    """The parts of z that are no evidence."""

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    all: float  # background and the bias that all pairs share


class ColdStart:
    """What a fitted model says of products and clients that it has not seen; parts are made when they are needed."""

    def __init__(self, evidence: Evidence, biases: Biases, shared_bias: float, config: FitConfig) -> None:
        """Take the evidence of a fitted model, its biases and the parameters of its fit."""
        self.evidence, self.biases = evidence, biases
        self._shared_bias, self._config, self._data = shared_bias, config, evidence.interactions

    # ---------------------------------------------------------------------------------------------- new products

    @cached_property
    def item_features(self) -> Features:
        """The values of attributes that products have."""
        return self.evidence.item_features or product_features(self._data, self.evidence.config)

    @cached_property
    def for_products(self) -> Evidence:
        """The evidence with taste, whatever it weighs in the model: rows of clients that score new products."""
        evidence, config = self.evidence, self.evidence.config
        if evidence.item_features is not None or not len(self.item_features):
            return evidence
        config = replace(config, taste=1.0)
        taste = fit_taste(self._data, config, self._config)
        return replace(evidence, config=config, taste=taste, item_features=self.item_features)

    @cached_property
    def _items(self) -> Side:
        evidence, data = self.evidence, self._data
        links = evidence.config.for_links(self._config) if evidence.config.links else None
        return Side(
            evidence.item_factors, evidence.user_factors, self.biases.users, self._shared_bias, evidence.links,
            None if links is None else for_new_links(links), data.by_item, data.by_user, self.item_features,
            self._config,
        )  # fmt: skip

    def new_products(
        self, buyers: Adjacency, attributes: Sequence[Mapping[str, Any]] | None = None, values: Adjacency | None = None
    ) -> NewRows:
        """Return new products with these buyers and attributes, or features where they are known already."""
        return self._items.describe(buyers, _values(self.item_features, attributes, len(buyers), values))

    def product_rows(self, new: NewRows) -> sp.csr_array:
        """Return y of new products, over the columns of `for_products`."""
        config, evidence, data = self.evidence.config, self.for_products, self._data
        popularity = (np.maximum(new.demand, 1) / data.by_item.degrees.mean()) ** config.popularity
        own = sp.diags_array(popularity * new.own_weight / config.total_weight)
        borrowed = sp.diags_array(popularity * new.borrowed_weight)
        parts = [own @ new.factors + borrowed @ new.borrowed_factors]
        if config.links:
            parts.append(own @ new.links * config.links + borrowed @ new.borrowed_links * LINK_WEIGHT)
        if config.peers:
            parts.append(own @ new.positives.matrix(data.n_users) * config.peers)
        if evidence.item_features is not None:
            parts.append(borrowed @ new.values.matrix(len(self.item_features)) * VALUE_WEIGHT)
        if evidence.user_features is not None:
            appeal = fit_appeal(data, config, self._config, new.positives)
            parts.append(own @ appeal.T.tocsr() * config.appeal)
        return sp.csr_array(sp.hstack(parts, format="csr"), dtype=np.float32)

    def clients_for(
        self, rows: sp.csr_array, buyers: Adjacency, n: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Ids, Scores]:
        """Return for each row of a new product the n clients with the largest z, best first, without its buyers."""
        ids, affinity = self._users.top(rows, buyers, n, allowed)
        return ids, affinity + np.float32(self.product_base)

    @property
    def product_base(self) -> float:
        """The part of z of a new product that is no evidence, without the bias of the client."""
        return self.biases.all + float(self.biases.items.mean())

    @cached_property
    def _users(self) -> Scorer:
        rows = self.for_products.rows_of(np.arange(self._data.n_users))
        return Scorer(rows, self.biases.users.astype(np.float32), self._data.by_user.degrees, self._config.threads)

    # ----------------------------------------------------------------------------------------------- new clients

    @cached_property
    def user_features(self) -> Features:
        """The values of attributes that clients have."""
        return self.evidence.user_features or client_features(self._data, self.evidence.config)

    @cached_property
    def for_clients(self) -> Evidence:
        """The evidence with appeal, whatever it weighs in the model: rows of products that score new clients."""
        evidence, config = self.evidence, self.evidence.config
        if evidence.user_features is not None or not len(self.user_features):
            return evidence
        config = replace(config, appeal=1.0)
        appeal = fit_appeal(self._data, config, self._config)
        return replace(evidence, config=config, appeal=appeal, user_features=self.user_features)

    @cached_property
    def _clients(self) -> Side:
        evidence, data = self.evidence, self._data
        peers = evidence.config.for_peers(self._config) if evidence.config.peers else None
        return Side(
            evidence.user_factors, evidence.item_factors, self.biases.items, self._shared_bias, evidence.peers, peers,
            data.by_user, data.by_item, self.user_features, self._config,
        )  # fmt: skip

    def new_clients(
        self,
        purchases: Adjacency,
        attributes: Sequence[Mapping[str, Any]] | None = None,
        values: Adjacency | None = None,
    ) -> NewRows:
        """Return new clients with these purchases and attributes, or features where they are known already."""
        return self._clients.describe(purchases, _values(self.user_features, attributes, len(purchases), values))

    def client_rows(self, new: NewRows) -> sp.csr_array:
        """Return x of new clients, over the columns of `for_clients`."""
        config, evidence, data = self.evidence.config, self.for_clients, self._data
        total = evidence.config.total_weight  # by which the rows of products are divided
        own = sp.diags_array(total * new.own_weight / config.total_weight)
        borrowed = sp.diags_array(total * new.borrowed_weight)
        parts = [own @ new.factors + borrowed @ new.borrowed_factors]
        if config.links:
            parts.append(own @ new.positives.matrix(data.n_items))
        if config.peers:
            parts.append(own @ new.links + borrowed @ new.borrowed_links * (LINK_WEIGHT / config.peers))
        if evidence.item_features is not None:
            parts.append(own @ fit_taste(data, config, self._config, new.positives))
        if evidence.user_features is not None:
            weight = VALUE_WEIGHT / evidence.config.appeal
            parts.append(borrowed @ new.values.matrix(len(self.user_features)) * weight)
        return sp.csr_array(sp.hstack(parts, format="csr"), dtype=np.float32)

    def products_for(
        self, rows: sp.csr_array, purchases: Adjacency, n: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Ids, Scores]:
        """Return for each row of a new client the n products with the largest z, best first, without its purchases."""
        ids, affinity = self._products.top(rows, purchases, n, allowed)
        return ids, affinity + np.float32(self.client_base)

    @property
    def client_base(self) -> float:
        """The part of z of a new client that is no evidence, without the bias of the product."""
        return self.biases.all + float(self.biases.users.mean())

    @cached_property
    def _products(self) -> Scorer:
        data = self._data
        bias = self.biases.items.astype(np.float32)
        return Scorer(self.for_clients.item_rows, bias, data.by_item.degrees, self._config.threads)


def _values(
    features: Features, attributes: Sequence[Mapping[str, Any]] | None, n: int, values: Adjacency | None
) -> Adjacency:
    """Return the features of n new rows."""
    if values is not None:
        return values
    rows = [features.describe(given) for given in attributes or [{}] * n]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Adjacency(ends, np.concatenate([np.empty(0, dtype=np.int32), *rows]).astype(np.int32))
