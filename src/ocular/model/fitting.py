"""The weights of the purchases, and what a fit adds to the patterns, which Ctrl-C may leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import scipy.sparse as sp

from ocular.data.interactions import Interactions
from ocular.data.ordering import Ordering, taken, taken_twice
from ocular.data.weights import given_weights, weighted
from ocular.errors import ConfigError, Parameter
from ocular.evidence import EvidenceConfig
from ocular.solver.config import FitConfig


def with_weights(interactions: Interactions, config: FitConfig, sample_weight: Any = None) -> Interactions:
    """Return the purchases with the weights that the parameters ask for or the caller gives."""
    if sample_weight is None:
        return weighted(interactions, config.half_life, config.weights)
    for name in ("half_life", "weights"):
        if getattr(config, name) is not None:
            given = Parameter("sample_weight"), " or ", Parameter(name)
            raise ConfigError("expected either ", *given, ", got both; leave one out")
    return interactions.weighted(given_weights(interactions, sample_weight))


class FittedEvidence(NamedTuple):
    """The parts beside the patterns as far as they were fitted, with the weights that suit them."""

    config: EvidenceConfig
    links: sp.csr_array
    peers: sp.csr_array
    taste: sp.csr_array
    appeal: sp.csr_array
    missing: list[str]  # what was asked for and is not there

    def restored(self, ordering: Ordering) -> FittedEvidence:
        """Return it with clients and products in the order of the caller."""
        users, items = ordering.user_ranks, ordering.item_ranks
        return self._replace(
            links=taken_twice(self.links, items),
            peers=taken_twice(self.peers, users),
            taste=taken(self.taste, users),
            appeal=self.appeal if items is None else sp.csr_array(self.appeal[:, items]),
        )


def fit_evidence(asked: EvidenceConfig, fits: Mapping[str, Callable[[EvidenceConfig], sp.csr_array]]) -> FittedEvidence:
    """
    Fit links, peers, taste and appeal, in the order given; Ctrl-C ends that, and what is not complete weighs nothing.

    The functions, by the name of their weight, return an empty table where their part weighs nothing.
    """
    config = asked
    tables: dict[str, Any] = {}
    for name, fit in fits.items():
        try:
            tables[name] = fit(config)
        except KeyboardInterrupt:
            nothing: dict[str, Any] = {each: 0.0 for each in fits if each not in tables}
            config = replace(config, **nothing)
            tables[name] = fit(config)
    missing = [name for name in fits if getattr(config, name) != getattr(asked, name)]
    return FittedEvidence(config, **tables, missing=missing)
