"""A value for each parameter that is "auto": as the data are, as an earlier model has it, or on held-out purchases."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ocular.data.interactions import Interactions
from ocular.data.splits import Split, random_split
from ocular.errors import Parameter, Phrased
from ocular.evidence import EvidenceConfig
from ocular.model.attributes import side_attributes
from ocular.model.fitted import Fitted
from ocular.model.fitting import with_weights
from ocular.model.parameters import Parameters
from ocular.solver.checkpoint import Checkpoint, read_notes
from ocular.solver.config import BIAS_COLUMN, FitConfig, State
from ocular.solver.devices import open_backend
from ocular.solver.fit import Callback, FitResult, run_fit
from ocular.solver.start.initial import initial_state, plain_start
from ocular.storage import check_writable
from ocular.tuning import (
    AUTO,
    FIXED,
    MIN_HELD_OUT,
    REGULARIZATIONS,
    Choice,
    Factors,
    choose,
    count_pairs,
    usual_coclusters,
    usual_regularization,
)
from ocular.tuning import SHARE as HELD_OUT_SHARE
from ocular.weight_scan import MAX_SCORES

TUNING_TOL = 1e-3  # of fits that only compare parameters
_log = logging.getLogger("ocular")


class Choosing(Parameters):
    """The part of an OCuLaR that settles what is "auto"."""

    def choose(
        self, split: Split, config: FitConfig | None = None, M: int | None = None, max_scores: int = MAX_SCORES
    ) -> Choice:
        """
        Choose what is "auto" on the test part of a split, by `metric` at M recommendations per user; nothing is kept.

        Every part is fitted once for each penalty, with a start and a tolerance that save time; weights are scanned by
        scoring alone, on a sample of users whose scores are at most about `max_scores`.
        """
        if config is None:
            config = self._sized(self.config(), split.train)
            split = split._replace(train=with_weights(split.train, config))
        regularizations = REGULARIZATIONS if self.regularization == AUTO else ()
        quick = replace(config, tol=max(config.tol, TUNING_TOL), init=plain_start(split.train))
        request = self.evidence_request()
        options: dict[str, Any] = {"regularizations": regularizations, "metric": self.metric, "M": M}
        choice = choose(split, request, quick, self._factors, max_scores=max_scores, **options)
        return choice._replace(config=replace(config, regularization=choice.config.regularization))

    def _choose_parameters(
        self, interactions: Interactions, config: FitConfig, checkpoint: Checkpoint | None
    ) -> tuple[FitConfig, EvidenceConfig, Choice | None]:
        """Return the parameters with a value for everything that is "auto", and how they were chosen, if they were."""
        request = self.evidence_request()
        if request.is_settled and self.regularization != AUTO:
            return config, request.settled(EvidenceConfig()), None
        kept = None if checkpoint is None else self._kept_choice(interactions, config, checkpoint)
        if kept is not None:
            return kept.config, kept.evidence, kept
        split = (
            random_split(interactions, HELD_OUT_SHARE) if interactions.nnz * HELD_OUT_SHARE >= MIN_HELD_OUT else None
        )
        if split is None or count_pairs(split) < MIN_HELD_OUT:
            if self.regularization == AUTO:
                usual = usual_regularization(interactions.nnz, config.n_coclusters)
                config = replace(config, regularization=usual)
            fixed = request.settled(FIXED)
            few = f"{interactions.nnz:,} purchases are too few to choose parameters on a tenth of them; taking "
            weights = Parameter("links", f"{fixed.links:g}"), ", ", Parameter("peers", f"{fixed.peers:g}")
            _log.warning(Phrased(few, *weights))
            return config, fixed, None
        choice = self.choose(split, config)
        return choice.config, choice.evidence, choice

    def _kept_choice(self, interactions: Interactions, config: FitConfig, checkpoint: Checkpoint) -> Choice | None:
        """Return what a stopped fit chose, so that it goes on with the same even where its sweeps or tol change."""
        check_writable(checkpoint.path)  # before the choice, which may take minutes
        notes = read_notes(checkpoint.path, interactions)
        if notes.get("asked") != self._asked():
            return None
        _log.info("taking the parameters that %s holds", checkpoint.path)
        return Choice.from_dict(notes["chosen"], config)

    def _with_choice(self, checkpoint: Checkpoint, choice: Choice) -> Checkpoint:
        """Return the checkpoint with a note of the choice."""
        return replace(checkpoint, notes={"asked": self._asked(), "chosen": choice.to_dict()})

    def _asked(self) -> dict[str, Any]:
        """Return which parameters a choice was asked for, and given which others, as plain values."""
        request = self.evidence_request()
        wanted = asdict(request) | {"regularization": self.regularization}
        given = asdict(request.settled(EvidenceConfig()))
        return {"auto": [name for name, value in wanted.items() if value == AUTO], "metric": self.metric} | given

    def _take_over(self, start: Fitted, config: FitConfig) -> FitConfig:
        """Return the configuration with the λ of `start` where it is "auto"."""
        return replace(config, regularization=start.config_.regularization) if self.regularization == AUTO else config

    def _sized(self, config: FitConfig, interactions: Interactions, start: Any = None) -> FitConfig:
        """Return the configuration with a number of co-clusters where it is "auto": that of `start`, or the usual."""
        if self.n_coclusters != AUTO:
            return config
        if isinstance(start, Fitted) and hasattr(start, "config_"):
            return replace(config, n_coclusters=start.config_.n_coclusters)
        return replace(config, n_coclusters=usual_coclusters(interactions.shape))

    def _factors(self, interactions: Interactions, config: FitConfig) -> Factors:
        """Return the memberships of users and items that a fit ends with, and the biases of the items, if any."""
        result = self._fit_patterns(interactions, config, lambda: initial_state(interactions, config))
        if result.interrupted:
            raise KeyboardInterrupt  # parameters chosen by half a fit are worth nothing
        K, state = config.n_coclusters, result.state
        bias = np.asarray(BIAS_COLUMN * state.item_factors[:, K + 1]).ravel() if config.bias else None
        return sp.csr_array(state.user_factors[:, :K]), sp.csr_array(state.item_factors[:, :K]), bias

    def _fit_patterns(
        self,
        interactions: Interactions,
        config: FitConfig,
        begin: Callable[[], State],
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> FitResult:
        """Fit the co-clusters from the state that `begin` returns."""
        attributes = side_attributes(interactions, config.attribute_strength)
        backend = open_backend(self.device, interactions, config, attributes)
        try:
            return run_fit(
                interactions, config, backend, begin, callback=callback, checkpoint=checkpoint, attributes=attributes
            )
        finally:
            backend.close()
