"""Pages with the buying patterns."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.errors import NotFoundError
from ocular.web.templating import render
from ocular.web.views import view_pattern

router = APIRouter()
MAX_MEMBERS = 100


@router.get("/patterns")
def list_patterns(request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor) -> Response:
    readable = services.visibility.readable_names(served, visitor)
    by_share = sorted(served.patterns.values(), key=lambda pattern: -pattern.share)
    with services.computing:
        values = {"visitor": visitor, "patterns": [view_pattern(served, pattern, readable) for pattern in by_share]}
        return render(request, "patterns.html", values)


@router.get("/pattern")
def show_pattern(
    request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, number: int
) -> Response:
    pattern = served.patterns.get(number)
    if pattern is None:
        raise NotFoundError("there is no such pattern")
    readable = services.visibility.readable_names(served, visitor)
    with services.computing:
        values = {
            "visitor": visitor, "pattern": view_pattern(served, pattern, readable, MAX_MEMBERS),
            "max_members": MAX_MEMBERS,
        }  # fmt: skip
        return render(request, "pattern.html", values)
