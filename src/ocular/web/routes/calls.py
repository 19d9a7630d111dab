"""My calls: the pipeline by stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from ocular.feedback import OPEN, Status
from ocular.web.auth import Visitor
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.pipeline import RECENT, STAGES, Call, Order, ordered, read_notes, read_pipeline, total
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.tables import LABEL
from ocular.web.templating import render

router = APIRouter()
MAX_CALLS = 200  # on the page; the file has all
COLUMNS = (
    "stage", "client", "client_name", "product", "product_name", "due", "overdue", "chance", "value", "seller", "added",
    "reason", "note",
)  # fmt: skip
Stage = Annotated[Status, Query()]
Seller = Annotated[str, Query(max_length=LABEL)]


@router.get("/calls")
def list_calls(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    stage: Stage = Status.PURSUING,
    seller: Seller = "",
    order: Order | None = None,
) -> Response:
    """Show the calls of one stage, and how many there are in each and what they are worth."""
    stage = stage if stage in STAGES else Status.PURSUING
    if order is None or (order is Order.DUE and stage not in OPEN):
        order = Order.DUE if stage in OPEN else Order.ADDED
    sellers, seller, calls = _calls(services, served, visitor, seller)
    shown = [call for call in calls if call.stage is stage]
    listed = ordered(shown, order, served)[:MAX_CALLS]
    notes = read_notes(services, listed)
    with services.computing:
        query = {"stage": str(stage), "seller": seller, "order": str(order)}
        values = {
            "visitor": visitor, "currency": served.interactions.currency, "stage": stage, "order": order,
            "stages": [(each, total(call for call in calls if call.stage is each)) for each in STAGES],
            "calls": listed, "notes": notes, "n_calls": len(shown), "max_calls": MAX_CALLS,
            "client_name": served.client_name, "product_name": served.product_name,
            "sellers": sellers, "seller": seller, "recent_days": RECENT.days, "query": urlencode(query),
            "orders": {str(other): urlencode(query | {"order": str(other)}) for other in Order},
        }  # fmt: skip
        return render(request, "calls.html", values)


@router.get("/calls.csv")
def export_calls(
    services: CurrentServices, served: CurrentModel, visitor: AnyVisitor, seller: Seller = "", order: Order = Order.DUE
) -> Response:
    """Return the calls of all stages as a file."""
    _, _, calls = _calls(services, served, visitor, seller)
    services.view_log.write(visitor.user.name, "calls exported", "", visitor.address)
    rows = _rows(services, ordered(calls, order, served), served)
    return services.exports.download(visitor, "calls.csv", COLUMNS, rows)


def _calls(
    services: Services, served: ServedModel, visitor: Visitor, seller: str
) -> tuple[dict[str, str], str, list[Call]]:
    """Return the sellers to choose from, the chosen one if there is such a seller, and the calls."""
    calls = read_pipeline(services, served, visitor)
    sellers = {call.seller: call.seller_name for call in sorted(calls, key=lambda call: call.seller_name.casefold())}
    if seller not in sellers:
        return sellers, "", calls
    return sellers, seller, [call for call in calls if call.seller == seller]


def _rows(services: Services, calls: list[Call], served: ServedModel) -> Iterator[dict[str, object]]:
    calls = sorted(calls, key=lambda call: STAGES.index(call.stage))
    notes: dict[int, str] = {}
    for place, call in enumerate(calls):
        if place % MAX_CALLS == 0:
            notes = read_notes(services, calls[place : place + MAX_CALLS])
        row: dict[str, object] = {name: getattr(call, name, None) for name in COLUMNS}
        yield row | {
            "note": notes[call.number],
            "client_name": served.client_name(call.client), "product_name": served.product_name(call.product),
            "overdue": "yes" if call.overdue else "no", "added": call.added.isoformat(),
            "chance": None if call.chance is None else round(call.chance, 4),
            "value": None if call.value is None else round(call.value, 2),
        }  # fmt: skip
