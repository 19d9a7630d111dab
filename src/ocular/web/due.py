"""What a client is due to buy again, as a page and the API show it: only dates of the client's own, and counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from ocular.due import DueProduct
from ocular.explain.names import product_name
from ocular.web.registry import ServedModel


@dataclass(frozen=True)
class DueView:
    """A product that a client buys regularly and that is due again."""

    product: str  # the label
    product_name: str
    last_purchase: date
    interval: float  # days
    days_since: int
    overdue: float  # days; negative where it will be due soon
    purchases: int
    clients: int  # that buy it regularly
    usual_quantity: float | None
    usual_price: float | None
    state: str  # how late it is, in words
    sentence: str


@dataclass(frozen=True)
class DueListView:
    """What is due on a day; None stands for a model without dates."""

    as_of: date | None
    products: list[DueView]


def view_due(served: ServedModel, client: str, n: int) -> DueListView:
    """Return the first n products that a client is due to buy again, most often bought first."""
    if served.reorders is None:
        return DueListView(None, [])
    due = served.advisor.due(client, n)
    return DueListView(date.fromisoformat(str(due.as_of)), [_view(served, each) for each in due])


@dataclass(frozen=True)
class DueClient:
    """A client who is due to buy a product again."""

    client: str  # the label
    client_name: str
    due: DueView


@dataclass(frozen=True)
class DueClientsView:
    """What is due across some clients; None stands for a model without dates."""

    as_of: date | None
    total: int  # pairs that are due
    first: list[DueClient]


def view_due_of(served: ServedModel, clients: NDArray[np.int64], n: int) -> DueClientsView:
    """Return the first n products that these clients are due to buy again, longest due first."""
    reorders = served.reorders
    if reorders is None:
        return DueClientsView(None, 0, [])
    wanted = np.zeros(served.interactions.n_users, dtype=bool)
    wanted[clients] = True
    allowed = ~served.advisor.model.excluded_items_
    rows = reorders.due[wanted[reorders.users[reorders.due]] & allowed[reorders.items[reorders.due]]]
    longest = np.argsort(reorders.intervals[rows] - reorders.days_since[rows], kind="stable")[:n]
    first = []
    for row in rows[longest]:
        user = int(reorders.users[row])
        (due,) = reorders.due_list(np.array([row]), user)
        client = str(served.interactions.user_labels[user])
        first.append(DueClient(client, served.client_name(client), _view(served, due)))
    return DueClientsView(date.fromisoformat(str(reorders.as_of)), len(rows), first)


def _view(served: ServedModel, due: DueProduct) -> DueView:
    return DueView(
        product=str(served.interactions.item_labels[due.item]),
        product_name=product_name(due.product),
        last_purchase=due.last_purchase,
        interval=due.interval,
        days_since=due.days_since,
        overdue=due.overdue,
        purchases=due.n_purchases,
        clients=due.n_clients,
        usual_quantity=due.usual_quantity,
        usual_price=due.usual_price,
        state=due.state,
        sentence=due.text(),
    )
