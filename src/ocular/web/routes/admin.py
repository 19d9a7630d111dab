"""Pages for administrators: people, tokens and the audit log."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import func, select
from sqlalchemy.orm import Session as Transaction

from ocular.errors import ConfigError
from ocular.web import audit as log
from ocular.web import users
from ocular.web.audit import AuditFilter, audit
from ocular.web.auth import Visitor
from ocular.web.dependencies import Admin, CurrentServices, GenuineForm, site_address
from ocular.web.errors import RefusedError
from ocular.web.invitations import INVITATION_HOURS, create_link, invitation_address
from ocular.web.services import Services
from ocular.web.tables import LABEL, AuditEntry, Role, Scope, Session, Token, User, now
from ocular.web.templating import render

router = APIRouter(prefix="/admin")
PAGE_LENGTH, USERS_PER_PAGE = 100, 50
ROLES = {
    Role.SELLER: "Sees their own clients: recommendations, reasons, pipeline and results.",
    Role.MANAGER: "Also sees the clients and results of the team and unassigned clients, and assigns clients.",
    Role.ADMIN: "Sees everything, and manages users, API tokens and the audit log.",
}
ACCESS = {"read": "Read", "feedback": "Give feedback", "feedback read": "Read and give feedback"}  # by scopes
Search = Annotated[str, Query(max_length=LABEL)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]


@router.get("")
def overview(
    request: Request, services: CurrentServices, visitor: Admin, search: Search = "", page: PageNumber = 1
) -> Response:
    return _overview(request, services, visitor, search=search, page=page)


def _overview(
    request: Request,
    services: Services,
    visitor: Visitor,
    *,
    search: str = "",
    page: int = 1,
    token: str | None = None,
    invitation: dict[str, object] | None = None,
    form: str | None = None,
    typed: dict[str, str] | None = None,
    line: str | None = None,
) -> Response:
    """Show users and tokens; `token` or `invitation` is new, and `line` says what is wrong with `typed` in `form`."""
    with services.database.reading() as transaction:
        query, total = users.search_users(transaction, search)
        n_pages = max(1, -(-total // USERS_PER_PAGE))
        page = min(page, n_pages)
        sessions = select(func.count()).where(Session.user_id == User.id).scalar_subquery()
        query = query.add_columns(sessions).order_by(User.name).offset((page - 1) * USERS_PER_PAGE)
        values: dict[str, Any] = {
            "users": transaction.execute(query.limit(USERS_PER_PAGE)).all(),
            "tokens": list(transaction.scalars(select(Token).order_by(Token.id))),
            "names": list(transaction.scalars(select(User.name).where(User.active).order_by(User.name))),
            "teams": list(transaction.scalars(select(User.team).where(User.team != "").distinct().order_by(User.team))),
        }
    values |= {
        "visitor": visitor, "roles": ROLES, "token": token, "days": users.TOKEN_DAYS, "now": now(),
        "max_days": users.MAX_TOKEN_DAYS, "access": ACCESS,
        "form": form, "typed": typed, "line": line, "invitation": invitation, "no_password": users.NO_PASSWORD,
        "search": search, "page": page, "n_pages": n_pages, "total": total,
        "query": urlencode({"search": search} if search else {}),
        "added": typed if form == "add" else dict.fromkeys(("name", "role", "full_name", "team"), ""),
    }  # fmt: skip
    return render(request, "admin.html", values, status_code=200 if line is None else 400)


@router.post("/users", dependencies=[GenuineForm])
def add_user(
    request: Request,
    services: CurrentServices,
    visitor: Admin,
    name: Annotated[str, Form()] = "",
    role: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    full_name: Annotated[str, Form()] = "",
    team: Annotated[str, Form()] = "",
) -> Response:
    """Add a user with a password, or without one and with an invitation, which is shown this once."""
    try:
        with services.database.writing() as transaction:
            user = users.add_user(transaction, name, role, password or None, full_name=full_name, team=team)
            audit(transaction, visitor.user.name, "user added", f"{user.name} ({role})", visitor.address)
            if not password:
                invitation = _invite(request, services, transaction, visitor, user)
    except ConfigError as error:
        typed = {"name": name, "role": role, "full_name": full_name, "team": team}
        return _overview(request, services, visitor, form="add", typed=typed, line=str(error))
    if not password:
        return _overview(request, services, visitor, search=user.name, invitation=invitation)
    return RedirectResponse("/admin", 303)


@router.post("/users/invite", dependencies=[GenuineForm])
def invite_user(request: Request, services: CurrentServices, visitor: Admin, name: Annotated[str, Form()]) -> Response:
    with services.database.writing() as transaction:
        user = users.find_user(transaction, name)
        if not user.active:
            raise RefusedError(f"{user.name} is deactivated; activate the user first")
        invitation = _invite(request, services, transaction, visitor, user)
    return _overview(request, services, visitor, search=user.name, invitation=invitation)


def _invite(
    request: Request, services: Services, transaction: Transaction, visitor: Visitor, user: User
) -> dict[str, object]:
    token = create_link(transaction, user, "invitation", INVITATION_HOURS)
    audit(transaction, visitor.user.name, "user invited", user.name, visitor.address)
    address = invitation_address(site_address(request, secure=services.settings.secure), token)
    return {"username": user.name, "name": user.full_name, "link": address}


@router.post("/users/edit", dependencies=[GenuineForm])
def edit_user(
    request: Request,
    services: CurrentServices,
    visitor: Admin,
    name: Annotated[str, Form()],
    role: Annotated[str, Form()] = "",
    full_name: Annotated[str, Form()] = "",
    team: Annotated[str, Form()] = "",
) -> Response:
    try:
        with services.database.writing() as transaction:
            user = users.find_user(transaction, name)
            if user.id == visitor.user.id and role != Role.ADMIN:
                raise ConfigError("You can't change your own role; ask another administrator")
            before = f"{user.role}, {user.team!r}, {user.full_name!r}"
            users.update_user(transaction, user, role, full_name, team)
            change = f"{user.name}: {before} → {user.role}, {user.team!r}, {user.full_name!r}"
            audit(transaction, visitor.user.name, "user changed", change, visitor.address)
    except ConfigError as error:
        typed = {"name": name, "role": role, "full_name": full_name, "team": team}
        return _overview(request, services, visitor, form=f"edit {name}", typed=typed, line=str(error))
    services.assignments.invalidate()  # it holds the teams too
    return RedirectResponse("/admin", 303)


@router.post("/users/password", dependencies=[GenuineForm])
def set_password(
    request: Request,
    services: CurrentServices,
    visitor: Admin,
    name: Annotated[str, Form()],
    password: Annotated[str, Form()] = "",
) -> Response:
    try:
        with services.database.writing() as transaction:
            user = users.find_user(transaction, name)
            users.set_password(transaction, user, password)
            audit(transaction, visitor.user.name, "password set", user.name, visitor.address)
    except ConfigError as error:
        return _overview(request, services, visitor, form=f"password {name}", line=str(error))
    return RedirectResponse("/admin", 303)


@router.post("/users/active", dependencies=[GenuineForm])
def set_active(
    services: CurrentServices, visitor: Admin, name: Annotated[str, Form()], active: Annotated[bool, Form()]
) -> Response:
    if name.strip().casefold() == visitor.user.name and not active:
        raise RefusedError("You can't deactivate yourself; ask another administrator")
    with services.database.writing() as transaction:
        user = users.find_user(transaction, name)
        if not active:
            users.check_not_last_admin(transaction, user)
        users.set_active(transaction, user, active)
        audit(transaction, visitor.user.name, "user activated" if active else "user deactivated", name, visitor.address)
    return RedirectResponse("/admin", 303)


@router.post("/users/sign-out", dependencies=[GenuineForm])
def end_sessions(services: CurrentServices, visitor: Admin, name: Annotated[str, Form()]) -> Response:
    with services.database.writing() as transaction:
        users.end_sessions(transaction, users.find_user(transaction, name))
        audit(transaction, visitor.user.name, "sessions ended", name, visitor.address)
    return RedirectResponse("/admin", 303)


@router.post("/tokens", dependencies=[GenuineForm])
def add_token(
    request: Request,
    services: CurrentServices,
    visitor: Admin,
    name: Annotated[str, Form()],
    label: Annotated[str, Form()] = "",
    days: Annotated[int, Form(ge=1, le=users.MAX_TOKEN_DAYS)] = users.TOKEN_DAYS,
    scopes: Annotated[str, Form(max_length=LABEL)] = Scope.READ,
) -> Response:
    with services.database.writing() as transaction:
        user = users.find_user(transaction, name)
        secret = users.add_token(transaction, user, label, days, scopes.split())
        subject = f"{user.name}: {label} ({days} days; {scopes})"
        audit(transaction, visitor.user.name, "token created", subject, visitor.address)
    return _overview(request, services, visitor, token=secret)


@router.post("/tokens/revoke", dependencies=[GenuineForm])
def revoke_token(
    services: CurrentServices, visitor: Admin, number: Annotated[int, Form(ge=1, le=2**31 - 1)]
) -> Response:
    with services.database.writing() as transaction:
        revoked = users.revoke_token(transaction, number)
        audit(transaction, visitor.user.name, "token revoked", revoked or f"number {number}", visitor.address)
    return RedirectResponse("/admin", 303)


def audit_filter(
    name: Annotated[str, Query(max_length=LABEL)] = "",
    action: Annotated[str, Query(max_length=LABEL)] = "",
    since: Annotated[str, Query(max_length=20)] = "",
    until: Annotated[str, Query(max_length=20)] = "",
) -> AuditFilter:
    return AuditFilter(name, action, _day(since), _day(until))


def _day(text: str) -> date | None:
    """Return the day of a field; None where it is left empty."""
    try:
        return date.fromisoformat(text.strip()) if text.strip() else None
    except ValueError:
        raise RefusedError(f"Use a date such as 2025-01-31, not {text!r}") from None


SelectedEntries = Annotated[AuditFilter, Depends(audit_filter)]


@router.get("/audit")
def audit_log(
    request: Request,
    services: CurrentServices,
    visitor: Admin,
    selection: SelectedEntries,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    query = selection.query().order_by(AuditEntry.id.desc())
    with services.database.reading() as transaction:
        entries = list(transaction.scalars(query.offset((page - 1) * PAGE_LENGTH).limit(PAGE_LENGTH + 1)))
    filters = {
        "name": selection.name, "action": selection.action, "since": selection.since or "",
        "until": selection.until or "",
    }  # fmt: skip
    values = {
        "visitor": visitor, "entries": entries[:PAGE_LENGTH], "more": len(entries) > PAGE_LENGTH, "page": page,
        "query": urlencode(filters),
    }  # fmt: skip
    return render(request, "audit.html", values | filters)


@router.get("/audit.csv")
def export_audit(services: CurrentServices, visitor: Admin, selection: SelectedEntries) -> Response:
    services.view_log.write(visitor.user.name, "audit exported", "", visitor.address)
    return services.exports.download(visitor, "audit.csv", log.COLUMNS, log.export_rows(services.database, selection))
