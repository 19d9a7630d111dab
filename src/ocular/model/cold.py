"""New products and new clients of a fitted model, without a refit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ocular.cold_start import ColdStart
from ocular.cold_start.start import Biases
from ocular.data.matrices import owned_rows
from ocular.errors import DataError
from ocular.model.fitted import Fitted


class Cold(Fitted):
    """The part of an OCuLaR that knows what to do with rows that it was not fitted to."""

    def cold_start(self) -> ColdStart:
        """Return what scores new products and new clients; see `ocular.cold_start`."""
        check_is_fitted(self)
        cold: ColdStart = self._cold
        if cold.evidence is not self._evidence:  # one of its parts is another one
            del self.__dict__["_cold"]
            cold = self._cold
        return cold

    def fold_in_items(self, item_users: Any, attributes: Sequence[Mapping[str, Any]] | None = None) -> sp.csr_array:
        """
        Return memberships (n, K) of new items from rows of 0 and 1, the users who have them; nothing is refitted.

        `attributes`, one mapping of names to values per item, add what items with similar attributes have: as much as
        κ users would. The memberships are those that new items are scored by, as `ocular.cold_start` says.
        """
        cold = self.cold_start()
        rows = owned_rows(item_users, self.interactions_.n_users, self.min_value_)
        if attributes is not None and len(attributes) != len(rows):
            raise DataError(f"expected attributes of {len(rows)} items, got {len(attributes)}")
        new = cold.new_products(rows, attributes)
        if attributes is None:
            return new.factors
        weights = new.borrowed_weight * self.evidence_config_.total_weight / new.own_weight
        mixed = sp.csr_array(new.factors + sp.diags_array(weights) @ new.borrowed_factors)
        return mixed.astype(np.float32)

    @cached_property
    def _cold(self) -> ColdStart:
        biases = Biases(self.user_bias_, self.item_bias_, self.config_.background + self.bias_)
        return ColdStart(self._evidence, biases, self.bias_, self.config_)
