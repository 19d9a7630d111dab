"""The parameters of a fit, and the state that its sweeps change."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.data.ordering import Ordering, taken
from ocular.data.weights import check_kind, half_life_days
from ocular.validation import check_choice, check_flag, check_number, check_whole

LANES = 16  # factor columns are padded with zeros to a multiple of this, so that vector loops have no scalar tail
BIAS_COLUMN = 0.1  # what the other side holds in a bias's column: about the size of a membership, so one step fits both

INITS = ("auto", "overlap", "seeds", "random")
GIVEN = "given:"  # before a digest: the start is memberships that the caller gave
LINE_SEARCHES = ("scaled", "paper")


@dataclass(frozen=True)
class FitConfig:
    """The parameters of a fit, checked; `ocular.OCuLaR` documents them."""

    n_coclusters: int = 100
    regularization: float = 30.0
    relative: bool = False
    bias: bool = False
    background: float = 1e-4
    half_life: float | None = None  # days
    weights: str | None = None
    refusal_weight: float = 10.0
    max_iter: int = 100
    tol: float = 1e-4
    beta: float = 0.5
    sigma: float = 0.1
    line_search: str = "scaled"
    init: str = "auto"
    seed: int | None = None
    n_threads: int | None = None
    attribute_strength: float = 0.0

    def __post_init__(self) -> None:
        whole, number = self._check(check_whole), self._check(check_number)
        whole("n_coclusters", 1)
        whole("max_iter", 1)
        if self.n_threads is not None:
            whole("n_threads", 1)
        if self.seed is not None:
            whole("seed")
        number("regularization", 0, 1e12)
        number("tol", 0)
        number("background", 1e-12, 1)
        number("refusal_weight", 1, 1e6)
        object.__setattr__(self, "half_life", half_life_days(self.half_life))
        object.__setattr__(self, "weights", check_kind(self.weights, self.half_life))
        number("beta", 0.01, 0.99)
        number("sigma", 0.0001, 0.99)
        number("attribute_strength", 0, 1e6)
        for name in ("relative", "bias"):
            self._check(check_flag)(name)
        check_choice(self.line_search, "line_search", LINE_SEARCHES)
        if not str(self.init).startswith(GIVEN):
            check_choice(self.init, "init", INITS)

    def _check(self, check: Callable[..., Any]) -> Callable[..., None]:
        """Return what puts a checked value in place of the one given: no NumPy numbers, which do not fit into JSON."""
        return lambda name, *limits: object.__setattr__(self, name, check(getattr(self, name), name, *limits))

    @property
    def width(self) -> int:
        """The columns of the working arrays: co-clusters, the user's and the item's bias, zeros up to full lanes."""
        columns = self.n_coclusters + (2 if self.bias else 0)
        return -(-columns // LANES) * LANES

    @property
    def threads(self) -> int:
        """The number of threads, by default one per core that this process may use."""
        if self.n_threads is not None:
            return self.n_threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# (n, width): dense, or sparse where most memberships are zero
Factors: TypeAlias = "NDArray[np.float32] | sp.csr_array"


@dataclass
class State:
    """Everything that changes during a fit: enough to resume it, bit for bit."""

    user_factors: Factors  # (n_users, width)
    item_factors: Factors  # (n_items, width)
    user_steps: NDArray[np.float32]  # (n_users,) the step that the line search tries first
    item_steps: NDArray[np.float32]  # (n_items,)
    bias: float = 0.0
    objectives: list[float] = field(default_factory=list)  # Q after each sweep
    user_attribute_weights: NDArray[np.float32] | None = None  # (L, K + 1) where the users' attributes are fitted
    item_attribute_weights: NDArray[np.float32] | None = None

    def restored(self, ordering: Ordering) -> State:
        """Return the state of a fit in the order of names with its rows in the order of the caller."""
        users, items = ordering.user_ranks, ordering.item_ranks
        return replace(
            self,
            user_factors=taken(self.user_factors, users),
            item_factors=taken(self.item_factors, items),
            user_steps=taken(self.user_steps, users),
            item_steps=taken(self.item_steps, items),
        )


def user_weights(by_user: Adjacency, n_items: int, relative: bool) -> NDArray[np.float32]:
    """Return the weight of a positive of each user: 1, or unknowns / positives (R-OCuLaR)."""
    positives = by_user.degrees
    if not relative:
        return np.ones(len(positives), dtype=np.float32)
    weights = (n_items - positives) / np.maximum(positives, 1)
    return np.where(positives > 0, weights, 1.0).astype(np.float32)


RowExtras: TypeAlias = tuple[NDArray[np.float32] | None, NDArray[np.int64] | None, NDArray[np.int32] | None, np.float32]


def row_extras(positives: Adjacency, refusal_weight: float) -> RowExtras:
    """
    Return what kernels know of rows besides their positives: the weights of these, then what was refused.

    The latter are ends, columns and how much more than 1 they weigh. They are None where there is nothing: Numba
    compiles a kernel for that case by itself, in which nothing is left of them.
    """
    refused = positives.refused if refusal_weight > 1 else None
    parts = (None, None) if refused is None else (refused.indptr, refused.indices)
    return positives.weights, *parts, np.float32(refusal_weight - 1)


def column_settings(config: FitConfig, bias_column: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the penalty of each column of the working arrays, and 1 where it may move: memberships and a bias."""
    ridge, free = np.zeros(config.width, dtype=np.float32), np.zeros(config.width, dtype=np.float32)
    ridge[: config.n_coclusters] = config.regularization
    free[: config.n_coclusters] = 1.0
    if config.bias:
        free[bias_column] = 1.0
    return ridge, free


def padded(rows: Factors, width: int) -> NDArray[np.float32]:
    """Return a dense copy with zeros on the right, `width` columns in all."""
    out = np.zeros((rows.shape[0], width), dtype=np.float32)
    out[:, : rows.shape[1]] = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return out
