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


class UnavailableError(RefusedError):
    status = 503


class TooManyError(RefusedError):
    status = 429
