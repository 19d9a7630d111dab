"""A fitted model as what `ocular.artifact` writes, and back."""

from __future__ import annotations

import os
from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from ocular.artifact import SavedInteractions, SavedModel, write_model
from ocular.data.interactions import Interactions
from ocular.explain.calibration import Calibration
from ocular.model.fitted import Fitted
from ocular.tuning import Choice


class Saving(Fitted):
    """The part of an OCuLaR that is saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, with the purchases it was fitted on, to the folder `path`; `ocular.load` reads it."""
        check_is_fitted(self)
        saved = SavedModel(
            config=self.config_,  # of the fit, whatever set_params did since
            min_value=None if self.min_value_ is None else float(self.min_value_),
            user_factors=self.user_factors_,
            item_factors=self.item_factors_,
            user_bias=self.user_bias_,
            item_bias=self.item_bias_,
            bias=float(self.bias_),
            user_attribute_weights=self.user_attribute_weights_,
            item_attribute_weights=self.item_attribute_weights_,
            objective_values=self.history_,
            converged=self.converged_,
            excluded_items=self.excluded_items_,
            evidence=self.evidence_config_,
            links=self.links_,
            peers=self.peers_,
            taste=self.taste_,
            appeal=self.appeal_,
            attribute_values=self._attribute_values(),
            pattern_labels=self.pattern_labels_,
            calibration=None if self.calibration_ is None else self.calibration_.to_dict(),
            tuning=None if self.tuning_ is None else self.tuning_.to_dict(),
            interactions=self._saved_interactions(),
        )
        write_model(Path(path), saved)

    def _attribute_values(self) -> dict[str, list[str]]:
        """Return the names of the values that taste and appeal were fitted to, where they weigh something."""
        values = {}
        if self.evidence_config_.taste:
            values["taste"] = self._item_features.names
        if self.evidence_config_.appeal:
            values["appeal"] = self._user_features.names
        return values

    def _saved_interactions(self) -> SavedInteractions:
        """Return the purchases that are saved with the model."""
        return self.interactions_

    def _restore(self, saved: SavedModel[Interactions]) -> None:
        """Take over what was saved of a fit."""
        calibration = None if saved.calibration is None else Calibration.from_dict(dict(saved.calibration))
        tuning = None if saved.tuning is None else Choice.from_dict(dict(saved.tuning), saved.config)
        self.config_, self.min_value_, self.interactions_ = saved.config, saved.min_value, saved.interactions
        self.n_features_in_ = saved.interactions.n_items
        self.user_factors_, self.item_factors_ = saved.user_factors, saved.item_factors
        self.user_bias_, self.item_bias_, self.bias_ = saved.user_bias, saved.item_bias, saved.bias
        self.user_attribute_weights_ = saved.user_attribute_weights
        self.item_attribute_weights_ = saved.item_attribute_weights
        self.history_, self.converged_, self.interrupted_ = saved.objective_values, saved.converged, False
        self.objective_, self.n_iter_ = self.history_[-1], len(self.history_)
        self.excluded_items_, self.calibration_, self.tuning_ = saved.excluded_items, calibration, tuning
        self.evidence_config_, self.links_, self.peers_ = saved.evidence, saved.links, saved.peers
        self.taste_, self.appeal_ = saved.taste, saved.appeal
        self.pattern_labels_ = dict(saved.pattern_labels)
