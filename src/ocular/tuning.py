"""
Parameters that are chosen on held-out purchases: λ, the weights of other evidence, popularity, trend, and penalties.

Every part is fitted to nine tenths of the purchases, a few times with different penalties. Any weights of the parts are
then measured on a sample of clients without a fit (`climbing`, `weight_scan`). Of penalties the usual one and a few
others are tried; a part that hardly adds anything is left out. What is limited is work and never time, so that the same
purchases lead to the same choice on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ocular.climbing import USUAL_PEER_PENALTY, USUAL_PENALTY, WEIGHTS, Climber, climb
from ocular.data.interactions import Interactions
from ocular.data.splits import Split
from ocular.evidence import EvidenceConfig, fit_product_links
from ocular.evidence_request import AUTO, EvidenceRequest
from ocular.solver.config import FitConfig
from ocular.solver.links import LIKELIHOOD, LOSSES, MAX_SQUARES, SQUARES
from ocular.validation import check_choice
from ocular.weight_scan import LARGE, Part, Sample, Trends, WeightScan

# balanced is the geometric mean of recall and MAP, with MAP twice: a tenth held out exaggerates differences in recall
METRICS = ("balanced", "recall", "map")
RANDOM, BY_TIME = "random", "time"
VALIDATIONS = (AUTO, RANDOM, BY_TIME)  # which purchases are held out
SHARE = 0.1  # of the purchases that are held out
MIN_HELD_OUT = 50  # pairs below which a choice would be chance
MAX_PEERS_WORK = 5e10  # Σ n_i² of the products' buyers from which on peers take hours

MAX_COCLUSTERS = 100
USUAL_REGULARIZATION = 30.0
PURCHASES_PER_LAMBDA = 80  # of a co-cluster
MAX_M, M_SHARE = 50, 10  # recommendations per client that are measured: 50, or a tenth of the products
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
MIN_PATTERNS_GAIN = 0.05  # of that of patterns alone, for which another λ is taken: neighbours differ by chance
ATTRIBUTE_PARTS = ("taste", "appeal")
MIN_ATTRIBUTES_GAIN = 0.01  # for which taste or appeal are worth having: with less they might lose elsewhere
MIN_LOSS = 0.002  # of recall, that no gain in MAP makes up for

Factors = tuple[sp.csr_array, sp.csr_array, Any]  # memberships of users and of items, biases of the items or None
FitPatterns = Callable[[Interactions, FitConfig], Factors]


class Effort(NamedTuple):
    """What a choice may cost. Penalties are climbed from the first one on, upwards or else downwards."""

    sample: Sample  # that weights are measured on
    max_candidates: int  # of links and peers, in fits that only compare
    tol: float  # of patterns, in fits that only compare
    regularization_factors: tuple[float, ...]  # of the usual λ, that are tried
    link_penalties: tuple[float, ...]
    peer_penalties: tuple[float, ...]
    first_penalties: tuple[float, float]  # of links and peers, that are tried first


QUICK = Effort(
    sample=Sample(n_clients=1500, n_pairs=8000),
    max_candidates=200,
    tol=3e-3,
    regularization_factors=(1.0, 10.0),
    link_penalties=(60.0, 300.0, 1500.0),
    peer_penalties=(USUAL_PEER_PENALTY,),
    first_penalties=(300.0, USUAL_PEER_PENALTY),
)
THOROUGH = Effort(
    sample=LARGE,
    max_candidates=10_000,
    tol=1e-3,
    regularization_factors=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    link_penalties=PENALTIES,
    peer_penalties=PENALTIES,
    first_penalties=(USUAL_PENALTY, USUAL_PEER_PENALTY),
)


class Choice(NamedTuple):
    """The parameters that did best on the held-out purchases, and how well."""

    evidence: EvidenceConfig
    config: FitConfig
    metric: str
    M: int
    value: float  # of the metric
    patterns_alone: float  # the metric without links, peers and popularity
    n_fits: int  # of patterns, links and peers
    n_weightings: int

    def to_dict(self) -> dict[str, Any]:
        """Return what was chosen and measured as plain values for JSON."""
        values = self._asdict()
        regularization = values.pop("config").regularization
        return values | {"evidence": asdict(self.evidence), "regularization": regularization}

    @classmethod
    def from_dict(cls, values: dict[str, Any], config: FitConfig) -> Choice:
        """Return the choice of which `to_dict` gave these values, for a fit with this configuration."""
        measured = {name: values[name] for name in cls._fields if name not in ("evidence", "config")}
        config = replace(config, regularization=values["regularization"])
        return cls(evidence=EvidenceConfig(**values["evidence"]), config=config, **measured)


def usual_coclusters(shape: tuple[int, int]) -> int:
    """
    Return a number of co-clusters that people can read and the data can fill.

    >>> [usual_coclusters(shape) for shape in ((6000, 3600), (400, 60), (5, 4))]
    [100, 15, 4]
    """
    return max(1, min(MAX_COCLUSTERS, round(2 * math.sqrt(min(shape)))))


def usual_regularization(nnz: int, n_coclusters: int) -> float:
    """Return the λ to begin with, or to take where there is too little to choose on: by purchases per co-cluster."""
    return min(USUAL_REGULARIZATION, float(f"{nnz / n_coclusters / PURCHASES_PER_LAMBDA:.2g}"))


def usual_cutoff(n_items: int) -> int:
    """Return how many recommendations per client are measured: 50, or a tenth of a small catalogue."""
    return max(1, min(MAX_M, n_items // M_SHARE))


def count_pairs(split: Split) -> int:
    """Return how many held-out pairs are of clients with something to go by."""
    return int(split.test.by_user.degrees[split.train.by_user.degrees > 0].sum())


def choose(
    split: Split,
    request: EvidenceRequest,
    config: FitConfig,
    fit_patterns: FitPatterns,
    *,
    regularizations: Sequence[float] = (),
    metric: str = "balanced",
    M: int | None = None,
    effort: Effort = QUICK,
    trends: Trends | None = None,
) -> Choice:
    """
    Return what does best on the test part of a split: what the request leaves open, and λ of `regularizations`.

    λ of `config`, which is one of `regularizations`, stays where no other is much better, or where there are none.
    `trends` are those of the products by half-life, where the purchases have dates.
    """
    check_choice(metric, "metric", METRICS)
    return _Chooser(split, request, config, fit_patterns, metric, M, effort, trends).run(tuple(regularizations))


def count_fits(request: EvidenceRequest, *, chooses_regularization: bool) -> int:
    """Return how many fits `choose` needs at most, of patterns, links and peers."""
    n = len(QUICK.regularization_factors) if chooses_regularization else 1
    if request.links != 0:
        penalties = QUICK.link_penalties if request.link_regularization == AUTO else (request.link_regularization,)
        n += len(penalties) * (len(LOSSES) if request.link_loss == AUTO else 1)
    if request.peers != 0:
        n += len(QUICK.peer_penalties) if request.peer_regularization == AUTO else 1
    return n


def peers_take_hours(train: Interactions) -> bool:
    """Return whether there are too many pairs of clients with a product in common to fit peers unasked."""
    return float((train.by_item.degrees.astype(np.float64) ** 2).sum()) > MAX_PEERS_WORK


class _Chooser(Climber):
    """The steps of a choice: parts are fitted in turn, and their weights climbed."""

    def __init__(
        self,
        split: Split,
        request: EvidenceRequest,
        config: FitConfig,
        fit_patterns: FitPatterns,
        metric: str,
        M: int | None,
        effort: Effort,
        trends: Trends | None,
    ) -> None:
        self.train, self.config, self.fit_patterns, self.effort = split.train, config, fit_patterns, effort
        self.metric, self.M = metric, usual_cutoff(self.train.n_items) if M is None else M
        super().__init__(WeightScan(split, metric, self.M, config.threads, effort.sample, trends), request)
        links, peers = effort.first_penalties
        first = replace(self.evidence, link_regularization=links, peer_regularization=peers)
        self.evidence = request.settled(first)
        self.n_fits = 0

    def run(self, regularizations: Sequence[float]) -> Choice:
        patterns_alone = self._choose_regularization(regularizations or (self.config.regularization,))
        has_links = self.request.links != 0
        has_peers = self.request.peers != 0 and not (self.request.peers == AUTO and peers_take_hours(self.train))
        if has_links:
            self._fit_links(self.evidence.link_regularization)
        if has_peers:
            self._fit_peers(self.evidence.peer_regularization)
        for part in ATTRIBUTE_PARTS:
            if getattr(self.evidence, part) > 0:  # given
                self._use(part)
        self.scan.relist()
        self.climb_weights()
        if has_links:
            self._choose_links()
        if has_peers and self.request.peer_regularization == AUTO:
            self._keep_best("peers", self.effort.peer_penalties, self._fit_peers)
        self.best_parts()
        for part in ATTRIBUTE_PARTS:
            if getattr(self.request, part) == AUTO:
                self._try_attributes(part)
        evidence = self.evidence
        counts = self.n_fits, self.scan.n_weightings
        return Choice(evidence, self.config, self.metric, self.M, self._value(), patterns_alone, *counts)

    def _choose_regularization(self, values: Sequence[float]) -> float:
        """
        Choose λ by the patterns alone, and return their metric.

        Beside links and peers λ hardly matters for the ranking, but people read the patterns.
        """
        measured: dict[float, tuple[float, Part]] = {}
        for strength in sorted(values):  # each fit may go on from the one before: a larger λ takes memberships away
            self.n_fits += 1
            self.scan.use_patterns(*self.fit_patterns(self.train, replace(self.config, regularization=strength)))
            self.scan.relist()
            measured[strength] = self.scan.value(1.0, 0.0, 0.0, 0.0), self.scan.patterns
        usual, best = self.config.regularization, max(measured, key=lambda strength: measured[strength][0])
        if measured[best][0] <= (1 + max(self.min_gain, MIN_PATTERNS_GAIN)) * measured[usual][0]:
            best = usual
        self.config = replace(self.config, regularization=best)
        value, self.scan.patterns = measured[best]
        return value

    def _choose_links(self) -> None:
        """Choose the penalty of links, and their loss."""
        tried, first = [], self.evidence.link_regularization
        for loss in self._losses():
            if loss != self.evidence.link_loss:
                self.evidence = replace(self.evidence, link_loss=loss)
                self._fit_links(first)
                self.climb_weights()
            if self.request.link_regularization == AUTO:
                self._keep_best("links", self.effort.link_penalties, self._fit_links)
            tried.append((self._value(), self._state("links")))
        if len(tried) > 1:
            self._restore("links", max(tried, key=itemgetter(0))[1])

    def _keep_best(self, part: str, penalties: Sequence[float], fit: Callable[[float], None]) -> None:
        """Fit a part with other penalties than the first one, each with the weights that suit it; keep the best."""
        first = getattr(self.evidence, f"{part[:-1]}_regularization")
        states = {first: self._state(part)}

        def measure(penalty: float) -> float:
            if penalty != first:
                fit(penalty)
                self.climb_weights(max_rounds=1)
                states[penalty] = self._state(part)
            return self._value()

        _, best = climb(penalties, penalties.index(first), measure, self.min_gain)
        self._restore(part, states[best])
        if best != first:
            self.climb_weights()

    def _use(self, part: str) -> None:
        """Fit taste or appeal, which takes little time beside the other parts."""
        (self.scan.use_taste if part == "taste" else self.scan.use_appeal)(self.evidence, self.config)

    def _try_attributes(self, part: str) -> None:
        """Add taste or appeal to what has been chosen so far, unless it gains too little or at the cost of recall."""
        self._use(part)
        if getattr(self.scan, part).mean == 0:
            return
        self.scan.relist()
        before, recall_before, chosen = self._value(), self._recall(), self._state(part)
        self.places[part] = WEIGHTS.index(1.0)
        self.climb_weights()
        is_enough = self._value() * (1 - max(MIN_ATTRIBUTES_GAIN, self.min_gain)) > before
        if not (is_enough and self._recall() >= recall_before * (1 - max(MIN_LOSS, self.min_gain))):
            self._restore(part, chosen)

    def _recall(self) -> float:
        self.scan.metric = "recall"
        value = self._value()
        self.scan.metric = self.metric
        return value

    def _state(self, part: str) -> tuple[EvidenceConfig, dict[str, int], Part]:
        return self.evidence, dict(self.places), getattr(self.scan, part)

    def _restore(self, part: str, state: tuple[EvidenceConfig, dict[str, int], Part]) -> None:
        self.evidence, self.places = state[0], dict(state[1])
        setattr(self.scan, part, state[2])

    def _fit_links(self, penalty: float) -> None:
        self.n_fits += 1
        self.evidence = replace(self.evidence, link_regularization=penalty)
        self.scan.use_links(fit_product_links(self.train, replace(self._compared(), links=1.0), self.config))

    def _fit_peers(self, penalty: float) -> None:
        self.n_fits += 1
        self.evidence = replace(self.evidence, peer_regularization=penalty)
        self.scan.use_peers(self._compared(), self.config)

    def _compared(self) -> EvidenceConfig:
        """Return the configuration with as many candidates as fits have that only compare."""
        return replace(self.evidence, n_links=min(self.request.n_links, self.effort.max_candidates))

    def _losses(self) -> tuple[str, ...]:
        if self.request.link_loss != AUTO:
            return (self.request.link_loss,)
        rows = self.train.by_user
        is_plain = rows.weights is None and (rows.refused is None or self.config.refusal_weight == 1)
        can_be_squares = self.train.n_items <= MAX_SQUARES and not self.config.relative and is_plain
        return (LIKELIHOOD, SQUARES) if can_be_squares else (LIKELIHOOD,)
