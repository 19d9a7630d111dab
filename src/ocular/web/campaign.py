"""A campaign: the visitor's clients ranked by their chance to buy one product, each with the strongest reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from ocular.feedback import CLOSED, Status
from ocular.web.auth import Visitor
from ocular.web.catalog import owned_by
from ocular.web.database import Database
from ocular.web.errors import ConflictError, NotFoundError
from ocular.web.feedback import NewFeedback, record
from ocular.web.feedback_seal import ShownRecommendation, make_seal
from ocular.web.registry import ServedModel
from ocular.web.sellers import ChosenClients, choose_clients
from ocular.web.services import Services
from ocular.web.tables import LABEL, Feedback
from ocular.web.views import NO_REASON, pitch_reason
from ocular.web.visibility import owner_names

MAX_EXPORT = 1000  # clients in a file: each is explained
COLUMNS = (
    "client", "client_name", "product", "product_name", "chance", "value", "currency", "confidence", "status", "seller",
    "reason",
)  # fmt: skip


@dataclass(frozen=True)
class CampaignFilter:
    """Which clients a campaign is for."""

    min_chance: float = 0.0  # to buy
    seller: str = ""
    attribute: str = ""  # "industry:Airline"


@dataclass(frozen=True)
class CampaignRow:
    """A client of a campaign as pages, files and programs show it."""

    client: str  # the label
    client_name: str
    chance: float
    value: float | None  # expected; None where the product has no typical price
    confidence: float
    status: str | None  # "pursuing" for what is in My calls
    seller: str | None  # for managers and administrators
    reason: str
    kind: str | None
    pattern: int | None
    seal: str


@dataclass(frozen=True, eq=False)
class Campaign:
    """The clients to offer a product to, best first."""

    item: int
    users: NDArray[np.int64]
    chances: NDArray[np.float64]
    statuses: dict[str, str]  # of all clients with feedback on the product that is not closed
    chosen: ChosenClients
    n_owners: int  # clients of the visitor who have it
    n_closed: int  # clients of the visitor for whom it is closed, snoozed or refused


def plan_campaign(
    services: Services, served: ServedModel, visitor: Visitor, item: int, wanted: CampaignFilter
) -> Campaign:
    """Score the product for every client that the visitor may see, and rank those it can be offered to."""
    chosen = choose_clients(services, served, visitor, wanted.seller)
    interactions = served.interactions
    users = served.opportunities.attributes.matching(chosen.clients, [wanted.attribute])
    product = str(interactions.item_labels[item])
    latest = _latest_statuses(services.database, product)
    hidden = np.zeros(interactions.n_users, dtype=bool)
    rows = interactions.user_rows
    hidden[[rows[client] for client, status in latest.items() if status is None and client in rows]] = True
    if interactions.by_item.refused is not None:
        hidden[interactions.by_item.refused[item]] = True
    owned = owned_by(interactions, item)
    n_owners, n_closed = int(owned[users].sum()), int((hidden & ~owned)[users].sum())
    users = users[~(owned | hidden)[users]] if served.catalog.is_recommended(item) else users[:0]
    with services.computing:
        probabilities = served.catalog.probabilities(item)[users]
    chances = served.opportunities.expected_values.chances(probabilities)
    if wanted.min_chance:
        likely = chances >= wanted.min_chance
        users, probabilities, chances = users[likely], probabilities[likely], chances[likely]
    order = np.lexsort((users, -interactions.by_user.degrees[users], -probabilities.astype(np.float32)))
    statuses = {client: status for client, status in latest.items() if status is not None}
    return Campaign(item, users[order], chances[order], statuses, chosen, n_owners, n_closed)


def _latest_statuses(database: Database, product: str) -> dict[str, str | None]:
    """Return the latest status of a product for each client with feedback; None where nothing is to be done now."""
    ids = select(func.max(Feedback.id)).where(Feedback.product == product).group_by(Feedback.client)
    query = select(Feedback.client, Feedback.status, Feedback.due).where(Feedback.id.in_(ids))
    today = datetime.now(UTC).date()
    with database.reading() as transaction:
        return {
            client: None if is_settled(status, due, today) else status
            for client, status, due in transaction.execute(query)
        }


def is_settled(status: str, due: date | None, today: date) -> bool:
    """Return whether nothing is to be done now: it is closed, or put off until a later day."""
    return status in CLOSED or (status != Status.PURSUING and due is not None and due > today)


def view_rows(services: Services, served: ServedModel, campaign: Campaign, part: slice) -> list[CampaignRow]:
    """Explain some of the clients of a campaign."""
    users, rows = campaign.users[part], []
    labels, key = [str(served.interactions.user_labels[user]) for user in users.tolist()], services.signing_key
    sellers: dict[str, str] = {}
    if campaign.chosen.sellers:
        with services.database.reading() as transaction:
            sellers = owner_names(transaction, labels)
    product, item = str(served.interactions.item_labels[campaign.item]), campaign.item
    confidences, worth = served.catalog.probabilities(item)[users], served.opportunities.expected_values
    reasons = served.advisor.model.strongest_reasons(users, item)
    for label, user, confidence, chance, reason in zip(
        labels, users.tolist(), confidences.tolist(), campaign.chances[part].tolist(), reasons, strict=True
    ):
        value, client_name = worth.value(item, confidence), served.opportunities.client_names[user]
        pattern, name = None, ""
        if reason is not None:
            pattern, name = served.reason_label(reason)
        rows.append(
            CampaignRow(
                client=label,
                client_name=client_name,
                chance=round(chance, 4),
                value=None if value is None else round(value, 2),
                confidence=round(confidence, 6),
                status=campaign.statuses.get(label),
                seller=sellers.get(label),
                reason=NO_REASON if reason is None else pitch_reason(served.interactions, client_name, reason),
                kind=None if reason is None else reason.kind,
                pattern=pattern,
                seal=make_seal(
                    key, label, product, ShownRecommendation(served.version, confidence, pattern, name[:LABEL])
                ),
            )
        )
    return rows


def export_rows(
    services: Services, served: ServedModel, campaign: Campaign, at_once: int = 50
) -> Iterator[dict[str, object]]:
    """Yield the first MAX_EXPORT clients of a campaign as rows, explained some at a time."""
    product = str(served.interactions.item_labels[campaign.item])
    same = {
        "product": product, "product_name": served.product_name(product), "currency": served.interactions.currency,
    }  # fmt: skip
    for start in range(0, min(len(campaign.users), MAX_EXPORT), at_once):
        with services.computing:
            rows = view_rows(services, served, campaign, slice(start, min(start + at_once, MAX_EXPORT)))
        for row in rows:
            yield {name: "" if value is None else value for name, value in (asdict(row) | same).items()}


@dataclass
class Added:
    """What became of the clients that were to be added to My calls."""

    added: int = 0
    already: int = 0  # in My calls
    closed: int = 0
    owned: int = 0
    unknown: int = 0  # not among the visitor's clients


def add_to_calls(
    services: Services, served: ServedModel, visitor: Visitor, product: str, chosen: list[tuple[str, str]]
) -> Added:
    """Mark the product as pursued for the clients, each with the seal of what was shown; skip what is settled."""
    latest, added = _latest_statuses(services.database, product), Added()
    for client, seal in dict(chosen).items():
        try:
            services.visibility.find_client(served, visitor, client)
            if client in latest and latest[client] is None:
                added.closed += 1
            elif latest.get(client) == Status.PURSUING:
                added.already += 1
            else:
                record(services, served, visitor, NewFeedback(client, product, Status.PURSUING), seal)
                added.added += 1
        except NotFoundError:
            added.unknown += 1
        except ConflictError:
            added.owned += 1
    return added
