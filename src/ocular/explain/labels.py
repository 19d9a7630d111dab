"""
What to call a co-cluster: what its members have in common, and the products it stands for.

A product stands for a co-cluster if many of its clients have it and few others do. Among the attributes of members,
text that few distinct values share (an industry, a country, a product family), the most telling one is named if at
least two in five have it, half as many again as elsewhere. Both are ranked by p·log(p / q), the part that a value
with share p inside and q overall has in telling the members apart from everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Attributes, Interactions, plain
from ocular.explain.names import one_line, product_name, shortened

LEAST_SHARE, LEAST_LIFT, LEAST_MEMBERS = 0.4, 1.5, 3
MOST_VALUES = 200  # distinct ones of an attribute: more are descriptions, not categories
PRODUCTS, NAME_LENGTH = 2, 40  # in a label


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
        """Buyers (K, n_items): how many users of a co-cluster have an item."""
        self._interactions = interactions
        self._buyers = buyers
        self._categories = {
            "client": _categories(interactions.user_attributes),
            "product": _categories(interactions.item_attributes),
        }

    def describe(self, c: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> tuple[str, tuple[Trait, ...]]:
        """The label and the traits, most telling first, of co-cluster c with these members."""
        by_client, by_product = self._traits("client", users), self._traits("product", items)
        parts = [trait[0].value for trait in (by_client, by_product) if trait]
        names = [product_name(plain(self._interactions.item_labels[i])) for i in self._distinctive(c, users, items)]
        parts.append(", ".join(shortened(name, NAME_LENGTH) for name in names))
        return " · ".join(parts), (*by_client, *by_product)

    def _distinctive(self, c: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> list[int]:
        inside = self._buyers[[c]].toarray()[0][items] / len(users)
        overall = self._interactions.by_item.degrees[items] / self._interactions.n_users
        best: list[int] = items[np.argsort(-_telling(inside, overall), kind="stable")[:PRODUCTS]].tolist()
        return best

    def _traits(self, side: str, members: NDArray[np.int64]) -> tuple[Trait, ...]:
        found: list[tuple[float, Trait]] = []
        if len(members) < LEAST_MEMBERS:
            return ()
        for attribute, (codes, values, overall) in self._categories[side].items():
            inside = np.bincount(codes[members], minlength=len(values) + 1)[1:] / len(members)
            telling = _telling(inside, overall)
            best = int(np.argmax(telling))
            if inside[best] >= max(LEAST_SHARE, LEAST_LIFT * overall[best]):
                trait = Trait(side, attribute, values[best], float(inside[best]), float(overall[best]))
                found.append((float(telling[best]), trait))
        return tuple(trait for _, trait in sorted(found, key=lambda pair: -pair[0]))


def _telling(inside: NDArray[np.float64], overall: NDArray[np.float64]) -> NDArray[np.float64]:
    told: NDArray[np.float64] = inside * np.log(np.maximum(inside, 1e-12) / np.maximum(overall, 1e-12))
    return told


def _categories(attributes: Attributes) -> Mapping[str, tuple[NDArray[np.int64], list[str], NDArray[np.float64]]]:
    """For each attribute that is one: a code for every row, 0 where it is not known; the values; their shares."""
    found = {}
    for name, column in attributes.items():
        values = sorted({value for value in column.tolist() if isinstance(value, str) and value.strip()})
        if not 2 <= len(values) <= min(MOST_VALUES, len(column) // 2):
            continue
        code: dict[Any, int] = {value: number + 1 for number, value in enumerate(values)}
        codes = np.array([code.get(value, 0) for value in column.tolist()], dtype=np.int64)
        shares = np.bincount(codes, minlength=len(values) + 1)[1:] / len(column)
        found[name] = codes, [one_line(value) for value in values], shares
    return found
