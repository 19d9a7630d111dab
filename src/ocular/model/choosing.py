"""A value for each parameter that is "auto": as the data are, as an earlier model has it, or on held-out purchases."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ocular.data.interactions import Interactions
from ocular.data.splits import Split, random_split
from ocular.errors import Parameter, Phrased
from ocular.evidence import EvidenceConfig
from ocular.model.fitted import Fitted
from ocular.model.parameters import Parameters
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import BIAS_COLUMN, FitConfig, State
from ocular.solver.devices import open_backend
from ocular.solver.fit import Callback, FitResult, run_fit
from ocular.solver.start.initial import initial_state, plain_start
from ocular.tuning import (
    AUTO,
    FIXED,
    MIN_HELD_OUT,
    QUICK,
    Choice,
    Effort,
    Factors,
    choose,
    count_pairs,
    usual_coclusters,
    usual_regularization,
)
from ocular.tuning import SHARE as HELD_OUT_SHARE

_log = logging.getLogger("ocular")


class Choosing(Parameters):
    """The part of an OCuLaR that settles what is "auto"."""

    def choose(
        self, split: Split, config: FitConfig | None = None, M: int | None = None, effort: Effort = QUICK
    ) -> Choice:
        """
        Choose what is "auto" on the test part of a split, by `metric` at M recommendations per user; nothing is kept.

        Every part is fitted a few times with different penalties, as quickly as a comparison allows; weights are
        scanned by scoring alone, on a sample of users. `effort` bounds all of it.
        """
        config = self._sized(self.config(), split.train) if config is None else config
        regularizations: tuple[float, ...] = ()
        if self.regularization == AUTO:
            usual = usual_regularization(split.train.nnz, config.n_coclusters)
            regularizations = tuple(float(f"{factor * usual:.2g}") for factor in effort.regularization_factors)
            config = replace(config, regularization=usual)
        quick = replace(config, tol=max(config.tol, effort.tol), init=plain_start(split.train))
        states: list[State] = []

        def fit_patterns(interactions: Interactions, config: FitConfig) -> Factors:
            """Fit with another λ from where the first fit ended: most sweeps go into finding the co-clusters."""
            begin = replace(deepcopy(states[0]), objectives=[]) if states else initial_state(interactions, config)
            result = self._fit_patterns(interactions, config, lambda: begin)
            if result.interrupted:
                raise KeyboardInterrupt  # parameters chosen by half a fit are worth nothing
            states.append(result.state)
            return _factors(result.state, config)

        options: dict[str, Any] = {"regularizations": regularizations, "metric": self.metric, "M": M, "effort": effort}
        choice = choose(split, self.evidence_request(), quick, fit_patterns, **options)
        return choice._replace(config=replace(config, regularization=choice.config.regularization))

    def _choose_parameters(
        self, interactions: Interactions, config: FitConfig
    ) -> tuple[FitConfig, EvidenceConfig, Choice | None]:
        """Return the parameters with a value for everything that is "auto", and how they were chosen, if they were."""
        request = self.evidence_request()
        if request.is_settled and self.regularization != AUTO:
            return config, request.settled(EvidenceConfig()), None
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

    def _fit_patterns(
        self,
        interactions: Interactions,
        config: FitConfig,
        begin: Callable[[], State],
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> FitResult:
        """Fit the co-clusters from the state that `begin` returns."""
        backend = open_backend(self.device, interactions, config)
        try:
            return run_fit(interactions, config, backend, begin, callback=callback, checkpoint=checkpoint)
        finally:
            backend.close()


def _factors(state: State, config: FitConfig) -> Factors:
    """Return the memberships of users and items, and the biases of the items, if any."""
    K = config.n_coclusters
    bias = np.asarray(BIAS_COLUMN * state.item_factors[:, K + 1]).ravel() if config.bias else None
    return sp.csr_array(state.user_factors[:, :K]), sp.csr_array(state.item_factors[:, :K]), bias
