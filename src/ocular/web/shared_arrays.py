"""
The arrays of a served model as files that all workers map into memory, so that the machine holds them once.

A model's archive is checked and unpacked by the first worker that loads it; the others open its files. Nothing is
pickled. Where the folder cannot be written each worker keeps the arrays to itself, as a single process does.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_log = logging.getLogger("ocular.web")
Arrays = Mapping[str, NDArray[Any]]


class SharedArrays:
    """A folder that belongs to one server, with a folder of .npy files for each model that is served."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def share(self, arrays: Arrays, digest: str) -> Arrays:
        """Return the arrays of the model with this digest as mapped files; the arrays themselves where that fails."""
        place = self._folder / digest
        try:
            if not place.exists():
                self._unpack(arrays, place)
            return {name: _mapped(place / f"{name}.npy") for name in arrays}
        except (OSError, ValueError) as error:
            _log.warning("the arrays of the model are not shared between workers: %s", error)
            return arrays

    def keep_only(self, digest: str) -> None:
        """Remove the files of other models; a worker that has not yet changed over keeps what it has mapped."""
        with suppress(OSError):
            for other in self._folder.iterdir():
                if other.name != digest and not other.name.startswith("."):
                    shutil.rmtree(other, ignore_errors=True)

    def _unpack(self, arrays: Arrays, place: Path) -> None:
        """Write the files under another name first: a folder that is there is whole."""
        fresh = Path(tempfile.mkdtemp(dir=self._folder, prefix=".new."))  # for its owner only
        try:
            for name, values in arrays.items():
                np.save(fresh / f"{name}.npy", values, allow_pickle=False)
            with suppress(OSError):  # another worker was faster: its files are the same
                fresh.rename(place)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _mapped(file: Path) -> NDArray[Any]:
    """Return the array of a file; its pages are shared until somebody writes to them, which nobody does."""
    if file.stat().st_size == 0:
        raise ValueError(f"{file.name} is empty")
    try:
        opened: NDArray[Any] = np.load(file, mmap_mode="c", allow_pickle=False)
    except ValueError:  # an array of no elements cannot be mapped
        opened = np.load(file, allow_pickle=False)
    return opened.view(np.ndarray)
