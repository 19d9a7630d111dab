"""
The few static files, served from memory: no thread is needed, and all of them may be waiting for the database.

Pages name them with a fingerprint of their content (`address`), so that browsers may keep them for good.
"""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(str(files("ocular.web") / "static"))
FOREVER = "public, max-age=31536000, immutable"


@cache
def address(name: str) -> str:
    """Return the address of a static file with its fingerprint."""
    return f"/static/{name}?v={_fingerprint((FOLDER / name).read_bytes())}"


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


class InMemoryStaticFiles(StaticFiles):
    """Static files that are read once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(directory=folder)
        self.config_checked = True  # the base class would take a thread for that
        self._contents = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    async def get_response(self, path: str, scope: Scope) -> Response:
        if scope["method"] not in {"GET", "HEAD"}:
            raise HTTPException(405)
        if path not in self._contents:
            raise HTTPException(404)
        content = self._contents[path]
        fingerprint = _fingerprint(content)
        is_named = fingerprint in parse_qs(scope["query_string"].decode("latin-1")).get("v", ())
        headers = {"etag": f'"{fingerprint}"', "cache-control": FOREVER if is_named else "no-cache"}
        if Headers(scope=scope).get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=mimetypes.guess_type(path)[0], headers=headers)
