"""For managers: who has which clients, and what became of recommendations."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.responses import RedirectResponse
from sqlalchemy import func, select

from ocular.web import assignments, feedback
from ocular.web.assignments import MOST_ERRORS, decoded, keep_assignments, read_assignments
from ocular.web.audit import audit
from ocular.web.auth import Visitor
from ocular.web.csv_export import download
from ocular.web.database import lock
from ocular.web.errors import ConflictError
from ocular.web.middleware import UPLOAD
from ocular.web.services import App, Application, Genuine, Leader, Model
from ocular.web.tables import LABEL, Assignment, Role, User, Verdict
from ocular.web.templating import render

router = APIRouter()
LATEST = 50


@router.get("/team")
def team(request: Request, app: App, served: Model, visitor: Leader) -> Response:
    by_pattern, by_owner = feedback.by_pattern(app.database, visitor), feedback.by_owner(app.database, visitor)
    taken = app.assignments(served).of_user.values()
    values = {
        "visitor": visitor, "funnel": feedback.added(found.funnel for found in by_pattern), "verdicts": list(Verdict),
        "by_pattern": by_pattern, "rows": feedback.latest(app.database, visitor, LATEST),
        "sellers": [
            (user, count, by_owner.get(user.id, feedback.added([]))) for user, count in _sellers(app, visitor)
        ],
        "free": served.advisor.model.interactions_.n_users - sum(len(clients) for clients in taken),
    }  # fmt: skip
    return render(request, "team.html", values)


def _sellers(app: Application, visitor: Visitor) -> list[tuple[User, int]]:
    """With the number of their clients."""
    counted = select(User, func.count(Assignment.client)).outerjoin(Assignment, Assignment.user_id == User.id)
    counted = counted.where(User.role == Role.SELLER).group_by(User.id).order_by(User.name)
    with app.database.reading() as transaction:
        found = transaction.execute(counted).all()
    return [(u, count) for u, count in found if visitor.role is Role.ADMIN or visitor.in_team(u.id, u.team)]


@router.post(UPLOAD, dependencies=[Genuine])
def look(app: App, served: Model, visitor: Leader, file: UploadFile) -> Response:
    content = file.file.read()
    with app.database.reading() as transaction, app.computing:
        found, _ = read_assignments(decoded(content), served.advisor.model.interactions_, transaction, visitor)
    app.uploads.keep(visitor.user.id, (file.filename or "")[:LABEL], b"" if found.n_errors else content, found)
    return RedirectResponse("/team/assignments", 303)


@router.get("/team/assignments")
def preview(request: Request, app: App, visitor: Leader) -> Response:
    kept = app.uploads.find(visitor.user.id)
    if kept.done:
        return RedirectResponse("/team", 303)
    values = {"visitor": visitor, "preview": kept.preview, "key": kept.key, "most": MOST_ERRORS}
    return render(request, "assignments.html", values, status_code=422 if kept.preview.n_errors else 200)


@router.post("/team/assignments", dependencies=[Genuine])
def assign(app: App, served: Model, visitor: Leader, key: Annotated[str, Form()]) -> Response:
    """All of the file or nothing; it is read again, since things may have changed after the preview."""
    kept = app.uploads.find(visitor.user.id, key)
    content = kept.content
    if kept.done or kept.preview.n_errors:
        return RedirectResponse("/team/assignments", 303)
    with app.database.writing() as transaction:
        lock(transaction, Assignment)
        found, changes = read_assignments(decoded(content), served.advisor.model.interactions_, transaction, visitor)
        if found.errors:
            raise ConflictError(f"nothing was changed: {found.errors[0]}")
        keep_assignments(changes, transaction)
        told = f"{found.new} new, {found.changed} changed, {found.freed} freed"
        told += f"; {kept.name}, {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()[:16]}"
        audit(transaction, visitor.user.name, "assignments imported", told, visitor.address)
    app.uploads.finish(kept)
    app.forget_assignments()
    return RedirectResponse("/team", 303)


@router.get("/team/assignments.csv")
def export_assignments(app: App, visitor: Leader) -> Response:
    app.log_view(visitor, "assignments exported", "")
    return download("assignments.csv", assignments.COLUMNS, assignments.export_rows(app.database, visitor))


@router.get("/team/feedback.csv")
def export_feedback(app: App, visitor: Leader) -> Response:
    app.log_view(visitor, "feedback exported", "")
    return download("feedback.csv", feedback.COLUMNS, feedback.export_rows(app.database, visitor))
