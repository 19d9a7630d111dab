"""
The way out of a trap: one co-cluster that holds the union of two, while another one is hardly needed.

No sweep leads out of there, because every step on the way makes the objective worse. A repair cuts the co-clusters that
promise most in two, gives the second halves to those that would be missed least, sweeps a little, and keeps the outcome
only if the objective fell. benchmarks/recovery.py shows what it is good for.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.solver.config import Backend, FitConfig, State, user_weights

SWEEPS = 8  # after each cut, before it is judged
ROUNDS, FAILURES = 10, 3  # at most; single cuts in a row that may fail
SPARE = 0.8  # of the median cost: what costs less to remove may be given away
STRONG = 0.2  # of the largest strength: who counts in a cut
MIDDLE = 0.25  # of the mean distance from the cut: who goes to both sides
ITERATIONS = 12  # of the power method
FAINT = 0.01  # strength of everybody else in a half: zero on both sides would stay zero
WORTH = 1e-4  # of the objective that a cut must save

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Cut(NamedTuple):
    """A co-cluster as two: users and items of each half, and what that promises."""

    halves: list[tuple[Mask, Mask]]
    gain: float


def repair(state: State, objective: float, interactions: Interactions, config: FitConfig, backend: Backend) -> State:
    """The state, whose objective is given, or a better one."""
    rng = np.random.default_rng(config.seed)
    most, failed = max(1, config.n_coclusters // 4), 0
    view: _View | None = None
    refused: set[int] = set()
    for _ in range(ROUNDS):
        if view is None:
            view = _View.of(state, interactions, config)
            costs, cuts = view.removal_costs(), view.cuts(rng)
        pairs = _choose(costs, {k: cut for k, cut in cuts.items() if k not in refused}, most)
        if not pairs:
            break
        backend.start(_apply(state, pairs, cuts))
        after = min(backend.sweep() for _ in range(SWEEPS))
        if after < objective * (1 - WORTH):
            state, objective, view, failed = backend.state(), after, None, 0
            refused.clear()
        elif len(pairs) > 1:
            most = len(pairs) // 2
        else:
            refused.add(pairs[0][1])
            failed += 1
            if failed == FAILURES:
                break
    return state


@dataclass(frozen=True)
class _View:
    """The state, and the affinity of every positive."""

    users: Floats  # (n_users, K)
    items: Floats  # (n_items, K)
    weights: Floats  # of the positives of each user
    affinity: sp.csr_array  # (n_users, n_items), the positives only
    base: float  # affinity of any pair
    regularization: float

    @classmethod
    def of(cls, state: State, interactions: Interactions, config: FitConfig) -> _View:
        K = config.n_coclusters
        rows, columns = interactions.pair_users, interactions.by_user.indices
        base = config.background + state.bias
        affinity = np.full(interactions.nnz, base)
        for column in np.flatnonzero(state.user_factors.any(axis=0)):
            affinity += state.user_factors[rows, column] * state.item_factors[columns, column]
        return cls(
            state.user_factors[:, :K].astype(np.float64),
            state.item_factors[:, :K].astype(np.float64),
            user_weights(interactions.by_user, interactions.n_items, config.relative).astype(np.float64),
            sp.csr_array((affinity, columns, interactions.by_user.indptr), shape=interactions.shape),
            base,
            config.regularization,
        )

    def removal_costs(self) -> Floats:
        """How much the objective would rise without each co-cluster."""
        return np.array([self._removal_cost(k) for k in range(self.users.shape[1])])

    def _removal_cost(self, k: int) -> float:
        f_u, f_i = self.users[:, k], self.items[:, k]
        held = np.flatnonzero(f_u)
        positives = self.affinity[held]
        part = _row_of(positives, f_u[held]) * f_i[positives.indices]
        touched = np.flatnonzero(part)
        with_it, weights = positives.data[touched], _row_of(positives, self.weights[held])[touched]
        without = np.maximum(with_it - part[touched], self.base)
        lost = weights @ np.log(np.expm1(-with_it) / np.expm1(-without))
        saved = f_u.sum() * f_i.sum() - part.sum() + self.regularization * (f_u @ f_u + f_i @ f_i)
        return float(lost - saved)

    def cuts(self, rng: np.random.Generator) -> dict[int, Cut]:
        """Every co-cluster that can be cut."""
        return {k: cut for k in range(self.users.shape[1]) if (cut := self._cut(k, rng)) is not None}

    def _cut(self, k: int, rng: np.random.Generator) -> Cut | None:
        """Along the second singular vector of its block, scaled by degrees, as spectral co-clustering does it."""
        u, i = (np.flatnonzero(side[:, k] > STRONG * side[:, k].max()) for side in (self.users, self.items))
        if len(u) < 2 or len(i) < 2:
            return None
        block = self.affinity[u][:, i]
        degrees = [
            np.maximum(np.bincount(ids, minlength=n), 1.0) for ids, n in zip(block.nonzero(), block.shape, strict=True)
        ]
        row_scale, column_scale = (d**-0.5 for d in degrees)
        scaled = sp.csr_array(
            (_row_of(block, row_scale) * column_scale[block.indices], block.indices, block.indptr), shape=block.shape
        )
        first = np.sqrt(degrees[1] / degrees[1].sum())
        y = rng.standard_normal(len(i))
        for _ in range(ITERATIONS):
            y -= first * (first @ y)
            y /= np.linalg.norm(y) + 1e-12
            y = scaled.T @ (scaled @ y)
        y -= first * (first @ y)
        x, y = (scaled @ y) * row_scale, y * column_scale
        # part of each positive that this co-cluster explains
        part = _row_of(block, self.weights[u] * self.users[u, k]) * self.items[i, k][block.indices] / block.data
        halves = [(_beyond(sign * x), _beyond(sign * y)) for sign in (1, -1)]
        gain = _gain(sp.csr_array((part, block.indices, block.indptr), shape=block.shape), halves)
        return Cut([(_among(a, u, len(self.users)), _among(b, i, len(self.items))) for a, b in halves], gain)


def _row_of(matrix: sp.csr_array, values: Floats) -> Floats:
    """The value of its row for each entry of a matrix."""
    return np.repeat(values, np.diff(matrix.indptr))


def _beyond(distance: Floats) -> Mask:
    """Who lies on the positive side of a cut or close to it."""
    side: Mask = distance > -MIDDLE * np.sqrt((distance**2).mean())
    return side


def _among(chosen: Mask, members: NDArray[np.int64], n: int) -> Mask:
    mask = np.zeros(n, dtype=bool)
    mask[members[chosen]] = True
    return mask


def _gain(part: sp.csr_array, halves: list[tuple[Mask, Mask]]) -> float:
    """What two densities explain better than one, less what neither half holds any more."""
    rows, columns = part.nonzero()
    inside = [a[rows] & b[columns] for a, b in halves]
    two = sum(
        _log_likelihood(part.data[held].sum(), a.sum() * b.sum()) for held, (a, b) in zip(inside, halves, strict=True)
    )
    lost = part.data[~(inside[0] | inside[1])].sum()
    return float(two - lost - _log_likelihood(part.data.sum(), part.shape[0] * part.shape[1]))


def _log_likelihood(ones: float, cells: float) -> float:
    """Of a block with so many ones, all cells alike."""
    ones = max(ones, 1e-9)
    p = min(ones / max(cells, 1e-9), 1 - 1e-9)
    return float(ones * np.log(p) + max(cells - ones, 0.0) * np.log1p(-p))


def _choose(costs: Floats, cuts: dict[int, Cut], most: int) -> list[tuple[int, int]]:
    """(co-cluster to give away, co-cluster to cut): the most promising cuts for those that would be missed least."""
    best = sorted(cuts, key=lambda k: -cuts[k].gain)
    spare = [int(k) for k in np.argsort(costs, kind="stable") if costs[k] <= SPARE * np.median(costs)]
    pairs: list[tuple[int, int]] = []
    used: set[int] = set()
    for given in spare:
        cut = next((k for k in best if k != given and k not in used), None)
        if len(pairs) == most or cut is None:
            break
        if given not in used:
            pairs.append((given, cut))
            used |= {given, cut}
    return pairs


def _apply(state: State, pairs: list[tuple[int, int]], cuts: dict[int, Cut]) -> State:
    changed = deepcopy(state)
    for side, rows in enumerate((changed.user_factors, changed.item_factors)):
        strengths = {k: max(float(rows[:, k].max()), 1.0) for _, k in pairs}
        for given, k in pairs:
            for column, half in ((k, cuts[k].halves[0]), (given, cuts[k].halves[1])):
                rows[:, column] = FAINT + strengths[k] * half[side]
    for steps in (changed.user_steps, changed.item_steps):
        steps[:] = 1.0
    return changed
