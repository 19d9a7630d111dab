"""Users from a CSV file, for administrators: reviewed, stored as a whole, invited."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.responses import RedirectResponse

from ocular.web.assignments import MAX_ERRORS, decode
from ocular.web.audit import audit
from ocular.web.database import lock
from ocular.web.dependencies import Admin, CurrentServices, GenuineForm, session_secret, site_address
from ocular.web.errors import ConflictError
from ocular.web.invitations import invitation_address
from ocular.web.middleware import USERS_UPLOAD
from ocular.web.tables import LABEL, User
from ocular.web.templating import render
from ocular.web.user_import import LINK_COLUMNS, read_users, save_users

router = APIRouter()
MAX_LISTED = 200  # users that the review lists; the others are counted


@router.post(USERS_UPLOAD, dependencies=[GenuineForm])
def upload_users(services: CurrentServices, visitor: Admin, file: UploadFile) -> Response:
    content = file.file.read()
    with services.database.reading() as transaction:
        preview = read_users(decode(content), transaction, visitor)
    name = (file.filename or "")[:LABEL]
    services.uploads.store(visitor.user.id, name, b"" if preview.n_errors else content, preview, "users")
    return RedirectResponse("/admin/users/import", 303)


@router.get("/admin/users/import")
def review_users(request: Request, services: CurrentServices, visitor: Admin) -> Response:
    """Show what the file would change, and afterwards the invitations, as long as the file would have been kept."""
    upload = services.uploads.find(visitor.user.id, kind="users")
    values = {
        "visitor": visitor, "preview": upload.preview, "key": upload.key, "max_errors": MAX_ERRORS,
        "done": upload.done, "links": upload.links(session_secret(request, services)), "max_listed": MAX_LISTED,
    }  # fmt: skip
    return render(request, "users_preview.html", values, status_code=422 if upload.preview.n_errors else 200)


@router.post("/admin/users/import", dependencies=[GenuineForm])
def import_users(request: Request, services: CurrentServices, visitor: Admin, key: Annotated[str, Form()]) -> Response:
    """Store all of the file or nothing; it is read again, since users may have changed after the review."""
    upload = services.uploads.find(visitor.user.id, key, "users")
    if not upload.done and not upload.preview.n_errors:
        with services.database.writing() as transaction:
            lock(transaction, User)
            content = services.uploads.take(transaction, upload)
            if content is None:  # another process was faster
                return RedirectResponse("/admin/users/import", 303)
            preview = read_users(decode(content), transaction, visitor)
            if preview.errors:
                raise ConflictError(f"Nothing was changed. {preview.errors[0]}")
            invited = save_users(preview, transaction)
            subject = f"{preview.count('New')} new, {preview.count('Updated')} updated"
            subject += f"; {upload.name}, sha256 {hashlib.sha256(content).hexdigest()[:16]}"
            audit(transaction, visitor.user.name, "users imported", subject, visitor.address)
            for user, _ in invited:
                audit(transaction, visitor.user.name, "user invited", user.name, visitor.address)
            site = site_address(request, secure=services.settings.secure)
            links: list[dict[str, object]] = [
                {"username": user.name, "name": user.full_name, "link": invitation_address(site, token)}
                for user, token in invited
            ]
            services.uploads.keep_links(transaction, upload, links, session_secret(request, services))
        services.assignments.invalidate()  # it holds the teams too
    return RedirectResponse("/admin/users/import", 303)


@router.get("/admin/users/invitations.csv")
def export_invitations(request: Request, services: CurrentServices, visitor: Admin) -> Response:
    upload = services.uploads.find(visitor.user.id, kind="users")
    links = upload.links(session_secret(request, services))
    services.view_log.write(visitor.user.name, "invitations exported", f"{len(links)} links", visitor.address)
    return services.exports.download(visitor, "invitations.csv", LINK_COLUMNS, links)
