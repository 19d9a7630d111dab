"""Links, peers, taste and appeal of a fit, which Ctrl-C may leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import scipy.sparse as sp

from ocular.data.ordering import Ordering, taken, taken_twice
from ocular.evidence import EvidenceConfig


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
