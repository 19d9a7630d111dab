"""Uploaded files between preview and decision: one for each person, for an hour, within a limit of memory."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from ocular.web import credentials
from ocular.web.assignments import Preview
from ocular.web.errors import NotFoundError

MAX_AGE = 3600.0  # seconds
MAX_BYTES = 64_000_000  # of all files together


@dataclass
class Upload:
    """A file with its preview."""

    key: str
    name: str  # of the file
    content: bytes
    preview: Preview
    expires: float
    done: bool = False


class Uploads:
    """The last file of each person."""

    def __init__(self) -> None:
        self._by_user: dict[int, Upload] = {}  # the oldest first
        self._lock = threading.Lock()

    def store(self, user: int, name: str, content: bytes, preview: Preview) -> Upload:
        """Store a file in place of the person's last one; the oldest files of others make room."""
        stored = Upload(credentials.new_secret(), name, content, preview, time.monotonic() + MAX_AGE)
        with self._lock:
            self._by_user.pop(user, None)
            self._by_user[user] = stored
            for owner, other in [*self._by_user.items()]:
                full = sum(len(upload.content) for upload in self._by_user.values()) > MAX_BYTES
                if other is not stored and (full or other.expires < time.monotonic()):
                    del self._by_user[owner]
        return stored

    def find(self, user: int, key: str | None = None) -> Upload:
        """Return the last file of the person; with a key, only if it is the file with that key."""
        with self._lock:
            upload = self._by_user.get(user)
        if upload is None or upload.expires < time.monotonic() or (key is not None and key != upload.key):
            raise NotFoundError("the file is not here any more; choose it again")
        return upload

    def finish(self, upload: Upload) -> None:
        """Mark a file as used and free its content: a second press of the button changes nothing."""
        upload.content, upload.done = b"", True
