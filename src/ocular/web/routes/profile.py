"""The page of the visitor: name, role, team and a new password."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from ocular.errors import ConfigError
from ocular.web import users
from ocular.web.audit import audit
from ocular.web.auth import Visitor
from ocular.web.dependencies import AnyVisitor, CurrentServices, GenuineForm
from ocular.web.errors import TooManyError
from ocular.web.templating import render

router = APIRouter()


@router.get("/account")
def account(request: Request, visitor: AnyVisitor) -> Response:
    return _account(request, visitor)


def _account(request: Request, visitor: Visitor, line: str | None = None, status: int = 200) -> Response:
    return render(request, "profile.html", {"visitor": visitor, "line": line}, status_code=status)


@router.post("/account/password", dependencies=[GenuineForm])
def set_password(
    request: Request,
    services: CurrentServices,
    visitor: AnyVisitor,
    old: Annotated[str, Form(max_length=1000)] = "",
    new: Annotated[str, Form(max_length=1000)] = "",
) -> Response:
    """Set a new password; all sessions end, this one too."""
    try:
        if services.authenticator.check_password(visitor.user.name, old, visitor.address) is None:
            return _account(request, visitor, "Current password is incorrect", 400)
        with services.database.writing() as transaction:
            users.set_password(transaction, users.find_user(transaction, visitor.user.name), new)
            audit(transaction, visitor.user.name, "password changed", visitor.user.name, visitor.address)
    except (ConfigError, TooManyError) as error:
        return _account(request, visitor, str(error), getattr(error, "status", 400))
    return RedirectResponse("/sign-in", 303)
