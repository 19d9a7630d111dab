"""Some of the products, chosen by name or by attribute: {"family": "Printing"}."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions, plain
from ocular.errors import UnknownNameError
from ocular.validation import as_list

MAX_HINTS = 3  # names that a message suggests

# a name, several names, or attribute → value or values: a product must match every attribute, by any of its values
Choice = str | int | Iterable[Any] | Mapping[str, Any]


def select_items(interactions: Interactions, choice: Choice) -> NDArray[np.bool_]:
    """Return a mask (n_items,) of the products chosen; an unknown name, attribute or value raises with the nearest."""
    if not isinstance(choice, Mapping):
        chosen = np.zeros(interactions.n_items, dtype=bool)
        chosen[[interactions.item_index(name) for name in as_list(choice)]] = True
        return chosen
    chosen = np.ones(interactions.n_items, dtype=bool)
    for attribute, values in choice.items():
        chosen &= _with_attribute(interactions, attribute, as_list(values))
    return chosen


def allowed_items(interactions: Interactions, only: Choice | None, without: Choice | None) -> NDArray[np.bool_] | None:
    """Return the mask of the products in `only` (by default all) that are not in `without`; None where all are."""
    if only is None and without is None:
        return None
    allowed = np.ones(interactions.n_items, dtype=bool) if only is None else select_items(interactions, only)
    return allowed if without is None else allowed & ~select_items(interactions, without)


def _with_attribute(interactions: Interactions, attribute: str, values: list[Any]) -> NDArray[np.bool_]:
    attributes = interactions.item_attributes
    if attribute not in attributes:
        known = ", ".join(attributes) or "none; read them with product_attributes="
        raise UnknownNameError(f"no product attribute named {attribute!r}; the products have {known}")
    # as text, which is what the command line has of a number
    column = np.array([str(plain(value)) for value in attributes[attribute]], dtype=object)
    chosen = np.zeros(interactions.n_items, dtype=bool)
    for value in values:
        matching = column == str(plain(value))
        if not matching.any():
            near = difflib.get_close_matches(str(value), sorted(set(column)), n=MAX_HINTS, cutoff=0.5)
            hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
            raise UnknownNameError(f"no product has {attribute} {str(value)!r}{hint}")
        chosen |= matching
    return chosen
