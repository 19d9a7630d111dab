"""OCuLaR: the estimator, and how it is read from a folder."""

from __future__ import annotations

import os
import reprlib
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, BiclusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from ocular.artifact import Share, read_model
from ocular.data.interactions import Interactions
from ocular.data.matrices import check_positives, frame_labels
from ocular.data.ordering import Ordering
from ocular.data.refusals import refused_rows
from ocular.data.selection import Choice as Selection
from ocular.data.selection import allowed_items
from ocular.data.trend import has_times
from ocular.data.weights import VALUES
from ocular.errors import ArtifactError, ConfigError, DataError, Parameter, Phrased
from ocular.evidence import EvidenceConfig, check_features, fit_appeal, fit_peers, fit_product_links, fit_taste
from ocular.evidence_request import AUTO
from ocular.model.choosing import Choosing
from ocular.model.cold import Cold
from ocular.model.explaining import Explaining
from ocular.model.fitting import FittedEvidence, fit_evidence, with_weights
from ocular.model.ranking import Ranking
from ocular.model.saving import Saving
from ocular.refit import kept_labels
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import GIVEN, FitConfig, State
from ocular.solver.fit import Callback, FitResult
from ocular.solver.progress import Progress
from ocular.solver.start.given import ordered_start
from ocular.solver.start.initial import initial_state
from ocular.solver.start.previous import Previous


class NotConvergedWarning(Phrased, ConvergenceWarning):  # type: ignore[misc]
    """A fit ended before its objective stopped falling."""


