"""What routes declare as parameters: the services, the served model, and who may use the route."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Form, Request

from ocular.web import credentials
from ocular.web.auth import Visitor, plain_address
from ocular.web.errors import ForbiddenError, SignInError, StaleFormError
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.tables import Role


async def current_services(request: Request) -> Services:  # async: it need not wait for a thread
    services: Services = request.app.state.services
    return services


CurrentServices = Annotated[Services, Depends(current_services)]


async def current_model(services: CurrentServices) -> ServedModel:
    return services.served


# one for the whole request, though a newer one may come in the middle
CurrentModel = Annotated[ServedModel, Depends(current_model)]


def address_of(request: Request) -> str:
    return plain_address(request.client.host if request.client is not None else None)


def site_address(request: Request, *, secure: bool) -> str:
    """Return the address of the site as the visitor reached it, without a path, for links to pass on."""
    return f"{'https' if secure else request.url.scheme}://{request.url.netloc}"


def session_secret(request: Request, services: Services) -> str:
    """Return the secret of the session, which only the browser has; empty where nobody is signed in."""
    return request.cookies.get(services.cookie, "")


def visitor_by_session(request: Request, services: CurrentServices) -> Visitor | None:
    secret = session_secret(request, services)
    return services.authenticator.visitor_of_session(secret, address_of(request)) if secret else None


def visitor_by_token(request: Request, services: CurrentServices) -> Visitor | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        return None
    return services.authenticator.visitor_of_token(secret.strip(), address_of(request))


class Allowed:
    """The roles that may use a route. The test of all routes and roles reads `roles` from here."""

    by: str  # "session" for pages, "token" for the API

    def __init__(self, *roles: Role) -> None:
        self.roles = frozenset(roles)

    def check(self, request: Request, visitor: Visitor | None) -> Visitor:
        """Return the visitor, or raise unless they have signed in with one of the roles."""
        if visitor is None:
            raise SignInError("Sign in first" if self.by == "session" else "expected a valid token: Bearer …")
        request.state.visitor = visitor  # a refusal keeps the navigation
        if visitor.role not in self.roles:
            raise ForbiddenError("You don't have access")
        return visitor


class AllowedBySession(Allowed):
    by = "session"

    async def __call__(
        self, request: Request, visitor: Annotated[Visitor | None, Depends(visitor_by_session)]
    ) -> Visitor:
        return self.check(request, visitor)


class AllowedByToken(Allowed):
    by = "token"

    async def __call__(
        self, request: Request, visitor: Annotated[Visitor | None, Depends(visitor_by_token)]
    ) -> Visitor:
        return self.check(request, visitor)


EVERYBODY, LEADERS, ADMINS = tuple(Role), (Role.MANAGER, Role.ADMIN), (Role.ADMIN,)
AnyVisitor = Annotated[Visitor, Depends(AllowedBySession(*EVERYBODY))]
Leader = Annotated[Visitor, Depends(AllowedBySession(*LEADERS))]
Admin = Annotated[Visitor, Depends(AllowedBySession(*ADMINS))]
AnyProgram = Annotated[Visitor, Depends(AllowedByToken(*EVERYBODY))]
LeaderProgram = Annotated[Visitor, Depends(AllowedByToken(*LEADERS))]


async def check_csrf(visitor: AnyVisitor, csrf: Annotated[str, Form()] = "") -> None:
    """Refuse a form that does not carry the secret of the session, which no other site knows."""
    if not credentials.equal_secrets(credentials.unmask(csrf), visitor.csrf_secret):
        raise StaleFormError("This page expired; reload it and try again")


GenuineForm: Any = Depends(check_csrf)
