"""The attributes of clients by which lists are read and filtered: industry, country, size or whatever the data has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions

MAX_ATTRIBUTES, MAX_VALUES = 3, 50
OWNERS = {"seller", "owner", "account manager", "sales rep"}  # who has a client is assigned in the application


class ClientAttributes:
    """The first attributes with few values, as numbers that are quick to compare."""

    def __init__(self, interactions: Interactions) -> None:
        self.values: dict[str, list[str]] = {}  # of each attribute, in order
        self._codes: dict[str, NDArray[np.int32]] = {}  # (n_users,) places in `values`; −1 where it is not known
        for name, cells in interactions.user_attributes.items():
            if len(self.values) == MAX_ATTRIBUTES or is_owner(name):
                continue
            texts = [_text(cell) for cell in cells.tolist()]
            values = sorted({text for text in texts if text})
            if 1 < len(values) <= MAX_VALUES:
                places = {value: place for place, value in enumerate(values)}
                self.values[name] = values
                self._codes[name] = np.array([places.get(text, -1) for text in texts], dtype=np.int32)

    def filters(self) -> dict[str, dict[str, str]]:
        """Return the values of each attribute by the key that stands for them in an address."""
        return {name: {f"{name}:{value}": value for value in values} for name, values in self.values.items()}

    def filters_of(self, clients: NDArray[np.int64]) -> dict[str, dict[str, str]]:
        """Return the filters with the values that some of the clients have, where there are several."""
        present = {
            name: set(np.flatnonzero(np.bincount(codes[clients] + 1)[1:]).tolist())  # −1 for none
            for name, codes in self._codes.items()
        }
        chosen = {
            name: {key: value for place, (key, value) in enumerate(choices.items()) if place in present[name]}
            for name, choices in self.filters().items()
        }
        return {name: choices for name, choices in chosen.items() if len(choices) > 1}

    def matching(self, clients: NDArray[np.int64], keys: Iterable[str]) -> NDArray[np.int64]:
        """Return the clients that have the values of all these keys; an unknown key is ignored."""
        for name, choices in self.filters().items():
            chosen = [place for place, key in enumerate(choices) if key in keys]
            if chosen:
                clients = clients[np.isin(self._codes[name][clients], chosen)]
        return clients

    def of(self, user: int) -> list[str]:
        """Return the values of a client, "" where one is not known."""
        places = ((values, int(self._codes[name][user])) for name, values in self.values.items())
        return ["" if place < 0 else values[place] for values, place in places]


def is_owner(name: str) -> bool:
    """Return whether an attribute of this name says who looks after a client."""
    return name.replace("_", " ").casefold() in OWNERS


def _text(cell: Any) -> str:
    missing = cell is None or cell != cell  # noqa: PLR0124  nan
    return "" if missing else str(cell).strip()