class OCuLaR(  # type: ignore[call-arg]
    Choosing,
    Cold,
    Ranking,
    Explaining,
    Saving,
    BiclusterMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    auto_wrap_output_keys=None,
):
    """
    Recommendations from overlapping co-clusters of users and items, and links between them.

    A user u and an item i have non-negative memberships f_u, f_i in K co-clusters, and u has i with probability
    1 − e^(−z), z = ⟨f_u, f_i⟩ + background. A fit minimises

        Q = Σ_{r=1} −w_u w_ui log(1 − e^(−z)) + Σ_{r=0} c_ui (z − background) + λ (Σ‖f_u‖² + Σ‖f_i‖²)

    by line-searched projected gradient steps, all items then all users in turn; a sweep costs O(positives · K).

    With links, peers, taste or appeal, more kinds of evidence are fitted apart and added with their weights:

        z = s_i (⟨f_u, f_i⟩ + α Σ_{j of u} S_ji + β Σ_{v of i} T_vu + γ Σ_{a of i} B_ua + δ Σ_{a of u} C_ai)
            / (1 + α + β + γ + δ) + background

    S_ji ≥ 0 says that who has item j tends to have item i, T_vu ≥ 0 that what user v has, user u has; no positive
    explains itself. B_ua ≥ 0 says that user u has items with the attribute a, C_ai ≥ 0 that users with the attribute a
    have item i. See `ocular.evidence` and `ocular.solver.links`.

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
        random parts of the positives; by date "squares" often is, so that both are tried where links are "auto" and
        the latest purchases are held out.
    peer_regularization : float or "auto", optional
        The penalty of peers. None is 1000 where links is a number.
    trend : float or "auto", optional
        The exponent of an item's trend, its recent demand over its overall demand (`ocular.data.trend`): above 0, what
        sells now counts for more. Needs dates. None is 0 where links is a number.
    trend_half_life : float or "auto", optional
        Days after which a purchase counts half in the recent demand. None is 30 where links is a number.
    n_links : int
        Candidates per item (links) and per user (peers).
    taste, appeal : float
        γ and δ, the weights of taste for attributes of items and of the appeal to attributes of users; both need
        Interactions with attributes.
    attribute_regularization : float
        The penalty of taste and appeal.
    attribute_separator : str
        What divides several values in one text: "Action|Comedy".
    metric : {"balanced", "recall", "map"}
        What decides where something is "auto", at 50 recommendations per user or a tenth of the items: recall, MAP or
        the geometric mean of both, in which MAP counts twice.
    validation : {"auto", "random", "time"}
        Which tenth of the positives decides where something is "auto": a random one, or the latest by date. "auto" is
        the latest where positives have dates and most of those are by users with earlier ones.
    relative : bool
        R-OCuLaR: the positives of a user weigh w_u = unknowns / positives instead of 1. Needs a larger λ.
    bias : bool
        Fit a user, an item and an overall bias, which add to z.
    background : float
        Affinity of any pair outside all co-clusters.
    half_life : float or str, optional
        Recent positives weigh more: w_ui = 2^(−age / half_life), in days or as "180d", "26w", "1y". Needs dates.
    weights : {"quantity", "amount", "values"}, optional
        Positives weigh w_ui by what was bought of them or paid for them, relative to the item's median and bounded
        (see `ocular.data.weights`); "values" are the entries of X themselves, or the weights of its Interactions.
    refusal_weight : float
        c, the weight of refused pairs in the fit, of other unknowns 1.
    attribute_strength : float
        How much the attributes of users and items in an Interactions count in the likelihood of the memberships, as in
        the paper; 0 leaves them out. See docs/side_information.md. Fitted on the CPU only, with dense memberships.
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
    user_attribute_weights_, item_attribute_weights_ : arrays, float32
        The weights of attributes in the likelihood and, last, their intercepts, (number of values, K + 1), in the order
        of `attribute_labels`; without rows where attribute_strength is 0.
    taste_, appeal_ : scipy CSR arrays, float32
        B, (n_users, values of item attributes), and C, (values of user attributes, n_items). Without values where they
        weigh 0. `item_features()` and `user_features()` name the values.
    rows_, columns_ : bool arrays, (K, n_users) and (K, n_items)
        Members of each co-cluster, as scikit-learn's bicluster tools expect.
    objective_, history_, n_iter_, converged_, interrupted_
        Q at the end and after each sweep, the number of sweeps, whether tol was reached, whether Ctrl-C ended the fit.
    interactions_ : Interactions
        What was fitted, with names and amounts, weights and refusals.
    refusals_ : Adjacency
        What each user refused: never recommended.
    tuning_ : Choice or None
        How well the parameters that were "auto" did on held-out positives; None where nothing was chosen.
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.min_value is None
        tags.transformer_tags.preserves_dtype = []  # memberships are float32, whatever X is
        return tags

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
        sample_weight: Any = None,
        refusals: Any = None,
    ) -> Self:
        """
        Fit users × items: an Interactions, or any sparse or dense matrix of 0 and 1 (see min_value).

        `callback(sweep, objective)` is called after every sweep. `checkpoint` names a file that keeps the state, every
        minute and at the end (give a `Checkpoint` for other intervals); a fit that finds it goes on from there and
        ends with the same factors as one that was never stopped. What was "auto" is kept there too, and not chosen
        again. Ctrl-C ends the fit after the running sweep; while links or peers are fitted it leaves them out.

        `only` and `without` choose what may ever be recommended, by name ("Postage", ["Postage", "Fees"]) or by
        attribute of the products ({"family": "Printing"}). The model learns from all purchases, and keeps and saves
        the choice as `excluded_items_`.

        `start` is a fitted model to go on from, in place of `init`: clients and products that it knows by name begin
        with its memberships, new ones with those that fit best to the others. Co-clusters keep their numbers, and
        their labels where they keep most of their members. What is "auto" is as in that model.

        `sample_weight` are weights of the positives above 0, in place of those by `half_life` or `weights`: an array
        with one for each pair in the order of `Interactions.by_user.indices` (row by row), or a matrix like X; an array
        with one for each user weighs all of their positives. They are taken as they are: a mean near 1 keeps the
        meaning of the penalties.

        `refusals` are pairs that are known not to fit, as Interactions, a matrix or pairs (client, product) by name, in
        place of those that X has. They are never recommended, and weigh `refusal_weight` in the fit.

        Rows and columns are fitted in the order of their names, so that the order they come in changes nothing.
        """
        config = self.config()
        self.evidence_request()
        if isinstance(self.random_state, np.random.RandomState):
            config = replace(config, seed=int(self.random_state.randint(2**31)))
        interactions, allowed = self._read(X, only, without, config, sample_weight, refusals)
        if self.trend not in (None, AUTO, 0) and not has_times(interactions):
            needs = "expected purchases with a date for "
            raise DataError(needs, Parameter("trend"), ", got none; read them with their date column, or leave it out")
        ordering = Ordering.of(interactions)
        ordered = ordering.sort(interactions)
        config = self._sized(config, interactions, start)
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(Path(checkpoint))
        given = None if isinstance(self.init, str) else ordered_start(self.init, ordering)
        previous = None if start is None else self._previous(start, interactions, config)
        if start is not None and previous is not None:  # chosen anew, weights would change what the purchases do not
            config = replace(self._take_over(start, config), init=previous.name())
            evidence, tuning = self.evidence_request().settled(start.evidence_config_), None
            before = start.coclusters(), previous.interactions  # `start` may be this very model
        else:
            config, evidence, tuning = self._choose_parameters(interactions, ordering, config, checkpoint)
        check_features(ordered, evidence)
        if checkpoint is not None and tuning is not None:
            checkpoint = self._with_choice(checkpoint, tuning)

        def begin() -> State:
            return previous.state(ordered, config) if previous else initial_state(ordered, config, given)

        with Progress(config.max_iter, show=self.verbose, callback=callback) as report:
            result = self._fit_patterns(ordered, config, begin, report, checkpoint)
        fitted = fit_evidence(
            evidence,
            {
                "links": lambda e: fit_product_links(ordered, e, config),
                "peers": lambda e: fit_peers(ordered, e, config),
                "taste": lambda e: fit_taste(ordered, e, config),
                "appeal": lambda e: fit_appeal(ordered, e, config),
            },
        )
        self.interactions_ = interactions
        self.min_value_ = self.min_value
        self._finish(replace(result, state=result.state.restored(ordering)), config, fitted.restored(ordering))
        self._ordering, self.tuning_ = ordering, tuning
        if allowed is not None:
            self.excluded_items_ = ~allowed
        if start is not None:
            self.pattern_labels_ = kept_labels(*before, self._members, interactions)
        return self

    def _read(
        self,
        X: Any,
        only: Selection | None,
        without: Selection | None,
        config: FitConfig,
        sample_weight: Any,
        refusals: Any,
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
                interactions = Interactions.from_matrix(
                    checked, min_value=self.min_value, weighted=config.weights == VALUES, **frame_labels(X)
                )
            interactions = with_weights(check_positives(interactions), config, sample_weight)
            if refusals is not None:
                interactions = interactions.with_refusals(refused_rows(refusals, interactions))
            allowed = allowed_items(interactions, only, without)
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

    def _finish(self, result: FitResult, config: FitConfig, evidence: FittedEvidence) -> None:
        """Keep what a fit leaves behind, wherever its sweeps ran."""
        if result.interrupted or evidence.missing:
            n_sweeps, missing = len(result.state.objectives), " and ".join(evidence.missing)
            kept = f"the state after sweep {n_sweeps}, the best so far" if result.interrupted else "its co-clusters"
            without = f", without {missing}" if missing else ""
            warnings.warn(f"interrupted: the model keeps {kept}{without}", ConvergenceWarning, stacklevel=3)
        elif not result.converged and config.tol > 0:
            ended = f"not converged after {config.max_iter} sweeps; increase "
            warnings.warn(NotConvergedWarning(ended, Parameter("max_iter"), " or ", Parameter("tol")), stacklevel=3)
        self.config_ = config
        self.converged_ = result.converged
        self.interrupted_ = result.interrupted or bool(evidence.missing)
        self.calibration_ = self.tuning_ = None
        self._learn(result.state)
        self.evidence_config_, self.links_, self.peers_ = evidence.config, evidence.links, evidence.peers
        self.taste_, self.appeal_ = evidence.taste, evidence.appeal
        self.pattern_labels_ = {}
        self.excluded_items_ = np.zeros(self.item_factors_.shape[0], dtype=np.bool_)


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
    return load_shared(path, None)


def load_shared(path: str | os.PathLike[str], share: Share | None) -> OCuLaR:
    """Read a model as `load` does, with arrays where `share` puts them."""
    saved = read_model(Path(path), share)
    model = OCuLaR(**parameters_of(saved.config, saved.evidence), min_value=saved.min_value)
    try:
        model._restore(saved)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} is not a whole model ({error}); fit and save it again") from error
    return model
