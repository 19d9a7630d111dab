"""The models of a folder in the order in which they are served: as promoted, or without promotions the newest first."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from ocular.artifact import MANIFEST, read_manifest
from ocular.errors import ArtifactError
from ocular.refresh.promotion import read_promotions

# whatever a folder holds, it may keep neither the server from starting nor the next model from being served; a table
# that makes polars panic raises an error that is no Exception
BROKEN = (Exception, pl.exceptions.PanicException)
EARLIEST, MAX_AHEAD = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)  # a model's time outside is a wrong clock's

Manifest = dict[str, Any]
Refuse = Callable[[Path, str], None]


def serving_order(folder: Path, refuse: Refuse = lambda _path, _reason: None) -> list[tuple[Path, Manifest]]:
    """
    Return the models with a valid manifest, the one to serve first; `refuse` is told of the others.

    Where the folder has promotions, only promoted models count. A damaged promoted.json raises ArtifactError.
    """
    promotions = read_promotions(folder)
    if promotions is not None:
        models = [_manifest(folder / name, created, refuse) for name in promotions.names]
        return [model[1:] for model in models if model is not None]
    visible = (path for path in sorted(folder.glob("*/")) if not path.name.startswith("."))
    models = [_manifest(path, _plausible_time, refuse) for path in (folder, *visible)]
    found = [model for model in models if model is not None]
    found.sort(key=lambda model: (model[0], model[1].name), reverse=True)
    return [model[1:] for model in found]


def created(manifest: Manifest) -> datetime:
    """Return when a model was made."""
    moment = datetime.fromisoformat(manifest["created"])
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def one_line(error: BaseException) -> str:
    """Return an error in one line; those of the library say all that there is to say."""
    line = " ".join(str(error).split())
    return line if isinstance(error, ArtifactError | OSError) else f"{type(error).__name__}: {line}"


def _plausible_time(manifest: Manifest) -> datetime:
    """Return when a model was made, or raise: one of the year 2099 would be served for ever."""
    moment = created(manifest)
    if not EARLIEST <= moment <= datetime.now(UTC) + MAX_AHEAD:
        raise ArtifactError(f"expected a time of making between 1970 and now, got {manifest['created']}; fit it again")
    return moment


def _manifest(
    path: Path, time_of: Callable[[Manifest], datetime], refuse: Refuse
) -> tuple[datetime, Path, Manifest] | None:
    try:
        manifest = read_manifest(path)
        return time_of(manifest), path, manifest
    except BROKEN as error:
        if os.path.lexists(path / MANIFEST):  # any other folder is no model
            refuse(path, f"its manifest cannot be read ({one_line(error)})")
        return None
