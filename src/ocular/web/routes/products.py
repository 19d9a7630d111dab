"""The products, and a product with a campaign: the clients to offer it to."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from ocular.web import feedback
from ocular.web.campaign import (
    COLUMNS,
    MAX_EXPORT,
    Added,
    Campaign,
    CampaignFilter,
    add_to_calls,
    export_rows,
    plan_campaign,
    view_rows,
)
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices, GenuineForm
from ocular.web.errors import RefusedError
from ocular.web.feedback_seal import MAX_SEAL
from ocular.web.registry import ServedModel
from ocular.web.sellers import UNASSIGNED
from ocular.web.tables import LABEL
from ocular.web.templating import render

router = APIRouter()
PAGE_LENGTH, CATALOG_LENGTH, MAX_BUYERS, MAX_CHOSEN = 25, 50, 12, 100
SHORT_PAGE, BESTSELLER = 10, 10_000  # clients on a page of a product with so many owners, which take long to explain
CHANCES = (0, 5, 10, 20, 30, 50)  # per cent, to choose from

Name = Annotated[str, Query(max_length=LABEL)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]


class CatalogOrder(StrEnum):
    POTENTIAL = "potential"
    OWNERS = "owners"
    TREND = "trend"
    NAME = "name"


@router.get("/catalog")
def list_products(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    search: Name = "",
    family: Name = "",
    order: CatalogOrder = CatalogOrder.POTENTIAL,
    page: PageNumber = 1,
) -> Response:
    """Show all products with their owners and what they could bring among the visitor's clients."""
    interactions, catalog = served.interactions, served.catalog
    clients = services.visibility.clients_of(served, visitor)
    closed = feedback.closed_pairs(services, served)
    with services.computing:
        offered, worth = served.opportunities.potential(clients, closed)
        potential = np.bincount(offered.ravel(), weights=worth.ravel(), minlength=interactions.n_items)
        mine = np.bincount(interactions.by_user.take(clients).indices, minlength=interactions.n_items)
        owners, names = interactions.by_item.degrees, served.opportunities.product_names
        matching = np.ones(interactions.n_items, dtype=bool)
        if family and catalog.families is not None:
            matching[:] = False
            matching[catalog.families.rows(family)] = True
        costs = served.search_index.products.costs(search) if search.strip() else np.zeros(interactions.n_items)
        items = np.flatnonzero(matching & np.isfinite(costs))
        keys = {
            CatalogOrder.POTENTIAL: -potential, CatalogOrder.OWNERS: -owners,
            CatalogOrder.TREND: -potential if catalog.trends is None else -catalog.trends,
            CatalogOrder.NAME: served.opportunities.product_ranks,
        }  # fmt: skip
        items = items[np.lexsort((items, keys[order][items], np.round(costs[items], 1)))]
        n_pages = max(1, -(-len(items) // CATALOG_LENGTH))
        page = min(page, n_pages)
        shown = items[(page - 1) * CATALOG_LENGTH : page * CATALOG_LENGTH].tolist()
        filters = {"search": search, "family": family}
        values = filters | {
            "visitor": visitor, "currency": interactions.currency, "order": order, "page": page, "pages": n_pages,
            "products": [
                {
                    "label": str(interactions.item_labels[item]), "name": names[item],
                    "family": catalog.family_of(item), "owners": int(owners[item]),
                    "share": float(owners[item] / interactions.n_users), "mine": int(mine[item]),
                    "potential": float(potential[item]),
                    "trend": None if catalog.trends is None else float(catalog.trends[item]),
                }
                for item in shown
            ],
            "total": len(items), "n_clients": len(clients), "has_prices": served.opportunities.has_prices,
            "has_dates": catalog.trends is not None, "families": catalog.families,
            "highest": float(potential.max(initial=0.0)),
            "orders": {str(other): urlencode(filters | {"order": str(other)}) for other in CatalogOrder},
            "query": urlencode(filters | {"order": str(order)}),
        }  # fmt: skip
        return render(request, "catalog.html", values)


def campaign_filter(
    least: Annotated[str, Query(max_length=20)] = "", seller: Name = "", attribute: Name = ""
) -> CampaignFilter:
    """Return which clients a campaign is for; a chance that is no number counts as none."""
    percent = min(100, int(least)) if least.isascii() and least.isdecimal() else 0
    return CampaignFilter(percent / 100, seller, attribute)


Wanted = Annotated[CampaignFilter, Depends(campaign_filter)]


@router.get("/product")
def show_product(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    name: Name,
    wanted: Wanted,
    page: PageNumber = 1,
    select: str = "",
    added: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show a product, and the clients to offer it to, best first; `added` counts what was added to My calls."""
    item = served.find_product(name)
    campaign = plan_campaign(services, served, visitor, item, wanted)
    services.view_log.write(visitor.user.name, "product viewed", name, visitor.address)
    length = SHORT_PAGE if len(served.interactions.by_item[item]) > BESTSELLER else PAGE_LENGTH
    n_pages = max(1, -(-len(campaign.users) // length))
    page = min(page, n_pages)
    least = round(100 * wanted.min_chance)
    filters = {"name": name, "least": least, "seller": campaign.chosen.seller, "attribute": wanted.attribute}
    with services.computing:
        part = slice((page - 1) * length, page * length)
        values = _facts(served, campaign, item) | {
            "visitor": visitor, "currency": served.interactions.currency, "product": name,
            "rows": view_rows(services, served, campaign, part), "total": len(campaign.users),
            "page": page, "pages": n_pages, "query": urlencode(filters), "selected": select == "all",
            "least": least, "chances": CHANCES, "sellers": campaign.chosen.sellers,
            "seller": campaign.chosen.seller, "unassigned": UNASSIGNED, "attribute": wanted.attribute,
            "choices": served.opportunities.attributes.filters_of(campaign.chosen.clients), "max_export": MAX_EXPORT,
            "outcome": _outcome(added),
            "n_closed": campaign.n_closed, "labels": served.pattern_label,
        }  # fmt: skip
        return render(request, "product.html", values)


def _facts(served: ServedModel, campaign: Campaign, item: int) -> dict[str, Any]:
    """Return what the page says about the product itself."""
    interactions, catalog, expected = served.interactions, served.catalog, served.opportunities.expected_values
    names, owners = served.opportunities.product_names, interactions.by_item[item]
    mine = np.intersect1d(owners, campaign.chosen.clients)
    price, paid = float(expected.prices[item]), catalog.paid(item)
    client_names, worth = served.opportunities.client_names, price * expected.quantities[item]
    return {
        "product_name": names[item], "attributes": catalog.attributes_of(item), "family": catalog.family_of(item),
        "owners": len(owners), "share": len(owners) / interactions.n_users, "trend": catalog.trend_text(item),
        "price": price if np.isfinite(price) else None, "quantity": float(expected.quantities[item]),
        "paid": paid.tolist(), "has_prices": interactions.payments is not None,
        "potential": float(campaign.chances.sum() * worth) if np.isfinite(worth) else None,
        "expected_orders": float(campaign.chances.sum()), "is_recommended": catalog.is_recommended(item),
        "together": [
            (str(interactions.item_labels[other.item]), names[other.item], other) for other in catalog.together(item)
        ],
        "patterns": [number for number in catalog.patterns_of(item) if number in served.patterns],
        "n_mine": len(mine), "n_clients": len(campaign.chosen.clients),
        "buyers": [(str(interactions.user_labels[user]), client_names[user]) for user in mine[:MAX_BUYERS].tolist()],
    }  # fmt: skip


@router.get("/product/clients.csv")
def export_campaign(
    services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, name: Name, wanted: Wanted
) -> Response:
    item = served.find_product(name)
    campaign = plan_campaign(services, served, visitor, item, wanted)
    services.view_log.write(visitor.user.name, "campaign exported", name, visitor.address)
    return services.exports.download(visitor, "campaign.csv", COLUMNS, export_rows(services, served, campaign))


@router.post("/product/calls", dependencies=[GenuineForm])
def add_clients(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    product: Annotated[str, Form(max_length=LABEL)],
    chosen: Annotated[list[str] | None, Form(max_length=MAX_CHOSEN)] = None,
    query: Annotated[str, Form(max_length=4 * LABEL)] = "",
) -> Response:
    """Add the clients chosen to My calls; each is a JSON list of the client's label and the seal of what was shown."""
    served.find_product(product)
    counts = add_to_calls(services, served, visitor, product, [_read_choice(text) for text in chosen or []])
    numbers = "-".join(str(number) for number in vars(counts).values())
    back = query if query.startswith("name=") else urlencode({"name": product})
    return RedirectResponse(f"/product?{back}&added={numbers}#campaign", 303)


def _read_choice(text: str) -> tuple[str, str]:
    try:
        client, seal = json.loads(text)
    except ValueError:
        client = seal = None
    if not isinstance(client, str) or not isinstance(seal, str) or len(client) > LABEL or len(seal) > MAX_SEAL:
        raise RefusedError("This page expired; reload it and select the clients again")
    return client, seal


def _outcome(added: str) -> Added | None:
    """Return the counts in an address such as 12-0-1-0-0; None for anything else."""
    numbers = added.split("-")
    if len(numbers) != len(vars(Added())) or not all(number.isascii() and number.isdecimal() for number in numbers):
        return None
    return Added(*(min(int(number[:4]), MAX_CHOSEN) for number in numbers))
