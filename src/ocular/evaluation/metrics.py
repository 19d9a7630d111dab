"""recall@M and MAP@M, defined as in the paper."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import DataError

USERS_AT_ONCE = 4096


class Recommender(Protocol):
    """Anything with implicit's recommend: OCuLaR, and implicit's own models."""

    def recommend(self, userid: Any, user_items: Any, N: int) -> tuple[NDArray[Any], NDArray[Any]]: ...


class Ranking(NamedTuple):
    """Means over the users who have something to find."""

    recall: float
    map: float
    n_users: int


def rank(model: Recommender, train: Interactions, test: Interactions, M: int = 50) -> Ranking:
    """
    How well the M best items of each user, those of `train` left out, find the user's items in `test`.

    recall@M(u) = |found| / |items of u in test|
    AP@M(u) = Σ_m precision(m) · [item m is in test] / min(|items of u in test|, M)
    """
    users = np.flatnonzero(test.by_user.degrees)
    if len(users) == 0:
        raise DataError("expected purchases to test on, got none")
    owned = sp.csr_matrix(train.to_matrix())  # implicit takes nothing else
    recall = precision = 0.0
    for first in range(0, len(users), USERS_AT_ONCE):
        block = users[first : first + USERS_AT_ONCE]
        ids, _ = model.recommend(block, owned[block], N=M)
        hits = found(ids, test.by_user, block)
        wanted = test.by_user.degrees[block]
        recall += float((hits.sum(axis=1) / wanted).sum())
        precision_at = hits.cumsum(axis=1) / np.arange(1, hits.shape[1] + 1)
        precision += float(((precision_at * hits).sum(axis=1) / np.minimum(wanted, M)).sum())
    return Ranking(recall / len(users), precision / len(users), len(users))


def found(ids: NDArray[Any], truth: Adjacency, users: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of the items ids[r] are among the row users[r] of truth; −1 never is."""
    width = np.int64(max(int(truth.indices.max(initial=0)), int(ids.max(initial=0))) + 1)
    rows = truth.take(users)
    known = np.repeat(np.arange(len(users)), rows.degrees) * width + rows.indices
    asked = np.arange(len(users))[:, None] * width + ids
    return np.isin(asked, known) & (ids >= 0)
