"""Users as a CSV file: previewed before it is stored, with the line of every mistake; new ones get an invitation."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session as Transaction

from ocular.errors import ConfigError
from ocular.web import users
from ocular.web.assignments import MAX_ERRORS, find_delimiter
from ocular.web.auth import Visitor
from ocular.web.invitations import INVITATION_HOURS, create_link
from ocular.web.tables import NAME, Role, User

REQUIRED = "username"
ALIASES = {
    "username": "username", "user": "username", "login": "username", "name": "name", "full name": "name",
    "role": "role", "team": "team", "e-mail": "e-mail", "email": "e-mail",
}  # fmt: skip
MAX_USERS = 5000  # in a file
LINK_COLUMNS = ("username", "name", "link")


@dataclass(frozen=True)
class ListedUser:
    """A user as a line of the file has it."""

    line: int
    name: str
    full_name: str
    role: str
    team: str
    change: str  # "New", "Updated" or "Unchanged"


@dataclass
class UserPreview:
    """What a file would change."""

    listed: list[ListedUser] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # each with the number of its line
    n_errors: int = 0

    def refuse(self, line: int, mistake: object) -> None:
        self.n_errors += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(f"Line {line}: {mistake}")

    def count(self, change: str) -> int:
        return sum(user.change == change for user in self.listed)


def read_users(content: str, transaction: Transaction, visitor: Visitor) -> UserPreview:
    """
    Return what a file with the columns username, name, role, team and e-mail would change; only the first is needed.

    The role is seller where there is none; a column or cell that is left out changes nothing of users that exist.
    """
    preview, seen = UserPreview(), set[str]()
    known = {user.name: user for user in transaction.scalars(select(User))}
    lines = csv.reader(io.StringIO(content, newline=""), delimiter=find_delimiter(content))
    try:
        columns = [ALIASES.get(" ".join(cell.split()).casefold(), "") for cell in next(lines, [])]
        named = [column for column in columns if column]
        if REQUIRED not in named or len(set(named)) < len(named):
            preview.refuse(1, "expected the columns username, name, role, team and e-mail; only the first is required")
            return preview
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            if len(preview.listed) + preview.n_errors >= MAX_USERS:
                preview.refuse(lines.line_num, f"At most {MAX_USERS:,} users per file")
                break
            try:
                if len(cells) != len(columns):
                    raise ConfigError(f"expected {len(columns)} cells, got {len(cells)}")
                given = {column: cell.strip() for column, cell in zip(columns, cells, strict=True)}
                listed = _listed(lines.line_num, given, known, visitor)
                if listed.name in seen:
                    raise ConfigError(f"Duplicate username {listed.name!r}")
                seen.add(listed.name)
                preview.listed.append(listed)
            except ConfigError as error:
                preview.refuse(lines.line_num, error)
    except csv.Error as error:
        preview.refuse(lines.line_num, error)
    return preview


def _listed(line: int, given: dict[str, str], known: dict[str, User], visitor: Visitor) -> ListedUser:
    name = users.checked_name(given[REQUIRED])
    user = known.get(name)
    full_name = given.get("name") or (name if user is None else user.full_name)
    role = given.get("role", "").casefold() or (Role.SELLER if user is None else user.role)
    team = " ".join(given.get("team", "").split()) or ("" if user is None else user.team)
    if role not in set(Role):
        raise ConfigError(f"Unknown role {role!r}; use one of {', '.join(Role)}")
    if len(full_name) > NAME or len(team) > NAME:
        raise ConfigError(f"Use at most {NAME} characters for a name or a team")
    if user is not None and user.id == visitor.user.id and role != Role.ADMIN:
        raise ConfigError("You can't change your own role")
    change = "New"
    if user is not None:
        same = (user.full_name, user.role, user.team.casefold()) == (full_name, role, team.casefold())
        change = "Unchanged" if same else "Updated"
    return ListedUser(line, name, full_name, role, team, change)


def save_users(preview: UserPreview, transaction: Transaction) -> list[tuple[User, str]]:
    """Add and update users; return those that are new with the token of their invitation."""
    invited = []
    for listed in preview.listed:
        if listed.change == "New":
            user = users.add_user(
                transaction, listed.name, listed.role, None, full_name=listed.full_name, team=listed.team
            )
            invited.append((user, create_link(transaction, user, "invitation", INVITATION_HOURS)))
        elif listed.change == "Updated":
            user = users.find_user(transaction, listed.name)
            users.update_user(transaction, user, listed.role, listed.full_name, listed.team)
    return invited
