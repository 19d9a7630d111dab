"""My accounts, a client, a recommendation, and what a person makes of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from numpy.typing import NDArray
from sqlalchemy import select

from ocular.advisor import Recommendation
from ocular.explain.names import product_name
from ocular.web import feedback
from ocular.web.auth import Visitor
from ocular.web.errors import ConflictError, NotFoundError
from ocular.web.feedback_seal import MOST, Shown, seal, unseal
from ocular.web.opportunities import DEPTH, Order
from ocular.web.registry import Served
from ocular.web.services import AnyVisitor, App, Application, Genuine, Model, find_product
from ocular.web.tables import CLOSED, LABEL, NOTE, Role, User, Verdict
from ocular.web.templating import render
from ocular.web.views import show_recommendation

router = APIRouter()
PAGE, MOST_ALSO, MOST_PURSUED = 50, 10, 500
NOBODYS = "-"  # in place of a seller's name, which never begins so


@router.get("/")
def accounts(
    request: Request,
    app: App,
    served: Model,
    visitor: AnyVisitor,
    search: Annotated[str, Query(max_length=LABEL)] = "",
    product: Annotated[str, Query(max_length=LABEL)] = "",
    least: Annotated[str, Query(max_length=20)] = "",
    order: Order = Order.VALUE,
    seller: Annotated[str, Query(max_length=LABEL)] = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    history, sellers = served.advisor.model.interactions_, _sellers(app, visitor)
    chosen = seller if seller in {NOBODYS, *(found.name for found in sellers)} else ""
    clients, closed = (
        _clients(app, served, visitor, sellers, chosen),
        feedback.closed_pairs(app.database, history, visitor),
    )
    lowest = _whole(least)
    with app.computing:
        wanted = served.opportunities.products(product) if product.strip() else None
        unknown = product if wanted is not None and not len(wanted) else None
        found = served.opportunities.page(
            clients, closed, search=search, products=None if unknown else wanted, least=lowest / 100, order=order,
            number=page, length=PAGE,
        )  # fmt: skip
        names = [history.user_labels[account.client] for account in found.accounts]
        kept = {"search": search, "product": product, "least": lowest, "seller": chosen}
        values = {
            "accounts": list(zip(names, found.accounts, strict=True)), "total": found.total, "page": found.number,
            "pages": found.pages, "search": search, "product": product, "least": lowest, "unknown": unknown,
            "order": order, "orders": {str(o): urlencode(kept | {"order": str(o)}) for o in Order},
            "seller": chosen, "sellers": sellers, "nobodys": NOBODYS, "query": urlencode(kept | {"order": str(order)}),
        }  # fmt: skip
        return _page(request, served, visitor, "clients.html", values)


def _whole(text: str) -> int:
    """A percentage as people type it; nothing, or no number, asks for nothing."""
    try:
        return min(100, max(0, int(text)))
    except ValueError:
        return 0


def _sellers(app: Application, visitor: Visitor) -> list[User]:
    """Whose clients a manager or administrator may choose to see alone."""
    if visitor.role is Role.SELLER:
        return []
    with app.database.reading() as transaction:
        found = transaction.scalars(select(User).where(User.role == Role.SELLER).order_by(User.name))
        return [user for user in found if visitor.role is Role.ADMIN or visitor.in_team(user.id, user.team)]


def _clients(app: Application, served: Served, visitor: Visitor, sellers: list[User], seller: str) -> NDArray[np.int64]:
    clients = app.clients_of(served, visitor)
    if not seller:
        return clients
    of_user = app.assignments(served).of_user
    if seller == NOBODYS:
        return np.setdiff1d(clients, np.concatenate([np.empty(0, dtype=np.int64), *of_user.values()]))
    (user,) = (found.id for found in sellers if found.name == seller)
    return of_user.get(user, np.empty(0, dtype=np.int64))


@router.get("/pursued")
def pursued(request: Request, app: App, served: Model, visitor: AnyVisitor) -> Response:
    """My calls: what was marked as worth pursuing, and has not come to an end."""
    rows, items = feedback.pursued(app.database, visitor, MOST_PURSUED), served.advisor.model.interactions_.item_rows
    with app.computing:
        calls = [
            (row, served.opportunities.value(items[row.product], row.confidence) if row.product in items else None)
            for row in rows
        ]
        values = {"calls": calls, "most": MOST_PURSUED}
        return _page(request, served, visitor, "calls.html", values)


@router.get("/client")
def client(
    request: Request, app: App, served: Model, visitor: AnyVisitor, name: str, said: str | None = None
) -> Response:
    """said: a product that has just been decided about."""
    user, history = app.find_client(served, visitor, name), served.advisor.model.interactions_
    standing, shown, key = feedback.standing(app.database, name), app.names_shown(served, visitor), app.key
    decided = [row for row in standing.values() if row.verdict in CLOSED]
    app.log_view(visitor, "client viewed", name)
    with app.computing:
        closed = [row.product for row in decided if row.product in history.item_rows]
        best = served.advisor.recommend(name, DEPTH, without=closed)
        values = {
            "client": name, "standing": standing, "verdicts": list(Verdict), "decided": decided[::-1],
            "unfolded": said in closed,
            "recommendations": [
                (show_recommendation(served, found, shown, evidence=False), sealed(key, served, found))
                for found in best
            ],
            "bought": [product_name(history.item_labels[i]) for i in history.by_user[user].tolist()],
            "attributes": {key: values[user] for key, values in history.user_attributes.items()},
        }  # fmt: skip
        return _page(request, served, visitor, "client.html", values)


@router.get("/recommendation")
def recommendation(
    request: Request,
    app: App,
    served: Model,
    visitor: AnyVisitor,
    client: str,
    product: str,
    also: Annotated[list[str] | None, Query()] = None,
) -> Response:
    app.find_client(served, visitor, client)
    find_product(served, product)
    supposed, wrong, status = _supposed(served, also or [])
    history, shown, key = feedback.history(app.database, client, product), app.names_shown(served, visitor), app.key
    app.log_view(visitor, "recommendation viewed", f"{client} · {product}")
    with app.computing:
        plain = served.advisor.explain(client, product)
        found = served.advisor.explain(client, product, also=supposed) if supposed else plain
        owned = plain.explanation.owned
        values = {
            "client": client, "product": product, "found": show_recommendation(served, found, shown), "also": supposed,
            "before": show_recommendation(served, plain, shown, evidence=False) if supposed else None,
            "history": history, "verdicts": [v for v in Verdict if not owned or v is not Verdict.PURSUE],
            "shown": sealed(key, served, plain), "wrong": wrong, "typed": (also or [""])[-1] if wrong else "",
        }  # fmt: skip
        return _page(request, served, visitor, "recommendation.html", values, status)


def _supposed(served: Served, also: list[str]) -> tuple[list[str], str | None, int]:
    """What to take as bought, and what is wrong with the rest."""
    given = [name for name in also if name.strip()]
    known = [name for name in given if name in served.advisor.model.interactions_.item_rows]
    if len(known) < len(given):
        return known[:MOST_ALSO], "There is no such product.", 404
    if len(known) > MOST_ALSO:
        return known[:MOST_ALSO], f"Expected at most {MOST_ALSO} products, got {len(known)}.", 422
    return known, None, 200


@router.get("/products")
def products(served: Model, visitor: AnyVisitor) -> JSONResponse:  # noqa: ARG001  only for those who are signed in
    """All names, for the fields where one is typed: fetched when somebody begins to."""
    names = [str(label) for label in served.advisor.model.interactions_.item_labels]
    return JSONResponse(names, headers={"cache-control": "private, max-age=300"})


@router.post("/feedback", dependencies=[Genuine])
def give_feedback(
    app: App,
    served: Model,
    visitor: AnyVisitor,
    client: Annotated[str, Form(max_length=LABEL)],
    product: Annotated[str, Form(max_length=LABEL)],
    verdict: Annotated[Verdict, Form()],
    reason: Annotated[str, Form(max_length=LABEL)] = "",
    note: Annotated[str, Form(max_length=NOTE)] = "",
    back: Annotated[Literal["client", "recommendation"], Form()] = "recommendation",
    shown: Annotated[str, Form(max_length=MOST)] = "",
) -> Response:
    record(app, served, visitor, client, product, verdict, reason, note, shown)
    if not _known(served, client, product):
        return RedirectResponse("/pursued", 303)
    if back == "client":
        return RedirectResponse(f"/client?{urlencode({'name': client, 'said': product})}", 303)
    return RedirectResponse(f"/recommendation?{urlencode({'client': client, 'product': product})}#feedback", 303)


def record(
    app: Application, served: Served, visitor: Visitor, client: str, product: str, verdict: Verdict, reason: str,
    note: str, seal_of_form: str,
) -> int:  # fmt: skip
    """Keep what the visitor made of a recommendation; returns its number."""
    shown = unseal(app.key, client, product, seal_of_form)
    if shown is not None and not _known(served, client, product):  # as after a refit without them
        with app.database.reading() as transaction:
            if not app.may_see(visitor, client, transaction):
                raise NotFoundError("there is no such client among yours")
    else:
        row, item = app.find_client(served, visitor, client), find_product(served, product)
        if verdict is Verdict.PURSUE and item in served.advisor.model.interactions_.by_user[row]:
            raise ConflictError("the client has this product already")
    if shown is None:
        with app.computing:
            shown = shown_with(served, served.advisor.explain(client, product))
    return feedback.keep(app.database, visitor, client, product, verdict, reason, note, shown)


def _known(served: Served, client: str, product: str) -> bool:
    history = served.advisor.model.interactions_
    return client in history.user_rows and product in history.item_rows


def shown_with(served: Served, found: Recommendation) -> Shown:
    if not found.explanation.reasons:
        return Shown(served.version, found.confidence, None, "")
    strongest = found.explanation.reasons[0].cocluster
    return Shown(served.version, found.confidence, strongest, served.pattern_label(strongest)[:LABEL])


def sealed(key: str, served: Served, found: Recommendation) -> str:
    return seal(key, str(found.client), str(found.product), shown_with(served, found))


def _page(
    request: Request, served: Served, visitor: Visitor, name: str, values: dict[str, Any], status: int = 200
) -> Response:
    values |= {"visitor": visitor, "currency": served.advisor.model.interactions_.currency}
    return render(request, name, values, status_code=status)
