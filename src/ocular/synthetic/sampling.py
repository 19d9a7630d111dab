"""Random samples whose time and memory go with their size, not with what could have been chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

DRAWS_AT_ONCE = 4_000_000


def draw_cells(rng: np.random.Generator, n_cells: int, share: float) -> Ints:
    """Choose positive cells out of so many, each with the same probability; ascending."""
    if share == 0:
        return np.empty(0, dtype=np.int64)
    pieces = [np.array([-1])]
    while (last := pieces[-1][-1]) < n_cells:
        expected = (n_cells - last) * share
        # the gaps from one positive to the next are geometric
        gaps = rng.geometric(share, int(expected + 4 * np.sqrt(expected)) + 1)
        pieces.append(last + np.cumsum(gaps))
    cells = np.concatenate(pieces[1:])
    return cells[cells < n_cells]


def draw_rows(rng: np.random.Generator, rates: Floats, popularity: Floats) -> tuple[Ints, NDArray[np.int32]]:
    """Choose rows of distinct items, ascending: (u, i) occurs with probability 1 - exp(-rates[u]·popularity[i])."""
    n_items = len(popularity)
    edges = np.cumsum(popularity)
    n_draws = rng.poisson(rates * edges[-1])
    upto = np.concatenate([[0], np.cumsum(n_draws)])
    degrees = np.zeros(len(rates), dtype=np.int64)
    indices = np.empty(upto[-1], dtype=np.int32)
    filled = start = 0
    while start < len(rates):
        # as many rows as there are draws in a chunk: what is held at once does not grow with the data
        end = max(start + 1, int(np.searchsorted(upto, upto[start] + DRAWS_AT_ONCE, side="right")) - 1)
        draw = rng.random(upto[end] - upto[start]) * edges[-1]
        code = np.repeat(np.arange(end - start), n_draws[start:end]) * n_items
        code += np.minimum(np.searchsorted(edges, draw, side="right"), n_items - 1)
        code.sort()
        code = code[np.diff(code, prepend=-1) > 0]
        degrees[start:end] = np.bincount(code // n_items, minlength=end - start)
        indices[filled : filled + len(code)] = code % n_items
        filled, start = filled + len(code), end
    return np.concatenate([[0], np.cumsum(degrees)]), indices[:filled]
