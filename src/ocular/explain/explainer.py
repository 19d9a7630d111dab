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
from ocular.explain.price import estimate_price
from ocular.explain.reasons import Explanation, Reasons, memberships


class Client(NamedTuple):
    """One client as an explanation sees them: a row of the model, or a row of purchases that were folded in."""

    user: int | None  # None: not in the model
    items: NDArray[np.int32]  # what they have
    factors: sp.csr_array  # (1, K)
    bias: float
    peers: sp.csr_array | None = None  # (n_users, 1)
    is_supposed: bool = False  # `items` are not the purchases of the user


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
        strengths = memberships(client.factors, 0)
        reasons = Reasons(
            strengths, client.items, self.evidence, self.members, self.interactions, client.user, client.peers
        )
        owned, supposed = set(client.items.tolist()), None
        if client.user is not None and client.is_supposed:
            supposed = sorted(owned.difference(self.interactions.by_user[client.user].tolist()))
        return [self._explain(client, item, reasons, supposed, owned=item in owned) for item in items]

    def _explain(
        self, client: Client, item: int, reasons: Reasons, supposed: list[int] | None, *, owned: bool
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
        )
