"""The first page: what to do next."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Request, Response

from ocular.feedback import Status
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.due import view_due_of
from ocular.web.feedback import closed_pairs
from ocular.web.pipeline import Order, ordered, read_notes, read_pipeline, total
from ocular.web.tables import now
from ocular.web.templating import render
from ocular.web.today import next_steps

router = APIRouter()
MAX_STEPS, MAX_FOLLOW_UPS, MAX_DUE = 10, 8, 6
SNOOZE = {"1 week": 7, "2 weeks": 14, "1 month": 30, "3 months": 90}  # days
FOLLOW_UP = {"Tomorrow": 1, "In a week": 7, "In a month": 30}


@router.get("/")
def today(request: Request, services: CurrentServices, served: CurrentModel, visitor: AnyVisitor) -> Response:
    """Show the best next steps, the follow-ups that are due, and what clients are due to buy again."""
    clients, day = services.visibility.clients_of(served, visitor), now().date()
    steps = next_steps(services, served, visitor, clients, MAX_STEPS)
    shown = [(step.recommendation.client, step.recommendation.product) for step in steps]
    services.shown.note(visitor, shown, served)
    calls = read_pipeline(services, served, visitor)
    closed = closed_pairs(services, served)
    by_stage = {str(stage): total(call for call in calls if call.stage is stage) for stage in Status}
    pursued = [call for call in calls if call.stage is Status.PURSUING and call.due is not None and call.due <= day]
    follow_ups = ordered(pursued, Order.DUE, served)[:MAX_FOLLOW_UPS]
    notes = read_notes(services, follow_ups)
    with services.computing:
        values = {
            "visitor": visitor, "currency": served.interactions.currency, "day": day, "steps": steps,
            "n_clients": len(clients), "stages": by_stage,
            "follow_ups": follow_ups, "notes": notes,
            "n_follow_ups": len(pursued), "due": view_due_of(served, clients, MAX_DUE),
            "snooze": {name: day + timedelta(days) for name, days in SNOOZE.items()},
            "follow_up": {name: day + timedelta(days) for name, days in FOLLOW_UP.items()},
            "calibrated": served.advisor.model.calibration_ is not None,
            "client_name": served.client_name, "product_name": served.product_name,
            "is_new": served.is_new_pair, "n_news": services.news.n_unseen(served, visitor, clients, closed),
            "priced": served.opportunities.has_prices,
        }  # fmt: skip
        return render(request, "today.html", values)
