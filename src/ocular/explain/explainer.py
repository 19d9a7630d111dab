"""Explanations of a fitted model's recommendations, from its factors and its purchases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.evidence import Evidence
from ocular.explain.calibration import Calibration
from ocular.explain.coclusters import Members
from ocular.explain.finder import Reasons, memberships
from ocular.explain.price import estimate_price
from ocular.explain.pulls import Pulls
from ocular.explain.reasons import Explanation, Reason


class Client(NamedTuple):
    """One client as an explanation sees them: a row of the model, or a row of purchases that were folded in."""

    user: int | None  # None: not in the model
    items: NDArray[np.int32]  # what they have
    factors: sp.csr_array  # (1, K)
    bias: float
    peers: sp.csr_array | None = None  # (n_users, 1)
    is_supposed: bool = False  # `items` are not the purchases of the user
    taste: sp.csr_array | None = None  # (1, values of products)
    values: NDArray[np.int32] | None = None  # of the client's attributes

    def without_itself(self) -> Client:
        """Return the client who is not their own peer, as a client of the model with other purchases would be."""
        if self.user is None or self.peers is None or not self.peers[[self.user]].nnz:
            return self
        peers = self.peers.tocoo()
        others = peers.row != self.user
        values, places = peers.data[others], (peers.row[others], peers.col[others])
        return self._replace(peers=sp.csr_array((values, places), shape=peers.shape))


@dataclass(frozen=True, eq=False)
class Explainer:
    """What is needed of a model to explain its recommendations."""

    evidence: Evidence
    item_bias: NDArray[np.float32]
    bias: float  # that all pairs share
    background: float
    members: Members
    interactions: Interactions
    calibration: Calibration | None

    def explain(self, client: Client, items: list[int]) -> list[Explanation]:
        """Return an explanation for each of the items."""
        client = client.without_itself()
        reasons, pulls = self._reasons(client), self._pulls(client)
        owned, supposed = set(client.items.tolist()), None
        if client.user is not None and client.is_supposed:
            supposed = sorted(owned.difference(self.interactions.by_user[client.user].tolist()))
        return [self._explain(client, item, reasons, pulls, supposed, owned=item in owned) for item in items]

    def find_one(self, client: Client, item: int, kind: str, cocluster: int) -> Reason | None:
        """Return one reason for an item that is known to be its strongest, without looking for the others."""
        return self._reasons(client.without_itself()).find_one(item, kind, cocluster)

    def _reasons(self, client: Client) -> Reasons:
        return Reasons(
            memberships(client.factors, 0), client.items, self.evidence, self.members, self.interactions, client.user,
            client.peers, client.taste, client.values,
        )  # fmt: skip

    def _pulls(self, client: Client) -> Pulls:
        items = np.sort(client.items)
        base = self.item_bias[items].astype(np.float64) + client.bias + self.bias + self.background
        peers = sp.csr_array((self.interactions.n_users, 1)) if client.peers is None else client.peers
        factors = client.factors, self.evidence.item_factors
        features, values = self.evidence.item_features, None
        if features is not None:
            values = features.rows.take(items).matrix(len(features))
        return Pulls(items, *factors, base, peers, self.background, self.interactions, client.taste, values)

    def _explain(
        self, client: Client, item: int, reasons: Reasons, pulls: Pulls, supposed: list[int] | None, *, owned: bool
    ) -> Explanation:
        found, related = reasons.find(item)
        base = client.bias + float(self.item_bias[item]) + self.background + self.bias
        confidence = float(-np.expm1(-base - sum(reason.contribution for reason in found)))
        calibration = None if owned else self.calibration  # only recommendations were held out
        return Explanation(
            user=client.user,
            item=item,
            confidence=confidence,
            reasons=found,
            owned=owned,
            interactions=self.interactions,
            client_items=client.items,
            base=base,
            background=self.background,
            supposed=supposed,
            observed=None if calibration is None else calibration.observed(confidence),
            price=estimate_price(item, related, self.interactions, client.user),
            pulls=pulls,
            trend=float(self.evidence.trends[item]),
        )
