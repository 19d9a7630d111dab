"""What a comparison of methods found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import ttest_rel

from ocular.evaluation.metrics import METRICS, Scores
from ocular.explain.notebook import html_table

Parameters = Mapping[str, Any]
SHORT_NAMES = {"n_coclusters": "K", "factors": "K", "regularization": "λ"}


@dataclass(frozen=True, eq=False)
class Result:
    """One method on all instances."""

    method: str
    parameters: Parameters
    scores: list[Scores]  # one per instance
    seconds: list[float]  # of each fit

    def mean(self, metric: str, M: int) -> float:
        """Return the mean over the instances."""
        return float(np.mean([scores.mean(metric, M) for scores in self.scores]))

    def error(self, metric: str, M: int) -> float | None:
        """Return the standard error over the instances; None for a single one."""
        values = [scores.mean(metric, M) for scores in self.scores]
        return None if len(values) < 2 else float(np.std(values, ddof=1) / np.sqrt(len(values)))

    def per_user(self, metric: str, M: int) -> dict[int, float]:
        """Return the mean of every user over the instances where something of theirs was held out."""
        totals: dict[int, list[float]] = {}
        for scores in self.scores:
            column = scores.per_user[metric][:, scores.cutoffs.index(M)]
            for user, value in zip(scores.users.tolist(), column.tolist(), strict=True):
                totals.setdefault(user, []).append(value)
        return {user: float(np.mean(values)) for user, values in totals.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """All methods on the same instances."""

    results: list[Result]
    tuned_on: str  # none, validation or test
    metric: str
    M: int
    native: Callable[[Any], Any] | None = field(default=None)  # makes the caller's kind of frame

    @property
    def best(self) -> Result:
        """The method with the highest mean."""
        return max(self.results, key=lambda result: result.mean(self.metric, self.M))

    @property
    def best_params_(self) -> dict[str, Any]:
        """The parameters of the best method, as its class takes them."""
        return dict(self.best.parameters) | ({"relative": True} if self.best.method == "r-ocular" else {})

    def p_value(self, result: Result) -> float | None:
        """Return p of the paired t-test over users against the best method; None for the best itself."""
        if result is self.best:
            return None
        values, best_values = result.per_user(self.metric, self.M), self.best.per_user(self.metric, self.M)
        users = sorted(values.keys() & best_values.keys())
        difference = np.array([best_values[user] - values[user] for user in users])
        if len(users) < 2 or not difference.any():
            return 1.0
        return float(ttest_rel([best_values[user] for user in users], [values[user] for user in users]).pvalue)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each method, the best first."""
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

    def to_frame(self) -> Any:
        """Return the rows as a frame of the kind that the purchases came in, or of polars; parameters as text."""
        rows = [row | {"parameters": parameters_text(row["parameters"])} for row in self.rows()]
        frame = pl.DataFrame(rows, infer_schema_length=None)
        return frame if self.native is None else self.native(frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows, and every M of every instance, for JSON."""
        instances = {result.method: [scores.to_dict() for scores in result.scores] for result in self.results}
        metric = f"{self.metric}@{self.M}"
        return {"tuned_on": self.tuned_on, "metric": metric, "rows": self.rows(), "instances": instances}

    def __repr__(self) -> str:
        n, best = len(self.results), self.best
        value = best.mean(self.metric, self.M)
        return f"Comparison({n} method{'s'[: n != 1]}; best {self.metric}@{self.M} {value:.4f} by {best.method})"

    def _repr_html_(self) -> str:
        rows = [row | {"parameters": parameters_text(row["parameters"])} for row in self.rows()]
        cells = [{name: "" if value is None else value for name, value in row.items()} for row in rows]
        return html_table(cells, repr(self))


def parameters_text(parameters: Parameters) -> str:
    """Return parameters in one line: n_coclusters=50, regularization=30."""
    given = {name: value for name, value in parameters.items() if value is not None}
    texts = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in given.items()}
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def short_parameters(parameters: Parameters) -> str:
    """Return what a table or a line of a log shows: K=50 λ=30; nothing of threads, which change no result."""
    given = {name: value for name, value in parameters.items() if value is not None and name != "n_threads"}
    texts = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in given.items()}
    return " ".join(f"{SHORT_NAMES.get(name, name)}={text}" for name, text in texts.items())
