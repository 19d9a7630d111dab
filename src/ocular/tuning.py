"""
Parameters that are chosen on held-out purchases: λ, the weights of links and peers, popularity, and their penalties.

Every part is fitted to nine tenths of the purchases, a few times with different penalties. Any weighting of what the
parts score is then measured on a sample of clients without a fit (`weight_scan`). Values are tried by hill climbing
from the usual one, in a fixed number of fits at most; a part that hardly adds anything is left out. What counts is work
and never time, so that the same purchases lead to the same choice on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ocular.data.interactions import Interactions
from ocular.data.splits import Split
from ocular.errors import ConfigError, Parameter
from ocular.evidence import EvidenceConfig, fit_product_links
from ocular.solver.config import FitConfig
from ocular.solver.links import LIKELIHOOD, LOSSES, MAX_SQUARES, SQUARES
from ocular.validation import check_choice, check_whole
from ocular.weight_scan import LARGE, Part, Sample, Trends, WeightScan

AUTO = "auto"
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
WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 5.0, 9.0, 15.0, 30.0)  # where all parts have the same mean
TRENDS, HALF_LIVES = (0.0, 0.3, 0.5, 0.7, 1.0, 1.3), (7.0, 15.0, 30.0, 60.0, 120.0)  # exponents; days
POPULARITIES = (-0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3)
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
USUAL_PENALTY, USUAL_PEER_PENALTY = 100.0, 1000.0
MIN_GAIN = 0.003  # of the metric, for which popularity is worth having
MIN_PEERS_GAIN = 0.01  # for which peers are: they may take as long as the rest of a fit
MIN_PATTERNS_GAIN = 0.05  # of that of patterns alone, for which another λ is taken: neighbours differ by chance
MAX_ROUNDS = 5  # of climbing each weight in turn
PATIENCE = 2  # steps of a weight without a gain, after which others are no longer tried: the metric is not smooth
FEW_PAIRS, CHANCE = 5000, 0.3  # with fewer held-out pairs a step must gain CHANCE / √pairs, more than chance would
CHOSEN_WITH_LINKS = (
    "peers",
    "popularity",
    "link_regularization",
    "peer_regularization",
    "trend",
    "trend_half_life",
)
FIXED = EvidenceConfig(links=1.0, link_regularization=USUAL_PENALTY)  # where there is too little to choose on

Factors = tuple[sp.csr_array, sp.csr_array, Any]  # memberships of users and of items, biases of the items or None
FitPatterns = Callable[[Interactions, FitConfig], Factors]


class Effort(NamedTuple):
    """What a choice may cost. From the usual value on, each list is climbed upwards or else downwards."""

    sample: Sample  # that weights are measured on
    max_candidates: int  # of links and peers, in fits that only compare
    tol: float  # of patterns, in fits that only compare
    regularization_factors: tuple[float, ...]  # λ, as multiples of the usual one
    link_penalties: tuple[float, ...]
    peer_penalties: tuple[float, ...]


QUICK = Effort(Sample(1500, 8000), 200, 3e-3, (0.1, 1.0, 10.0), (30.0, 100.0, 1000.0), (1000.0,))
THOROUGH = Effort(LARGE, 10_000, 1e-3, (0.03, 0.1, 0.3, 1.0, 3.0, 10.0), PENALTIES, PENALTIES)


@dataclass(frozen=True)
class EvidenceRequest:
    """The parameters of links and peers as they were given: numbers, or AUTO where they are to be chosen."""

    links: float | str
    peers: float | str
    popularity: float | str
    link_regularization: float | str
    link_loss: str
    n_links: int
    peer_regularization: float | str
    taste: float | str = 0.0
    appeal: float | str = 0.0
    attribute_regularization: float = EvidenceConfig.attribute_regularization
    attribute_separator: str = EvidenceConfig.attribute_separator
    trend: float | str = 0.0
    trend_half_life: float | str = 30.0

    @classmethod
    def of(cls, **given: Any) -> EvidenceRequest:
        """Take what was given: None is chosen together with links where these are chosen, else it is the default."""
        usual = EvidenceConfig()
        is_chosen = isinstance(given["links"], str) and given["links"] == AUTO
        more = dict.fromkeys(CHOSEN_WITH_LINKS, AUTO) if is_chosen else {}
        unless_given = asdict(usual) | more
        values = {name: unless_given[name] if value is None else value for name, value in given.items()}
        check_whole(values["n_links"], "n_links", 1, 10_000)
        request = cls(**dict[str, Any](values))
        for name in ("links", *CHOSEN_WITH_LINKS, "taste", "appeal"):
            value = getattr(request, name)
            if isinstance(value, str) and value != AUTO:
                raise ConfigError("expected ", Parameter(name), f' to be a number or "auto", got {value!r}')
        check_choice(request.link_loss, "link_loss", (*LOSSES, AUTO))
        request.settled(usual)  # raises where a number makes no sense
        return request

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be chosen."""
        return AUTO not in asdict(self).values()

    def settled(self, chosen: EvidenceConfig) -> EvidenceConfig:
        """Return the configuration with the values of `chosen` where nothing was given."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return EvidenceConfig(**{name: getattr(chosen, name) if v == AUTO else v for name, v in values.items()})


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

    λ is climbed from that of `config`, which is one of `regularizations`; without them it stays as it is. `trends` are
    those of the products by half-life, where the purchases have dates.
    """
    check_choice(metric, "metric", METRICS)
    return _Chooser(split, request, config, fit_patterns, metric, M, effort, trends).run(tuple(regularizations))


