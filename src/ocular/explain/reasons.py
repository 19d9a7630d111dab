"""Why an item is recommended to a user: the co-clusters that cause it, taken from the model itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ocular.data.interactions import Interactions, plain

EXAMPLES = 3  # names in a sentence


@dataclass(frozen=True)
class Reason:
    """What one co-cluster adds to the affinity of a user and an item."""

    cocluster: int
    contribution: float  # f_uc · f_ic
    owned_items: list[int]  # the user's purchases in this co-cluster, strongest first
    similar_users: list[int]  # its users who bought the item, strongest first


@dataclass(frozen=True)
class Explanation:
    """Contributions sum to ⟨f_u, f_i⟩; with biases and background they give the confidence."""

    user: int
    item: int
    confidence: float
    reasons: list[Reason]  # strongest first
    owned: bool  # the user has the item already
    interactions: Interactions

    def text(self, most: int = 3) -> str:
        """The rationale in words: the strongest reasons, and how many weaker ones are left out."""
        data = self.interactions
        client, product = data.user_labels[self.user], data.item_labels[self.item]
        opening = "was bought by" if self.owned else "is recommended to"
        head = f"{product} {opening} {client} with confidence {self.confidence:.2f}"
        told = self._distinct_reasons()
        if not told:
            return f"{head}; the model has no co-cluster to name as the reason."
        lines: list[str] = []
        for reason in told[:most]:
            have = _join([str(data.item_labels[i]) for i in reason.owned_items])
            alike = _join([str(data.user_labels[u]) for u in reason.similar_users])
            start = "Moreover, " if lines else ""
            lines.append(
                f"- {start}{client} has purchased {have}. "
                f"Clients with similar purchase history (e.g., {alike}) also bought {product}."
            )
        if len(told) > most:
            rest = sum(reason.contribution for reason in told[most:]) / sum(reason.contribution for reason in told)
            left = "1 weaker reason is" if len(told) == most + 1 else f"{len(told) - most} weaker reasons are"
            lines.append(f"- {left} left out: {rest:.0%} of the case.")
        return "\n".join([f"{head} because:", *lines])

    def _distinct_reasons(self) -> list[Reason]:
        """Co-clusters with the same purchases and the same clients are one reason to a reader."""
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Reason]] = {}
        for reason in self.reasons:
            if reason.owned_items and reason.similar_users:
                evidence = tuple(sorted(reason.owned_items)), tuple(sorted(reason.similar_users))
                groups.setdefault(evidence, []).append(reason)
        merged = [replace(same[0], contribution=sum(r.contribution for r in same)) for same in groups.values()]
        return sorted(merged, key=lambda reason: -reason.contribution)

    def to_dict(self) -> dict[str, Any]:
        """Plain values with names, ready for JSON."""
        users, items = self.interactions.user_labels, self.interactions.item_labels
        return {
            "client": plain(users[self.user]),
            "product": plain(items[self.item]),
            "confidence": self.confidence,
            "owned": self.owned,
            "reasons": [
                {
                    "cocluster": reason.cocluster,
                    "contribution": reason.contribution,
                    "owned_items": [plain(items[i]) for i in reason.owned_items],
                    "similar_users": [plain(users[u]) for u in reason.similar_users],
                }
                for reason in self.reasons
            ],
        }


def find_reasons(
    user: int, item: int, user_factors: sp.csr_array, item_factors: sp.csr_array, interactions: Interactions
) -> list[Reason]:
    """One reason for each co-cluster that holds both, strongest first."""
    f_u, f_i = _row(user_factors, user), _row(item_factors, item)
    shared = sorted(f_u.keys() & f_i.keys(), key=lambda c: (-f_u[c] * f_i[c], c))
    owned = [int(i) for i in interactions.by_user[user] if i != item]
    buyers = [int(u) for u in interactions.by_item[item] if u != user]
    owned_rows, buyer_rows = item_factors[owned].tocsc(), user_factors[buyers].tocsc()
    return [
        Reason(c, f_u[c] * f_i[c], _strongest(owned, owned_rows, c), _strongest(buyers, buyer_rows, c)) for c in shared
    ]


def _row(factors: sp.csr_array, r: int) -> dict[int, float]:
    span = slice(factors.indptr[r], factors.indptr[r + 1])
    return dict(zip(factors.indices[span].tolist(), factors.data[span].tolist(), strict=True))


def _strongest(rows: list[int], factors: sp.csc_array, c: int) -> list[int]:
    span = slice(factors.indptr[c], factors.indptr[c + 1])
    order = np.argsort(-factors.data[span], kind="stable")
    return [rows[r] for r in factors.indices[span][order]]


def _join(names: list[str]) -> str:
    shown, rest = names[:EXAMPLES], len(names) - EXAMPLES
    if rest > 0:
        shown.append(f"{rest} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
