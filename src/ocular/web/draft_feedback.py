"""What somebody wrote about a recommendation and could not be kept yet: shown again, so that it is not lost."""

from __future__ import annotations

from fastapi import Request, Response

from ocular.web.auth import Visitor
from ocular.web.tables import Verdict
from ocular.web.templating import render

FIELDS = ("client", "product", "verdict", "reason", "note", "back", "shown")


async def written(request: Request) -> dict[str, str]:
    """The fields of a form for feedback; nothing where it is another form."""
    form = await request.form()
    found = {name: value for name in FIELDS if isinstance(value := form.get(name), str)}
    return found if found.get("client") and found.get("product") else {}


def show_unkept(
    request: Request,
    visitor: Visitor | None,
    fields: dict[str, str],
    line: str,
    *,
    status_code: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    values = {
        "visitor": visitor, "said": dict.fromkeys(FIELDS, "") | fields, "line": line, "verdicts": list(Verdict),
    }  # fmt: skip
    return render(request, "draft_feedback.html", values, status_code=status_code, headers=headers)
