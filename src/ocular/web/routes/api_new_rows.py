"""Clients and products that the model has not seen, for programs: the same as the pages, as JSON with a token."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ocular.cold_start.advice import NewRecommendation
from ocular.web.dependencies import AnyProgram, CurrentModel, CurrentServices
from ocular.web.new_rows import clients_for_product, products_for_prospect
from ocular.web.registry import ServedModel
from ocular.web.routes.api import REFUSALS, VALUE
from ocular.web.tables import LABEL

router = APIRouter(tags=["ocular"])
MAX_NAMES = 50
Label = Annotated[str, Field(max_length=LABEL)]
Values = Annotated[
    dict[Label, Label],
    Field(max_length=MAX_NAMES, description='By name: {"industry": "Insurance", "country": "France"}.'),
]


class ProspectRequest(BaseModel):
    """What is known of a company that is not a client yet: attributes, purchases, or both."""

    attributes: Values = {}
    purchases: list[Label] = Field(
        [], max_length=MAX_NAMES, description="Names of products, exactly as in the purchases."
    )
    n: int = Field(10, ge=1, le=100, description="How many products.")


class NewProductRequest(BaseModel):
    """What is known of a product that nobody, or hardly anybody, has bought yet: attributes, buyers, or both."""

    attributes: Values = {}
    buyers: list[Label] = Field([], max_length=MAX_NAMES, description="Names of clients that the token may see.")
    n: int = Field(50, ge=1, le=500, description="How many clients.")


class NewReasonEntry(BaseModel):
    kind: str = Field(description='"pattern", "links", "peers", "taste" or "appeal".')
    contribution: float = Field(description="To the affinity.")
    pattern: int | None = Field(description="Number of the pattern; null for another kind.")
    sentence: str = Field(description="Names no client but the one it is recommended to.")


class NewRowEntry(BaseModel):
    """A pair of which one side is not in the model."""

    client: str | None = Field(description="Name of the client, exactly as in the purchases; null for a prospect.")
    product: str | None = Field(description="Name of the product, exactly as in the purchases; null for a new one.")
    confidence: float = Field(description="The model's probability, 0 to 1.")
    chance: float = Field(description="Chance to buy: the hit rate of the back-test, or the confidence without one.")
    typical_price: float | None
    typical_quantity: float | None
    value: float | None = Field(description=f"{VALUE}; null where no price is known.")
    reasons: list[NewReasonEntry] = Field(description="Strongest first.")


@router.post("/prospects", responses=REFUSALS)
def prospect(
    services: CurrentServices, served: CurrentModel, visitor: AnyProgram, given: ProspectRequest
) -> list[NewRowEntry]:
    """Recommend products to a company that is not a client yet. Nothing is stored."""
    services.view_log.write(visitor.user.name, "prospect read", "", visitor.address, visitor.token)
    with services.computing:
        found = products_for_prospect(served, given.attributes, given.purchases, given.n)
        return [_entry(served, each) for each in found]


@router.post("/new-products", responses=REFUSALS)
def new_product(
    services: CurrentServices, served: CurrentModel, visitor: AnyProgram, given: NewProductRequest
) -> list[NewRowEntry]:
    """List the clients, of those that the token may see, to offer a product that is new. Nothing is stored."""
    services.view_log.write(visitor.user.name, "new product read", "", visitor.address, visitor.token)
    with services.computing:
        found = clients_for_product(services, served, visitor, given.attributes, given.buyers, given.n)
        return [_entry(served, each) for each in found]


def _entry(served: ServedModel, each: NewRecommendation) -> NewRowEntry:
    data = served.interactions
    return NewRowEntry(
        client=None if each.user is None else str(data.user_labels[each.user]),
        product=None if each.item is None else str(data.item_labels[each.item]),
        confidence=each.confidence, chance=each.chance, typical_price=each.typical_price,
        typical_quantity=each.typical_quantity, value=None if each.value is None else round(each.value, 2),
        reasons=[
            NewReasonEntry(
                kind=reason.kind, contribution=reason.contribution, pattern=reason.pattern,
                sentence=reason.sentence_without_names,
            )
            for reason in each.explanation.shown_reasons
        ],
    )  # fmt: skip
