"""What a person should do next: the best open recommendations to their clients, ready to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from ocular.feedback import Status
from ocular.web import feedback
from ocular.web.auth import Visitor
from ocular.web.feedback_seal import seal_recommendation
from ocular.web.opportunities import Rows
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.tables import Role
from ocular.web.views import RecommendationView, view_recommendation
from ocular.web.visibility import owner_names


@dataclass(frozen=True)
class StepView:
    """A next step: a recommendation with its chance, and what was said of it before."""

    recommendation: RecommendationView
    pitch: str  # the strongest reason in a sentence to say on the phone
    chance: float  # to buy
    profile: list[str]  # what is known of the client
    seller: str | None  # who has the client, for those who have sellers
    returned: date | None  # the day until which it was snoozed
    seal: str


def next_steps(services: Services, served: ServedModel, visitor: Visitor, clients: Rows, n: int) -> list[StepView]:
    """Return the n best next steps for these clients."""
    closed = feedback.closed_pairs(services, served, pursued=True)
    labels, products = served.interactions.user_labels, served.interactions.item_labels
    with services.computing:
        steps = served.opportunities.next_steps(clients, closed, n)
    names = {str(labels[step.user]) for step in steps}
    latest = feedback.latest_by_pair(services.database, names)
    with services.database.reading() as transaction:
        sellers = {} if visitor.role is Role.SELLER else owner_names(transaction, names)
    readable, key, views = services.visibility.readable_names(served, visitor), services.signing_key, []
    with services.computing:
        for step in steps:
            client, product = str(labels[step.user]), str(products[step.item])
            found = served.advisor.explain(labels[step.user], products[step.item])
            view = view_recommendation(served, found, readable, evidence=False)
            said = latest.get((client, product))
            views.append(
                StepView(
                    recommendation=view,
                    pitch=view.strongest_reason,
                    chance=step.chance,
                    profile=[value for value in step.attributes if value],
                    seller=sellers.get(client),
                    returned=said.due if said is not None and said.status == Status.SNOOZED else None,
                    seal=seal_recommendation(key, served, found),
                )
            )
    return views
