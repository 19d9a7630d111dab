"""Rows of clients and products by what people call them."""

from __future__ import annotations

import difflib
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from ocular.errors import UnknownNameError

MAX_SUGGESTIONS = 3
MIN_SIMILARITY = 0.5  # of a name that is suggested


class Lookup:
    """Finds the row of a client or product by its key or its name."""

    def __init__(self, labels: NDArray[Any], names: NDArray[Any] | None, kind: str) -> None:
        self._labels, self._names, self._kind = labels, names, kind

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each key, as text."""
        return {str(label): row for row, label in enumerate(self._labels)}

    @cached_property
    def _rows_by_name(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(() if self._names is None else self._names):
            rows.setdefault(str(name), []).append(row)
        return rows

    def get(self, name: Any) -> int | None:
        """Return the row of a key, or of a name that only one has; None otherwise."""
        text = str(name)
        row = self.rows.get(text)
        if row is not None:
            return row
        rows = self._rows_by_name.get(text, [])
        return rows[0] if len(rows) == 1 else None

    def find(self, name: Any) -> int:
        """Return the row of a key, or of a name that only one has; raise with the nearest ones otherwise."""
        row, text = self.get(name), str(name)
        if row is not None:
            return row
        rows = self._rows_by_name.get(text, [])
        if rows:
            keys = ", ".join(repr(str(self._labels[row])) for row in rows[:MAX_SUGGESTIONS])
            more = f" and {len(rows) - MAX_SUGGESTIONS} more" if len(rows) > MAX_SUGGESTIONS else ""
            raise UnknownNameError(f"{len(rows)} {self._kind}s are named {text!r}: {keys}{more}; use one of these keys")
        near = self._nearest(text)
        hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        raise UnknownNameError(f"no {self._kind} named {text!r} among {len(self.rows):,}{hint}")

    def _nearest(self, text: str) -> list[str]:
        known = list(dict.fromkeys([*self.rows, *self._rows_by_name]))
        folded = text.casefold()
        containing = [name for name in known if folded and folded in name.casefold()][:MAX_SUGGESTIONS]
        return containing or difflib.get_close_matches(text, known, n=MAX_SUGGESTIONS, cutoff=MIN_SIMILARITY)
