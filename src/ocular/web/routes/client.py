"""A client: the best recommendations, what is due again, and what they bought."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ocular.explain.names import product_name
from ocular.feedback import CLOSED, Status
from ocular.web import feedback
from ocular.web.dependencies import AnyVisitor, CurrentModel, CurrentServices
from ocular.web.due import view_due
from ocular.web.feedback_seal import seal_recommendation
from ocular.web.opportunities import DEPTH
from ocular.web.templating import render
from ocular.web.views import view_recommendation

router = APIRouter()
MAX_DUE = 10


@router.get("/client")
def show_client(
    request: Request,
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyVisitor,
    name: str,
    decided: str | None = None,
) -> Response:
    """Show the best recommendations for a client; `decided` is a product that has just got a status."""
    user, interactions = services.visibility.find_client(served, visitor, name), served.interactions
    latest, key = feedback.latest_by_product(services.database, name), services.signing_key
    readable = services.visibility.readable_names(served, visitor)
    closed = [row for row in reversed(latest.values()) if row.status in CLOSED]
    services.view_log.write(visitor.user.name, "client viewed", name, visitor.address)
    with services.computing:
        without = [row.product for row in closed if row.product in interactions.item_rows]
        recommendations = [
            (
                view_recommendation(served, recommendation, readable, evidence=False),
                seal_recommendation(key, served, recommendation),
            )
            for recommendation in served.advisor.recommend(name, DEPTH, without=without)
        ]
        values = {
            "visitor": visitor, "currency": interactions.currency, "client": name,
            "client_name": served.client_name(name), "latest": latest, "statuses": list(Status),
            "closed": [(row, served.product_name(row.product)) for row in closed], "unfolded": decided in without,
            "recommendations": recommendations, "due": view_due(served, name, MAX_DUE),
            "bought": [product_name(interactions.item_name(item)) for item in interactions.by_user[user].tolist()],
            "attributes": {name: values[user] for name, values in interactions.user_attributes.items()},
        }  # fmt: skip
        return render(request, "client.html", values)
