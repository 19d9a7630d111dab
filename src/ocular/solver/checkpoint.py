"""The state of a fit on disk, so that a killed fit resumes where it was and ends with the same factors."""

from __future__ import annotations

import json
import time
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ocular.errors import ArtifactError
from ocular.solver.attributes import SideAttributes
from ocular.solver.config import Factors, FitConfig, State
from ocular.storage import check_writable, write_file

FORMAT, VERSION = "ocular-checkpoint", 4  # 4: notes, and files without a state
PARTS = ("data", "indices", "indptr")  # of sparse memberships
WEIGHTS = ("user_attribute_weights", "item_attribute_weights")
# parameters that may change between a fit and its continuation, because they do not change what a sweep does
CHANGEABLE = ("max_iter", "tol", "n_threads")


@dataclass(frozen=True)
class Checkpoint:
    """The file that keeps the state, and how often it is written: every n sweeps, every n seconds, or both."""

    path: Path
    every_sweeps: int | None = None
    every_seconds: float | None = 60.0
    notes: Mapping[str, Any] = field(default_factory=dict)  # plain values of the caller that are kept with the state


class Data(Protocol):
    """The purchases, as far as a checkpoint knows them."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def fingerprint(self) -> str: ...


class Saver:
    """Reads a checkpoint of the same data and parameters, and writes it when it is due."""

    def __init__(
        self, checkpoint: Checkpoint, data: Data, config: FitConfig, attributes: SideAttributes | None = None
    ) -> None:
        self._checkpoint = checkpoint
        fixed = {name: value for name, value in asdict(config).items() if name not in CHANGEABLE}
        self._meta: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "data": data.fingerprint(),
            "config": fixed,
            "notes": dict(checkpoint.notes),
        }
        n_users, n_items = data.shape
        self._shapes = {
            "user_factors": (n_users, config.width),
            "item_factors": (n_items, config.width),
            "user_steps": (n_users,),
            "item_steps": (n_items,),
        }
        if attributes is not None and config.attribute_strength > 0:
            self._meta["attributes"] = attributes.fingerprint()
            self._shapes |= attributes.weight_shapes(config.n_coclusters)
        self._saved_at = time.monotonic()
        self._saved_sweep = 0
        check_writable(checkpoint.path)  # now, not after the first minutes of sweeps

    def load(self) -> State | None:
        """Return the state to resume from, or None where there is none yet."""
        path = self._checkpoint.path
        if not path.exists():
            return None
        with _opened(path) as arrays:
            self._check(path, _checked_meta(path, arrays, self._meta["data"]))
            if len(arrays) == 1:
                return None  # only what the caller has noted
            state = State(
                **{name: _of_shape(_unpacked(arrays, name), shape) for name, shape in self._shapes.items()},
                bias=float(arrays["bias"]),
                objectives=arrays["objectives"].tolist(),
            )
        self._saved_sweep = len(state.objectives)
        return state

    def _check(self, path: Path, meta: dict[str, Any]) -> None:
        ours, theirs = self._meta["config"], asdict(FitConfig()) | meta["config"]  # what came later had its default
        different = [name for name in ours if theirs.get(name) != ours[name]]
        if different:
            was = ", ".join(f"{name}={theirs.get(name)!r}" for name in different)
            raise ArtifactError(f"{path} belongs to a fit with {was}; delete it or choose another file")
        if meta.get("attributes") != self._meta.get("attributes"):
            raise ArtifactError(f"{path} belongs to other attributes; delete it or choose another file")

    def due(self, sweep: int) -> bool:
        c = self._checkpoint
        by_sweeps = c.every_sweeps is not None and sweep - self._saved_sweep >= c.every_sweeps
        by_time = c.every_seconds is not None and time.monotonic() - self._saved_at >= c.every_seconds
        return by_sweeps or by_time

    def save(self, state: State) -> None:
        """Write the state; a full disk is no reason to lose the fit, and only warns."""
        self._write(
            user_steps=state.user_steps,
            item_steps=state.item_steps,
            bias=np.float64(state.bias),
            objectives=np.array(state.objectives),
            **{name: getattr(state, name) for name in WEIGHTS if name in self._shapes},
            **_packed("user_factors", state.user_factors),
            **_packed("item_factors", state.item_factors),
        )
        self._saved_at, self._saved_sweep = time.monotonic(), len(state.objectives)

    def save_notes(self) -> None:
        """Write what the caller has noted before there is any state, so that it need not be found out again."""
        if self._checkpoint.notes:
            self._write()

    def _write(self, **arrays: Any) -> None:
        meta = np.frombuffer(json.dumps(self._meta).encode(), dtype=np.uint8)
        try:
            write_file(self._checkpoint.path, partial(np.savez, meta=meta, **arrays))
        except ArtifactError as error:
            warnings.warn(f"the fit goes on without its checkpoint: {error}", RuntimeWarning, stacklevel=3)


def read_notes(path: Path, data: Data) -> dict[str, Any]:
    """Return the notes in the checkpoint of a fit to the same data; empty where there is no checkpoint yet."""
    if not path.exists():
        return {}
    with _opened(path) as arrays:
        return dict(_checked_meta(path, arrays, data.fingerprint()).get("notes", {}))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a checkpoint; whatever fails while it is read says that it is damaged."""
    if not zipfile.is_zipfile(path):
        raise ArtifactError(
            f"{path} is not a readable checkpoint; choose another file, or delete it if it is a broken one"
        )
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except ArtifactError:
        raise
    except Exception as error:  # a damaged zip file fails in many ways
        raise ArtifactError(f"{path} is not a readable checkpoint ({error}); delete it to start anew") from error


def _checked_meta(path: Path, arrays: Any, fingerprint: str) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads(arrays["meta"].tobytes())
    if meta.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not a checkpoint; choose another file")
    if meta.get("version", 0) > VERSION:
        raise ArtifactError(f"{path} was written by a newer version of ocular; delete it to start anew")
    if meta["data"] != fingerprint:
        raise ArtifactError(f"{path} belongs to other purchases; delete it or choose another file")
    return meta


def _packed(name: str, factors: Factors) -> dict[str, Any]:
    if isinstance(factors, np.ndarray):
        return {name: factors}
    return {f"{name}.{part}": getattr(factors, part) for part in PARTS} | {f"{name}.shape": np.array(factors.shape)}


def _unpacked(arrays: Any, name: str) -> Any:
    if f"{name}.shape" not in arrays:
        return arrays[name]
    parts = (arrays[f"{name}.{part}"] for part in PARTS)
    factors = sp.csr_array(tuple(parts), shape=tuple(arrays[f"{name}.shape"].tolist()))
    factors.check_format(full_check=True)  # the kernels trust the indices, and that none comes twice in a row
    once = factors.copy()
    once.sum_duplicates()
    if once.nnz != factors.nnz:
        raise ValueError("a membership that is there twice")
    return factors


def _of_shape(array: Any, shape: tuple[int, ...]) -> Any:
    # the kernels trust the shapes
    if array.shape != shape or array.dtype != np.float32:
        raise ValueError(f"an array of {array.dtype} {array.shape} where float32 {shape} belongs")
    return array
