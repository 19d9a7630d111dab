"""What a start reads: the positives of one machine or of a cluster, row by row or in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.solver.config import Factors
from ocular.solver.pool import RowPool


class RowSource(Protocol):
    """The positives of one side, users or items."""

    @property
    def degrees(self) -> NDArray[np.int64]: ...

    def apply(self, function: Callable[..., Factors], *shared: Any) -> Any:
        """Return the rows of function(positives, pool, *shared), which may be called for blocks of rows."""
        ...


class InteractionSource(Protocol):
    """The positives of both sides."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def nnz(self) -> int: ...

    @property
    def users(self) -> RowSource: ...

    @property
    def items(self) -> RowSource: ...

    def baskets(self, users: NDArray[np.int64]) -> Adjacency:
        """Return the rows of some users, in the given order."""
        ...

    def gather(self) -> Interactions:
        """Return all positives on this machine; only called where they are few."""
        ...


class LocalRows:
    """One side of the positives in this machine's memory."""

    def __init__(self, positives: Adjacency, n_threads: int) -> None:
        self._positives, self._n_threads = positives, n_threads

    @property
    def degrees(self) -> NDArray[np.int64]:
        return self._positives.degrees

    def apply(self, function: Callable[..., Factors], *shared: Any) -> Any:
        with RowPool(self._n_threads) as pool:
            return function(self._positives, pool, *shared)


class LocalInteractions:
    """Interactions as a start reads them."""

    def __init__(self, interactions: Interactions, n_threads: int) -> None:
        self._interactions = interactions
        self.shape, self.nnz = interactions.shape, interactions.nnz
        self.users, self.items = (LocalRows(side, n_threads) for side in (interactions.by_user, interactions.by_item))

    def baskets(self, users: NDArray[np.int64]) -> Adjacency:
        return self._interactions.by_user.take(users)

    def gather(self) -> Interactions:
        return self._interactions
