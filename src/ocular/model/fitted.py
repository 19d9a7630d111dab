"""What a fit leaves behind, and what all that use it share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ocular.data.attributes import Features
from ocular.data.interactions import Adjacency, Interactions
from ocular.data.matrices import owned_rows
from ocular.data.ordering import Ordering, taken
from ocular.errors import ConfigError, Parameter, UnknownNameError
from ocular.evidence import (
    Evidence,
    EvidenceConfig,
    client_features,
    fit_new_peers,
    fit_taste,
    product_features,
)
from ocular.explain.calibration import Calibration
from ocular.explain.coclusters import Members, find_members
from ocular.model.attributes import AttributeNames, attribute_names
from ocular.model.parameters import Parameters
from ocular.solver.config import BIAS_COLUMN, FitConfig, State
from ocular.solver.cpu import fold_in_attributes
from ocular.solver.fold_in import FoldIn
from ocular.tuning import Choice
from ocular.validation import check_choice, check_ids

# cached, and outdated by the next fit
DERIVED = (
    "_made_evidence",
    "_scorer",
    "_user_scorer",
    "_members",
    "_coclusters",
    "_fold",
    "_ordering",
    "_alike_items",
    "_alike_users",
    "_both_attribute_names",
    "_cold",
    "_item_features",
    "_user_features",
)


class Fitted(Parameters):
    """The attributes of a fitted OCuLaR, which it documents, and what is made of them when it is first needed."""

    config_: FitConfig
    evidence_config_: EvidenceConfig
    interactions_: Interactions
    min_value_: float | None
    n_features_in_: int
    user_factors_: sp.csr_array
    item_factors_: sp.csr_array
    user_bias_: NDArray[np.float32]
    item_bias_: NDArray[np.float32]
    bias_: float
    user_attribute_weights_: NDArray[np.float32]
    item_attribute_weights_: NDArray[np.float32]
    links_: sp.csr_array
    peers_: sp.csr_array
    taste_: sp.csr_array
    appeal_: sp.csr_array
    history_: list[float]
    objective_: float
    n_iter_: int
    converged_: bool
    interrupted_: bool
    excluded_items_: NDArray[np.bool_]
    pattern_labels_: dict[int, str]
    calibration_: Calibration | None
    tuning_: Choice | None

    def _learn(self, state: State) -> None:
        K, bias = self.config_.n_coclusters, self.config_.bias
        self.user_factors_ = sp.csr_array(state.user_factors[:, :K])
        self.item_factors_ = sp.csr_array(state.item_factors[:, :K])
        for factors in (self.user_factors_, self.item_factors_):
            factors.sort_indices()
        n_users, n_items = len(state.user_steps), len(state.item_steps)
        self.user_bias_ = BIAS_COLUMN * state.user_factors[:, K] if bias else np.zeros(n_users, np.float32)
        self.item_bias_ = BIAS_COLUMN * state.item_factors[:, K + 1] if bias else np.zeros(n_items, np.float32)
        self.bias_ = state.bias
        weights = state.user_attribute_weights, state.item_attribute_weights
        none = np.zeros((0, K + 1), dtype=np.float32)
        self.user_attribute_weights_, self.item_attribute_weights_ = (none if w is None else w for w in weights)
        self.history_ = list(state.objectives)
        self.objective_ = self.history_[-1]
        self.n_iter_ = len(self.history_)
        for name in DERIVED:
            self.__dict__.pop(name, None)

    def attribute_labels(self, side: str = "item") -> list[tuple[str, str]]:
        """Return attribute and value of each row of `item_attribute_weights_`, or of the users' with side="user"."""
        return self._attribute_names(side).labels if len(self._attribute_weights(side)) else []

    def memberships_from_attributes(self, attributes: Mapping[str, Any], side: str = "item") -> NDArray[np.float32]:
        """
        Return the memberships, (K,), of a new item or user of whom only attributes are known: {"family": "Printing"}.

        They explain the attributes by the weights of the fit, and are those of the average row as far as the attributes
        do not say otherwise. Needs a fit with attribute_strength above 0. Values that the fit has not seen are ignored.
        """
        weights, names = self._attribute_weights(side), self._attribute_names(side)
        if not len(weights):
            strength = Parameter("attribute_strength")
            raise ConfigError(
                f"expected a model with attributes of {side}s in its likelihood, got none; set ", strength
            )
        known = [column.name for column in names.columns]
        for name in attributes:
            if name not in known:
                raise UnknownNameError(f"no {side} attribute named {name!r} in the fit; it has {', '.join(known)}")
        row = names.encode({name: [value] for name, value in attributes.items()}, 1)
        factors = self.user_factors_ if side == "user" else self.item_factors_
        prior = np.asarray(factors.mean(axis=0)).ravel()
        memberships: NDArray[np.float32] = fold_in_attributes(row, weights, self.config_, prior=prior)[0]
        return memberships

    def _attribute_weights(self, side: str) -> NDArray[np.float32]:
        check_choice(side, "side", ("user", "item"))
        return self.user_attribute_weights_ if side == "user" else self.item_attribute_weights_

    def _attribute_names(self, side: str) -> AttributeNames:
        return self._both_attribute_names[side == "item"]

    @cached_property
    def _both_attribute_names(self) -> tuple[AttributeNames, AttributeNames]:
        return attribute_names(self.interactions_)

    @property
    def refusals_(self) -> Adjacency:
        """What each user refused, user -> items."""
        data = self.interactions_
        nothing = Adjacency(np.zeros(data.n_users + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        return nothing if data.refusals is None else data.refusals

    @property
    def _base(self) -> float:
        """The part of z that all pairs share."""
        return self.config_.background + self.bias_

    @cached_property
    def _members(self) -> Members:
        return find_members(self.user_factors_, self.item_factors_, background=self.config_.background)

    @property
    def _evidence(self) -> Evidence:
        """The evidence, made anew where one of its parts is another one."""
        made: Evidence | None = self.__dict__.get("_made_evidence")
        parts = self.evidence_config_, self.user_factors_, self.item_factors_, self.links_, self.peers_
        attributes, config = (self.taste_, self.appeal_), self.evidence_config_
        if made is None or any(mine is not its for mine, its in zip((*parts, *attributes), made.parts, strict=True)):
            features = (
                self._item_features if config.taste else None,
                self._user_features if config.appeal else None,
            )
            made = self.__dict__["_made_evidence"] = Evidence(*parts, self.interactions_, *attributes, *features)
        return made

    def item_features(self) -> Features:
        """Return the values of attributes that items have, in the order of the columns of `taste_`."""
        return self._item_features

    def user_features(self) -> Features:
        """Return the values of attributes that users have, in the order of the rows of `appeal_`."""
        return self._user_features

    @cached_property
    def _item_features(self) -> Features:
        return product_features(self.interactions_, self.evidence_config_)

    @cached_property
    def _user_features(self) -> Features:
        return client_features(self.interactions_, self.evidence_config_)

    @cached_property
    def _ordering(self) -> Ordering:
        return Ordering.of(self.interactions_)

    def _new_peers(self, rows: Adjacency, users: NDArray[np.int64] | None) -> sp.csr_array:
        """Return the peers, (n, n_users), of users who own these items."""
        if not self.evidence_config_.peers:
            return sp.csr_array((len(rows), self.interactions_.n_users), dtype=np.float32)
        ordering = self._ordering
        ordered = ordering.sort_columns(rows), ordering.sort(self.interactions_)
        ranks = None if users is None or ordering.user_ranks is None else ordering.user_ranks[users]
        known = users if ranks is None else ranks
        peers = taken(fit_new_peers(*ordered, self.evidence_config_, self.config_, known), ordering.user_ranks)
        return sp.csr_array(peers.T.tocsr())

    def _new_taste(self, rows: Adjacency) -> sp.csr_array:
        """Return the taste, (n, values), of users who own these items."""
        if not self.evidence_config_.taste:
            return sp.csr_array((len(rows), 0), dtype=np.float32)
        ordered = self._ordering.sort(self.interactions_)
        return fit_taste(ordered, self.evidence_config_, self.config_, self._ordering.sort_columns(rows))

    def _values_of(self, users: NDArray[np.int64]) -> Adjacency | None:
        """Return the values of the attributes of users, where appeal weighs something."""
        return self._user_features.rows.take(users) if self.evidence_config_.appeal else None

    @cached_property
    def _fold(self) -> FoldIn:
        return self._new_fold()

    def _new_fold(self) -> FoldIn:
        items = self._ordering.items
        return FoldIn(taken(self.item_factors_, items), taken(self.item_bias_, items), self.bias_, self.config_)

    def _folded(self, rows: Adjacency, fold: FoldIn | None = None) -> tuple[sp.csr_array, NDArray[np.float32]]:
        """Return memberships and biases of users who own these items."""
        return (fold or self._fold).fit(self.device, self._ordering.sort_columns(rows))

    def _user_ids(self, ids: int | ArrayLike) -> NDArray[np.int64]:
        return check_ids(ids, self.interactions_.n_users, "user")

    def _item_ids(self, ids: int | ArrayLike) -> NDArray[np.int64]:
        return check_ids(ids, self.interactions_.n_items, "item")

    def _matrix_rows(self, user_items: Any) -> Adjacency:
        return owned_rows(user_items, self.interactions_.n_items, self.min_value_)
