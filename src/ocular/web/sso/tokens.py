"""Checks of an ID token, as OpenID Connect Core 3.1.3.7 asks for them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, RSAKey

from ocular.web import credentials
from ocular.web.sso.settings import MAX_SUBJECT, SsoSettings

# signed with a key that only the provider has: never none, never a secret that is shared
KEY_TYPES = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP", "Ed25519": "OKP",
}  # fmt: skip
HASHES = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}
MAX_TOKEN = 100_000  # characters
MIN_RSA_BITS = 2048
FindKeys = Callable[..., list[dict[str, Any]]]


class TokenError(Exception):
    """An ID token that is not accepted; the text is for the log."""


@dataclass(frozen=True)
class Expected:
    """What an ID token has to agree with beside the settings."""

    nonce: str
    access_token: str
    max_age: float | None = None  # seconds since the person last gave a password or the like


def check_id_token(
    token: str, settings: SsoSettings, find_keys: FindKeys, expected: Expected, moment: float
) -> dict[str, Any]:
    """Return the claims of an ID token that was signed by the provider for us and this browser, or raise TokenError."""
    if len(token) > MAX_TOKEN:
        raise TokenError("the token is too long")
    header = _header(token)
    alg = header.get("alg")
    if not isinstance(alg, str) or alg not in KEY_TYPES:
        raise TokenError(f"expected a signature by a key of the provider, got the algorithm {alg!r}")
    key = _find_key(find_keys, alg, header.get("kid"))
    try:
        imported = JWKRegistry.import_key(key)
        if isinstance(imported, RSAKey) and imported.public_key.key_size < MIN_RSA_BITS:
            raise TokenError("the key of the provider is too short")
        payload = jws.deserialize_compact(token, imported, algorithms=[alg]).payload
        claims = json.loads(payload)
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise TokenError(f"the signature does not hold: {error}") from None
    if not isinstance(claims, dict):
        raise TokenError("the claims are no object")
    _check_parties(claims, settings)
    _check_times(claims, settings.skew, expected.max_age, moment)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not credentials.equal_secrets(nonce, expected.nonce):
        raise TokenError("the nonce is of another sign-in")
    if "at_hash" in claims and claims["at_hash"] != access_token_hash(expected.access_token, alg):
        raise TokenError("the access token is of another sign-in")
    return claims


def access_token_hash(access_token: str, alg: str) -> str:
    """Return the claim at_hash that goes with an access token."""
    digest = HASHES.get(alg[-3:], hashlib.sha512)(access_token.encode()).digest()  # Ed25519 goes with SHA-512
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


def _header(token: str) -> dict[str, Any]:
    try:
        first, _, _ = token.split(".")
        header = json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise TokenError("the token is no signed JWT") from None
    if not isinstance(header, dict):
        raise TokenError("the header is no object")
    return header


def _find_key(find_keys: FindKeys, alg: str, kid: object) -> dict[str, Any]:
    """Return the key that signed; the keys are fetched once more where it is not among them."""
    for keys in (find_keys(), find_keys(missing=True)):
        fitting = [
            key
            for key in keys
            if key.get("kty") == KEY_TYPES[alg] and key.get("use", "sig") == "sig" and key.get("alg", alg) == alg
        ]
        if kid is not None:
            fitting = [key for key in fitting if key.get("kid") == kid]
        if len(fitting) == 1:
            return fitting[0]
    raise TokenError(f"expected one key of the provider with the id {kid!r}, got {len(fitting)}")


def _check_parties(claims: dict[str, Any], settings: SsoSettings) -> None:
    if claims.get("iss") != settings.issuer:
        raise TokenError(f"expected the issuer {settings.issuer!r}, got {claims.get('iss')!r}")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if settings.client_id not in audiences:
        raise TokenError(f"the token is for {audience!r}, not for us")
    if (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != settings.client_id:
        raise TokenError(f"the token was issued to {claims.get('azp')!r}, not to us")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
        raise TokenError("the token names nobody")


def _check_times(claims: dict[str, Any], skew: float, max_age: float | None, moment: float) -> None:
    if moment >= _time(claims, "exp") + skew:
        raise TokenError("the token has expired")
    for name in ("iat", "nbf", "auth_time"):
        if (name == "iat" or name in claims) and _time(claims, name) > moment + skew:
            raise TokenError(f"the token is of the future: {name}")
    if max_age is not None and moment - _time(claims, "auth_time") > max_age + skew:
        raise TokenError("the person did not sign in again")


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenError(f"expected a time as {name}, got {value!r}")
    return float(value)
