"""Links that work once: an invitation to choose a password, and a sign-in on one's own machine, as for the demo."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Literal

from sqlalchemy import delete
from sqlalchemy.orm import Session as Transaction

from ocular.web import credentials
from ocular.web.errors import NotFoundError
from ocular.web.tables import Link, User, now

Purpose = Literal["invitation", "sign-in"]
INVITATION_HOURS, SIGN_IN_HOURS = 7 * 24, 1
PATHS: dict[Purpose, str] = {"invitation": "/invitation", "sign-in": "/sign-in/once"}


def create_link(transaction: Transaction, user: User, purpose: Purpose, hours: float) -> str:
    """Add a link in place of the person's last one of this purpose; return its token, of which the digest is stored."""
    delete_links(transaction, user, purpose)
    token = credentials.new_secret()
    expires = now() + timedelta(hours=hours)
    transaction.add(Link(digest=credentials.digest(token), user_id=user.id, purpose=purpose, expires=expires))
    transaction.flush()
    return token


def invitation_address(site: str, token: str) -> str:
    """Return the address that somebody is invited with."""
    return f"{site.rstrip('/')}{PATHS['invitation']}/{token}"


def sign_in_link(transaction: Transaction, user: User, site: str) -> str:
    """Return an address on `site` that signs somebody in: once, within an hour, and only from the same machine."""
    return f"{site.rstrip('/')}{PATHS['sign-in']}/{create_link(transaction, user, 'sign-in', SIGN_IN_HOURS)}"


def find_link(transaction: Transaction, token: str, purpose: Purpose) -> Link:
    """Return a link that has been neither used nor replaced, has not expired, and whose user is active."""
    link = transaction.get(Link, credentials.digest(token))
    if link is None or link.purpose != purpose or link.expires < now() or not link.user.active:
        raise NotFoundError("This link has expired or was already used; ask your administrator for a new one")
    return link


def delete_links(transaction: Transaction, user: User, purpose: Purpose | None = None) -> None:
    """Delete the person's links of one purpose, or all."""
    query = delete(Link).where(Link.user_id == user.id)
    transaction.execute(query if purpose is None else query.where(Link.purpose == purpose))


def is_loopback(address: str) -> bool:
    """
    Return whether a request comes from the machine itself.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("192.0.2.1"), is_loopback("unknown")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
