"""Accounts: the list of clients."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from ocular.web import feedback
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.opportunities import Order
from ocular.web.sellers import UNASSIGNED, choose_clients
from ocular.web.tables import LABEL
from ocular.web.templating import render
from ocular.web.visibility import owner_names

router = APIRouter()
PAGE_LENGTH = 50


@router.get("/accounts")
def list_clients(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    search: Annotated[str, Query(max_length=LABEL)] = "",
    product: Annotated[str, Query(max_length=LABEL)] = "",
    min_chance: Annotated[str, Query(max_length=20)] = "",
    having: Annotated[list[str] | None, Query()] = None,
    order: Order = Order.VALUE,
    seller: Annotated[str, Query(max_length=LABEL)] = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    visible = choose_clients(services, served, visitor, seller)
    clients, sellers, seller = visible.clients, visible.sellers, visible.seller
    closed = feedback.closed_pairs(services, served)
    min_percent, attributes = _percentage(min_chance), served.opportunities.attributes.filters_of(clients)
    keys = {key for choices in attributes.values() for key in choices}
    chosen = [key for key in having or [] if key in keys]
    with services.computing:
        products = served.opportunities.find_products(product) if product.strip() else None
        unknown = products is not None and not len(products)
        listed = served.opportunities.page(
            clients, closed, search=search, products=None if unknown else products, having=chosen,
            min_chance=min_percent / 100, order=order, number=page, length=PAGE_LENGTH,
        )  # fmt: skip
    with services.database.reading() as transaction:
        seller_of = owner_names(transaction, [client.client for client in listed.clients]) if sellers else {}
    with services.computing:
        filters: dict[str, str | int] = {"search": search, "product": product, "min_chance": min_percent or ""}
        filters |= {"seller": seller}
        values = filters | {
            "visitor": visitor, "currency": served.interactions.currency, "clients": listed.clients,
            "total": listed.total, "page": listed.number, "pages": listed.n_pages, "attributes": attributes,
            "columns": list(served.opportunities.attributes.values),
            "chosen": chosen, "unknown": product if unknown else None, "sellers": sellers, "unassigned": UNASSIGNED,
            "seller_of": seller_of, "order": order, "priced": served.opportunities.has_prices,
            "is_new": served.is_new_pair,
            "orders": {str(other): _query(filters, chosen, other) for other in Order},
            "query": _query(filters, chosen, order), "filtered": bool(chosen or any(filters.values())),
            "narrowed": bool(chosen or product or min_percent or seller),
        }  # fmt: skip
        return render(request, "clients.html", values)


def _query(filters: dict[str, str | int], having: list[str], order: Order) -> str:
    """Return the part of an address that asks for the same list again, in an order."""
    filled = [(name, value) for name, value in filters.items() if value]
    return urlencode([*filled, *(("having", key) for key in having), ("order", str(order))])


def _percentage(text: str) -> int:
    """Return a percentage as people type it; 0 for nothing or for no number."""
    try:
        return min(100, max(0, int(text)))
    except ValueError:
        return 0
