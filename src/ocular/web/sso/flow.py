"""What a browser carries from the start of a sign-on to its end, in a signed cookie of ten minutes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from itsdangerous import BadData, URLSafeTimedSerializer

from ocular.web import credentials

MAX_SECONDS, MAX_NEXT = 600, 1000


@dataclass(frozen=True)
class Flow:
    """One sign-on that is under way."""

    state: str
    nonce: str
    verifier: str
    then: str  # a page of ours
    user_id: int | None = None  # who signs in again, for something that needs it

    @classmethod
    def begin(cls, then: str, user_id: int | None = None) -> Flow:
        state, nonce, verifier = (credentials.new_secret() for _ in range(3))
        return cls(state, nonce, verifier, then if len(then) <= MAX_NEXT else "/", user_id)


def seal(flow: Flow, key: str) -> str:
    """Return the value of the cookie."""
    return _serializer(key).dumps(asdict(flow))


def unseal(value: str, key: str) -> Flow | None:
    """Return the sign-on that a cookie belongs to; None for one that is too old or not ours."""
    try:
        return Flow(**_serializer(key).loads(value, max_age=MAX_SECONDS))
    except (BadData, TypeError):
        return None


def _serializer(key: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(key, salt="single sign-on")
