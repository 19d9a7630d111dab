"""Pages for managers: who has which clients, and what they did last."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.responses import RedirectResponse
from sqlalchemy import func, select

from ocular.web import assignments, feedback
from ocular.web.assignments import MAX_ERRORS, decode, describe_changes, read_assignments, save_assignments
from ocular.web.audit import audit, entry
from ocular.web.audit_chain import append
from ocular.web.auth import Visitor
from ocular.web.database import lock
from ocular.web.dependencies import CurrentModel, CurrentServices, GenuineForm, Leader
from ocular.web.errors import ConflictError
from ocular.web.middleware import UPLOAD
from ocular.web.seller_match import find_seller_column, match_sellers
from ocular.web.services import Services
from ocular.web.tables import LABEL, Assignment, User
from ocular.web.templating import render
from ocular.web.visibility import overseen_sellers

router = APIRouter()
MAX_LATEST = 50


@router.get("/team")
def team(request: Request, services: CurrentServices, served: CurrentModel, visitor: Leader) -> Response:
    """Show the sellers with their clients, and what they did last."""
    rows, interactions = feedback.latest_feedback(services.database, visitor, MAX_LATEST), served.interactions
    values = {
        "visitor": visitor, "sellers": _sellers(services, visitor),
        "latest": [(row, served.client_name(row.client), served.product_name(row.product)) for row in rows],
        "n_unassigned": interactions.n_users - len(services.assignments.read(served).all_clients()),
        "n_clients": interactions.n_users, "seller_column": find_seller_column(interactions),
    }  # fmt: skip
    return render(request, "team.html", values)


def _sellers(services: Services, visitor: Visitor) -> list[tuple[User, int]]:
    """Return the sellers of the visitor with the number of their clients."""
    with services.database.reading() as transaction:
        query = select(Assignment.user_id, func.count()).group_by(Assignment.user_id)
        n_clients = dict(transaction.execute(query).all())
        return [(user, n_clients.get(user.id, 0)) for user in overseen_sellers(transaction, visitor)]


@router.post(UPLOAD, dependencies=[GenuineForm])
def upload_assignments(services: CurrentServices, served: CurrentModel, visitor: Leader, file: UploadFile) -> Response:
    content = file.file.read()
    with services.database.reading() as transaction, services.computing:
        preview, _ = read_assignments(decode(content), served.interactions, transaction, visitor)
    name = (file.filename or "")[:LABEL]
    services.uploads.store(visitor.user.id, name, b"" if preview.n_errors else content, preview)
    return RedirectResponse("/team/assignments", 303)


@router.post("/team/assignments/match", dependencies=[GenuineForm])
def match_seller_column(services: CurrentServices, served: CurrentModel, visitor: Leader) -> Response:
    """Propose assignments by the column of the data that names a seller, as if they came in a file."""
    with services.database.reading() as transaction, services.computing:
        content, unmatched = match_sellers(served.interactions, transaction, visitor)
        preview, _ = read_assignments(content, served.interactions, transaction, visitor)
    preview.unmatched = unmatched
    services.uploads.store(visitor.user.id, "seller column", content.encode(), preview)
    return RedirectResponse("/team/assignments", 303)


@router.get("/team/assignments")
def show_preview(request: Request, services: CurrentServices, visitor: Leader) -> Response:
    upload = services.uploads.find(visitor.user.id)
    if upload.done:
        return RedirectResponse("/team", 303)
    values = {"visitor": visitor, "preview": upload.preview, "key": upload.key, "max_errors": MAX_ERRORS}
    return render(request, "assignments.html", values, status_code=422 if upload.preview.n_errors else 200)


@router.post("/team/assignments", dependencies=[GenuineForm])
def assign(services: CurrentServices, served: CurrentModel, visitor: Leader, key: Annotated[str, Form()]) -> Response:
    """Store all of the file or nothing; it is read again, since assignments may have changed after the preview."""
    upload = services.uploads.find(visitor.user.id, key)
    if upload.done or upload.preview.n_errors:
        return RedirectResponse("/team/assignments", 303)
    with services.database.writing() as transaction:
        lock(transaction, Assignment)
        content = services.uploads.take(transaction, upload)
        if content is None:  # another process was faster
            return RedirectResponse("/team", 303)
        preview, changes = read_assignments(decode(content), served.interactions, transaction, visitor)
        if preview.errors:
            raise ConflictError(f"Nothing was changed. {preview.errors[0]}")
        reassigned = describe_changes(changes, transaction)
        save_assignments(changes, transaction)
        subject = f"{preview.new} new, {preview.changed} changed, {preview.freed} freed"
        subject += f"; {upload.name}, {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()[:16]}"
        audit(transaction, visitor.user.name, "assignments imported", subject, visitor.address)
        name, address = visitor.user.name, visitor.address
        append(transaction, [entry(name, "client reassigned", change, address) for change in reassigned])
    services.assignments.invalidate()
    return RedirectResponse("/team", 303)


@router.get("/team/assignments.csv")
def export_assignments(services: CurrentServices, visitor: Leader) -> Response:
    services.view_log.write(visitor.user.name, "assignments exported", "", visitor.address)
    return services.exports.download(
        visitor, "assignments.csv", assignments.COLUMNS, assignments.export_rows(services.database, visitor)
    )


@router.get("/team/feedback.csv")
def export_feedback(services: CurrentServices, visitor: Leader) -> Response:
    services.view_log.write(visitor.user.name, "feedback exported", "", visitor.address)
    return services.exports.download(
        visitor, "feedback.csv", feedback.COLUMNS, feedback.export_rows(services.database, visitor)
    )
