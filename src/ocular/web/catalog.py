"""Facts about the products of one model, computed once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Attributes, Interactions, plain
from ocular.data.trend import find_trends, has_times
from ocular.explain.price import MIN_CLIENTS, round_prices
from ocular.model import OCuLaR

MAX_VALUES = 40  # of an attribute that people choose from
MIN_OWNERS = 3  # of both products that are called bought together
N_TOGETHER = 6
REMEMBERED = 32  # products whose clients are scored already
NOTABLE = 1.25  # times the usual rate, or as much below it


class Grouping(NamedTuple):
    """An attribute with few values, and the value of each row."""

    attribute: str
    values: list[str]
    codes: NDArray[np.int64]  # place in `values`; −1 where it is not known

    def rows(self, value: str) -> NDArray[np.int64]:
        """Return the rows with this value; none for an unknown one."""
        return np.flatnonzero(self.codes == self.values.index(value)) if value in self.values else _NO_ROWS


@dataclass(frozen=True)
class Together:
    """A product that the owners of another one have unusually often."""

    item: int
    both: int  # clients who own both
    share: float  # of the owners of the other product
    base_rate: float  # of all clients


class Catalog:
    """What pages say about products."""

    def __init__(self, model: OCuLaR) -> None:
        self._model, self._data = model, model.interactions_
        self.product_attributes = group_attributes(self._data.item_attributes)
        # each of these is the same for all visitors
        self.probabilities = lru_cache(REMEMBERED)(model.item_probabilities)
        self.together = lru_cache(REMEMBERED)(self._find_together)

    @cached_property
    def families(self) -> Grouping | None:
        """The attribute that divides the products best: text before numbers, then the one that most products have."""
        groupings = self.product_attributes.values()
        is_text = {name: _is_text(self._data.item_attributes[name]) for name in self.product_attributes}
        return max(
            groupings, key=lambda grouping: (is_text[grouping.attribute], np.mean(grouping.codes >= 0)), default=None
        )

    def family_of(self, item: int) -> str | None:
        """Return the family of a product; None where there is none."""
        families = self.families
        return None if families is None or families.codes[item] < 0 else families.values[families.codes[item]]

    @cached_property
    def trends(self) -> NDArray[np.float64] | None:
        """How fast each product sells now relative to its usual rate; None for purchases without dates."""
        half_life = self._model.evidence_config_.trend_half_life
        return find_trends(self._data, half_life) if has_times(self._data) else None

    def trend_text(self, item: int) -> str | None:
        """Return the trend in words; None without dates."""
        if self.trends is None:
            return None
        trend = float(self.trends[item])
        if 1 / NOTABLE < trend < NOTABLE:
            return "Sells at its usual rate"
        return f"Sells at {trend:.1f} times its usual rate"

    def is_recommended(self, item: int) -> bool:
        """Return whether the model may recommend the product."""
        return not bool(self._model.excluded_items_[item])

    def attributes_of(self, item: int) -> dict[str, str]:
        """Return the known attributes of a product as text."""
        return describe_row(self._data.item_attributes, item)

    def paid(self, item: int) -> NDArray[np.float64]:
        """Return the rounded prices paid for a unit, ascending; none where fewer than MIN_CLIENTS clients paid."""
        if self._data.payments is None:
            return np.empty(0)
        buyers, prices, _ = self._data.payments.of(item)
        enough = len(set(buyers[:100].tolist())) >= MIN_CLIENTS or len(np.unique(buyers)) >= MIN_CLIENTS
        return round_prices(prices) if enough else np.empty(0)

    def patterns_of(self, item: int) -> list[int]:
        """Return the numbers of the patterns that the product belongs to, strongest first."""
        row = self._model.members().items[[item]].tocsr()
        strengths = np.asarray(self._model.item_factors_[[item]].toarray()[0])[row.indices]
        patterns: list[int] = row.indices[np.argsort(-strengths, kind="stable")].tolist()
        return patterns

    def _find_together(self, item: int) -> list[Together]:
        data, owners = self._data, self._data.by_item[item]
        if len(owners) < MIN_OWNERS:
            return []
        both = np.bincount(data.by_user.take(owners).indices, minlength=data.n_items)
        base_rate = data.by_item.degrees / data.n_users
        share = both / len(owners)
        likely = (both >= MIN_OWNERS) & (share > NOTABLE * base_rate) & (np.arange(data.n_items) != item)
        gain = np.where(likely, both * np.log(np.maximum(share, 1e-12) / np.maximum(base_rate, 1e-12)), 0)
        best = np.argsort(-gain, kind="stable")[:N_TOGETHER]
        return [
            Together(int(i), int(both[i]), float(share[i]), float(base_rate[i])) for i in best.tolist() if gain[i] > 0
        ]


def group_attributes(attributes: Attributes) -> dict[str, Grouping]:
    """Return the attributes that have from two to MAX_VALUES values."""
    groupings = {}
    for name, cells in attributes.items():
        texts = [cell_text(cell) for cell in cells.tolist()]
        values = sorted({text for text in texts if text is not None})
        if 2 <= len(values) <= MAX_VALUES:
            places: Mapping[str | None, int] = {value: place for place, value in enumerate(values)}
            codes = np.array([places.get(text, -1) for text in texts], dtype=np.int64)
            groupings[name] = Grouping(name, values, codes)
    return groupings


def describe_row(attributes: Attributes, row: int) -> dict[str, str]:
    """Return the known attributes of one row as text."""
    texts = {name: cell_text(cells[row]) for name, cells in attributes.items()}
    return {name: text for name, text in texts.items() if text is not None}


def cell_text(cell: Any) -> str | None:
    """
    Return an attribute as people read it; None where it is missing.

    >>> cell_text("Airline"), cell_text(12.0), cell_text(float("nan")), cell_text(["a", "b"])
    ('Airline', '12', None, 'a, b')
    """
    cell = plain(cell)
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, list | tuple | set | frozenset):
        return ", ".join(sorted(map(str, cell))) or None
    text = f"{cell:g}" if isinstance(cell, float) else str(cell).strip()
    return text or None


def _is_text(cells: NDArray[Any]) -> bool:
    return any(isinstance(plain(cell), str) for cell in cells[:100].tolist())


def owned_by(interactions: Interactions, item: int) -> NDArray[np.bool_]:
    """Return (n_users,) who owns the product."""
    owned = np.zeros(interactions.n_users, dtype=bool)
    owned[interactions.by_item[item]] = True
    return owned


_NO_ROWS = np.empty(0, dtype=np.int64)
