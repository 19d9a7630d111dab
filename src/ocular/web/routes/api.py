"""The same for programs, such as a system that manages customers: JSON, with a token."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field

from ocular.advisor import Recommendation
from ocular.feedback import Status
from ocular.web import feedback
from ocular.web.campaign import CampaignFilter, plan_campaign, view_rows
from ocular.web.dependencies import AnyProgram, CurrentModel, CurrentServices, FeedbackProgram, LeaderProgram
from ocular.web.due import view_due
from ocular.web.errors import NotFoundError
from ocular.web.feedback import NewFeedback
from ocular.web.feedback_fields import MAX_AMOUNT
from ocular.web.feedback_seal import MAX_SEAL, seal_recommendation
from ocular.web.opportunities import Order
from ocular.web.registry import ServedModel
from ocular.web.routes.recommendations import MAX_SUPPOSED
from ocular.web.tables import LABEL, NOTE, Feedback
from ocular.web.views import PatternView, Readable, ReasonView, view_pattern, view_recommendation

router = APIRouter(tags=["ocular"])
Client = Annotated[str, Query(max_length=LABEL, description="Name of a client, exactly as in the purchases.")]
Product = Annotated[str, Query(max_length=LABEL, description="Name of a product, exactly as in the purchases.")]
VALUE = "Expected value: chance to buy × typical price × typical quantity"


class ErrorAnswer(BaseModel):
    error: str = Field(description="One line: what was expected, what was given, what to do.")


class RecommendationAnswer(BaseModel):
    """A product for a client, with what a person needs to decide whether to call."""

    client: str = Field(description="Name of the client, exactly as in the purchases.")
    client_name: str = Field(description="Name of the client for people to read.")
    product: str = Field(description="Name of the product, exactly as in the purchases.")
    product_name: str = Field(description="Name of the product for people to read.")
    confidence: float = Field(description="The model's probability that the client buys it, 0 to 1.")
    chance: float = Field(description="Chance to buy: the hit rate, or the confidence without a back-test.")
    hit_rate: float | None = Field(
        description="Share of recommendations like this one that were bought in a back-test."
    )
    hit_rate_of: int | None = Field(description="Number of recommendations that the hit rate rests on.")
    price: float | None = Field(description="Median of what similar clients paid.")
    price_low: float | None = Field(description="80% paid this or more …")
    price_high: float | None = Field(description="… and this or less.")
    price_text: str | None = Field(description="The price in one sentence.")
    currency: str = Field(description='Of all amounts; "" where it is not known.')
    typical_price: float | None = Field(description="Median of what all buyers paid for a unit.")
    typical_quantity: float = Field(description="Median quantity of an order; 1 where it is not known.")
    value: float | None = Field(description=f"{VALUE}; null for what is owned.")
    owned: bool = Field(description="The client already owns the product.")
    strongest_reason: str = Field(description="The strongest reason in one sentence.")
    reasons: list[ReasonView] = Field(description="Strongest first.")
    hidden_reasons: int = Field(description="Number of minor reasons that are not listed.")
    shown_share: float = Field(description="Share of the affinity that the reasons' sentences show.")
    hidden_share: float = Field(description="Share of the affinity that is not shown: theirs and unnamed products'.")
    rest_share: float = Field(description="Share of the affinity that comes from popularity.")
    kind: str | None = Field(description='Strongest reason: "pattern", "links", "peers", "taste", "appeal" or null.')
    pattern: int | None = Field(description="Number of the pattern of the strongest reason; null for another kind.")
    status: Status | None = Field(description="The latest status; null if nobody has given feedback.")
    seal: str = Field(description="To be given back with feedback, which then counts for this very recommendation.")


class DueEntry(BaseModel):
    """A product that a client buys regularly and that is due again."""

    product: str = Field(description="Name of the product, exactly as in the purchases.")
    product_name: str = Field(description="Name of the product for people to read.")
    last_purchase: date
    interval: float = Field(description="Median number of days from one purchase of the client to the next.")
    days_since: int = Field(description="Days since the last purchase.")
    overdue: float = Field(description="Days since it was due; negative where it will be due soon.")
    purchases: int = Field(description="Purchases of the client, on different days.")
    clients: int = Field(description="Number of clients that buy it regularly.")
    usual_quantity: float | None = Field(description="Median of the client's own orders.")
    usual_price: float | None = Field(description="Median of what the client paid for a unit.")
    state: str = Field(description='How late it is in words: "3 days overdue", "due now", "due in 3 days".')
    sentence: str = Field(description="All of it in words.")


class DueAnswer(BaseModel):
    as_of: date | None = Field(description="Day of the newest purchase; null for a model without dates.")
    currency: str = Field(description='Of all amounts; "" where it is not known.')
    products: list[DueEntry] = Field(description="Most often bought first.")


class ClientEntry(BaseModel):
    client: str = Field(description="Name of the client, exactly as in the purchases.")
    client_name: str = Field(description="Name of the client for people to read.")
    product: str | None = Field(description="The best open recommendation; null if all are decided.")
    product_name: str | None = Field(description="Name of the product for people to read.")
    confidence: float | None
    chance: float | None = Field(description="Chance to buy: how often recommendations like this one are bought.")
    value: float | None = Field(description=f"{VALUE}.")
    open: int = Field(description="Number of open recommendations among the best five.")


class ClientPage(BaseModel):
    total: int = Field(description="Number of clients that match.")
    page: int
    pages: int
    currency: str
    clients: list[ClientEntry]


class CampaignEntry(BaseModel):
    """A client to offer a product to."""

    client: str = Field(description="Name of the client, exactly as in the purchases.")
    client_name: str = Field(description="Name of the client for people to read.")
    chance: float = Field(description="Chance to buy: how often recommendations like this one were bought.")
    value: float | None = Field(description=f"{VALUE}; null where the product has no typical price.")
    confidence: float = Field(description="The model's probability that the client buys it, 0 to 1.")
    status: Status | None = Field(description='"pursuing" for what is in My calls; closed ones are not listed.')
    seller: str | None = Field(description="Who looks after the client; null for a seller's own token.")
    reason: str = Field(description="The strongest reason in one sentence.")
    kind: str | None = Field(description='Strongest reason: "pattern", "links", "peers", "taste", "appeal" or null.')
    pattern: int | None = Field(description="Number of the pattern of the strongest reason; null for another kind.")
    seal: str = Field(description="To be given back with feedback, which then counts for this very recommendation.")


class CampaignPage(BaseModel):
    total: int = Field(description="Number of clients that do not own the product, and for whom it is not closed.")
    page: int
    pages: int
    product: str = Field(description="Name of the product, exactly as in the purchases.")
    product_name: str = Field(description="Name of the product for people to read.")
    currency: str
    clients: list[CampaignEntry] = Field(description="Highest chance to buy first.")


class FeedbackRequest(BaseModel):
    client: str = Field(max_length=LABEL, description="Name of the client.")
    product: str = Field(max_length=LABEL, description="Name of the product.")
    status: Status
    reason: str = Field("", max_length=LABEL, description="Why, in a few words.")
    note: str = Field("", max_length=NOTE)
    due: date | None = Field(None, description="Follow-up of what is pursued, or the day a snoozed one returns.")
    amount: float | None = Field(None, ge=0, le=MAX_AMOUNT, description="What the deal was worth; kept if it is won.")
    seal: str = Field("", max_length=MAX_SEAL, description="As the recommendation came with; may be left out.")


class SavedFeedback(BaseModel):
    id: int


class FeedbackEntry(BaseModel):
    id: int = Field(description="The highest one is `after` of the next request.")
    at: str = Field(description="Time in UTC.")
    client: str
    product: str
    status: Status
    reason: str
    note: str
    seller: str = Field(description="Who gave it.")
    team: str
    model: str = Field(description="Version of the model that recommended it.")
    confidence: float
    pattern: int | None = Field(description="Of the strongest reason; null where that was of another kind.")
    label: str = Field(description="What the pattern, or the other kind of reason, was called.")
    due: date | None = Field(description="Day of the follow-up, or on which a snoozed one returns.")
    amount: float | None = Field(description="What the deal was worth, once won.")


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": description}
    for status, description in {
        400: "The request cannot be read.",
        401: "The token is missing, wrong, expired or revoked.",
        403: "The user of the token does not have access, or the token lacks the scope.",
        404: "Client, product or pattern not found.",
        405: "The address does not accept this method.",
        409: "It conflicts with what is stored now.",
        413: "The body is too large.",
        422: "A parameter is missing or out of its range.",
        503: "Temporarily unavailable; try again in a moment.",
    }.items()
}


@router.get("/clients", responses=REFUSALS)
def clients(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyProgram,
    search: Annotated[str, Query(max_length=LABEL, description="Words of the name, in any order.")] = "",
    order: Annotated[Order, Query(description="What comes first.")] = Order.VALUE,
    page: Annotated[int, Query(ge=1, le=1_000_000, description="A number past the end gives the last page.")] = 1,
    size: Annotated[int, Query(ge=1, le=500, description="Clients per page.")] = 100,
) -> ClientPage:
    """Return the clients that the token may see, with the best open recommendation of each."""
    visible = services.visibility.clients_of(served, visitor)
    services.view_log.write(visitor.user.name, "clients read", f"page {page}", visitor.address, visitor.token)
    closed = feedback.closed_pairs(services, served)
    with services.computing:
        listed = served.opportunities.page(visible, closed, search=search, order=order, number=page, length=size)
    entries = [
        ClientEntry(
            client=client.client, client_name=client.name, product=client.product, product_name=client.product_name,
            confidence=client.confidence if client.product else None,
            chance=client.chance if client.product else None,
            value=None if client.value is None else round(client.value, 2), open=client.n_open,
        )
        for client in listed.clients
    ]  # fmt: skip
    return ClientPage(
        total=listed.total,
        page=listed.number,
        pages=listed.n_pages,
        currency=served.interactions.currency,
        clients=entries,
    )


@router.get("/recommendations", responses=REFUSALS)
def recommendations(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyProgram,
    client: Client,
    n: Annotated[int, Query(ge=1, le=100, description="How many.")] = 5,
) -> list[RecommendationAnswer]:
    """Return the best products for a client, with confidence, hit rate, price and the reasons; closed ones too."""
    services.visibility.find_client(served, visitor, client)
    latest, key = feedback.latest_by_product(services.database, client), services.signing_key
    readable = services.visibility.readable_names(served, visitor)
    services.view_log.write(visitor.user.name, "client read", client, visitor.address, visitor.token)
    with services.computing:
        best = served.advisor.recommend(client, n)
        return [_answer(key, served, recommendation, readable, latest) for recommendation in best]


@router.get("/products/{product:path}/clients", responses=REFUSALS)
def campaign(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyProgram,
    product: Annotated[str, Path(max_length=LABEL, description="Name of a product, exactly as in the purchases.")],
    min_chance: Annotated[float, Query(ge=0, le=1, description="Chance to buy of at least this.")] = 0.0,
    page: Annotated[int, Query(ge=1, le=1_000_000, description="A number past the end gives the last page.")] = 1,
    size: Annotated[int, Query(ge=1, le=100, description="Clients per page.")] = 25,
) -> CampaignPage:
    """Return the clients that the token may see and that do not own a product, ranked, each with a reason."""
    planned = plan_campaign(services, served, visitor, served.find_product(product), CampaignFilter(min_chance))
    services.view_log.write(visitor.user.name, "product read", product, visitor.address, visitor.token)
    pages = max(1, -(-len(planned.users) // size))
    page = min(page, pages)
    with services.computing:
        rows = view_rows(services, served, planned, slice((page - 1) * size, page * size))
    return CampaignPage(
        total=len(planned.users), page=page, pages=pages, product=product, product_name=served.product_name(product),
        currency=served.interactions.currency, clients=[CampaignEntry(**asdict(row)) for row in rows],
    )  # fmt: skip


@router.get("/due", responses=REFUSALS)
def due(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyProgram,
    client: Client,
    n: Annotated[int, Query(ge=1, le=100, description="How many at most.")] = 10,
) -> DueAnswer:
    """Return what a client buys regularly and is due to buy again, by the dates of the purchases alone."""
    services.visibility.find_client(served, visitor, client)
    services.view_log.write(visitor.user.name, "client read", client, visitor.address, visitor.token)
    with services.computing:
        return DueAnswer(currency=served.interactions.currency, **asdict(view_due(served, client, n)))


@router.get("/explanation", responses=REFUSALS)
def explanation(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyProgram,
    client: Client,
    product: Product,
    also: Annotated[
        list[str] | None, Query(max_length=MAX_SUPPOSED, description="Products to assume as owned.")
    ] = None,
) -> RecommendationAnswer:
    """Return the reasons for one product, whether it would be recommended or not."""
    services.visibility.find_client(served, visitor, client)
    for label in (product, *(also or [])):
        served.find_product(label)
    latest, key = feedback.latest_by_product(services.database, client), services.signing_key
    readable = services.visibility.readable_names(served, visitor)
    services.view_log.write(
        visitor.user.name, "recommendation read", f"{client} · {product}", visitor.address, visitor.token
    )
    with services.computing:
        return _answer(key, served, served.advisor.explain(client, product, also=also or []), readable, latest)


def _answer(
    key: str, served: ServedModel, recommendation: Recommendation, readable: Readable, latest: dict[str, Feedback]
) -> RecommendationAnswer:
    view = view_recommendation(served, recommendation, readable)
    entry = latest.get(view.product)
    return RecommendationAnswer(
        **view.to_dict(),
        status=None if entry is None else Status(entry.status),
        seal=seal_recommendation(key, served, recommendation),
    )


@router.get("/patterns", responses=REFUSALS)
def patterns(services: CurrentServices, served: CurrentModel, visitor: AnyProgram) -> list[PatternView]:
    """Return all buying patterns."""
    services.view_log.write(visitor.user.name, "patterns read", "", visitor.address, visitor.token)
    readable = services.visibility.readable_names(served, visitor)
    with services.computing:
        return [view_pattern(served, pattern, readable) for pattern in served.patterns.values()]


@router.get("/patterns/{number}", responses=REFUSALS)
def pattern(
    services: CurrentServices,
    served: CurrentModel,
    visitor: AnyProgram,
    number: Annotated[int, Path(description="Of the pattern.")],
) -> PatternView:
    """Return one buying pattern, with up to a hundred products and clients."""
    cocluster = served.patterns.get(number)
    if cocluster is None:
        raise NotFoundError("Pattern not found")
    return view_pattern(served, cocluster, services.visibility.readable_names(served, visitor), max_names=100)


@router.post("/feedback", status_code=201, responses=REFUSALS)
def give_feedback(
    services: CurrentServices, served: CurrentModel, visitor: FeedbackProgram, given: FeedbackRequest, answer: Response
) -> SavedFeedback:
    """Store what became of a recommendation. It is stored when the answer arrives."""
    answer.headers["cache-control"] = "no-store"
    new = NewFeedback(**given.model_dump(exclude={"seal"}))
    return SavedFeedback(id=feedback.record(services, served, visitor, new, given.seal))


@router.get("/feedback", responses=REFUSALS)
def all_feedback(
    services: CurrentServices,
    visitor: LeaderProgram,
    after: Annotated[int, Query(ge=0, le=2**31 - 1, description="What was stored after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many at most.")] = 1000,
) -> list[FeedbackEntry]:
    """Return all feedback, oldest first: accepted and rejected recommendations for the next evaluation."""
    services.view_log.write(visitor.user.name, "feedback read", f"after {after}", visitor.address, visitor.token)
    rows = feedback.export_rows(services.database, visitor, after=after, limit=limit)
    return [FeedbackEntry.model_validate(row) for row in rows]
