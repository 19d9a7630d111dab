"""The known rows whose attributes are most like those of new rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.attributes import Features
from ocular.data.interactions import Adjacency

N_NEIGHBOURS = 200


class Neighbours:
    """Finds neighbours by the cosine of tf-idf vectors."""

    def __init__(self, features: Features, eligible: NDArray[np.bool_]) -> None:
        """Take the features of the known rows; only those that are eligible are neighbours."""
        n = len(features.rows)
        self._idf = np.log((1 + n) / (1 + features.holders.degrees)) + 1
        self._rows = sp.csr_array(self._unit(features.rows))
        self._eligible = eligible

    def cosines(self, rows: Adjacency) -> sp.csr_array:
        """Return the cosine of each new row, given by its features, with each known row, (n_new, n)."""
        return sp.csr_array(self._unit(rows) @ self._rows.T)

    def weights(self, rows: Adjacency) -> sp.csr_array:
        """Return cos² of the nearest known rows, (n_new, n), scaled to a sum of 1; nothing where none is alike."""
        cosines = self.cosines(rows)
        cosines.sort_indices()
        parts = []
        for first, last in zip(cosines.indptr[:-1], cosines.indptr[1:], strict=True):
            places, values = cosines.indices[first:last], cosines.data[first:last] ** 2
            values = np.where(self._eligible[places], values, 0.0)
            chosen = np.sort(np.argsort(-values, kind="stable")[:N_NEIGHBOURS])
            chosen = chosen[values[chosen] > 0]
            parts.append((places[chosen], values[chosen] / max(values[chosen].sum(), 1e-12)))
        ends = np.concatenate([[0], np.cumsum([len(places) for places, _ in parts])])
        columns, values = (np.concatenate([np.empty(0), *side]) for side in zip(*parts, strict=True))
        return sp.csr_array((values.astype(np.float32), columns.astype(np.int32), ends), shape=cosines.shape)

    def _unit(self, rows: Adjacency) -> sp.csr_array:
        matrix = rows.matrix(len(self._idf)).astype(np.float64)
        matrix.data = self._idf[matrix.indices]
        norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        matrix.data /= np.repeat(np.maximum(norms, 1e-12), np.diff(matrix.indptr))
        return matrix
