"""OCuLaR: the estimator."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, BiclusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from ocular.artifact import History, read_model, write_model
from ocular.data.interactions import Adjacency, Interactions
from ocular.data.matrices import check_positives, frame_labels, owned_rows, rows_for_ids
from ocular.errors import ArtifactError, ConfigError, DataError, Parameter, Phrased
from ocular.explain.calibration import Calibration
from ocular.explain.coclusters import CoCluster, Members, find_members, list_coclusters
from ocular.explain.price import estimate_price
from ocular.explain.reasons import Explanation, Reasons, memberships
from ocular.scoring import Scorer, nearest
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import BIAS_COLUMN, GIVEN, FitConfig, State
from ocular.solver.devices import find_device, fold_in, open_backend
from ocular.solver.fit import Callback, FitResult, run_fit
from ocular.solver.progress import Progress
from ocular.solver.start.given import given_start, start_name
from ocular.solver.start.initial import initial_state
from ocular.validation import allowed_mask, check_id, check_ids, check_n, check_number, check_share, check_whole

Ids = NDArray[np.int32]
Scores = NDArray[np.float32]


class NotConvergedWarning(Phrased, ConvergenceWarning):  # type: ignore[misc]
    """A fit ended before its objective stopped falling."""


class OCuLaR(BiclusterMixin, BaseEstimator):  # type: ignore[misc]
    """
    Recommendations from overlapping co-clusters of users and items.

    A user u and an item i have non-negative memberships f_u, f_i in K co-clusters, and u has i with probability
    1 − e^(−z), z = ⟨f_u, f_i⟩ + background. A fit minimises

        Q = Σ_{r=1} −w_u log(1 − e^(−z)) + Σ_{r=0} (z − background) + λ (Σ‖f_u‖² + Σ‖f_i‖²)

    by line-searched projected gradient steps, all items then all users in turn; a sweep costs O(positives · K).

    Parameters
    ----------
    n_coclusters : int
        K.
    regularization : float
        λ. Larger values give fewer and weaker memberships.
    relative : bool
        R-OCuLaR: the positives of a user weigh w_u = unknowns / positives instead of 1. Needs a larger λ.
    bias : bool
        Fit a user, an item and an overall bias, which add to z.
    background : float
        Affinity of any pair outside all co-clusters.
    max_iter : int
        Most sweeps.
    tol : float
        Stop when the relative decrease of Q in a sweep falls below this.
    beta, sigma : float
        Line search: a step is multiplied by beta until it decreases Q by at least sigma times what the slope promises.
    init : {"auto", "overlap", "seeds", "random"} or a pair of arrays
        Start: see `ocular.solver.start.initial`; or (user memberships, item memberships) to go on from. On small data
        "auto" tries several starts, whose sweeps do not count in n_iter_.
    line_search : {"scaled", "paper"}
        "scaled" divides the gradient by the Hessian's diagonal and remembers each row's step; "paper" restarts every
        search at beta with the plain gradient, as published.
    min_value : float, optional
        Entries of X of at least this value are positives. Without it X must hold only 0 and 1.
    device : {"cpu", "cuda", "cuda:N", "auto"}
        Where sweeps, fold-ins and rankings run; "auto" is a GPU where there is one and NVIDIA Warp is installed. See
        docs/gpu.md. What is saved does not depend on it.
    n_threads : int, optional
        All cores by default. The result has the same bytes for any number.
    random_state : int, RandomState or None
        Seed of the start. A fit that is to go on from a checkpoint needs a number, or None.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    user_factors_, item_factors_ : scipy CSR arrays, float32
        Memberships, (n_users, K) and (n_items, K).
    user_bias_, item_bias_ : arrays; bias_ : float
        Zero unless bias=True.
    rows_, columns_ : bool arrays, (K, n_users) and (K, n_items)
        Members of each co-cluster, as scikit-learn's bicluster tools expect.
    objective_, history_, n_iter_, converged_, interrupted_
        Q at the end and after each sweep, the number of sweeps, whether tol was reached, whether Ctrl-C ended the fit.
    interactions_ : Interactions
        What was fitted, with names and amounts.
    calibration_ : Calibration or None
        What confidences have been worth on held-out purchases: `ocular.evaluation.calibration.calibrate` finds out.

    Examples
    --------
    >>> import numpy as np
    >>> from ocular import OCuLaR
    >>> bought = np.array([[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]])
    >>> model = OCuLaR(n_coclusters=2, regularization=0.1, random_state=0).fit(bought)
    >>> ids, probabilities = model.recommend(2, N=1)
    >>> ids.tolist()
    [2]
    """

    def __init__(
        self,
        n_coclusters: int = 100,
        regularization: float = 30.0,
        *,
        relative: bool = False,
        bias: bool = False,
        background: float = 1e-4,
        max_iter: int = 100,
        tol: float = 1e-4,
        beta: float = 0.5,
        sigma: float = 0.1,
        init: Any = "auto",
        line_search: str = "scaled",
        min_value: float | None = None,
        device: str = "cpu",
        n_threads: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_coclusters = n_coclusters
        self.regularization = regularization
        self.relative = relative
        self.bias = bias
        self.background = background
        self.max_iter = max_iter
        self.tol = tol
        self.beta = beta
        self.sigma = sigma
        self.init = init
        self.line_search = line_search
        self.min_value = min_value
        self.device = device
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.min_value is None
        return tags

    # ------------------------------------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002  scikit-learn's signature
        *,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """
        Fit users × items: an Interactions, or any sparse or dense matrix of 0 and 1 (see min_value).

        `callback(sweep, objective)` is called after every sweep. `checkpoint` names a file that keeps the state, every
        minute and at the end (give a `Checkpoint` for other intervals); a fit that finds it goes on from there and
        ends with the same factors as one that was never stopped. Ctrl-C ends the fit after the running sweep.
        """
        config = self.config()
        if isinstance(self.random_state, np.random.RandomState):
            config = replace(config, seed=int(self.random_state.randint(2**31)))
        interactions = self._read(X)
        given = None if isinstance(self.init, str) else given_start(self.init)
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(Path(checkpoint))
        backend = open_backend(self.device, interactions, config)
        try:
            with Progress(config.max_iter, show=self.verbose, callback=callback) as report:
                result = run_fit(
                    interactions,
                    config,
                    backend,
                    lambda: initial_state(interactions, config, given),
                    callback=report,
                    checkpoint=checkpoint,
                )
        finally:
            backend.close()
        self.interactions_ = interactions
        self.min_value_ = self.min_value
        self._finish(result, config)
        return self

    def _finish(self, result: FitResult, config: FitConfig) -> None:
        """What a fit leaves behind, wherever its sweeps ran."""
        if result.interrupted:
            warnings.warn(
                f"interrupted: the model keeps the state after sweep {len(result.state.objectives)}, the best so far",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif not result.converged and config.tol > 0:
            ended = f"not converged after {config.max_iter} sweeps; increase "
            warnings.warn(NotConvergedWarning(ended, Parameter("max_iter"), " or ", Parameter("tol")), stacklevel=3)
        self.config_ = config
        self.converged_ = result.converged
        self.interrupted_ = result.interrupted
        self.calibration_: Calibration | None = None
        self._learn(result.state)

    def _read(self, X: Any) -> Interactions:
        if isinstance(X, Interactions):
            interactions = X
            self.n_features_in_ = X.n_items
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit to a frame
        else:
            before = {name: self.__dict__.get(name) for name in ("n_features_in_", "feature_names_in_")}
            try:
                checked = validate_data(self, X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
                interactions = Interactions.from_matrix(checked, min_value=self.min_value, **frame_labels(X))
            except ValueError:
                # refused: a model fitted before stays what it was
                self.__dict__.update({name: value for name, value in before.items() if value is not None})
                raise
        return check_positives(interactions)

    def config(self) -> FitConfig:
        """The parameters as the solver takes them; raises ConfigError where one makes no sense."""
        find_device(self.device)
        if self.min_value is not None:
            check_number(self.min_value, "min_value")
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = None  # drawn when a fit begins
        elif seed is not None:
            seed = check_whole(seed, "random_state")
        return FitConfig(
            n_coclusters=self.n_coclusters,
            regularization=self.regularization,
            relative=self.relative,
            bias=self.bias,
            background=self.background,
            max_iter=self.max_iter,
            tol=self.tol,
            beta=self.beta,
            sigma=self.sigma,
            line_search=self.line_search,
            init=self.init if isinstance(self.init, str) else start_name(self.init),
            seed=seed,
            n_threads=self.n_threads,
        )

    def _learn(self, state: State) -> None:
        K, bias = self.config_.n_coclusters, self.config_.bias
        self.user_factors_ = sp.csr_array(state.user_factors[:, :K])
        self.item_factors_ = sp.csr_array(state.item_factors[:, :K])
        for factors in (self.user_factors_, self.item_factors_):
            factors.sort_indices()
        n_users, n_items = len(state.user_steps), len(state.item_steps)
        self.user_bias_ = BIAS_COLUMN * state.user_factors[:, K] if bias else np.zeros(n_users, np.float32)
        self.item_bias_ = BIAS_COLUMN * state.item_factors[:, K + 1] if bias else np.zeros(n_items, np.float32)
        self.bias_ = state.bias
        self.history_ = list(state.objectives)
        self.objective_ = self.history_[-1]
        self.n_iter_ = len(self.history_)
        for derived in ("_scorer", "_members", "_coclusters", "_working_items"):
            self.__dict__.pop(derived, None)  # of an earlier fit

    # ------------------------------------------------------------------------------------------- recommending

    def recommend(
        self,
        userid: int | ArrayLike,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
        recalculate_user: bool = False,
    ) -> tuple[Ids, Scores]:
        """
        The N most probable items of a user (1-D) or of many users (2-D): (ids, probabilities), best first.

        `user_items` holds what the users have, by default what was fitted: a row for each id of `userid`, as in
        implicit; a matrix with another number of rows must have one for every fitted user. `recalculate_user` folds
        those rows in instead of using the fitted memberships. `items` restricts the choice, `filter_items` leaves some
        out. Users are scored one after the other: nothing of the size users × items is built. Where fewer than N items
        are left, ids are −1 and probabilities nan.
        Items of equal probability (all, for a user without history) come by popularity.
        """
        check_is_fitted(self)
        check_n(N)
        ids = self._user_ids(userid)
        if ids.ndim > 1:
            raise DataError(f"expected user ids as one number or a list, got {ids.ndim} dimensions")
        rows = None
        if user_items is not None:
            rows = rows_for_ids(ids, self._matrix_rows(user_items), self.interactions_.n_users)
        if recalculate_user:
            users, bias = self._fold_in(self.interactions_.by_user.take(ids) if rows is None else rows)
        else:
            users, bias = self.user_factors_[ids], self.user_bias_[ids]
        owned = None
        if filter_already_liked_items:
            owned = self.interactions_.by_user.take(ids) if rows is None else rows
        allowed = self._allowed(items, filter_items)
        found, affinity = self._scorer.top(users, owned, int(N), allowed, find_device(self.device))
        scores = -np.expm1(-(affinity + (bias[:, None] + self._base)))
        return (found[0], scores[0]) if np.ndim(userid) == 0 else (found, scores)

    def scorer(self, n_threads: int) -> Scorer:
        """What ranks the items for membership rows, here or elsewhere."""
        popularity = self.interactions_.by_item.degrees
        return Scorer(self.item_factors_, self.item_bias_.astype(np.float32), popularity, n_threads)

    def predict_proba(self, users: ArrayLike, items: ArrayLike) -> NDArray[np.float64]:
        """P(user has item) of pairs; the arguments broadcast: predict_proba(users[:, None], items) is a table."""
        check_is_fitted(self)
        u, i = np.broadcast_arrays(self._user_ids(users), self._item_ids(items))
        left, right = self.user_factors_[u.ravel()], self.item_factors_[i.ravel()]
        shared = np.asarray(left.multiply(right).sum(axis=1, dtype=np.float64)).reshape(u.shape)
        z = shared + self.user_bias_[u] + self.item_bias_[i] + self._base
        probability: NDArray[np.float64] = -np.expm1(-z)
        return probability if np.ndim(users) or np.ndim(items) else probability.reshape(())[()]

    def fold_in(self, user_items: Any) -> sp.csr_array:
        """Memberships (n, K) of new users from what they own, a row of 0/1 over the items each; nothing is refitted."""
        check_is_fitted(self)
        return self._fold_in(self._matrix_rows(user_items))[0]

    def similar_items(
        self, itemid: int, N: int = 10, filter_items: ArrayLike | None = None, items: ArrayLike | None = None
    ) -> tuple[Ids, Scores]:
        """The N items whose memberships point the same way, itself first: (ids, cosines)."""
        check_is_fitted(self)
        check_n(N)
        item = check_id(itemid, self.interactions_.n_items, "item")
        return nearest(self.item_factors_, item, N, self._allowed(items, filter_items))

    def similar_users(
        self, userid: int, N: int = 10, filter_users: ArrayLike | None = None, users: ArrayLike | None = None
    ) -> tuple[Ids, Scores]:
        """The N users whose memberships point the same way, themselves first: (ids, cosines)."""
        check_is_fitted(self)
        check_n(N)
        user = check_id(userid, self.interactions_.n_users, "user")
        allowed = allowed_mask(users, filter_users, self.interactions_.n_users, "user")
        return nearest(self.user_factors_, user, N, allowed)

    # --------------------------------------------------------------------------------------------- explaining

    def explain(self, user: int | None, item: int, user_items: Any = None) -> Explanation:
        """
        Why the item has its probability for the user: contributions that sum to ⟨f_u, f_i⟩.

        `user_items`, one row of 0 and 1 over the items, asks what would be if the user had exactly these; with None as
        the user it is a client who is not in the model.
        """
        check_is_fitted(self)
        return self.explain_all(user, [check_id(item, self.interactions_.n_items, "item")], user_items)[0]

    def explain_all(self, user: int | None, items: ArrayLike, user_items: Any = None) -> list[Explanation]:
        """`explain` for several items of one user: faster than one after the other."""
        check_is_fitted(self)
        u = None if user is None else check_id(user, self.interactions_.n_users, "user")
        if user_items is not None:
            rows = self._matrix_rows(user_items)
            if len(rows) != 1:
                raise DataError(f"expected user_items with one row, got {len(rows)}")
            has, (f_u, user_bias) = rows[0], self._fold_in(rows)
            strengths, bias = memberships(f_u, 0), float(user_bias[0])
        elif u is not None:
            has, strengths = self.interactions_.by_user[u], memberships(self.user_factors_, u)
            bias = float(self.user_bias_[u])
        else:
            raise DataError("expected a user of the model, or user_items to explain by")
        factors = self.user_factors_, self.item_factors_
        reasons = Reasons(strengths, has, factors, self._members, self.interactions_, u)
        owned, supposed = set(has.tolist()), None
        if u is not None and user_items is not None:
            supposed = sorted(owned.difference(self.interactions_.by_user[u].tolist()))
        return [
            self._explain(u, i, reasons, has, bias, supposed, owned=i in owned) for i in self._item_ids(items).tolist()
        ]

    def _explain(
        self,
        user: int | None,
        item: int,
        reasons: Reasons,
        has: NDArray[np.int32],
        user_bias: float,
        supposed: list[int] | None,
        *,
        owned: bool,
    ) -> Explanation:
        found, related = reasons.find(item)
        base = user_bias + float(self.item_bias_[item]) + self._base
        confidence = float(-np.expm1(-base - sum(reason.contribution for reason in found)))
        calibration = self.calibration_ if found and not owned else None  # what was checked were recommendations
        return Explanation(
            user=user,
            item=item,
            confidence=confidence,
            reasons=found,
            owned=owned,
            interactions=self.interactions_,
            client_items=has,
            base=base,
            background=self.config_.background,
            supposed=supposed,
            observed=None if calibration is None else calibration.observed(confidence),
            price=estimate_price(item, related, self.interactions_, user),
        )

    def coclusters(self, probability: float | None = None) -> list[CoCluster]:
        """The co-clusters with their members, which are those of `members(probability)`, and what to say about them."""
        members = self.members(probability)
        return list(self._coclusters if probability is None else self._list_coclusters(members))

    def members(self, probability: float | None = None) -> Members:
        """
        Who belongs to which co-cluster, and in how many each user and item is.

        A member has a co-cluster's typical item, or user, with this probability on account of that co-cluster alone;
        the default adapts to weak co-clusters, see `ocular.explain.coclusters`.
        """
        check_is_fitted(self)
        if probability is None:
            return self._members
        check_share(probability, "probability")
        return find_members(self.user_factors_, self.item_factors_, probability)

    @property
    def rows_(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        members: NDArray[np.bool_] = self._members.users.astype(bool).toarray().T
        return members

    @property
    def columns_(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        members: NDArray[np.bool_] = self._members.items.astype(bool).toarray().T
        return members

    # ------------------------------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, with the history it was fitted on, to the folder `path`; `ocular.load` reads it."""
        check_is_fitted(self)
        history = self._history()
        about = {
            "parameters": asdict(self.config_),  # those of the fit, whatever set_params did since
            "min_value": None if self.min_value_ is None else float(self.min_value_),
            "fit": {"bias": float(self.bias_), "history": self.history_, "converged": self.converged_},
            "data": {"clients": history.shape[0], "products": history.shape[1], "pairs": history.nnz,
                     "currency": history.currency},
            "calibration": None if self.calibration_ is None else self.calibration_.to_dict(),
        }  # fmt: skip
        arrays = {"user_bias": self.user_bias_, "item_bias": self.item_bias_}
        for side, factors in (("user", self.user_factors_), ("item", self.item_factors_)):
            arrays |= {f"{side}_{part}": getattr(factors, part) for part in ("data", "indices", "indptr")}
        write_model(Path(path), about, arrays, history)

    # ------------------------------------------------------------------------------------------------ inside

    def _history(self) -> History:
        """What is saved with the model."""
        return self.interactions_

    @property
    def _base(self) -> float:
        """The part of z that all pairs share."""
        return self.config_.background + self.bias_

    @cached_property
    def _members(self) -> Members:
        return find_members(self.user_factors_, self.item_factors_, background=self.config_.background)

    @cached_property
    def _coclusters(self) -> list[CoCluster]:
        return self._list_coclusters(self._members)

    def _list_coclusters(self, members: Members) -> list[CoCluster]:
        factors = self.user_factors_, self.item_factors_
        user_base = self.user_bias_.astype(np.float64) + self._base
        return list_coclusters(members, *factors, user_base, self.item_bias_.astype(np.float64), self.interactions_)

    @cached_property
    def _scorer(self) -> Scorer:
        return self.scorer(self.config_.threads)

    def _fold_in(self, rows: Adjacency) -> tuple[sp.csr_array, NDArray[np.float32]]:
        config, K = self.config_, self.config_.n_coclusters
        users = fold_in(self.device, rows, self._working_items, config, self.bias_)
        bias = BIAS_COLUMN * users[:, K] if config.bias else np.zeros(len(rows), dtype=np.float32)
        return sp.csr_array(users[:, :K]), bias

    @cached_property
    def _working_items(self) -> NDArray[np.float32]:
        """Item memberships and biases as the solver works on them."""
        K = self.config_.n_coclusters
        working = np.zeros((self.interactions_.n_items, self.config_.width), dtype=np.float32)
        working[:, :K] = self.item_factors_.toarray()
        if self.config_.bias:
            working[:, K] = BIAS_COLUMN
            working[:, K + 1] = self.item_bias_ / BIAS_COLUMN
        return working

    def _user_ids(self, ids: int | ArrayLike) -> NDArray[np.int64]:
        return check_ids(ids, self.interactions_.n_users, "user")

    def _item_ids(self, ids: int | ArrayLike) -> NDArray[np.int64]:
        return check_ids(ids, self.interactions_.n_items, "item")

    def _allowed(self, only: ArrayLike | None, without: ArrayLike | None) -> NDArray[np.bool_] | None:
        return allowed_mask(only, without, self.interactions_.n_items, "item")

    def _matrix_rows(self, user_items: Any) -> Adjacency:
        return owned_rows(user_items, self.interactions_.n_items, self.min_value_)


