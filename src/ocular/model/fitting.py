"""Links and peers of a fit, which Ctrl-C may leave out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import scipy.sparse as sp

from ocular.data.ordering import Ordering, taken_twice
from ocular.evidence import EvidenceConfig


class FittedEvidence(NamedTuple):
    """Links and peers as far as they were fitted, with the weights that suit them."""

    config: EvidenceConfig
    links: sp.csr_array
    peers: sp.csr_array
    missing: list[str]  # what was asked for and is not there

    def restored(self, ordering: Ordering) -> FittedEvidence:
        """Return it with clients and products in the order of the caller."""
        links, peers = taken_twice(self.links, ordering.item_ranks), taken_twice(self.peers, ordering.user_ranks)
        return self._replace(links=links, peers=peers)


def fit_evidence(
    asked: EvidenceConfig,
    fit_links: Callable[[EvidenceConfig], sp.csr_array],
    fit_peers: Callable[[EvidenceConfig], sp.csr_array],
) -> FittedEvidence:
    """
    Fit links, then peers; Ctrl-C ends that, and what is not complete then weighs nothing.

    The functions return an empty table where their part weighs nothing.
    """
    config = asked
    try:
        links = fit_links(config)
    except KeyboardInterrupt:
        config = replace(config, links=0.0, peers=0.0)
        links = fit_links(config)
    try:
        peers = fit_peers(config)
    except KeyboardInterrupt:
        config = replace(config, peers=0.0)
        peers = fit_peers(config)
    missing = [name for name in ("links", "peers") if getattr(config, name) != getattr(asked, name)]
    return FittedEvidence(config, links, peers, missing)
