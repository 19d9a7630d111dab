"""Signing in and out."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from ocular.web.audit import audit
from ocular.web.auth import Visitor, end_session
from ocular.web.dependencies import AnyVisitor, CurrentServices, GenuineForm, address_of, visitor_by_session
from ocular.web.draft_feedback import read_draft, render_draft
from ocular.web.errors import TooManyError, UnavailableError
from ocular.web.templating import local_address, render

router = APIRouter()
COOKIE_LOST = (
    "Your browser did not keep you signed in, because this address begins with http://. Use https://, "
    "or start ocular with --insecure on your own machine."
)


@router.get("/sign-in")
def form(
    request: Request,
    visitor: Annotated[Visitor | None, Depends(visitor_by_session)],
    then: Annotated[str, Query(alias="next")] = "/",
    again: bool = False,
) -> Response:
    """Show the form; `again` comes after a sign-in, so that no visitor means that the cookie did not come back."""
    if visitor is not None:
        return RedirectResponse(local_address(then), 303)
    return render(
        request, "sign_in.html", {"then": local_address(then), "line": COOKIE_LOST if again else None, "draft": {}}
    )


@router.post("/sign-in")
async def sign_in(
    request: Request,
    services: CurrentServices,
    draft: Annotated[dict[str, str], Depends(read_draft)],
    name: Annotated[str, Form(max_length=200)] = "",
    password: Annotated[str, Form(max_length=1000)] = "",
    then: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    values = {"then": local_address(then), "draft": draft}
    old_secret, address = request.cookies.get(services.cookie), address_of(request)
    try:
        secret = await services.password_threads.run(
            partial(services.authenticator.sign_in, name, password, address, instead_of=old_secret)
        )
    except (TooManyError, UnavailableError) as error:
        values["line"] = str(error)
        headers = getattr(error, "headers", {"Retry-After": "5"})
        return render(request, "sign_in.html", values, status_code=error.status, headers=headers)
    if secret is None:
        values["line"] = "Incorrect username or password"
        return render(request, "sign_in.html", values, status_code=401)
    answer: Response
    if draft:
        visitor = await run_in_threadpool(services.authenticator.visitor_of_session, secret, address)
        answer = render_draft(request, visitor, draft, "You are signed in again; save to keep your text")
    elif services.settings.secure and request.url.scheme == "http":
        answer = RedirectResponse(f"/sign-in?{urlencode({'next': local_address(then), 'again': 1})}", 303)
    else:
        answer = RedirectResponse(local_address(then), 303)
    answer.set_cookie(services.cookie, secret, httponly=True, secure=services.settings.secure, samesite="lax", path="/")
    return answer


@router.post("/sign-out", dependencies=[GenuineForm])
def sign_out(request: Request, services: CurrentServices, visitor: AnyVisitor) -> Response:
    with services.database.writing() as transaction:
        id_token = end_session(transaction, request.cookies[services.cookie])
        audit(transaction, visitor.user.name, "signed out", address=visitor.address)
    answer: Response = RedirectResponse("/sign-in", 303)
    address = services.sso.sign_out_address(id_token) if services.sso is not None and id_token else ""
    if address:  # a page, since our policy lets no form lead to another site
        answer = render(request, "signed_out.html", {"address": address})
    answer.delete_cookie(services.cookie, path="/", secure=services.settings.secure, httponly=True, samesite="lax")
    return answer
