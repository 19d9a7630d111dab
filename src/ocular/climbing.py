"""
Weights of links, peers, popularity and the trend, climbed one after the other on the scores of a sample: without a fit.

Weights are tried on a scale where all parts have the same mean score. They are moved one by one, and links and peers
together against the patterns, until no move gets better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ocular.evidence import EvidenceConfig
from ocular.evidence_request import AUTO, EvidenceRequest
from ocular.weight_scan import WeightScan

WEIGHTS = (0.0, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0, 5.0, 9.0, 15.0, 30.0)  # where all parts have the same mean
TRENDS, HALF_LIVES = (0.3, 0.5, 0.7, 1.0, 1.3), (7.0, 15.0, 30.0, 60.0, 120.0)  # exponents; days
USUAL_TREND = 0.5
POPULARITIES = (-0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3)
USUAL_PENALTY, USUAL_PEER_PENALTY = 100.0, 1000.0
MIN_GAIN = 0.003  # of the metric, for which popularity or the trend is worth having
MIN_PEERS_GAIN = 0.005  # for which peers are: they may take as long as the rest of a fit
MAX_ROUNDS = 4  # of climbing each weight in turn
PATIENCE = 2  # steps of a weight without a gain, after which others are no longer tried: the metric is not smooth
FEW_PAIRS, CHANCE = 5000, 0.3  # with fewer held-out pairs a step must gain CHANCE / √pairs, more than chance would
FIXED = EvidenceConfig(links=1.0, link_regularization=USUAL_PENALTY)  # where there is too little to choose on


def choose_weights(scan: WeightScan, request: EvidenceRequest) -> EvidenceConfig:
    """Return the weights that do best of those that the request leaves open, by the parts of a scan: without a fit."""
    climber = Climber(scan, request)
    climber.climb_weights()
    return climber.best_parts()


class Climber:
    """Climbs the weights that a request leaves open, and holds the best ones so far."""

    def __init__(self, scan: WeightScan, request: EvidenceRequest) -> None:
        self.scan, self.request = scan, request
        self.evidence = request.settled(FIXED)  # nothing but links, unless it is given
        n = scan.n_held_out
        self.min_gain = CHANCE / math.sqrt(max(n, 1)) if n < FEW_PAIRS else 0.0
        self.places = dict.fromkeys(("links", "peers"), WEIGHTS.index(1.0))  # in WEIGHTS, of what is climbed

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
        """Climb the half-life of the trend and its exponent; without a gain there is none."""
        e = self.evidence
        days = HALF_LIVES if self.request.trend_half_life == AUTO else (e.trend_half_life,)
        first, usual = e.trend or USUAL_TREND, days.index(e.trend_half_life)
        _, half_life = climb(days, usual, lambda d: self._value_with(trend=first, trend_half_life=d), self.min_gain)
        value, trend = climb(
            TRENDS, TRENDS.index(first), lambda t: self._value_with(trend=t, trend_half_life=half_life), self.min_gain
        )
        if value * (1 - max(MIN_GAIN, self.min_gain)) > self._value_with(trend=0.0):
            self.evidence = replace(e, trend=trend, trend_half_life=half_life)
        else:
            self.evidence = replace(e, trend=0.0)

    def best_parts(self) -> EvidenceConfig:
        """Return the weights, without peers and popularity where these were not asked for and add too little."""
        value, chosen = self._value(), self.evidence
        if self.request.peers == AUTO and chosen.peers > 0:
            self.evidence = replace(chosen, peers=0.0)
            del self.places["peers"]
            without = self.climb_weights()
            if value * (1 - MIN_PEERS_GAIN) > without:
                self.evidence = chosen
        if self.request.popularity == AUTO and self._value() * (1 - MIN_GAIN) <= self._value_with(popularity=0.0):
            self.evidence = replace(self.evidence, popularity=0.0)
        return self.evidence

    def _open_parts(self) -> tuple[str, ...]:
        """Return which parts have a weight to be climbed."""
        return tuple(p for p in self.places if getattr(self.request, p) == AUTO and getattr(self.scan, p).mean > 0)

    def _value(self) -> float:
        e = self.evidence
        return self.scan.value(1.0, e.links, e.peers, e.popularity, e.trend, e.trend_half_life, e.taste, e.appeal)

    def _value_with(self, **weights: Any) -> float:
        before, self.evidence = self.evidence, replace(self.evidence, **weights)
        found, self.evidence = self._value(), before
        return found

    def _place_weights(self, **places: int) -> None:
        """Give open parts the weights at their places, on a scale where all parts have the same mean."""
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
