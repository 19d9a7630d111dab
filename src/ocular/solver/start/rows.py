"""The positives as a start needs them, wherever they are: here, or in blocks of rows on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.solver.config import Factors
from ocular.solver.pool import RowPool


class Rows(Protocol):
    """The positives of one side."""

    @property
    def degrees(self) -> NDArray[np.int64]: ...

    def apply(self, function: Callable[..., Factors], *shared: Any) -> Any:
        """The rows of function(positives, pool, *shared), which may be called for a block of rows at a time."""
        ...


class Positives(Protocol):
    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def nnz(self) -> int: ...

    @property
    def users(self) -> Rows: ...

    @property
    def items(self) -> Rows: ...

    def baskets(self, users: NDArray[np.int64]) -> Adjacency:
        """The rows of some users, in the given order."""
        ...

    def gather(self) -> Interactions:
        """All of them, here; only asked for where they are few."""
        ...


class LocalRows:
    def __init__(self, positives: Adjacency, n_threads: int) -> None:
        self._positives, self._n_threads = positives, n_threads

    @property
    def degrees(self) -> NDArray[np.int64]:
        return self._positives.degrees

    def apply(self, function: Callable[..., Factors], *shared: Any) -> Any:
        with RowPool(self._n_threads) as pool:
            return function(self._positives, pool, *shared)


class LocalPositives:
    def __init__(self, interactions: Interactions, n_threads: int) -> None:
        self._interactions = interactions
        self.shape, self.nnz = interactions.shape, interactions.nnz
        self.users, self.items = (LocalRows(side, n_threads) for side in (interactions.by_user, interactions.by_item))

    def baskets(self, users: NDArray[np.int64]) -> Adjacency:
        return self._interactions.by_user.take(users)

    def gather(self) -> Interactions:
        return self._interactions
