"""Single sign-on: to the provider, and back from it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from ocular.web import users
from ocular.web.dependencies import Admin, AnyVisitor, CurrentServices, GenuineForm, address_of
from ocular.web.errors import NotFoundError, RefusedError
from ocular.web.services import Services
from ocular.web.sso import accounts
from ocular.web.sso.flow import MAX_SECONDS, Flow, seal, unseal
from ocular.web.sso.settings import SsoSettings
from ocular.web.templating import local_address, render

router = APIRouter()
EXPIRED = "This sign-in expired or was begun in another window; try again"
Next = Annotated[str, Query(alias="next", max_length=2000)]
Part = Annotated[str | None, Query(max_length=4000)]


@router.get("/sign-in/sso")
def begin(request: Request, services: CurrentServices, then: Next = "/") -> Response:
    return _begin(request, services, Flow.begin(local_address(then)))


@router.get("/sign-in/sso/again")
def begin_again(request: Request, services: CurrentServices, visitor: AnyVisitor, then: Next = "/") -> Response:
    """Have the visitor give their password to the provider again, for something that needs it."""
    return _begin(request, services, Flow.begin(local_address(then), visitor.user.id))


def _begin(request: Request, services: Services, flow: Flow) -> Response:
    if services.sso is None:
        raise NotFoundError("Single sign-on is not set up")
    try:
        answer = RedirectResponse(services.sso.begin(flow), 303)
    except RefusedError as error:
        return _refused(request, services, str(error), error.status, flow.then)
    answer.set_cookie(
        _cookie(services), seal(flow, services.signing_key), max_age=MAX_SECONDS, httponly=True,
        secure=services.settings.secure, samesite="lax", path="/",
    )  # fmt: skip
    return answer


@router.get("/sign-in/sso/callback")
def finish(
    request: Request,
    services: CurrentServices,
    code: Part = None,
    state: Part = None,
    iss: Part = None,
    error: Part = None,
) -> Response:
    """Take the provider's answer, which counts only in the browser that was sent there, and only once."""
    if services.sso is None:
        raise NotFoundError("Single sign-on is not set up")
    flow = unseal(request.cookies.get(_cookie(services), ""), services.signing_key)
    if flow is None or state != flow.state:
        return _refused(request, services, EXPIRED, 400, "/")
    if error is not None or code is None:
        return _refused(request, services, "The sign-in was cancelled or refused; try again", 403, flow.then)
    given = {"code": code, "state": state} | ({} if iss is None else {"iss": iss})
    try:
        secret = services.sso.finish(flow, given, address_of(request), request.cookies.get(services.cookie))
    except RefusedError as refusal:
        return _refused(request, services, str(refusal), refusal.status, flow.then)
    services.assignments.invalidate()  # it holds the teams too
    answer = RedirectResponse(flow.then, 303)
    answer.set_cookie(services.cookie, secret, httponly=True, secure=services.settings.secure, samesite="lax", path="/")
    return _without_flow(services, answer)


@router.post("/admin/users/link", dependencies=[GenuineForm])
def link_user(
    services: CurrentServices,
    visitor: Admin,
    name: Annotated[str, Form()],
    subject: Annotated[str, Form(max_length=1000)] = "",
) -> Response:
    """Let somebody at the provider sign in as an existing user; an empty subject ends that."""
    settings = _settings(services)
    with services.database.writing() as transaction:
        user = users.find_user(transaction, name)
        if subject.strip():
            accounts.link(transaction, settings, user, subject, visitor.user.name, visitor.address)
        else:
            accounts.unlink(transaction, user, visitor.user.name, visitor.address)
    return RedirectResponse("/admin", 303)


def _settings(services: Services) -> SsoSettings:
    if services.settings.sso is None:
        raise NotFoundError("Single sign-on is not set up")
    return services.settings.sso


def _cookie(services: Services) -> str:
    return "__Host-ocular_sso" if services.settings.secure else "ocular_sso"


def _refused(request: Request, services: Services, line: str, status: int, then: str) -> Response:
    """Show the sign-in page with one line."""
    answer = render(request, "sign_in.html", {"then": then, "line": line, "draft": {}}, status_code=status)
    return _without_flow(services, answer)


def _without_flow(services: Services, answer: Response) -> Response:
    answer.delete_cookie(_cookie(services), path="/", secure=services.settings.secure, httponly=True, samesite="lax")
    return answer
