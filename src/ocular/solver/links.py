"""
Links: which features of an entity tend to come with a target, one convex problem for each target.

Product links are the case of products (targets) over clients (entities) described by their other purchases (features);
peers are clients over products described by their other buyers. A positive pair never explains itself, and the answer
does not depend on a seed.

There are two losses. The likelihood of the model, `objective.LinkProblem`, is the more accurate one where a random part
of the purchases is held out; least squares, `objective.SquaresProblem`, follows rare pairs less and is often ahead
where the future is asked for. It needs the counts of all pairs of features, a table of n_features².
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.errors import ConfigError, Parameter
from ocular.solver import link_kernels, square_kernels
from ocular.solver.config import RowExtras, row_extras
from ocular.solver.pool import CHUNKS_PER_THREAD, RowPool

RELAXATION = 1.8  # of an EM step, as a power of its ratio
MAX_ROWS = 16_384  # positives of a target that are fitted; of more, an even sample
MAX_FEATURES = 20_000  # of an entity that are counted as candidates; of more, an even sample
MAX_CHUNK = 256  # targets, so that the room for their links stays small
MAX_SQUARES = 25_000  # features whose pairs are counted for least squares: 2.5 GB
LIKELIHOOD, SQUARES = LOSSES = ("likelihood", "squares")


@dataclass(frozen=True)
class LinkConfig:
    """Parameters of the links."""

    regularization: float = 300.0  # μ
    n_links: int = 500  # candidates per target
    background: float = 1e-4
    max_iter: int = 50
    tol: float = 3e-3  # relative decrease of a target's objective at which it stops; rankings change no more below it
    n_threads: int = 1
    loss: str = LIKELIHOOD
    refusal_weight: float = 1.0  # c of a refused pair
    kept_share: float = 1.0  # of the sum of a target's links: the strongest that carry it stay, the others are dropped


def fit_links(
    targets: Adjacency,
    entities: Adjacency,
    config: LinkConfig,
    *,
    n_features: int,
    weights: NDArray[np.float32] | None = None,
    itself: NDArray[np.int64] | None = None,
) -> sp.csr_array:
    """
    Return the links, (n_features, n_targets), row j and column t, as float32.

    `targets` lists the entities that are positive for each target, `entities` the features of each entity; `weights`
    are those of the positives of each entity, besides those that `targets` has. `itself`, (n_targets,), is the number
    of each target among the features, −1 for none; by default the features are the targets.
    """
    totals = np.bincount(entities.indices, minlength=n_features).astype(np.float32)
    weights = np.ones(len(entities), dtype=np.float32) if weights is None else weights
    itself = np.arange(len(targets)) if itself is None else itself
    with RowPool(config.n_threads) as pool:
        links = fit_block(pool, targets, itself, entities, totals, weights, config).tocsr()
    links.sort_indices()
    return links


def fit_block(
    pool: RowPool,
    targets: Adjacency,
    itself: NDArray[np.int64],
    entities: Adjacency,
    totals: NDArray[np.float32],
    weights: NDArray[np.float32],
    config: LinkConfig,
) -> sp.csc_array:
    """
    Return the links of some targets, (n_features, len(targets)); any blocks give the columns of all at once.

    `totals`, (n_features,), are the numbers of entities with each feature.
    """
    n_features, room = len(totals), min(config.n_links, len(totals))
    sizes = np.zeros(len(targets), dtype=np.int64)
    parts: dict[int, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}  # by the first target
    kernel: Any = link_kernels.fit_targets
    extras = row_extras(targets, config.refusal_weight)
    inputs: tuple[Any, ...] = (totals, weights, *extras)
    settings = _settings(config)
    if config.loss == SQUARES:
        _check_squares(totals, weights, extras)
        kernel, inputs = square_kernels.fit_targets, _squares(entities, totals, pool)

    features = entities.indices.view(np.uint32)  # without a sign, which Numba would look at

    def fit(first: int, last: int) -> None:
        columns = np.empty((last - first, room), dtype=np.int32)
        strengths = np.empty((last - first, room), dtype=np.float32)
        kernel(
            targets.indptr, targets.indices, entities.indptr, features, *inputs, itself, room, *settings,
            np.float32(config.background), config.kept_share, columns, strengths, sizes, first, last,
        )  # fmt: skip
        linked = np.arange(room) < sizes[first:last, None]
        parts[first] = columns[linked], strengths[linked]

    if len(targets) == 0:
        return sp.csc_array((n_features, 0), dtype=np.float32)
    pool.run_chunks(fit, pairwise(_cut(targets, entities, pool.n_threads)))
    columns, strengths = (np.concatenate(side) for side in zip(*(parts[at] for at in sorted(parts)), strict=True))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return sp.csc_array((strengths, columns, ends), shape=(n_features, len(targets)))


def _settings(config: LinkConfig) -> tuple[Any, ...]:
    """Return the parameters of the loss's kernel."""
    if config.loss == SQUARES:
        return np.float32(config.regularization), config.max_iter, config.tol, MAX_FEATURES
    relaxed = config.background, RELAXATION, config.max_iter, config.tol
    return config.regularization, *relaxed, MAX_ROWS, MAX_FEATURES


def _check_squares(totals: NDArray[np.float32], weights: NDArray[np.float32], extras: RowExtras) -> None:
    """Refuse what least squares cannot do: its counts of pairs are the same for all targets."""
    n, loss = len(totals), Parameter("link_loss", LIKELIHOOD)
    pair_weights, refused_ends, *_ = extras
    if n > MAX_SQUARES:
        raise ConfigError(f"expected at most {MAX_SQUARES:,} products for least squares, got {n:,}; use ", loss)
    if (weights != 1).any() or pair_weights is not None:
        raise ConfigError("expected purchases of equal weight for least squares, got others; use ", loss)
    if refused_ends is not None:
        remedy = " or ", Parameter("refusal_weight", 1)
        raise ConfigError("expected no refusals to learn from with least squares, got some; use ", loss, *remedy)


def _squares(
    entities: Adjacency, totals: NDArray[np.float32], pool: RowPool
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return how many entities have each pair of features, and 1 / √total of each feature."""
    n = len(totals)
    holders = entities.matrix(n).T.tocsr()
    by_feature = Adjacency(holders.indptr.astype(np.int64), holders.indices.astype(np.int32))
    gram = np.zeros((n, n), dtype=np.float32)
    pool.run(
        square_kernels.count_pairs, by_feature, by_feature.indptr, by_feature.indices, entities.indptr,
        entities.indices, gram,
    )  # fmt: skip
    return gram, (1 / np.sqrt(np.maximum(totals, 1))).astype(np.float32)


def _cut(targets: Adjacency, entities: Adjacency, n_threads: int) -> list[int]:
    """Return the bounds of chunks of targets of about equal work, at most MAX_CHUNK each."""
    work = np.concatenate([[0], np.cumsum(entities.degrees[targets.indices] + 1)])[targets.indptr]
    work = work + np.arange(len(work))
    shares = np.linspace(0, work[-1], n_threads * CHUNKS_PER_THREAD + 1)
    bounds = np.concatenate([np.searchsorted(work, shares), np.arange(0, len(targets), MAX_CHUNK), [len(targets)]])
    return [int(bound) for bound in np.unique(np.minimum(bounds, len(targets)))]
