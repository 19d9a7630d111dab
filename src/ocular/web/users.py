"""People who may sign in, and tokens for programs."""

from __future__ import annotations

import re
from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Transaction

from ocular.errors import ConfigError
from ocular.web import credentials
from ocular.web.tables import NAME, Failure, Role, Session, Token, User, now

ALLOWED = re.compile(rf"[a-z0-9][a-z0-9._@+-]{{0,{NAME - 1}}}")
TOKEN_DAYS = 365


def add_user(
    transaction: Transaction, name: str, role: str, password: str, *, full_name: str = "", team: str = ""
) -> User:
    name = name.strip().casefold()
    if not ALLOWED.fullmatch(name):
        raise ConfigError(f"expected a name of letters, digits and . _ @ + -, got {name!r}")
    taken = ConfigError(f"expected a new name, got {name!r}, which is taken")
    if transaction.scalar(select(User.id).where(User.name == name)) is not None:
        raise taken
    user = User(name=name, password=credentials.hash_password(password))
    describe(transaction, user, role, full_name, team)
    transaction.add(user)
    try:
        transaction.flush()
    except IntegrityError:  # somebody else took it a moment ago
        raise taken from None
    return user


def describe(transaction: Transaction, user: User, role: str, full_name: str, team: str) -> None:
    """Set all but the name to sign in; a team that differs from one that is there in capitals alone is that one."""
    full_name, team = full_name.strip(), " ".join(team.split())
    if role not in set(Role):
        raise ConfigError(f"expected a role of {', '.join(Role)}, got {role!r}")
    if len(full_name) > NAME or len(team) > NAME:
        raise ConfigError(f"expected names of at most {NAME} characters, got {max(len(full_name), len(team))}")
    teams = transaction.scalars(select(User.team).where(User.name != user.name).distinct().order_by(User.team))
    spelled = next((known for known in teams if known.casefold() == team.casefold()), team)
    user.role, user.full_name, user.team = role, full_name or user.name, spelled


def find_user(transaction: Transaction, name: str) -> User:
    user = transaction.scalar(select(User).where(User.name == name.strip().casefold()))
    if user is None:
        raise ConfigError(f"expected the name of somebody who may sign in, got {name!r}")
    return user


def set_password(transaction: Transaction, user: User, password: str) -> None:
    """Whoever is signed in with the old one is signed out, and tokens end: they may be in the same wrong hands."""
    user.password = credentials.hash_password(password)
    end_sessions(transaction, user)
    transaction.execute(delete(Token).where(Token.user_id == user.id))
    forget_failures(transaction, user)


def set_active(transaction: Transaction, user: User, active: bool) -> None:
    user.active = active
    if active:
        forget_failures(transaction, user)
    else:
        end_sessions(transaction, user)


def end_sessions(transaction: Transaction, user: User) -> None:
    transaction.execute(delete(Session).where(Session.user_id == user.id))


def forget_failures(transaction: Transaction, user: User) -> None:
    transaction.execute(delete(Failure).where(Failure.name == user.name))


def add_token(transaction: Transaction, user: User, label: str, days: int = TOKEN_DAYS) -> str:
    """The token itself, which is not kept: it is shown this once."""
    secret = credentials.new_secret()
    transaction.add(
        Token(
            digest=credentials.digest(secret), user_id=user.id, label=label.strip()[:NAME] or "token",
            expires=now() + timedelta(days=days),
        )
    )  # fmt: skip
    return secret


def revoke_token(transaction: Transaction, number: int) -> str:
    """Whose and what for, to be written down; "" if there is none any more."""
    token = transaction.get(Token, number)
    if token is None:
        return ""
    transaction.delete(token)
    return f"{token.user.name}: {token.label}"
