"""Feedback that was written but could not be stored yet: shown again, so that it is not lost."""

from __future__ import annotations

from fastapi import Request, Response

from ocular.feedback import Status
from ocular.web.auth import Visitor
from ocular.web.feedback_fields import first_filled
from ocular.web.registry import ServedModel
from ocular.web.templating import render

FIELDS = ("client", "product", "status", "reason", "note", "due", "amount", "back", "seal")


async def read_draft(request: Request) -> dict[str, str]:
    """Return the fields of a feedback form; nothing where the request is another form."""
    form = await request.form()
    fields = {name: first_filled(value for value in form.getlist(name) if isinstance(value, str)) for name in FIELDS}
    return fields if fields.get("client") and fields.get("product") else {}


def render_draft(
    request: Request,
    visitor: Visitor | None,
    draft: dict[str, str],
    line: str,
    *,
    status_code: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a page with the filled-in form and one line that says why it was not stored."""
    draft = dict.fromkeys(FIELDS, "") | draft
    served: ServedModel = request.app.state.services.served
    values = {
        "visitor": visitor, "draft": draft, "line": line, "statuses": list(Status),
        "client_name": served.client_name(draft["client"]), "product_name": served.product_name(draft["product"]),
    }  # fmt: skip
    return render(request, "draft_feedback.html", values, status_code=status_code, headers=headers)
