"""What an OCuLaR is given, and what the solver makes of it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ocular.data.attributes import SEPARATOR
from ocular.errors import ConfigError, Parameter
from ocular.evidence import EvidenceConfig
from ocular.solver.config import FitConfig
from ocular.solver.devices import find_device
from ocular.solver.links import SQUARES
from ocular.solver.start.given import start_name
from ocular.tuning import AUTO, METRICS, VALIDATIONS, EvidenceRequest
from ocular.validation import check_choice, check_number, check_whole


class Parameters:
    """The parameters of an OCuLaR as they were given; see its documentation for what they mean."""

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
        trend: float | str | None = None,
        trend_half_life: float | str | None = None,
        n_links: int = 500,
        taste: float | str | None = None,
        appeal: float | str | None = None,
        attribute_regularization: float = 1000.0,
        attribute_separator: str = SEPARATOR,
        metric: str = "balanced",
        validation: str = "auto",
        relative: bool = False,
        bias: bool = False,
        background: float = 1e-4,
        half_life: float | str | None = None,
        weights: str | None = None,
        refusal_weight: float = 10.0,
        attribute_strength: float = 0.0,
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
        self.trend = trend
        self.trend_half_life = trend_half_life
        self.n_links = n_links
        self.taste = taste
        self.appeal = appeal
        self.attribute_regularization = attribute_regularization
        self.attribute_separator = attribute_separator
        self.metric = metric
        self.validation = validation
        self.relative = relative
        self.bias = bias
        self.background = background
        self.half_life = half_life
        self.weights = weights
        self.refusal_weight = refusal_weight
        self.attribute_strength = attribute_strength
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
            half_life=cast("float | None", self.half_life),
            weights=self.weights,
            refusal_weight=self.refusal_weight,
            attribute_strength=self.attribute_strength,
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
        check_choice(self.validation, "validation", VALIDATIONS)
        if self.link_loss == SQUARES and self.relative:
            loss = Parameter("link_loss", "squares")
            raise ConfigError("expected ", loss, " without ", Parameter("relative"), ", got both; leave one out")
        return EvidenceRequest.of(**{name: getattr(self, name) for name in EvidenceConfig.__dataclass_fields__})
