"""The page with the whitespace grid."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from ocular.web import feedback
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.errors import NotFoundError
from ocular.web.sellers import UNASSIGNED, choose_clients
from ocular.web.tables import LABEL
from ocular.web.templating import render
from ocular.web.whitespace import MAX_COLUMNS, fill_grid, find_columns

router = APIRouter()
PAGE_LENGTH = 30


@router.get("/whitespace")
def show_whitespace(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    family: Annotated[str, Query(max_length=LABEL)] = "",
    seller: Annotated[str, Query(max_length=LABEL)] = "",
    order: Literal["value", "name"] = "value",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    """Show clients × families of products, or × the products of one family."""
    families, grid = find_columns(served), find_columns(served, family)
    if families is None or grid is None:
        raise NotFoundError("Product family not found")
    chosen = choose_clients(services, served, visitor, seller)
    closed = feedback.closed_pairs(services, served)
    names = served.opportunities.client_names
    with services.computing:
        _, worth = served.opportunities.potential(chosen.clients, closed)
        potential = worth.sum(axis=1)
        by_name = served.opportunities.client_ranks[chosen.clients]
        ranked = np.argsort(by_name if order == "name" else -potential, kind="stable")
        n_pages = max(1, -(-len(ranked) // PAGE_LENGTH))
        page = min(page, n_pages)
        shown = ranked[(page - 1) * PAGE_LENGTH : page * PAGE_LENGTH]
        users = chosen.clients[shown]
        cells = fill_grid(served, services.database, users, grid.columns)
        filters = {"family": family, "seller": chosen.seller}
        clients = [(str(served.interactions.user_labels[user]), names[user]) for user in users.tolist()]
        values = filters | {
            "visitor": visitor, "currency": served.interactions.currency, "grid": grid, "max_columns": MAX_COLUMNS,
            "rows": list(zip(clients, potential[shown].tolist(), cells, strict=True)), "total": len(ranked),
            "page": page, "pages": n_pages, "order": order, "sellers": chosen.sellers, "unassigned": UNASSIGNED,
            "has_prices": served.opportunities.has_prices,
            "family_name": next((column.name for column in families.columns if column.key == family), ""),
            "orders": {other: urlencode(filters | {"order": other}) for other in ("value", "name")},
            "query": urlencode(filters | {"order": order}),
            "family_query": urlencode({"seller": chosen.seller, "order": order}),
        }  # fmt: skip
        return render(request, "whitespace.html", values)
