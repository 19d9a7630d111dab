"""
What people use instead, under the same measure: recommenders with OCuLaR's `fit` and `recommend`, by name in
`BASELINES`, and the communities of the purchase graph in `communities`.
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
    "popularity": ("popularity", "Popularity"),
}
NAMES = tuple(_HOMES)  # on the command line; nothing heavy is imported for them


def __getattr__(name: str) -> Any:
    if name == "BASELINES":
        found = {key: getattr(import_module(f"{__name__}.{file}"), kind) for key, (file, kind) in _HOMES.items()}
        globals()["BASELINES"] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
