"""
Three kinds of evidence in one intensity.

    z_ui = s_i (⟨f_u, f_i⟩ + α Σ_{j bought by u} S_ji + β Σ_{v bought i} T_vu) / (1 + α + β) + background (+ biases)

Patterns are the co-clusters f; links S say that who owns product j tends to buy product i; peers T say that what
client v buys client u buys; and s_i = (n_i / mean n)^popularity. Written side by side over co-clusters, products and
clients, z is one product of two sparse rows: x_u = [f_u, what u bought, T_·u] and
y_i = s_i / (1 + α + β) · [f_i, α S_·i, β who bought i]. Rankings, probabilities and explanations read these rows, so
that none of them can disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.solver.config import FitConfig, user_weights
from ocular.solver.links import LIKELIHOOD, LOSSES, LinkConfig, fit_links
from ocular.validation import check_choice, check_number, check_whole

Floats = NDArray[np.float32]

# of the sum of a target's links and peers: half of all entries carry the rest, and cost half of a ranking's time
KEPT_LINKS, KEPT_PEERS = 0.95, 0.9


@dataclass(frozen=True)
class EvidenceConfig:
    """Weights of links and peers beside the patterns, and how they are fitted; see `ocular.OCuLaR`."""

    links: float = 0.0  # α
    peers: float = 0.0  # β
    popularity: float = 0.0
    link_regularization: float = 300.0  # μ
    n_links: int = 500
    link_loss: str = LIKELIHOOD  # of links between products; peers are always fitted by the likelihood
    peer_regularization: float = 1000.0

    def __post_init__(self) -> None:
        for name, low, high in (("links", 0, 1e6), ("peers", 0, 1e6), ("popularity", -5, 5)):
            object.__setattr__(self, name, check_number(getattr(self, name), name, low, high))
        for name in ("link_regularization", "peer_regularization"):
            object.__setattr__(self, name, check_number(getattr(self, name), name, 0, 1e12))
        check_choice(self.link_loss, "link_loss", LOSSES)
        object.__setattr__(self, "n_links", check_whole(self.n_links, "n_links", 1, 10_000))

    @property
    def is_patterns_only(self) -> bool:
        """Whether this is the model of the paper."""
        return self.links == 0 and self.peers == 0 and self.popularity == 0

    def for_links(self, fit: FitConfig) -> LinkConfig:
        """Return how links are fitted beside these patterns."""
        penalty, loss = self.link_regularization, self.link_loss
        return replace(self.for_peers(fit), regularization=penalty, loss=loss, kept_share=KEPT_LINKS)

    def for_peers(self, fit: FitConfig) -> LinkConfig:
        """Return how peers are fitted beside these patterns."""
        penalty, threads = self.peer_regularization, fit.threads
        return LinkConfig(penalty, self.n_links, fit.background, n_threads=threads, kept_share=KEPT_PEERS)


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


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence of a fitted model as sparse rows whose product is z, less background and biases."""

    config: EvidenceConfig
    user_factors: sp.csr_array  # (n_users, K)
    item_factors: sp.csr_array  # (n_items, K)
    links: sp.csr_array  # S, (n_items, n_items)
    peers: sp.csr_array  # T, (n_users, n_users)
    interactions: Interactions

    @property
    def parts(self) -> tuple[EvidenceConfig, sp.csr_array, sp.csr_array, sp.csr_array, sp.csr_array]:
        """Everything but the interactions."""
        return self.config, self.user_factors, self.item_factors, self.links, self.peers

    @cached_property
    def item_scales(self) -> Floats:
        """(n_items,) s_i / (1 + α + β)."""
        config = self.config
        degrees = np.maximum(self.interactions.by_item.degrees, 1)
        scales = (degrees / self.interactions.by_item.degrees.mean()) ** config.popularity
        scales_of_all: Floats = (scales / (1 + config.links + config.peers)).astype(np.float32)
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
    def item_rows(self) -> sp.csr_array:
        """y_i of every item, over co-clusters, products and clients."""
        if self.config.is_patterns_only:
            return self.item_factors
        parts = [self.item_factors]
        if self.config.links:
            parts.append(self.links.T.tocsr() * np.float32(self.config.links))
        if self.config.peers:
            parts.append(self.interactions.by_item.matrix(self.interactions.n_users) * np.float32(self.config.peers))
        rows = sp.csr_array(sp.hstack(parts, format="csr"))
        rows.data *= np.repeat(self.item_scales, np.diff(rows.indptr))
        return rows

    def user_rows(self, factors: sp.csr_array, owned: Adjacency, peers: sp.csr_array) -> sp.csr_array:
        """Return x_u of users with these memberships, purchases and peers, (n, n_users)."""
        parts = [factors]
        if self.config.links:
            parts.append(owned.matrix(self.interactions.n_items))
        if self.config.peers:
            parts.append(peers)
        return factors if len(parts) == 1 else sp.csr_array(sp.hstack(parts, format="csr"))

    def rows_of(self, users: NDArray[np.int64]) -> sp.csr_array:
        """Return x_u of users of the model."""
        if not (self.config.links or self.config.peers):
            return self.user_factors[users]
        owned = self.interactions.by_user.take(users)
        return self.user_rows(self.user_factors[users], owned, self.peers_by_user[users])
