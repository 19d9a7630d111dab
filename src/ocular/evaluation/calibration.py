"""
Calibration: a back-test of how often recommendations of each confidence are bought.

A model with the same parameters is fitted without a share of every client's purchases; a recommendation is a hit if it
is one of those. How good the hit rates are is measured on clients that they were not taken from.
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
from ocular.evaluation.metrics import find_hits
from ocular.explain.calibration import Calibration, Reliability, fit_calibration, measure_reliability
from ocular.model import OCuLaR
from ocular.solver.config import GIVEN
from ocular.validation import check_share

SHARE, PER_CLIENT = 0.25, 20  # held out of the purchases; recommendations made to each client


class Outcomes(NamedTuple):
    """Recommendations whose outcome is known."""

    clients: NDArray[np.int64]
    confidences: NDArray[np.float64]
    hits: NDArray[np.bool_]

    def where(self, mask: NDArray[np.bool_]) -> Outcomes:
        """Return some of them."""
        return Outcomes(self.clients[mask], self.confidences[mask], self.hits[mask])


def calibrate(
    model: OCuLaR, *, share: float = SHARE, per_client: int = PER_CLIENT, random_state: int = 0
) -> Calibration:
    """
    Measure how often recommendations of each confidence are bought, and keep the result in `model.calibration_`.

    A second model is fitted without a `share` of every client's purchases and makes `per_client` recommendations to
    each. Too few recommendations or no hits raise DataError; Ctrl-C raises KeyboardInterrupt and leaves the model as it
    was.
    """
    check_share(share, "share")
    largest = int(model.interactions_.by_user.degrees.max(initial=0))
    if int(share * largest + 0.5) < 1 or largest < 2:
        raise DataError(
            f"expected clients with enough purchases to hold out {share:.0%} of them, got at most {largest} each"
        )
    train, hidden = per_user_split(model.interactions_, share, random_state)
    twin = unfitted_twin(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the model itself has said so already
        twin.fit(train)
    twin.excluded_items_ = model.excluded_items_  # hit rates are those of what is recommended
    if twin.interrupted_:
        raise KeyboardInterrupt  # hit rates of half a fit are worth nothing
    outcomes = collect_outcomes(twin, hidden, per_client)
    # products without a reason fill up short lists: their confidence, the background, is worth no more than itself
    background = -np.expm1(-1.001 * (twin.config_.background + twin.bias_))
    outcomes = outcomes.where(outcomes.confidences > background)
    calibration = fit_calibration(outcomes.confidences, outcomes.hits)
    before = measure_reliability(outcomes.confidences, outcomes.hits).error
    try:
        checked = cross_check(outcomes, random_state)[1]
    except DataError:
        checked = None  # too few to measure one half of the clients by the other
    model.calibration_ = replace(
        calibration, share=share, per_client=per_client, error_before=before,
        error_after=None if checked is None else checked.error, checked=checked,
    )  # fmt: skip
    return model.calibration_


def unfitted_twin(model: OCuLaR) -> OCuLaR:
    """
    Return a model to be fitted as this one was, whatever set_params did since.

    A given start is left out, because it has seen the purchases that are held out.
    """
    config = model.config_
    fitted = asdict(config) | asdict(model.evidence_config_)
    same = {name: value for name, value in fitted.items() if name in model.get_params()}
    start = "auto" if config.init.startswith(GIVEN) else config.init
    twin: OCuLaR = clone(model).set_params(**same | {"init": start, "random_state": config.seed, "verbose": False})
    return twin


def collect_outcomes(model: OCuLaR, hidden: Interactions, per_client: int = PER_CLIENT) -> Outcomes:
    """Return what the model recommends to every client with purchases, and whether it is among the hidden ones."""
    clients = np.flatnonzero(model.interactions_.by_user.degrees)
    ids, confidences = model.recommend(clients, N=min(per_client, hidden.n_items))
    filled = ids >= 0
    hits = find_hits(ids, hidden.by_user, clients)
    return Outcomes(
        np.broadcast_to(clients[:, None], ids.shape)[filled], confidences[filled].astype(np.float64), hits[filled]
    )


def cross_check(outcomes: Outcomes, random_state: int = 0) -> tuple[Reliability, Reliability]:
    """
    Return the reliability of the probabilities, and that of calibrated hit rates.

    The hit rates of each half of the clients are taken from the other half.
    """
    rng = np.random.default_rng(random_state)
    half = rng.random(int(outcomes.clients.max(initial=0)) + 1) < 0.5
    rates = np.empty_like(outcomes.confidences)
    for side in (half[outcomes.clients], ~half[outcomes.clients]):
        other = outcomes.where(~side)
        rates[side] = fit_calibration(other.confidences, other.hits).apply(outcomes.confidences[side])
    return measure_reliability(outcomes.confidences, outcomes.hits), measure_reliability(rates, outcomes.hits)
