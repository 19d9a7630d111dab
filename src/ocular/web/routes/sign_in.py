"""Signing in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import delete

from ocular.web import credentials
from ocular.web.access import COOKIE, AnyVisitor, App, Genuine, address_of, audit
from ocular.web.errors import TooManyError
from ocular.web.tables import Session
from ocular.web.templating import render

router = APIRouter()


@router.get("/sign-in")
def form(request: Request, then: Annotated[str, Query(alias="next")] = "/") -> Response:
    return render(request, "sign_in.html", {"then": _ours(then), "line": None})


@router.post("/sign-in")
def sign_in(
    request: Request,
    app: App,
    name: Annotated[str, Form(max_length=200)] = "",
    password: Annotated[str, Form(max_length=1000)] = "",
    then: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    try:
        secret = app.sign_in(name, password, address_of(request))
    except TooManyError as error:
        return render(request, "sign_in.html", {"then": _ours(then), "line": str(error)}, status_code=429)
    if secret is None:
        line = "The name or the password is not right."
        return render(request, "sign_in.html", {"then": _ours(then), "line": line}, status_code=401)
    answer = RedirectResponse(_ours(then), 303)
    answer.set_cookie(COOKIE, secret, httponly=True, secure=app.settings.secure, samesite="lax", path="/")
    return answer


@router.post("/sign-out", dependencies=[Genuine])
def sign_out(request: Request, app: App, visitor: AnyVisitor) -> Response:
    with app.database.writing() as transaction:
        digest = credentials.digest(request.cookies[COOKIE])
        transaction.execute(delete(Session).where(Session.digest == digest))
        audit(transaction, visitor.user.name, "signed out", address=visitor.address)
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _ours(address: str) -> str:
    """Where to go afterwards: never to another site."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"
