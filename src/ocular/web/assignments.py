"""Assignments of clients to sellers as a CSV file: previewed before it is stored, with the line of every mistake."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.orm import Session as Transaction

from ocular.data.interactions import Interactions
from ocular.storage import escape_formula
from ocular.web.auth import Visitor
from ocular.web.database import Database
from ocular.web.errors import RefusedError
from ocular.web.tables import LABEL, Assignment, Role, User
from ocular.web.visibility import Owner, may_see_client_of, overseen_sellers, oversees

COLUMNS = ("client", "seller")
DELIMITERS = ",;\t"
MAX_ERRORS = 50  # that are listed; the others are counted


@dataclass
class Preview:
    """What a file would change."""

    new: int = 0
    changed: int = 0
    same: int = 0
    freed: int = 0
    errors: list[str] = field(default_factory=list)  # each with the number of its line
    n_errors: int = 0
    unmatched: dict[str, int] = field(default_factory=dict)  # names in the data that no seller has, and their clients

    def refuse(self, line: int, mistake: object) -> None:
        self.n_errors += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(f"Line {line}: {mistake}")


def decode(content: bytes) -> str:
    """Return the text of a file."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RefusedError("The file is not in UTF-8; save it as CSV UTF-8") from None


def read_assignments(
    content: str, interactions: Interactions, transaction: Transaction, visitor: Visitor
) -> tuple[Preview, dict[str, int | None]]:
    """
    Return what the file would change, and the new owner of each client who changes hands; None takes it from everybody.

    A manager may name sellers of their own team, and clients of the team or of nobody.
    """
    sellers = {user.name: user for user in overseen_sellers(transaction, visitor)}
    assigned = select(Assignment.client, User.id, User.team).join(User, User.id == Assignment.user_id)
    owners = {client: Owner(user_id, team) for client, user_id, team in transaction.execute(assigned)}
    admin = visitor.role is Role.ADMIN
    preview, changes, seen = Preview(), dict[str, int | None](), set[str]()
    lines = csv.reader(io.StringIO(content, newline=""), delimiter=find_delimiter(content))
    try:
        header = [name.strip().casefold() for name in next(lines, [])]
        if sorted(header) != sorted(COLUMNS):
            preview.refuse(1, f"expected the columns client and seller, got {', '.join(header)}")
            return preview, {}
        place = header.index("client")
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(COLUMNS):
                preview.refuse(lines.line_num, f"expected {len(COLUMNS)} cells, got {len(cells)}")
                continue
            client, seller = cells[place].strip(), cells[1 - place].strip().casefold()
            if client not in interactions.user_rows and escape_formula(client[1:]) == client:
                client = client[1:]  # the mark of our own export for what a spreadsheet would run
            owner = owners.get(client)
            if client not in interactions.user_rows or not may_see_client_of(visitor, owner):
                # one line for both: it must not tell which clients others have
                mistake = f"Client not found: {client!r}"
            elif len(client) > LABEL:
                mistake = f"Use at most {LABEL} characters for the name of a client"
            elif client in seen:
                mistake = f"Duplicate client {client!r}"
            elif seller and seller not in sellers:
                mistake = f"Seller not found{'' if admin else ' in your team'}: {seller!r}"
            else:
                seen.add(client)
                _count(preview, changes, client, sellers[seller].id if seller else None, owner)
                continue
            preview.refuse(lines.line_num, mistake)
    except csv.Error as error:
        preview.refuse(lines.line_num, error)
    return preview, changes


def find_delimiter(content: str) -> str:
    """Return the delimiter of the first line: spreadsheets use the one of their country."""
    first = content.partition("\n")[0]
    return max(DELIMITERS, key=first.count)


def _count(
    preview: Preview, changes: dict[str, int | None], client: str, seller: int | None, owner: Owner | None
) -> None:
    before = None if owner is None else owner.user_id
    if seller == before:
        preview.same += 1
        return
    changes[client] = seller
    if seller is None:
        preview.freed += 1
    elif before is None:
        preview.new += 1
    else:
        preview.changed += 1


def describe_changes(changes: dict[str, int | None], transaction: Transaction) -> list[str]:
    """Return a line for each client who changes hands, before that is stored: the old and the new seller."""
    names = dict(transaction.execute(select(User.id, User.name)).all())
    owned = select(Assignment.client, Assignment.user_id)
    owners = dict(transaction.execute(owned).all())
    return [
        f"{client}: {names.get(owners.get(client, 0), 'nobody')} → {names.get(seller or 0, 'nobody')}"
        for client, seller in changes.items()
    ]


def save_assignments(changes: dict[str, int | None], transaction: Transaction) -> None:
    """Store the new owners, with one statement for all deletions and one for all insertions."""
    connection = transaction.connection()
    if changes:
        gone = delete(Assignment).where(Assignment.client == bindparam("gone"))
        connection.execute(gone, [{"gone": client} for client in changes])
    new = [{"client": client, "user_id": seller} for client, seller in changes.items() if seller is not None]
    if new:
        connection.execute(insert(Assignment), new)


def export_rows(database: Database, visitor: Visitor) -> Iterator[dict[str, object]]:
    """Yield the assignments that the visitor oversees, as a file that can be read in again."""
    query = select(Assignment.client, User.name, User.id, User.team).join(User, User.id == Assignment.user_id)
    with database.reading() as transaction:
        rows = transaction.execute(query.order_by(User.name, Assignment.client)).all()
    for client, seller, user_id, team in rows:  # after the transaction: whoever downloads them may be slow
        if oversees(visitor, Owner(user_id, team)):
            yield {"client": client, "seller": seller}
