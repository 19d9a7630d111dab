"""A client: what to offer, what is due again, what they bought, who is like them; and a visit brief on one sheet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from ocular.feedback import CLOSED, Status
from ocular.web import feedback
from ocular.web.client_profile import patterns_of, seller_of, similar_clients, traits_of
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.due import view_due
from ocular.web.feedback_seal import seal_recommendation
from ocular.web.opportunities import DEPTH
from ocular.web.registry import ServedModel
from ocular.web.tables import Feedback, Role
from ocular.web.templating import render
from ocular.web.timeline import view_timeline
from ocular.web.views import view_recommendation

router = APIRouter()
MAX_DUE, MAX_SIMILAR = 10, 6
OFFERS, DUE_IN_BRIEF, OWNED_IN_BRIEF = 3, 5, 5


@router.get("/client")
def show_client(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    name: str,
    decided: str | None = None,
) -> Response:
    """Show the best recommendations for a client; `decided` is a product that has just got a status."""
    user = services.visibility.find_client(served, visitor, name)
    latest, key = feedback.latest_by_product(services.database, name), services.signing_key
    readable = services.visibility.readable_names(served, visitor)
    visible = services.visibility.clients_of(served, visitor)
    seller = None if visitor.role is Role.SELLER else seller_of(services.database, name) or "Unassigned"
    closed = [row for row in reversed(latest.values()) if row.status in CLOSED]
    services.view_log.write(visitor.user.name, "client viewed", name, visitor.address)
    with services.computing:
        without = _products_of(served, closed)
        recommendations = [
            (
                view_recommendation(served, recommendation, readable, evidence=False),
                seal_recommendation(key, served, recommendation),
            )
            for recommendation in served.advisor.recommend(name, DEPTH, without=without)
        ]
        services.shown.note(visitor, [(name, view.product) for view, _ in recommendations], served)
        values = _profile(served, user, name, MAX_DUE) | {
            "visitor": visitor, "seller": seller, "latest": latest, "statuses": list(Status),
            "is_new": served.is_new_pair,
            "closed": [(row, served.product_name(row.product)) for row in closed], "unfolded": decided in without,
            "recommendations": recommendations, "patterns": patterns_of(served, user),
            "similar": similar_clients(served, user, readable, visible, MAX_SIMILAR),
        }  # fmt: skip
        return render(request, "client.html", values)


@router.get("/client/brief")
def show_brief(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    name: str,
    names: Annotated[bool, Query(description="Whether other clients are named.")] = True,
) -> Response:
    """Show what a seller takes to a visit, on one sheet of A4."""
    user = services.visibility.find_client(served, visitor, name)
    readable = services.visibility.readable_names(served, visitor)
    closed = [row for row in feedback.latest_by_product(services.database, name).values() if row.status in CLOSED]
    seller = seller_of(services.database, name)
    services.view_log.write(visitor.user.name, "visit brief viewed", name, visitor.address)
    with services.computing:
        named = readable if names else np.zeros_like(readable)
        best = served.advisor.recommend(name, OFFERS, without=_products_of(served, closed))
        values = _profile(served, user, name, DUE_IN_BRIEF) | {
            "visitor": visitor, "seller": seller, "names": names, "today": datetime.now(UTC).date(),
            "offers_list": [view_recommendation(served, each, named, evidence=False) for each in best],
            "patterns": patterns_of(served, user), "max_owned": OWNED_IN_BRIEF,
        }  # fmt: skip
        return render(request, "brief.html", values)


def _profile(served: ServedModel, user: int, name: str, max_due: int) -> dict[str, Any]:
    """Return what the page and the brief say of the client itself."""
    due = view_due(served, name, max_due)
    return {
        "client": name, "client_name": served.client_name(name), "currency": served.interactions.currency,
        "traits": traits_of(served, user), "due": due, "timeline": view_timeline(served.interactions, user, due.as_of),
    }  # fmt: skip


def _products_of(served: ServedModel, closed: list[Feedback]) -> list[str]:
    """Return the products that nothing more is to be done about, as far as the model knows them."""
    return [row.product for row in closed if row.product in served.interactions.item_rows]
