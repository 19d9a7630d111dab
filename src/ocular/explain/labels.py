"""
Labels of co-clusters, "Aerospace & Agriculture: Backup and Storage": what sets the members apart, and true by share.

Of the attributes of members that are categories (an industry, a country, a product family), values are named that the
members have at least 1.5 times as often as everybody: one that 40% of the members have, or up to three, each of at
least 15%, that together half of them have. Without such a family the most distinctive products are named: those that
many clients of the co-cluster have and few others. Values and products are ranked by p·log(p / q), what a share of p
inside and q overall contributes to telling the members apart from everybody (its term of the Kullback-Leibler
divergence). Labels that would be the same get a distinctive product each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Attributes, Interactions
from ocular.explain.names import joined, one_line, product_name, quoted, shortened

MIN_LIFT, MIN_MEMBERS = 1.5, 3
MIN_SHARE_ALONE, MIN_SHARE_TOGETHER, MIN_SHARE_EACH = 0.4, 0.5, 0.15  # of the members, of values that are named
MAX_NAMED = 3  # values of an attribute in a label
MAX_VALUES = 200  # distinct ones of an attribute: more are descriptions, not categories
MAX_PRODUCTS, MAX_NAME_LENGTH = 2, 40  # in a label

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trait:
    """An attribute that the members of a co-cluster have more often than others."""

    side: str  # "client" or "product"
    attribute: str
    value: str
    share: float  # of the members
    overall: float  # of everybody

    def __str__(self) -> str:
        return f"{self.value} {self.side}s: {self.share:.0%} ({self.overall:.0%} overall)"


@dataclass(frozen=True)
class Category:
    """An attribute with a few distinct values, such as an industry or a product family."""

    codes: Ids  # (n,) a number per row, 0 where the value is not known
    values: list[str]  # of the codes 1, 2, …
    overall: Floats  # (n_values,) the share of all rows

    def shares(self, members: Ids) -> Floats:
        """Return (n_values,) the share of the members that have each value."""
        counted = np.bincount(self.codes[members], minlength=len(self.values) + 1)[1:]
        shares: Floats = counted / max(len(members), 1)
        return shares


class Describer:
    """Labels for the co-clusters of one model."""

    def __init__(self, interactions: Interactions, buyers: sp.csr_array) -> None:
        """Take buyers (K, n_items), the number of users of each co-cluster who have an item."""
        self._interactions = interactions
        self._buyers = buyers
        self._client_categories = categories(interactions.user_attributes)
        self._product_categories = categories(interactions.item_attributes)

    def describe(
        self, members: Sequence[tuple[int, Ids, Ids]], kept: Mapping[int, str] | None = None
    ) -> list[tuple[str, tuple[Trait, ...]]]:
        """
        Return the label and the traits, most distinctive first, of co-clusters given by number, users and items.

        `kept` are labels that stay as they are. No two co-clusters get the same label.
        """
        kept = kept or {}
        labels, traits = [], []
        for c, users, items in members:
            clients = _traits("client", self._client_categories, users)
            products = _traits("product", self._product_categories, items)
            labels.append(kept.get(c) or self._label(c, users, items, clients, products))
            traits.append((*clients, *products))
        counts = Counter(labels)
        for place, (c, users, items) in enumerate(members):
            if counts[labels[place]] > 1 and c not in kept and traits[place]:
                labels[place] += f" ({self._product_names(c, users, items)[0]})"
        return list(zip(_numbered(labels), traits, strict=True))

    def _label(self, c: int, users: Ids, items: Ids, clients: tuple[Trait, ...], products: tuple[Trait, ...]) -> str:
        who, what = _leading(clients), _leading(products)
        bought = joined(what) if what else ", ".join(self._product_names(c, users, items))
        return f"{' & '.join(who)}: {bought}" if who else bought

    def _product_names(self, c: int, users: Ids, items: Ids) -> list[str]:
        """Return the names of the most distinctive products."""
        inside = self._buyers[[c]].toarray()[0][items] / len(users)
        overall = self._interactions.by_item.degrees[items] / self._interactions.n_users
        best = items[np.argsort(-_divergence(inside, overall), kind="stable")[:MAX_PRODUCTS]].tolist()
        names = [product_name(self._interactions.item_name(item)) for item in best]
        return [quoted(shortened(name, MAX_NAME_LENGTH)) for name in names]


def categories(attributes: Attributes) -> dict[str, Category]:
    """Return the attributes that are categories: text with few distinct values."""
    found = {}
    for name, column in attributes.items():
        values = sorted({value for value in column.tolist() if isinstance(value, str) and value.strip()})
        if not 2 <= len(values) <= min(MAX_VALUES, len(column) // 2):
            continue
        code: dict[Any, int] = {value: number + 1 for number, value in enumerate(values)}
        codes = np.array([code.get(value, 0) for value in column.tolist()], dtype=np.int64)
        overall = np.bincount(codes, minlength=len(values) + 1)[1:] / len(column)
        found[name] = Category(codes, [one_line(value) for value in values], overall)
    return found


def _traits(side: str, known: Mapping[str, Category], members: Ids) -> tuple[Trait, ...]:
    """Return the values that may be named, those of the most distinctive attribute first."""
    ranked: list[tuple[float, list[Trait]]] = []
    if len(members) < MIN_MEMBERS:
        return ()
    for attribute, category in known.items():
        inside, overall = category.shares(members), category.overall
        divergence = _divergence(inside, overall)
        order = np.argsort(-divergence, kind="stable")[:MAX_NAMED]
        each = max(MIN_SHARE_EACH, inside[order[0]] / 2, 1.5 / len(members))  # one member alone makes no value common
        frequent = (inside[order] >= np.maximum(each, MIN_LIFT * overall[order])).tolist()
        named = order[: (*frequent, False).index(False)]
        if inside[named].sum() >= (MIN_SHARE_ALONE if len(named) == 1 else MIN_SHARE_TOGETHER):
            traits = [Trait(side, attribute, category.values[v], float(inside[v]), float(overall[v])) for v in named]
            ranked.append((float(divergence[named].sum()), traits))
    ranked.sort(key=lambda pair: -pair[0])
    return tuple(trait for _, traits in ranked for trait in traits)


def _leading(traits: tuple[Trait, ...]) -> list[str]:
    """Return the values of the most distinctive attribute."""
    return [trait.value for trait in traits if trait.attribute == traits[0].attribute]


def _numbered(labels: list[str]) -> list[str]:
    """Return the labels with a number behind those that were there before."""
    seen: Counter[str] = Counter()
    numbered = []
    for label in labels:
        seen[label] += 1
        numbered.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return numbered


def _divergence(inside: Floats, overall: Floats) -> Floats:
    terms: Floats = inside * np.log(np.maximum(inside, 1e-12) / np.maximum(overall, 1e-12))
    return terms
