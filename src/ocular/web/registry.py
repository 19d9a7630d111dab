"""
The model that is served: the one promoted last in the folder, or the newest where none was ever promoted.

A new one is picked up while the old one goes on serving. A broken one is refused and logged, and read again only when
its files have changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ocular.advisor import Advisor, Recommendation
from ocular.data.interactions import Interactions
from ocular.due import Reorders, has_dates
from ocular.errors import ArtifactError
from ocular.explain.coclusters import CoCluster
from ocular.explain.names import client_name, product_name
from ocular.explain.reasons import APPEAL, LINKS, PATTERN, PEERS, TASTE, Reason
from ocular.model import OCuLaR
from ocular.model.estimator import load_shared
from ocular.refresh.promotion import PROMOTIONS_FILE
from ocular.refresh.serving import BROKEN, created, one_line, serving_order
from ocular.web.catalog import Catalog
from ocular.web.errors import NotFoundError, UnavailableError
from ocular.web.model_changes import Changes
from ocular.web.opportunities import Opportunities
from ocular.web.pattern_index import PatternIndex
from ocular.web.search import SearchIndex
from ocular.web.shared_arrays import SharedArrays

KIND_LABELS = {
    PATTERN: "Pattern",
    LINKS: "Products bought together",
    PEERS: "Similar clients",
    TASTE: "Taste",
    APPEAL: "Clients like this one",
}

_log = logging.getLogger("ocular.web")


class Comparison:
    """What the served model changed; filled in while it serves already."""

    changes: Changes | None = None  # None where there is no model before it
    done = False


@dataclass(frozen=True)
class ServedModel:
    """A model with everything that pages need of it, computed once."""

    version: str  # name of its folder and the beginning of its digest
    manifest: dict[str, Any]
    advisor: Advisor
    opportunities: Opportunities
    patterns: dict[int, CoCluster]  # by number
    given_names: Callable[[ServedModel], Mapping[int, str]] = lambda _: {}  # of patterns that managers renamed
    comparison: Comparison = field(default_factory=Comparison)

    @cached_property
    def pattern_index(self) -> PatternIndex:
        """The patterns as lists and filters need them."""
        return PatternIndex(self.interactions, self.patterns)

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the purchases that the model was fitted on."""
        return self.interactions.fingerprint()

    @cached_property
    def catalog(self) -> Catalog:
        """Facts about products, and clients scored for a product."""
        return Catalog(self.advisor.model)

    @cached_property
    def search_index(self) -> SearchIndex:
        """The names of clients and products, ready to be searched."""
        return SearchIndex(self.interactions, self.opportunities.client_names, self.opportunities.product_names)

    @cached_property
    def reorders(self) -> Reorders | None:
        """What clients buy regularly; None for purchases without dates."""
        return self.advisor.reorders() if has_dates(self.interactions) else None

    @property
    def interactions(self) -> Interactions:
        """The purchases that the model was fitted on."""
        return self.advisor.model.interactions_

    @property
    def created(self) -> datetime:
        return created(self.manifest)

    def is_new(self, users: ArrayLike, items: ArrayLike) -> NDArray[np.bool_]:
        """Return which pairs of rows the model before this one did not recommend; none while that is not known."""
        changes = self.comparison.changes
        return np.zeros(np.shape(items), dtype=bool) if changes is None else changes.is_new(users, items)

    def is_new_pair(self, client: str, product: str) -> bool:
        """Return whether the model before this one did not recommend the product, both by label."""
        return self.knows(client, product) and bool(
            self.is_new(self.interactions.user_rows[client], self.interactions.item_rows[product])
        )

    def pattern_label(self, number: int) -> str:
        """Return the name of a pattern; some are too small for one."""
        if number not in self.patterns:
            return f"pattern {number}"
        return self.given_names(self).get(number) or self.patterns[number].label

    def reason_label(self, reason: Reason) -> tuple[int | None, str]:
        """Return the pattern of a reason, None for the other kinds, and what it is called."""
        if reason.kind != PATTERN:
            return None, KIND_LABELS[reason.kind]
        return reason.cocluster, self.pattern_label(reason.cocluster)

    def knows(self, client: str, product: str) -> bool:
        """Return whether the model has both labels."""
        return client in self.interactions.user_rows and product in self.interactions.item_rows

    def find_product(self, product: str) -> int:
        """Return the row of a product by its label."""
        row = self.interactions.item_rows.get(product)
        if row is None:
            raise NotFoundError("Product not found")
        return row

    def client_of(self, recommendation: Recommendation) -> str:
        """Return the label of the client of a recommendation."""
        user = recommendation.explanation.user
        return "" if user is None else str(self.interactions.user_labels[user])

    def product_of(self, recommendation: Recommendation) -> str:
        """Return the label of the product of a recommendation."""
        return str(self.interactions.item_labels[recommendation.explanation.item])

    def client_name(self, client: str) -> str:
        """Return the name to show for a client's label, which may be of an older model."""
        row = self.interactions.user_rows.get(client)
        return client_name(client if row is None else self.interactions.user_name(row))

    def product_name(self, product: str) -> str:
        """Return the name to show for a product's label, which may be of an older model."""
        row = self.interactions.item_rows.get(product)
        return product_name(product if row is None else self.interactions.item_name(row))


LoadPrevious = Callable[[], tuple[str, OCuLaR] | None]  # version and model


