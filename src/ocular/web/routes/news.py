"""What's new after a refit, for the clients of the visitor."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.feedback import closed_pairs
from ocular.web.news import news_page
from ocular.web.tables import LABEL
from ocular.web.templating import render
from ocular.web.visibility import overseen_sellers

router = APIRouter()
TITLES = {"new": "New", "dropped": "Dropped", "moved": "Moved"}


@router.get("/news")
def show_news(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    kind: Literal["new", "dropped", "moved"] = "new",
    seller: Annotated[str, Query(max_length=LABEL)] = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    clients, changes = services.visibility.clients_of(served, visitor), served.comparison.changes
    with services.database.reading() as transaction:
        sellers = overseen_sellers(transaction, visitor)
    chosen = next((user for user in sellers if user.name == seller), None)
    if chosen is not None:
        clients = services.assignments.read(served).clients_of(chosen.id)
    values: dict[str, Any] = {
        "visitor": visitor, "currency": served.interactions.currency, "served": served, "kinds": TITLES, "kind": kind,
        "sellers": sellers, "seller": seller, "since": changes.since if changes else "", "has_clients": len(clients),
        "link": lambda **fields: f"/news?{urlencode({'kind': kind, 'seller': seller} | fields)}", "news": None,
    }  # fmt: skip
    if changes is not None:
        closed = closed_pairs(services, served)
        with services.computing:
            values["news"] = news_page(served, changes, clients, closed, kind=kind, number=page)
        values["reasons"] = [(name, count, f"{count:,}") for name, count in values["news"].reasons]
        services.news.mark_seen(served, visitor)
    return render(request, "news.html", values)
