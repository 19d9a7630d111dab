"""The scene of the demo: people in two teams with new random passwords, their clients, and six months of their work."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import delete
from sqlalchemy.orm import Session as Transaction

from ocular.synthetic.showcase_names import COUNTRIES, HERO_COUNTRY, SELLERS
from ocular.web import demo_history, users
from ocular.web.audit import entry
from ocular.web.audit_chain import append, clear
from ocular.web.database import Database
from ocular.web.invitations import sign_in_link
from ocular.web.registry import Registry, ServedModel
from ocular.web.tables import Assignment, AuditEntry, AuditHead, Base, Key, Role, User, now

LEADERS = {"Hanna Osterholt": ("hanna", "North"), "Paolo Serravalle": ("paolo", "South")}
ADMIN, ADMIN_NAME = "Ruth Okonjo", "ruth"


class Person(NamedTuple):
    """Somebody who may sign in, as the demo lists them."""

    username: str
    password: str
    name: str
    sees: str


def prepare(url: str, models: Path) -> list[Person]:
    """
    Fill the database of the demo anew and return who may sign in, the one with the first card first.

    `models` is a folder with the folders of the models, of which the newest knows all clients.
    """
    database = Database(url)
    database.upgrade()
    served = _all_models(models)
    with database.writing() as transaction:
        for table in reversed(Base.metadata.sorted_tables):
            # forms of an earlier run stay genuine; the audit log is cleared with its chain
            if table not in (Key.__table__, AuditEntry.__table__, AuditHead.__table__):
                transaction.execute(delete(table))
        clear(transaction)
        people, sellers = _add_people(transaction)
        owners = _assign(transaction, served[-1], sellers)
        history = list(demo_history.rows(served, owners, now()))
        transaction.add_all(row for row in history if not isinstance(row, AuditEntry))
        entries = (row for row in history if isinstance(row, AuditEntry))
        append(transaction, [entry(row.name, row.action, row.subject, row.address) | {"at": row.at} for row in entries])
    database.close()
    return people


def open_link(url: str, site: str) -> tuple[str, str]:
    """Return the full name of the seller with the first card, and a link that signs them in once."""
    database = Database(url)
    with database.writing() as transaction:
        user = users.find_user(transaction, SELLERS[COUNTRIES[HERO_COUNTRY].seller].username)
        link = user.full_name, sign_in_link(transaction, user, site)
    database.close()
    return link


def _all_models(folder: Path) -> list[ServedModel]:
    """Return the models of a folder, the oldest first."""
    log = logging.getLogger("ocular.web")
    level, served = log.level, []
    log.setLevel(logging.WARNING)  # these are read, not served
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        registry = Registry(path)
        registry.refresh()
        served.append(registry.current)
    log.setLevel(level)
    return sorted(served, key=lambda model: model.created)


def _add_people(transaction: Transaction) -> tuple[list[Person], dict[str, User]]:
    """Add sellers, managers and an administrator; return all of them, and the sellers by their full names."""
    people: list[Person] = []

    def add(name: str, username: str, role: Role, team: str, sees: str) -> User:
        password = secrets.token_urlsafe(12)
        people.append(Person(username, password, name, sees))
        return users.add_user(transaction, username, role, password, full_name=name, team=team)

    sellers = {
        name: add(name, seller.username, Role.SELLER, seller.team, f"their own clients (team {seller.team})")
        for name, seller in SELLERS.items()
    }
    for name, (username, team) in LEADERS.items():
        add(name, username, Role.MANAGER, team, f"team {team}: its clients and its results")
    add(ADMIN, ADMIN_NAME, Role.ADMIN, "", "everything, with users and the audit log")
    return people, sellers


def _assign(transaction: Transaction, served: ServedModel, sellers: dict[str, User]) -> dict[str, User]:
    """Assign clients by the data's own column; return the owner of every client."""
    data = served.interactions
    names = data.user_attributes["seller"].tolist()
    owners = {str(client): sellers[name] for client, name in zip(data.user_labels.tolist(), names, strict=True)}
    transaction.add_all(Assignment(client=client, user_id=user.id) for client, user in owners.items())
    return owners
