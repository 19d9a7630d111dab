"""Whether anything has changed since a model was made: a digest of the purchases, the refusals and the settings."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from ocular.data.interactions import Interactions
from ocular.refresh.settings import Settings


def fingerprint_of(interactions: Interactions, refusals: list[tuple[Any, Any]] | None, settings: Settings) -> str:
    """
    Return a digest of everything that a model is made from: names, attributes and amounts too.

    `Interactions.fingerprint` tells which pairs there are; a changed price or a renamed client must be served as well.
    """
    digest = hashlib.sha256()
    tables = {
        "clients": interactions.user_labels, "client names": interactions.user_names,
        "products": interactions.item_labels, "product names": interactions.item_names,
        **{f"client {name}": values for name, values in interactions.user_attributes.items()},
        **{f"product {name}": values for name, values in interactions.item_attributes.items()},
    }  # fmt: skip
    for name, texts in tables.items():
        values = None if texts is None else np.asarray(texts).tolist()
        digest.update(json.dumps([name, values], default=str).encode())
    for name, array in interactions.arrays().items():
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    settled = [interactions.currency, sorted(map(str, refusals or [])), settings.model, settings.without]
    digest.update(json.dumps(settled, sort_keys=True, default=str).encode())
    return digest.hexdigest()
