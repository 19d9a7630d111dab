"""What routes declare as parameters: the services, the served model, and who may use the route."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Any

from fastapi import Depends, Form, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer

from ocular.web import credentials
from ocular.web.auth import Visitor, plain_address
from ocular.web.errors import ForbiddenError, SignInError, StaleFormError
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.tables import Role, Scope


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


def is_loopback(address: str) -> bool:
    """Return whether an address is this machine's own; behind a proxy it is the visitor's, not the proxy's."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


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

    def __init__(self, *roles: Role, scope: Scope) -> None:
        super().__init__(*roles)
        self.scope = scope

    async def __call__(
        self,
        request: Request,
        visitor: Annotated[Visitor | None, Depends(visitor_by_token)],
        _documented: Annotated[Any, Depends(HTTPBearer(auto_error=False))],  # so that OpenAPI says how to sign in
    ) -> Visitor:
        allowed = self.check(request, visitor)
        if self.scope not in allowed.scopes:
            raise ForbiddenError(f"expected a token with the scope {self.scope}; create one under Admin")
        return allowed


class AllowedToMonitor(Allowed):
    """A session, a token, or a program on this machine, which needs neither and waits for no database."""

    def __init__(self, by: str, *roles: Role) -> None:
        super().__init__(*roles)
        self.by = by  # what a stranger is asked for

    async def __call__(self, request: Request, services: CurrentServices) -> None:
        if is_loopback(address_of(request)):
            return
        find = visitor_by_token if "authorization" in request.headers else visitor_by_session
        self.check(request, await run_in_threadpool(find, request, services))


def _program(*roles: Role, scope: Scope) -> Any:
    return Security(AllowedByToken(*roles, scope=scope), scopes=[scope.value])


EVERYBODY, LEADERS, ADMINS = tuple(Role), (Role.MANAGER, Role.ADMIN), (Role.ADMIN,)
AnyVisitor = Annotated[Visitor, Depends(AllowedBySession(*EVERYBODY))]
Leader = Annotated[Visitor, Depends(AllowedBySession(*LEADERS))]
Admin = Annotated[Visitor, Depends(AllowedBySession(*ADMINS))]
AnyProgram = Annotated[Visitor, _program(*EVERYBODY, scope=Scope.READ)]
LeaderProgram = Annotated[Visitor, _program(*LEADERS, scope=Scope.READ)]
FeedbackProgram = Annotated[Visitor, _program(*EVERYBODY, scope=Scope.FEEDBACK)]
METRICS_READER = AllowedToMonitor("session", *ADMINS)
API_READER = AllowedToMonitor("token", *EVERYBODY)


async def check_csrf(visitor: AnyVisitor, csrf: Annotated[str, Form()] = "") -> None:
    """Refuse a form that does not carry the secret of the session, which no other site knows."""
    if not credentials.equal_secrets(credentials.unmask(csrf), visitor.csrf_secret):
        raise StaleFormError("This page expired; reload it and try again")


GenuineForm: Any = Depends(check_csrf)
