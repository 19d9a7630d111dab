"""What a search over K and λ found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from ocular.evaluation.fold_evidence import Weights
from ocular.evaluation.trial import GridPoint
from ocular.explain.notebook import html_table


def measure_name(metric: str, M: int, *, with_links: bool) -> str:
    """
    Return the name of what a search measures.

    >>> measure_name("recall", 50, with_links=True)
    'recall@50 with links and peers'
    """
    return f"{metric}@{M}{' with links and peers' * with_links}"


@dataclass(frozen=True)
class SearchRow:
    """
    A grid point with its mean over the folds, the standard error of that mean, and the time all of it took.

    In a search with links, every fold was measured with the weights that did best on it; `weights` are their medians.
    """

    point: GridPoint
    mean: float
    error: float
    folds: int
    seconds: float
    weights: Weights | None = None

    @property
    def params(self) -> dict[str, Any]:
        """The point, and its weights where there are any, as parameters of OCuLaR."""
        return asdict(self.point) | ({} if self.weights is None else self.weights._asdict())


@dataclass(frozen=True, repr=False)
class SearchResult:
    """All grid points that were measured, in the order of the grid."""

    metric: str
    M: int
    folds: int
    strategy: str
    rows: tuple[SearchRow, ...]
    native: Callable[[Any], Any] | None = field(default=None, compare=False)  # makes the caller's kind of frame

    @property
    def best(self) -> SearchRow:
        """The highest mean of those measured on all folds; of equal ones that with the fewest co-clusters."""
        return min(self._complete, key=lambda row: (-row.mean, row.point.simplicity()))

    @property
    def interpretable(self) -> SearchRow:
        """The fewest co-clusters, then the largest λ, within one standard error of the best."""
        limit = self.best.mean - self.best.error
        return min((row for row in self._complete if row.mean >= limit), key=lambda row: row.point.simplicity())

    @property
    def best_params_(self) -> dict[str, Any]:
        """The best grid point as parameters: `OCuLaR(**result.best_params_)`."""
        return self.best.params

    @property
    def measure(self) -> str:
        """What was measured, in words: recall@50, or recall@50 with links and peers."""
        return measure_name(self.metric, self.M, with_links=any(row.weights is not None for row in self.rows))

    @property
    def _complete(self) -> list[SearchRow]:
        return [row for row in self.rows if row.folds == self.folds]

    def table(self) -> list[dict[str, Any]]:
        """Return a dictionary for each grid point; `choice` marks the best one and the interpretable one."""
        choices = {self.interpretable.point: "interpretable"} | {self.best.point: "best"}
        if self.best == self.interpretable:
            choices = {self.best.point: "best, interpretable"}
        return [
            row.params
            | {f"{self.metric}@{self.M}": row.mean, "error": row.error, "folds": row.folds, "seconds": row.seconds}
            | {"choice": choices.get(row.point)}
            for row in self.rows
        ]

    def to_frame(self) -> Any:
        """Return the table as a frame of the kind that the purchases came in, or of polars."""
        frame = pl.DataFrame(self.table(), infer_schema_length=None)
        return frame if self.native is None else self.native(frame)

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "metric": self.metric,
            "M": self.M,
            "folds": self.folds,
            "strategy": self.strategy,
            "best": self.best.params,
            "interpretable": self.interpretable.params,
            "rows": self.table(),
        }

    def __repr__(self) -> str:
        best = self.best
        shown = ("n_coclusters", "regularization", "links", "peers", "popularity")
        parameters = ", ".join(f"{name}={value:g}" for name, value in best.params.items() if name in shown)
        return (
            f"SearchResult({len(self.rows)} grid points; best {self.metric}@{self.M} {best.mean:.4f} with {parameters})"
        )

    def _repr_html_(self) -> str:
        digits = {f"{self.metric}@{self.M}": 4, "error": 4, "seconds": 2}
        rows = [row | {name: round(row[name], n) for name, n in digits.items()} for row in self.table()]
        rows.sort(key=lambda row: -row[f"{self.metric}@{self.M}"])
        return html_table([row | {"choice": row["choice"] or ""} for row in rows], repr(self))
