"""
Methods side by side: the paper's protocol, and a backtest by time.

A quarter of the pairs is held out at random, several times over; every method is fitted on the rest and measured on
what was held out. Where a method has several settings, one is chosen on the first of these instances and kept for all:
on a validation part of its training data, or on the test data themselves, as the paper did. Which of the two it was is
part of the result. Only the first is an honest estimate.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ttest_rel
from sklearn.exceptions import ConvergenceWarning

from ocular.baselines import BASELINES
from ocular.data.interactions import Interactions
from ocular.data.splits import Split, random_split, time_split
from ocular.errors import ConfigError
from ocular.evaluation.metrics import METRICS, PER_USER, Scores, measure
from ocular.model import OCuLaR

MODELS = ("ocular", "r-ocular", *BASELINES)
TUNING = ("none", "validation", "test")
VALIDATION_SHARE = 0.1  # of the training data: with less to learn from, too large a λ would be chosen
RELATIVE = 2.0  # R-OCuLaR's positives weigh more, so that its λ must: twice as much is a fair start on MovieLens

Parameters = Mapping[str, Any]

# What each method chooses from where nothing else is said. Large λ suit sparse data, an early end many co-clusters.
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
}  # fmt: skip
SETTINGS["r-ocular"] = [{**p, "regularization": RELATIVE * p["regularization"]} for p in SETTINGS["ocular"]]


@dataclass(frozen=True)
class Method:
    """A recommender with the settings to choose from."""

    name: str
    settings: Sequence[Parameters] = ({},)

    def __post_init__(self) -> None:
        if self.name not in MODELS:
            raise ConfigError(f"expected a model of {', '.join(MODELS)}, got {self.name!r}")
        if not self.settings:
            raise ConfigError(f"expected at least one setting of {self.name}, got none")

    @classmethod
    def tunable(cls, name: str) -> Method:
        """With SETTINGS to choose from."""
        return cls(name, SETTINGS.get(name, ({},)))

    def make(self, parameters: Parameters, random_state: int) -> Any:
        """A model to be fitted; ConfigError or TypeError where a parameter makes no sense."""
        if self.name in BASELINES:
            model = BASELINES[self.name](**parameters)
            return model.set_params(random_state=random_state) if "random_state" in model.get_params() else model
        model = OCuLaR(**{"relative": self.name == "r-ocular", "random_state": random_state, **parameters})
        model.config()  # refuses nonsense before any fit
        return model


@dataclass(frozen=True, eq=False)
class Result:
    """One method on all instances."""

    method: str
    parameters: Parameters
    scores: list[Scores]  # one an instance
    seconds: list[float]  # of each fit

    def mean(self, metric: str, M: int) -> float:
        return float(np.mean([scores.mean(metric, M) for scores in self.scores]))

    def error(self, metric: str, M: int) -> float | None:
        """Standard error over the instances; None for a single one."""
        values = [scores.mean(metric, M) for scores in self.scores]
        return None if len(values) < 2 else float(np.std(values, ddof=1) / np.sqrt(len(values)))

    def per_user(self, metric: str, M: int) -> dict[int, float]:
        """Every user's mean over the instances where they had something to find."""
        totals: dict[int, list[float]] = {}
        for scores in self.scores:
            column = scores.per_user[metric][:, scores.cutoffs.index(M)]
            for user, value in zip(scores.users.tolist(), column.tolist(), strict=True):
                totals.setdefault(user, []).append(value)
        return {user: float(np.mean(values)) for user, values in totals.items()}