class Registry:
    """Loads the model of a folder that is to be served and watches for another one."""

    def __init__(self, folder: Path, watch: float = 5.0, arrays: SharedArrays | None = None) -> None:
        self._folder, self._watch, self._arrays = folder, watch, arrays
        self.on_served: Callable[[ServedModel, LoadPrevious], None] = lambda _served, _previous: None
        self.given_names: Callable[[ServedModel], Mapping[int, str]] = lambda _: {}  # set before the start
        self._served: ServedModel | None = None
        self._refused: dict[Path, object] = {}  # the state of the files of each broken model
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch_folder, name="models", daemon=True)

    def start(self) -> None:
        """Load the model to serve, and watch for another one from then on."""
        self.refresh()
        if self._served is None:
            raise ArtifactError(
                f"expected a model in {self._folder}, got none that can be read; "
                f"`ocular fit … -o {self._folder}/first` makes one"
            )
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def current(self) -> ServedModel:
        if self._served is None:
            raise UnavailableError("No model is loaded yet")
        return self._served

    def refresh(self) -> None:
        """Serve the first model in order that can be read, unless it is served already."""
        with self._lock:
            models = self._serving_order()
            for place, (path, manifest) in enumerate(models):
                version = _version(path, manifest)
                if self._served is not None and self._served.version == version:
                    return
                state = _file_state(path)
                if path in self._refused and self._refused[path] == state:
                    continue
                before = self._served
                try:
                    self._served = _serve(path, version, manifest, self.given_names, self._arrays)
                except BROKEN as error:
                    self._refuse(path, one_line(error), state)
                    continue
                if self._arrays is not None:
                    self._arrays.keep_only(manifest["digest"])
                _log.info("serving the model %s", version)
                self.on_served(self._served, _previous(before, models[place + 1 :]))
                return

    def _refuse(self, path: Path, reason: str, state: object = None) -> None:
        """Log why a model is not served, once for each state of its files."""
        state = state or _file_state(path)
        if path not in self._refused or self._refused[path] != state:
            _log.error("refused the model in %s: %s", path.name, reason)
        self._refused[path] = state

    def _serving_order(self) -> list[tuple[Path, dict[str, Any]]]:
        """Return the models with a valid manifest, the one to serve first; none while promoted.json is damaged."""
        try:
            return serving_order(self._folder, self._refuse)
        except ArtifactError as error:
            if self._refused.get(self._folder / PROMOTIONS_FILE) != str(error):
                _log.error("no model is exchanged: %s", error)
            self._refused[self._folder / PROMOTIONS_FILE] = str(error)
            return []

    def _watch_folder(self) -> None:
        while not self._stop.wait(self._watch):
            try:
                self.refresh()
            except Exception:  # whatever it is, the old model goes on serving
                _log.exception("looking for a new model failed")


def _version(path: Path, manifest: dict[str, Any]) -> str:
    return f"{path.name}-{manifest['digest'][:8]}"


def _previous(before: ServedModel | None, older: list[tuple[Path, dict[str, Any]]]) -> LoadPrevious:
    """Return what loads the model before: the one served until now, or after a start the newest older one."""
    if before is not None:
        served = before.version, before.advisor.model
        return lambda: served

    def load() -> tuple[str, OCuLaR] | None:
        for path, manifest in older:
            with suppress(*BROKEN):
                return _version(path, manifest), _load(path, None).model
        return None

    return load


def _file_state(path: Path) -> object:
    """Return what changes when a file does: a model that is being copied is read again."""
    with suppress(OSError):
        states = [(file.name, file.lstat()) for file in path.iterdir()]
        return sorted((name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in states)
    return None


def _load(path: Path, arrays: SharedArrays | None) -> Advisor:
    """Load a model; the peers of all clients, most of its memory, have numbers of half the size where they fit."""
    if arrays is not None:
        return Advisor(load_shared(path, arrays.share))
    advisor = Advisor.load(path)
    peers = advisor.model.peers_
    if peers.nnz <= np.iinfo(np.int32).max:
        parts = peers.data, peers.indices.astype(np.int32, copy=False), peers.indptr.astype(np.int32, copy=False)
        advisor.model.peers_ = sp.csr_array(parts, shape=peers.shape)
    return advisor


def _serve(
    path: Path,
    version: str,
    manifest: dict[str, Any],
    given_names: Callable[[ServedModel], Mapping[int, str]],
    arrays: SharedArrays | None,
) -> ServedModel:
    advisor = _load(path, arrays)
    patterns = {pattern.index: pattern for pattern in advisor.model.coclusters()}
    served = ServedModel(version, manifest, advisor, Opportunities(advisor.model), patterns, given_names)
    _ = served.pattern_index.bubble_map, served.catalog.trends, served.search_index  # no visitor has to wait for them
    if served.reorders is not None:
        _ = served.reorders.usual_amounts
    _explain_one(served)
    return served


def _explain_one(served: ServedModel) -> None:
    """Explain the best recommendation, alone and as a campaign does, so that what explanations need is there."""
    no_pairs = np.empty((0, 2), dtype=np.int64)
    for step in served.opportunities.next_steps(np.arange(served.interactions.n_users), no_pairs, 1):
        labels = served.interactions.user_labels[step.user], served.interactions.item_labels[step.item]
        served.advisor.explain(*labels).explanation.summary()
        served.advisor.model.strongest_reasons(np.array([step.user]), step.item)
