"""OCuLaR: the estimator."""

from __future__ import annotations

import logging
import os
import reprlib
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cached_property
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, BiclusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from ocular.artifact import SavedInteractions, SavedModel, read_model, write_model
from ocular.data.interactions import Adjacency, Interactions
from ocular.data.matrices import check_positives, frame_labels, owned_rows, rows_for_ids
from ocular.data.ordering import Ordering, taken, taken_twice
from ocular.data.selection import Choice as Selection
from ocular.data.selection import allowed_items
from ocular.data.splits import Split, random_split
from ocular.errors import ArtifactError, ConfigError, DataError, Parameter, Phrased
from ocular.evidence import Evidence, EvidenceConfig, fit_new_peers, fit_peers, fit_product_links
from ocular.explain.calibration import Calibration
from ocular.explain.coclusters import CoClusters, Members, find_members, list_coclusters
from ocular.explain.explainer import Client, Explainer
from ocular.explain.reasons import Explanation
from ocular.refit import kept_labels
from ocular.scoring import Scorer, nearest, rows_with_links
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import BIAS_COLUMN, GIVEN, FitConfig, State
from ocular.solver.devices import find_device, open_backend
from ocular.solver.fit import Callback, FitResult, run_fit
from ocular.solver.fold_in import FoldIn
from ocular.solver.links import SQUARES
from ocular.solver.progress import Progress
from ocular.solver.start.given import ordered_start, start_name
from ocular.solver.start.initial import initial_state, plain_start
from ocular.solver.start.previous import Previous
from ocular.tuning import (
    AUTO,
    FIXED,
    METRICS,
    MIN_HELD_OUT,
    REGULARIZATIONS,
    Choice,
    EvidenceRequest,
    Factors,
    choose,
    count_pairs,
    usual_coclusters,
    usual_regularization,
)
from ocular.tuning import SHARE as HELD_OUT_SHARE
from ocular.validation import (
    allowed_mask,
    check_choice,
    check_id,
    check_id_list,
    check_ids,
    check_n,
    check_number,
    check_share,
    check_whole,
)
from ocular.weight_scan import MAX_SCORES

Ids = NDArray[np.int32]
Scores = NDArray[np.float32]

TUNING_TOL = 1e-3  # of fits that only compare parameters
_log = logging.getLogger("ocular")

# cached, and outdated by the next fit
DERIVED = (
    "_made_evidence",
    "_scorer",
    "_user_scorer",
    "_members",
    "_coclusters",
    "_fold",
    "_ordering",
    "_alike_items",
    "_alike_users",
)


class NotConvergedWarning(Phrased, ConvergenceWarning):  # type: ignore[misc]
    """A fit ended before its objective stopped falling."""


