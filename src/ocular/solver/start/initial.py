"""
Where a fit starts.

Every start gives users and items memberships that grow with how often they occur, so that the first sweep already
knows what is popular. They differ in which co-clusters a row leans to:

- `random`: to all, at random;
- `overlap`: random weights on items become users who own unusually much of that weight, those become the items
  unusually often owned by them, those again users. "Unusual" is a z-score above 0.75; rows that are usual in every way
  lean to all. Three passes over the data, which pay off many times in a short fit; a long one on sparse data ends a
  little better from `random`;
- `seeds`: to the baskets of a random sample of clients (seeds.py), a few each. Where purchases are few it is ahead of
  the others from the first sweep to the last, and with many co-clusters sparse.

`auto` is `seeds` where users and items have fewer than twenty positives on average, else `overlap`, with two additions
that shrink as the data grow, from as many as help to none: several starts, of which the best after some sweeps goes on,
and an escape from local optima (repair.py). `search_effort` has the policy. It keeps a fit of more than a second below
twice the time of the plain start, and a fit to most of the data like one to all of them. benchmarks/start.py and
benchmarks/recovery.py have the comparison, docs/solver.md the numbers.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import DataError
from ocular.solver import kernels
from ocular.solver.config import BIAS_COLUMN, FitConfig, State, padded
from ocular.solver.cpu import CpuBackend
from ocular.solver.pool import RowPool
from ocular.solver.start.repair import repair
from ocular.solver.start.rows import InteractionSource, LocalInteractions, RowSource
from ocular.solver.start.seeds import seed_rows

Array = NDArray[np.float32]
UNUSUAL = np.float32(0.75)  # z-score from which a row counts as leaning to a co-cluster
MAX_MEMBERSHIP = 1e4  # in a start that the caller gives
MIN_DEGREE = 20  # positives of a row, on average over both sides, below which `seeds` is the better start
SINGLE_START = 5_000_000  # positives × co-clusters at which one start is tried, and more below
SINGLE_REPAIR = 100_000_000  # and at which one repair is tried
MAX_STARTS, START_SWEEPS = 10, 15
MAX_REPAIRS = 10
BIAS_SHARE = 0.1  # of the density that the overall bias explains at the start


def initial_state(
    data: Interactions | InteractionSource, config: FitConfig, given: tuple[Array, Array] | None = None
) -> State:
    """Return the state before the first sweep: from `given` (user, item) memberships, or as config.init says."""
    positives = LocalInteractions(data, config.threads) if isinstance(data, Interactions) else data
    n_users, n_items = positives.shape
    K = config.n_coclusters
    if given is not None:
        for side, rows, n in (("user", given[0], n_users), ("item", given[1], n_items)):
            if rows.shape != (n, K):
                raise DataError(f"expected {side} memberships of shape {(n, K)}, got shape {rows.shape}")
            if not ((rows >= 0) & (rows <= MAX_MEMBERSHIP)).all():
                raise DataError(
                    f"expected {side} memberships from 0 to {MAX_MEMBERSHIP:g}, got others; scale them down"
                )
        users, items = given
    elif config.init == "auto" and (effort := search_effort(positives.nnz * K)).max_repairs:
        return _searched(positives.gather(), config, effort)
    elif _plain_kind(positives, config) == "seeds":
        users, items = seed_rows(positives, config)
    else:
        generator = np.random.default_rng(config.seed)
        draw = _random if config.init == "random" else _overlapping
        users, items = draw(positives, config, generator)
        _scale_by_degree(users, items, positives)
    if config.bias or isinstance(users, np.ndarray):
        users, items = (padded(rows, config.width) for rows in (users, items))
    state = State(users, items, np.ones(n_users, dtype=np.float32), np.ones(n_items, dtype=np.float32))
    if config.bias:
        # z = … + b_u + b_i + b: each side holds its bias in one column and a constant in the other's
        state.item_factors[:, K] = BIAS_COLUMN
        state.user_factors[:, K + 1] = BIAS_COLUMN
        state.bias = BIAS_SHARE * positives.nnz / (n_users * n_items)
    return state


class Effort(NamedTuple):
    """How much a start may try before the fit begins."""

    n_starts: int
    max_repairs: int


def search_effort(work: int) -> Effort:
    """
    Return what `auto` tries where a sweep costs `work` = positives × co-clusters.

    >>> [tuple(search_effort(work)) for work in (100_000, 1_000_000, 10_000_000, 90_000_000, 110_000_000)]
    [(10, 9), (5, 4), (1, 2), (1, 1), (1, 0)]
    """
    n_starts = SINGLE_START // max(work, 1)
    max_repairs = int((SINGLE_REPAIR / max(work, 1)) ** (1 / 3))
    return Effort(min(max(n_starts, 1), MAX_STARTS), min(max_repairs, MAX_REPAIRS))


def _searched(interactions: Interactions, config: FitConfig, effort: Effort) -> State:
    """Return the best of some starts after a few sweeps, repaired."""
    if effort.n_starts > 1:
        config = replace(config, n_threads=1)  # handing out milliseconds of work takes longer than doing it
    plain = _plain_kind(LocalInteractions(interactions, 1), config)
    more = np.random.SeedSequence(config.seed).generate_state(effort.n_starts // 2).tolist()
    kinds = [(kind, seed) for seed in (config.seed, *more) for kind in (plain, "random")]
    tries: list[tuple[float, State]] = []
    with closing(CpuBackend(interactions, config)) as backend:
        for kind, seed in kinds[: effort.n_starts]:
            backend.start(initial_state(interactions, replace(config, init=kind, seed=seed)))
            objective = min(backend.sweep() for _ in range(START_SWEEPS))
            tries.append((objective, backend.state()))
        _, state = min(tries, key=itemgetter(0))
        return repair(state, interactions, config, backend, effort.max_repairs)


def plain_start(interactions: Interactions) -> str:
    """Return the start that "auto" means where it tries only one."""
    return _plain_kind(LocalInteractions(interactions, 1), FitConfig())


def _plain_kind(positives: InteractionSource, config: FitConfig) -> str:
    """Return the start that is meant, without trying several."""
    if positives.nnz == 0 and config.init in ("auto", "seeds"):
        return "overlap"
    if config.init == "auto":
        return "seeds" if 2 * positives.nnz < MIN_DEGREE * sum(positives.shape) else "overlap"
    return config.init


def _random(positives: InteractionSource, config: FitConfig, generator: np.random.Generator) -> tuple[Array, Array]:
    users, items = ((n, config.n_coclusters) for n in positives.shape)
    return generator.random(users, dtype=np.float32), generator.random(items, dtype=np.float32)


def _overlapping(
    positives: InteractionSource, config: FitConfig, generator: np.random.Generator
) -> tuple[Array, Array]:
    items = generator.random((positives.shape[1], config.n_coclusters), dtype=np.float32)
    users = _unusual_owners(items, positives.items, positives.users)
    items = _unusual_owners(users, positives.users, positives.items)
    users = _unusual_owners(items, positives.items, positives.users)
    for rows in (users, items):
        rows[~rows.any(axis=1)] = 1.0  # zero on both sides would stay zero
    return users, items


def _unusual_owners(weights: Array, by_weight: RowSource, by_row: RowSource) -> Array:
    """Return how far each row's sum of its neighbours' weights lies above chance: a z-score less UNUSUAL, or 0."""
    owned: Array = by_row.apply(_owned_weight, weights)
    degrees = by_row.degrees.astype(np.float32)[:, None]
    popularity = by_weight.degrees / by_weight.degrees.sum()
    by_chance = np.einsum("j,jk->k", popularity, weights).astype(np.float32)
    owned -= degrees * by_chance
    owned /= np.sqrt(np.maximum(degrees, 1))
    spread = np.sqrt(np.einsum("rk,rk->k", owned, owned, dtype=np.float64) / len(owned))
    owned /= np.maximum(spread, 1e-9).astype(np.float32)
    owned -= UNUSUAL
    return np.maximum(owned, 0, out=owned)


def _owned_weight(positives: Adjacency, pool: RowPool, weights: Array) -> Array:
    owned = np.empty((len(positives), weights.shape[1]), dtype=np.float32)
    pool.run(kernels.sum_neighbours, positives, weights, positives.indptr, positives.indices, owned)
    return owned


def _scale_by_degree(users: Array, items: Array, positives: InteractionSource) -> None:
    """Scale the rows in place so that the mean affinity of u and i is what their degrees explain, d_u d_i / nnz."""
    K = users.shape[1]
    user_degrees, item_degrees = positives.users.degrees, positives.items.degrees
    # both sides get the same norm, as the penalty will have it
    balance = ((item_degrees**2.0).sum() / (user_degrees**2.0).sum()) ** 0.25
    unit = np.sqrt(positives.nnz * K)
    users *= _per_mean(users, balance * user_degrees / unit)
    items *= _per_mean(items, item_degrees / balance / unit)


def _per_mean(rows: Array, target: NDArray[np.float64]) -> Array:
    """Return the factor, (n_rows, 1), that gives each row its target mean."""
    factor: Array = (target / np.maximum(rows.mean(axis=1), 1e-9)).astype(np.float32)
    return factor[:, None]
