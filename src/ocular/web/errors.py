"""What a request may be answered with instead of a page."""

from __future__ import annotations

from typing import ClassVar

from ocular.errors import OcularError


class RefusedError(OcularError):
    """One line for the person who asked."""

    status: ClassVar[int] = 400


class SignInError(RefusedError):
    status = 401


class ForbiddenError(RefusedError):
    status = 403


class NotFoundError(RefusedError):
    status = 404


class StaleFormError(ForbiddenError):
    """A form of another session, or of another site."""


class ConflictError(RefusedError):
    status = 409


class UnavailableError(RefusedError):
    status = 503


class TooManyError(RefusedError):
    status = 429

    def __init__(self, line: str, seconds: int) -> None:
        """seconds: after which it is worth another try."""
        super().__init__(line)
        self.headers = {"Retry-After": str(seconds)}
