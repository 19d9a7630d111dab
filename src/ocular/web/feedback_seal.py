"""
A signed record of the recommendation that a form was shown with.

Feedback is stored with the model that made the recommendation, though a newer one may be served when the form comes
back, and may know neither the client nor the product.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from itsdangerous import BadData, URLSafeSerializer

from ocular.advisor import Recommendation
from ocular.web.registry import ServedModel
from ocular.web.tables import LABEL

MAX_SEAL = 4000  # characters


class ShownRecommendation(NamedTuple):
    """What is stored of a recommendation with the feedback on it."""

    model: str  # version
    confidence: float
    pattern: int | None  # of the strongest reason
    label: str  # of the pattern


def shown_recommendation(served: ServedModel, recommendation: Recommendation) -> ShownRecommendation:
    """Return what to store of a recommendation by the served model."""
    reason = recommendation.explanation.strongest_reason
    if reason is None:
        return ShownRecommendation(served.version, recommendation.confidence, None, "")
    pattern, label = served.reason_label(reason)
    return ShownRecommendation(served.version, recommendation.confidence, pattern, label[:LABEL])


def seal_recommendation(key: str, served: ServedModel, recommendation: Recommendation) -> str:
    """Return the seal of a recommendation by the served model, for a form or a program to give back."""
    client, product = served.client_of(recommendation), served.product_of(recommendation)
    return make_seal(key, client, product, shown_recommendation(served, recommendation))


def make_seal(key: str, client: str, product: str, shown: ShownRecommendation) -> str:
    """Sign what was shown for a client and a product."""
    sealed = _serializer(key, client, product).dumps(shown)
    return sealed if isinstance(sealed, str) else sealed.decode()


def open_seal(key: str, client: str, product: str, seal: str) -> ShownRecommendation | None:
    """Return what was shown; None for a seal that is missing, forged, or of another client or product."""
    try:
        return ShownRecommendation(*_serializer(key, client, product).loads(seal))
    except BadData:
        return None


def _serializer(key: str, client: str, product: str) -> URLSafeSerializer:
    """Return a serializer whose signatures hold for one pair only: the salt, not the content, names the pair."""
    return URLSafeSerializer(
        key, salt=json.dumps(["feedback", client, product]),
        signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
    )  # fmt: skip
