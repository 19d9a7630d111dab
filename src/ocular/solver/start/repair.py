"""
The escape from a common local optimum: one co-cluster holds the union of two, while another one is hardly needed.

No sweep leaves it, because every step on the way out makes the objective worse. A trial cuts the most promising
co-clusters in two, gives the second halves to those that would be missed least, and sweeps a little. It is accepted
only if the objective is then lower than after as many sweeps without a cut. Those are not lost: where no trial is
accepted, the fit goes on from them. benchmarks/recovery.py shows what repairs are good for.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.solver.backend import Backend, dense
from ocular.solver.config import FitConfig, State, user_weights
from ocular.solver.start import repair_kernels

TRIAL_SWEEPS = 6
MAX_FAILURES = 3  # trials of a single cut in a row
MAX_BATCH = 0.25  # of all co-clusters that are cut in one trial
MAX_SPARE_COST = 0.8  # of the median removal cost: what costs less may be given away
MIN_STRENGTH = 0.2  # of the largest strength: who counts in a cut
NEAR_CUT = 0.25  # of the root mean square distance from the cut: who goes to both sides
ITERATIONS = 12  # of the power method
FAINT = 0.01  # strength of everybody else in a half: zero on both sides would stay zero
MIN_GAIN = 1e-4  # of the objective that a trial must save

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Cut(NamedTuple):
    """A co-cluster as two: users and items of each half, and the gain in likelihood that they promise."""

    halves: list[tuple[Mask, Mask]]
    gain: float


def repair(state: State, interactions: Interactions, config: FitConfig, backend: Backend, max_trials: int) -> State:
    """Return the state some sweeps later, after the trials that were accepted; `state` itself is not changed."""
    rng = np.random.default_rng(config.seed)
    max_batch, failures = max(1, int(MAX_BATCH * config.n_coclusters)), 0
    refused: set[int] = set()
    analysis: Analysis | None = None
    for _ in range(max_trials):
        if analysis is None:
            state.user_factors, state.item_factors = dense(state.user_factors), dense(state.item_factors)
            analysis = Analysis.of(state, interactions, config)
            cuts = analysis.cuts(rng)
            uncut, objective = _swept(backend, deepcopy(state))
        pairs = _choose(analysis.costs, {k: cut for k, cut in cuts.items() if k not in refused}, max_batch)
        if not pairs:
            break
        trial, trial_objective = _swept(backend, _apply(state, pairs, cuts))
        if trial_objective < objective * (1 - MIN_GAIN):
            state, analysis, failures = trial, None, 0
            refused.clear()
        elif len(pairs) > 1:
            max_batch = len(pairs) // 2
        else:
            refused.add(pairs[0][1])
            failures += 1
            if failures == MAX_FAILURES:
                break
    return state if analysis is None else uncut


def _swept(backend: Backend, state: State) -> tuple[State, float]:
    backend.start(state)
    objective = min(backend.sweep() for _ in range(TRIAL_SWEEPS))
    return backend.state(), objective


@dataclass(frozen=True)
class Analysis:
    """What removing or cutting each co-cluster of a state would change."""

    costs: Floats  # (K,) how much the objective would rise without the co-cluster
    users: Floats  # (n_users, K)
    items: Floats  # (n_items, K)
    weights: Floats  # (n_users,) of a positive
    affinity: Floats  # (nnz,) of each positive, by user
    interactions: Interactions

    @classmethod
    def of(cls, state: State, interactions: Interactions, config: FitConfig) -> Analysis:
        K, by_user = config.n_coclusters, interactions.by_user
        weights = user_weights(by_user, interactions.n_items, config.relative).astype(np.float64)
        affinity, losses, explained = np.empty(interactions.nnz), np.empty(K), np.empty(K)
        repair_kernels.removal_losses(
            state.user_factors, state.item_factors, by_user.indptr, by_user.indices, weights,
            config.background + state.bias, K, affinity, losses, explained,
        )  # fmt: skip
        users, items = (rows[:, :K].astype(np.float64) for rows in (state.user_factors, state.item_factors))
        penalty = config.regularization * ((users**2).sum(axis=0) + (items**2).sum(axis=0))
        unknown = users.sum(axis=0) * items.sum(axis=0) - explained
        return cls(losses - unknown - penalty, users, items, weights, affinity, interactions)

    def cuts(self, rng: np.random.Generator) -> dict[int, Cut]:
        """Return the cut of every co-cluster that can be cut."""
        return {k: cut for k in range(len(self.costs)) if (cut := self._cut(k, rng)) is not None}

    def _cut(self, k: int, rng: np.random.Generator) -> Cut | None:
        f_u, f_i = self.users[:, k], self.items[:, k]
        u, i = (np.flatnonzero(side > MIN_STRENGTH * side.max()) for side in (f_u, f_i))
        if len(u) < 2 or len(i) < 2:
            return None
        column_of = np.full(len(f_i), -1)
        column_of[i] = np.arange(len(i))
        x, y, by_user = np.empty(len(u)), rng.standard_normal(len(i)), self.interactions.by_user
        rows, columns, places = repair_kernels.split_block(
            u, column_of, by_user.indptr, by_user.indices, y, x, ITERATIONS
        )
        # the part of each positive that this co-cluster explains
        part = (self.weights[u] * f_u[u])[rows] * f_i[i][columns] / self.affinity[places]
        halves = [(_beyond(sign * x), _beyond(sign * y)) for sign in (1, -1)]
        masks = [(_among(a, u, len(f_u)), _among(b, i, len(f_i))) for a, b in halves]
        return Cut(masks, _gain(rows, columns, part, halves))


def _beyond(distance: Floats) -> Mask:
    """Return who lies on the positive side of a cut or close to it."""
    side: Mask = distance > -NEAR_CUT * np.sqrt((distance**2).mean())
    return side


def _among(chosen: Mask, members: NDArray[np.int64], n: int) -> Mask:
    mask = np.zeros(n, dtype=bool)
    mask[members[chosen]] = True
    return mask


def _gain(rows: NDArray[np.int64], columns: NDArray[np.int64], part: Floats, halves: list[tuple[Mask, Mask]]) -> float:
    """Return what two densities explain better than one, less what neither half holds any more."""
    inside = [a[rows] & b[columns] for a, b in halves]
    two = sum(
        _log_likelihood(part[held].sum(), int(a.sum()) * int(b.sum()))
        for held, (a, b) in zip(inside, halves, strict=True)
    )
    lost = part[~(inside[0] | inside[1])].sum()
    users, items = halves[0]
    return float(two - lost - _log_likelihood(part.sum(), len(users) * len(items)))


def _log_likelihood(ones: float, cells: float) -> float:
    """Return the log-likelihood of a block with so many ones where all cells are alike."""
    ones = max(ones, 1e-9)
    p = min(ones / max(cells, 1e-9), 1 - 1e-9)
    return float(ones * np.log(p) + max(cells - ones, 0.0) * np.log1p(-p))


def _choose(costs: Floats, cuts: dict[int, Cut], max_batch: int) -> list[tuple[int, int]]:
    """Return pairs (co-cluster to give away, co-cluster to cut): the best cuts for those that would be missed least."""
    best = sorted(cuts, key=lambda k: -cuts[k].gain)
    spare = [int(k) for k in np.argsort(costs, kind="stable") if costs[k] <= MAX_SPARE_COST * np.median(costs)]
    pairs: list[tuple[int, int]] = []
    used: set[int] = set()
    for given in spare:
        cut = next((k for k in best if k != given and k not in used), None)
        if len(pairs) == max_batch or cut is None:
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
