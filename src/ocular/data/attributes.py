"""
Attributes of clients or of products as features: which rows have which values.

A cell may be missing (None, NaN, empty), one value, several in a list or set, or several in a text ("Action|Comedy").
Numbers with many distinct values become ranges. Pairs of values ("Comedy" and "1990 to 1995") are features too where
the attributes have few values. What hardly any row shares says nothing of new rows and is left out.
"""

from __future__ import annotations

import difflib
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Attributes, plain
from ocular.errors import Parameter, UnknownNameError

SEPARATOR = "|"  # of several values in one text
MIN_ROWS = 2  # that share a value or a pair of values
MAX_VALUES, MIN_USES = 50, 2.0  # of an attribute with more values, each is shared by so many rows on average
MAX_NUMBERS = 20  # distinct numbers that are values of their own; more become ranges
N_RANGES = 10
MAX_PAIRED = 60  # values of an attribute up to which their pairs with others are features
MAX_HINTS = 3  # values that a note suggests

_log = logging.getLogger("ocular")

Value = tuple[str, str]  # an attribute and one of its values


@dataclass(frozen=True, eq=False)
class Features:
    """The features of all rows, and how new rows are described by the same ones."""

    rows: Adjacency  # the features of each row
    values: list[tuple[Value, ...]]  # what each feature is: one value, or two that come together
    side: str  # "client" or "product"
    columns: Mapping[str, _Column] = field(repr=False)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def names(self) -> list[str]:
        """The features in words: "family: Printing"; of two values that come together, both."""
        return [" + ".join(f"{attribute}: {value}" for attribute, value in feature) for feature in self.values]

    @cached_property
    def holders(self) -> Adjacency:
        """The other orientation: the rows with each feature."""
        turned = self.rows.matrix(len(self)).tocsc()
        return Adjacency(turned.indptr.astype(np.int64), turned.indices.astype(np.int32))

    def adjective(self, feature: int) -> str:
        """Return the feature as it stands before a noun, as in "Printing products"."""
        return ", ".join(
            value if self.columns[attribute].is_text else f"{attribute} {value}"
            for attribute, value in self.values[feature]
        )

    def describe(self, given: Mapping[str, Any]) -> NDArray[np.int32]:
        """
        Return the features of a new row, ascending.

        An attribute that the model does not know raises; a value that it does not know is ignored, with a note.
        """
        known, found = self._numbers, list[Value]()
        for name, cell in given.items():
            if name not in self.columns:
                raise UnknownNameError(
                    f"no {self.side} attribute named {name!r} that the model uses; "
                    f"it has {', '.join(self.columns) or 'none'}",
                    *(() if self.columns else ("; read some with ", Parameter(f"{self.side}_attributes"))),
                )
            for text in self.columns[name].read(cell):
                if ((name, text),) in known:
                    found.append((name, text))
                else:
                    self._note_unknown(name, text)
        features = [known[each] for each in _with_pairs(sorted(set(found)), self._paired) if each in known]
        return np.array(sorted(features), dtype=np.int32)

    @cached_property
    def _numbers(self) -> dict[tuple[Value, ...], int]:
        return {value: number for number, value in enumerate(self.values)}

    @cached_property
    def _paired(self) -> set[str]:
        """The attributes of which two values may be a feature."""
        return {name for feature in self.values if len(feature) == 2 for name, _ in feature}

    def _note_unknown(self, name: str, text: str) -> None:
        if not _log.isEnabledFor(logging.WARNING):  # the search for similar values takes long where there are many
            return
        texts = [value[0][1] for value in self.values if len(value) == 1 and value[0][0] == name]
        near = difflib.get_close_matches(text, texts, n=MAX_HINTS, cutoff=0.5)
        hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        _log.warning("too few %ss with %s %r to learn from: it is ignored%s", self.side, name, text, hint)


@dataclass(frozen=True)
class _Column:
    """How the cells of one attribute are read."""

    separator: str | None
    is_text: bool
    bounds: tuple[float, ...] = ()  # of ranges of numbers

    def read(self, cell: Any) -> list[str]:
        """Return the values in a cell as texts."""
        cell = plain(cell)
        if _is_missing(cell):
            return []
        if isinstance(cell, list | tuple | set | frozenset | np.ndarray):
            return list(chain.from_iterable(map(self.read, cell)))
        if self.is_text:
            text = str(cell)
            parts = text.split(self.separator) if self.separator else [text]
            return [part.strip() for part in parts if part.strip()]
        try:
            number = float(cell)
        except ValueError:
            return [str(cell)]
        return [_range_name(self.bounds, number) if self.bounds else _number_name(number)]


