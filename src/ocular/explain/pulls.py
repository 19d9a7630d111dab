"""
How much of a score rests on each purchase of a client.

At the optimum of a client's row what pulls a membership or a peer up, against the pairs that were not bought and the
penalty that pull it down, are the client's purchases, through the derivative of −log(1 − e^(−z)). So what it adds to a
score is divided among them in proportion to their pull:

    links     α s_i S_ji / (1 + α + β)         belongs to purchase j alone
    patterns  s_i f_uk f_ik / (1 + α + β)      to all purchases j ≠ i by p_jk = f_jk / (1 − e^(−z_uj))
    peers     β s_i T_vu / (1 + α + β)         to all purchases j ≠ i that u and v share by q_j = 1 / (1 − e^(−z'_uj))
    taste     γ s_i B_ua / (1 + α + β)         to all purchases j ≠ i with the attribute a by t_j = 1 / (1 − e^(−z"_uj))

where taste or appeal weigh something, the divisor is 1 + α + β + γ + δ. z_uj is the affinity of the patterns alone, as
their fit saw it: background, biases and ⟨f_u, f_j⟩. z'_uj is that of the peers alone: background + Σ_{v bought j} T_vu,
and z"_uj that of the taste alone: background + Σ_{a of j} B_ua. Appeal rests on no purchase. The weights w_u of
R-OCuLaR are the same for all purchases of a client and cancel. What has no purchase to be divided among, as may happen
away from the optimum, is divided as all the rest is, or evenly where there is no rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Interactions

Floats = NDArray[np.float64]
Parts = Sequence[tuple[int, float]]  # what each co-cluster, item or user adds to a score

MIN_AFFINITY = 1e-12  # a purchase without any affinity would pull infinitely


class Pulls:
    """The pulls of one client's purchases on memberships and peers, computed when they are first asked for."""

    def __init__(
        self,
        owned: NDArray[np.int32],  # ascending
        factors: sp.csr_array,  # (1, K) f_u
        item_factors: sp.csr_array,
        base: Floats,  # (n_owned,) z of the patterns without ⟨f_u, f_j⟩: background and biases
        peers: sp.csr_array,  # (n_users, 1) T_·u
        background: float,
        interactions: Interactions,
        taste: sp.csr_array | None = None,  # (1, n_values) B_u·
        values: sp.csr_array | None = None,  # (n_owned, n_values) of the purchases
    ) -> None:
        self._owned, self._factors, self._item_factors, self._base = owned, factors, item_factors, base
        self._peers, self._background, self._interactions = peers, background, interactions
        self._taste, self._values = taste, values

    def shares(self, item: int, patterns: Parts, links: Parts, peers: Parts, taste: Parts = ()) -> dict[int, float]:
        """Return the share of each purchase but `item` in what the parts of each kind add, largest first."""
        others = np.flatnonzero(self._owned != item)
        if not len(others):
            return {}
        added = np.zeros(len(self._owned))
        if patterns:
            columns, contributions = _split(patterns)
            added[others] += _divide(self._on_patterns[others][:, columns], contributions)
        if links:
            items, contributions = _split(links)
            places = np.searchsorted(self._owned, items)
            added[places] += contributions
        if peers:
            users, contributions = _split(peers)
            pulls = self._on_peers[np.searchsorted(self._peer_users, users)]
            added[others] += _divide(pulls.T.tocsr()[others], contributions)
        if taste and self._taste is not None and self._values is not None:
            values, contributions = _split(taste)
            strengths = self._taste.toarray()[0].astype(np.float64)
            pulls = _pull(self._background + self._values @ strengths)
            columns = sp.csr_array(self._values[others][:, values], dtype=np.float64)
            added[others] += _divide(sp.csr_array(columns.multiply(pulls[others][:, None])), contributions)
        total = added.sum()
        shares = added / total if total > 0 else np.full(len(added), 1 / len(others))
        order = others[np.argsort(-shares[others], kind="stable")]
        return dict(zip(self._owned[order].tolist(), shares[order].tolist(), strict=True))

    @cached_property
    def _on_patterns(self) -> sp.csr_array:
        """(n_owned, K) p_jk."""
        rows = sp.csr_array(self._item_factors[self._owned], dtype=np.float64)
        affinity = self._base + rows @ self._factors.toarray()[0].astype(np.float64)
        return sp.csr_array(rows.multiply(_pull(affinity)[:, None]))

    @cached_property
    def _peer_users(self) -> NDArray[np.int64]:
        """The client's peers, ascending."""
        return np.sort(self._peers.tocsc().indices).astype(np.int64)

    @cached_property
    def _on_peers(self) -> sp.csr_array:
        """(n_peers, n_owned) q_j where the client and the peer have j."""
        baskets = self._interactions.by_user.take(self._peer_users).matrix(self._interactions.n_items)
        common = sp.csr_array(baskets[:, self._owned], dtype=np.float64)
        strengths = self._peers[self._peer_users].toarray()[:, 0].astype(np.float64)
        return sp.csr_array(common.multiply(_pull(self._background + common.T @ strengths)[None, :]))


def _split(parts: Parts) -> tuple[NDArray[np.int64], Floats]:
    return np.array([part[0] for part in parts], dtype=np.int64), np.array([part[1] for part in parts])


def _pull(affinity: Floats) -> Floats:
    pull: Floats = -1 / np.expm1(-np.maximum(affinity, MIN_AFFINITY))
    return pull


def _divide(pulls: sp.csr_array, contributions: Floats) -> Floats:
    """Return (n_owned,) the contributions of the columns divided among the rows in proportion to their pulls."""
    total = np.asarray(pulls.sum(axis=0)).ravel()
    per_pull = np.divide(contributions, total, out=np.zeros_like(contributions), where=total > 0)
    divided: Floats = pulls @ per_pull
    return divided
