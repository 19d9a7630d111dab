"""Buying patterns to browse and learn from."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ocular.web.access import AnyVisitor, App
from ocular.web.errors import NotFoundError
from ocular.web.templating import render
from ocular.web.views import show_pattern

router = APIRouter()
MEMBERS = 100


@router.get("/patterns")
def patterns(request: Request, app: App, visitor: AnyVisitor) -> Response:
    served, shown = app.served, app.names_shown(visitor)
    by_share = sorted(served.patterns.values(), key=lambda pattern: -pattern.share)
    values = {"visitor": visitor, "patterns": [show_pattern(served, pattern, shown) for pattern in by_share]}
    return render(request, "patterns.html", values)


@router.get("/pattern")
def pattern(request: Request, app: App, visitor: AnyVisitor, number: int) -> Response:
    found = app.served.patterns.get(number)
    if found is None:
        raise NotFoundError("there is no such pattern")
    shown = show_pattern(app.served, found, app.names_shown(visitor), MEMBERS)
    return render(request, "pattern.html", {"visitor": visitor, "pattern": shown, "most": MEMBERS})
