"""Reasons and co-clusters of a fitted model."""

from __future__ import annotations

from functools import cached_property
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from ocular.errors import DataError
from ocular.explain.calibration import Calibration
from ocular.explain.coclusters import CoClusters, Members, find_members, list_coclusters
from ocular.explain.explainer import Client, Explainer
from ocular.explain.reasons import PATTERN, Explanation, Reason
from ocular.explain.strongest import KIND_OF, NONE, Sides, find_strongest
from ocular.model.fitted import Fitted
from ocular.validation import check_id, check_share


class Explaining(Fitted):
    """The part of an OCuLaR that says why."""

    def explain(self, user: int | None, item: int, user_items: Any = None) -> Explanation:
        """
        Explain why the item has its probability for the user: contributions that sum to ⟨f_u, f_i⟩.

        `user_items`, one row of 0 and 1 over the items, asks what would be if the user had exactly these; with None as
        the user it is a client who is not in the model.
        """
        check_is_fitted(self)
        return self.explain_all(user, [check_id(item, self.interactions_.n_items, "item")], user_items)[0]

    def explain_all(self, user: int | None, items: ArrayLike, user_items: Any = None) -> list[Explanation]:
        """Explain several items for one user, faster than one after the other."""
        check_is_fitted(self)
        return self.explainer().explain(self._client(user, user_items), self._item_ids(items).tolist())

    def strongest_reasons(self, users: NDArray[np.int64], item: int) -> list[Reason | None]:
        """
        Return the strongest reason for one item to each of many users, none of whom has it; None for no reason.

        It is that of `explain(user, item).strongest_reason`, but for what reasons that say the same add to it.
        """
        check_is_fitted(self)
        data, explainer = self.interactions_, self.explainer()
        ids = np.full((len(users), 1), item, dtype=np.int32)
        found = find_strongest(self._evidence.rows_of(users), data.by_user.take(users), self._sides, ids)
        return [
            None
            if best == NONE
            else explainer.find_one(self._client(user, None), item, KIND_OF.get(best, PATTERN), best)
            for user, best in zip(users.tolist(), found.best[:, 0].tolist(), strict=True)
        ]

    @cached_property
    def _sides(self) -> Sides:
        return Sides.of(self._evidence, self._members)

    def explainer(self) -> Explainer:
        """Return what explains recommendations of the model as it is now."""
        base = self.item_bias_, self.bias_, self.config_.background
        return Explainer(self._evidence, *base, self._members, self.interactions_, self.calibration_)

    def _client(self, user: int | None, user_items: Any) -> Client:
        u = None if user is None else check_id(user, self.interactions_.n_users, "user")
        if user_items is not None:
            rows = self._matrix_rows(user_items)
            if len(rows) != 1:
                raise DataError(f"expected user_items with one row, got {len(rows)}")
            factors, bias = self._folded(rows)
            known = None if u is None else np.array([u])
            peers = sp.csr_array(self._new_peers(rows, known).T)
            attributes = self._new_taste(rows), None if u is None else self._values_of_one(u)
            return Client(u, rows[0], factors, float(bias[0]), peers, True, *attributes)
        if u is None:
            raise DataError("expected a user of the model, or user_items to explain by")
        owned, factors = self.interactions_.by_user[u], self.user_factors_[[u]]
        peers = sp.csr_array(self._evidence.peers_by_user[[u]].T)
        attributes = self.taste_[[u]], self._values_of_one(u)
        return Client(u, owned, factors, float(self.user_bias_[u]), peers, False, *attributes)

    def _values_of_one(self, user: int) -> NDArray[np.int32] | None:
        values = self._values_of(np.array([user]))
        return None if values is None else values[0]

    def coclusters(self, probability: float | None = None) -> CoClusters:
        """Return the co-clusters with the members that `members(probability)` finds, each with a label and numbers."""
        members = self.members(probability)
        return CoClusters(
            self._coclusters if probability is None else self._list_coclusters(members), self.interactions_
        )

    def members(self, probability: float | None = None) -> Members:
        """
        Return who belongs to which co-cluster, and in how many each user and item is.

        A member has a co-cluster's typical item, or user, with this probability on account of that co-cluster alone;
        the default adapts to weak co-clusters, see `ocular.explain.coclusters`.
        """
        check_is_fitted(self)
        if probability is None:
            return self._members
        check_share(probability, "probability")
        return find_members(self.user_factors_, self.item_factors_, probability)

    @property
    def rows_(self) -> NDArray[np.bool_]:
        """Members of each co-cluster among the users, (K, n_users)."""
        check_is_fitted(self)
        members: NDArray[np.bool_] = self._members.users.astype(bool).toarray().T
        return members

    @property
    def columns_(self) -> NDArray[np.bool_]:
        """Members of each co-cluster among the items, (K, n_items)."""
        check_is_fitted(self)
        members: NDArray[np.bool_] = self._members.items.astype(bool).toarray().T
        return members

    def calibrate(self, **options: Any) -> Calibration:
        """
        Find out on held-out purchases what confidences are worth, and keep it in `calibration_`.

        The options are those of `ocular.calibrate`: share, per_client, random_state.
        """
        check_is_fitted(self)
        # evaluation builds on the estimator: the estimator cannot import it before it is called
        calibration: Calibration = import_module("ocular.evaluation.calibration").calibrate(self, **options)
        return calibration

    def _html_repr(self) -> str:
        """Return what a notebook shows: scikit-learn's table of parameters and, once fitted, a line on the fit."""
        table = str(estimator_html_repr(self))
        if not hasattr(self, "history_"):
            return table
        n_users, n_items = self.interactions_.shape
        members = self._members
        n_coclusters = int(((np.diff(members.users.indptr) > 0) & (np.diff(members.items.indptr) > 0)).sum())
        ended = "converged" if self.converged_ else "not converged"
        facts = (
            f"{n_users:,} users × {n_items:,} items, {self.interactions_.nnz:,} positives; "
            f"{n_coclusters:,} co-clusters; objective {self.objective_:,.6g} after {self.n_iter_:,} sweeps, {ended}"
        )
        return f'{table}<p class="ocular-fit">{escape(facts)}</p>'

    @cached_property
    def _coclusters(self) -> CoClusters:
        return self._list_coclusters(self._members)

    def _list_coclusters(self, members: Members) -> CoClusters:
        factors = self.user_factors_, self.item_factors_
        user_base = self.user_bias_.astype(np.float64) + self._base
        item_base = self.item_bias_.astype(np.float64)
        return list_coclusters(members, *factors, user_base, item_base, self.interactions_, self.pattern_labels_)
