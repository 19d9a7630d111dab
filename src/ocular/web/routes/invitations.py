"""Pages behind links that work once: choosing a password, and signing in on one's own machine."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from ocular.errors import ConfigError
from ocular.web import users
from ocular.web.audit import audit
from ocular.web.auth import open_session
from ocular.web.dependencies import CurrentServices, address_of
from ocular.web.errors import NotFoundError
from ocular.web.invitations import find_link, is_loopback
from ocular.web.services import Services
from ocular.web.templating import render

router = APIRouter()


@router.get("/invitation/{token}")
def show_invitation(request: Request, services: CurrentServices, token: str) -> Response:
    return _form(request, services, token)


def _form(request: Request, services: Services, token: str, line: str | None = None) -> Response:
    with services.database.reading() as transaction:
        link = find_link(transaction, token, "invitation")
    values = {"user": link.user, "expires": link.expires, "line": line}
    return render(request, "invitation.html", values, status_code=200 if line is None else 400)


@router.post("/invitation/{token}")
def accept_invitation(
    request: Request,
    services: CurrentServices,
    token: str,
    password: Annotated[str, Form(max_length=1000)] = "",
    again: Annotated[str, Form(max_length=1000)] = "",
) -> Response:
    """Set the password, use up the link and sign in; the token, which nobody else knows, stands for the csrf field."""
    try:
        with services.database.writing() as transaction:
            link = find_link(transaction, token, "invitation")
            if not services.authenticator.may_use_password(link.user):
                raise ConfigError("Passwords are switched off; sign in with single sign-on")
            if password != again:
                raise ConfigError("The passwords do not match")
            users.set_password(transaction, link.user, password)  # deletes the link too
            audit(transaction, link.user.name, "invitation accepted", address=address_of(request))
            secret = open_session(transaction, link.user, address_of(request), services.settings.lifetime)
    except ConfigError as error:
        return _form(request, services, token, str(error))
    return _signed_in(services, secret)


@router.get("/sign-in/once/{token}")
def sign_in_once(request: Request, services: CurrentServices, token: str) -> Response:
    address = address_of(request)
    if not is_loopback(address):
        raise NotFoundError("This link works only on the machine that runs ocular; sign in with a password")
    with services.database.writing() as transaction:
        link = find_link(transaction, token, "sign-in")
        transaction.delete(link)
        audit(transaction, link.user.name, "signed in by link", address=address)
        secret = open_session(transaction, link.user, address, services.settings.lifetime)
    return _signed_in(services, secret)


def _signed_in(services: Services, secret: str) -> Response:
    answer = RedirectResponse("/", 303)
    answer.set_cookie(services.cookie, secret, httponly=True, secure=services.settings.secure, samesite="lax", path="/")
    return answer
