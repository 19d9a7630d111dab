"""Sign-in and sign-out, and the visitor that a session or token belongs to."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session as Transaction

from ocular.web import credentials
from ocular.web.audit import audit
from ocular.web.database import BRIEF, Database, lock
from ocular.web.errors import TooManyError
from ocular.web.settings import Settings
from ocular.web.tables import NAME, AuditEntry, Failure, Identity, Key, Role, Session, Token, User, now

WINDOW = timedelta(minutes=15)
# refused sign-ins in that time after which passwords are not checked any more
MAX_BY_NAME_AND_ADDRESS, MAX_BY_NAME, MAX_BY_ADDRESS = 5, 50, 50
UNKNOWN = "unknown"
NOBODY = "(unknown)"  # the name in the audit log of who is no user: what they typed may be a password
LOCKED_ATTEMPT, LOG_EVERY = "sign-in while locked out", timedelta(minutes=1)


@dataclass(frozen=True)
class Visitor:
    """Somebody who has signed in, or a program with a token."""

    user: User
    csrf_secret: str  # "" for a token, which no other site can make a browser send
    address: str
    token: str = ""  # number and label of a program's token, for the audit log
    session: str = ""  # the digest of its secret
    authenticated_at: datetime | None = None  # the last proof of who it is: a password, or a single sign-on
    scopes: frozenset[str] = frozenset()  # of a token

    @property
    def csrf(self) -> str:
        """What a form carries to show that it is one of our pages."""
        return credentials.mask(self.csrf_secret)

    @property
    def role(self) -> Role:
        return Role(self.user.role)


def plain_address(host: str | None) -> str:
    """
    Return an address as the audit log has it.

    >>> plain_address("::ffff:192.0.2.1"), plain_address("2001:DB8::1"), plain_address("a name")
    ('192.0.2.1', '2001:db8::1', 'unknown')
    """
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return UNKNOWN
    return str(getattr(address, "ipv4_mapped", None) or address)


def network_of(address: str) -> str:
    """
    Return what refusals are counted by: an IPv6 customer has a whole network of addresses.

    >>> network_of("192.0.2.1"), network_of("2001:db8::1:2:3:4"), network_of("unknown")
    ('192.0.2.1', '2001:db8::/64', 'unknown')
    """
    return str(ipaddress.ip_network((address, 64), strict=False)) if ":" in address else address


class Authenticator:
    """Checks passwords, opens sessions, and finds the visitor of a session or token."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings, self._database = settings, database

    def check_password(self, name: str, password: str, address: str) -> User | None:
        """Return the user with this name and password, or None; too many refusals raise for a while."""
        user = self._attempt(name, password, address)
        if user is not None:
            with self._database.writing() as transaction:
                _forget(transaction, user, address)
        return user

    def sign_in(self, name: str, password: str, address: str, *, instead_of: str | None = None) -> str | None:
        """Return the secret of a new session, or None; the session with the secret `instead_of` ends."""
        user = self._attempt(name, password, address)
        if user is None:
            return None
        with self._database.writing() as transaction:
            secret = open_session(transaction, user, address, self._settings.lifetime)
            _forget(transaction, user, address)
            if instead_of is not None:
                end_session(transaction, instead_of)
            audit(transaction, user.name, "signed in", address=address)
            if self._settings.sso is not None and user.name == self._settings.sso.break_glass:
                audit(transaction, user.name, "break-glass account used", address=address)
        return secret

    def may_use_password(self, user: User) -> bool:
        """Return whether somebody may sign in with a password beside single sign-on."""
        sso = self._settings.sso
        if sso is None or user.name == sso.break_glass:
            return True
        with self._database.reading() as transaction:
            linked = transaction.scalar(select(Identity.id).where(Identity.user_id == user.id).limit(1)) is not None
        return sso.local_passwords and not linked  # the provider decides on those it knows

    def _attempt(self, name: str, password: str, address: str) -> User | None:
        """Check a password. The attempt counts as refused before that: of many at once, no more than allowed are."""
        name, network = name.strip().casefold()[:NAME], network_of(address)
        with self._database.writing() as transaction:
            lock(transaction, Failure)
            user = transaction.scalar(select(User).where(User.name == name))
            if user is None:  # the name may be a password in the wrong field
                counted, logged = _pseudonym(transaction, name), NOBODY
            else:
                counted = logged = user.name
            locked_until = _locked_until(transaction, counted, network)
            if locked_until is not None:
                _audit_locked(transaction, logged, address)
            else:
                transaction.add(Failure(name=counted, address=network))
                transaction.flush()
                reached = [
                    each.of for each in _count_refusals(transaction, counted, network) if each.count == each.limit
                ]
        if locked_until is not None:
            seconds = max(1, round((locked_until - now()).total_seconds()))
            raise TooManyError("Too many attempts; try again in 15 minutes", seconds)
        usable = user is not None and user.active and self.may_use_password(user)
        if credentials.verify_password(password, user.password if user is not None and usable else None):
            return user
        with self._database.writing() as transaction:
            audit(transaction, logged, "sign-in refused", address=address)
            for of in reached:  # passwords of later attempts are not checked
                audit(transaction, logged, "locked out", of, address)
        return None

    def visitor_of_session(self, secret: str, address: str) -> Visitor | None:
        with self._database.reading() as transaction:
            session = transaction.get(Session, credentials.digest(secret))
        if session is None or not session.user.active:
            return None
        age, idle = now() - session.created, now() - session.seen
        if age > self._settings.lifetime or idle > self._settings.idle or min(age, idle) < -WINDOW:
            return None  # too old, or from before the clock was set back
        if idle > timedelta(minutes=1):
            with self._database.writing(BRIEF) as transaction:
                transaction.execute(update(Session).where(Session.digest == session.digest).values(seen=now()))
        return Visitor(
            session.user, session.csrf, address, session=session.digest, authenticated_at=session.authenticated_at
        )

    def visitor_of_token(self, secret: str, address: str) -> Visitor | None:
        with self._database.reading() as transaction:
            token = transaction.scalar(select(Token).where(Token.digest == credentials.digest(secret)))
        if token is None or not token.user.active or token.expires < now() or token.created > now() + WINDOW:
            return None  # too old, or from a clock that was wrong and would let it live for decades
        if token.used is None or abs(now() - token.used) > timedelta(minutes=1):
            with self._database.writing(BRIEF) as transaction:
                transaction.execute(update(Token).where(Token.id == token.id).values(used=now()))
        label = f"{token.id}: {token.label}"
        return Visitor(token.user, "", address, token=label, scopes=frozenset(token.scopes.split()))


