"""Links and peers in a search: fitted once per fold, then weighted beside the patterns of every point by scoring."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import scipy.sparse as sp

from ocular.data.splits import Split
from ocular.evidence import EvidenceConfig, fit_peers, fit_product_links
from ocular.model import OCuLaR
from ocular.solver.config import FitConfig
from ocular.tuning import (
    AUTO,
    FIXED,
    MIN_HELD_OUT,
    PENALTIES,
    USUAL_PEER_PENALTY,
    USUAL_PENALTY,
    EvidenceRequest,
    choose_weights,
    climb,
    peers_take_hours,
)
from ocular.weight_scan import Part, WeightScan

Fitted = tuple[sp.csr_array, Part]  # links or peers, and their scores of the clients of the scan


class Weights(NamedTuple):
    """What a point was measured with beside its patterns, as parameters of OCuLaR."""

    links: float
    peers: float
    popularity: float
    link_regularization: float
    peer_regularization: float

    @classmethod
    def typical(cls, of_folds: Sequence[Weights]) -> Weights:
        """Return the median over folds, to two digits."""
        return cls(*(float(f"{median(values):.2g}") for values in zip(*of_folds, strict=True)))


class Penalties(NamedTuple):
    """The penalties of links and of peers."""

    links: float
    peers: float


def choose_penalties(split: Split, metric: str, M: int, config: FitConfig, given: dict[str, float | None]) -> Penalties:
    """
    Return the penalties with which links and peers do best on the test part of a split, where they are not given.

    Each part is measured alone, so that the choice does not depend on which point of a search is fitted first.
    """
    scan = WeightScan(split, metric, M, config.threads)

    def measure_links(penalty: float) -> float:
        scan.use_links(fit_product_links(split.train, replace(FIXED, link_regularization=penalty), config))
        scan.relist()
        return scan.value(0.0, 1.0, 0.0, 0.0)

    def measure_peers(penalty: float) -> float:
        scan.use_peers(replace(FIXED, peer_regularization=penalty), config)
        scan.relist()
        return scan.value(0.0, 0.0, 1.0, 0.0)

    def best(part: str, usual: float, measure: Callable[[float], float], *, can_choose: bool) -> float:
        if (penalty := given[part]) is not None:
            return penalty
        return climb(PENALTIES, PENALTIES.index(usual), measure)[1] if can_choose else usual

    enough, few = scan.n_held_out >= MIN_HELD_OUT, not peers_take_hours(split.train)
    links = best("links", USUAL_PENALTY, measure_links, can_choose=enough)
    return Penalties(links, best("peers", USUAL_PEER_PENALTY, measure_peers, can_choose=enough and few))


class FoldEvidence:
    """
    The links and the peers of a fold.

    Weights are chosen on the clients that `WeightScan` takes: those with held-out purchases, or a random sample of them
    where there are more than 50,000 such purchases. Biases are left out of the choice.
    """

    def __init__(self, split: Split, metric: str, M: int, n_threads: int) -> None:
        self._train = split.train
        self._scan = WeightScan(split, metric, M, n_threads)
        self._fitted: dict[Hashable, Fitted] = {}

    @property
    def can_choose(self) -> bool:
        """Whether there are enough held-out pairs for a choice that is not chance."""
        return self._scan.n_held_out >= MIN_HELD_OUT

    def add_to(self, model: OCuLaR, penalties: Penalties) -> Weights:
        """
        Give a model, fitted to the fold with patterns alone, links and peers with the weights that do best.

        Peers and popularity that are hardly worth it weigh 0, and so do peers that would take hours. Where there is too
        little to choose on, the weights are those of `OCuLaR(links="auto")` on such data.
        """
        scan, config = self._scan, model.config_
        of_parts = {"link_regularization": penalties.links, "peer_regularization": penalties.peers}
        request = EvidenceRequest.of(**dict.fromkeys(EvidenceConfig.__dataclass_fields__) | {"links": AUTO} | of_parts)
        evidence = replace(request.settled(FIXED), peers=1.0)  # so that both are fitted
        links, scan.links = self._once(("links", config.relative), lambda: self._fit_links(evidence, config))
        peers = None
        if not peers_take_hours(self._train):
            peers, scan.peers = self._once("peers", lambda: self._fit_peers(evidence, config))
        if self.can_choose:
            scan.use_patterns(model.user_factors_, model.item_factors_)
            scan.relist()
            chosen = choose_weights(scan, request)
        else:
            chosen = request.settled(FIXED)
        model.evidence_config_, model.links_ = chosen, links
        if peers is not None and chosen.peers:
            model.peers_ = peers
        return Weights(*(getattr(chosen, name) for name in Weights._fields))

    def _once(self, key: Hashable, fit: Callable[[], Fitted]) -> Fitted:
        if key not in self._fitted:
            self._fitted[key] = fit()
        return self._fitted[key]

    def _fit_links(self, evidence: EvidenceConfig, config: FitConfig) -> Fitted:
        links = fit_product_links(self._train, evidence, config)
        self._scan.use_links(links)
        return links, self._scan.links

    def _fit_peers(self, evidence: EvidenceConfig, config: FitConfig) -> Fitted:
        peers = fit_peers(self._train, evidence, config)
        self._scan.take_peers(peers[:, self._scan.users])
        return peers, self._scan.peers
