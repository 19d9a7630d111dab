"""Passwords, cookies and tokens. Only digests of them are stored."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ocular.errors import ConfigError
from ocular.web.password_strength import check_strength

MIN_PASSWORD, MAX_PASSWORD = 12, 200  # characters
_verifying = BoundedSemaphore(2)  # a verification takes 64 MiB
_hasher = PasswordHasher()  # argon2id, with the parameters of RFC 9106 for little memory
_unknown_user = _hasher.hash(secrets.token_urlsafe())  # an unknown name must take as long as a known one


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """Return what is stored of a secret; 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def equal_secrets(one: str, other: str) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(one.encode(), other.encode())


def mask(secret: str) -> str:
    """Return a secret as a page carries it, different each time: the size of compressed pages tells nothing of it."""
    plain = secret.encode()
    pad = secrets.token_bytes(len(plain))
    return (pad + _xor(pad, plain)).hex()


def unmask(masked: str) -> str:
    """Return the secret that `mask` was given; text that `mask` did not return gives no secret."""
    try:
        both = bytes.fromhex(masked)
        return _xor(both[: len(both) // 2], both[len(both) // 2 :]).decode()
    except ValueError:
        return ""


def _xor(pad: bytes, text: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(pad, text, strict=True))


def hash_password(password: str, context: Iterable[str] = ()) -> str:
    """Return what is stored of a new password; one that is easy to guess, by the names in `context` too, is refused."""
    if len(password) < MIN_PASSWORD:
        raise ConfigError(f"Use at least {MIN_PASSWORD} characters for a password")
    if len(password) > MAX_PASSWORD:
        raise ConfigError(f"Use at most {MAX_PASSWORD} characters for a password")
    if not password.strip():
        raise ConfigError("Use letters, digits or symbols for a password, not only spaces")
    check_strength(password, context)
    return _hasher.hash(password)


def verify_password(password: str, hashed: str | None) -> bool:
    """Return whether the password has this hash; None, for an unknown user, takes as long as a wrong password."""
    try:
        with _verifying:
            return _hasher.verify(hashed or _unknown_user, password[: MAX_PASSWORD + 1]) and hashed is not None
    except (VerificationError, InvalidHashError):
        return False
