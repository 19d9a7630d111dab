"""Matrix factorisation by implicit: weighted least squares (wALS) and Bayesian personalised ranking (BPR)."""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ocular.baselines.base import Baseline, Scores
from ocular.errors import DataError, FitError, MissingExtraError
from ocular.validation import check_number, check_whole


class _Factorization(Baseline):
    """
    A factorisation that implicit fits.

    Attributes
    ----------
    user_factors_, item_factors_ : float32 arrays
        A score is the inner product of a row of each.
    """

    user_factors_: Scores
    item_factors_: Scores

    def _learn(self, engine: Any, matrix: sp.csr_array) -> None:
        error = import_module("implicit.recommender_base").ModelFitError
        try:
            engine.fit(sp.csr_matrix(matrix), show_progress=False)  # implicit takes nothing else
        except error as problem:
            raise FitError(
                f"expected finite factors, got infinite ones ({problem}); increase regularization"
            ) from problem
        self.user_factors_, self.item_factors_ = engine.user_factors, engine.item_factors

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:
        known = self._as_fitted(rows, users)
        factors = self.user_factors_[users]
        if not known.all():
            factors[~known] = self._new_factors(rows[~known])
        return np.asarray(factors @ self.item_factors_.T)

    @abstractmethod
    def _new_factors(self, rows: sp.csr_array) -> Scores:
        """Return factors of users who were not fitted, or raise DataError where the method has none."""


class WALS(_Factorization):
    """
    Weighted alternating least squares (Hu, Koren, Volinsky 2008; Pan et al. 2008), which minimises

        alpha Σ_{r=1} (1 − ⟨f_u, f_i⟩)² + Σ_{r=0} ⟨f_u, f_i⟩² + regularization (Σ‖f_u‖² + Σ‖f_i‖²).

    Parameters
    ----------
    factors : int
    regularization, alpha : float
        The paper on OCuLaR weighs unknowns by b instead of positives by alpha: see `WALS.weighing_unknowns`. They
        need tuning: a regularization of 100 suits MovieLens-1M better, but shrinks small data to nothing.
    iterations : int
    n_threads : int, optional
        All cores by default. The result is the same for any number.
    random_state : int
        Seed of the start.
    """

    def __init__(
        self,
        factors: int = 100,
        regularization: float = 30.0,
        alpha: float = 10.0,
        iterations: int = 15,
        n_threads: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.factors = factors
        self.regularization = regularization
        self.alpha = alpha
        self.iterations = iterations
        self.n_threads = n_threads
        self.random_state = random_state

    @classmethod
    def weighing_unknowns(cls, b: float = 0.01, regularization: float = 0.01, **others: Any) -> Self:
        """
        Return a WALS that takes the parameters of the paper and minimises

            Σ_{r=1} (1 − ⟨f_u, f_i⟩)² + b Σ_{r=0} ⟨f_u, f_i⟩² + λ (Σ‖f_u‖² + Σ‖f_i‖²).

        >>> WALS.weighing_unknowns(b=0.01, regularization=0.01)
        WALS(alpha=100.0, regularization=1.0)
        """
        check_number(b, "b", above=0)
        check_number(regularization, "regularization", above=0)
        return cls(alpha=1 / b, regularization=regularization / b, **others)

    def check(self, shape: tuple[int, int]) -> None:  # noqa: ARG002  any size will do
        check_whole(self.factors, "factors", 1)
        check_whole(self.iterations, "iterations", 1)
        check_whole(self.random_state, "random_state")
        if self.n_threads is not None:
            check_whole(self.n_threads, "n_threads", 1)
        check_number(self.regularization, "regularization", above=0)
        check_number(self.alpha, "alpha", above=0)
        _implicit("als")

    def _fit(self, matrix: sp.csr_array) -> None:
        engine = _implicit("als")
        with threadpool_limits(1, "blas"):  # implicit has threads of its own, and warns about a second pool
            als = engine.AlternatingLeastSquares(
                factors=self.factors,
                regularization=self.regularization,
                alpha=self.alpha,
                iterations=self.iterations,
                num_threads=self.n_threads or 0,
                random_state=self.random_state,
            )
            self._learn(als, matrix)
        self._engine = als

    def _new_factors(self, rows: sp.csr_array) -> Scores:
        with threadpool_limits(1, "blas"):
            return np.asarray(self._engine.recalculate_user(np.arange(rows.shape[0]), sp.csr_matrix(rows)))


class BPR(_Factorization):
    """
    Bayesian personalised ranking (Rendle et al. 2009): items that a user has rank before those that the user has not.

    It recommends only to users it was fitted to.

    Parameters
    ----------
    factors : int
    learning_rate, regularization : float
    iterations : int
        Passes over the data, on one thread: with several the result would not be reproducible.
    random_state : int
        Seed of the start and of the samples.
    """

    def __init__(
        self,
        factors: int = 100,
        learning_rate: float = 0.01,
        regularization: float = 0.01,
        iterations: int = 100,
        random_state: int = 0,
    ) -> None:
        self.factors = factors
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.iterations = iterations
        self.random_state = random_state

    def check(self, shape: tuple[int, int]) -> None:  # noqa: ARG002  any size will do
        check_whole(self.factors, "factors", 1)
        check_whole(self.iterations, "iterations", 1)
        check_whole(self.random_state, "random_state")
        check_number(self.learning_rate, "learning_rate", above=0)
        check_number(self.regularization, "regularization", above=0)
        _implicit("bpr")

    def _fit(self, matrix: sp.csr_array) -> None:
        engine = _implicit("bpr")
        with threadpool_limits(1, "blas"):
            bpr = engine.BayesianPersonalizedRanking(
                factors=self.factors,
                learning_rate=self.learning_rate,
                regularization=self.regularization,
                iterations=self.iterations,
                verify_negative_samples=True,
                num_threads=1,
                random_state=self.random_state,
            )
            self._learn(bpr, matrix)
        self.user_factors_[np.diff(matrix.indptr) == 0] = 0.0  # nothing is known about them: popularity decides
        self._unsold = np.bincount(matrix.indices, minlength=matrix.shape[1]) == 0

    def _scores(self, rows: sp.csr_array, users: NDArray[np.int64]) -> Scores:
        scores = super()._scores(rows, users)
        # implicit leaves items that nobody has at 0, which may rank high: they belong at the end
        scores[:, self._unsold] = scores.min(axis=1, keepdims=True)
        return scores

    def _new_factors(self, rows: sp.csr_array) -> Scores:
        raise DataError(
            f"expected the rows of user_items as they were fitted, got {rows.shape[0]} others: BPR has no "
            "factors for new users; fit again, or use wals"
        )


def _implicit(name: str) -> Any:
    """Import one of implicit's modules."""
    try:
        import_module("implicit")
    except ImportError:
        raise MissingExtraError("WALS and BPR need implicit; install it with: pip install 'ocular-rec[eval]'") from None
    return import_module(f"implicit.cpu.{name}")
