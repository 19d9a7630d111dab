"""Memberships of new users with the items of a fitted model fixed."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency
from ocular.solver.config import BIAS_COLUMN, FitConfig, padded
from ocular.solver.devices import fold_in


class FoldIn:
    """Fits rows of users to fixed items, with the parameters of the fit that the items come from."""

    def __init__(
        self, item_factors: sp.csr_array, item_bias: NDArray[np.float32], bias: float, config: FitConfig
    ) -> None:
        K = config.n_coclusters
        self._items = padded(item_factors, config.width)
        if config.bias:
            self._items[:, K] = BIAS_COLUMN
            self._items[:, K + 1] = item_bias / BIAS_COLUMN
        self._bias, self._config = bias, config

    def fit(self, device: str, rows: Adjacency) -> tuple[sp.csr_array, NDArray[np.float32]]:
        """Return the memberships (n, K) and the biases (n,) of users who own the items in `rows`."""
        K = self._config.n_coclusters
        users = fold_in(device, rows, self._items, self._config, self._bias)
        bias = BIAS_COLUMN * users[:, K] if self._config.bias else np.zeros(len(rows), dtype=np.float32)
        return sp.csr_array(users[:, :K]), bias