def parameters_of(config: FitConfig) -> dict[str, Any]:
    """Of an OCuLaR with this configuration; memberships that were given as a start are not known any more."""
    parameters = asdict(config) | {"random_state": config.seed}
    if config.init.startswith(GIVEN):
        parameters["init"] = "auto"
    return {name: parameters[name] for name in OCuLaR().get_params() if name in parameters}


def load(path: str | os.PathLike[str]) -> OCuLaR:
    """A model saved with `OCuLaR.save`, checked; it needs no training file."""
    folder = Path(path)
    manifest, arrays, interactions = read_model(folder)
    try:
        config = FitConfig(**manifest["parameters"])
        model = OCuLaR(**parameters_of(config), min_value=manifest["min_value"])
        model.config_ = config
        model.min_value_ = model.min_value
        model.interactions_ = interactions
        model.n_features_in_ = interactions.n_items
        for side, n in (("user", interactions.n_users), ("item", interactions.n_items)):
            parts = tuple(arrays[f"{side}_{part}"] for part in ("data", "indices", "indptr"))
            factors = sp.csr_array(parts, shape=(n, config.n_coclusters))
            factors.check_format(full_check=True)
            setattr(model, f"{side}_factors_", factors)
            bias = arrays[f"{side}_bias"]
            if bias.shape != (n,):
                raise ValueError(f"{side} biases of shape {bias.shape} where {(n,)} belongs")
            setattr(model, f"{side}_bias_", bias)
        fit = manifest["fit"]
        model.bias_, model.history_, model.converged_ = fit["bias"], fit["history"], fit["converged"]
        model.interrupted_ = False
        model.objective_, model.n_iter_ = model.history_[-1], len(model.history_)
        calibration = manifest.get("calibration")
        model.calibration_ = None if calibration is None else Calibration.from_dict(calibration)
    except (KeyError, IndexError, TypeError, ValueError, ConfigError) as error:
        raise ArtifactError(f"{folder} is not a whole model ({error}); fit and save it again") from error
    return model
