"""Pages with the buying patterns: the index with its map, one pattern, its name, and the tour for new sellers."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from ocular.explain.coclusters import CoCluster
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices, GenuineForm, Leader
from ocular.web.errors import NotFoundError
from ocular.web.feedback import closed_pairs
from ocular.web.pattern_index import PatternIndex, PatternOrder, sort_key
from ocular.web.pattern_tour import topics, tour_of_clients, tour_of_pattern
from ocular.web.pattern_views import best_openings, name_products, view_bubbles, view_card, view_matrix
from ocular.web.registry import ServedModel
from ocular.web.tables import Role
from ocular.web.templating import render
from ocular.web.views import view_pattern

router = APIRouter()
MAX_MEMBERS = 100
MAX_TEXT = 200
WHOSE = {Role.SELLER: "My clients", Role.MANAGER: "My team's clients", Role.ADMIN: "All clients"}


@router.get("/patterns")
def list_patterns(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    search: str = "",
    client_value: str = "",
    product_value: str = "",
    mine: bool = False,
    sort: PatternOrder = PatternOrder.SHARE,
) -> Response:
    """Show the patterns that match; `client_value` and `product_value` are choices such as "industry=Insurance"."""
    index, search = served.pattern_index, search[:MAX_TEXT]
    counts = index.clients_in(services.visibility.clients_of(served, visitor))
    choices = {side: _choices(index, side) for side in ("client", "product")}
    chosen = {"client": client_value, "product": product_value}
    wanted = {side: choices[side][key] for side, key in chosen.items() if key in choices[side]}
    with services.computing:
        matching = [
            pattern
            for pattern in index.patterns
            if index.matches(pattern, served.pattern_label(pattern.index), search)
            and (not mine or counts[pattern.index])
            and all(index.is_typical(pattern, side, *choice) for side, choice in wanted.items())
        ]
        matching.sort(key=lambda pattern: -sort_key(pattern, sort))
        shown = [pattern for pattern in matching if not index.is_minor(pattern)]
        minor = [pattern for pattern in matching if index.is_minor(pattern)]
        values = {
            "visitor": visitor, "whose": WHOSE[visitor.role], "total": len(index.patterns), "search": search,
            "chosen": chosen, "mine": mine, "sort": sort,
            "choices": {side: _grouped(known) for side, known in choices.items()},
            "filtered": bool(search or mine or wanted),
            "cards": [view_card(served, pattern, counts[pattern.index]) for pattern in shown],
            "minor": [view_card(served, pattern, counts[pattern.index]) for pattern in minor],
            "map": index.bubble_map, "bubbles": view_bubbles(served, counts, {pattern.index for pattern in shown}),
        }  # fmt: skip
        return render(request, "patterns.html", values)


Choice = tuple[str, str]  # attribute and value


def _choices(index: PatternIndex, side: str) -> dict[str, Choice]:
    """Return what a filter offers, by the text that its form sends."""
    known = index.client_categories if side == "client" else index.product_categories
    return {f"{name}={value}": (name, value) for name, category in known.items() for value in category.values}


def _grouped(choices: dict[str, Choice]) -> dict[str, list[tuple[str, str]]]:
    """Return for each attribute the pairs of what a form sends and what people read."""
    grouped: dict[str, list[tuple[str, str]]] = {}
    for key, (attribute, value) in choices.items():
        grouped.setdefault(attribute, []).append((key, value))
    return grouped


def _find(served: ServedModel, number: int) -> CoCluster:
    if number not in served.patterns:
        raise NotFoundError("Pattern not found")
    return served.patterns[number]


@router.get("/pattern")
def show_pattern(
    request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, number: int
) -> Response:
    pattern = _find(served, number)
    readable = services.visibility.readable_names(served, visitor)
    mine = services.visibility.clients_of(served, visitor)
    closed = closed_pairs(services, served)
    with services.computing:
        own = pattern.users[np.isin(pattern.users, mine)]
        values = {
            "visitor": visitor, "currency": served.interactions.currency, "whose": WHOSE[visitor.role],
            "pattern": view_pattern(served, pattern, readable, MAX_MEMBERS), "max_members": MAX_MEMBERS,
            "matrix": view_matrix(served, pattern, mine, readable), "n_mine": len(own),
            "products": name_products(served, pattern.items[:MAX_MEMBERS]),
            "profiles": served.pattern_index.profiles(number),
            "openings": best_openings(served, own, pattern.items, closed),
            "renamed": number in services.pattern_names.names_of(served), "automatic": pattern.label,
            "may_rename": visitor.role is not Role.SELLER,
        }  # fmt: skip
        return render(request, "pattern.html", values)


@router.post("/pattern/name", dependencies=[GenuineForm])
def rename_pattern(
    services: CurrentServices,
    served: CurrentModel,
    visitor: Leader,
    number: Annotated[int, Form()],
    name: Annotated[str, Form(max_length=MAX_TEXT)] = "",
) -> Response:
    """Give a pattern a name, or with an empty one its automatic name back."""
    _find(served, number)
    services.pattern_names.rename(served, visitor, number, name)
    return RedirectResponse(f"/pattern?number={number}", 303)


@router.get("/patterns/tour")
def show_tour(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    about: str = "",
    number: int | None = None,
) -> Response:
    """Show how some clients buy: those with an attribute value such as "industry=Insurance", or those of a pattern."""
    index, choices = served.pattern_index, topics(served)
    mine = services.visibility.clients_of(served, visitor)
    closed = closed_pairs(services, served)
    with services.computing:
        tour = None
        if number is not None:
            tour = tour_of_pattern(served, _find(served, number), mine, closed)
        elif about:
            if about not in choices:
                raise NotFoundError("There is no tour of these clients; choose one from the list")
            tour = tour_of_clients(served, *choices[about], mine, closed)
        values = {
            "visitor": visitor, "tour": tour, "about": about, "number": number, "whose": WHOSE[visitor.role],
            "choices": _grouped(choices),
            "patterns": [(p.index, served.pattern_label(p.index)) for p in index.patterns if not index.is_minor(p)],
        }  # fmt: skip
        return render(request, "tour.html", values)
