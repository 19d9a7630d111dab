"""
What a model's confidence is worth, found out by hiding purchases from it.

A model with the same parameters is fitted without a share of every client's purchases and recommends; a
recommendation is a hit if it was hidden. How good the hit rates are is measured on clients they were not taken from.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ocular.data.interactions import Interactions
from ocular.data.splits import per_user_split
from ocular.errors import DataError
from ocular.evaluation.metrics import found as find_hits
from ocular.explain.calibration import Calibration, Reliability, fit_calibration, measure_reliability
from ocular.model import OCuLaR
from ocular.solver.config import GIVEN

SHARE, PER_CLIENT = 0.25, 20


class Outcomes(NamedTuple):
    """Recommendations of known outcome."""

    clients: NDArray[np.int64]
    confidences: NDArray[np.float64]
    hits: NDArray[np.bool_]

    def of(self, chosen: NDArray[np.bool_]) -> Outcomes:
        return Outcomes(self.clients[chosen], self.confidences[chosen], self.hits[chosen])


def calibrate(
    model: OCuLaR, *, share: float = SHARE, per_client: int = PER_CLIENT, random_state: int = 0
) -> Calibration:
    """
    Find out what the confidences of a fitted model are worth and keep it in `model.calibration_`.

    Too few recommendations or no hits raise DataError; Ctrl-C raises KeyboardInterrupt and leaves the model as it was.
    """
    most = int(model.interactions_.by_user.degrees.max(initial=0))
    if int(share * most + 0.5) < 1 or most < 2:
        raise DataError(f"expected clients with enough purchases to hide {share:.0%} of them, got at most {most} each")
    train, hidden = per_user_split(model.interactions_, share, random_state)
    twin = _twin(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the model itself has said so already
        twin.fit(train)
    twin.excluded_items_ = model.excluded_items_  # hit rates are those of what is recommended
    if twin.interrupted_:
        raise KeyboardInterrupt  # hit rates of half a fit are worth nothing
    outcomes = collect_outcomes(twin, hidden, per_client)
    found = fit_calibration(outcomes.confidences, outcomes.hits)
    before = measure_reliability(outcomes.confidences, outcomes.hits).error
    try:
        after = cross_check(outcomes, random_state)[1].error
    except DataError:
        after = None  # too few to tell one half by the other
    model.calibration_ = replace(found, share=share, per_client=per_client, error_before=before, error_after=after)
    return model.calibration_


def _twin(model: OCuLaR) -> OCuLaR:
    """A model to be fitted as this one was, whatever set_params did since; a given start has seen what is hidden."""
    config = model.config_
    same = {name: value for name, value in asdict(config).items() if name in model.get_params()}
    start = "auto" if config.init.startswith(GIVEN) else config.init
    twin: OCuLaR = clone(model).set_params(**same | {"init": start, "random_state": config.seed, "verbose": False})
    return twin


def collect_outcomes(model: OCuLaR, hidden: Interactions, per_client: int = PER_CLIENT) -> Outcomes:
    """What the model recommends to everybody with a history, and whether it is among the hidden purchases."""
    clients = np.flatnonzero(model.interactions_.by_user.degrees)
    ids, confidences = model.recommend(clients, N=min(per_client, hidden.n_items))
    there = ids >= 0
    hits = find_hits(ids, hidden.by_user, clients)
    return Outcomes(
        np.broadcast_to(clients[:, None], ids.shape)[there], confidences[there].astype(np.float64), hits[there]
    )


def cross_check(outcomes: Outcomes, random_state: int = 0) -> tuple[Reliability, Reliability]:
    """Reliability of the probabilities, and of hit rates where each half of the clients is told by the other half."""
    rng = np.random.default_rng(random_state)
    half = rng.random(int(outcomes.clients.max(initial=0)) + 1) < 0.5
    rates = np.empty_like(outcomes.confidences)
    for side in (half[outcomes.clients], ~half[outcomes.clients]):
        other = outcomes.of(~side)
        rates[side] = fit_calibration(other.confidences, other.hits).apply(outcomes.confidences[side])
    return measure_reliability(outcomes.confidences, outcomes.hits), measure_reliability(rates, outcomes.hits)
