"""The search over K and λ behind a model, written by `ocular search … --results MODELS/search.jsonl`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ocular.evaluation.search_result import measure_name
from ocular.model import OCuLaR

SHADES = 9
METHOD_NAMES = {  # as people read them
    "evidence": "Patterns, links and similar clients",
    "ocular": "Patterns alone",
    "r-ocular": "Patterns alone, weighted",
    "popularity": "Bestsellers",
    "user-knn": "Similar clients (user k-NN)",
    "item-knn": "Similar products (item k-NN)",
    "ease": "Linear model (EASE)",
    "slim": "Linear model (SLIM)",
    "wals": "Matrix factorization (wALS)",
    "bpr": "Matrix factorization (BPR)",
    "rp3beta": "Random walks (RP3beta)",
}


def method_of(model: OCuLaR) -> str:
    """Return the method of a model by the name that an evaluation gives it."""
    if model.evidence_config_.total_weight > 1:
        return "evidence"
    return "r-ocular" if model.config_.relative else "ocular"


@dataclass(frozen=True)
class Cell:
    """A square of the heat map."""

    value: float
    shade: int  # 0 for the worst to SHADES for the best


@dataclass(frozen=True)
class HeatMap:
    """The mean over the folds for each K (rows) and λ (columns); of several variants the best."""

    metric: str
    regularizations: list[float]
    rows: dict[int, list[Cell | None]]
    same_data: bool  # as the model was fitted on

    def at(self, K: int, regularization: float) -> float | None:
        """Return the accuracy of a model with these parameters; None if they were not tried."""
        if K not in self.rows or regularization not in self.regularizations:
            return None
        cell = self.rows[K][self.regularizations.index(regularization)]
        return None if cell is None else cell.value


def read_search(folder: Path, fingerprint: str) -> HeatMap | None:
    """Read search.jsonl in the folder; None if there is none that can be read."""
    try:
        header, *lines = (json.loads(line) for line in (folder / "search.jsonl").read_text("utf-8").splitlines())
        settings, folds = header["settings"], dict[str, list[float]]()
        for line in lines:
            folds.setdefault(json.dumps(line["point"], sort_keys=True), []).append(float(line["value"]))
        best: dict[tuple[int, float], float] = {}
        for point, values in folds.items():
            given = json.loads(point)
            place = int(given["n_coclusters"]), float(given["regularization"])
            best[place] = max(best.get(place, 0.0), fmean(values))
        metric = measure_name(settings["metric"], settings["M"], with_links="links" in settings)
        return _heat_map(metric, best, header["data"] == fingerprint) if best else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _heat_map(metric: str, best: dict[tuple[int, float], float], same_data: bool) -> HeatMap:
    low, high = min(best.values()), max(best.values())
    columns = sorted({regularization for _, regularization in best})

    def cell(K: int, regularization: float) -> Cell | None:
        value = best.get((K, regularization))
        return None if value is None else Cell(value, round(SHADES * (value - low) / max(high - low, 1e-12)))

    rows = {K: [cell(K, regularization) for regularization in columns] for K in sorted({K for K, _ in best})}
    return HeatMap(metric, columns, rows, same_data)
