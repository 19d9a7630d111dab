"""The few static files, served from memory: no thread is needed, and all of them may be waiting for the database."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope


class InMemoryStaticFiles(StaticFiles):
    """Static files that are read once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)
        self.config_checked = True  # the base class would take a thread for that
        self._contents = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    async def get_response(self, path: str, scope: Scope) -> Response:
        if scope["method"] not in {"GET", "HEAD"}:
            raise HTTPException(405)
        if path not in self._contents:
            raise HTTPException(404)
        content = self._contents[path]
        headers = {"etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"', "cache-control": "no-cache"}
        if Headers(scope=scope).get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=mimetypes.guess_type(path)[0], headers=headers)
