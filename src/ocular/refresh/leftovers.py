"""Removal of what is no longer needed: half-written files of killed runs, old checkpoints, old models."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from ocular.refresh.promotion import PROMOTIONS_FILE

MODEL_NAME = re.compile(r"\d{8}T\d{6}Z(-\d+)?")  # folders that a refresh has made
CHECKPOINT = ".refresh-{}.ckpt"
HALF_WRITTEN = re.compile(rf"\.({MODEL_NAME.pattern}|{re.escape(PROMOTIONS_FILE)}|\.refresh-\w+\.ckpt)\..*tmp")


def new_model_name(folder: Path) -> str:
    """Return a name for a model made now, which no folder has."""
    name = stem = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    number = 2
    while (folder / name).exists():
        name, number = f"{stem}-{number}", number + 1
    return name


def checkpoint_of(folder: Path, fingerprint: str) -> Path:
    """Return the checkpoint of a fit to these purchases."""
    return folder / CHECKPOINT.format(fingerprint[:16])


def remove_leftovers(folder: Path) -> list[str]:
    """Remove what killed runs have left half-written, and return the names; the caller holds the lock."""
    return [_remove(path) for path in sorted(folder.iterdir()) if HALF_WRITTEN.fullmatch(path.name)]


def remove_checkpoints(folder: Path, but: Path | None = None) -> list[str]:
    """Remove the checkpoints of refreshes but for one, and return their names."""
    return [_remove(path) for path in sorted(folder.glob(CHECKPOINT.format("*"))) if path != but]


def remove_old_models(folder: Path, keep: Iterable[str]) -> list[str]:
    """
    Remove models that a refresh has made, but for those to keep and the newest, and return the names.

    The newest may be one that was refused and is still to be looked at. Folders with other names are never touched.
    """
    ours = sorted(path for path in folder.iterdir() if MODEL_NAME.fullmatch(path.name))
    kept = {*keep, *(path.name for path in ours[-1:])}
    return [_remove(path) for path in ours if path.name not in kept]


def _remove(path: Path) -> str:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return path.name
