"""The provider: its discovery document, its keys, and the calls of the code flow."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from ocular.errors import ConfigError
from ocular.web.errors import SignInError
from ocular.web.sso.fetching import LimitedTransport, ProviderError, read_object
from ocular.web.sso.settings import SsoSettings, check_address

_log = logging.getLogger("ocular.web.sso")

KEEP_SECONDS = 3600.0  # discovery and keys, before they are fetched again
RETRY_SECONDS = 10.0  # after a failure, before the provider is asked again
ROTATION_SECONDS = 30.0  # between two fetches of the keys because of an unknown one
REFUSED = "Single sign-on failed; try again"


@dataclass(frozen=True)
class Metadata:
    """What the provider says about itself."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str
    end_session_endpoint: str
    auth_methods: tuple[str, ...]
    names_issuer: bool  # it says in its answer who it is: RFC 9207


class Provider:
    """Asks the provider; what it says of itself is kept for an hour, and longer where it does not answer."""

    def __init__(self, settings: SsoSettings) -> None:
        self._settings, self._lock = settings, threading.Lock()
        self._metadata: Metadata | None = None
        self._keys: list[dict[str, Any]] = []
        self._fetched, self._failed, self._keys_fetched = -KEEP_SECONDS, -RETRY_SECONDS, -KEEP_SECONDS

    def metadata(self) -> Metadata:
        """Return what the provider says of itself, or raise ProviderError."""
        with self._lock:
            moment = time.monotonic()
            if self._metadata is not None and moment - self._fetched < KEEP_SECONDS:
                return self._metadata
            if moment - self._failed < RETRY_SECONDS:
                if self._metadata is not None:
                    return self._metadata
                raise ProviderError("the provider did not answer a moment ago")
            try:
                self._metadata, self._fetched = self._discover(), moment
            except ProviderError as error:
                self._failed = time.monotonic()
                _log.warning("single sign-on: no discovery document", extra={"cause": error.cause})
                if self._metadata is None:
                    raise
            return self._metadata

    def keys(self, *, missing: bool = False) -> list[dict[str, Any]]:
        """Return the provider's public keys; `missing`: one is needed that is not among those kept."""
        address = self.metadata().jwks_uri
        with self._lock:
            age = time.monotonic() - self._keys_fetched
            if age >= KEEP_SECONDS or (missing and age >= ROTATION_SECONDS) or not self._keys:
                keys = self._get(address).get("keys")
                if not isinstance(keys, list):
                    raise ProviderError(f"{address} did not answer with a set of keys")
                self._keys = [key for key in keys if isinstance(key, dict)]
                self._keys_fetched = time.monotonic()
            return self._keys

    def authorization_address(self, state: str, nonce: str, verifier: str, **more: str) -> str:
        """Return where to send the browser."""
        settings = self._settings
        return str(
            prepare_grant_uri(
                self.metadata().authorization_endpoint, settings.client_id, "code", redirect_uri=settings.redirect_uri,
                scope=list(settings.scopes), state=state, nonce=nonce, code_challenge_method="S256",
                code_challenge=create_s256_code_challenge(verifier), **more,
            )
        )  # fmt: skip

    def fetch_token(self, code: str, verifier: str) -> dict[str, Any]:
        """Return the answer to a code: an ID token and an access token."""
        settings, metadata = self._settings, self.metadata()
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": settings.redirect_uri,
            "code_verifier": verifier,
        }  # fmt: skip
        auth = None
        if not settings.client_secret:
            form["client_id"] = settings.client_id
        elif "client_secret_basic" not in metadata.auth_methods and "client_secret_post" in metadata.auth_methods:
            form |= {"client_id": settings.client_id, "client_secret": settings.client_secret}
        else:  # RFC 6749 2.3.1 asks for both as a form encodes them
            auth = httpx.BasicAuth(quote_plus(settings.client_id), quote_plus(settings.client_secret))
        address = metadata.token_endpoint
        answer = self._ask("POST", address, data=form, auth=auth, headers={"Accept": "application/json"})
        if answer.status_code in (400, 401, 403):  # the code is unknown, used or of another client
            _log.warning("single sign-on: the provider refused the code", extra={"cause": answer.text[:200]})
            raise SignInError(REFUSED)
        return read_object(answer)

    def user_info(self, access_token: str) -> dict[str, Any]:
        """Return the claims that the provider keeps out of the ID token."""
        address = self.metadata().userinfo_endpoint
        return self._get(address, {"Authorization": f"Bearer {access_token}"}) if address else {}

    def sign_out_address(self, id_token: str) -> str:
        """Return where the browser ends the provider's own session; "" where it offers nothing of the kind."""
        address = self.metadata().end_session_endpoint
        values = {
            "client_id": self._settings.client_id, "post_logout_redirect_uri": f"{self._settings.site}/sign-in",
        } | ({"id_token_hint": id_token} if id_token else {})  # fmt: skip
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(values)}" if address else ""

    def _discover(self) -> Metadata:
        issuer = self._settings.issuer
        found = self._get(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise ProviderError(f"expected the issuer {issuer!r}, got {found.get('issuer')!r}")
        endpoints = {}
        for name in (
            "authorization_endpoint",
            "token_endpoint",
            "jwks_uri",
            "userinfo_endpoint",
            "end_session_endpoint",
        ):
            address = found.get(name, "")
            needed = name not in ("userinfo_endpoint", "end_session_endpoint")
            try:
                if address or needed:
                    check_address(str(address).partition("?")[0], name)
            except (ConfigError, ValueError) as error:
                raise ProviderError(str(error)) from None
            endpoints[name] = str(address)
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if not isinstance(methods, list):
            raise ProviderError(f"expected a list of authentication methods, got {methods!r}")
        names_issuer = found.get("authorization_response_iss_parameter_supported") is True
        return Metadata(**endpoints, auth_methods=tuple(map(str, methods)), names_issuer=names_issuer)

    def _get(self, address: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        return read_object(self._ask("GET", address, headers=headers))

    def _ask(self, method: str, address: str, **given: Any) -> httpx.Response:
        timeout = self._settings.timeout
        try:
            with httpx.Client(transport=LimitedTransport(timeout), timeout=timeout) as client:
                return client.request(method, address, **given)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProviderError(f"{address}: {error!r}") from None
