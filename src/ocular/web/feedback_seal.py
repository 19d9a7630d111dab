"""
What a recommendation was shown with, signed: a verdict is kept with the model that made the recommendation, though a
newer one may be served when the form comes back, and may know neither the client nor the product.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

MOST = 4000  # characters of a seal


class Shown(NamedTuple):
    model: str  # version
    confidence: float
    pattern: int | None  # that spoke for it most
    label: str  # of the pattern


def seal(key: str, client: str, product: str, shown: Shown) -> str:
    content = json.dumps(shown, separators=(",", ":"))
    return f"{urlsafe_b64encode(content.encode()).decode()}.{_signature(key, client, product, content)}"


def unseal(key: str, client: str, product: str, sealed: str) -> Shown | None:
    """None for a seal of others, of another pair, or none at all."""
    encoded, _, signature = sealed.partition(".")
    try:
        content = urlsafe_b64decode(encoded.encode()).decode()
    except ValueError:
        return None
    if not hmac.compare_digest(signature.encode(), _signature(key, client, product, content).encode()):
        return None
    return Shown(*json.loads(content))


def _signature(key: str, client: str, product: str, content: str) -> str:
    return hmac.new(key.encode(), json.dumps([client, product, content]).encode(), hashlib.sha256).hexdigest()
