"""My accounts, a client, a recommendation, and what a person makes of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from ocular.explain.names import product_name
from ocular.web import feedback
from ocular.web.access import AnyVisitor, App, Application, Genuine, Visitor, audit
from ocular.web.errors import NotFoundError
from ocular.web.opportunities import DEPTH
from ocular.web.tables import LABEL, NOTE, Verdict
from ocular.web.templating import render
from ocular.web.views import show_recommendation

router = APIRouter()
PAGE, MOST_ALSO = 50, 10


@router.get("/")
def accounts(
    request: Request,
    app: App,
    visitor: AnyVisitor,
    search: Annotated[str, Query(max_length=LABEL)] = "",
    product: Annotated[str, Query(max_length=LABEL)] = "",
    least: Annotated[int, Query(ge=0, le=100)] = 0,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    served, history = app.served, app.served.advisor.model.interactions_
    wanted = history.item_rows.get(product)
    found, total = served.opportunities.page(
        app.clients_of(visitor), feedback.closed_pairs(app.database, history, visitor), search=search, product=wanted,
        least=least / 100, first=(page - 1) * PAGE, length=PAGE,
    )  # fmt: skip
    names = [history.user_labels[account.client] for account in found]
    values = {
        "accounts": list(zip(names, found, strict=True)), "total": total, "page": page,
        "pages": max(1, -(-total // PAGE)), "search": search, "product": product, "least": least,
        "unknown": product if product and wanted is None else None,
        "query": urlencode({"search": search, "product": product, "least": least}),
    }  # fmt: skip
    return _page(request, app, visitor, "accounts.html", values)


@router.get("/client")
def client(request: Request, app: App, visitor: AnyVisitor, name: str) -> Response:
    user, served = app.find_client(visitor, name), app.served
    history, shown = served.advisor.model.interactions_, app.names_shown(visitor)
    best = served.advisor.recommend(name, DEPTH)
    found = [show_recommendation(served, recommendation, shown, evidence=False) for recommendation in best]
    log_view(app, visitor, "client viewed", name)
    values = {
        "client": name, "recommendations": found, "standing": feedback.standing(app.database, name),
        "verdicts": list(Verdict),
        "bought": [product_name(history.item_labels[i]) for i in history.by_user[user].tolist()],
        "attributes": {key: values[user] for key, values in history.user_attributes.items()},
    }  # fmt: skip
    return _page(request, app, visitor, "client.html", values)


@router.get("/recommendation")
def recommendation(
    request: Request,
    app: App,
    visitor: AnyVisitor,
    client: str,
    product: str,
    also: Annotated[list[str] | None, Query(max_length=MOST_ALSO)] = None,
) -> Response:
    app.find_client(visitor, client)
    app.find_product(product)
    served, supposed = app.served, [name for name in also or [] if name]
    for name in supposed:
        app.find_product(name)
    shown = app.names_shown(visitor)
    found = show_recommendation(served, served.advisor.explain(client, product, also=supposed), shown)
    log_view(app, visitor, "recommendation viewed", f"{client} · {product}")
    values = {
        "client": client, "product": product, "found": found, "also": supposed,
        "before": show_recommendation(served, served.advisor.explain(client, product), shown) if supposed else None,
        "history": feedback.history(app.database, client, product), "verdicts": list(Verdict),
    }  # fmt: skip
    return _page(request, app, visitor, "recommendation.html", values)


@router.get("/products")
def products(app: App, visitor: AnyVisitor) -> JSONResponse:  # noqa: ARG001  only for those who are signed in
    """All names, for the fields where one is typed: fetched when somebody begins to."""
    names = [str(label) for label in app.served.advisor.model.interactions_.item_labels]
    return JSONResponse(names, headers={"cache-control": "private, max-age=300"})


@router.post("/feedback", dependencies=[Genuine])
def give_feedback(
    app: App,
    visitor: AnyVisitor,
    client: Annotated[str, Form(max_length=LABEL)],
    product: Annotated[str, Form(max_length=LABEL)],
    verdict: Annotated[Verdict, Form()],
    reason: Annotated[str, Form(max_length=LABEL)] = "",
    note: Annotated[str, Form(max_length=NOTE)] = "",
    back: Annotated[Literal["client", "recommendation"], Form()] = "recommendation",
) -> Response:
    record(app, visitor, client, product, verdict, reason, note)
    if back == "client":
        return RedirectResponse(f"/client?{urlencode({'name': client})}", 303)
    return RedirectResponse(f"/recommendation?{urlencode({'client': client, 'product': product})}#feedback", 303)


def record(
    app: Application, visitor: Visitor, client: str, product: str, verdict: Verdict, reason: str, note: str
) -> int:
    """Keep what the visitor made of a recommendation; returns its number."""
    app.find_client(visitor, client)
    app.find_product(product)
    served = app.served
    found = served.advisor.explain(client, product)
    if found.explanation.owned and verdict is Verdict.PURSUE:
        raise NotFoundError("the client has this product already")
    strongest = found.explanation.reasons[0].cocluster if found.explanation.reasons else None
    return feedback.keep(
        app.database, visitor, client, product, verdict, reason, note, served.version, found.confidence, strongest
    )


def log_view(app: Application, visitor: Visitor, action: str, subject: str) -> None:
    with app.database.writing() as transaction:
        audit(transaction, visitor.user.name, action, subject, visitor.address)


def _page(request: Request, app: Application, visitor: Visitor, name: str, values: dict[str, Any]) -> Response:
    currency = app.served.advisor.model.interactions_.currency
    return render(request, name, {"visitor": visitor, "currency": currency} | values)