def choose_weights(scan: WeightScan, request: EvidenceRequest) -> EvidenceConfig:
    """Return the weights that do best of those that the request leaves open, by the parts of a scan: without a fit."""
    climber = _Climber(scan, request)
    climber.climb_weights()
    return climber.best_parts()


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


class _Climber:
    """Climbs the weights that a request leaves open, and holds the best ones so far."""

    def __init__(self, scan: WeightScan, request: EvidenceRequest) -> None:
        self.scan, self.request = scan, request
        self.evidence = request.settled(FIXED)  # nothing but links, unless it is given
        n = scan.n_held_out
        self.min_gain = CHANCE / math.sqrt(max(n, 1)) if n < FEW_PAIRS else 0.0
        self.places = dict.fromkeys(("links", "peers"), WEIGHTS.index(1.0))  # in WEIGHTS

    def climb_weights(self, max_rounds: int = MAX_ROUNDS) -> float:
        """Climb the weights and popularity in turn until none gets better; return the metric."""
        self._place_weights()
        value = self._value()
        for _ in range(max_rounds):
            open_parts = self._open_parts()
            for parts in (*((part,) for part in open_parts), *([open_parts] if len(open_parts) > 1 else [])):
                self._climb_places(parts)
            if self.request.popularity == AUTO:
                usual = POPULARITIES.index(self.evidence.popularity)
                _, best = climb(POPULARITIES, usual, lambda p: self._value_with(popularity=p), self.min_gain, PATIENCE)
                self.evidence = replace(self.evidence, popularity=best)
            if self.scan.has_trends and self.request.trend == AUTO:
                self._choose_trend()
            before, value = value, self._value()
            if value <= before * (1 + MIN_GAIN / 10):
                break
        return value

    def _choose_trend(self) -> None:
        """Choose the exponent of the trend and its half-life, of all that are tried."""
        days = HALF_LIVES if self.request.trend_half_life == AUTO else (self.evidence.trend_half_life,)
        tried = [(0.0, self.evidence.trend_half_life), *product(TRENDS[1:], days)]
        values = [self._value_with(trend=trend, trend_half_life=half_life) for trend, half_life in tried]
        best = int(np.argmax(values))
        if values[best] * (1 - max(MIN_GAIN, self.min_gain)) <= values[0]:
            best = 0
        self.evidence = replace(self.evidence, trend=tried[best][0], trend_half_life=tried[best][1])

    def best_parts(self) -> EvidenceConfig:
        """Return the weights, without peers and popularity where these were not asked for and add too little."""
        value, chosen = self._value(), self.evidence
        if self.request.peers == AUTO and chosen.peers > 0:
            peers, self.scan.peers = self.scan.peers, self.scan.nothing
            self.evidence = replace(chosen, peers=0.0)
            without = self.climb_weights()
            self.scan.peers = peers
            if value * (1 - MIN_PEERS_GAIN) > without:
                self.evidence = chosen
        if self.request.popularity == AUTO and self._value() * (1 - MIN_GAIN) <= self._value_with(popularity=0.0):
            self.evidence = replace(self.evidence, popularity=0.0)
        return self.evidence

    def _open_parts(self) -> tuple[str, ...]:
        """Return which of links and peers have a weight to be chosen."""
        return tuple(p for p in self.places if getattr(self.request, p) == AUTO and getattr(self.scan, p).mean > 0)

    def _value(self) -> float:
        e = self.evidence
        return self.scan.value(1.0, e.links, e.peers, e.popularity, e.trend, e.trend_half_life)

    def _value_with(self, **weights: Any) -> float:
        before, self.evidence = self.evidence, replace(self.evidence, **weights)
        found, self.evidence = self._value(), before
        return found

    def _place_weights(self, **places: int) -> None:
        """Give links and peers the weights at their places, on a scale where all parts have the same mean."""
        for part in self._open_parts():
            place = places.get(part, self.places[part])
            weight: dict[str, Any] = {part: self.scan.weight_of(part, WEIGHTS[place])}
            self.evidence = replace(self.evidence, **weight)

    def _climb_places(self, parts: Sequence[str]) -> None:
        """Move the places of one part, or of several alike, to where the metric is best."""
        begun = [self.places[part] for part in parts]
        moves = range(-min(begun), len(WEIGHTS) - max(begun))

        def measure(move: float) -> float:
            self._place_weights(**{part: place + int(move) for part, place in zip(parts, begun, strict=True)})
            return self._value()

        _, best = climb(moves, moves.index(0), measure, self.min_gain, PATIENCE)
        self.places |= {part: place + int(best) for part, place in zip(parts, begun, strict=True)}
        self._place_weights()


