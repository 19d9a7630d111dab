"""
Which models of a folder are served: promoted.json, the latest promotion first.

The file is replaced in one rename, so that a reader sees the old list or the new one. Models are named, not copied:
the application serves the first of the list that can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ocular.errors import ArtifactError
from ocular.refresh.lock import locked
from ocular.storage import write_file

PROMOTIONS_FILE, FORMAT, VERSION = "promoted.json", "ocular-promotions", 1
LOCK_FILE = f".{PROMOTIONS_FILE}.lock"
MAX_LOG = 200  # entries that the log keeps
PROMOTE, ROLLBACK = "promote", "rollback"


@dataclass(frozen=True)
class Promotion:
    """A model that was promoted, and the purchases it was made from."""

    model: str  # name of its folder
    promoted: str  # time, UTC
    by: str  # the command
    fingerprint: str = ""  # of the purchases and settings; empty where a person promoted it


@dataclass(frozen=True)
class Promotions:
    """The content of promoted.json."""

    served: tuple[Promotion, ...] = ()  # the latest first
    withdrawn: tuple[Promotion, ...] = ()  # by a rollback, the latest first
    log: tuple[dict[str, str], ...] = ()  # every promotion and rollback, oldest first

    @property
    def names(self) -> list[str]:
        """The models in the order in which they are tried."""
        return [promotion.model for promotion in self.served]

    def with_first(self, promotion: Promotion) -> Promotions:
        """Return them with a model promoted, which stands in the list once."""
        others = tuple(other for other in self.served if other.model != promotion.model)
        withdrawn = tuple(other for other in self.withdrawn if other.model != promotion.model)
        log = (*self.log, _log_entry(PROMOTE, promotion.model, promotion.by))[-MAX_LOG:]
        return replace(self, served=(promotion, *others), withdrawn=withdrawn, log=log)

    def rolled_back(self, n: int = 1) -> Promotions:
        """Return them without the first n."""
        log = (*self.log, _log_entry(ROLLBACK, self.served[0].model, "ocular rollback"))[-MAX_LOG:]
        return replace(self, served=self.served[n:], withdrawn=(*self.served[:n], *self.withdrawn)[:MAX_LOG], log=log)

    def kept(self, n: int) -> Promotions:
        """Return them with the n latest models only."""
        return replace(self, served=self.served[:n])


def new_promotion(model: str, by: str, fingerprint: str = "") -> Promotion:
    """Return a promotion that happens now."""
    return Promotion(model, _now(), by, fingerprint)


def read_promotions(folder: Path) -> Promotions | None:
    """Return what promoted.json says; None where there is no such file."""
    file = folder / PROMOTIONS_FILE
    try:
        if file.exists() and not file.is_file():
            raise OSError("it is no file")  # reading a pipe would wait for ever
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(file, error) from error
    try:
        content = json.loads(text)
        if content["format"] != FORMAT or content["version"] > VERSION:
            raise ValueError(f"format {content['format']!r}, version {content['version']!r}")
        served, withdrawn = (tuple(Promotion(**entry) for entry in content[name]) for name in ("served", "withdrawn"))
        for promotion in (*served, *withdrawn):
            check_name(promotion.model)
        return Promotions(served, withdrawn, tuple(content["log"]))
    except (ValueError, KeyError, TypeError, RecursionError, ArtifactError) as error:
        raise _damaged(file, error) from error


def write_promotions(folder: Path, promotions: Promotions) -> None:
    """Replace promoted.json."""
    content = {"format": FORMAT, "version": VERSION} | asdict(promotions)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_file(folder / PROMOTIONS_FILE, lambda file: file.write(text.encode()))


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Hold what lets one process at a time change promoted.json: for the moment of a change, not for a whole run."""
    with locked(folder / LOCK_FILE, wait=True):
        yield


def check_name(name: Any) -> str:
    """Return the name of a model's folder, or raise where it is not a plain name."""
    if not isinstance(name, str) or not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name:
        raise ArtifactError(f"expected the name of a folder beside {PROMOTIONS_FILE}, got {name!r}")
    return name


def _damaged(file: Path, error: Exception) -> ArtifactError:
    return ArtifactError(
        f"{file} cannot be read ({error}); `ocular promote` of a model after deleting it makes a new one"
    )


def _log_entry(what: str, model: str, by: str) -> dict[str, str]:
    return {"when": _now(), "what": what, "model": model, "by": by}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
