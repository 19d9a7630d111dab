"""
Labels of co-clusters: what the members have in common, and the products that set them apart.

A product is distinctive of a co-cluster if many of its clients have it and few others do. Of the attributes of members
that are categories (an industry, a country, a product family), the most distinctive value is named if at least 40% of
the members have it, 1.5 times as many as overall. Both are ranked by p·log(p / q), what a value with share p inside and
q overall contributes to telling the members apart from everybody (its term of the Kullback-Leibler divergence).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Attributes, Interactions
from ocular.explain.names import one_line, product_name, quoted, shortened

MIN_SHARE, MIN_LIFT, MIN_MEMBERS = 0.4, 1.5, 3
MAX_VALUES = 200  # distinct ones of an attribute: more are descriptions, not categories
MAX_PRODUCTS, MAX_NAME_LENGTH = 2, 40  # in a label


@dataclass(frozen=True)
class Trait:
    """An attribute that the members of a co-cluster have more often than others."""

    side: str  # "client" or "product"
    attribute: str
    value: str
    share: float  # of the members
    overall: float  # of everybody

    def __str__(self) -> str:
        return f"{self.attribute} {self.value}: {self.share:.0%} of its {self.side}s, {self.overall:.0%} of all"


class Describer:
    """Labels for the co-clusters of one model."""

    def __init__(self, interactions: Interactions, buyers: sp.csr_array) -> None:
        """Take buyers (K, n_items), the number of users of each co-cluster who have an item."""
        self._interactions = interactions
        self._buyers = buyers
        self._categories = {
            "client": _categories(interactions.user_attributes),
            "product": _categories(interactions.item_attributes),
        }

    def describe(self, c: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> tuple[str, tuple[Trait, ...]]:
        """Return the label and the traits, most distinctive first, of co-cluster c with these members."""
        by_client, by_product = self._traits("client", users), self._traits("product", items)
        parts = [trait[0].value for trait in (by_client, by_product) if trait]
        names = [product_name(self._interactions.item_name(i)) for i in self._distinctive_items(c, users, items)]
        parts.append(", ".join(quoted(shortened(name, MAX_NAME_LENGTH)) for name in names))
        return " · ".join(parts), (*by_client, *by_product)

    def _distinctive_items(self, c: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> list[int]:
        inside = self._buyers[[c]].toarray()[0][items] / len(users)
        overall = self._interactions.by_item.degrees[items] / self._interactions.n_users
        best: list[int] = items[np.argsort(-_divergence(inside, overall), kind="stable")[:MAX_PRODUCTS]].tolist()
        return best

    def _traits(self, side: str, members: NDArray[np.int64]) -> tuple[Trait, ...]:
        traits: list[tuple[float, Trait]] = []
        if len(members) < MIN_MEMBERS:
            return ()
        for attribute, (codes, values, overall) in self._categories[side].items():
            inside = np.bincount(codes[members], minlength=len(values) + 1)[1:] / len(members)
            divergence = _divergence(inside, overall)
            best = int(np.argmax(divergence))
            if inside[best] >= max(MIN_SHARE, MIN_LIFT * overall[best]):
                trait = Trait(side, attribute, values[best], float(inside[best]), float(overall[best]))
                traits.append((float(divergence[best]), trait))
        return tuple(trait for _, trait in sorted(traits, key=lambda pair: -pair[0]))


def _divergence(inside: NDArray[np.float64], overall: NDArray[np.float64]) -> NDArray[np.float64]:
    terms: NDArray[np.float64] = inside * np.log(np.maximum(inside, 1e-12) / np.maximum(overall, 1e-12))
    return terms


def _categories(attributes: Attributes) -> Mapping[str, tuple[NDArray[np.int64], list[str], NDArray[np.float64]]]:
    """Return for each attribute that is a category: a code per row, 0 where not known; the values; their shares."""
    categories = {}
    for name, column in attributes.items():
        values = sorted({value for value in column.tolist() if isinstance(value, str) and value.strip()})
        if not 2 <= len(values) <= min(MAX_VALUES, len(column) // 2):
            continue
        code: dict[Any, int] = {value: number + 1 for number, value in enumerate(values)}
        codes = np.array([code.get(value, 0) for value in column.tolist()], dtype=np.int64)
        shares = np.bincount(codes, minlength=len(values) + 1)[1:] / len(column)
        categories[name] = codes, [one_line(value) for value in values], shares
    return categories
