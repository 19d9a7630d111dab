"""For administrators: people, tokens and the audit log."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import delete, func, select

from ocular.web import people
from ocular.web.access import Admin, App, Application, Genuine, Visitor, audit
from ocular.web.errors import RefusedError
from ocular.web.tables import AuditEntry, Role, Session, Token, User
from ocular.web.templating import render

router = APIRouter(prefix="/admin")
PAGE = 100


@router.get("")
def overview(request: Request, app: App, visitor: Admin) -> Response:
    return _overview(request, app, visitor)


def _overview(request: Request, app: Application, visitor: Visitor, token: str | None = None) -> Response:
    with app.database.reading() as transaction:
        sessions = select(func.count()).where(Session.user_id == User.id).scalar_subquery()
        values: dict[str, Any] = {
            "users": transaction.execute(select(User, sessions).order_by(User.name)).all(),
            "tokens": list(transaction.scalars(select(Token).order_by(Token.id))),
        }
    return render(request, "admin.html", values | {"visitor": visitor, "roles": list(Role), "token": token})


@router.post("/users", dependencies=[Genuine])
def add_user(
    app: App,
    visitor: Admin,
    name: Annotated[str, Form()],
    role: Annotated[Role, Form()],
    password: Annotated[str, Form()],
    full_name: Annotated[str, Form()] = "",
    team: Annotated[str, Form()] = "",
) -> Response:
    with app.database.writing() as transaction:
        user = people.add_user(transaction, name, role, password, full_name=full_name, team=team)
        audit(transaction, visitor.user.name, "user added", f"{user.name} ({role})", visitor.address)
    return RedirectResponse("/admin", 303)


@router.post("/users/password", dependencies=[Genuine])
def set_password(app: App, visitor: Admin, name: Annotated[str, Form()], password: Annotated[str, Form()]) -> Response:
    with app.database.writing() as transaction:
        people.set_password(transaction, people.find_user(transaction, name), password)
        audit(transaction, visitor.user.name, "password set", name, visitor.address)
    return RedirectResponse("/admin", 303)


@router.post("/users/active", dependencies=[Genuine])
def set_active(app: App, visitor: Admin, name: Annotated[str, Form()], active: Annotated[bool, Form()]) -> Response:
    if name.strip().casefold() == visitor.user.name:
        raise RefusedError("nobody can lock themselves out; ask another administrator")
    with app.database.writing() as transaction:
        people.set_active(transaction, people.find_user(transaction, name), active)
        audit(transaction, visitor.user.name, "user activated" if active else "user locked", name, visitor.address)
    return RedirectResponse("/admin", 303)


@router.post("/users/sign-out", dependencies=[Genuine])
def end_sessions(app: App, visitor: Admin, name: Annotated[str, Form()]) -> Response:
    with app.database.writing() as transaction:
        people.end_sessions(transaction, people.find_user(transaction, name))
        audit(transaction, visitor.user.name, "sessions ended", name, visitor.address)
    return RedirectResponse("/admin", 303)


@router.post("/tokens", dependencies=[Genuine])
def add_token(
    request: Request, app: App, visitor: Admin, name: Annotated[str, Form()], label: Annotated[str, Form()] = ""
) -> Response:
    with app.database.writing() as transaction:
        secret = people.add_token(transaction, people.find_user(transaction, name), label)
        audit(transaction, visitor.user.name, "token made", name, visitor.address)
    return _overview(request, app, visitor, secret)


@router.post("/tokens/revoke", dependencies=[Genuine])
def revoke_token(app: App, visitor: Admin, number: Annotated[int, Form(ge=1, le=2**31 - 1)]) -> Response:
    with app.database.writing() as transaction:
        transaction.execute(delete(Token).where(Token.id == number))
        audit(transaction, visitor.user.name, "token revoked", str(number), visitor.address)
    return RedirectResponse("/admin", 303)


@router.get("/audit")
def audit_log(
    request: Request, app: App, visitor: Admin, name: str = "", page: Annotated[int, Query(ge=1, le=1_000_000)] = 1
) -> Response:
    chosen = select(AuditEntry).order_by(AuditEntry.id.desc())
    if name:
        chosen = chosen.where(AuditEntry.name == name)
    with app.database.reading() as transaction:
        entries = list(transaction.scalars(chosen.offset((page - 1) * PAGE).limit(PAGE + 1)))
    values = {"visitor": visitor, "entries": entries[:PAGE], "more": len(entries) > PAGE, "page": page, "name": name}
    return render(request, "audit.html", values)
