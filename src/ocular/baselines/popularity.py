"""Popularity: the bestsellers, the same for everybody."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.baselines.base import Baseline, Scores


class Popularity(Baseline):
    """The score of an item is the number of users who have it."""

    def _fit(self, matrix: sp.csr_array) -> None:
        self.counts_: Scores = np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.float32)

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:  # noqa: ARG002  the same for all
        return np.tile(self.counts_, (len(users), 1))
