"""The list of clients, and what is being pursued."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from numpy.typing import NDArray

from ocular.web import feedback
from ocular.web.auth import Visitor
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.opportunities import Order
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.tables import LABEL, User
from ocular.web.templating import render
from ocular.web.visibility import overseen_sellers

router = APIRouter()
PAGE_LENGTH, MAX_CALLS = 50, 500
UNASSIGNED = "-"  # in place of a seller's name, which never begins so


@router.get("/")
def home(visitor: AnyVisitor) -> Response:  # noqa: ARG001  only when signed in
    return RedirectResponse("/accounts", 303)


@router.get("/accounts")
def list_clients(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    search: Annotated[str, Query(max_length=LABEL)] = "",
    product: Annotated[str, Query(max_length=LABEL)] = "",
    least: Annotated[str, Query(max_length=20)] = "",
    order: Order = Order.VALUE,
    seller: Annotated[str, Query(max_length=LABEL)] = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    with services.database.reading() as transaction:
        sellers = overseen_sellers(transaction, visitor)
    if seller not in {UNASSIGNED, *(user.name for user in sellers)}:
        seller = ""
    clients = _clients_of(services, served, visitor, sellers, seller)
    closed = feedback.closed_pairs(services.database, served.interactions, visitor)
    min_percent = _percentage(least)
    with services.computing:
        products = served.opportunities.find_products(product) if product.strip() else None
        unknown = products is not None and not len(products)
        listed = served.opportunities.page(
            clients, closed, search=search, products=None if unknown else products, min_confidence=min_percent / 100,
            order=order, number=page, length=PAGE_LENGTH,
        )  # fmt: skip
        filters = {"search": search, "product": product, "least": min_percent, "seller": seller}
        values = filters | {
            "visitor": visitor, "currency": served.interactions.currency, "clients": listed.clients,
            "total": listed.total, "page": listed.number, "pages": listed.n_pages,
            "unknown": product if unknown else None, "sellers": sellers, "unassigned": UNASSIGNED, "order": order,
            "orders": {str(other): urlencode(filters | {"order": str(other)}) for other in Order},
            "query": urlencode(filters | {"order": str(order)}),
        }  # fmt: skip
        return render(request, "clients.html", values)


def _percentage(text: str) -> int:
    """Return a percentage as people type it; 0 for nothing or for no number."""
    try:
        return min(100, max(0, int(text)))
    except ValueError:
        return 0


def _clients_of(
    services: Services, served: ServedModel, visitor: Visitor, sellers: list[User], seller: str
) -> NDArray[np.int64]:
    """Return the rows of the visible clients, of one seller or of nobody where that is chosen."""
    clients = services.visibility.clients_of(served, visitor)
    if not seller:
        return clients
    assigned = services.assignments.read(served)
    if seller == UNASSIGNED:
        return np.setdiff1d(clients, assigned.all_clients())
    (user_id,) = (user.id for user in sellers if user.name == seller)
    return np.intersect1d(clients, assigned.clients_of(user_id))


@router.get("/calls")
def list_calls(request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor) -> Response:
    """Show what was marked as worth pursuing and is neither won nor lost."""
    rows = feedback.pursued_recommendations(services.database, visitor, MAX_CALLS)
    items, expected_values = served.interactions.item_rows, served.opportunities.expected_values
    with services.computing:
        calls = [
            {
                "feedback": row, "client_name": served.client_name(row.client),
                "product_name": served.product_name(row.product),
                "value": expected_values.value(items[row.product], row.confidence) if row.product in items else None,
            }
            for row in rows
        ]  # fmt: skip
        values = {
            "visitor": visitor, "currency": served.interactions.currency, "calls": calls, "max_calls": MAX_CALLS,
        }  # fmt: skip
        return render(request, "calls.html", values)
