"""People who may sign in, and tokens for programs."""

from __future__ import annotations

import re

from sqlalchemy import delete, select
from sqlalchemy.orm import Session as Transaction

from ocular.errors import ConfigError
from ocular.web import credentials
from ocular.web.tables import NAME, Role, Session, Token, User

ALLOWED = re.compile(rf"[a-z0-9][a-z0-9._@+-]{{0,{NAME - 1}}}")


def add_user(
    transaction: Transaction, name: str, role: str, password: str, *, full_name: str = "", team: str = ""
) -> User:
    name = name.strip().casefold()
    if not ALLOWED.fullmatch(name):
        raise ConfigError(f"expected a name of letters, digits and . _ @ + -, got {name!r}")
    if role not in set(Role):
        raise ConfigError(f"expected a role of {', '.join(Role)}, got {role!r}")
    if len(full_name) > NAME or len(team) > NAME:
        raise ConfigError(f"expected names of at most {NAME} characters")
    if transaction.scalar(select(User.id).where(User.name == name)) is not None:
        raise ConfigError(f"expected a new name, got {name!r}, which is taken")
    user = User(
        name=name, full_name=full_name.strip() or name, role=role, team=team.strip(),
        password=credentials.hash_password(password),
    )  # fmt: skip
    transaction.add(user)
    transaction.flush()
    return user


def find_user(transaction: Transaction, name: str) -> User:
    user = transaction.scalar(select(User).where(User.name == name.strip().casefold()))
    if user is None:
        raise ConfigError(f"expected the name of somebody who may sign in, got {name!r}")
    return user


def set_password(transaction: Transaction, user: User, password: str) -> None:
    """Whoever is signed in with the old one is signed out."""
    user.password = credentials.hash_password(password)
    end_sessions(transaction, user)


def set_active(transaction: Transaction, user: User, active: bool) -> None:
    user.active = active
    if not active:
        end_sessions(transaction, user)


def end_sessions(transaction: Transaction, user: User) -> None:
    transaction.execute(delete(Session).where(Session.user_id == user.id))


def add_token(transaction: Transaction, user: User, label: str) -> str:
    """The token itself, which is not kept: it is shown this once."""
    secret = credentials.new_secret()
    transaction.add(Token(digest=credentials.digest(secret), user_id=user.id, label=label.strip()[:NAME] or "token"))
    return secret
