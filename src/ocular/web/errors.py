"""Errors that are answered with one line and a status instead of a page."""

from __future__ import annotations

from typing import ClassVar

from ocular.errors import OcularError


class RefusedError(OcularError):
    """A request that is refused, with one line for the person who made it."""

    status: ClassVar[int] = 400


class SignInError(RefusedError):
    status = 401


class ForbiddenError(RefusedError):
    status = 403


class NotFoundError(RefusedError):
    status = 404


class StaleFormError(ForbiddenError):
    """The form belongs to another session or another site."""


class ConflictError(RefusedError):
    status = 409


class InputError(RefusedError):
    """A field holds something else than it is for."""

    status = 422


class UnavailableError(RefusedError):
    status = 503


class TooManyError(RefusedError):
    status = 429

    def __init__(self, line: str, seconds: int) -> None:
        """`seconds`: when another attempt is worthwhile."""
        super().__init__(line)
        self.headers = {"Retry-After": str(seconds)}
