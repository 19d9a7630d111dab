"""Why an item is recommended to a user: the co-clusters that cause it, taken from the model itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Interactions, plain
from ocular.explain import wording
from ocular.explain.calibration import HitRate
from ocular.explain.coclusters import Members
from ocular.explain.price import PriceEstimate

MOST_REASONS = 3  # told
LEAST_SHARE = 0.1  # of the case that a reason must carry to be told


@dataclass(frozen=True)
class Reason:
    """What one co-cluster adds to the affinity of a user and an item."""

    cocluster: int
    contribution: float  # f_uc · f_ic
    owned_items: list[int]  # the user's purchases in this co-cluster, strongest first
    similar_users: list[int]  # its users who bought the item, strongest first
    group: int = 0  # number of its users without this one


@dataclass(frozen=True)
class Case:
    """The reasons as they are told: strongest first, equal ones merged, and what is left unsaid."""

    told: list[Reason]
    affinity: float  # all of it: z
    left_out: int  # number of weaker reasons
    left_out_share: float  # of the affinity
    rest_share: float  # of the affinity that no co-cluster explains: popularity and background


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions sum to ⟨f_u, f_i⟩; with `base` (biases and background) they give the confidence."""

    user: int | None  # None: a client who is not in the model
    item: int
    confidence: float
    reasons: list[Reason]  # strongest first
    owned: bool  # the user has the item already
    interactions: Interactions
    client_items: NDArray[np.int32]  # what the user has
    base: float = 0.0
    observed: HitRate | None = None  # of recommendations like this one
    price: PriceEstimate | None = None

    @property
    def client(self) -> Any:
        """The client's name."""
        return "the client" if self.user is None else plain(self.interactions.user_labels[self.user])

    @property
    def product(self) -> Any:
        """The product's name."""
        return plain(self.interactions.item_labels[self.item])

    def case(self, most: int = MOST_REASONS) -> Case:
        """At most so many reasons with evidence, each at least a tenth of the affinity (the first always)."""
        named = self._distinct_reasons()
        affinity = sum(reason.contribution for reason in self.reasons)
        total = max(affinity + self.base, 1e-12)
        enough = [n for n, reason in enumerate(named) if n == 0 or reason.contribution >= LEAST_SHARE * total]
        told = [named[n] for n in enough[: max(1, most)]]
        bare = sum(not (reason.owned_items and reason.similar_users) for reason in self.reasons)
        unsaid = affinity - sum(reason.contribution for reason in told)
        return Case(told, total, len(named) + bare - len(told), unsaid / total, self.base / total)

    def _distinct_reasons(self) -> list[Reason]:
        """Co-clusters with the same purchases and the same clients are one reason to a reader."""
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Reason]] = {}
        for reason in self.reasons:
            if reason.owned_items and reason.similar_users:
                evidence = tuple(sorted(reason.owned_items)), tuple(sorted(reason.similar_users))
                groups.setdefault(evidence, []).append(reason)
        merged = [replace(same[0], contribution=sum(r.contribution for r in same)) for same in groups.values()]
        return sorted(merged, key=lambda reason: -reason.contribution)

    def text(self, most: int = MOST_REASONS, *, show_clients: bool = True) -> str:
        """The rationale in words; `show_clients=False` names no other client."""
        return wording.text(self, most, show_clients)

    def to_markdown(self, most: int = MOST_REASONS, *, show_clients: bool = True) -> str:
        return wording.markdown(self, most, show_clients)

    def to_html(self, most: int = MOST_REASONS, *, show_clients: bool = True) -> str:
        """A fragment: <div class="ocular-explanation">…</div>."""
        return wording.html(self, most, show_clients)

    def to_dict(self, *, show_clients: bool = True) -> dict[str, Any]:
        """Plain values with names, ready for JSON."""
        users, items = self.interactions.user_labels, self.interactions.item_labels
        return {
            "client": self.client,
            "product": self.product,
            "confidence": self.confidence,
            "hit_rate": None if self.observed is None else self.observed._asdict(),
            "price": None if self.price is None else self.price.to_dict(),
            "owned": self.owned,
            "base": self.base,
            "reasons": [
                {
                    "cocluster": reason.cocluster,
                    "contribution": reason.contribution,
                    "owned_items": [plain(items[i]) for i in reason.owned_items],
                    "bought_by": len(reason.similar_users),
                    "group": reason.group,
                }
                | ({"similar_users": [plain(users[u]) for u in reason.similar_users]} if show_clients else {})
                for reason in self.reasons
            ],
            "text": self.text(show_clients=show_clients),
        }


def find_reasons(
    f_u: sp.csr_array,
    owned: NDArray[np.int32],
    item: int,
    factors: tuple[sp.csr_array, sp.csr_array],
    members: Members,
    interactions: Interactions,
    user: int | None = None,
) -> list[Reason]:
    """
    One reason for each co-cluster that holds both, strongest first.

    f_u (1, K) and `owned` belong to a user of the model, then named by `user`, or to a new one. Evidence comes from
    the members of a co-cluster; where none of them bears it out, from all with a trace of it.
    """
    user_factors, item_factors = factors
    strengths, f_i = _row(f_u, 0), _row(item_factors, item)
    product = {c: strengths[c] * f_i[c] for c in strengths.keys() & f_i.keys()}
    owned_mask = np.zeros(interactions.n_items, dtype=bool)
    owned_mask[owned] = True
    owned_mask[item] = False
    bought_mask = np.zeros(interactions.n_users, dtype=bool)
    bought_mask[interactions.by_item[item]] = True
    if user is not None:
        bought_mask[user] = False
    reasons = []
    for c in sorted(product, key=lambda c: (-product[c], c)):
        items, users = members.items_of(c)[0], members.users_of(c)[0]
        owned_items, similar_users = items[owned_mask[items]], users[bought_mask[users]]
        if not len(owned_items):
            owned_items = _strongest(np.flatnonzero(owned_mask), item_factors, c)
        if not len(similar_users):
            similar_users = _strongest(np.flatnonzero(bought_mask), user_factors, c)
            users = np.flatnonzero(user_factors[:, [c]].toarray()[:, 0])
        group = len(users) - int(user is not None and user in users)
        reasons.append(Reason(c, product[c], owned_items.tolist(), similar_users.tolist(), group))
    return reasons


def relate(reasons: list[Reason], user_factors: sp.csr_array) -> dict[int, float]:
    """How much each client that the reasons name has to do with them: Σ over the reasons of contribution · f_vc."""
    related: dict[int, float] = {}
    for reason in reasons:
        strengths = user_factors[reason.similar_users, [reason.cocluster] * len(reason.similar_users)]
        for user, strength in zip(reason.similar_users, np.asarray(strengths).tolist(), strict=True):
            related[user] = related.get(user, 0.0) + reason.contribution * strength
    return related


def _row(factors: sp.csr_array, r: int) -> dict[int, float]:
    span = slice(factors.indptr[r], factors.indptr[r + 1])
    return dict(zip(factors.indices[span].tolist(), factors.data[span].tolist(), strict=True))


def _strongest(rows: NDArray[np.int64], factors: sp.csr_array, c: int) -> NDArray[np.int64]:
    """Those of the rows with any strength in c, strongest first."""
    strengths = factors[rows][:, [c]].toarray()[:, 0]
    order = np.argsort(-strengths, kind="stable")
    return rows[order[: int((strengths > 0).sum())]]
