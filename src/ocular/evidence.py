"""
Five kinds of evidence in one intensity.

    z_ui = s_i (⟨f_u, f_i⟩ + α Σ_{j bought by u} S_ji + β Σ_{v bought i} T_vu + γ Σ_{a of i} B_ua + δ Σ_{a of u} C_ai)
           / (1 + α + β + γ + δ) + background (+ biases)

Patterns are the co-clusters f; links S say that who owns product j tends to buy product i; peers T say that what
client v buys client u buys; taste B says that client u buys products with the attribute a; appeal C says that clients
with the attribute a buy product i; and s_i = (n_i / mean n)^popularity · trend_i^trend, where trend_i is the recent
demand of a product over its overall demand (`data/trend.py`). Written side by side over co-clusters, products, clients
and values of attributes, z is one product of two sparse rows: x_u = [f_u, what u bought, T_·u, B_u·, attributes of u]
and y_i = s_i / (1 + α + β + γ + δ) · [f_i, α S_·i, β who bought i, γ attributes of i, δ C_·i]. A part that weighs
nothing has no columns. Rankings, probabilities and explanations read these rows, so that none of them can disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.attributes import SEPARATOR, Features, describe
from ocular.data.interactions import Adjacency, Interactions
from ocular.data.trend import find_trends
from ocular.errors import ConfigError, DataError, Parameter
from ocular.solver.config import FitConfig, user_weights
from ocular.solver.links import LIKELIHOOD, LOSSES, LinkConfig, fit_links
from ocular.validation import check_choice, check_number, check_whole

Floats = NDArray[np.float32]

# of the sum of a target's links and peers: half of all entries carry the rest, and cost half of a ranking's time
KEPT_LINKS, KEPT_PEERS = 0.95, 0.9
WEIGHTS = ("links", "peers", "taste", "appeal")


@dataclass(frozen=True)
class EvidenceConfig:
    """Weights of the other kinds of evidence beside the patterns, and how they are fitted; see `ocular.OCuLaR`."""

    links: float = 0.0  # α
    peers: float = 0.0  # β
    popularity: float = 0.0
    link_regularization: float = 300.0  # μ
    n_links: int = 500
    link_loss: str = LIKELIHOOD  # of links between products; peers are always fitted by the likelihood
    peer_regularization: float = 1000.0
    taste: float = 0.0  # γ
    appeal: float = 0.0  # δ
    attribute_regularization: float = 1000.0  # of taste and appeal
    attribute_separator: str = SEPARATOR
    trend: float = 0.0
    trend_half_life: float = 30.0  # days

    def __post_init__(self) -> None:
        for name in WEIGHTS:
            object.__setattr__(self, name, check_number(getattr(self, name), name, 0, 1e6))
        for name, low in (("popularity", -5), ("trend", 0)):
            object.__setattr__(self, name, check_number(getattr(self, name), name, low, 5))
        object.__setattr__(self, "trend_half_life", check_number(self.trend_half_life, "trend_half_life", 0.01, 1e5))
        for name in ("link_regularization", "peer_regularization", "attribute_regularization"):
            object.__setattr__(self, name, check_number(getattr(self, name), name, 0, 1e12))
        check_choice(self.link_loss, "link_loss", LOSSES)
        object.__setattr__(self, "n_links", check_whole(self.n_links, "n_links", 1, 10_000))
        separator: Any = self.attribute_separator
        if not isinstance(separator, str):
            raise ConfigError("expected ", Parameter("attribute_separator"), f" to be text, got {separator!r}")

    @property
    def is_patterns_only(self) -> bool:
        """Whether this is the model of the paper."""
        return self.total_weight == 1 and self.popularity == 0 and self.trend == 0

    @property
    def total_weight(self) -> float:
        """1 + α + β + γ + δ."""
        return 1 + self.links + self.peers + self.taste + self.appeal

    def for_links(self, fit: FitConfig) -> LinkConfig:
        """Return how links are fitted beside these patterns."""
        penalty, loss = self.link_regularization, self.link_loss
        return replace(self.for_peers(fit), regularization=penalty, loss=loss, kept_share=KEPT_LINKS)

    def for_peers(self, fit: FitConfig) -> LinkConfig:
        """Return how peers are fitted beside these patterns."""
        return LinkConfig(
            self.peer_regularization,
            self.n_links,
            fit.background,
            n_threads=fit.threads,
            kept_share=KEPT_PEERS,
            refusal_weight=fit.refusal_weight,
        )

    def for_attributes(self, fit: FitConfig) -> LinkConfig:
        """Return how taste and appeal are fitted beside these patterns."""
        return replace(self.for_peers(fit), regularization=self.attribute_regularization)


def fit_product_links(interactions: Interactions, evidence: EvidenceConfig, config: FitConfig) -> sp.csr_array:
    """Return S, (n_items, n_items), row j and column i: who owns j tends to buy i. Empty where links weigh nothing."""
    n_items = interactions.n_items
    if evidence.links == 0:
        return sp.csr_array((n_items, n_items), dtype=np.float32)
    weights = user_weights(interactions.by_user, n_items, config.relative)
    return fit_links(
        interactions.by_item,
        interactions.by_user,
        evidence.for_links(config),
        n_features=n_items,
        weights=weights,
    )


def fit_peers(
    interactions: Interactions, evidence: EvidenceConfig, config: FitConfig, users: NDArray[np.int64] | None = None
) -> sp.csr_array:
    """
    Return T, (n_users, n_users), row v and column u: what v buys, u buys. Empty where peers weigh nothing.

    With `users` it has their columns alone, which do not depend on the others.
    """
    users = np.arange(interactions.n_users) if users is None else users
    return fit_new_peers(interactions.by_user.take(users), interactions, evidence, config, users)


def fit_new_peers(
    rows: Adjacency,
    interactions: Interactions,
    evidence: EvidenceConfig,
    config: FitConfig,
    users: NDArray[np.int64] | None = None,
) -> sp.csr_array:
    """
    Return T, (n_users, n_rows), of clients who own these rows.

    `users` are their numbers among all, where they have one: nobody is their own peer.
    """
    shape = interactions.n_users, len(rows)
    if evidence.peers == 0:
        return sp.csr_array(shape, dtype=np.float32)
    itself = np.full(len(rows), -1) if users is None else users
    return fit_links(rows, interactions.by_item, evidence.for_peers(config), n_features=shape[0], itself=itself)


def product_features(interactions: Interactions, evidence: EvidenceConfig) -> Features:
    """Return the values of attributes that products have."""
    return describe(interactions.item_attributes, interactions.n_items, "product", evidence.attribute_separator)


def client_features(interactions: Interactions, evidence: EvidenceConfig) -> Features:
    """Return the values of attributes that clients have."""
    return describe(interactions.user_attributes, interactions.n_users, "client", evidence.attribute_separator)


def check_features(interactions: Interactions, evidence: EvidenceConfig) -> None:
    """Raise where taste or appeal weigh something and no attribute is there to learn them from."""
    for name, features, side in (("taste", product_features, "product"), ("appeal", client_features, "client")):
        if getattr(evidence, name) and not len(features(interactions, evidence)):
            attributes = Parameter(f"{side}_attributes")
            raise DataError(
                f"expected attributes of {side}s that several share, for ", Parameter(name), ", got none; give ",
                attributes, " or leave it at 0",
            )  # fmt: skip


def fit_taste(
    interactions: Interactions, evidence: EvidenceConfig, config: FitConfig, rows: Adjacency | None = None
) -> sp.csr_array:
    """
    Return B, (n_users, values): which values of attributes the products of each client tend to have.

    With `rows` it is that of clients who own these products. Without columns where taste weighs nothing.
    """
    rows = interactions.by_user if rows is None else rows
    if evidence.taste == 0:
        return sp.csr_array((len(rows), 0), dtype=np.float32)
    return sp.csr_array(_fit_values(rows, product_features(interactions, evidence), evidence, config).T.tocsr())


def fit_appeal(
    interactions: Interactions, evidence: EvidenceConfig, config: FitConfig, columns: Adjacency | None = None
) -> sp.csr_array:
    """
    Return C, (values, n_items): which values of attributes the clients of each product tend to have.

    With `columns` it is that of products that these clients own. Without rows where appeal weighs nothing.
    """
    columns = interactions.by_item if columns is None else columns
    if evidence.appeal == 0:
        return sp.csr_array((0, len(columns)), dtype=np.float32)
    return _fit_values(columns, client_features(interactions, evidence), evidence, config)


def _fit_values(targets: Adjacency, features: Features, evidence: EvidenceConfig, config: FitConfig) -> sp.csr_array:
    itself = np.full(len(targets), -1)
    return fit_links(targets, features.rows, evidence.for_attributes(config), n_features=len(features), itself=itself)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence of a fitted model as sparse rows whose product is z, less background and biases."""

    config: EvidenceConfig
    user_factors: sp.csr_array  # (n_users, K)
    item_factors: sp.csr_array  # (n_items, K)
    links: sp.csr_array  # S, (n_items, n_items)
    peers: sp.csr_array  # T, (n_users, n_users)
    interactions: Interactions
    taste: sp.csr_array | None = None  # B, (n_users, values of products)
    appeal: sp.csr_array | None = None  # C, (values of clients, n_items)
    item_features: Features | None = None  # of products, where taste weighs something
    user_features: Features | None = None  # of clients, where appeal weighs something

    @property
    def parts(self) -> tuple[Any, ...]:
        """The weights and all tables."""
        return self.config, self.user_factors, self.item_factors, self.links, self.peers, self.taste, self.appeal

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """How many columns of the rows are co-clusters, products, clients, values of products, values of clients."""
        config, (n_users, n_items) = self.config, self.interactions.shape
        links, peers = n_items if config.links else 0, n_users if config.peers else 0
        values = (0 if features is None else len(features) for features in (self.item_features, self.user_features))
        return self.item_factors.shape[1], links, peers, *values

    @cached_property
    def trends(self) -> NDArray[np.float64]:
        """(n_items,) the recent demand of each item over its overall demand; ones where trend weighs nothing."""
        if self.config.trend == 0:
            return np.ones(self.interactions.n_items)
        return find_trends(self.interactions, self.config.trend_half_life)

    @cached_property
    def item_scales(self) -> Floats:
        """(n_items,) s_i / (1 + α + β + γ + δ)."""
        config = self.config
        degrees = np.maximum(self.interactions.by_item.degrees, 1)
        scales = (degrees / self.interactions.by_item.degrees.mean()) ** config.popularity * self.trends**config.trend
        scales_of_all: Floats = (scales / config.total_weight).astype(np.float32)
        return scales_of_all

    @cached_property
    def links_by_item(self) -> sp.csc_array:
        """S by column: what leads to each item."""
        return self.links.tocsc()

    @cached_property
    def peers_by_user(self) -> sp.csr_array:
        """T by column, as rows: the peers of each user."""
        return sp.csr_array(self.peers.T.tocsr())

    @cached_property
    def appeal_by_item(self) -> sp.csc_array | None:
        """C by column: the values of clients that each item appeals to."""
        return None if self.appeal is None else self.appeal.tocsc()

    @cached_property
    def item_rows(self) -> sp.csr_array:
        """y_i of every item, over co-clusters, products, clients and values of attributes."""
        if self.config.is_patterns_only:
            return self.item_factors
        parts = [self.item_factors]
        if self.config.links:
            parts.append(self.links.T.tocsr() * np.float32(self.config.links))
        if self.config.peers:
            parts.append(self.interactions.by_item.matrix(self.interactions.n_users) * np.float32(self.config.peers))
        if self.item_features is not None:
            values = self.item_features.rows.matrix(len(self.item_features))
            parts.append(values * np.float32(self.config.taste))
        if self.appeal is not None and self.user_features is not None:
            parts.append(self.appeal.T.tocsr() * np.float32(self.config.appeal))
        rows = sp.csr_array(sp.hstack(parts, format="csr"))
        rows.data *= np.repeat(self.item_scales, np.diff(rows.indptr))
        return rows

    def user_rows(
        self,
        factors: sp.csr_array,
        owned: Adjacency,
        peers: sp.csr_array,
        taste: sp.csr_array | None = None,
        values: Adjacency | None = None,
    ) -> sp.csr_array:
        """Return x_u of users with these memberships, purchases, peers (n, n_users), taste and values of attributes."""
        parts = [factors]
        if self.config.links:
            parts.append(owned.matrix(self.interactions.n_items))
        if self.config.peers:
            parts.append(peers)
        if self.item_features is not None:
            parts.append(sp.csr_array((len(owned), len(self.item_features))) if taste is None else taste)
        if self.user_features is not None:
            width = len(self.user_features)
            parts.append(sp.csr_array((len(owned), width)) if values is None else values.matrix(width))
        return factors if len(parts) == 1 else sp.csr_array(sp.hstack(parts, format="csr"), dtype=np.float32)

    def rows_of(self, users: NDArray[np.int64]) -> sp.csr_array:
        """Return x_u of users of the model."""
        if self.config.total_weight == 1:
            return self.user_factors[users]
        owned = self.interactions.by_user.take(users)
        values = None if self.user_features is None else self.user_features.rows.take(users)
        taste = None if self.taste is None else self.taste[users]
        return self.user_rows(self.user_factors[users], owned, self.peers_by_user[users], taste, values)

    def affinities_of(self, item: int) -> NDArray[np.float64]:
        """Return ⟨x_u, y_i⟩ of every user and one item, (n_users,), without building the rows of all users."""
        wanted, start = self.item_rows[[item]].toarray()[0], 0
        products, values = self.interactions.by_user, self.user_features
        sides = (
            self.user_factors,
            products.matrix(self.interactions.n_items) if self.config.links else None,
            self.peers.T if self.config.peers else None,
            self.taste,
            None if values is None else values.rows.matrix(len(values)),
        )
        total = np.zeros(self.interactions.n_users)
        for side, size in zip(sides, self.sizes, strict=True):
            if side is not None and size:
                total += side @ wanted[start : start + size]
            start += size
        return total
