"""Assignments proposed by a column of the purchase data that names each client's seller."""

from __future__ import annotations

import csv
import io
from collections import Counter

from sqlalchemy import select
from sqlalchemy.orm import Session as Transaction

from ocular.data.interactions import Interactions
from ocular.web.auth import Visitor
from ocular.web.opportunities import fold
from ocular.web.tables import Assignment
from ocular.web.visibility import overseen_sellers

COLUMN_NAMES = ("seller", "owner", "account manager", "account owner", "sales rep", "salesperson", "rep")


def find_seller_column(interactions: Interactions) -> str | None:
    """Return the attribute of clients that names their seller."""
    by_name = {fold(name.replace("_", " ").replace("-", " ")): name for name in interactions.user_attributes}
    return next((by_name[name] for name in COLUMN_NAMES if name in by_name), None)


def match_sellers(interactions: Interactions, transaction: Transaction, visitor: Visitor) -> tuple[str, dict[str, int]]:
    """
    Return a CSV file of assignments for clients that nobody has, and the names in the data that no seller has.

    A name is matched with full names and usernames, whatever its capitals and accents; one that two sellers share is
    matched with neither.
    """
    column = find_seller_column(interactions)
    sellers = overseen_sellers(transaction, visitor)
    spellings = [(fold(text), user.name) for user in sellers for text in {user.name, user.full_name}]
    shared = {text for text, count in Counter(text for text, _ in set(spellings)).items() if count > 1}
    known = {text: name for text, name in spellings if text not in shared}
    assigned, unmatched = set(transaction.scalars(select(Assignment.client))), Counter[str]()
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(("client", "seller"))
    names = [] if column is None else interactions.user_attributes[column].tolist()
    by_name = {name: known.get(fold(str(name))) for name in set(names)}
    for client, name in zip(map(str, interactions.user_labels), names, strict=False):
        if client in assigned or name is None or not str(name).strip():
            continue
        if by_name[name] is None:
            unmatched[str(name)] += 1
        else:
            writer.writerow((client, by_name[name]))
    return file.getvalue(), dict(unmatched.most_common())
