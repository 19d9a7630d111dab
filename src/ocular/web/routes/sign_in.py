"""Signing in and out."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from ocular.web.audit import audit
from ocular.web.auth import Visitor, end_session
from ocular.web.draft_feedback import show_unkept, written
from ocular.web.errors import TooManyError
from ocular.web.services import AnyVisitor, App, Genuine, address_of, of_session
from ocular.web.templating import render

router = APIRouter()
LOST = (
    "Your browser did not keep the sign-in: expected an address with https://, got http://; use https, "
    "or start with --insecure on your own machine."
)


@router.get("/sign-in")
def form(
    request: Request,
    visitor: Annotated[Visitor | None, Depends(of_session)],
    then: Annotated[str, Query(alias="next")] = "/",
    again: bool = False,
) -> Response:
    """again: somebody has just signed in, which shows whether the cookie came back."""
    if visitor is not None:
        return RedirectResponse(_ours(then), 303)
    return render(request, "sign_in.html", {"then": _ours(then), "line": LOST if again else None, "kept": {}})


@router.post("/sign-in")
def sign_in(
    request: Request,
    app: App,
    kept: Annotated[dict[str, str], Depends(written)],
    name: Annotated[str, Form(max_length=200)] = "",
    password: Annotated[str, Form(max_length=1000)] = "",
    then: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    values = {"then": _ours(then), "kept": kept}
    before = request.cookies.get(app.cookie)
    try:
        secret = app.gate.sign_in(name, password, address_of(request), instead_of=before)
    except TooManyError as error:
        values["line"] = str(error)
        return render(request, "sign_in.html", values, status_code=error.status, headers=error.headers)
    if secret is None:
        values["line"] = "The name or the password is not right."
        return render(request, "sign_in.html", values, status_code=401)
    answer: Response
    if kept:
        visitor = app.gate.visitor_of_session(secret, address_of(request))
        answer = show_unkept(request, visitor, kept, "you are signed in again: keep it now")
    elif app.settings.secure and request.url.scheme == "http":
        answer = RedirectResponse(f"/sign-in?{urlencode({'next': _ours(then), 'again': 1})}", 303)
    else:
        answer = RedirectResponse(_ours(then), 303)
    answer.set_cookie(app.cookie, secret, httponly=True, secure=app.settings.secure, samesite="lax", path="/")
    return answer


@router.post("/sign-out", dependencies=[Genuine])
def sign_out(request: Request, app: App, visitor: AnyVisitor) -> Response:
    with app.database.writing() as transaction:
        end_session(transaction, request.cookies[app.cookie])
        audit(transaction, visitor.user.name, "signed out", address=visitor.address)
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(app.cookie, path="/", secure=app.settings.secure, httponly=True, samesite="lax")
    return answer


def _ours(address: str) -> str:
    """Where to go afterwards: never to another site."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"
