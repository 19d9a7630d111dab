"""Some of the products, or of the clients, chosen by name or by attribute: {"family": "Printing"}."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Attributes, Interactions, plain
from ocular.errors import Parameter, UnknownNameError
from ocular.validation import as_list

MAX_HINTS = 3  # names that a message suggests

# a name, several names, or attribute → value or values: a row must match every attribute, by any of its values
Choice = str | int | Iterable[Any] | Mapping[str, Any]
Mask = NDArray[np.bool_]


def allowed_items(interactions: Interactions, only: Choice | None, without: Choice | None) -> Mask | None:
    """
    Return a mask (n_items,) of the products in `only` (by default all) that are not in `without`; None for all.

    An unknown name, attribute or value raises UnknownNameError with the nearest ones.
    """
    chosen = [None if choice is None else select_items(interactions, choice) for choice in (only, without)]
    return _only_without(*chosen)


def allowed_users(interactions: Interactions, only: Choice | None, without: Choice | None) -> Mask | None:
    """Return a mask (n_users,) of clients, as `allowed_items` does of products."""
    chosen = [None if choice is None else select_users(interactions, choice) for choice in (only, without)]
    return _only_without(*chosen)


def select_items(interactions: Interactions, choice: Choice) -> Mask:
    """Return a mask (n_items,) of the products chosen."""
    if isinstance(choice, Mapping):
        return _by_attributes(interactions.item_attributes, choice, interactions.n_items, "product")
    return _by_rows([interactions.item_index(name) for name in as_list(choice)], interactions.n_items)


def select_users(interactions: Interactions, choice: Choice) -> Mask:
    """Return a mask (n_users,) of the clients chosen."""
    if isinstance(choice, Mapping):
        return _by_attributes(interactions.user_attributes, choice, interactions.n_users, "client")
    return _by_rows([interactions.user_index(name) for name in as_list(choice)], interactions.n_users)


def _only_without(only: Mask | None, without: Mask | None) -> Mask | None:
    if only is None or without is None:
        return only if without is None else ~without
    return only & ~without


def _by_rows(rows: list[int], n: int) -> Mask:
    chosen = np.zeros(n, dtype=bool)
    chosen[rows] = True
    return chosen


def _by_attributes(attributes: Attributes, choice: Mapping[str, Any], n: int, kind: str) -> Mask:
    chosen = np.ones(n, dtype=bool)
    for name, values in choice.items():
        if name not in attributes:
            message = f"no {kind} attribute named {name!r}; the {kind}s have {', '.join(attributes) or 'none'}"
            raise UnknownNameError(
                message, *(() if attributes else ("; read some with ", Parameter(f"{kind}_attributes")))
            )
        column = [plain(value) for value in attributes[name]]
        chosen &= np.logical_or.reduce([_equal(column, plain(value), name, kind) for value in as_list(values)])
    return chosen


def _equal(column: list[Any], value: Any, attribute: str, kind: str) -> Mask:
    matching = np.array([_same(there, value) for there in column], dtype=bool)
    if not matching.any():
        texts = sorted({str(there) for there in column if not _is_missing(there)})
        near = difflib.get_close_matches(str(value), texts, n=MAX_HINTS, cutoff=0.5)
        hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        raise UnknownNameError(f"no {kind} has {attribute} {str(value)!r}{hint}")
    return matching


def _same(there: Any, value: Any) -> bool:
    """Whether an attribute has a value: numbers as numbers, all else as text, the only form on the command line."""
    if _is_missing(there) or _is_missing(value):
        return _is_missing(there) and _is_missing(value)
    if isinstance(there, int | float) and not isinstance(there, bool):
        return bool(there == _number(str(value)))
    return str(there) == str(value)


def _number(text: str) -> float | None:
    for kind in (int, float):  # a float does not hold every large whole number
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
