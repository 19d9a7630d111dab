"""
The model that is served: the newest one in the folder. A new one is picked up while the old one goes on serving; a
broken one is refused and logged, and looked at again only when it has changed.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ocular.advisor import Advisor
from ocular.artifact import MANIFEST
from ocular.errors import ArtifactError, OcularError
from ocular.explain.coclusters import CoCluster
from ocular.web.errors import UnavailableError
from ocular.web.opportunities import Opportunities

_log = logging.getLogger("ocular.web")


@dataclass(frozen=True)
class Served:
    """A model with everything that pages ask of it, made once."""

    version: str  # name of its folder and the beginning of its digest
    manifest: dict[str, Any]
    advisor: Advisor
    opportunities: Opportunities
    patterns: dict[int, CoCluster]  # by number

    @cached_property
    def fingerprint(self) -> str:
        """Of the purchases that it was fitted on."""
        return self.advisor.model.interactions_.fingerprint()

    @property
    def created(self) -> datetime:
        return _created(self.manifest)

    def pattern_label(self, number: int) -> str:
        """What a co-cluster is called; some are too small for a name."""
        return self.patterns[number].label if number in self.patterns else f"pattern {number}"


class Registry:
    def __init__(self, folder: Path, watch: float = 5.0) -> None:
        self._folder, self._watch = folder, watch
        self._served: Served | None = None
        self._refused: dict[Path, object] = {}  # what each broken model looked like
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._look_again, name="models", daemon=True)

    def start(self) -> None:
        """Load the newest model, and look for newer ones from then on."""
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
    def current(self) -> Served:
        if self._served is None:
            raise UnavailableError("no model is loaded yet")
        return self._served

    def refresh(self) -> None:
        """Serve the newest model that can be read, unless it is served already."""
        with self._lock:
            for path, manifest in self._newest_first():
                version = f"{path.name}-{manifest['digest'][:8]}"
                if self._served is not None and self._served.version == version:
                    return
                looks = _looks(path)
                if self._refused.get(path) == looks:
                    continue
                try:
                    self._served = _serve(path, version, manifest)
                except (OcularError, OSError) as error:
                    _log.error("refused the model in %s: %s", path.name, error)
                    self._refused[path] = looks
                    continue
                _log.info("serving the model %s", version)
                return

    def _newest_first(self) -> list[tuple[Path, dict[str, Any]]]:
        """Models with a readable manifest; what lies about besides is no model."""
        found = []
        shown = (path for path in sorted(self._folder.glob("*/")) if not path.name.startswith("."))
        for path in (self._folder, *shown):
            try:
                manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
                found.append((_created(manifest), path, manifest | {"digest": str(manifest["digest"])}))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError) as error:
                if self._refused.get(path) != _looks(path):
                    _log.error("refused the model in %s: its manifest can not be read (%r)", path.name, error)
                self._refused[path] = _looks(path)
        return [(path, manifest) for _, path, manifest in sorted(found, key=lambda f: (f[0], f[1].name), reverse=True)]

    def _look_again(self) -> None:
        while not self._stop.wait(self._watch):
            try:
                self.refresh()
            except Exception:  # whatever it is, the old model goes on serving
                _log.exception("looking for a new model failed")


def _created(manifest: dict[str, Any]) -> datetime:
    created = datetime.fromisoformat(manifest["created"])
    return created.replace(tzinfo=UTC) if created.tzinfo is None else created.astimezone(UTC)


def _looks(path: Path) -> object:
    """Changes when a file does: a model that is being copied is looked at again."""
    with suppress(OSError):
        return sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in path.iterdir())
    return None


def _serve(path: Path, version: str, manifest: dict[str, Any]) -> Served:
    advisor = Advisor.load(path)
    patterns = {pattern.index: pattern for pattern in advisor.model.coclusters()}
    return Served(version, manifest, advisor, Opportunities(advisor.model), patterns)
