"""The models of a folder in the order in which they are served: as promoted, or without promotions the newest first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ocular.artifact import MANIFEST, read_manifest
from ocular.errors import OcularError
from ocular.refresh.promotion import read_promotions

Manifest = dict[str, Any]
Refuse = Callable[[Path, str], None]


def serving_order(folder: Path, refuse: Refuse = lambda _path, _reason: None) -> list[tuple[Path, Manifest]]:
    """
    Return the models with a valid manifest, the one to serve first; `refuse` is told of the others.

    Where the folder has promotions, only promoted models count. A damaged promoted.json raises ArtifactError.
    """
    promotions = read_promotions(folder)
    if promotions is not None:
        paths = [folder / name for name in promotions.names]
        found = [(path, _manifest(path, refuse, promoted=True)) for path in paths]
        return [(path, manifest) for path, manifest in found if manifest is not None]
    visible = (path for path in sorted(folder.glob("*/")) if not path.name.startswith("."))
    models = [(path, _manifest(path, refuse)) for path in (folder, *visible)]
    dated = [(created(manifest), path.name, path, manifest) for path, manifest in models if manifest is not None]
    dated.sort(key=lambda model: model[:2], reverse=True)
    return [(path, manifest) for _, _, path, manifest in dated]


def created(manifest: Manifest) -> datetime:
    """Return when a model was made."""
    moment = datetime.fromisoformat(manifest["created"])
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _manifest(path: Path, refuse: Refuse, *, promoted: bool = False) -> Manifest | None:
    try:
        manifest = read_manifest(path)
        created(manifest)
    except (OcularError, OSError, ValueError, KeyError, TypeError) as error:
        if promoted or (path / MANIFEST).exists():  # any other folder is no model
            refuse(path, f"its manifest cannot be read ({error})")
        return None
    return manifest
