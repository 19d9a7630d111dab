"""Product recommendations that explain themselves: overlapping co-clusters of clients and products."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ocular.version import __version__

if TYPE_CHECKING:
    from ocular import baselines, plots, synthetic
    from ocular.advisor import Advisor
    from ocular.changes.compare import compare_models
    from ocular.data import datasets
    from ocular.data.interactions import Interactions
    from ocular.data.readers import read, read_sql
    from ocular.evaluation.calibration import calibrate
    from ocular.evaluation.metrics import measure
    from ocular.evaluation.protocol import Method, backtest, compare
    from ocular.evaluation.scorer import recall_scorer
    from ocular.evaluation.search import Grid, search
    from ocular.model import OCuLaR, load

__all__ = [
    "Advisor",
    "Grid",
    "Interactions",
    "Method",
    "OCuLaR",
    "__version__",
    "backtest",
    "baselines",
    "calibrate",
    "compare",
    "compare_models",
    "datasets",
    "load",
    "measure",
    "plots",
    "read",
    "read_sql",
    "recall_scorer",
    "search",
    "synthetic",
]

# NumPy, SciPy, scikit-learn, polars and Numba take a second or two to import: only when something is used
_HOMES = {
    "Advisor": "ocular.advisor",
    "Grid": "ocular.evaluation.search",
    "Interactions": "ocular.data.interactions",
    "Method": "ocular.evaluation.protocol",
    "OCuLaR": "ocular.model",
    "backtest": "ocular.evaluation.protocol",
    "calibrate": "ocular.evaluation.calibration",
    "compare": "ocular.evaluation.protocol",
    "compare_models": "ocular.changes.compare",
    "load": "ocular.model",
    "measure": "ocular.evaluation.metrics",
    "read": "ocular.data.readers",
    "read_sql": "ocular.data.readers",
    "recall_scorer": "ocular.evaluation.scorer",
    "search": "ocular.evaluation.search",
}
_SUBMODULES = {
    "baselines": "ocular.baselines",
    "datasets": "ocular.data.datasets",
    "plots": "ocular.plots",
    "synthetic": "ocular.synthetic",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value: Any = getattr(import_module(_HOMES[name]), name)
    elif name in _SUBMODULES:
        value = import_module(_SUBMODULES[name])
    else:
        raise AttributeError(f"module 'ocular' has no attribute {name!r}")
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
