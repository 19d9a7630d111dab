"""What holds for every request: its size, where it comes from, the headers of the answer, a line in the log."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocular.web.settings import Settings

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


Answer = Callable[[Request, Exception], Awaitable[Response]]


UPLOAD = "/team/assignments/preview"  # the only address that takes a file


class TooLargeError(HTTPException):
    def __init__(self, most: int) -> None:
        super().__init__(413, f"expected at most {most:,} bytes")


class Guard:
    def __init__(self, app: ASGIApp, settings: Settings, refuse: Answer, fail: Answer) -> None:
        """refuse: what to answer to a request that is not looked at; fail: when a route raises what nobody expected."""
        self._app, self._settings, self._refuse, self._fail = app, settings, refuse, fail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, number, status = time.perf_counter(), uuid.uuid4().hex[:12], 500
        headers, taken, answered = Headers(scope=scope), 0, False
        most = self._settings.largest_file if scope["path"] == UPLOAD else self._settings.largest_body

        async def measured() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                raise TooLargeError(most)
            return message

        async def labelled(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], True
                found = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    found.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    found.setdefault("cache-control", "no-store")
                if self._settings.secure:
                    found.setdefault("strict-transport-security", "max-age=31536000")
                found["x-request-id"] = number
            await send(message)

        try:
            if _declared(headers) > most:
                raise TooLargeError(most)
            if scope["method"] not in SAFE and _foreign(headers):
                raise HTTPException(403, "this request comes from another site")
            await self._app(scope, measured, labelled)
        except HTTPException as error:  # those of routes have been answered further inside
            if not answered:
                answer = await self._refuse(Request(scope), error)
                await answer(scope, receive, labelled)
        except Exception as error:
            _log.exception("a request failed", extra={"facts": {"request": number}})
            if not answered:
                answer = await self._fail(Request(scope), error)
                await answer(scope, receive, labelled)
        finally:
            self._count(scope, status, time.perf_counter() - begun, number)

    @staticmethod
    def _count(scope: Scope, status: int, took: float, number: str) -> None:
        route = getattr(scope.get("route"), "path", "none")  # not the address itself: that may hold a client's name
        method = scope["method"] if scope["method"] in METHODS else "other"
        REQUESTS.labels(method, route, str(status)).inc()
        SECONDS.labels(route).observe(took)
        client: Any = scope.get("client")
        facts = {
            "request": number, "method": scope["method"], "route": route, "status": status,
            "milliseconds": round(took * 1e3, 1), "address": client[0] if client else None,
        }  # fmt: skip
        _log.info("request", extra={"facts": facts})


def _declared(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length[:18]) if length.isdecimal() else 0  # Python refuses to read very long numbers


def _foreign(headers: Headers) -> bool:
    """Sent by a page of another site; programs say nothing of sites."""
    origin = headers.get("origin")
    if origin is not None:
        return origin.partition("//")[2] != headers.get("host")
    return headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}
