"""A recommendation with its evidence, and the feedback on it."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from ocular.explain.price import MIN_CLIENTS
from ocular.feedback import OPEN, Status
from ocular.web import feedback
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices, GenuineForm
from ocular.web.feedback import NewFeedback
from ocular.web.feedback_fields import first_filled, read_amount, read_date
from ocular.web.feedback_seal import MAX_SEAL, seal_recommendation
from ocular.web.price_view import cheaper_products, view_prices
from ocular.web.registry import ServedModel
from ocular.web.tables import LABEL, NOTE
from ocular.web.templating import render
from ocular.web.views import view_recommendation

router = APIRouter()
MAX_SUPPOSED = 10  # products that a client may be supposed to have


@router.get("/recommendation")
def show_recommendation(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    client: str,
    product: str,
    also: Annotated[list[str] | None, Query()] = None,
) -> Response:
    user, item = services.visibility.find_client(served, visitor, client), served.find_product(product)
    supposed, mistake, status_code = _supposed(served, also or [])
    earlier, key = feedback.feedback_on(services.database, client, product), services.signing_key
    readable = services.visibility.readable_names(served, visitor)
    services.view_log.write(visitor.user.name, "recommendation viewed", f"{client} · {product}", visitor.address)
    with services.computing:
        actual = served.advisor.explain(client, product)
        shown = served.advisor.explain(client, product, also=supposed) if supposed else actual
        owned = actual.explanation.owned
        services.shown.note(visitor, [] if owned else [(client, product)], served)
        values = {
            "visitor": visitor, "currency": served.interactions.currency,
            "recommendation": view_recommendation(served, shown, readable), "prices": view_prices(shown),
            "min_payers": MIN_CLIENTS, "cheaper": cheaper_products(served, user, item),
            "without_supposed": view_recommendation(served, actual, readable, evidence=False) if supposed else None,
            "also": [(label, served.product_name(label)) for label in supposed], "feedback_entries": earlier,
            "statuses": [status for status in Status if not owned or status not in OPEN],
            "seal": seal_recommendation(key, served, actual), "mistake": mistake,
            "typed": (also or [""])[-1] if mistake else "",
        }  # fmt: skip
        return render(request, "recommendation.html", values, status_code=status_code)


def _supposed(served: ServedModel, also: list[str]) -> tuple[list[str], str | None, int]:
    """Return the products to take as bought, what is wrong with the others, and the status of the answer."""
    given = [label for label in also if label.strip()]
    known = [label for label in given if label in served.interactions.item_rows]
    if len(known) < len(given):
        return known[:MAX_SUPPOSED], "Product not found.", 404
    if len(known) > MAX_SUPPOSED:
        return known[:MAX_SUPPOSED], f"Expected at most {MAX_SUPPOSED} products, got {len(known)}.", 422
    return known, None, 200


@router.get("/products")
def list_products(served: CurrentModel, visitor: AnyVisitor) -> JSONResponse:  # noqa: ARG001  only when signed in
    """Return label and name of all products, for fields where one is typed: fetched when somebody begins to type."""
    labels = [str(label) for label in served.interactions.item_labels]
    products = [{"label": label, "name": served.product_name(label)} for label in labels]
    return JSONResponse(products, headers={"cache-control": "private, max-age=300"})


@router.post("/feedback", dependencies=[GenuineForm])
def give_feedback(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    client: Annotated[str, Form(max_length=LABEL)],
    product: Annotated[str, Form(max_length=LABEL)],
    status: Annotated[Status, Form()],
    reason: Annotated[str, Form(max_length=LABEL)] = "",
    note: Annotated[str, Form(max_length=NOTE)] = "",
    due: Annotated[list[str] | None, Form()] = None,
    amount: Annotated[str, Form()] = "",
    back: Annotated[Literal["today", "calls", "client", "recommendation"], Form()] = "recommendation",
    seal: Annotated[str, Form(max_length=MAX_SEAL)] = "",
) -> Response:
    worth = read_amount(amount, served.interactions.currency)
    given = NewFeedback(client, product, status, reason, note, read_date(first_filled(due or [])), worth)
    feedback.record(services, served, visitor, given, seal)
    if back == "today":
        return RedirectResponse("/", 303)
    if back == "calls" or not served.knows(client, product):
        return RedirectResponse("/calls", 303)
    if back == "client":
        return RedirectResponse(f"/client?{urlencode({'name': client, 'decided': product})}", 303)
    return RedirectResponse(f"/recommendation?{urlencode({'client': client, 'product': product})}#feedback", 303)
