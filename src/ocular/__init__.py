"""Product recommendations that say why: overlapping co-clusters of clients and products."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ocular.version import __version__

if TYPE_CHECKING:
    from ocular.advisor import Advisor
    from ocular.data.interactions import Interactions
    from ocular.model import OCuLaR, load

__all__ = ["Advisor", "Interactions", "OCuLaR", "__version__", "load"]

# NumPy, SciPy, scikit-learn, polars and Numba take a second or two to import: only when something is used
_HOMES = {
    "Advisor": "ocular.advisor",
    "Interactions": "ocular.data.interactions",
    "OCuLaR": "ocular.model",
    "load": "ocular.model",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ocular' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
