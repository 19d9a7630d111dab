"""A lock that ends with the process that holds it, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ocular.errors import ArtifactError


class LockedError(ArtifactError):
    """Another process holds the lock."""


@contextmanager
def locked(file: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock in `file`, waiting for it or raising LockedError where another process has it."""
    import fcntl  # noqa: PLC0415  not on Windows, which serves models but does not refresh them

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ArtifactError(f"could not write {file}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise LockedError(
                f"another refresh is running in {file.parent}; wait until it ends, nothing was done"
            ) from None
        yield
    finally:
        os.close(handle)  # the file stays: removing it would let two processes hold "the" lock
