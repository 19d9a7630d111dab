"""
Links and peers on Spark: each block fits its own targets, and the other side of the purchases is broadcast once.

A target needs every row that one of its positives has on the other side, and with the usual sizes of blocks those are
nearly all rows; so all are sent, 4 bytes per positive. The targets do not depend on each other: blocks give the bytes
of a fit on one machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pyspark import SparkContext

from ocular.data.interactions import Adjacency
from ocular.evidence import EvidenceConfig
from ocular.solver.config import FitConfig, user_weights
from ocular.solver.links import LinkConfig, fit_block
from ocular.solver.pool import RowPool
from ocular.spark.blocks import Block, BlockRows
from ocular.spark.interactions import SparkInteractions


class OtherSide(NamedTuple):
    """What every block of targets reads."""

    entities: Adjacency
    totals: NDArray[np.float32]  # (n_features,) entities with each feature
    weights: NDArray[np.float32]  # (n_entities,) of a positive


def fit_product_links(
    interactions: SparkInteractions, evidence: EvidenceConfig, config: FitConfig, context: SparkContext
) -> sp.csr_array:
    """Return what `ocular.evidence.fit_product_links` returns: targets are the products, entities the clients."""
    n_items = interactions.shape[1]
    if evidence.links == 0:
        return sp.csr_array((n_items, n_items), dtype=np.float32)
    weights = user_weights(interactions.users.ends, n_items, config.relative)
    return _fit(interactions.items, interactions.by_user(), weights, evidence.for_links(config), context)


def fit_peers(
    interactions: SparkInteractions, evidence: EvidenceConfig, config: FitConfig, context: SparkContext
) -> sp.csr_array:
    """Return what `ocular.evidence.fit_peers` returns: targets are the clients, entities the products."""
    n_users, n_items = interactions.shape
    if evidence.peers == 0:
        return sp.csr_array((n_users, n_users), dtype=np.float32)
    weights = np.ones(n_items, dtype=np.float32)
    return _fit(interactions.users, interactions.by_item(), weights, evidence.for_peers(config), context)


def _fit(
    targets: BlockRows, entities: Adjacency, weights: NDArray[np.float32], config: LinkConfig, context: SparkContext
) -> sp.csr_array:
    """Return links between the targets themselves, row j and column t."""
    totals = targets.degrees.astype(np.float32)  # the features are the targets
    sent = context.broadcast(OtherSide(entities, totals, weights))
    try:
        blocks = [done.result for done in targets.run(_fit_block, sent, config)]
    finally:
        sent.destroy()
    links = sp.hstack(blocks, format="csc").tocsr()
    links.sort_indices()
    return links


def _fit_block(block: Block, pool: RowPool, other: OtherSide, config: LinkConfig) -> sp.csc_array:
    itself = block.first + np.arange(len(block.positives))
    return fit_block(pool, block.positives, itself, *other, config)
