"""
Numba's compiler with a cache that is never stale and never in the way.

Numba notices a change of the file that a kernel stands in, but not of the files whose functions it takes in. So the
kernels of a release, and of every state of their sources, have a folder of their own: in NUMBA_CACHE_DIR where it is
set, else beside the package, else in the user's cache. Where none can be written, kernels are compiled in memory by
every process, and a note says so once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numba.core.config

from ocular.version import __version__

PACKAGE = Path(__file__).parent
PREFIX, MAX_AGE = "ocular-", 30 * 24 * 3600.0  # of folders that no process has used for so many seconds
_log = logging.getLogger("ocular")
_config: Any = numba.core.config


def njit(*, cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Return numba.njit with these options; `cache` keeps what is compiled in the folder of these sources."""

    def compile_function(function: Any) -> Any:
        folder = cache_folder() if cache else None
        if folder is None:
            return numba.njit(**options)(function)
        before, _config.CACHE_DIR = _config.CACHE_DIR, str(folder)  # read when a function is decorated
        try:
            compiled = numba.njit(cache=True, **options)(function)
        finally:
            _config.CACHE_DIR = before
        _survive_a_full_disk(compiled)
        return compiled

    return compile_function


@cache
def cache_folder() -> Path | None:
    """Return the folder for what is compiled from these sources; None where none can be written."""
    name = f"{PREFIX}{__version__}-{_digest()}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "ocular"
    for base in [Path(given)] if given else [PACKAGE / "__pycache__", user]:
        folder = base / name
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)
            _remove_unused(base, folder)
            return folder
    _log.warning("no folder for compiled kernels can be written: every start compiles them; set NUMBA_CACHE_DIR")
    return None


def _digest() -> str:
    """Return a digest of all sources with kernels."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"njit" in source or b"numba" in source:
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + source)
    return digest.hexdigest()[:16]


def _remove_unused(base: Path, used: Path) -> None:
    for folder in base.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder != used and time.time() - folder.stat().st_mtime > MAX_AGE:
                shutil.rmtree(folder, ignore_errors=True)


def _survive_a_full_disk(compiled: Any) -> None:
    """Let a kernel run that was compiled but cannot be stored."""
    save = compiled._cache.save_overload

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    compiled._cache.save_overload = save_if_possible
