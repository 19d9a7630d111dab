"""Single sign-on from the provider's answer to a session."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ocular.web import credentials
from ocular.web.audit import audit
from ocular.web.auth import NOBODY, end_session, open_session
from ocular.web.database import Database
from ocular.web.errors import ForbiddenError, SignInError, UnavailableError
from ocular.web.sso import accounts
from ocular.web.sso.fetching import ProviderError
from ocular.web.sso.flow import Flow
from ocular.web.sso.provider import REFUSED, Provider
from ocular.web.sso.settings import SsoSettings
from ocular.web.sso.tokens import Expected, TokenError, check_id_token
from ocular.web.tables import now

_log = logging.getLogger("ocular.web.sso")

MAX_AT_ONCE = 4  # people whose threads wait for the provider; pages need the others
AGAIN_SECONDS = 60  # how long ago a password was given when somebody is asked for it again
LONG_AGO = timedelta(days=1)  # a provider that does not say when somebody signed in there may not have asked today


class SingleSignOn:
    """Sends browsers to the provider and opens sessions for those who come back."""

    def __init__(self, settings: SsoSettings, database: Database, lifetime: timedelta) -> None:
        self.settings, self.provider = settings, Provider(settings)
        self._database, self._lifetime = database, lifetime
        self._places = threading.BoundedSemaphore(MAX_AT_ONCE)

    def begin(self, flow: Flow) -> str:
        """Return where to send the browser; somebody who is signed in already is asked for the password again."""
        again = {} if flow.user_id is None else {"prompt": "login", "max_age": str(AGAIN_SECONDS)}
        with self._place():
            return self.provider.authorization_address(flow.state, flow.nonce, flow.verifier, **again)

    def finish(self, flow: Flow, answer: dict[str, str], address: str, instead_of: str | None) -> str:
        """Return the secret of a new session for whoever the provider's answer names, or raise a refusal."""
        try:
            with self._place():
                claims, groups, id_token = self._claims(flow, answer)
        except TokenError as error:
            _log.warning("single sign-on: refused", extra={"cause": str(error)})
            with self._database.writing() as transaction:
                audit(transaction, NOBODY, "single sign-on refused", str(error)[:500], address)
            raise SignInError(REFUSED) from None
        with self._database.writing() as transaction:
            user = accounts.sign_on(transaction, self.settings, claims, groups, address)
            if not isinstance(user, str):
                if flow.user_id is not None and user.id != flow.user_id:
                    raise ForbiddenError("You signed in as somebody else; sign out first")
                if instead_of is not None:
                    end_session(transaction, instead_of)
                secret = open_session(
                    transaction, user, address, self._lifetime, method="sso", id_token=id_token,
                    authenticated_at=_authenticated_at(claims),
                )  # fmt: skip
                again = " again" if flow.user_id is not None else ""
                audit(transaction, user.name, f"signed in{again} by single sign-on", address=address)
        if isinstance(user, str):  # after the transaction: what was written of the refusal stays
            raise ForbiddenError(user)
        return secret

    def sign_out_address(self, id_token: str) -> str:
        """Return where the provider's own session is ended; "" where that cannot be said now."""
        try:
            with self._place():
                return self.provider.sign_out_address(id_token)
        except UnavailableError:
            return ""

    def _claims(self, flow: Flow, answer: dict[str, str]) -> tuple[dict[str, Any], list[str], str]:
        """Return the claims, the groups and the ID token that the answer stands for."""
        issuer = answer.get("iss")
        if issuer != self.settings.issuer and (issuer is not None or self.provider.metadata().names_issuer):
            raise TokenError(f"the answer is of another provider: {issuer!r}")
        if not credentials.equal_secrets(answer.get("state", ""), flow.state):
            raise TokenError("the state is of another sign-in")
        tokens = self.provider.fetch_token(answer.get("code", ""), flow.verifier)
        id_token, access_token = tokens.get("id_token"), tokens.get("access_token", "")
        if not isinstance(id_token, str) or not isinstance(access_token, str):
            raise TokenError("the answer holds no ID token")
        max_age = None if flow.user_id is None else AGAIN_SECONDS
        expected = Expected(flow.nonce, access_token, max_age)
        claims = check_id_token(id_token, self.settings, self.provider.keys, expected, now().timestamp())
        groups = accounts.groups_of(claims, self.settings.groups_claim)
        if (groups is None or "preferred_username" not in claims) and access_token:
            more = self.provider.user_info(access_token)
            if more and more.get("sub") != claims["sub"]:
                raise TokenError("the provider described somebody else")
            claims = more | claims
            groups = accounts.groups_of(claims, self.settings.groups_claim)
        return claims, groups or [], id_token

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Hold one of a few places, so that a slow provider does not take all threads."""
        if not self._places.acquire(blocking=False):
            raise ProviderError("too many sign-ons at once")
        try:
            yield
        finally:
            self._places.release()


def _authenticated_at(claims: dict[str, Any]) -> datetime:
    """Return when the person last gave a password or the like."""
    moment = claims.get("auth_time")
    if moment is None:
        return now() - LONG_AGO
    return max(min(datetime.fromtimestamp(max(float(moment), 0.0), UTC), now()), now() - LONG_AGO)
