"""Threads of their own for checking passwords, which is slow on purpose: pages never wait for sign-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import TypeVar

from ocular.web.errors import UnavailableError

MAX_CHECKING, MAX_WAITING = 2, 8  # a check takes 64 MiB and a twentieth of a second
Result = TypeVar("Result")


class PasswordThreads:
    """Runs a few checks at once, lets a few wait, and turns the others away before they cost anything."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_CHECKING, "passwords")
        self._places = BoundedSemaphore(MAX_CHECKING + MAX_WAITING)

    async def run(self, check: Callable[[], Result]) -> Result:
        """Return the result of a check, or raise UnavailableError at once where too many wait already."""
        if not self._places.acquire(blocking=False):
            raise UnavailableError("Too many people are signing in; try again in a moment")
        future = self._threads.submit(check)
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=True)