def open_session(
    transaction: Transaction,
    user: User,
    address: str,
    lifetime: timedelta,
    *,
    method: str = "password",
    id_token: str = "",
    authenticated_at: datetime | None = None,
) -> str:
    """Add a session and return its secret; sessions older than the lifetime are deleted."""
    secret = credentials.new_secret()
    transaction.execute(delete(Session).where(Session.created < now() - lifetime))
    transaction.add(
        Session(
            digest=credentials.digest(secret), user_id=user.id, csrf=credentials.new_secret(), address=address,
            method=method, id_token=id_token, authenticated_at=authenticated_at or now(),
        )
    )  # fmt: skip
    return secret


def end_session(transaction: Transaction, secret: str) -> str:
    """Delete a session; return the ID token it was opened with, "" for a password."""
    same = Session.digest == credentials.digest(secret)
    id_token = transaction.scalar(select(Session.id_token).where(same)) or ""
    transaction.execute(delete(Session).where(same))
    return id_token


@dataclass(frozen=True)
class Refusals:
    """Recently refused sign-ins of one kind."""

    of: str  # what they have in common
    count: int
    first: datetime | None
    limit: int


def _count_refusals(transaction: Transaction, name: str, network: str) -> list[Refusals]:
    by_name, by_address = Failure.name == name, Failure.address == network
    counted = []
    for of, condition, limit in (
        ("the name, from this address", by_name & by_address, MAX_BY_NAME_AND_ADDRESS),
        ("the name, from any address", by_name, MAX_BY_NAME),
        ("the address", by_address, MAX_BY_ADDRESS),
    ):
        recent = select(func.count(), func.min(Failure.at)).where(condition, _is_recent())
        count, first = transaction.execute(recent).one()
        counted.append(Refusals(of, count, first, limit))
    return counted


def _is_recent() -> ColumnElement[bool]:
    """Those of a clock that was set back since then count no longer, or they would for as long as it was wrong."""
    return Failure.at.between(now() - WINDOW, now() + WINDOW)


def _locked_until(transaction: Transaction, name: str, network: str) -> datetime | None:
    ends = [
        min(refusals.first, now()) + WINDOW
        for refusals in _count_refusals(transaction, name, network)
        if refusals.count >= refusals.limit and refusals.first is not None
    ]
    return max(ends, default=None)


def _forget(transaction: Transaction, user: User, address: str) -> None:
    """Delete the refusals of somebody who knows the password, and all that count no longer."""
    own = (Failure.name == user.name) & (Failure.address == network_of(address))
    transaction.execute(delete(Failure).where(own | ~_is_recent()))


def _audit_locked(transaction: Transaction, name: str, address: str) -> None:
    """Write down an attempt whose password was not checked, at most once a minute: whoever is locked out may go on."""
    same = (AuditEntry.name == name) & (AuditEntry.action == LOCKED_ATTEMPT) & (AuditEntry.address == address)
    if transaction.scalar(select(AuditEntry.id).where(same, AuditEntry.at > now() - LOG_EVERY).limit(1)) is None:
        audit(transaction, name, LOCKED_ATTEMPT, address=address)


def _pseudonym(transaction: Transaction, name: str) -> str:
    """Return what an unknown name is counted by; it cannot be read back without the key of this database."""
    key = transaction.scalars(select(Key.secret).where(Key.name == "forms")).one()
    return f"{NOBODY} {hmac.digest(key.encode(), name.encode(), 'sha256').hex()[:32]}"
