"""Attributes by name as the likelihood takes them: which values have weights, and the codes of any rows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ocular.data.attributes import MIN_ROWS, describe
from ocular.data.interactions import Attributes as Columns
from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, Parameter
from ocular.solver.attributes import Attributes, Categories, SideAttributes, Tags

MAX_VALUES = 200  # of an attribute: each costs as much as an item that everybody has

_log = logging.getLogger("ocular")


class Reader(Protocol):
    """Finds the values in a cell."""

    def read(self, cell: Any) -> list[str]: ...


@dataclass(frozen=True)
class AttributeValues:
    """One attribute: its values with weights, and what stands for the value that needs none."""

    name: str
    values: tuple[str, ...]
    exclusive: bool  # a row has one value
    rest: str | None  # the last value of an exclusive attribute; None: any that is not in `values`
    reader: Reader

    def encode(self, cells: Iterable[Any]) -> Categories | Tags:
        """Return the values of rows; what was not seen in the fit is not observed, unless it is one of the rest."""
        number = {value: n for n, value in enumerate(self.values)}
        read = [self.reader.read(cell) for cell in cells]
        if self.exclusive:
            other = len(self.values)
            unseen = other if self.rest is None else -1
            codes = [-1 if not row else other if row[0] == self.rest else number.get(row[0], unseen) for row in read]
            return Categories(np.array(codes, dtype=np.int64), other + 1)
        found = [sorted({number[value] for value in row if value in number}) for row in read]
        ends = np.concatenate([[0], np.cumsum([len(row) for row in found])]).astype(np.int64)
        indices = np.array(list(chain.from_iterable(found)), dtype=np.int64)
        shape = len(found), len(self.values)
        table = sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, ends), shape=shape)
        return Tags(table, np.array([bool(row) for row in read], dtype=bool))


@dataclass(frozen=True)
class AttributeNames:
    """The attributes of one side by name, in the order of their weights."""

    columns: tuple[AttributeValues, ...]

    @classmethod
    def of(cls, attributes: Columns, n_rows: int, side: str) -> AttributeNames:
        """Return what the likelihood uses of the attributes of `side`, "client" or "product"."""
        readers = describe(attributes, n_rows, side).columns
        columns = (_values(name, attributes[name], reader, side) for name, reader in readers.items())
        return cls(tuple(column for column in columns if column is not None))

    @property
    def labels(self) -> list[tuple[str, str]]:
        """The attribute and the value that each row of weights belongs to."""
        return [(column.name, value) for column in self.columns for value in column.values]

    def encode(self, attributes: Mapping[str, Any], n_rows: int) -> Attributes:
        """Return rows with these attributes as the solver takes them; attributes that are not given are not known."""
        missing = [None] * n_rows
        return Attributes.of(n_rows, [column.encode(attributes.get(column.name, missing)) for column in self.columns])


def attribute_names(interactions: Interactions) -> tuple[AttributeNames, AttributeNames]:
    """Return the attributes of clients and of products that the likelihood uses."""
    return (
        AttributeNames.of(interactions.user_attributes, interactions.n_users, "client"),
        AttributeNames.of(interactions.item_attributes, interactions.n_items, "product"),
    )


def side_attributes(interactions: Interactions, strength: float) -> SideAttributes | None:
    """Return the attributes that a fit with this strength uses; None without any strength."""
    if strength == 0:
        return None
    users, items = attribute_names(interactions)
    if not users.columns and not items.columns:
        given = Parameter("attribute_strength", f"{strength:g}")
        remedy = Parameter("client_attributes"), " or ", Parameter("product_attributes")
        raise ConfigError("expected attributes with ", given, ", got none that describe rows; read some with ", *remedy)
    return SideAttributes(
        users.encode(interactions.user_attributes, interactions.n_users) if users.columns else None,
        items.encode(interactions.item_attributes, interactions.n_items) if items.columns else None,
    )


def _values(name: str, cells: Iterable[Any], reader: Reader, side: str) -> AttributeValues | None:
    """Return the values of an attribute that have weights, the most frequent ones; None where nothing is left."""
    read = [set(reader.read(cell)) for cell in cells]
    exclusive = all(len(row) <= 1 for row in read)
    uses = Counter(chain.from_iterable(read))
    frequent = [value for value, n in sorted(uses.items(), key=lambda use: (-use[1], use[0])) if n >= MIN_ROWS]
    if len(frequent) > MAX_VALUES:
        _log.warning(
            "%s attribute %r has %s values: the %d most frequent are in the likelihood; group them, or drop it",
            side, name, f"{len(uses):,}", MAX_VALUES,
        )  # fmt: skip
    kept = sorted(frequent[:MAX_VALUES])
    rest = kept.pop() if exclusive and kept and len(kept) == len(uses) else None
    return AttributeValues(name, tuple(kept), exclusive, rest, reader) if kept else None
