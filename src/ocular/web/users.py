"""People who may sign in, and tokens for programs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta

from sqlalchemy import Select, delete, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Transaction

from ocular.errors import ConfigError
from ocular.web import credentials
from ocular.web.database import lock
from ocular.web.invitations import delete_links
from ocular.web.tables import NAME, Failure, Role, Scope, Session, Token, User, now

VALID_NAME = re.compile(rf"[a-z0-9][a-z0-9._@+-]{{0,{NAME - 1}}}")
TOKEN_DAYS, MAX_TOKEN_DAYS = 90, 365
NO_PASSWORD = ""  # the hash of none: nothing matches it


def add_user(
    transaction: Transaction, name: str, role: str, password: str | None, *, full_name: str = "", team: str = ""
) -> User:
    """Add somebody who may sign in; without a password, once they have accepted an invitation."""
    name = checked_name(name)
    taken = ConfigError(f"Username taken: {name!r}")
    if transaction.scalar(select(User.id).where(User.name == name)) is not None:
        raise taken
    user = User(name=name, password=NO_PASSWORD)
    update_user(transaction, user, role, full_name, team)
    if password is not None:
        user.password = _hash_password(user, password)
    transaction.add(user)
    try:
        transaction.flush()
    except IntegrityError:  # somebody else took it a moment ago
        raise taken from None
    return user


def checked_name(name: str) -> str:
    """Return a username as it is stored, or raise."""
    name = name.strip().casefold()
    if not VALID_NAME.fullmatch(name):
        raise ConfigError(f"Use letters, digits and . _ @ + - for a username, not {name!r}")
    return name


def update_user(transaction: Transaction, user: User, role: str, full_name: str, team: str) -> None:
    """Set everything but the name to sign in; a team that exists with other capitals keeps its spelling."""
    full_name, team = full_name.strip(), " ".join(team.split())
    if role not in set(Role):
        raise ConfigError(f"Unknown role {role!r}; use one of {', '.join(Role)}")
    if len(full_name) > NAME or len(team) > NAME:
        raise ConfigError(f"Use at most {NAME} characters for a name or a team")
    teams = transaction.scalars(select(User.team).where(User.name != user.name).distinct().order_by(User.team))
    spelling = next((known for known in teams if known.casefold() == team.casefold()), team)
    if user.role == Role.ADMIN and role != Role.ADMIN:
        check_not_last_admin(transaction, user)
    user.role, user.full_name, user.team = role, full_name or user.name, spelling


def check_not_last_admin(transaction: Transaction, user: User) -> None:
    """Raise where nobody else could administer; two who demote each other at once take turns."""
    lock(transaction, User)
    others = select(func.count()).where(User.role == Role.ADMIN, User.active, User.id != user.id)
    if user.role == Role.ADMIN and not transaction.scalar(others):
        raise ConfigError(f"{user.name} is the last administrator; make someone else an administrator first")


def find_user(transaction: Transaction, name: str) -> User:
    """Return the user with a name, whatever its capitals."""
    user = transaction.scalar(select(User).where(User.name == name.strip().casefold()))
    if user is None:
        raise ConfigError(f"User not found: {name!r}")
    return user


def search_users(transaction: Transaction, text: str) -> tuple[Select[User], int]:
    """Return a query of the users whose username, full name, role or team has every word of the text, and how many."""
    query = select(User)
    for word in text.split():
        columns = (User.name, User.full_name, User.role, User.team)
        query = query.where(or_(*(func.lower(column).contains(word.lower(), autoescape=True) for column in columns)))
    return query, transaction.scalar(select(func.count()).select_from(query.subquery())) or 0


def set_password(transaction: Transaction, user: User, password: str) -> None:
    """Set a password, and end all sessions, tokens and links: they may be in the same wrong hands as the old one."""
    user.password = _hash_password(user, password)
    end_sessions(transaction, user)
    transaction.execute(delete(Token).where(Token.user_id == user.id))
    delete_links(transaction, user)
    delete_failures(transaction, user)


def _hash_password(user: User, password: str) -> str:
    return credentials.hash_password(password, (user.name, user.full_name, user.team))


def set_active(transaction: Transaction, user: User, active: bool) -> None:
    """Let somebody sign in, or keep them out and end their sessions, tokens and links for good."""
    user.active = active
    if active:
        delete_failures(transaction, user)
    else:
        end_sessions(transaction, user)
        transaction.execute(delete(Token).where(Token.user_id == user.id))
        delete_links(transaction, user)


def end_sessions(transaction: Transaction, user: User) -> None:
    transaction.execute(delete(Session).where(Session.user_id == user.id))


def delete_failures(transaction: Transaction, user: User) -> None:
    transaction.execute(delete(Failure).where(Failure.name == user.name))


def add_token(
    transaction: Transaction, user: User, label: str, days: int = TOKEN_DAYS, scopes: Iterable[str] = (Scope.READ,)
) -> str:
    """Add a token and return it: it is shown this once and only its digest is stored."""
    wanted = sorted({*scopes})
    if not wanted or not {*wanted} <= {*Scope}:
        raise ConfigError(f"expected one or more of the scopes {', '.join(Scope)}, got {' '.join(wanted) or 'none'}")
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise ConfigError(f"expected 1 to {MAX_TOKEN_DAYS} days for a token, got {days}")
    secret = credentials.new_secret()
    transaction.add(
        Token(
            digest=credentials.digest(secret), user_id=user.id, label=label.strip()[:NAME] or "token",
            expires=now() + timedelta(days=days), scopes=" ".join(wanted),
        )
    )  # fmt: skip
    return secret


def revoke_token(transaction: Transaction, number: int) -> str:
    """Delete a token and return whose it was and what for; "" if it is gone already."""
    token = transaction.get(Token, number)
    if token is None:
        return ""
    transaction.delete(token)
    return f"{token.user.name}: {token.label}"
