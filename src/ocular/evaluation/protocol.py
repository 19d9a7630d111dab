"""
Methods side by side: the paper's protocol, and a back-test by date.

A random quarter of the pairs is held out, several times over; every method is fitted on the rest and measured on what
was held out. Where a method has several settings, one is chosen on the first of these instances and kept for all: on a
validation part of its training data, or on the test data themselves, as the paper did. Which of the two it was is part
of the result. Only the first is an honest estimate.

A back-test holds out everything from a date on, and tunes by time too: the validation part is the end of the training
data. A random part of it would ask another question than the test does.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ocular.baselines import BASELINES
from ocular.baselines.trend import WithTrend
from ocular.climbing import MIN_GAIN
from ocular.data.interactions import Interactions
from ocular.data.matrices import as_interactions
from ocular.data.splits import Split, random_split, time_split
from ocular.errors import ConfigError, DataError
from ocular.evaluation.comparison import Comparison, Parameters, Result, short_parameters
from ocular.evaluation.metrics import PER_USER, check_cutoffs, measure, note_large_cutoff
from ocular.evidence_request import AUTO
from ocular.model import OCuLaR
from ocular.tuning import THOROUGH
from ocular.validation import as_list, check_choice, check_share, check_whole
from ocular.weight_scan import combined

EVIDENCE = "evidence"  # OCuLaR with links and peers, whose weights are chosen by scoring alone
FAIR = {"links": AUTO, "taste": 0.0, "appeal": 0.0}  # of evidence, unless given: no other method has attributes
MODELS = ("ocular", "r-ocular", EVIDENCE, *BASELINES)
TUNING = ("none", "validation", "test")
VALIDATION_SHARE = 0.1  # of the training data: with less to learn from, too large a λ would be chosen
MIN_VALIDATION, MAX_VALIDATION = 0.1, 0.5  # by time, as shares of the training purchases
TREND = ("trend", "trend_half_life")  # that every method may be given
RELATIVE = 2.0  # R-OCuLaR's positives weigh more, so that its λ must: twice as much is a fair start on MovieLens

# What each method chooses from by default. Large λ suit sparse data, an early end many co-clusters.
SETTINGS: dict[str, list[Parameters]] = {
    "ocular": [{"n_coclusters": K, "regularization": strength, "tol": 1e-3}
               for K in (50, 200, 800) for strength in (10.0, 30.0, 60.0, 100.0, 300.0)],
    "wals": [{"factors": factors, "alpha": alpha, "regularization": strength} for factors in (100, 200)
             for alpha, strength in ((10.0, 30.0), (10.0, 100.0), (10.0, 300.0), (40.0, 10.0), (100.0, 1.0))],
    "bpr": [{"factors": 100, "learning_rate": rate, "iterations": n}
            for rate, n in ((0.002, 200), (0.01, 100), (0.05, 100))],
    "user-knn": [{"k": k} for k in (40, 80, 160, 320)],
    "item-knn": [{"k": k} for k in (20, 80, 320)],
    "ease": [{"regularization": strength} for strength in (10.0, 50.0, 200.0, 500.0, 1000.0)],
    "slim": [{"l1": l1, "l2": l2} for l1, l2 in ((0.1, 20.0), (0.1, 100.0), (1.0, 20.0), (1.0, 100.0), (1.0, 500.0),
                                                 (1.0, 2000.0))],
    "rp3beta": [{"alpha": alpha, "beta": beta, "k": k} for k in (100, 500)
                for alpha, beta in ((0.5, 0.4), (0.8, 0.3), (0.8, 0.5), (1.0, 0.3))],
}  # fmt: skip
SETTINGS[EVIDENCE] = [{"n_coclusters": K, "regularization": strength, "tol": 1e-3}
                      for K, strength in ((100, 30.0), (400, 60.0), (400, 300.0))]  # fmt: skip
SETTINGS["r-ocular"] = [{**p, "regularization": RELATIVE * p["regularization"]} for p in SETTINGS["ocular"]]


@dataclass(frozen=True)
class Method:
    """A recommender with the settings to choose from."""

    name: str
    settings: Sequence[Parameters] = ({},)

    def __post_init__(self) -> None:
        check_choice(self.name, "models", MODELS)
        if not self.settings:
            raise ConfigError(f"expected at least one setting of {self.name}, got none")

    @classmethod
    def tunable(cls, name: str) -> Method:
        """Return the method with its SETTINGS to choose from."""
        return cls(name, SETTINGS.get(name, ({},)))

    def make(self, parameters: Parameters, random_state: int) -> Any:
        """Return a model to be fitted; raise ConfigError where a parameter makes no sense."""
        try:
            if self.name in BASELINES:
                trend = {name: parameters[name] for name in TREND if name in parameters}
                model = BASELINES[self.name](**{name: parameters[name] for name in parameters if name not in trend})
                if "random_state" in model.get_params():
                    model.set_params(random_state=random_state)
                return WithTrend(model, **trend) if trend else model
            own = FAIR if self.name == EVIDENCE else {"relative": self.name == "r-ocular"}
            model = OCuLaR(**{**own, "random_state": random_state, **parameters})
        except TypeError as error:
            raise ConfigError(f"expected parameters of {self.name}, got {dict(parameters)} ({error})") from error
        model.config()  # raises before any fit
        model.evidence_request()
        return model

    def tune(self, split: Split, metric: str, M: int, random_state: int, report: Callable[[str], object]) -> Parameters:
        """
        Return the best of the settings on a split; weights of evidence that are open are chosen there too.

        For evidence the first setting that is as good as the best within MIN_GAIN is taken: fewer co-clusters read
        better.
        """
        tried: list[tuple[float, Parameters]] = []
        for parameters in self.settings:
            model, chosen = self.make(parameters, random_state), dict(parameters)
            if self.name == EVIDENCE and not model.evidence_request().is_settled:
                choice = model.choose(split, M=M, effort=THOROUGH)
                value, name = choice.value, choice.metric
                chosen |= asdict(choice.evidence) | {"regularization": choice.config.regularization}
            else:
                fitted, _ = _fit(model, split.train)
                scores = measure(fitted, split.train, split.test, M)
                value, name = scores.mean(metric, M), metric
                if self.name == EVIDENCE:  # by the metric that open settings are chosen by
                    value, name = combined(model.metric, scores.mean("recall", M), scores.mean("map", M)), model.metric
            tried.append((value, chosen))
            report(f"tuning {self.name} {short_parameters(chosen)}: {name}@{M} {value:.4f}")
        best = max(value for value, _ in tried)
        enough = best * (1 - MIN_GAIN) if self.name == EVIDENCE else best
        return next(parameters for value, parameters in tried if value >= enough)

    def check(self, shape: tuple[int, int], random_state: int) -> None:
        """Raise where the method could not be fitted to users × items of this shape: before anything is fitted."""
        for parameters in self.settings:
            model = self.make(parameters, random_state)
            if self.name in BASELINES:
                model.check(shape)


def compare(
    interactions: Any,
    methods: str | Method | Iterable[str | Method],
    *,
    instances: int = 10,
    test_share: float = 0.25,
    tune: str = "validation",
    metric: str = "recall",
    M: int | Sequence[int] = 50,
    random_state: int = 0,
    report: Callable[[str], object] = lambda _: None,
) -> Comparison:
    """
    Fit and measure methods on the same random instances, each held out with its own seed.

    Methods are tuned by `metric` at the first M, on a "validation" part of the first instance's training data or on its
    "test" data: those given by name choose from SETTINGS. "none" takes the first setting, or the defaults. `report` is
    called with one line for each step.
    """
    interactions = as_interactions(interactions)
    instances, test_share = check_whole(instances, "instances", 1), check_share(test_share, "test_share")
    splits = (random_split(interactions, test_share, random_state + number) for number in range(instances))

    def validation(train: Interactions, _test: Interactions) -> Split:
        return random_split(train, VALIDATION_SHARE, random_state)

    return _compare(interactions, splits, validation, methods, tune, metric, M, random_state, report)


def backtest(
    interactions: Any,
    date: Any,
    methods: str | Method | Iterable[str | Method],
    *,
    tune: str = "none",
    metric: str = "recall",
    M: int | Sequence[int] = 50,
    random_state: int = 0,
    report: Callable[[str], object] = lambda _: None,
) -> Comparison:
    """
    Measure what would have been recommended before a date against what was first bought on or after it.

    With tune="validation" the parameters are chosen in the same way before the date: see `split_before`.
    """
    interactions = as_interactions(interactions)
    splits = [time_split(interactions, date)]
    return _compare(interactions, splits, split_before, methods, tune, metric, M, random_state, report)


def split_before(train: Interactions, test: Interactions) -> Split:
    """
    Hold out the end of the training data: as long a period as the test data span.

    It is at least a tenth and at most half of the training purchases, so that there is enough to fit and to measure.
    """
    if train.purchases is None or train.purchases.time is None or test.purchases is None or test.purchases.time is None:
        raise DataError("expected purchases with a time, got none")
    times = np.sort(train.purchases.time[~np.isnat(train.purchases.time)])
    start, end = np.nanmin(test.purchases.time), np.nanmax(test.purchases.time)
    earliest, latest = (times[int((1 - share) * len(times))] for share in (MAX_VALIDATION, MIN_VALIDATION))
    date = min(max(start - (end - start), earliest), latest)
    try:
        return time_split(train, date)
    except DataError as error:
        raise DataError(
            f"expected new pairs to tune on before {start}, got none; tune on none or choose a later date"
        ) from error


def _compare(
    interactions: Interactions,
    splits: Iterable[Split],
    validation: Callable[[Interactions, Interactions], Split],
    methods: str | Method | Iterable[str | Method],
    tune: str,
    metric: str,
    M: int | Sequence[int],
    random_state: int,
    report: Callable[[str], object],
) -> Comparison:
    cutoffs = check_cutoffs(M)
    by_name = Method if tune == "none" else Method.tunable
    chosen = [by_name(method) if isinstance(method, str) else method for method in as_list(methods)]
    _check(chosen, tune, metric, random_state, interactions.shape)
    note_large_cutoff(cutoffs[0], interactions.n_items)
    results: dict[str, Result] = {}
    needs_validation = tune == "validation" and any(
        len(method.settings) > 1 or method.name == EVIDENCE for method in chosen
    )
    for number, (train, test) in enumerate(splits):
        choice = validation(train, test) if number == 0 and needs_validation else Split(train, test)
        for method in chosen:
            if number == 0:
                is_tuned = tune != "none" and (len(method.settings) > 1 or method.name == EVIDENCE)
                parameters = method.settings[0]
                if is_tuned:
                    parameters = method.tune(choice, metric, cutoffs[0], random_state, report)
                results[method.name] = Result(method.name, parameters, [], [])
            result = results[method.name]
            model, seconds = _fit(method.make(result.parameters, random_state), train)
            result.scores.append(measure(model, train, test, cutoffs))
            result.seconds.append(seconds)
            value = result.scores[-1].mean(metric, cutoffs[0])
            report(f"instance {number + 1}: {method.name} {metric}@{cutoffs[0]} {value:.4f}, fitted in {seconds:.1f} s")
    return Comparison(list(results.values()), tune, metric, cutoffs[0], interactions.native)


def _check(methods: Sequence[Method], tune: str, metric: str, random_state: int, shape: tuple[int, int]) -> None:
    """Refuse everything that can be refused before anything is fitted."""
    check_choice(tune, "tune", TUNING)
    check_choice(metric, "metric", PER_USER)
    for method in methods:
        if not isinstance(method, Method):
            raise ConfigError(
                f"expected names of models ({', '.join(MODELS)}) or ocular.Method, got {type(method).__name__}; "
                'try ocular.Method("ocular", [{"n_coclusters": 50}])'
            )
    names = [method.name for method in methods]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"expected every model once, got {', '.join(names) or 'none'}")
    for method in methods:
        method.check(shape, random_state)


def _fit(model: Any, train: Interactions) -> tuple[Any, float]:
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the best within max_iter is what is compared
        model.fit(train)
    if getattr(model, "interrupted_", False):
        raise KeyboardInterrupt  # the score of half a fit would mislead
    return model, time.perf_counter() - begun
