"""Buying patterns to browse and learn from."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ocular.web.errors import NotFoundError
from ocular.web.services import AnyVisitor, App, Model
from ocular.web.templating import render
from ocular.web.views import show_pattern

router = APIRouter()
MEMBERS = 100


@router.get("/patterns")
def patterns(request: Request, app: App, served: Model, visitor: AnyVisitor) -> Response:
    shown = app.names_shown(served, visitor)
    by_share = sorted(served.patterns.values(), key=lambda pattern: -pattern.share)
    with app.computing:
        values = {"visitor": visitor, "patterns": [show_pattern(served, pattern, shown) for pattern in by_share]}
        return render(request, "patterns.html", values)


@router.get("/pattern")
def pattern(request: Request, app: App, served: Model, visitor: AnyVisitor, number: int) -> Response:
    found = served.patterns.get(number)
    if found is None:
        raise NotFoundError("there is no such pattern")
    shown = app.names_shown(served, visitor)
    with app.computing:
        told = show_pattern(served, found, shown, MEMBERS)
        return render(request, "pattern.html", {"visitor": visitor, "pattern": told, "most": MEMBERS})
