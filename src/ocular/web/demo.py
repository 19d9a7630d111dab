"""People for the demo: one of each role, with new random passwords."""

from __future__ import annotations

import secrets
from collections import Counter

from sqlalchemy import delete, select

from ocular.data.interactions import Interactions
from ocular.web import users
from ocular.web.database import Database
from ocular.web.tables import Assignment, Role, User

SCOPES = {
    Role.SELLER: "the clients of one seller",
    Role.MANAGER: "all clients, and what became of recommendations",
    Role.ADMIN: "people, tokens and the audit log too",
}


def prepare(url: str, interactions: Interactions) -> list[tuple[str, str, str]]:
    """Return name, password and scope of one person per role; the seller gets the clients of the busiest seller."""
    database = Database(url)
    database.upgrade()
    people = []
    with database.writing() as transaction:
        for role, sees in SCOPES.items():
            password = secrets.token_urlsafe(12)
            if transaction.scalar(select(User.id).where(User.name == str(role))) is None:
                users.add_user(transaction, role, role, password, full_name=role.title())
            else:
                users.set_password(transaction, users.find_user(transaction, role), password)
            people.append((str(role), password, sees))
        seller = users.find_user(transaction, Role.SELLER)
        transaction.execute(delete(Assignment))
        for client in _clients_of_the_busiest(interactions):
            transaction.add(Assignment(client=client, user_id=seller.id))
    database.close()
    return people


def _clients_of_the_busiest(interactions: Interactions) -> list[str]:
    clients = [str(label) for label in interactions.user_labels]
    sellers = interactions.user_attributes.get("seller")
    if sellers is None:
        return clients
    busiest, _ = Counter(sellers.tolist()).most_common(1)[0]
    return [client for client, seller in zip(clients, sellers.tolist(), strict=True) if seller == busiest]
