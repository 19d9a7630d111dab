"""Calls to the provider: no more bytes than a limit, no longer than a limit, no redirections."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx

from ocular.web.errors import UnavailableError

MAX_BYTES = 512_000  # of an answer; key sets and tokens with many groups have a few thousand
NO_ANSWER = "Single sign-on is not available at the moment; try again in a minute"


class ProviderError(UnavailableError):
    """The provider does not answer, or with something else than it should."""

    def __init__(self, cause: str) -> None:
        """`cause` is for the log: people read one and the same line."""
        super().__init__(NO_ANSWER)
        self.cause = cause


class LimitedTransport(httpx.BaseTransport):
    """Sends requests; an answer that is too long or too slow raises."""

    def __init__(self, timeout: float) -> None:
        self._inner, self._timeout = httpx.HTTPTransport(), timeout

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        end = time.monotonic() + 2 * self._timeout
        request.headers["accept-encoding"] = "identity"
        answer = self._inner.handle_request(request)
        if "content-encoding" in answer.headers:  # a small answer could open to a large one
            answer.close()
            raise httpx.DecodingError("an answer with a content encoding", request=request)
        assert isinstance(answer.stream, httpx.SyncByteStream)  # noqa: S101 - the type of a synchronous transport
        answer.stream = _LimitedStream(answer.stream, end)
        return answer

    def close(self) -> None:
        self._inner.close()


class _LimitedStream(httpx.SyncByteStream):
    def __init__(self, inner: httpx.SyncByteStream, end: float) -> None:
        self._inner, self._end = inner, end

    def __iter__(self) -> Iterator[bytes]:
        n_bytes = 0
        for chunk in self._inner:
            n_bytes += len(chunk)
            if n_bytes > MAX_BYTES:
                raise httpx.ReadError(f"an answer of more than {MAX_BYTES} bytes")
            if time.monotonic() > self._end:
                raise httpx.ReadTimeout("an answer that takes too long")
            yield chunk

    def close(self) -> None:
        self._inner.close()


def read_object(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer, or raise ProviderError."""
    if answer.status_code != 200:
        raise ProviderError(f"{answer.request.url} answered with status {answer.status_code}")
    try:
        content = answer.json()
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ProviderError(f"{answer.request.url} did not answer with a JSON object")
    return content
