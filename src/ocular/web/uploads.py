"""Uploaded files between preview and decision: one of a kind for each person, for an hour, in limited memory."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from ocular.web import credentials
from ocular.web.errors import NotFoundError

MAX_AGE = 3600.0  # seconds
MAX_BYTES = 64_000_000  # of all files together

Kind = Literal["assignments", "users"]


@dataclass
class Upload:
    """A file with its preview."""

    key: str
    name: str  # of the file
    content: bytes
    preview: Any  # of ocular.web.assignments or ocular.web.user_import
    expires: float
    done: bool = False
    links: list[dict[str, object]] = field(default_factory=list)  # invitations that the file led to


class Uploads:
    """The last file of each kind and person."""

    def __init__(self) -> None:
        self._by_user: dict[tuple[int, Kind], Upload] = {}  # the oldest first
        self._lock = threading.Lock()

    def store(self, user: int, name: str, content: bytes, preview: Any, kind: Kind = "assignments") -> Upload:
        """Store a file in place of the person's last one; the oldest files of others make room."""
        stored = Upload(credentials.new_secret(), name, content, preview, time.monotonic() + MAX_AGE)
        with self._lock:
            self._by_user.pop((user, kind), None)
            self._by_user[user, kind] = stored
            for owner, other in [*self._by_user.items()]:
                full = sum(len(upload.content) for upload in self._by_user.values()) > MAX_BYTES
                if other is not stored and (full or other.expires < time.monotonic()):
                    del self._by_user[owner]
        return stored

    def find(self, user: int, key: str | None = None, kind: Kind = "assignments") -> Upload:
        """Return the last file of the person; with a key, only if it is the file with that key."""
        with self._lock:
            upload = self._by_user.get((user, kind))
        if upload is None or upload.expires < time.monotonic() or (key is not None and key != upload.key):
            raise NotFoundError("Upload expired; choose the file again")
        return upload

    def finish(self, upload: Upload) -> None:
        """Mark a file as used and free its content: a second press of the button changes nothing."""
        upload.content, upload.done = b"", True