class OCuLaR(BiclusterMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc, call-arg]
    """
    Recommendations from overlapping co-clusters of users and items, and links between them.

    A user u and an item i have non-negative memberships f_u, f_i in K co-clusters, and u has i with probability
    1 − e^(−z), z = ⟨f_u, f_i⟩ + background. A fit minimises

        Q = Σ_{r=1} −w_u log(1 − e^(−z)) + Σ_{r=0} (z − background) + λ (Σ‖f_u‖² + Σ‖f_i‖²)

    by line-searched projected gradient steps, all items then all users in turn; a sweep costs O(positives · K).

    With links or peers, two more kinds of evidence are fitted apart and added with their weights:

        z = s_i (⟨f_u, f_i⟩ + α Σ_{j of u} S_ji + β Σ_{v of i} T_vu) / (1 + α + β) + background

    S_ji ≥ 0 says that who has item j tends to have item i, T_vu ≥ 0 that what user v has, user u has; no positive
    explains itself. See `ocular.evidence` and `ocular.solver.links`.

    Parameters
    ----------
    n_coclusters : int or "auto"
        K. "auto" is 100, and less on small data.
    regularization : float or "auto"
        λ. Larger values give fewer and weaker memberships. "auto" chooses it on held-out purchases.
    links : float or "auto"
        α, the weight of links between items; 0 is the paper's model. "auto" chooses it on a held-out tenth of the
        positives, together with those of peers, popularity and the penalties that are None.
    peers : float or "auto", optional
        β, the weight of links between users. None is 0 where links is a number.
    popularity : float or "auto", optional
        The exponent of s_i = (n_i / mean n)^popularity, n_i the number of users with item i: below 0 bestsellers count
        for less, above 0 for more. None is 0 where links is a number.
    link_regularization : float or "auto", optional
        μ, the penalty of links between items. None is 300 where links is a number.
    link_loss : {"likelihood", "squares", "auto"}, optional
        What links between items minimise; see `ocular.solver.links`. None is "likelihood", which is the better one for
        random parts of the positives; by date "squares" often is.
    peer_regularization : float or "auto", optional
        The penalty of peers. None is 1000 where links is a number.
    n_links : int
        Candidates per item (links) and per user (peers).
    metric : {"balanced", "recall", "map"}
        What decides where something is "auto", at 50 recommendations per user or a tenth of the items: recall, MAP or
        the geometric mean of both, in which MAP counts twice.
    relative : bool
        R-OCuLaR: the positives of a user weigh w_u = unknowns / positives instead of 1. Needs a larger λ.
    bias : bool
        Fit a user, an item and an overall bias, which add to z.
    background : float
        Affinity of any pair outside all co-clusters.
    max_iter : int
        The largest number of sweeps.
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
    links_, peers_ : scipy CSR arrays, float32
        S, (n_items, n_items), row j and column i; T, (n_users, n_users), row v and column u. Empty where they weigh 0.
    rows_, columns_ : bool arrays, (K, n_users) and (K, n_items)
        Members of each co-cluster, as scikit-learn's bicluster tools expect.
    objective_, history_, n_iter_, converged_, interrupted_
        Q at the end and after each sweep, the number of sweeps, whether tol was reached, whether Ctrl-C ended the fit.
    interactions_ : Interactions
        What was fitted, with names and amounts.
    tuning_ : Choice or None
        How well the parameters that were "auto" did on held-out positives; None where nothing was, or after loading.
    excluded_items_ : bool array, (n_items,)
        Items that are never recommended, by `only` and `without` of the fit.
    pattern_labels_ : dict
        Labels by number of co-clusters that a fit with `start` took over from the model before it.
    calibration_ : Calibration or None
        What confidences have been worth on held-out purchases, after `calibrate`.

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

    evidence_config_: EvidenceConfig

    def __init__(
        self,
        n_coclusters: int | str = 100,
        regularization: float | str = 30.0,
        *,
        links: float | str = 0.0,
        peers: float | str | None = None,
        popularity: float | str | None = None,
        link_regularization: float | str | None = None,
        link_loss: str | None = None,
        peer_regularization: float | str | None = None,
        n_links: int = 500,
        metric: str = "balanced",
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
        self.links = links
        self.peers = peers
        self.popularity = popularity
        self.link_regularization = link_regularization
        self.link_loss = link_loss
        self.peer_regularization = peer_regularization
        self.n_links = n_links
        self.metric = metric
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
        tags.transformer_tags.preserves_dtype = []  # memberships are float32, whatever X is
        return tags

    # ------------------------------------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002  scikit-learn's signature
        *,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        only: Selection | None = None,
        without: Selection | None = None,
        start: OCuLaR | None = None,
    ) -> Self:
        """
        Fit users × items: an Interactions, or any sparse or dense matrix of 0 and 1 (see min_value).

        `callback(sweep, objective)` is called after every sweep. `checkpoint` names a file that keeps the state, every
        minute and at the end (give a `Checkpoint` for other intervals); a fit that finds it goes on from there and
        ends with the same factors as one that was never stopped. Ctrl-C ends the fit after the running sweep.

        `only` and `without` choose what may ever be recommended, by name ("Postage", ["Postage", "Fees"]) or by
        attribute of the products ({"family": "Printing"}). The model learns from all purchases, and keeps and saves
        the choice as `excluded_items_`.

        `start` is a fitted model to go on from, in place of `init`: clients and products that it knows by name begin
        with its memberships, new ones with those that fit best to the others. Co-clusters keep their numbers, and
        their labels where they keep most of their members. What is "auto" is as in that model.

        Rows and columns are fitted in the order of their names, so that the order they come in changes nothing.
        """
        config = self.config()
        self.evidence_request()
        if isinstance(self.random_state, np.random.RandomState):
            config = replace(config, seed=int(self.random_state.randint(2**31)))
        interactions, allowed = self._read(X, only, without)
        ordering = Ordering.of(interactions)
        ordered = ordering.sort(interactions)
        config = self._sized(config, interactions, start)
        given = None if isinstance(self.init, str) else ordered_start(self.init, ordering)
        previous = None if start is None else self._previous(start, interactions, config)
        if start is not None and previous is not None:  # chosen anew, weights would change what the purchases do not
            config = replace(self._take_over(start, config), init=previous.name())
            evidence, tuning = self.evidence_request().settled(start.evidence_config_), None
            before = start.coclusters(), previous.interactions  # `start` may be this very model
        else:
            config, evidence, tuning = self._choose_parameters(ordered, config)
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(Path(checkpoint))

        def begin() -> State:
            return previous.state(ordered, config) if previous else initial_state(ordered, config, given)

        with Progress(config.max_iter, show=self.verbose, callback=callback) as report:
            result = self._fit_patterns(ordered, config, begin, report, checkpoint)
        links = taken_twice(fit_product_links(ordered, evidence, config), ordering.item_ranks)
        peers = taken_twice(fit_peers(ordered, evidence, config), ordering.user_ranks)
        self.interactions_ = interactions
        self.min_value_ = self.min_value
        self._finish(replace(result, state=result.state.restored(ordering)), config)
        self._ordering = ordering
        self.evidence_config_, self.tuning_, self.links_, self.peers_ = evidence, tuning, links, peers
        if allowed is not None:
            self.excluded_items_ = ~allowed
        if start is not None:
            self.pattern_labels_: dict[int, str] = kept_labels(*before, self._members, interactions)
        return self

    def _fit_patterns(
        self,
        interactions: Interactions,
        config: FitConfig,
        begin: Callable[[], State],
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> FitResult:
        """Fit the co-clusters from the state that `begin` returns."""
        backend = open_backend(self.device, interactions, config)
        try:
            return run_fit(interactions, config, backend, begin, callback=callback, checkpoint=checkpoint)
        finally:
            backend.close()

    def _choose_parameters(
        self, interactions: Interactions, config: FitConfig
    ) -> tuple[FitConfig, EvidenceConfig, Choice | None]:
        """Return the parameters with a value for everything that is "auto", and how they were chosen, if they were."""
        request = self.evidence_request()
        if request.is_settled and self.regularization != AUTO:
            return config, request.settled(EvidenceConfig()), None
        split = (
            random_split(interactions, HELD_OUT_SHARE) if interactions.nnz * HELD_OUT_SHARE >= MIN_HELD_OUT else None
        )
        if split is None or count_pairs(split) < MIN_HELD_OUT:
            if self.regularization == AUTO:
                usual = usual_regularization(interactions.nnz, config.n_coclusters)
                config = replace(config, regularization=usual)
            fixed = request.settled(FIXED)
            few = f"{interactions.nnz:,} purchases are too few to choose parameters on a tenth of them; taking "
            weights = Parameter("links", f"{fixed.links:g}"), ", ", Parameter("peers", f"{fixed.peers:g}")
            _log.warning(Phrased(few, *weights))
            return config, fixed, None
        choice = self.choose(split, config)
        return choice.config, choice.evidence, choice

    def choose(
        self, split: Split, config: FitConfig | None = None, M: int | None = None, max_scores: int = MAX_SCORES
    ) -> Choice:
        """
        Choose what is "auto" on the test part of a split, by `metric` at M recommendations per user; nothing is kept.

        Every part is fitted once for each penalty, with a start and a tolerance that save time; weights are scanned by
        scoring alone, on a sample of users whose scores are at most about `max_scores`.
        """
        config = self._sized(self.config(), split.train) if config is None else config
        regularizations = REGULARIZATIONS if self.regularization == AUTO else ()
        quick = replace(config, tol=max(config.tol, TUNING_TOL), init=plain_start(split.train))
        request = self.evidence_request()
        options: dict[str, Any] = {"regularizations": regularizations, "metric": self.metric, "M": M}
        choice = choose(split, request, quick, self._factors, max_scores=max_scores, **options)
        return choice._replace(config=replace(config, regularization=choice.config.regularization))

    def _take_over(self, start: OCuLaR, config: FitConfig) -> FitConfig:
        """Return the configuration with the λ of `start` where it is "auto"."""
        return replace(config, regularization=start.config_.regularization) if self.regularization == AUTO else config

    def _sized(self, config: FitConfig, interactions: Interactions, start: Any = None) -> FitConfig:
        """Return the configuration with a number of co-clusters where it is "auto": that of `start`, or the usual."""
        if self.n_coclusters != AUTO:
            return config
        if isinstance(start, OCuLaR) and hasattr(start, "config_"):
            return replace(config, n_coclusters=start.config_.n_coclusters)
        return replace(config, n_coclusters=usual_coclusters(interactions.shape))

    def _factors(self, interactions: Interactions, config: FitConfig) -> Factors:
        """Return the memberships of users and items that a fit ends with, and the biases of the items, if any."""
        result = self._fit_patterns(interactions, config, lambda: initial_state(interactions, config))
        if result.interrupted:
            raise KeyboardInterrupt  # parameters chosen by half a fit are worth nothing
        K, state = config.n_coclusters, result.state
        bias = np.asarray(BIAS_COLUMN * state.item_factors[:, K + 1]).ravel() if config.bias else None
        return sp.csr_array(state.user_factors[:, :K]), sp.csr_array(state.item_factors[:, :K]), bias

    def _previous(self, start: OCuLaR, interactions: Interactions, config: FitConfig) -> Previous:
        """Return what a fit starts with that goes on from another model, or raise where it cannot."""
        if not isinstance(start, OCuLaR) or not hasattr(start, "history_"):
            raise ConfigError("expected ", Parameter("start"), f" to be a fitted OCuLaR, got {reprlib.repr(start)}")
        if not isinstance(self.init, str):
            raise ConfigError("expected either ", Parameter("start"), " or memberships as init, got both")
        factors = start.user_factors_, start.item_factors_
        previous = Previous(*factors, start.user_bias_, start.item_bias_, start.bias_, start.interactions_)
        previous.check(interactions, config.n_coclusters)
        return previous

    def _finish(self, result: FitResult, config: FitConfig) -> None:
        """Keep what a fit leaves behind, wherever its sweeps ran."""
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
        self._keep_patterns_only()
        self.pattern_labels_ = {}
        self.excluded_items_ = np.zeros(self.item_factors_.shape[0], dtype=np.bool_)

    def _read(
        self, X: Any, only: Selection | None, without: Selection | None
    ) -> tuple[Interactions, NDArray[np.bool_] | None]:
        """Return what is fitted and which items may be recommended; where it is refused the model stays as it was."""
        names = ("n_features_in_", "feature_names_in_")
        before = {name: self.__dict__[name] for name in names if name in self.__dict__}
        try:
            if isinstance(X, Interactions):
                interactions = X
                self.n_features_in_ = X.n_items
                self.__dict__.pop("feature_names_in_", None)  # of an earlier fit to a frame
            else:
                checked = validate_data(self, X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
                interactions = Interactions.from_matrix(checked, min_value=self.min_value, **frame_labels(X))
            allowed = allowed_items(check_positives(interactions), only, without)
            if allowed is not None and not allowed.any():
                raise ConfigError(
                    "expected some products to recommend, got none by ",
                    Parameter("only"),
                    " and ",
                    Parameter("without"),
                )
        except Exception:
            for name in names:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise
        return interactions, allowed

    def config(self) -> FitConfig:
        """Return the parameters as the solver takes them; raise ConfigError where one makes no sense."""
        find_device(self.device)
        if self.min_value is not None:
            check_number(self.min_value, "min_value")
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = None  # drawn when a fit begins
        elif seed is not None:
            seed = check_whole(seed, "random_state")
        usual, K, strength = FitConfig(), self.n_coclusters, self.regularization
        return FitConfig(
            n_coclusters=usual.n_coclusters if K == AUTO else cast(int, K),  # checked there
            regularization=usual.regularization if strength == AUTO else cast(float, strength),
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

    def evidence_request(self) -> EvidenceRequest:
        """Return the parameters of links and peers as given; raise ConfigError where one makes no sense."""
        check_choice(self.metric, "metric", METRICS)
        if self.link_loss == SQUARES and self.relative:
            loss = Parameter("link_loss", "squares")
            raise ConfigError("expected ", loss, " without ", Parameter("relative"), ", got both; leave one out")
        return EvidenceRequest.of(**{name: getattr(self, name) for name in EvidenceConfig.__dataclass_fields__})

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
        for name in DERIVED:
            self.__dict__.pop(name, None)

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
        Return the N most probable items of a user (1-D) or of many users (2-D): (ids, probabilities), best first.

        `user_items` holds what the users have, by default what was fitted: a row for each id of `userid`, as in
        implicit; a matrix with another number of rows must have one for every fitted user. `recalculate_user` folds
        those rows in instead of using the fitted memberships. `items` restricts the choice, `filter_items` leaves some
        out; so does `excluded_items_`. Users are scored one after the other: nothing of the size users × items is
        built. Where fewer than N items are left, ids are −1 and probabilities nan.
        Items of equal probability (all, for a user without purchases) come by popularity.
        """
        check_is_fitted(self)
        N = check_n(N)
        ids = check_id_list(userid, self.interactions_.n_users, "user")
        rows = None
        if user_items is not None:
            rows = rows_for_ids(ids, self._matrix_rows(user_items), self.interactions_.n_users)
        has = self.interactions_.by_user.take(ids) if rows is None else rows
        if recalculate_user:
            users, bias = self._new_rows(has, ids)
        else:
            factors, bias = self.user_factors_[ids], self.user_bias_[ids]
            users = self._evidence.user_rows(factors, has, self._peers_of(ids))
        owned = has if filter_already_liked_items else None
        allowed = allowed_mask(items, filter_items, self.interactions_.n_items, "item")
        if self.excluded_items_.any():
            allowed = ~self.excluded_items_ if allowed is None else allowed & ~self.excluded_items_
        best, affinity = self._scorer.top(users, owned, N, allowed, self._ranking_device)
        scores = -np.expm1(-(affinity + (bias[:, None] + self._base)))
        return (best[0], scores[0]) if np.ndim(userid) == 0 else (best, scores)

    def recommend_users(
        self,
        itemid: int | ArrayLike,
        N: int = 10,
        filter_already_liked_items: bool = True,
        users: ArrayLike | None = None,
        filter_users: ArrayLike | None = None,
    ) -> tuple[Ids, Scores]:
        """
        Return the N users most likely to want an item (1-D) or each of many items (2-D): (ids, probabilities).

        Best first, without those who have the item unless `filter_already_liked_items` is False. `users` restricts the
        choice, `filter_users` leaves some out. Users of equal probability come by their number of purchases. Where
        fewer than N users are left, ids are −1 and probabilities nan. An item in `excluded_items_` raises DataError.
        """
        check_is_fitted(self)
        N = check_n(N)
        ids = check_id_list(itemid, self.interactions_.n_items, "item")
        excluded = ids[self.excluded_items_[ids]]
        if len(excluded):
            name = self.interactions_.item_name(int(excluded[0]))
            raise DataError(f"expected a product that may be recommended, got {name!r}, which the fit excluded")
        owned = self.interactions_.by_item.take(ids) if filter_already_liked_items else None
        allowed = allowed_mask(users, filter_users, self.interactions_.n_users, "user")
        rows = self._evidence.item_rows[ids]
        best, affinity = self._user_scorer.top(rows, owned, N, allowed, self._ranking_device)
        scores = -np.expm1(-(affinity + (self.item_bias_[ids].astype(np.float32)[:, None] + self._base)))
        return (best[0], scores[0]) if np.ndim(itemid) == 0 else (best, scores)

    def evidence(self) -> Evidence:
        """Return what z is made of, as sparse rows of users and items."""
        check_is_fitted(self)
        return self._evidence

    def scorer(self, n_threads: int) -> Scorer:
        """Return what ranks the items for membership rows, here or elsewhere."""
        popularity = self.interactions_.by_item.degrees
        ranks = self._ordering.item_ranks, self._column_ranks
        return Scorer(self._evidence.item_rows, self.item_bias_.astype(np.float32), popularity, n_threads, *ranks)

    def affinity(self, users: ArrayLike, items: ArrayLike) -> NDArray[np.float64]:
        """Return z of pairs; the arguments broadcast: affinity(users[:, None], items) is a table."""
        check_is_fitted(self)
        u, i = np.broadcast_arrays(self._user_ids(users), self._item_ids(items))
        users_once, place = np.unique(u.ravel(), return_inverse=True)
        left, right = self._evidence.rows_of(users_once)[place], self._evidence.item_rows[i.ravel()]
        shared = np.asarray(left.multiply(right).sum(axis=1, dtype=np.float64)).reshape(u.shape)
        z: NDArray[np.float64] = shared + self.user_bias_[u] + self.item_bias_[i] + self._base
        return z if np.ndim(users) or np.ndim(items) else z.reshape(())[()]

    def predict_proba(self, users: ArrayLike, items: ArrayLike) -> NDArray[np.float64]:
        """Return P(user has item) = 1 − e^(−z) of pairs; the arguments broadcast as those of `affinity`."""
        probability: NDArray[np.float64] = -np.expm1(-self.affinity(users, items))
        return probability

    def fold_in(self, user_items: Any) -> sp.csr_array:
        """Return memberships (n, K) of new users from rows of 0 and 1, the items they own; nothing is refitted."""
        check_is_fitted(self)
        return self._folded(self._matrix_rows(user_items))[0]

    def transform(self, X: Any = None) -> sp.csr_array:
        """
        Return memberships (n, K): those of the fit without X, otherwise those of the rows of X as `fold_in` finds them.

        `fit_transform(X)` is `fit(X).transform(X)`, which differs from `user_factors_` as far as the fit has not
        converged.
        """
        check_is_fitted(self)
        if X is None:
            return self.user_factors_
        if not isinstance(X, Interactions):
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
        # not the one that is cached: scikit-learn expects transform to leave no trace in the estimator
        return self._folded(self._matrix_rows(X), self._new_fold())[0]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002  scikit-learn's
        """Return the names of the columns of `transform`: cocluster0, cocluster1, …"""
        check_is_fitted(self)
        return np.array([f"cocluster{c}" for c in range(self.item_factors_.shape[1])], dtype=object)

    def similar_items(
        self,
        itemid: int | ArrayLike,
        N: int = 10,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> tuple[Ids, Scores]:
        """
        Return the N items most like an item (1-D) or each of many items (2-D), itself first: (ids, similarities).

        The similarity is the cosine of memberships and, with a tenth of the weight, the cosine of who bought them:
        items of a single co-cluster all have the same direction, and their buyers then tell which are closer. Where
        the model has links, two thirds of the first are the cosine of links instead: of what leads to an item or
        follows from it (S + Sᵀ), with the item itself as strong as its strongest link. On MovieLens-1M and CiteULike-a
        the nearest then have more genres and tags in common than by either alone (benchmarks/similarity.py).
        """
        check_is_fitted(self)
        data = self.interactions_
        ids = check_id_list(itemid, data.n_items, "item")
        allowed = allowed_mask(items, filter_items, data.n_items, "item")
        best, similarities = nearest(
            self._alike_items, ids, check_n(N), allowed, data.by_item, data.by_user, self._ordering.item_ranks
        )
        return (best[0], similarities[0]) if np.ndim(itemid) == 0 else (best, similarities)

    def similar_users(
        self,
        userid: int | ArrayLike,
        N: int = 10,
        filter_users: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> tuple[Ids, Scores]:
        """
        Return the N users most like a user (1-D) or each of many users (2-D), as `similar_items` does for items.

        Peers are to users what links are to items.
        """
        check_is_fitted(self)
        data = self.interactions_
        ids = check_id_list(userid, data.n_users, "user")
        allowed = allowed_mask(users, filter_users, data.n_users, "user")
        best, similarities = nearest(
            self._alike_users, ids, check_n(N), allowed, data.by_user, data.by_item, self._ordering.user_ranks
        )
        return (best[0], similarities[0]) if np.ndim(userid) == 0 else (best, similarities)

    @cached_property
    def _alike_items(self) -> sp.csr_array:
        return rows_with_links(self.item_factors_, self.links_)

    @cached_property
    def _alike_users(self) -> sp.csr_array:
        return rows_with_links(self.user_factors_, self.peers_)

    def calibrate(self, **options: Any) -> Calibration:
        """
        Find out on held-out purchases what confidences are worth, and keep it in `calibration_`.

        The options are those of `ocular.calibrate`: share, per_client, random_state.
        """
        check_is_fitted(self)
        # evaluation builds on the estimator: the estimator cannot import it before it is called
        calibration: Calibration = import_module("ocular.evaluation.calibration").calibrate(self, **options)
        return calibration

    # --------------------------------------------------------------------------------------------- explaining

    def explain(self, user: int | None, item: int, user_items: Any = None) -> Explanation:
        """
        Explain why the item has its probability for the user: contributions that sum to ⟨f_u, f_i⟩.

        `user_items`, one row of 0 and 1 over the items, asks what would be if the user had exactly these; with None as
        the user it is a client who is not in the model.
        """
        check_is_fitted(self)
        return self.explain_all(user, [check_id(item, self.interactions_.n_items, "item")], user_items)[0]

    def explain_all(self, user: int | None, items: ArrayLike, user_items: Any = None) -> list[Explanation]:
        """Explain several items for one user, faster than one after the other."""
        check_is_fitted(self)
        return self.explainer().explain(self._client(user, user_items), self._item_ids(items).tolist())

    def explainer(self) -> Explainer:
        """Return what explains recommendations of the model as it is now."""
        base = self.item_bias_, self.bias_, self.config_.background
        return Explainer(self._evidence, *base, self._members, self.interactions_, self.calibration_)

    def _client(self, user: int | None, user_items: Any) -> Client:
        u = None if user is None else check_id(user, self.interactions_.n_users, "user")
        if user_items is not None:
            rows = self._matrix_rows(user_items)
            if len(rows) != 1:
                raise DataError(f"expected user_items with one row, got {len(rows)}")
            factors, bias = self._folded(rows)
            known = None if u is None else np.array([u])
            return Client(u, rows[0], factors, float(bias[0]), self._new_peers(rows, known), is_supposed=True)
        if u is None:
            raise DataError("expected a user of the model, or user_items to explain by")
        owned, factors, peers = self.interactions_.by_user[u], self.user_factors_[[u]], self._peers_of(np.array([u]))
        return Client(u, owned, factors, float(self.user_bias_[u]), peers)

    def coclusters(self, probability: float | None = None) -> CoClusters:
        """Return the co-clusters with the members that `members(probability)` finds, each with a label and numbers."""
        members = self.members(probability)
        return CoClusters(
            self._coclusters if probability is None else self._list_coclusters(members), self.interactions_
        )

    def members(self, probability: float | None = None) -> Members:
        """
        Return who belongs to which co-cluster, and in how many each user and item is.

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
        """Members of each co-cluster among the users, (K, n_users)."""
        check_is_fitted(self)
        members: NDArray[np.bool_] = self._members.users.astype(bool).toarray().T
        return members

    @property
    def columns_(self) -> NDArray[np.bool_]:
        """Members of each co-cluster among the items, (K, n_items)."""
        check_is_fitted(self)
        members: NDArray[np.bool_] = self._members.items.astype(bool).toarray().T
        return members

    # ------------------------------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, with the purchases it was fitted on, to the folder `path`; `ocular.load` reads it."""
        check_is_fitted(self)
        saved = SavedModel(
            config=self.config_,  # of the fit, whatever set_params did since
            min_value=None if self.min_value_ is None else float(self.min_value_),
            user_factors=self.user_factors_,
            item_factors=self.item_factors_,
            user_bias=self.user_bias_,
            item_bias=self.item_bias_,
            bias=float(self.bias_),
            objective_values=self.history_,
            converged=self.converged_,
            excluded_items=self.excluded_items_,
            evidence=self.evidence_config_,
            links=self.links_,
            peers=self.peers_,
            pattern_labels=self.pattern_labels_,
            calibration=None if self.calibration_ is None else self.calibration_.to_dict(),
            interactions=self._saved_interactions(),
        )
        write_model(Path(path), saved)

    def _html_repr(self) -> str:
        """Return what a notebook shows: scikit-learn's table of parameters and, once fitted, a line on the fit."""
        table = str(estimator_html_repr(self))
        if not hasattr(self, "history_"):
            return table
        n_users, n_items = self.interactions_.shape
        members = self._members
        n_coclusters = int(((np.diff(members.users.indptr) > 0) & (np.diff(members.items.indptr) > 0)).sum())
        ended = "converged" if self.converged_ else "not converged"
        facts = (
            f"{n_users:,} users × {n_items:,} items, {self.interactions_.nnz:,} positives; "
            f"{n_coclusters:,} co-clusters; objective {self.objective_:,.6g} after {self.n_iter_:,} sweeps, {ended}"
        )
        return f'{table}<p class="ocular-fit">{escape(facts)}</p>'

    # ------------------------------------------------------------------------------------------------ inside

    def _saved_interactions(self) -> SavedInteractions:
        """Return the purchases that are saved with the model."""
        return self.interactions_

    @property
    def _base(self) -> float:
        """The part of z that all pairs share."""
        return self.config_.background + self.bias_

    @cached_property
    def _members(self) -> Members:
        return find_members(self.user_factors_, self.item_factors_, background=self.config_.background)

    @cached_property
    def _coclusters(self) -> CoClusters:
        return self._list_coclusters(self._members)

    def _list_coclusters(self, members: Members) -> CoClusters:
        factors = self.user_factors_, self.item_factors_
        user_base = self.user_bias_.astype(np.float64) + self._base
        item_base, labels = self.item_bias_.astype(np.float64), self.pattern_labels_
        listed = list_coclusters(members, *factors, user_base, item_base, self.interactions_)
        return CoClusters((replace(c, label=labels.get(c.index, c.label)) for c in listed), self.interactions_)

    @property
    def _evidence(self) -> Evidence:
        """The evidence, made anew where one of its parts is another one."""
        made: Evidence | None = self.__dict__.get("_made_evidence")
        parts = self.evidence_config_, self.user_factors_, self.item_factors_, self.links_, self.peers_
        if made is None or any(mine is not its for mine, its in zip(parts, made.parts, strict=True)):
            made = self.__dict__["_made_evidence"] = Evidence(*parts, self.interactions_)
        return made

    def _keep_patterns_only(self) -> None:
        """Keep no links and no peers, as in the paper."""
        self.evidence_config_, self.tuning_ = EvidenceConfig(), None
        n_users, n_items = self.user_factors_.shape[0], self.item_factors_.shape[0]
        self.links_ = sp.csr_array((n_items, n_items), dtype=np.float32)
        self.peers_ = sp.csr_array((n_users, n_users), dtype=np.float32)

    def _peers_of(self, users: NDArray[np.int64]) -> sp.csr_array | None:
        return self.peers_[:, users] if self.evidence_config_.peers else None

    def _new_peers(self, rows: Adjacency, users: NDArray[np.int64] | None) -> sp.csr_array:
        if not self.evidence_config_.peers:
            return sp.csr_array((self.interactions_.n_users, len(rows)), dtype=np.float32)
        ordering = self._ordering
        ordered = ordering.sort_columns(rows), ordering.sort(self.interactions_)
        ranks = None if users is None or ordering.user_ranks is None else ordering.user_ranks[users]
        known = users if ranks is None else ranks
        return taken(fit_new_peers(*ordered, self.evidence_config_, self.config_, known), ordering.user_ranks)

    def _new_rows(self, rows: Adjacency, users: NDArray[np.int64]) -> tuple[sp.csr_array, NDArray[np.float32]]:
        """Return the evidence and the biases of users from what they own instead of what was fitted."""
        factors, bias = self._folded(rows)
        return self._evidence.user_rows(factors, rows, self._new_peers(rows, users)), bias

    @property
    def _ranking_device(self) -> str:
        """Links and peers have thousands of columns, which the CPU's sparse ranking is made for."""
        config = self.evidence_config_
        return "cpu" if config.links or config.peers else find_device(self.device)

    @cached_property
    def _scorer(self) -> Scorer:
        return self.scorer(self.config_.threads)

    @cached_property
    def _user_scorer(self) -> Scorer:
        """The other way round: ranks the users for rows of items."""
        purchases = self.interactions_.by_user.degrees
        rows = self._evidence.rows_of(np.arange(self.user_factors_.shape[0]))
        ranks = self._ordering.user_ranks, self._column_ranks
        return Scorer(rows, self.user_bias_.astype(np.float32), purchases, self.config_.threads, *ranks)

    @cached_property
    def _ordering(self) -> Ordering:
        return Ordering.of(self.interactions_)

    @property
    def _column_ranks(self) -> NDArray[np.int64] | None:
        """Where the columns of the evidence stand in the order of names."""
        config, (n_users, n_items) = self.evidence_config_, self.interactions_.shape
        return self._ordering.column_ranks(
            self.item_factors_.shape[1], n_items if config.links else 0, n_users if config.peers else 0
        )

    @cached_property
    def _fold(self) -> FoldIn:
        return self._new_fold()

    def _new_fold(self) -> FoldIn:
        items = self._ordering.items
        return FoldIn(taken(self.item_factors_, items), taken(self.item_bias_, items), self.bias_, self.config_)

    def _folded(self, rows: Adjacency, fold: FoldIn | None = None) -> tuple[sp.csr_array, NDArray[np.float32]]:
        """Return memberships and biases of users who own these items."""
        return (fold or self._fold).fit(self.device, self._ordering.sort_columns(rows))

    def _user_ids(self, ids: int | ArrayLike) -> NDArray[np.int64]:
        return check_ids(ids, self.interactions_.n_users, "user")

    def _item_ids(self, ids: int | ArrayLike) -> NDArray[np.int64]:
        return check_ids(ids, self.interactions_.n_items, "item")

    def _matrix_rows(self, user_items: Any) -> Adjacency:
        return owned_rows(user_items, self.interactions_.n_items, self.min_value_)


def parameters_of(config: FitConfig, evidence: EvidenceConfig) -> dict[str, Any]:
    """Return the parameters of an OCuLaR with these configurations; a start that was given is not known any more."""
    parameters = asdict(config) | asdict(evidence) | {"random_state": config.seed}
    if config.init.startswith(GIVEN):
        parameters["init"] = "auto"
    return {name: parameters[name] for name in OCuLaR().get_params() if name in parameters}


def fitted_parameters(model: OCuLaR) -> dict[str, Any]:
    """Return the parameters that a fitted model has ended with, whatever was "auto": all but seed and threads."""
    parameters = parameters_of(model.config_, model.evidence_config_)
    return {name: value for name, value in parameters.items() if name not in ("random_state", "n_threads")}


def load(path: str | os.PathLike[str]) -> OCuLaR:
    """Read a model saved with `OCuLaR.save` and check it; it needs no training file."""
    saved = read_model(Path(path))
    try:
        calibration = None if saved.calibration is None else Calibration.from_dict(dict(saved.calibration))
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} is not a whole model ({error}); fit and save it again") from error
    model = OCuLaR(**parameters_of(saved.config, saved.evidence), min_value=saved.min_value)
    model.config_, model.min_value_, model.interactions_ = saved.config, saved.min_value, saved.interactions
    model.n_features_in_ = saved.interactions.n_items
    model.user_factors_, model.item_factors_ = saved.user_factors, saved.item_factors
    model.user_bias_, model.item_bias_, model.bias_ = saved.user_bias, saved.item_bias, saved.bias
    model.history_, model.converged_, model.interrupted_ = saved.objective_values, saved.converged, False
    model.objective_, model.n_iter_ = model.history_[-1], len(model.history_)
    model.excluded_items_, model.calibration_ = saved.excluded_items, calibration
    model.evidence_config_, model.links_, model.peers_ = saved.evidence, saved.links, saved.peers
    model.tuning_ = None
    model.pattern_labels_ = dict(saved.pattern_labels)
    return model
