"""The same for programs, such as a customer relationship management: JSON, with a token."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field

from ocular.advisor import Recommendation
from ocular.web import feedback
from ocular.web.errors import NotFoundError
from ocular.web.feedback_seal import MOST
from ocular.web.opportunities import Order
from ocular.web.registry import Served
from ocular.web.routes.clients import MOST_ALSO, record, sealed
from ocular.web.services import AnyProgram, App, LeaderProgram, Model, find_product
from ocular.web.tables import LABEL, NOTE, Feedback, Verdict
from ocular.web.views import PatternView, ReasonView, Shown, show_pattern, show_recommendation

# only so that the document says how to sign in; the token itself is looked at in access.py
router = APIRouter(tags=["ocular"], dependencies=[Depends(HTTPBearer(auto_error=False))])
Client = Annotated[str, Query(max_length=LABEL, description="Name of a client, exactly as in the purchases.")]
Product = Annotated[str, Query(max_length=LABEL, description="Name of a product, exactly as in the purchases.")]


class Refused(BaseModel):
    error: str = Field(description="One line: what was expected, what came, what to do.")


class Told(BaseModel):
    """A product for a client, with what a person needs to decide whether to call."""

    client: str
    product: str
    confidence: float = Field(description="The model's probability that the client buys it, 0 to 1.")
    hit_rate: float | None = Field(description="Share of recommendations like this one that came true in a check.")
    hit_rate_of: int | None = Field(description="Number of recommendations that the hit rate rests on.")
    price: float | None = Field(description="Median of what similar clients paid.")
    price_low: float | None = Field(description="Eight in ten paid this or more …")
    price_high: float | None = Field(description="… and this or less.")
    price_text: str | None = Field(description="The price in one sentence.")
    currency: str = Field(description='Of all amounts; "" where it is not known.')
    value: float | None = Field(description="How often such come true × the usual price; null for what is owned.")
    owned: bool = Field(description="The client has the product already.")
    why: str = Field(description="The strongest reason in one line.")
    reasons: list[ReasonView] = Field(description="Strongest first.")
    left_out: int = Field(description="Number of weaker reasons.")
    left_out_share: float = Field(description="Their share of the case.")
    rest_share: float = Field(description="Share of the case that popularity makes.")
    pattern: int | None = Field(description="Number of the pattern that speaks for it most.")
    standing: Verdict | None = Field(description="The latest word on it; null if nobody has said one.")
    shown: str = Field(description="To be given back with feedback, which then counts for this very recommendation.")


class ClientLine(BaseModel):
    client: str
    product: str | None = Field(description="The best open recommendation; null if all are decided.")
    confidence: float | None
    value: float | None = Field(description="How often such come true × the usual price.")
    open: int = Field(description="Number of open recommendations among the best five.")


class Clients(BaseModel):
    total: int = Field(description="Number of clients that fit.")
    page: int
    pages: int
    currency: str
    clients: list[ClientLine]


class Judgement(BaseModel):
    client: str = Field(max_length=LABEL, description="Name of the client.")
    product: str = Field(max_length=LABEL, description="Name of the product.")
    verdict: Verdict
    reason: str = Field("", max_length=LABEL, description="Why, in short.")
    note: str = Field("", max_length=NOTE)
    shown: str = Field("", max_length=MOST, description="As the recommendation came with; may be left out.")


class Kept(BaseModel):
    id: int


class Said(BaseModel):
    id: int = Field(description="The highest one is `after` of the next request.")
    at: str = Field(description="Time in UTC.")
    client: str
    product: str
    verdict: Verdict
    reason: str
    note: str
    seller: str = Field(description="Who said it.")
    team: str
    model: str = Field(description="Version of the model that recommended it.")
    confidence: float
    pattern: int | None
    label: str = Field(description="What the pattern was called.")


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused, "description": why}
    for status, why in {
        400: "The request can not be read.",
        401: "The token is missing, wrong, expired or revoked.",
        403: "Not for the role of the token.",
        404: "No such client among yours, product or pattern.",
        405: "Another method is meant.",
        409: "It contradicts what is there now.",
        413: "The body is too large.",
        422: "A parameter is missing or out of its range.",
        503: "The database does not answer; try again after a while.",
    }.items()
}


@router.get("/clients", responses=REFUSALS)
def clients(
    app: App,
    served: Model,
    visitor: AnyProgram,
    search: Annotated[str, Query(max_length=LABEL, description="Words of the name, in any order.")] = "",
    order: Annotated[Order, Query(description="What comes first.")] = Order.VALUE,
    page: Annotated[int, Query(ge=1, le=1_000_000, description="Beyond the end it is the last one.")] = 1,
    size: Annotated[int, Query(ge=1, le=500, description="Clients on a page.")] = 100,
) -> Clients:
    """The clients that the token may see, with the best open recommendation of each."""
    history = served.advisor.model.interactions_
    seen, closed = app.clients_of(served, visitor), feedback.closed_pairs(app.database, history, visitor)
    with app.computing:
        found = served.opportunities.page(seen, closed, search=search, order=order, number=page, length=size)
    lines = [
        ClientLine(
            client=str(history.user_labels[account.client]), product=account.product,
            confidence=account.confidence if account.product else None,
            value=None if account.value is None else round(account.value, 2), open=account.open,
        )
        for account in found.accounts
    ]  # fmt: skip
    return Clients(
        total=found.total,
        page=found.number,
        pages=found.pages,
        currency=served.advisor.model.interactions_.currency,
        clients=lines,
    )


@router.get("/recommendations", responses=REFUSALS)
def recommendations(
    app: App,
    served: Model,
    visitor: AnyProgram,
    client: Client,
    n: Annotated[int, Query(ge=1, le=100, description="How many.")] = 5,
) -> list[Told]:
    """The best products for a client, with confidence, hit rate, price and the reasons; decided ones too."""
    app.find_client(served, visitor, client)
    standing, shown, key = feedback.standing(app.database, client), app.names_shown(served, visitor), app.key
    app.log_view(visitor, "client read", client)
    with app.computing:
        return [_told(key, served, found, shown, standing) for found in served.advisor.recommend(client, n)]


@router.get("/explanation", responses=REFUSALS)
def explanation(
    app: App,
    served: Model,
    visitor: AnyProgram,
    client: Client,
    product: Product,
    also: Annotated[list[str] | None, Query(max_length=MOST_ALSO, description="Products to take as bought.")] = None,
) -> Told:
    """The case for one product."""
    app.find_client(served, visitor, client)
    for name in (product, *(also or [])):
        find_product(served, name)
    standing, shown, key = feedback.standing(app.database, client), app.names_shown(served, visitor), app.key
    app.log_view(visitor, "recommendation read", f"{client} · {product}")
    with app.computing:
        return _told(key, served, served.advisor.explain(client, product, also=also or []), shown, standing)


def _told(key: str, served: Served, found: Recommendation, shown: Shown, standing: dict[str, Feedback]) -> Told:
    view = show_recommendation(served, found, shown)
    said = standing.get(view.product)
    return Told(
        **view.to_dict(), standing=None if said is None else Verdict(said.verdict), shown=sealed(key, served, found)
    )


@router.get("/patterns", responses=REFUSALS)
def patterns(app: App, served: Model, visitor: AnyProgram) -> list[PatternView]:
    """All buying patterns."""
    shown = app.names_shown(served, visitor)
    with app.computing:
        return [show_pattern(served, pattern, shown) for pattern in served.patterns.values()]


@router.get("/patterns/{number}", responses=REFUSALS)
def pattern(
    app: App, served: Model, visitor: AnyProgram, number: Annotated[int, Path(description="Of the pattern.")]
) -> PatternView:
    """One buying pattern, with up to a hundred products and clients."""
    found = served.patterns.get(number)
    if found is None:
        raise NotFoundError("there is no such pattern")
    return show_pattern(served, found, app.names_shown(served, visitor), most=100)


@router.post("/feedback", status_code=201, responses=REFUSALS)
def give_feedback(app: App, served: Model, visitor: AnyProgram, given: Judgement, answer: Response) -> Kept:
    """What became of a recommendation. It is kept when the answer arrives."""
    answer.headers["cache-control"] = "no-store"
    return Kept(
        id=record(
            app, served, visitor, given.client, given.product, given.verdict, given.reason, given.note, given.shown
        )
    )


@router.get("/feedback", responses=REFUSALS)
def all_feedback(
    app: App,
    visitor: LeaderProgram,
    after: Annotated[int, Query(ge=0, le=2**31 - 1, description="What was kept after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many at most.")] = 1000,
) -> list[Said]:
    """What was said of recommendations, oldest first: accepted and rejected ones for the next evaluation."""
    app.log_view(visitor, "feedback read", f"after {after}")
    return [Said.model_validate(row) for row in feedback.export_rows(app.database, visitor, after=after, limit=limit)]
