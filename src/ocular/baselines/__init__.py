"""
Other methods to compare with: recommenders with OCuLaR's `fit` and `recommend`, by name in `BASELINES`, and the
communities of the purchase graph in `communities`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocular.baselines.base import Baseline

    BASELINES: dict[str, type[Baseline]]

__all__ = ["BASELINES", "NAMES"]

_HOMES = {
    "user-knn": ("knn", "UserKNN"),
    "item-knn": ("knn", "ItemKNN"),
    "wals": ("factorization", "WALS"),
    "bpr": ("factorization", "BPR"),
    "ease": ("ease", "EASE"),
    "slim": ("slim", "SLIM"),
    "rp3beta": ("rp3beta", "RP3beta"),
    "popularity": ("popularity", "Popularity"),
}
NAMES = tuple(_HOMES)  # as on the command line; reading them imports nothing heavy


def __getattr__(name: str) -> Any:
    if name == "BASELINES":
        classes = {key: getattr(import_module(f"{__name__}.{file}"), name) for key, (file, name) in _HOMES.items()}
        globals()["BASELINES"] = classes
        return classes
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