@dataclass(frozen=True, eq=False)
class Comparison:
    """All methods on the same instances."""

    results: list[Result]
    tuned_on: str  # of TUNING
    metric: str
    M: int

    @property
    def best(self) -> Result:
        return max(self.results, key=lambda result: result.mean(self.metric, self.M))

    def p_value(self, result: Result) -> float | None:
        """Of the paired t-test over users against the best method; None for the best itself."""
        if result is self.best:
            return None
        ours, theirs = result.per_user(self.metric, self.M), self.best.per_user(self.metric, self.M)
        users = sorted(ours.keys() & theirs.keys())
        difference = np.array([theirs[user] - ours[user] for user in users])
        if len(users) < 2 or not difference.any():
            return 1.0
        return float(ttest_rel([theirs[user] for user in users], [ours[user] for user in users]).pvalue)

    def rows(self) -> list[dict[str, Any]]:
        """One row a method, the best first."""
        ordered = sorted(self.results, key=lambda result: -result.mean(self.metric, self.M))
        return [self._row(result) for result in ordered]

    def _row(self, result: Result) -> dict[str, Any]:
        p, error = self.p_value(result), result.error(self.metric, self.M)
        return {
            "model": result.method,
            "best": result is self.best,
            **{f"{metric}@{self.M}": round(result.mean(metric, self.M), 4) for metric in METRICS},
            "standard_error": None if error is None else round(error, 5),
            "p_value": None if p is None else float(f"{p:.2g}"),
            "parameters": dict(result.parameters),
            "fit_seconds": round(float(np.mean(result.seconds)), 2),
            "instances": len(result.scores),
            "clients": len(result.scores[0].users),
            "left_out": result.scores[0].left_out,
        }

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the rows, and every M of every instance."""
        instances = {result.method: [scores.to_dict() for scores in result.scores] for result in self.results}
        metric = f"{self.metric}@{self.M}"
        return {"tuned_on": self.tuned_on, "metric": metric, "rows": self.rows(), "instances": instances}


def compare(
    history: Interactions,
    methods: Iterable[str | Method],
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
    told each step in one line.
    """
    if not isinstance(instances, int) or instances < 1:
        raise ConfigError(f"expected a whole number of at least 1 instances, got {instances!r}")
    splits = (random_split(history, test_share, random_state + number) for number in range(instances))
    return _compare(splits, methods, tune, metric, M, random_state, report)


def backtest(
    history: Interactions,
    date: Any,
    methods: Iterable[str | Method],
    *,
    tune: str = "none",
    metric: str = "recall",
    M: int | Sequence[int] = 50,
    random_state: int = 0,
    report: Callable[[str], object] = lambda _: None,
) -> Comparison:
    """What would have been recommended before a date, against what was first bought on or after it."""
    return _compare([time_split(history, date)], methods, tune, metric, M, random_state, report)


def _compare(
    splits: Iterable[Split],
    methods: Iterable[str | Method],
    tune: str,
    metric: str,
    M: int | Sequence[int],
    random_state: int,
    report: Callable[[str], object],
) -> Comparison:
    cutoffs = (M,) if isinstance(M, int) else tuple(M)
    named = Method if tune == "none" else Method.tunable
    chosen = [named(method) if isinstance(method, str) else method for method in methods]
    _check(chosen, tune, metric, random_state)
    parameters: dict[str, Parameters] = {}
    results: dict[str, Result] = {}
    for number, (train, test) in enumerate(splits):
        for method in chosen:
            if number == 0:
                choice = (
                    random_split(train, VALIDATION_SHARE, random_state) if tune == "validation" else Split(train, test)
                )
                parameters[method.name] = _tuned(method, choice, tune, metric, cutoffs[0], random_state, report)
                results[method.name] = Result(method.name, parameters[method.name], [], [])
            result = results[method.name]
            model, seconds = _fit(method.make(parameters[method.name], random_state), train)
            result.scores.append(measure(model, train, test, cutoffs))
            result.seconds.append(seconds)
            value = result.scores[-1].mean(metric, cutoffs[0])
            report(f"instance {number + 1}: {method.name} {metric}@{cutoffs[0]} {value:.4f}, fitted in {seconds:.1f} s")
    return Comparison(list(results.values()), tune, metric, cutoffs[0])


def _check(methods: Sequence[Method], tune: str, metric: str, random_state: int) -> None:
    """Everything that can be refused, before anything is fitted."""
    if tune not in TUNING:
        raise ConfigError(f"expected tune to be one of {', '.join(TUNING)}, got {tune!r}")
    if metric not in PER_USER:
        raise ConfigError(f"expected a metric of {', '.join(PER_USER)}, got {metric!r}")
    names = [method.name for method in methods]
    if not names or len(set(names)) != len(names):
        raise ConfigError(f"expected every model once, got {', '.join(names) or 'none'}")
    for method in methods:
        for parameters in method.settings:
            try:
                method.make(parameters, random_state)
            except TypeError as error:
                raise ConfigError(f"expected parameters of {method.name}, got {dict(parameters)} ({error})") from error


def _tuned(
    method: Method, split: Split, tune: str, metric: str, M: int, random_state: int, report: Callable[[str], object]
) -> Parameters:
    if tune == "none" or len(method.settings) == 1:
        return method.settings[0]
    values = []
    for parameters in method.settings:
        model, _ = _fit(method.make(parameters, random_state), split.train)
        values.append(measure(model, split.train, split.test, M).mean(metric, M))
        report(f"tuning {method.name} {dict(parameters)}: {metric}@{M} {values[-1]:.4f}")
    return method.settings[int(np.argmax(values))]


def _fit(model: Any, train: Interactions) -> tuple[Any, float]:
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the best within max_iter is what is compared
        model.fit(train)
    return model, time.perf_counter() - begun
