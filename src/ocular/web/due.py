"""What a client is due to buy again, as a page and the API show it: only dates of the client's own, and counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from ocular.due import has_dates
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
    if not has_dates(served.interactions):
        return DueListView(None, [])
    due = served.advisor.due(client, n)
    views = [
        DueView(
            product=str(served.interactions.item_labels[each.item]),
            product_name=product_name(each.product),
            last_purchase=each.last_purchase,
            interval=each.interval,
            days_since=each.days_since,
            overdue=each.overdue,
            purchases=each.n_purchases,
            clients=each.n_clients,
            usual_quantity=each.usual_quantity,
            usual_price=each.usual_price,
            state=each.state,
            sentence=each.text(),
        )
        for each in due
    ]
    return DueListView(date.fromisoformat(str(due.as_of)), views)
