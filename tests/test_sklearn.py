"""scikit-learn's own checks of an estimator, and its search over parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from ocular import OCuLaR

# min_value: the checks fit continuous numbers, which are ratings to us
SMALL: dict[str, Any] = {
    "n_coclusters": 2, "regularization": 0.1, "max_iter": 20, "tol": 0.0, "min_value": 0.5, "random_state": 0,
}  # fmt: skip

REASON = "calls predict_proba(X); ours takes users and items, predict_proba(users, items), by contract"
EXPECTED_FAILURES = {
    "check_dict_unchanged": REASON,
    "check_estimator_sparse_array": REASON,
    "check_estimator_sparse_matrix": REASON,
    "check_estimators_dtypes": REASON,
    "check_estimators_pickle": REASON,
    "check_estimators_unfitted": REASON,
    "check_fit2d_predict1d": REASON,
    "check_fit_idempotent": REASON,
    "check_methods_sample_order_invariance": REASON,
    "check_methods_subset_invariance": REASON,
    "check_n_features_in_after_fitting": REASON,
}


WEIGHTS = "sample_weight is of positives, of which there are more than samples; it does not repeat a row's unknowns"
WEIGHT_FAILURES = {
    "check_sample_weights_shape": WEIGHTS,
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
}


class WithoutPredictProba(OCuLaR):
    """The estimator without the method that scikit-learn's checks call in their own way: no exception is left."""

    @property
    def predict_proba(self) -> Any:
        raise AttributeError("hidden from the checks")


def expected_failures(estimator: OCuLaR) -> dict[str, str]:
    return WEIGHT_FAILURES | ({} if isinstance(estimator, WithoutPredictProba) else EXPECTED_FAILURES)


@parametrize_with_checks(
    [OCuLaR(**SMALL), WithoutPredictProba(**SMALL)], expected_failed_checks=expected_failures, xfail_strict=True
)
def test_scikit_learn_checks(estimator: OCuLaR, check: Any) -> None:
    check(estimator)


def recovered(model: OCuLaR, X: np.ndarray, _: object = None) -> float:
    """Share of the hidden half of new clients' purchases among their first ten recommendations."""
    hidden = X.copy()
    hidden[:, ::2] = 0
    affinity = (model.fold_in(hidden) @ model.item_factors_.T).toarray()
    affinity[hidden > 0] = -1.0
    best = np.argsort(-affinity, axis=1)[:, :10]
    left = X - hidden
    return float(np.take_along_axis(left, best, axis=1).sum() / left.sum())


def test_grid_search_finds_the_regularization(bought: np.ndarray) -> None:
    search = GridSearchCV(
        OCuLaR(n_coclusters=4, max_iter=50, tol=0.0, random_state=0),
        {"regularization": [1e5, 0.5]},
        scoring=recovered,
        cv=3,
        error_score="raise",
    ).fit(bought)
    assert search.best_params_ == {"regularization": 0.5}
    assert search.best_score_ > 0.8
    assert search.best_estimator_.recommend(0, N=3)[0].shape == (3,)
