"""Search for clients, products and patterns: a page, and suggestions while somebody types."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from ocular.web.auth import Visitor
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.registry import ServedModel
from ocular.web.search import Found, NameIndex, best_cost, best_matches
from ocular.web.services import Services
from ocular.web.tables import LABEL
from ocular.web.templating import render

router = APIRouter()
ON_PAGE, SUGGESTED = 12, 4  # results of each kind

Text = Annotated[str, Query(max_length=LABEL)]


@dataclass(frozen=True)
class Result:
    """A client, product or pattern."""

    name: str
    address: str
    detail: str


@dataclass(frozen=True)
class Group:
    """The results of one kind, best first."""

    kind: str
    results: list[Result]
    total: int


@router.get("/search")
def search_page(
    request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, q: Text = ""
) -> Response:
    values = {"visitor": visitor, "q": q, "groups": _search(services, served, visitor, q, ON_PAGE)}
    return render(request, "search.html", values)


@router.get("/search.json")
def suggest(services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, q: Text = "") -> JSONResponse:
    return JSONResponse([asdict(group) for group in _search(services, served, visitor, q, SUGGESTED)])


def _search(services: Services, served: ServedModel, visitor: Visitor, query: str, limit: int) -> list[Group]:
    """Return the groups that have results: clients that the visitor may see, products and patterns."""
    if not query.strip():
        return []
    clients = services.visibility.clients_of(served, visitor)
    with services.computing:
        interactions, index = served.interactions, served.search_index
        numbers = list(served.patterns)
        names = NameIndex([served.pattern_label(number) for number in numbers])
        sizes = np.array([len(served.patterns[number].users) for number in numbers], dtype=np.int64)
        of_clients, of_products, of_patterns = (part.costs(query) for part in (index.clients, index.products, names))
        best = min(best_cost(of_clients, clients), best_cost(of_products), best_cost(of_patterns))
        mine = best_matches(of_clients, interactions.by_user.degrees, best, limit, clients)
        products = best_matches(of_products, interactions.by_item.degrees, best, limit)
        patterns = best_matches(of_patterns, sizes, best, limit)
        groups = [
            _group("Clients", mine, [_client(served, user) for user in mine.rows]),
            _group("Products", products, [_product(served, item) for item in products.rows]),
            _group("Patterns", patterns, [_pattern(served, numbers[row]) for row in patterns.rows]),
        ]
    return [group for group in groups if group.results]


def _group(kind: str, found: Found, results: list[Result]) -> Group:
    return Group(kind, results, found.total)


def _client(served: ServedModel, user: int) -> Result:
    label, bought = str(served.interactions.user_labels[user]), len(served.interactions.by_user[user])
    address = f"/client?{urlencode({'name': label})}"
    return Result(served.opportunities.client_names[user], address, _counted(bought, "product"))


def _product(served: ServedModel, item: int) -> Result:
    label, owners = str(served.interactions.item_labels[item]), len(served.interactions.by_item[item])
    family = served.catalog.family_of(item)
    detail = " · ".join([*([family] if family else []), _counted(owners, "owner")])
    return Result(served.opportunities.product_names[item], f"/product?{urlencode({'name': label})}", detail)


def _pattern(served: ServedModel, number: int) -> Result:
    pattern = served.patterns[number]
    detail = f"{_counted(len(pattern.users), 'client')} · {_counted(len(pattern.items), 'product')}"
    return Result(served.pattern_label(number), f"/pattern?number={number}", detail)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
