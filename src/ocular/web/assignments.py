"""Whose client is whose: read from a CSV file, shown before it is kept, with the line of everything that is wrong."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session as Transaction

from ocular.data.interactions import Interactions
from ocular.web.tables import LABEL, Assignment, Role, User

COLUMNS = ("client", "seller")
MOST_ERRORS = 50


@dataclass(frozen=True)
class Preview:
    """What a file would do."""

    rows: list[tuple[str, str]]  # client and name of the seller; "" takes the client from everybody
    new: int
    changed: int
    same: int
    freed: int
    errors: list[str]  # each with the number of its line


def read_assignments(content: str, history: Interactions, transaction: Transaction, team: str | None) -> Preview:
    """team: sellers of this team may be named, and clients of others not be taken; None for an administrator."""
    sellers = {user.name: user for user in transaction.scalars(select(User).where(User.role == Role.SELLER))}
    owned = select(Assignment.client, User).join(User, User.id == Assignment.user_id)
    owners = {row.client: row.User for row in transaction.execute(owned)}
    rows: dict[str, str] = {}
    errors, counts = [], dict.fromkeys(("new", "changed", "same", "freed"), 0)
    lines = csv.reader(io.StringIO(content.removeprefix("\ufeff"), newline=""))
    try:
        header = [name.strip().casefold() for name in next(lines, [])]
        if sorted(header) != sorted(COLUMNS):
            return Preview([], 0, 0, 0, 0, [f"line 1: expected the columns client and seller, got {', '.join(header)}"])
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            wrong = _mistake(cells, header, history, sellers, owners, rows, team)
            if wrong is not None:
                errors.append(f"line {lines.line_num}: {wrong}")
                continue
            found = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            client, seller = found["client"], found["seller"].casefold()
            before = owners.get(client)
            rows[client] = seller
            kind = (
                "freed" if not seller else "new" if before is None else "same" if before.name == seller else "changed"
            )
            counts[kind] += 1
    except csv.Error as error:
        errors.append(f"line {lines.line_num}: {error}")
    return Preview(list(rows.items()), **counts, errors=errors)


def _mistake(
    cells: list[str], header: list[str], history: Interactions, sellers: dict[str, User], owners: dict[str, User],
    rows: dict[str, str], team: str | None,
) -> str | None:  # fmt: skip
    if len(cells) != len(header):
        return f"expected {len(header)} cells, got {len(cells)}"
    found = dict(zip(header, (cell.strip() for cell in cells), strict=True))
    client, seller = found["client"], found["seller"].casefold()
    if client not in history.user_rows:
        return f"the model knows no client {client!r}"
    if len(client) > LABEL:
        return f"expected a name of at most {LABEL} letters, got {len(client)}"
    if client in rows:
        return f"the client {client!r} stands in the file twice"
    if seller and (seller not in sellers or (team is not None and sellers[seller].team != team)):
        return f"there is no seller {seller!r}" + ("" if team is None else " in your team")
    if team is not None and client in owners and owners[client].team != team:
        return f"the client {client!r} belongs to another team"
    return None


def keep_assignments(preview: Preview, transaction: Transaction) -> None:
    users = {user.name: user.id for user in transaction.scalars(select(User))}
    for client, seller in preview.rows:
        transaction.execute(delete(Assignment).where(Assignment.client == client))
        if seller:
            transaction.add(Assignment(client=client, user_id=users[seller]))
