"""Files between the look at them and the decision: one for each person, for a while, as many as memory allows."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from ocular.web import credentials
from ocular.web.assignments import Preview
from ocular.web.errors import NotFoundError

EXPIRY = 3600.0  # seconds
MOST_BYTES = 64_000_000  # of all files together


@dataclass
class Upload:
    key: str
    name: str  # of the file
    content: bytes
    preview: Preview
    until: float
    done: bool = False


class Uploads:
    def __init__(self) -> None:
        self._of_user: dict[int, Upload] = {}  # the oldest first
        self._lock = threading.Lock()

    def keep(self, user: int, name: str, content: bytes, preview: Preview) -> Upload:
        """In place of what the person kept before; the oldest files of others give way."""
        kept = Upload(credentials.new_secret(), name, content, preview, time.monotonic() + EXPIRY)
        with self._lock:
            self._of_user.pop(user, None)
            self._of_user[user] = kept
            for owner, other in [*self._of_user.items()]:
                full = sum(len(upload.content) for upload in self._of_user.values()) > MOST_BYTES
                if other is not kept and (full or other.until < time.monotonic()):
                    del self._of_user[owner]
        return kept

    def find(self, user: int, key: str | None = None) -> Upload:
        """What the person kept last, if it is the one with the key."""
        with self._lock:
            found = self._of_user.get(user)
        if found is None or found.until < time.monotonic() or (key is not None and key != found.key):
            raise NotFoundError("the file is not here any more; choose it again")
        return found

    def finish(self, upload: Upload) -> None:
        """It has been used; whoever presses the button twice is told so."""
        upload.content, upload.done = b"", True
