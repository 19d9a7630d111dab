"""Signing in and out, and whose session or token a request carries."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy import update as change
from sqlalchemy.orm import Session as Transaction

from ocular.web import credentials
from ocular.web.audit import audit
from ocular.web.database import BRIEF, Database
from ocular.web.errors import TooManyError
from ocular.web.settings import Settings
from ocular.web.tables import NAME, Failure, Role, Session, Token, User, now

WINDOW = timedelta(minutes=15)
# refused sign-ins in that time before no more are looked at: of a name from one address, of a name, from one address
BY_BOTH, BY_NAME, BY_ADDRESS = 5, 50, 50
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Visitor:
    """Somebody who has signed in, or a program with a token."""

    user: User
    csrf: str  # "" for a token, which no other site can make a browser send
    address: str

    @property
    def role(self) -> Role:
        return Role(self.user.role)

    def in_team(self, user: int, team: str) -> bool:
        """Whether somebody is of the visitor's team; people without a team are each on their own."""
        return user == self.user.id or (bool(team) and team == self.user.team)


def plain_address(host: str | None) -> str:
    """
    As the audit log has it.

    >>> plain_address("::ffff:192.0.2.1"), plain_address("2001:DB8::1"), plain_address("a name")
    ('192.0.2.1', '2001:db8::1', 'unknown')
    """
    try:
        found = ipaddress.ip_address(host or "")
    except ValueError:
        return UNKNOWN
    return str(getattr(found, "ipv4_mapped", None) or found)


def network_of(address: str) -> str:
    """
    Whom refusals are counted for: an IPv6 customer has a whole network of addresses.

    >>> network_of("192.0.2.1"), network_of("2001:db8::1:2:3:4"), network_of("unknown")
    ('192.0.2.1', '2001:db8::/64', 'unknown')
    """
    return str(ipaddress.ip_network((address, 64), strict=False)) if ":" in address else address


class Gate:
    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings, self._database = settings, database

    def check(self, name: str, password: str, address: str) -> User | None:
        """Whose name and password it is; after too many refusals nothing is looked at for a while."""
        name, network = name.strip().casefold()[:NAME], network_of(address)
        with self._database.reading() as transaction:
            _check_refusals(transaction, name, network)
            user = transaction.scalar(select(User).where(User.name == name))
        if credentials.verify_password(password, None if user is None or not user.active else user.password):
            return user
        with self._database.writing() as transaction:
            self._refuse(transaction, name, address, network)
        return None

    def sign_in(self, name: str, password: str, address: str, *, instead_of: str | None = None) -> str | None:
        """The secret of a new session, or None. instead_of: the secret of a session that ends with this."""
        user = self.check(name, password, address)
        if user is None:
            return None
        secret, created = credentials.new_secret(), now()
        with self._database.writing() as transaction:
            transaction.add(
                Session(
                    digest=credentials.digest(secret), user_id=user.id, csrf=credentials.new_secret(), address=address
                )
            )
            own = (Failure.name == user.name) & (Failure.address == network_of(address))
            transaction.execute(delete(Failure).where(own | (Failure.at < created - WINDOW)))
            transaction.execute(delete(Session).where(Session.created < created - self._settings.lifetime))
            if instead_of is not None:
                end_session(transaction, instead_of)
            audit(transaction, user.name, "signed in", address=address)
        return secret

    @staticmethod
    def _refuse(transaction: Transaction, name: str, address: str, network: str) -> None:
        transaction.add(Failure(name=name, address=network))
        transaction.flush()
        audit(transaction, name, "sign-in refused", address=address)
        for what, found, most in _refusals(transaction, name, network):
            if found.count == most:  # what follows is not looked at, and not written down either
                audit(transaction, name, "locked out", what, address)

    def visitor_of_session(self, secret: str, address: str) -> Visitor | None:
        with self._database.reading() as transaction:
            session = transaction.get(Session, credentials.digest(secret))
        if session is None or not session.user.active:
            return None
        age, idle = now() - session.created, now() - session.seen
        if age > self._settings.lifetime or idle > self._settings.idle:
            return None
        if idle > timedelta(minutes=1):
            with self._database.writing(BRIEF) as transaction:
                transaction.execute(change(Session).where(Session.digest == session.digest).values(seen=now()))
        return Visitor(session.user, session.csrf, address)

    def visitor_of_token(self, secret: str, address: str) -> Visitor | None:
        with self._database.reading() as transaction:
            token = transaction.scalar(select(Token).where(Token.digest == credentials.digest(secret)))
        if token is None or not token.user.active or token.expires < now():
            return None
        if token.used is None or now() - token.used > timedelta(minutes=1):
            with self._database.writing(BRIEF) as transaction:
                transaction.execute(change(Token).where(Token.id == token.id).values(used=now()))
        return Visitor(token.user, "", address)


def end_session(transaction: Transaction, secret: str) -> None:
    transaction.execute(delete(Session).where(Session.digest == credentials.digest(secret)))


@dataclass(frozen=True)
class Refusals:
    count: int
    first: datetime | None


def _refusals(transaction: Transaction, name: str, network: str) -> list[tuple[str, Refusals, int]]:
    """What is counted, what was found, and how many are too many."""
    by_name, by_address = Failure.name == name, Failure.address == network
    counted = []
    for what, which, most in (
        ("the name, from this address", by_name & by_address, BY_BOTH),
        ("the name, from any address", by_name, BY_NAME),
        ("the address", by_address, BY_ADDRESS),
    ):
        recent = select(func.count(), func.min(Failure.at)).where(which, Failure.at > now() - WINDOW)
        count, first = transaction.execute(recent).one()
        counted.append((what, Refusals(count, first), most))
    return counted


def _check_refusals(transaction: Transaction, name: str, network: str) -> None:
    for _, found, most in _refusals(transaction, name, network):
        if found.count >= most and found.first is not None:
            seconds = max(1, round((found.first + WINDOW - now()).total_seconds()))
            raise TooManyError("too many attempts; wait a quarter of an hour", seconds)
