"""What holds for every request: its size, its origin, the headers of the answer, a line in the log."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocular.errors import OcularError
from ocular.web.settings import ANY_HOST, Settings

_log = logging.getLogger("ocular.web.requests")

REQUESTS = Counter("ocular_requests_total", "Requests by route and status.", ["method", "route", "status"])
SECONDS = Histogram(
    "ocular_request_seconds",
    "How long answers took.",
    ["route"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 5),
)
SAFE = {"GET", "HEAD", "OPTIONS"}
METHODS = SAFE | {"POST", "PUT", "PATCH", "DELETE"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/@\[\]]+))(?::[0-9]{1,5})?")  # a name or address, and a port
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")


AnswerError = Callable[[Request, Exception], Awaitable[Response]]
CheckUpload = Callable[[Request], Awaitable[None]]


UPLOAD, USERS_UPLOAD = "/team/assignments/preview", "/admin/users/preview"  # the paths that take a file


class TooLargeError(HTTPException):
    def __init__(self, limit: int) -> None:
        super().__init__(413, f"Too large: the limit is {limit:,} bytes")


class Guard:
    """Limits, checks, counts and logs each request, and adds headers to its answer."""

    def __init__(
        self, app: ASGIApp, settings: Settings, refuse: AnswerError, fail: AnswerError, check_upload: CheckUpload
    ) -> None:
        """
        `refuse` answers a request that no route gets; `fail` answers when a route raises an unexpected error.

        `check_upload` raises unless the visitor may send a file: forms are read before a route asks who sent them.
        """
        self._app, self._settings, self._refuse, self._fail = app, settings, refuse, fail
        self._check_upload = check_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, headers, n_bytes, answered = time.perf_counter(), 500, Headers(scope=scope), 0, False
        given = headers.get("x-request-id", "")  # of the proxy, whose log then has the same number
        number = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex[:12]
        limit = self._settings.max_upload if scope["path"] in (UPLOAD, USERS_UPLOAD) else self._settings.max_body

        async def receive_limited() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > limit:
                raise TooLargeError(limit)
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], True
                answer_headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answer_headers.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    answer_headers.setdefault("cache-control", "no-store")
                if self._settings.secure:
                    answer_headers.setdefault("strict-transport-security", "max-age=31536000")
                answer_headers["x-request-id"] = number
            await send(message)

        try:
            if not is_allowed_host(headers.getlist("host"), self._settings.allowed_hosts):
                # before anything reads the name: redirects and links would carry it
                scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"host"]
                raise HTTPException(400, "This host name is not served here; see --allowed-host")
            if _declared_size(headers) > limit:
                raise TooLargeError(limit)
            if scope["method"] not in SAFE and _is_foreign(headers):
                raise HTTPException(403, "This request came from another site")
            if scope["method"] == "POST" and scope["path"] in (UPLOAD, USERS_UPLOAD):
                await self._check_upload(Request(scope))
            await self._app(scope, receive_limited, send_with_headers)
        except (HTTPException, OcularError) as error:  # those of routes have been answered further inside
            if not answered:
                answer = await self._refuse(Request(scope), error)
                if scope["method"] not in SAFE:
                    answer.headers["connection"] = "close"  # the body is not read, so nothing can follow it
                await answer(scope, receive, send_with_headers)
        except Exception as error:
            _log.exception("a request failed", extra={"request": number})
            if not answered:
                answer = await self._fail(Request(scope), error)
                await answer(scope, receive, send_with_headers)
        finally:
            self._count(scope, status, time.perf_counter() - started, number)

    @staticmethod
    def _count(scope: Scope, status: int, seconds: float, number: str) -> None:
        route = getattr(scope.get("route"), "path", "none")  # not the address itself: that may hold a client's name
        method = scope["method"] if scope["method"] in METHODS else "other"
        REQUESTS.labels(method, route, str(status)).inc()
        SECONDS.labels(route).observe(seconds)
        client: Any = scope.get("client")
        fields = {
            "request": number, "method": scope["method"], "route": route, "status": status,
            "milliseconds": round(seconds * 1e3, 1), "address": client[0] if client else None,
        }  # fmt: skip
        _log.info("request", extra=fields)


def is_allowed_host(hosts: Sequence[str], allowed: Sequence[str]) -> bool:
    """
    Return whether a request's Host headers are exactly one that names an allowed host, with any port.

    >>> is_allowed_host(["Example.com:8443"], ["example.com"]), is_allowed_host(["[::1]:80"], ["::1"])
    (True, True)
    >>> is_allowed_host(["evil.example"], ["example.com"]), is_allowed_host([], ["example.com"])
    (False, False)
    """
    if ANY_HOST in allowed:
        return True
    if len(hosts) != 1:
        return False
    found = _HOST.fullmatch(hosts[0])
    return found is not None and (found[1] or found[2]).lower() in {name.lower() for name in allowed}


def _declared_size(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length[:18]) if length.isdecimal() else 0  # Python refuses to read very long numbers


def _is_foreign(headers: Headers) -> bool:
    """Return whether a page of another site sent the request; programs send no such headers."""
    origin = headers.get("origin")
    if origin is not None:
        return origin.partition("//")[2] != headers.get("host")
    return headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}
