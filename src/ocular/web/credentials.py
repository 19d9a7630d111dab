"""Passwords, cookies and tokens. Only digests of them are kept."""

from __future__ import annotations

import hashlib
import secrets
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ocular.errors import ConfigError

LEAST, MOST = 12, 200  # characters of a password
_at_once = BoundedSemaphore(2)  # a verification takes 64 MiB
_hasher = PasswordHasher()  # argon2id, with the parameters of RFC 9106 for little memory
_nobody = _hasher.hash(secrets.token_urlsafe())  # somebody unknown must take as long as somebody known


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """A secret of 256 random bits needs no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def hash_password(password: str) -> str:
    if not LEAST <= len(password) <= MOST:
        raise ConfigError(f"expected a password of {LEAST} to {MOST} characters, got {len(password)}")
    if not password.strip():
        raise ConfigError("expected a password of letters, digits or signs, got only spaces")
    return _hasher.hash(password)


def verify_password(password: str, hashed: str | None) -> bool:
    """None stands for somebody who does not exist; it takes as long as a wrong password."""
    try:
        with _at_once:
            return _hasher.verify(hashed or _nobody, password[: MOST + 1]) and hashed is not None
    except (VerificationError, InvalidHashError):
        return False
