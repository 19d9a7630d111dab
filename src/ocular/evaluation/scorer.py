"""A score for scikit-learn's searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.data.splits import per_user_split
from ocular.evaluation.metrics import measure
from ocular.evaluation.trial import Settings
from ocular.model import OCuLaR


@dataclass(frozen=True)
class recall_scorer:  # noqa: N801  called like a function
    """
    scoring= for scikit-learn's searches: GridSearchCV(OCuLaR(), {…}, scoring=recall_scorer(M=50), cv=KFold(5)).

    scikit-learn splits rows, so that whole clients are held out and the model has never seen them. A share of each
    one's purchases is hidden, the others are folded in, and the score is the recall@M, or another metric, of the hidden
    ones. It answers how good recommendations to new clients are; `ocular.evaluation.search` hides purchases of clients
    that the model knows. Clients with too few purchases to hide one are left out.
    """

    M: int = 50
    metric: str = "recall"
    hidden: float = 0.25
    random_state: int = 0

    def __call__(self, model: OCuLaR, X: Any, y: Any = None) -> float:  # noqa: ARG002  scikit-learn's signature
        clients = Interactions.from_matrix(X, min_value=model.min_value)
        known, hidden = per_user_split(clients, self.hidden, self.random_state)
        settings = Settings(self.metric, self.M, 1, self.random_state)
        return measure(_NewClients(model), known, hidden, settings.M).mean(settings.metric, settings.M)


class _NewClients(NamedTuple):
    """A model that knows of its users only what they own."""

    model: OCuLaR

    def recommend(self, userid: NDArray[Any], user_items: Any, N: int) -> tuple[NDArray[Any], NDArray[Any]]:
        anybody, rows = np.zeros(len(userid), dtype=np.int64), Interactions.from_matrix(user_items)
        return self.model.recommend(anybody, rows, N, recalculate_user=True)