class _Chooser(_Climber):
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
        self.n_fits = 0

    def run(self, regularizations: Sequence[float]) -> Choice:
        patterns_alone = self._choose_regularization(regularizations or (self.config.regularization,))
        has_links = self.request.links != 0
        has_peers = self.request.peers != 0 and not (self.request.peers == AUTO and peers_take_hours(self.train))
        if has_links:
            self._fit_links(self.evidence.link_regularization)
        if has_peers:
            self._fit_peers(self.evidence.peer_regularization)
        self.scan.relist()
        self.climb_weights()
        if has_links:
            self._choose_links()
        if has_peers and self.request.peer_regularization == AUTO:
            self._keep_best("peers", self.effort.peer_penalties, USUAL_PEER_PENALTY, self._fit_peers)
        evidence = self.best_parts()
        counts = self.n_fits, self.scan.n_weightings
        return Choice(evidence, self.config, self.metric, self.M, self._value(), patterns_alone, *counts)

    def _choose_regularization(self, values: Sequence[float]) -> float:
        """
        Choose λ by the patterns alone, and return their metric.

        Beside links and peers λ hardly matters for the ranking, but people read the patterns.
        """
        fitted: dict[float, Part] = {}

        def measure(strength: float) -> float:
            self.n_fits += 1
            self.scan.use_patterns(*self.fit_patterns(self.train, replace(self.config, regularization=strength)))
            self.scan.relist()
            fitted[strength] = self.scan.patterns
            return self.scan.value(1.0, 0.0, 0.0, 0.0)

        min_gain = max(self.min_gain, MIN_PATTERNS_GAIN)
        value, best = climb(values, values.index(self.config.regularization), measure, min_gain)
        self.config, self.scan.patterns = replace(self.config, regularization=best), fitted[best]
        return value

    def _choose_links(self) -> None:
        """Choose the penalty of links, and their loss."""
        losses = self._losses()
        tried = []
        for loss in losses:
            if loss != self.evidence.link_loss:
                self.evidence = replace(self.evidence, link_loss=loss)
                self._fit_links(self.request.settled(FIXED).link_regularization)
                self.climb_weights()
            if self.request.link_regularization == AUTO:
                self._keep_best("links", self.effort.link_penalties, USUAL_PENALTY, self._fit_links)
            tried.append((self._value(), self._state("links")))
        if len(tried) > 1:
            self._restore("links", max(tried, key=itemgetter(0))[1])

    def _keep_best(self, part: str, penalties: Sequence[float], usual: float, fit: Callable[[float], None]) -> None:
        """Fit a part with other penalties than the usual one, each with the weights that suit it; keep the best."""
        states = {usual: self._state(part)}

        def measure(penalty: float) -> float:
            if penalty != usual:
                fit(penalty)
                self.climb_weights(max_rounds=1)
                states[penalty] = self._state(part)
            return self._value()

        _, best = climb(penalties, penalties.index(usual), measure, self.min_gain)
        self._restore(part, states[best])
        if best != usual:
            self.climb_weights()

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


def climb(
    values: Sequence[float],
    start: int,
    measure: Callable[[float], float],
    min_gain: float = 0.0,
    patience: int = 1,
) -> tuple[float, float]:
    """
    Return the largest measure and its value, walking from `start` upwards, or else downwards, while it gets better.

    A step must gain the share `min_gain`; the walk ends after `patience` steps that do not.

    >>> climb([1.0, 2.0, 3.0, 4.0, 5.0], 1, lambda value: 1 - abs(value - 4))
    (1.0, 4.0)
    """
    best, best_at = measure(values[start]), start
    for step in (1, -1):
        at = start
        while 0 <= at + step < len(values) and abs(at + step - best_at) <= patience:
            at += step
            value = measure(values[at])
            if value > (1 + min_gain) * best:
                best, best_at = value, at
        if best_at != start:
            break
    return best, values[best_at]
