"""What a client's page says of the client: attributes, seller, patterns, and the clients that are most like it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import plain
from ocular.explain.counting import jaccard
from ocular.explain.names import client_name
from ocular.web.client_attributes import is_owner
from ocular.web.database import Database
from ocular.web.registry import ServedModel
from ocular.web.views import Readable
from ocular.web.visibility import owner_names


@dataclass(frozen=True)
class PatternChip:
    """A pattern that a client belongs to."""

    number: int
    label: str


@dataclass(frozen=True)
class SimilarClient:
    """A client with many of the same products, whose name the visitor may read."""

    client: str  # the label
    name: str
    in_common: int
    n_products: int
    is_visible: bool  # the visitor may open the client's page


def traits_of(served: ServedModel, user: int) -> list[str]:
    """Return a client's attributes in a few words each: "Insurance", "France", "employees 250"."""
    attributes = served.interactions.user_attributes
    texts = [_trait(name, plain(cells[user])) for name, cells in attributes.items() if not is_owner(name)]
    return [text for text in texts if text]


def _trait(name: str, value: Any) -> str:
    """Return one attribute in words; nothing where it is not known."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{name} {value:,g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple | set | frozenset) else str(value).strip()


def seller_of(database: Database, client: str) -> str | None:
    """Return the full name of the person that a client is assigned to."""
    with database.reading() as transaction:
        return owner_names(transaction, [client]).get(client)


def patterns_of(served: ServedModel, user: int) -> list[PatternChip]:
    """Return the patterns that a client is a member of, the strongest first."""
    factors = served.advisor.model.user_factors_
    span = slice(factors.indptr[user], factors.indptr[user + 1])
    strengths, numbers = factors.data[span], factors.indices[span]
    ranked = numbers[np.argsort(-strengths, kind="stable")].tolist()
    mine = [n for n in ranked if n in served.patterns and (served.patterns[n].users == user).any()]
    return [PatternChip(number, served.pattern_label(number)) for number in mine]


def similar_clients(
    served: ServedModel, user: int, readable: Readable, visible: NDArray[np.int64], n: int
) -> list[SimilarClient]:
    """
    Return the n clients most like a client, of those whose names may be read.

    Peers of the model come first, as in the reasons of a recommendation; then those with the most purchases in common,
    by the Jaccard similarity of all purchases.
    """
    data, owned = served.interactions, served.interactions.by_user[user]
    if not len(owned):
        return []
    alike = jaccard(data.by_item.indptr, data.by_item.indices, owned, data.by_user.degrees)
    score = np.where(readable, alike, 0.0)
    row = served.advisor.model.evidence().peers_by_user[[user]]
    peers, strengths = row.indices[readable[row.indices]], row.data[readable[row.indices]]
    score[peers] = np.where(strengths > 0, 1 + strengths, score[peers])  # above every Jaccard similarity
    score[user] = 0.0
    best = np.argpartition(-score, min(n, len(score) - 1))[:n]
    best = best[score[best] > 0]
    ordered = best[np.lexsort((best, -score[best]))].tolist()
    may_open = set(np.intersect1d(visible, best).tolist())
    return [
        SimilarClient(
            client=str(data.user_labels[other]), name=client_name(data.user_name(other)),
            in_common=len(np.intersect1d(owned, data.by_user[other])), n_products=len(data.by_user[other]),
            is_visible=other in may_open,
        )
        for other in ordered
    ]  # fmt: skip
