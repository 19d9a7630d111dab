"""
A start that is sparse and good where purchases are few: co-clusters begin as baskets of a random sample of clients.

A user leans to the baskets that share most with their own, rare items counting for more, and an item to those whose
users own it most; both keep the strongest. Affinities are then scaled until every row expects half of its positives:
a start that promises too much takes sweeps to come down.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.solver import sparse_kernels as kernels
from ocular.solver.config import FitConfig
from ocular.solver.pool import RowPool
from ocular.solver.start.rows import InteractionSource

MAX_MEMBERSHIPS = 20  # that a row starts with
MAX_STRENGTH = 2.0  # of a membership
EXPECTED, ROUNDS = 0.5, 3  # share of its positives that a row expects, and passes to get there


def seed_rows(positives: InteractionSource, config: FitConfig) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the memberships of users and items, (n, width)."""
    generator = np.random.default_rng(config.seed)
    rarity = np.log1p(positives.shape[0] / np.maximum(positives.items.degrees, 1)) ** 2
    baskets = _draw_baskets(positives, config, generator)
    baskets.data *= rarity[baskets.indices]
    users = positives.users.apply(_lean, baskets.T.tocsr(), np.sqrt(baskets.sum(axis=1)))
    users = _place_lost(users, config.n_coclusters, generator)
    items = positives.items.apply(_lean, users, np.sqrt(users.sum(axis=0)))
    for _ in range(ROUNDS):
        users = _expecting(users, items, positives.users.degrees)
        items = _expecting(items, users, positives.items.degrees)
    balance = np.sqrt(sp.linalg.norm(items) / max(sp.linalg.norm(users), 1e-30))  # as the penalty will have it
    users, items = users * balance, items / max(balance, 1e-30)
    for rows in (users, items):
        np.minimum(rows.data, MAX_STRENGTH, out=rows.data)
    return users.astype(np.float32), items.astype(np.float32)


def _draw_baskets(positives: InteractionSource, config: FitConfig, generator: np.random.Generator) -> sp.csr_array:
    """Return (width, n_items): every basket once in random order, single items last, then random halves of them."""
    degrees = positives.users.degrees
    shuffled = generator.permutation(np.flatnonzero(degrees))
    single = degrees[shuffled] == 1  # says nothing of what goes together
    able = np.concatenate([shuffled[~single], shuffled[single]])
    turns = -(-config.n_coclusters // len(able))
    rows = positives.baskets(np.tile(able, turns)[: config.n_coclusters])
    basket = np.repeat(np.arange(config.n_coclusters), rows.degrees)
    chosen = (basket < len(able)) | (generator.random(len(basket)) < 0.5)
    chosen[rows.indptr[:-1]] = True  # no half is empty
    ones = np.ones(int(chosen.sum()))
    return sp.csr_array((ones, (basket[chosen], rows.indices[chosen])), shape=(config.width, positives.shape[1]))


def _lean(positives: Adjacency, pool: RowPool, other: sp.csr_array, norms: NDArray[np.float64]) -> sp.csr_array:
    """Return the strongest co-clusters of each row, by the sum of its positives' memberships relative to `norms`."""
    n, width = len(positives), other.shape[1]
    columns = np.empty((n, MAX_MEMBERSHIPS), dtype=np.int32)
    strengths = np.empty((n, MAX_MEMBERSHIPS), dtype=np.float32)
    sizes = np.zeros(n, dtype=np.int64)
    pool.run(
        kernels.lean_rows, positives, positives.indptr, positives.indices, other.indptr.astype(np.int64),
        other.indices.astype(np.int32),
        other.data.astype(np.float32), (1 / np.maximum(norms, 1e-12)).astype(np.float32), columns, strengths, sizes,
    )  # fmt: skip
    filled = np.arange(MAX_MEMBERSHIPS) < sizes[:, None]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return sp.csr_array((strengths[filled].astype(np.float64), columns[filled], ends), shape=(n, width))


def _place_lost(users: sp.csr_array, n_coclusters: int, generator: np.random.Generator) -> sp.csr_array:
    """Give users who share nothing with any basket a random co-cluster: with zeros only they would never move."""
    lost = np.flatnonzero(np.diff(users.indptr) == 0)
    anywhere = generator.integers(n_coclusters, size=len(lost))
    return users + sp.csr_array((np.ones(len(lost)), (lost, anywhere)), shape=users.shape)


def _expecting(rows: sp.csr_array, other: sp.csr_array, degrees: NDArray[np.int64]) -> sp.csr_array:
    """Return the rows scaled so that each expects EXPECTED of its positives."""
    expected = rows @ other.sum(axis=0)
    return sp.diags_array(EXPECTED * degrees / np.maximum(expected, 1e-12)) @ rows
