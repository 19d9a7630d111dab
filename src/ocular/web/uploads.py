"""
Uploaded files between preview and decision: one of a kind for each person, for an hour, of limited size together.

They are in the database, because another process than the one that took the file may be asked for the preview or told
the decision.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session as Transaction
from sqlalchemy.orm import defer

from ocular.web import credentials
from ocular.web.assignments import Preview
from ocular.web.database import Database
from ocular.web.errors import NotFoundError
from ocular.web.tables import StoredUpload, now
from ocular.web.user_import import ListedUser, UserPreview

MAX_AGE = 3600.0  # seconds
MAX_BYTES = 64_000_000  # of all files together

Kind = Literal["assignments", "users"]


@dataclass(frozen=True)
class Upload:
    """A file with its preview."""

    key: str
    name: str  # of the file
    preview: Any  # a Preview of assignments or a UserPreview
    done: bool
    sealed_links: bytes  # invitations that the file led to

    def links(self, secret: str) -> list[dict[str, object]]:
        """Return the invitations that the file led to, for the browser that asked for them."""
        if not self.sealed_links:
            return []
        try:
            links: list[dict[str, object]] = json.loads(_sealed(self.sealed_links, secret, self.key))
        except ValueError:  # somebody signed in anew
            return []
        return links


class Uploads:
    """The last file of each kind and person."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def store(self, user: int, name: str, content: bytes, preview: Any, kind: Kind = "assignments") -> Upload:
        """Store a file in place of the person's last one; the oldest files of others make room."""
        stored = Upload(credentials.new_secret(), name, preview, False, b"")
        row = StoredUpload(
            user_id=user, kind=kind, key=stored.key, name=name, content=content, n_bytes=len(content), links=b"",
            preview=json.dumps(asdict(preview)), expires=now() + timedelta(seconds=MAX_AGE),
        )  # fmt: skip
        with self._database.writing() as transaction:
            own = (StoredUpload.user_id == user) & (StoredUpload.kind == kind)
            transaction.execute(delete(StoredUpload).where(own | (StoredUpload.expires < now())))
            _make_room(transaction, len(content))
            transaction.add(row)
        return stored

    def find(self, user: int, key: str | None = None, kind: Kind = "assignments") -> Upload:
        """Return the last file of the person; with a key, only if it is the file with that key."""
        with self._database.reading() as transaction:
            row = transaction.get(StoredUpload, (user, kind), options=[defer(StoredUpload.content)])
        if row is None or row.expires < now() or (key is not None and key != row.key):
            raise NotFoundError("Upload expired; choose the file again")
        return Upload(row.key, row.name, _to_preview(row.preview, kind), row.done, row.links)

    @staticmethod
    def take(transaction: Transaction, upload: Upload) -> bytes | None:
        """
        Return the content and mark the file as used; None if it was used already.

        In the transaction of the change itself: a second press of the button changes nothing, whoever answers it.
        """
        is_open = (StoredUpload.key == upload.key) & ~StoredUpload.done
        content = transaction.scalar(select(StoredUpload.content).where(is_open).with_for_update())
        if content is not None:
            values = {"done": True, "content": b"", "n_bytes": 0}
            transaction.execute(update(StoredUpload).where(StoredUpload.key == upload.key).values(values))
        return content

    @staticmethod
    def keep_links(transaction: Transaction, upload: Upload, links: list[dict[str, object]], secret: str) -> None:
        """Store invitations so that only the browser with the secret can read them: of links we store digests alone."""
        sealed = _sealed(json.dumps(links).encode(), secret, upload.key)
        transaction.execute(update(StoredUpload).where(StoredUpload.key == upload.key).values(links=sealed))


def _make_room(transaction: Transaction, n_bytes: int) -> None:
    """Delete the oldest files until there is room for one more, however large it is."""
    sizes = select(StoredUpload.key, StoredUpload.n_bytes).order_by(StoredUpload.expires)
    total = n_bytes + (transaction.scalar(select(func.sum(StoredUpload.n_bytes))) or 0)
    for key, size in transaction.execute(sizes).all():
        if total <= MAX_BYTES:
            return
        transaction.execute(delete(StoredUpload).where(StoredUpload.key == key))
        total -= size


def _to_preview(text: str, kind: Kind) -> Preview | UserPreview:
    values = json.loads(text)
    if kind == "assignments":
        return Preview(**values)
    return UserPreview(**values | {"listed": [ListedUser(**user) for user in values["listed"]]})


def _sealed(content: bytes, secret: str, key: str) -> bytes:
    """Return the content combined with a stream that secret and key give, each pair for one content; and back."""
    stream = hashlib.shake_256(f"invitations {key} {secret}".encode()).digest(len(content))
    return bytes(a ^ b for a, b in zip(content, stream, strict=True))
