"""A score for scikit-learn's searches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.data.matrices import as_interactions
from ocular.data.splits import per_user_split
from ocular.errors import ConfigError
from ocular.evaluation.metrics import PER_USER, measure
from ocular.model import OCuLaR
from ocular.validation import check_choice


@dataclass(frozen=True)
class RecallScorer:
    """
    The type of `recall_scorer`, for scikit-learn's searches.

    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> from ocular import OCuLaR
    >>> grid = {"n_coclusters": [20, 50]}
    >>> fifty = GridSearchCV(OCuLaR(), grid, scoring=recall_scorer, cv=KFold(5))
    >>> twenty = GridSearchCV(OCuLaR(), grid, scoring=recall_scorer(M=20), cv=KFold(5))

    scikit-learn splits rows: whole clients are held out, and the model has never seen them. A share of the purchases
    of each is hidden, the others are folded in, and the score is the recall@M, or another metric, of the hidden ones.
    It measures recommendations to new clients; `ocular.evaluation.search.search` hides purchases of clients that the
    model knows. Clients with too few purchases to hide one are left out.
    """

    M: int = 50
    metric: str = "recall"
    test_share: float = 0.25
    random_state: int = 0

    def __call__(self, estimator: Any = None, X: Any = None, y: Any = None, **options: Any) -> Any:  # noqa: ARG002
        """
        Return the score of an estimator on rows that it was not fitted to, as scikit-learn asks for it.

        With options alone, return a scorer with those: `recall_scorer(M=20)`.
        """
        if estimator is None and X is None:
            return replace(self, **options)
        if X is None or options:
            raise ConfigError("expected scoring=recall_scorer or scoring=recall_scorer(M=20), got other arguments")
        check_choice(self.metric, "metric", PER_USER)
        clients = as_interactions(X, estimator.min_value)
        known, hidden = per_user_split(clients, self.test_share, self.random_state)
        return measure(_NewClients(estimator), known, hidden, self.M).mean(self.metric, self.M)


recall_scorer = RecallScorer()


class _NewClients(NamedTuple):
    """A model that knows of its users only what they own."""

    model: OCuLaR

    def recommend(self, userid: NDArray[Any], user_items: Any, N: int) -> tuple[NDArray[Any], NDArray[Any]]:
        no_users, rows = np.zeros(len(userid), dtype=np.int64), Interactions.from_matrix(user_items)
        return self.model.recommend(no_users, rows, N, recalculate_user=True)
