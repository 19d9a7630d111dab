"""A value for each parameter that is "auto": as the data are, as an earlier model has it, or on held-out purchases."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ocular.climbing import FIXED
from ocular.data.interactions import Interactions
from ocular.data.ordering import Ordering, taken
from ocular.data.splits import Split, is_by_time, latest_split, random_split
from ocular.data.trend import find_trends
from ocular.errors import DataError, Parameter, Phrased
from ocular.evidence import EvidenceConfig
from ocular.evidence_request import AUTO, EvidenceRequest
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
    BY_TIME,
    MIN_HELD_OUT,
    QUICK,
    RANDOM,
    Choice,
    Effort,
    Factors,
    choose,
    count_pairs,
    usual_coclusters,
    usual_regularization,
)
from ocular.tuning import SHARE as HELD_OUT_SHARE
from ocular.weight_scan import Trends

MIN_KNOWN = 0.5  # of the latest purchases, by clients with earlier ones, without which they are no test

_log = logging.getLogger("ocular")


class Choosing(Parameters):
    """The part of an OCuLaR that settles what is "auto"."""

    def choose(
        self,
        split: Split,
        config: FitConfig | None = None,
        M: int | None = None,
        effort: Effort = QUICK,
        trends: Trends | None = None,
    ) -> Choice:
        """
        Choose what is "auto" on the test part of a split, by `metric` at M recommendations per user; nothing is kept.

        Every part is fitted a few times with different penalties, as quickly as a comparison allows; weights are
        scanned by scoring alone, on a sample of users. `effort` bounds all of it. `trends` are those of the items by
        half-life; by default they are found where the test part is later than the other.
        """
        if trends is None and is_by_time(split):
            trends = partial(find_trends, split.train)
        if config is None:
            config = self._sized(self.config(), split.train)
            split = split._replace(train=with_weights(split.train, config))
        regularizations: tuple[float, ...] = ()
        if self.regularization == AUTO:
            usual = usual_regularization(split.train.nnz, config.n_coclusters)
            regularizations = tuple(float(f"{factor * usual:.2g}") for factor in effort.regularization_factors)
            config = replace(config, regularization=usual)
        quick = replace(config, tol=max(config.tol, effort.tol), init=plain_start(split.train))
        before: State | None = None

        def fit_patterns(interactions: Interactions, config: FitConfig) -> Factors:
            """Fit from where the fit with another λ ended: most sweeps go into finding the co-clusters."""
            nonlocal before
            start = initial_state(interactions, config) if before is None else replace(before, objectives=[])
            result = self._fit_patterns(interactions, config, lambda: start)
            if result.interrupted:
                raise KeyboardInterrupt  # parameters chosen by half a fit are worth nothing
            before = result.state
            return _factors(before, config)

        options: dict[str, Any] = {"regularizations": regularizations, "metric": self.metric, "M": M, "effort": effort}
        options["trends"] = trends
        request = self.request_for(has_dates=trends is not None)
        choice = choose(split, request, quick, fit_patterns, **options)
        return choice._replace(config=replace(config, regularization=choice.config.regularization))

    def request_for(self, *, has_dates: bool) -> EvidenceRequest:
        """Return what is asked for; by date both losses of links, where squares are often the better one."""
        request = self.evidence_request()
        tries_both = has_dates and self.link_loss is None and self.links == AUTO
        return replace(request, link_loss=AUTO) if tries_both else request

    def _choose_parameters(
        self, interactions: Interactions, ordering: Ordering, config: FitConfig, checkpoint: Checkpoint | None
    ) -> tuple[FitConfig, EvidenceConfig, Choice | None]:
        """Return the parameters with a value for everything that is "auto", and how they were chosen, if they were."""
        request = self.evidence_request()
        if request.is_settled and self.regularization != AUTO:
            return config, request.settled(EvidenceConfig()), None
        kept = None if checkpoint is None else self._kept_choice(ordering.sort(interactions), config, checkpoint)
        if kept is not None:
            return kept.config, kept.evidence, kept
        held_out = hold_out(interactions, ordering, self.validation)
        if held_out is None:
            if self.regularization == AUTO:
                usual = usual_regularization(interactions.nnz, config.n_coclusters)
                config = replace(config, regularization=usual)
            fixed = request.settled(FIXED)
            few = f"{interactions.nnz:,} purchases are too few to choose parameters on a tenth of them; taking "
            weights = Parameter("links", f"{fixed.links:g}"), ", ", Parameter("peers", f"{fixed.peers:g}")
            _log.warning(Phrased(few, *weights))
            return config, fixed, None
        split, trends = held_out
        choice = self.choose(split, config, trends=trends)
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
        given = asdict(request.settled(EvidenceConfig())) | {"metric": self.metric, "validation": self.validation}
        return {"auto": [name for name, value in wanted.items() if value == AUTO]} | given

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
        attributes = side_attributes(interactions, config.attribute_strength)
        backend = open_backend(self.device, interactions, config, attributes)
        try:
            return run_fit(
                interactions, config, backend, begin, callback=callback, checkpoint=checkpoint, attributes=attributes
            )
        finally:
            backend.close()


def hold_out(interactions: Interactions, ordering: Ordering, validation: str) -> tuple[Split, Trends | None] | None:
    """
    Hold out a tenth of the pairs to choose parameters on, in the order of names; None where there are too few for that.

    Where purchases have dates it is the latest tenth, unless most of it is by new clients or `validation` is "random";
    with it come the trends of the items by half-life. Otherwise it is a random tenth.
    """
    if interactions.nnz * HELD_OUT_SHARE < MIN_HELD_OUT:
        return None
    split = None if validation == RANDOM else latest_split(interactions, HELD_OUT_SHARE)
    if split is not None and count_pairs(split) >= max(MIN_HELD_OUT, MIN_KNOWN * split.test.nnz):
        ordered = Split(ordering.sort(split.train), ordering.sort(split.test))
        return ordered, lambda half_life: taken(find_trends(split.train, half_life), ordering.items)
    if validation == BY_TIME:
        expected = "expected dated purchases, the latest tenth mostly by clients with earlier ones, for "
        remedy = ", got others; use ", Parameter("validation", RANDOM)
        raise DataError(expected, Parameter("validation", BY_TIME), *remedy)
    split = random_split(ordering.sort(interactions), HELD_OUT_SHARE)
    return (split, None) if count_pairs(split) >= MIN_HELD_OUT else None


def _factors(state: State, config: FitConfig) -> Factors:
    """Return the memberships of users and items, and the biases of the items, if any."""
    K = config.n_coclusters
    bias = np.asarray(BIAS_COLUMN * state.item_factors[:, K + 1]).ravel() if config.bias else None
    return sp.csr_array(state.user_factors[:, :K]), sp.csr_array(state.item_factors[:, :K]), bias
