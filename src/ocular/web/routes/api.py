"""The same for programs, such as a customer relationship management: JSON, with a token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field

from ocular.web import feedback
from ocular.web.access import AnyProgram, App, LeaderProgram
from ocular.web.errors import NotFoundError
from ocular.web.routes.accounts import MOST_ALSO, log_view, record
from ocular.web.routes.team import scope
from ocular.web.tables import LABEL, NOTE, Verdict
from ocular.web.views import show_pattern, show_recommendation

# only so that the document says how to sign in; the token itself is looked at in access.py
router = APIRouter(tags=["ocular"], dependencies=[Depends(HTTPBearer(auto_error=False))])
Name = Annotated[str, Query(max_length=LABEL)]


class Refused(BaseModel):
    error: str


class Judgement(BaseModel):
    client: str = Field(max_length=LABEL)
    product: str = Field(max_length=LABEL)
    verdict: Verdict
    reason: str = Field("", max_length=LABEL)
    note: str = Field("", max_length=NOTE)


class Kept(BaseModel):
    id: int


REFUSALS: dict[int | str, dict[str, Any]] = {status: {"model": Refused} for status in (401, 403, 404, 422, 503)}


@router.get("/recommendations", responses=REFUSALS)
def recommendations(
    app: App, visitor: AnyProgram, client: Name, n: Annotated[int, Query(ge=1, le=100)] = 5
) -> list[dict[str, Any]]:
    """The best products for a client, with confidence, hit rate, price and the reasons."""
    app.find_client(visitor, client)
    served, shown = app.served, app.names_shown(visitor)
    found = [show_recommendation(served, r, shown).to_dict() for r in served.advisor.recommend(client, n)]
    log_view(app, visitor, "client read", client)
    return found


@router.get("/explanation", responses=REFUSALS)
def explanation(
    app: App,
    visitor: AnyProgram,
    client: Name,
    product: Name,
    also: Annotated[list[str] | None, Query(max_length=MOST_ALSO)] = None,
) -> dict[str, Any]:
    """The case for one product; `also` names products to take as bought."""
    app.find_client(visitor, client)
    for name in (product, *(also or [])):
        app.find_product(name)
    served, shown = app.served, app.names_shown(visitor)
    found = show_recommendation(served, served.advisor.explain(client, product, also=also or []), shown).to_dict()
    log_view(app, visitor, "recommendation read", f"{client} · {product}")
    return found


@router.get("/patterns", responses=REFUSALS)
def patterns(app: App, visitor: AnyProgram) -> list[dict[str, Any]]:
    """All buying patterns."""
    served, shown = app.served, app.names_shown(visitor)
    return [vars(show_pattern(served, pattern, shown)) for pattern in served.patterns.values()]


@router.get("/patterns/{number}", responses=REFUSALS)
def pattern(app: App, visitor: AnyProgram, number: int) -> dict[str, Any]:
    found = app.served.patterns.get(number)
    if found is None:
        raise NotFoundError("there is no such pattern")
    return vars(show_pattern(app.served, found, app.names_shown(visitor), most=100))


@router.post("/feedback", status_code=201, responses=REFUSALS)
def give_feedback(app: App, visitor: AnyProgram, given: Judgement, answer: Response) -> Kept:
    """What became of a recommendation. It is kept when the answer arrives."""
    answer.headers["cache-control"] = "no-store"
    return Kept(id=record(app, visitor, given.client, given.product, given.verdict, given.reason, given.note))


@router.get("/feedback", responses=REFUSALS)
def all_feedback(app: App, visitor: LeaderProgram) -> list[dict[str, Any]]:
    """Everything that was said of recommendations, oldest first: accepted and rejected ones for the next evaluation."""
    return list(feedback.export_rows(app.database, scope(visitor)))
