"""New rows of one side, products or clients: what their purchases and what their attributes say."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.cold_start.neighbours import Neighbours
from ocular.data.attributes import Features
from ocular.data.interactions import Adjacency
from ocular.solver.config import FitConfig
from ocular.solver.fold_in import FoldIn
from ocular.solver.links import LIKELIHOOD, LinkConfig, fit_links

ATTRIBUTES_WORTH = 1.5  # κ = 1.5 √n̄: purchases that attributes count as much as, but at most n̄
SIMILAR_ITSELF = 0.1  # ε: what a similar row counts itself, beside what is linked to it
LINK_WEIGHT, VALUE_WEIGHT = 1.0, 2.0  # of borrowed links, and of attributes, beside borrowed memberships

Floats = NDArray[np.float64]


class NewRows(NamedTuple):
    """Rows that were not in the fit; see `ocular.cold_start` for the symbols."""

    positives: Adjacency  # of the other side
    values: Adjacency  # features
    factors: sp.csr_array  # f°, (n, K)
    links: sp.csr_array  # S°, (n, n_known)
    borrowed_factors: sp.csr_array  # f'
    borrowed_links: sp.csr_array  # S'
    neighbours: sp.csr_array  # w, (n, n_known)
    own_weight: Floats  # (n,) c
    borrowed_weight: Floats  # (n,) c κ / n̄, divided by the weights of what is borrowed
    demand: Floats  # (n,) the mean number of purchases of the neighbours, or of all known rows where there are none

    def __len__(self) -> int:
        return len(self.positives)


@dataclass(frozen=True, eq=False)
class Side:
    """The known rows of the side that gets new ones."""

    factors: sp.csr_array  # (n, K)
    other_factors: sp.csr_array  # (m, K)
    other_bias: NDArray[np.float32]
    bias: float
    links: sp.csr_array  # S or T, (n, n): column t leads to t
    link_config: LinkConfig | None  # None where links weigh nothing
    positives: Adjacency  # of the known rows
    entities: Adjacency  # the other orientation
    features: Features
    config: FitConfig

    def describe(self, positives: Adjacency, values: Adjacency) -> NewRows:
        """Return new rows with these purchases and these features."""
        n_known, degrees = self.factors.shape[0], self.positives.degrees
        mean = float(degrees.mean())
        worth = min(ATTRIBUTES_WORTH * math.sqrt(mean), mean)
        neighbours = self._neighbours.weights(values)
        links = borrowed = sp.csr_array((len(positives), n_known), dtype=np.float32)
        if self.link_config is not None:
            alone = np.full(len(positives), -1)
            own = fit_links(positives, self.entities, self.link_config, n_features=n_known, itself=alone)
            links = sp.csr_array(own.T.tocsr())
            borrowed = self._borrow_links(neighbours)
        parts = 1 + VALUE_WEIGHT + (0 if self.link_config is None else LINK_WEIGHT)
        scale = np.maximum(1.0, mean / (worth + positives.degrees))
        alike = np.diff(neighbours.indptr) > 0
        return NewRows(
            positives,
            values,
            FoldIn(self.other_factors, self.other_bias, self.bias, self._plain).fit("cpu", positives)[0],
            links,
            sp.csr_array(neighbours @ self.factors),
            borrowed,
            neighbours,
            scale,
            scale * worth / mean / parts,
            np.where(alike, neighbours @ degrees, mean),
        )

    def _borrow_links(self, neighbours: sp.csr_array) -> sp.csr_array:
        """Return S' of each new row."""
        links = sp.csr_array(neighbours @ self._links_by_row)
        itself = SIMILAR_ITSELF * np.asarray(links.sum(axis=1)).ravel()
        similar = neighbours.copy()
        similar.data *= np.repeat(itself.astype(np.float32), np.diff(similar.indptr))
        return sp.csr_array(links + similar)

    @cached_property
    def _links_by_row(self) -> sp.csr_array:
        """Row t: what leads to t."""
        return sp.csr_array(self.links.T.tocsr())

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self.features, self.positives.degrees > 0)

    @property
    def _plain(self) -> FitConfig:
        """The parameters of a fold-in; the weights of R-OCuLaR are those of clients, and not of new products."""
        return replace(self.config, relative=False)


def for_new_links(config: LinkConfig) -> LinkConfig:
    """Return how the links of a few new rows are fitted: by the likelihood, since squares need the counts of all."""
    return replace(config, loss=LIKELIHOOD)
