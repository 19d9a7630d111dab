"""Rankings and probabilities of a fitted model, for its own users and for new ones, and what is alike."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from ocular.data.interactions import Adjacency, Interactions, merged
from ocular.data.matrices import rows_for_ids
from ocular.errors import DataError
from ocular.evidence import Evidence
from ocular.model.fitted import Fitted
from ocular.scoring import Scorer, nearest, rows_with_links
from ocular.solver.devices import find_device
from ocular.validation import allowed_mask, check_id, check_id_list, check_n

Ids = NDArray[np.int32]
Scores = NDArray[np.float32]


class Ranking(Fitted):
    """The part of an OCuLaR that ranks items, users and what is like them."""

    def recommend(
        self,
        userid: int | ArrayLike,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
        recalculate_user: bool = False,
    ) -> tuple[Ids, Scores]:
        """
        Return the N most probable items of a user (1-D) or of many users (2-D): (ids, probabilities), best first.

        `user_items` holds what the users have, by default what was fitted: a row for each id of `userid`, as in
        implicit; a matrix with another number of rows must have one for every fitted user. `recalculate_user` folds
        those rows in instead of using the fitted memberships. `items` restricts the choice, `filter_items` leaves some
        out; so do `excluded_items_` and `refusals_`. Users are scored one after the other: nothing of the size users ×
        items is built. Where fewer than N items are left, ids are −1 and probabilities nan. Items of equal probability
        (all, for a user without purchases) come by popularity.
        """
        check_is_fitted(self)
        N = check_n(N)
        ids = check_id_list(userid, self.interactions_.n_users, "user")
        rows = None
        if user_items is not None:
            rows = rows_for_ids(ids, self._matrix_rows(user_items), self.interactions_.n_users)
        has = self.interactions_.by_user.take(ids) if rows is None else rows
        if recalculate_user:
            users, bias = self._new_rows(has, ids)
        else:
            factors, bias, evidence = self.user_factors_[ids], self.user_bias_[ids], self._evidence
            attributes = self.taste_[ids], self._values_of(ids)
            users = evidence.user_rows(factors, has, evidence.peers_by_user[ids], *attributes)
        refused = None if self.interactions_.refusals is None else self.interactions_.refusals.take(ids)
        owned = merged(has if filter_already_liked_items else None, refused)
        allowed = allowed_mask(items, filter_items, self.interactions_.n_items, "item")
        if self.excluded_items_.any():
            allowed = ~self.excluded_items_ if allowed is None else allowed & ~self.excluded_items_
        best, affinity = self._scorer.top(users, owned, N, allowed, self._ranking_device)
        scores = -np.expm1(-(affinity + (bias[:, None] + self._base)))
        return (best[0], scores[0]) if np.ndim(userid) == 0 else (best, scores)

    def recommend_users(
        self,
        itemid: int | ArrayLike,
        N: int = 10,
        filter_already_liked_items: bool = True,
        users: ArrayLike | None = None,
        filter_users: ArrayLike | None = None,
    ) -> tuple[Ids, Scores]:
        """
        Return the N users most likely to want an item (1-D) or each of many items (2-D): (ids, probabilities).

        Best first, without those who refused the item and those who have it, unless `filter_already_liked_items` is
        False. `users` restricts the choice, `filter_users` leaves some out. Users of equal probability come by their
        number of purchases. Where fewer than N users are left, ids are −1 and probabilities nan. An item in
        `excluded_items_` raises DataError.
        """
        check_is_fitted(self)
        N = check_n(N)
        ids = check_id_list(itemid, self.interactions_.n_items, "item")
        excluded = ids[self.excluded_items_[ids]]
        if len(excluded):
            name = self.interactions_.item_name(int(excluded[0]))
            raise DataError(f"expected a product that may be recommended, got {name!r}, which the fit excluded")
        buyers = self.interactions_.by_item.take(ids)
        owned = merged(buyers if filter_already_liked_items else None, buyers.refused)
        allowed = allowed_mask(users, filter_users, self.interactions_.n_users, "user")
        rows = self._evidence.item_rows[ids]
        best, affinity = self._user_scorer.top(rows, owned, N, allowed, self._ranking_device)
        scores = -np.expm1(-(affinity + (self.item_bias_[ids].astype(np.float32)[:, None] + self._base)))
        return (best[0], scores[0]) if np.ndim(itemid) == 0 else (best, scores)

    def evidence(self) -> Evidence:
        """Return what z is made of, as sparse rows of users and items."""
        check_is_fitted(self)
        return self._evidence

    def scorer(self, n_threads: int) -> Scorer:
        """Return what ranks the items for membership rows, here or elsewhere."""
        popularity = self.interactions_.by_item.degrees
        ranks = self._ordering.item_ranks, self._column_ranks
        return Scorer(self._evidence.item_rows, self.item_bias_.astype(np.float32), popularity, n_threads, *ranks)

    def affinity(self, users: ArrayLike, items: ArrayLike) -> NDArray[np.float64]:
        """Return z of pairs; the arguments broadcast: affinity(users[:, None], items) is a table."""
        check_is_fitted(self)
        u, i = np.broadcast_arrays(self._user_ids(users), self._item_ids(items))
        users_once, place = np.unique(u.ravel(), return_inverse=True)
        left, right = self._evidence.rows_of(users_once)[place], self._evidence.item_rows[i.ravel()]
        shared = np.asarray(left.multiply(right).sum(axis=1, dtype=np.float64)).reshape(u.shape)
        z: NDArray[np.float64] = shared + self.user_bias_[u] + self.item_bias_[i] + self._base
        return z if np.ndim(users) or np.ndim(items) else z.reshape(())[()]

    def predict_proba(self, users: ArrayLike, items: ArrayLike) -> NDArray[np.float64]:
        """Return P(user has item) = 1 − e^(−z) of pairs; the arguments broadcast as those of `affinity`."""
        probability: NDArray[np.float64] = -np.expm1(-self.affinity(users, items))
        return probability

    def item_probabilities(self, item: int) -> NDArray[np.float64]:
        """Return P(user has item) of every user, (n_users,); `recommend_users` ranks them."""
        check_is_fitted(self)
        z = self._evidence.affinities_of(check_id(item, self.interactions_.n_items, "item"))
        probabilities: NDArray[np.float64] = -np.expm1(-(z + self.user_bias_ + self.item_bias_[item] + self._base))
        return probabilities

    def fold_in(self, user_items: Any) -> sp.csr_array:
        """Return memberships (n, K) of new users from rows of 0 and 1, the items they own; nothing is refitted."""
        check_is_fitted(self)
        return self._folded(self._matrix_rows(user_items))[0]

    def transform(self, X: Any = None) -> sp.csr_array:
        """
        Return memberships (n, K): those of the fit without X, otherwise those of the rows of X as `fold_in` finds them.

        `fit_transform(X)` is `fit(X).transform(X)`, which differs from `user_factors_` as far as the fit has not
        converged.
        """
        check_is_fitted(self)
        if X is None:
            return self.user_factors_
        if not isinstance(X, Interactions):
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
        # not the one that is cached: scikit-learn expects transform to leave no trace in the estimator
        return self._folded(self._matrix_rows(X), self._new_fold())[0]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002  scikit-learn's
        """Return the names of the columns of `transform`: cocluster0, cocluster1, …"""
        check_is_fitted(self)
        return np.array([f"cocluster{c}" for c in range(self.item_factors_.shape[1])], dtype=object)

    def similar_items(
        self,
        itemid: int | ArrayLike,
        N: int = 10,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> tuple[Ids, Scores]:
        """
        Return the N items most like an item (1-D) or each of many items (2-D), itself first: (ids, similarities).

        The similarity is the cosine of memberships and, with a tenth of the weight, the cosine of who bought them:
        items of a single co-cluster all have the same direction, and their buyers then tell which are closer. Where
        the model has links, two thirds of the first are the cosine of links instead: of what leads to an item or
        follows from it (S + Sᵀ), with the item itself as strong as its strongest link. On MovieLens-1M and CiteULike-a
        the nearest then have more genres and tags in common than by either alone (benchmarks/similarity.py).
        """
        check_is_fitted(self)
        data = self.interactions_
        ids = check_id_list(itemid, data.n_items, "item")
        allowed = allowed_mask(items, filter_items, data.n_items, "item")
        best, similarities = nearest(
            self._alike_items, ids, check_n(N), allowed, data.by_item, data.by_user, self._ordering.item_ranks
        )
        return (best[0], similarities[0]) if np.ndim(itemid) == 0 else (best, similarities)

    def similar_users(
        self,
        userid: int | ArrayLike,
        N: int = 10,
        filter_users: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> tuple[Ids, Scores]:
        """
        Return the N users most like a user (1-D) or each of many users (2-D), as `similar_items` does for items.

        Peers are to users what links are to items.
        """
        check_is_fitted(self)
        data = self.interactions_
        ids = check_id_list(userid, data.n_users, "user")
        allowed = allowed_mask(users, filter_users, data.n_users, "user")
        best, similarities = nearest(
            self._alike_users, ids, check_n(N), allowed, data.by_user, data.by_item, self._ordering.user_ranks
        )
        return (best[0], similarities[0]) if np.ndim(userid) == 0 else (best, similarities)

    @cached_property
    def _alike_items(self) -> sp.csr_array:
        return rows_with_links(self.item_factors_, self.links_)

    @cached_property
    def _alike_users(self) -> sp.csr_array:
        return rows_with_links(self.user_factors_, self.peers_)

    def _new_rows(self, rows: Adjacency, users: NDArray[np.int64]) -> tuple[sp.csr_array, NDArray[np.float32]]:
        """Return the evidence and the biases of users from what they own instead of what was fitted."""
        factors, bias = self._folded(rows)
        attributes = self._new_taste(rows), self._values_of(users)
        return self._evidence.user_rows(factors, rows, self._new_peers(rows, users), *attributes), bias

    @property
    def _ranking_device(self) -> str:
        """Links, peers and attributes have thousands of columns, which the CPU's sparse ranking is made for."""
        return "cpu" if self.evidence_config_.total_weight > 1 else find_device(self.device)

    @cached_property
    def _scorer(self) -> Scorer:
        return self.scorer(self.config_.threads)

    @cached_property
    def _user_scorer(self) -> Scorer:
        """The other way round: ranks the users for rows of items."""
        purchases = self.interactions_.by_user.degrees
        rows = self._evidence.rows_of(np.arange(self.user_factors_.shape[0]))
        ranks = self._ordering.user_ranks, self._column_ranks
        return Scorer(rows, self.user_bias_.astype(np.float32), purchases, self.config_.threads, *ranks)

    @property
    def _column_ranks(self) -> NDArray[np.int64] | None:
        """Where the columns of the evidence stand in the order of names."""
        K, links, peers, taste, appeal = self._evidence.sizes
        return self._ordering.column_ranks(K, links, peers, taste + appeal)
