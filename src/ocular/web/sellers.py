"""The clients of one seller, for lists that a manager narrows down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocular.web.auth import Visitor
from ocular.web.registry import ServedModel
from ocular.web.services import Services
from ocular.web.tables import User
from ocular.web.visibility import Rows, overseen_sellers

UNASSIGNED = "-"  # in place of a seller's name, which never begins so


@dataclass(frozen=True, eq=False)
class ChosenClients:
    """The clients of a list: all that the visitor may see, or those of one seller."""

    sellers: list[User]  # to choose from; none for a seller
    seller: str  # the name chosen, UNASSIGNED, or "" for all
    clients: Rows  # ascending


def choose_clients(services: Services, served: ServedModel, visitor: Visitor, seller: str = "") -> ChosenClients:
    """Return the clients that the visitor may see, of one seller where that is chosen; an unknown seller is ignored."""
    with services.database.reading() as transaction:
        sellers = overseen_sellers(transaction, visitor)
    clients, assigned = services.visibility.clients_of(served, visitor), services.assignments.read(served)
    ids = {user.name: user.id for user in sellers}
    if seller == UNASSIGNED and sellers:
        return ChosenClients(sellers, seller, np.setdiff1d(clients, assigned.all_clients()))
    if seller in ids:
        return ChosenClients(sellers, seller, np.intersect1d(clients, assigned.clients_of(ids[seller])))
    return ChosenClients(sellers, "", clients)
