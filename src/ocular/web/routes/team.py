"""For managers: who has which clients, and what became of recommendations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.responses import RedirectResponse, StreamingResponse
from sqlalchemy import func, select

from ocular.web import feedback
from ocular.web.access import App, Genuine, Leader, Visitor, audit
from ocular.web.assignments import MOST_ERRORS, keep_assignments, read_assignments
from ocular.web.errors import RefusedError
from ocular.web.sheets import csv_lines
from ocular.web.tables import Assignment, Role, User, Verdict
from ocular.web.templating import render

router = APIRouter()


@router.get("/team")
def team(request: Request, app: App, visitor: Leader) -> Response:
    rows = feedback.latest(app.database, scope(visitor))
    with app.database.reading() as transaction:
        counted = select(User, func.count(Assignment.client)).outerjoin(Assignment, Assignment.user_id == User.id)
        counted = counted.where(User.role == Role.SELLER).group_by(User.id).order_by(User.name)
        if scope(visitor) is not None:
            counted = counted.where(User.team == visitor.user.team)
        sellers = transaction.execute(counted).all()
    patterns = app.served.patterns
    by_pattern = [
        (
            patterns[number].label if number in patterns else "no pattern" if number is None else f"pattern {number}",
            found,
        )
        for number, found in feedback.funnels_by_pattern(rows).items()
    ]
    values = {
        "visitor": visitor, "sellers": sellers, "funnel": feedback.funnel(rows), "verdicts": list(Verdict),
        "by_pattern": sorted(by_pattern, key=lambda pair: -pair[1].judged), "rows": rows[::-1][:50],
    }  # fmt: skip
    return render(request, "team.html", values)


@router.post("/team/assignments/preview", dependencies=[Genuine])
def preview(request: Request, app: App, visitor: Leader, file: UploadFile) -> Response:
    try:
        content = file.file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RefusedError("expected a CSV file in UTF-8, got other bytes; save it as CSV UTF-8") from None
    with app.database.reading() as transaction:
        found = read_assignments(content, app.served.advisor.model.interactions_, transaction, scope(visitor))
    key = "" if found.errors else app.keep_upload(visitor, content)
    values = {"visitor": visitor, "preview": found, "key": key, "most": MOST_ERRORS}
    return render(request, "assignments.html", values, status_code=422 if found.errors else 200)


@router.post("/team/assignments", dependencies=[Genuine])
def assign(app: App, visitor: Leader, key: Annotated[str, Form()]) -> Response:
    """All of the file or nothing; it is read again, since things may have changed after the preview."""
    content = app.take_upload(visitor, key)
    with app.database.writing() as transaction:
        found = read_assignments(content, app.served.advisor.model.interactions_, transaction, scope(visitor))
        if found.errors:
            raise RefusedError(f"nothing was changed: {found.errors[0]}")
        keep_assignments(found, transaction)
        told = f"{found.new} new, {found.changed} changed, {found.freed} freed"
        audit(transaction, visitor.user.name, "assignments imported", told, visitor.address)
    app.forget_assignments()
    return RedirectResponse("/team", 303)


@router.get("/team/feedback.csv")
def export(app: App, visitor: Leader) -> Response:
    app.database.check()  # while there is still another answer than half a file
    rows = feedback.export_rows(app.database, scope(visitor))
    headers = {"Content-Disposition": 'attachment; filename="feedback.csv"'}
    return StreamingResponse(csv_lines(feedback.COLUMNS, rows), media_type="text/csv; charset=utf-8", headers=headers)


def scope(visitor: Visitor) -> str | None:
    """The team whose affairs are shown; None for all."""
    return None if visitor.role is Role.ADMIN else visitor.user.team