def describe(attributes: Attributes, n_rows: int, side: str = "product", separator: str | None = SEPARATOR) -> Features:
    """
    Return the features of rows by their attributes.

    `side`, "client" or "product", is what messages call a row; `separator` divides several values in one text.
    """
    columns: dict[str, _Column] = {}
    cells: list[list[Value]] = [[] for _ in range(n_rows)]
    for name, column in attributes.items():
        reader = _reader(column, separator)
        read = [sorted(set(reader.read(cell))) for cell in column]
        uses = Counter(chain.from_iterable(read))
        if not _is_useful(name, uses, n_rows, side):
            continue
        columns[name] = reader
        for row, texts in zip(cells, read, strict=True):
            row.extend((name, text) for text in texts if MIN_ROWS <= uses[text] < n_rows)
    sizes = Counter(name for name, _ in {value for row in cells for value in row})
    paired = {name for name, size in sizes.items() if size <= MAX_PAIRED}
    rows = [_with_pairs(sorted(row), paired) for row in cells]
    uses_of_all = Counter(chain.from_iterable(rows))
    place = {name: number for number, name in enumerate(attributes)}
    values = sorted(
        (value for value, n in uses_of_all.items() if n >= MIN_ROWS),
        key=lambda value: (len(value), [(place[name], text) for name, text in value]),
    )
    number = {value: n for n, value in enumerate(values)}
    indices = [sorted(number[value] for value in row if value in number) for row in rows]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in indices])]).astype(np.int64)
    return Features(
        Adjacency(ends, np.array(list(chain.from_iterable(indices)), dtype=np.int32)), values, side, columns
    )


def _is_useful(name: str, uses: Counter[str], n_rows: int, side: str) -> bool:
    """Return whether an attribute describes rows, with a note where it does not."""
    n_uses, n_values = sum(uses.values()), len(uses)
    if n_values == 0 or (n_values == 1 and n_uses == n_rows):
        _log.info("%s attribute %r is %s: left out", side, name, "the same for all" if n_values else "empty")
        return False
    if n_values > MAX_VALUES and n_uses < MIN_USES * n_values:  # a name, not a description
        _log.warning(
            "%s attribute %r has %s values for %s %ss, most of them once: left out; drop it, or group its values",
            side, name, f"{n_values:,}", f"{n_rows:,}", side,
        )  # fmt: skip
        return False
    return True


def _reader(column: Iterable[Any], separator: str | None) -> _Column:
    """Return how to read a column: text, numbers, or ranges of numbers where there are many."""
    cells = [cell for cell in map(plain, column) if not _is_missing(cell)]
    if not cells or not all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells):
        return _Column(separator, is_text=True)
    numbers = np.array(cells, dtype=np.float64)
    if len(np.unique(numbers)) <= MAX_NUMBERS:
        return _Column(separator, is_text=False)
    shares = np.linspace(0, 1, N_RANGES + 1)[1:-1]
    bounds = np.unique(np.quantile(numbers, shares, method="lower"))
    return _Column(separator, is_text=False, bounds=tuple(bounds[bounds < numbers.max()].tolist()))


def _with_pairs(row: list[Value], paired: set[str]) -> list[tuple[Value, ...]]:
    """Return the values of a row one by one and, of the attributes that are paired, two by two."""
    return [*((value,) for value in row), *combinations([value for value in row if value[0] in paired], 2)]


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _range_name(bounds: tuple[float, ...], number: float) -> str:
    """
    Return the range that a number is in.

    >>> [_range_name((10.0, 20.0), number) for number in (3, 10, 12, 21)]
    ['up to 10', 'up to 10', '10 to 20', 'above 20']
    """
    at = int(np.searchsorted(bounds, number))
    if at == 0:
        return f"up to {_number_name(bounds[0])}"
    if at == len(bounds):
        return f"above {_number_name(bounds[-1])}"
    return f"{_number_name(bounds[at - 1])} to {_number_name(bounds[at])}"


def _number_name(number: float) -> str:
    return str(int(number)) if number.is_integer() else f"{number:.6g}"
