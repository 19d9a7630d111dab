"""Files that are whole or not there: written to a temporary name, flushed, renamed; arrays without pickle."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ocular.errors import ArtifactError


def write_file(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Call write(file) on a temporary file beside `path`, then put it in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        raise ArtifactError(
            f"could not write {path}: {error.strerror or error}; what was there before is whole"
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """
    A temporary folder beside `path` that takes its place when the block ends well.

    An old folder of that name stays until the new one is complete; one of the two is always there under its own or
    the `.old` name, and `settle` brings the old one back if the exchange was cut short between its two renames.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    settle(path)
    fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"))
    old = _old_name(path)
    try:
        yield fresh
        for file in fresh.iterdir():
            _flush(file)
        fresh.chmod(0o755)
        if path.exists():
            path.rename(old)
        fresh.rename(path)
        _flush(path.parent)
    except OSError as error:
        settle(path)
        raise ArtifactError(
            f"could not write {path}: {error.strerror or error}; what was there before is whole"
        ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def settle(path: Path) -> None:
    """Finish an exchange that `new_folder` could not: the old folder comes back if there is no new one."""
    old = _old_name(path)
    if old.exists():
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(path)


def digest(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _old_name(path: Path) -> Path:
    return path.parent / f".{path.name}.old"


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
