"""Promotions and rollbacks by people."""

from __future__ import annotations

from pathlib import Path

from ocular.errors import ArtifactError
from ocular.model import load
from ocular.refresh.promotion import (
    Promotions,
    changing,
    check_name,
    new_promotion,
    read_promotions,
    write_promotions,
)
from ocular.refresh.serving import BROKEN, serving_order


def promote(model: Path, *, uncalibrated: bool = False) -> str | None:
    """Serve this model of its folder from now on; return the name of the one that was served before."""
    model = model.absolute()
    folder, name = model.parent, check_name(model.name)
    if load(model).calibration_ is None and not uncalibrated:
        raise ArtifactError(
            f"expected a model with hit rates, got {name} without; run `ocular calibrate {model}`, "
            "or promote it with --uncalibrated"
        )
    with changing(folder):
        order = serving_order(folder)
        before = order[0][0].name if order else None
        promotions = read_promotions(folder)
        if promotions is None:
            earlier = [path.name for path, _ in order[:1] if path.parent == folder and path.name != name]
            promotions = Promotions(tuple(new_promotion(other, "served before promotions") for other in earlier))
        known = {entry.model: entry.fingerprint for entry in (*promotions.served, *promotions.withdrawn)}
        write_promotions(folder, promotions.with_first(new_promotion(name, "ocular promote", known.get(name, ""))))
    return before


def rollback(folder: Path) -> tuple[str, str]:
    """Serve the model that was promoted before the present one; return the names of both, the present one first."""
    with changing(folder):
        promotions = read_promotions(folder)
        if promotions is None or not promotions.served:
            raise ArtifactError(f"expected promoted models in {folder}, got none; `ocular promote` chooses one")
        for place, promotion in enumerate(promotions.served[1:], start=1):
            try:
                load(folder / promotion.model)
            except BROKEN:
                continue
            write_promotions(folder, promotions.rolled_back(place))
            return promotions.served[0].model, promotion.model
    raise ArtifactError(
        f"expected an earlier model that can be read, got none before {promotions.served[0].model}; it stays"
    )
