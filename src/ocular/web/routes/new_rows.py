"""Pages for what the model has not seen: a prospect, and a new product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from ocular.cold_start.advice import NewRecommendations
from ocular.data.attributes import Features
from ocular.errors import DataError
from ocular.web.client_attributes import is_owner
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.errors import NotFoundError
from ocular.web.new_rows import clients_for_product, products_for_prospect
from ocular.web.registry import KIND_LABELS, ServedModel
from ocular.web.tables import LABEL
from ocular.web.templating import render

router = APIRouter()
N_PRODUCTS, N_CLIENTS, MAX_NAMES, MAX_SUGGESTIONS = 10, 50, 50, 200
PREFIX = "attribute."  # of the names of fields
Lines = Annotated[str, Query(max_length=LABEL * MAX_NAMES)]


@router.get("/prospect")
def show_prospect(
    request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, has: Lines = ""
) -> Response:
    """Recommend products to a company that is not a client yet, by what is known of it."""
    given, owned = _attributes(request), _lines(has)

    def find() -> NewRecommendations:
        return products_for_prospect(served, given, owned, N_PRODUCTS)

    with services.computing:
        features = served.advisor.model.cold_start().user_features
        values = _page(served, features, given, has, find) | {"visitor": visitor}
        return render(request, "prospect.html", values)


@router.get("/new-product")
def show_new_product(
    request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, buyers: Lines = ""
) -> Response:
    """List the clients, of those that the visitor may see, to offer a product that is not in the model."""
    given, clients = _attributes(request), services.visibility.clients_of(served, visitor)

    def find() -> NewRecommendations:
        return clients_for_product(services, served, visitor, given, _lines(buyers), N_CLIENTS)

    with services.computing:
        features = served.advisor.model.cold_start().item_features
        values = _page(served, features, given, buyers, find) | {"visitor": visitor, "has_clients": len(clients) > 0}
        return render(request, "new_product.html", values)


def _page(
    served: ServedModel, features: Features, given: dict[str, str], lines: str, find: Callable[[], NewRecommendations]
) -> dict[str, Any]:
    """Return what both pages show: the form as it was filled in, and what was found or the mistake in it."""
    mistake, found = None, []
    if given or _lines(lines):
        try:
            found = [_row(served, each) for each in find()]
        except (DataError, NotFoundError) as error:
            mistake = str(error)
    fields = [
        {
            "field": PREFIX + name,
            "name": name,
            "value": given.get(name, ""),
            "suggestions": _suggestions(features, name),
        }
        for name in features.columns
        if not is_owner(name)
    ]
    return {
        "fields": fields, "lines": lines, "found": found, "mistake": mistake,
        "currency": served.interactions.currency,
    }  # fmt: skip


def _row(served: ServedModel, each: Any) -> dict[str, Any]:
    """Return a recommendation as plain values; its reasons name no client."""
    data = served.interactions
    return {
        "client": None if each.user is None else str(data.user_labels[each.user]),
        "client_name": str(each.client), "product": None if each.item is None else str(data.item_labels[each.item]),
        "product_name": str(each.product), "confidence": each.confidence, "chance": each.chance, "value": each.value,
        "reasons": [
            (reason.kind, KIND_LABELS[reason.kind], reason.sentence_without_names)
            for reason in each.explanation.shown_reasons
        ],
    }  # fmt: skip


def _attributes(request: Request) -> dict[str, str]:
    """Return the fields of attributes that were filled in."""
    fields = {name.removeprefix(PREFIX): value for name, value in request.query_params.items() if PREFIX in name}
    return {name: value.strip()[:LABEL] for name, value in fields.items() if value.strip()}


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()][:MAX_NAMES]


def _suggestions(features: Features, name: str) -> list[str]:
    """Return the most frequent values of an attribute, in order."""
    degrees = features.holders.degrees
    own = [n for n, value in enumerate(features.values) if len(value) == 1 and value[0][0] == name]
    first = sorted(own, key=lambda n: -int(degrees[n]))[:MAX_SUGGESTIONS]
    return sorted(features.values[n][0][1] for n in first)
