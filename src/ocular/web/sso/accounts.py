"""Accounts of single sign-on: known by issuer and subject, with the role and the team that their groups give them."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session as Transaction

from ocular.errors import ConfigError
from ocular.web import users
from ocular.web.audit import audit
from ocular.web.errors import ForbiddenError
from ocular.web.sso.settings import MAX_SUBJECT, SsoSettings
from ocular.web.tables import NAME, Identity, Role, User

NO_GROUP = "None of your groups may use ocular; ask your administrator"
DEACTIVATED = "Your account is deactivated; ask your administrator"
RANK = {Role.SELLER: 0, Role.MANAGER: 1, Role.ADMIN: 2}


def groups_of(claims: dict[str, Any], name: str) -> list[str] | None:
    """
    Return the groups in a claim; None where there is no such claim. Dots lead into nested claims.

    >>> groups_of({"realm": {"roles": ["a"]}}, "realm.roles"), groups_of({"groups": "a"}, "groups"), groups_of({}, "x")
    (['a'], ['a'], None)
    """
    found: Any = claims.get(name)
    if found is None and "." in name:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        return None
    return [group for group in (found if isinstance(found, list) else [found]) if isinstance(group, str)]


def sign_on(
    transaction: Transaction, settings: SsoSettings, claims: dict[str, Any], groups: list[str], address: str
) -> User | str:
    """Return the user of an ID token, with the role and team of today's groups; or one line that says why not."""
    subject = str(claims["sub"])
    found = transaction.scalar(select(Identity).where(Identity.issuer == settings.issuer, Identity.subject == subject))
    roles = [Role(settings.roles[group]) for group in groups if group in settings.roles]
    if not roles:
        name = found.user.name if found is not None else username_of(claims)
        if found is not None:
            users.end_sessions(transaction, found.user)
        audit(transaction, name, "single sign-on refused", f"no mapped group; subject {subject}", address)
        return NO_GROUP
    role = max(roles, key=RANK.__getitem__)
    try:
        user = found.user if found is not None else _first_sign_on(transaction, settings, claims, role, address)
    except ConfigError as error:
        audit(transaction, username_of(claims), "single sign-on refused", f"{error}; subject {subject}", address)
        return str(error)
    if not user.active:
        audit(transaction, user.name, "single sign-on refused", "deactivated", address)
        return DEACTIVATED
    team = next((team for group, team in settings.teams.items() if group in groups), "")
    _update(
        transaction, user, role, _full_name(claims) or user.full_name, team if settings.teams else user.team, address
    )
    return user


def _first_sign_on(
    transaction: Transaction, settings: SsoSettings, claims: dict[str, Any], role: Role, address: str
) -> User:
    """Return a new account, or the existing one of the same username where the settings say so."""
    name = username_of(claims)
    existing = transaction.scalar(select(User).where(User.name == name))
    if existing is None:
        user = users.add_user(transaction, name, role, None, full_name=_full_name(claims))
        audit(transaction, user.name, "user added", f"{user.name} ({role}), by single sign-on", address)
        transaction.add(Identity(user_id=user.id, issuer=settings.issuer, subject=str(claims["sub"])))
    elif settings.link_by_username and claims.get("preferred_username"):
        user = existing
        link(transaction, settings, user, str(claims["sub"]), user.name, address)
    else:
        raise ConfigError(f"The username {name} is taken; ask your administrator to link the account")
    transaction.flush()
    return user


def link(transaction: Transaction, settings: SsoSettings, user: User, subject: str, actor: str, address: str) -> None:
    """Let somebody at the provider sign in as an existing user, whose password then works no longer."""
    subject = subject.strip()
    if not 0 < len(subject) <= MAX_SUBJECT:
        raise ConfigError(f"Enter the subject (sub) of the provider, 1 to {MAX_SUBJECT} characters")
    if user.name == settings.break_glass:
        raise ConfigError(f"{user.name} is the break-glass account; it signs in with a password alone")
    taken = (Identity.issuer == settings.issuer) & ((Identity.subject == subject) | (Identity.user_id == user.id))
    if transaction.scalar(select(Identity.id).where(taken)) is not None:
        raise ConfigError(f"{user.name} or this subject is linked already; unlink it first")
    transaction.add(Identity(user_id=user.id, issuer=settings.issuer, subject=subject))
    users.end_sessions(transaction, user)
    audit(transaction, actor, "single sign-on linked", f"{user.name}: {subject}", address)


def unlink(transaction: Transaction, user: User, actor: str, address: str) -> None:
    """Take single sign-on from a user, and end the sessions."""
    transaction.execute(delete(Identity).where(Identity.user_id == user.id))
    users.end_sessions(transaction, user)
    audit(transaction, actor, "single sign-on unlinked", user.name, address)


def username_of(claims: dict[str, Any]) -> str:
    """
    Return the username of a new account.

    >>> username_of({"preferred_username": "Ana Lopez", "sub": "1"}), username_of({"sub": "|7"})
    ('ana-lopez', 'u-7')
    """
    given = claims.get("preferred_username") or claims.get("email") or claims["sub"]
    name = re.sub(r"[^a-z0-9._@+-]", "-", str(given).strip().casefold())[:NAME]
    return name if users.VALID_NAME.fullmatch(name) else f"u{name}"[:NAME]


def _full_name(claims: dict[str, Any]) -> str:
    name = claims.get("name")
    return " ".join(name.split())[:NAME] if isinstance(name, str) else ""


def _update(transaction: Transaction, user: User, role: Role, full_name: str, team: str, address: str) -> None:
    """Give somebody the role and team of their groups; the last administrator stays one."""
    before = f"{user.role}, {user.team!r}"
    try:
        users.update_user(transaction, user, role, full_name, team)
    except ConfigError:
        if user.role != Role.ADMIN or role == Role.ADMIN:
            raise ForbiddenError(NO_GROUP) from None
        audit(transaction, user.name, "last administrator kept", f"groups say {role}", address)
        users.update_user(transaction, user, Role.ADMIN, full_name, team)
    after = f"{user.role}, {user.team!r}"
    if after != before:
        audit(transaction, user.name, "user changed", f"{user.name}: {before} → {after}, by single sign-on", address)
