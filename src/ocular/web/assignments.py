"""Whose client is whose: read from a CSV file, shown before it is kept, with the line of everything that is wrong."""

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

COLUMNS = ("client", "seller")
DELIMITERS = ",;\t"
MOST_ERRORS = 50  # that are told; the others are counted


@dataclass
class Preview:
    """What a file would do."""

    new: int = 0
    changed: int = 0
    same: int = 0
    freed: int = 0
    errors: list[str] = field(default_factory=list)  # each with the number of its line
    n_errors: int = 0

    def refuse(self, line: int, mistake: object) -> None:
        self.n_errors += 1
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(f"line {line}: {mistake}")


def decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RefusedError("expected a CSV file in UTF-8, got other bytes; save it as CSV UTF-8") from None


def read_assignments(
    content: str, history: Interactions, transaction: Transaction, visitor: Visitor
) -> tuple[Preview, dict[str, int | None]]:
    """
    What the file would do, and the new owner of each client who changes hands; None takes it from everybody.

    A manager names sellers of the own team, and clients of the team or of nobody.
    """
    sellers = {user.name: user for user in transaction.scalars(select(User).where(User.role == Role.SELLER))}
    owned = select(Assignment.client, User.id, User.team).join(User, User.id == Assignment.user_id)
    owners = {client: (user, team) for client, user, team in transaction.execute(owned)}
    admin = visitor.role is Role.ADMIN
    if not admin:
        sellers = {name: user for name, user in sellers.items() if visitor.in_team(user.id, user.team)}
    preview, changes, seen = Preview(), dict[str, int | None](), set[str]()
    lines = csv.reader(io.StringIO(content, newline=""), delimiter=_delimiter(content))
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
            if client not in history.user_rows and escape_formula(client[1:]) == client:
                client = client[1:]  # as our own export marks what a spreadsheet would run
            owner = owners.get(client)
            if client not in history.user_rows or not (admin or owner is None or visitor.in_team(*owner)):
                # one line for both: it must not tell which clients others have
                wrong = f"{'the model knows' if admin else 'you have'} no client {client!r}"
            elif len(client) > LABEL:
                wrong = f"expected a name of at most {LABEL} letters, got {len(client)}"
            elif client in seen:
                wrong = f"the client {client!r} stands in the file twice"
            elif seller and seller not in sellers:
                wrong = f"there is no seller {seller!r}" + ("" if admin else " in your team")
            else:
                seen.add(client)
                _count(preview, changes, client, sellers[seller].id if seller else None, owner)
                continue
            preview.refuse(lines.line_num, wrong)
    except csv.Error as error:
        preview.refuse(lines.line_num, error)
    return preview, changes


def _delimiter(content: str) -> str:
    """The one that the first line has: spreadsheets take what is usual in their country."""
    first = content.partition("\n")[0]
    return max(DELIMITERS, key=first.count)


def _count(
    preview: Preview, changes: dict[str, int | None], client: str, seller: int | None, owner: tuple[int, str] | None
) -> None:
    before = None if owner is None else owner[0]
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


def keep_assignments(changes: dict[str, int | None], transaction: Transaction) -> None:
    """Many rows in one statement each."""
    connection = transaction.connection()
    if changes:
        gone = delete(Assignment).where(Assignment.client == bindparam("gone"))
        connection.execute(gone, [{"gone": client} for client in changes])
    new = [{"client": client, "user_id": seller} for client, seller in changes.items() if seller is not None]
    if new:
        connection.execute(insert(Assignment), new)


def export_rows(database: Database, visitor: Visitor) -> Iterator[dict[str, object]]:
    """Who has which client now, as a file that can be read in again; those of the team."""
    chosen = select(Assignment.client, User.name, User.id, User.team).join(User, User.id == Assignment.user_id)
    with database.reading() as transaction:
        for client, seller, user, team in transaction.execute(
            chosen.order_by(User.name, Assignment.client).execution_options(yield_per=1000)
        ):
            if visitor.role is Role.ADMIN or visitor.in_team(user, team):
                yield {"client": client, "seller": seller}
