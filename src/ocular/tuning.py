"""
Parameters that are chosen on held-out purchases: the weights of links and peers, popularity, their penalty, λ.

Every part is fitted to nine tenths of the purchases, once for each value of its penalty. The scores that patterns,
links and peers give to a sample of clients then stand side by side in tables, so that any weighting costs one pass over
them and no fit. Values are tried by hill climbing from the usual one; a part that hardly adds anything is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
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
from ocular.weight_scan import MAX_SCORES, Table, WeightScan

AUTO = "auto"
# balanced is the geometric mean of recall and MAP, with MAP twice: a tenth held out exaggerates differences in recall
METRICS = ("balanced", "recall", "map")
SHARE = 0.1  # of the purchases that are held out
MIN_HELD_OUT = 50  # pairs below which a choice would be chance
MAX_PEERS_WORK = 5e10  # Σ n_i² of the products' buyers from which on peers take hours

MAX_COCLUSTERS = 100
REGULARIZATIONS, USUAL_REGULARIZATION = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0), 30.0
PURCHASES_PER_LAMBDA = 80  # of a co-cluster
MAX_M, M_SHARE = 50, 10  # recommendations per client that are measured: 50, or a tenth of the products
WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 5.0, 9.0, 15.0, 30.0)  # where all parts have the same mean
POPULARITIES = (-0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3)
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
USUAL_PENALTY, USUAL_PEER_PENALTY = 100.0, 1000.0
MIN_GAIN = 0.003  # of the metric, for which peers or popularity are worth having
FEW_PAIRS, CHANCE = 5000, 0.3  # with fewer held-out pairs a step must gain CHANCE / √pairs, more than chance would
CHOSEN_WITH_LINKS = ("peers", "popularity", "link_regularization", "peer_regularization")
FIXED = EvidenceConfig(links=1.0, link_regularization=USUAL_PENALTY)  # where there is too little to choose on

Factors = tuple[sp.csr_array, sp.csr_array, Any]  # memberships of users and of items, biases of the items or None


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
        for name in ("links", *CHOSEN_WITH_LINKS, "trend", "trend_half_life", "taste", "appeal"):
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
    """Return λ where there is too little to choose it on: it goes with the purchases per co-cluster."""
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
    fit_patterns: Callable[[Interactions, FitConfig], Factors],
    *,
    regularizations: Sequence[float] = (),
    metric: str = "balanced",
    M: int | None = None,
    max_scores: int = MAX_SCORES,
) -> Choice:
    """
    Return what does best on the test part of a split: what the request leaves open, and λ of `regularizations`.

    λ is climbed from that of `config`, which is one of `regularizations`; without them it stays.
    `max_scores` are the clients × products of the sample that is scored; with more than usual the choice is thorough.
    """
    check_choice(metric, "metric", METRICS)
    return _Chooser(split, request, config, fit_patterns, metric, M, max_scores).run(tuple(regularizations))


def choose_weights(scan: WeightScan, request: EvidenceRequest) -> EvidenceConfig:
    """Return the weights that do best of those that the request leaves open, by the tables of a scan: without a fit."""
    return _Climber(scan, request).run_weights()


def peers_take_hours(train: Interactions) -> bool:
    """Return whether there are too many pairs of clients with a product in common to fit peers unasked."""
    return float((train.by_item.degrees.astype(np.float64) ** 2).sum()) > MAX_PEERS_WORK


class _Climber:
    """Climbs the weights that a request leaves open, and holds the best ones so far."""

    def __init__(self, scan: WeightScan, request: EvidenceRequest, *, is_thorough: bool = False) -> None:
        """`is_thorough` looks over the whole range in every climb, instead of from where the last one ended."""
        self.scan, self.request, self.is_thorough = scan, request, is_thorough
        self.evidence = request.settled(replace(FIXED, peers=0.0, popularity=0.0))
        n = scan.n_held_out
        self.min_gain = CHANCE / math.sqrt(max(n, 1)) if n < FEW_PAIRS else 0.0
        one = WEIGHTS.index(1.0)
        self.places = {"links": one, "peers": one} if self.min_gain else {}  # in WEIGHTS, where the next climb starts

    def run_weights(self) -> EvidenceConfig:
        self._climb_weights("links")
        self._climb_all()
        if self.scan.peers.mean > 0:
            without = self._value(), self.evidence
            self._climb_weights("peers", "links")
            self._drop_peers(*without)
        self._drop_popularity()
        return self.evidence

    def _value(self) -> float:
        e = self.evidence
        return self.scan.value(1.0, e.links, e.peers, e.popularity)

    def _with(self, changes: dict[str, Any]) -> EvidenceConfig:
        return replace(self.evidence, **changes)

    def _value_with(self, name: str, value: float) -> float:
        e = self._with({name: value})
        return self.scan.value(1.0, e.links, e.peers, e.popularity)

    def _climb_weights(self, *parts: str) -> None:
        """Choose the weights of links or peers one after the other, on a scale where all parts have the same mean."""
        for part in parts:
            if getattr(self.request, part) == AUTO:
                values = [self.scan.weight_of(part, weight) for weight in WEIGHTS]
                _, best = climb(values, self.places.get(part), partial(self._value_with, part), self.min_gain)
                if not self.is_thorough:
                    self.places[part] = values.index(best)
                self.evidence = self._with({part: best})

    def _climb_all(self) -> float:
        """Climb the weights and popularity in turn until none gets better; return the metric."""
        value, parts = self._value(), ("links", "peers") if self.evidence.peers else ("links",)
        while True:
            self._climb_weights(*parts)
            if self.request.popularity == AUTO:
                usual = POPULARITIES.index(0.0)
                _, best = climb(POPULARITIES, usual, partial(self._value_with, "popularity"), self.min_gain)
                self.evidence = replace(self.evidence, popularity=best)
            before, value = value, self._value()
            if value <= before * (1 + MIN_GAIN / 10):
                return value

    def _drop_peers(self, value: float, without: EvidenceConfig) -> None:
        """Go back to the weights without peers, and their value, where peers were not asked for and add too little."""
        if self.request.peers == AUTO and self._climb_all() * (1 - MIN_GAIN) <= value:
            self.evidence = without

    def _drop_popularity(self) -> None:
        """Leave popularity out where it was not asked for and adds too little."""
        if self.request.popularity == AUTO and self._value() * (1 - MIN_GAIN) <= self._value_with("popularity", 0.0):
            self.evidence = replace(self.evidence, popularity=0.0)


class _Chooser(_Climber):
    """The steps of a choice: parts are fitted in turn, and their weights climbed."""

    def __init__(
        self,
        split: Split,
        request: EvidenceRequest,
        config: FitConfig,
        fit_patterns: Callable[[Interactions, FitConfig], Factors],
        metric: str,
        M: int | None,
        max_scores: int,
    ) -> None:
        self.train, self.config, self.fit_patterns = split.train, config, fit_patterns
        self.metric, self.M = metric, usual_cutoff(self.train.n_items) if M is None else M
        scan = WeightScan(split, self.metric, self.M, config.threads, max_scores)
        super().__init__(scan, request, is_thorough=max_scores > MAX_SCORES)
        self.n_fits = 0

    def run(self, regularizations: Sequence[float]) -> Choice:
        self._use_patterns(self.config.regularization)
        if self.request.links != 0:
            self._choose_links()
        if len(regularizations) > 1:
            self._keep_best("patterns", regularizations, self.config.regularization, self._try_regularization)
        self._climb_all()
        if self.request.peers != 0 and not (self.request.peers == AUTO and peers_take_hours(self.train)):
            self._choose_peers()
        self._drop_popularity()
        evidence, value = self.evidence, self._value()
        patterns_alone = self.scan.value(1.0, 0.0, 0.0, 0.0)
        counts = self.n_fits, self.scan.n_weightings
        return Choice(evidence, self.config, self.metric, self.M, value, patterns_alone, *counts)

    def _choose_links(self) -> None:
        """Choose the loss and the penalty of links, each with the weight that suits it."""
        best: tuple[float, EvidenceConfig, Table] | None = None
        penalties = PENALTIES if self.request.link_regularization == AUTO else (self.evidence.link_regularization,)
        for loss in self._losses():
            self.evidence = replace(self.evidence, link_loss=loss)
            value = self._keep_best("links", penalties, USUAL_PENALTY, self._try_links)
            if best is None or value > best[0]:
                best = value, self.evidence, self.scan.links
        if best is not None:
            _, self.evidence, self.scan.links = best

    def _choose_peers(self) -> None:
        """Choose the penalty of peers, with the weights that suit it; they are left out where they add too little."""
        without = self._value(), self.evidence
        penalties = PENALTIES if self.request.peer_regularization == AUTO else (self.evidence.peer_regularization,)
        self._keep_best("peers", penalties, USUAL_PEER_PENALTY, self._try_peers)
        self._drop_peers(*without)

    def _keep_best(self, part: str, values: Sequence[float], usual: float, use: Callable[[float], None]) -> float:
        """
        Fit a part for one value after the other, from the usual one on, and keep the best; return the metric.

        Of all tables that are made only the best one stays in memory.
        """
        best: tuple[float, EvidenceConfig, FitConfig, Table] | None = None

        def measure(value: float) -> float:
            nonlocal best
            use(value)
            found = self._value()
            if best is None or found > (1 + self.min_gain) * best[0]:
                best = found, self.evidence, self.config, getattr(self.scan, part)
            return found

        climb(values, values.index(usual) if usual in values else 0, measure, self.min_gain)
        assert best is not None  # noqa: S101  climb measures at least one
        metric, self.evidence, self.config, table = best
        setattr(self.scan, part, table)
        return metric

    def _try_links(self, penalty: float) -> None:
        self.evidence = replace(self.evidence, link_regularization=penalty)
        self.n_fits += 1
        self.scan.use_links(fit_product_links(self.train, replace(self.evidence, links=1.0), self.config))
        self._climb_weights("links")

    def _try_regularization(self, strength: float) -> None:
        if strength != self.config.regularization:
            self._use_patterns(strength)
            self._climb_weights("links")

    def _try_peers(self, penalty: float) -> None:
        self.evidence = replace(self.evidence, peer_regularization=penalty)
        self.n_fits += 1
        self.scan.use_peers(self.evidence, self.config)
        self._climb_weights("peers", "links")

    def _losses(self) -> tuple[str, ...]:
        if self.request.link_loss != AUTO:
            return (self.request.link_loss,)
        rows = self.train.by_user
        is_plain = rows.weights is None and (rows.refused is None or self.config.refusal_weight == 1)
        can_be_squares = self.train.n_items <= MAX_SQUARES and not self.config.relative and is_plain
        return (LIKELIHOOD, SQUARES) if can_be_squares else (LIKELIHOOD,)

    def _use_patterns(self, regularization: float) -> None:
        self.config = replace(self.config, regularization=regularization)
        self.n_fits += 1
        self.scan.use_patterns(*self.fit_patterns(self.train, self.config))


def climb(
    values: Sequence[float], start: int | None, measure: Callable[[float], float], min_gain: float = 0.0
) -> tuple[float, float]:
    """
    Return the largest measure and its value, walking from `start` to one side or the other while it gets better.

    Without a start it is the best of every third value. A step must gain the share `min_gain`.

    >>> climb([1.0, 2.0, 3.0, 4.0, 5.0], 1, lambda value: 1 - abs(value - 4))
    (1.0, 4.0)
    """
    measured: dict[int, float] = {}

    def value_at(place: int) -> float:
        if place not in measured:
            measured[place] = measure(values[place])
        return measured[place]

    at = max(range(0, len(values), 3), key=value_at) if start is None else start
    begun = at
    for step in (1, -1):
        while 0 <= at + step < len(values) and value_at(at + step) > (1 + min_gain) * value_at(at):
            at += step
        if at != begun:
            break
    return value_at(at), values[at]
