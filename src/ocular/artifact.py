"""
A fitted model as a folder: manifest.json, arrays.npz, clients.parquet, products.parquet.

The manifest holds the sizes and sha256 digests of the other files and a digest of itself; all are checked before
anything is used. Nothing is pickled. The folder holds the purchase history too, so that a model recommends and
explains without the file it was fitted on.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Attributes, Interactions, Labels, Purchases
from ocular.errors import ArtifactError, DataError
from ocular.storage import digest, new_folder, present, table_bytes
from ocular.version import __version__

FORMAT, VERSION = "ocular-model", 1
MANIFEST = "manifest.json"
FILES = ARRAYS, CLIENTS, PRODUCTS = "arrays.npz", "clients.parquet", "products.parquet"
LABEL = "name"  # of the column with the names in the two tables


class Streamed(NamedTuple):
    """An array that is written part by part, because it need not fit into memory."""

    dtype: Any
    length: int
    parts: Iterable[NDArray[Any]]


Arrays = Mapping[str, NDArray[Any] | Streamed]


class History(Protocol):
    """The purchases of a model as they are kept with it."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nnz(self) -> int: ...
    @property
    def currency(self) -> str: ...
    @property
    def user_labels(self) -> Labels: ...
    @property
    def item_labels(self) -> Labels: ...
    @property
    def user_attributes(self) -> Attributes: ...
    @property
    def item_attributes(self) -> Attributes: ...

    def arrays(self) -> Arrays:
        """Positives as `history_indptr` and `history_indices`, amounts as `purchases_…`, where there are any."""
        ...


def write_model(path: Path, about: Mapping[str, Any], arrays: Arrays, history: History) -> None:
    """Write the folder `path`, in place of an older model there; until the new one is complete the old one stays."""
    path = path.resolve()  # a link to the folder stays a link
    check_target(path)
    with new_folder(path) as folder:
        _write_arrays(folder / ARRAYS, {**arrays, **history.arrays()})
        (folder / CLIENTS).write_bytes(_table(history.user_labels, history.user_attributes))
        (folder / PRODUCTS).write_bytes(_table(history.item_labels, history.item_attributes))
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "ocular": __version__,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **about,
            "files": {
                name: {"bytes": (folder / name).stat().st_size, "sha256": digest(folder / name)} for name in FILES
            },
        }
        manifest["digest"] = _manifest_digest(manifest)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_target(path: Path) -> None:
    """Refuse to replace anything but a model: better before a long fit than after it."""
    if not path.exists():
        return
    names = {file.name for file in path.iterdir()} if path.is_dir() else {path.name}
    if not names:
        return
    try:
        ours = names <= {MANIFEST, *FILES} and json.loads((path / MANIFEST).read_text("utf-8"))["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise ArtifactError(
            f"expected a new folder or an older model, got {path} with other content; choose another name"
        )


def read_model(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]], Interactions]:
    """Manifest, arrays and purchase history of the folder `path`, all checked."""
    while True:
        folder = present(path.resolve())
        before = _identity(folder)
        try:
            return _read_folder(folder)
        except ArtifactError:
            if _identity(present(path.resolve())) == before:
                raise
            # another process has just put a newer model in its place


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_folder(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]], Interactions]:
    manifest = _read_manifest(path)
    try:
        contents = {name: _read_checked(path / name, manifest["files"][name]) for name in FILES}
        with np.load(io.BytesIO(contents[ARRAYS]), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        user_labels, user_attributes = _read_table(contents[CLIENTS])
        item_labels, item_attributes = _read_table(contents[PRODUCTS])
        by_user = Adjacency(arrays.pop("history_indptr"), arrays.pop("history_indices"))
        by_user.matrix(len(item_labels)).check_format(full_check=True)
        purchases = None
        if "purchases_pair" in arrays:
            pair = arrays.pop("purchases_pair")
            amounts = [name for name in arrays if name.startswith("purchases_")]
            columns = {name.removeprefix("purchases_"): arrays.pop(name) for name in amounts}
            purchases = Purchases(pair, **columns, currency=str(manifest["data"].get("currency", "")))
        history = Interactions(
            by_user, len(item_labels), user_labels, item_labels, purchases, user_attributes, item_attributes
        )
    except (KeyError, TypeError, ValueError, DataError, pl.exceptions.PolarsError) as error:
        raise ArtifactError(f"{path} is not a whole model ({error!r}); fit and save it again") from error
    return manifest, arrays, history


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not file.exists():
        raise ArtifactError(
            f"expected a model folder, got {path} without {MANIFEST}; `ocular fit … -o {path.name}` makes one"
        )
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        kind, version = manifest["format"], manifest["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{file} is damaged ({error}); fit and save the model again") from error
    if kind != FORMAT:
        raise ArtifactError(f"expected a model, got {kind!r} in {file}")
    if not isinstance(version, int) or version > VERSION:
        raise ArtifactError(
            f"{file} has version {version} of the format, this ocular reads up to {VERSION}; upgrade ocular"
        )
    if manifest.get("digest") != _manifest_digest(manifest):
        raise ArtifactError(f"{file} was changed after it was written; fit and save the model again")
    return dict(manifest)


def _read_checked(file: Path, expected: Mapping[str, Any]) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{file} can not be read ({error.strerror}); fit and save the model again") from error
    if len(content) != expected["bytes"]:
        raise ArtifactError(
            f"expected {expected['bytes']:,} bytes in {file}, got {len(content):,}; copy or fit it again"
        )
    if hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise ArtifactError(f"{file} was changed after it was written (sha256 differs); copy or fit it again")
    return content


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    signed = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()


def _write_arrays(path: Path, arrays: Arrays) -> None:
    """As np.savez does it, which wants whole arrays."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in arrays.items():
            if not isinstance(values, Streamed):
                values = Streamed(values.dtype, len(values), (np.ascontiguousarray(values),))  # noqa: PLW2901
            header = {"descr": np.dtype(values.dtype).str, "fortran_order": False, "shape": (values.length,)}
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array_header_1_0(file, header)
                for part in values.parts:
                    file.write(part.astype(values.dtype, copy=False).view(np.uint8).data)


def _table(labels: NDArray[Any], attributes: Mapping[str, NDArray[Any]]) -> bytes:
    columns = {LABEL: labels, **{f"attribute:{name}": values for name, values in attributes.items()}}
    plain = {name: values.tolist() if values.dtype == object else values for name, values in columns.items()}
    return table_bytes(pl.DataFrame(plain), ".parquet")


def _read_table(content: bytes) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    table = pl.read_parquet(io.BytesIO(content))
    columns = {name: _column(table[name]) for name in table.columns}
    labels = columns.pop(LABEL)
    return labels, {name.removeprefix("attribute:"): values for name, values in columns.items()}


def _column(values: pl.Series) -> NDArray[Any]:
    if not values.null_count():
        return values.to_numpy()
    column = np.empty(len(values), dtype=object)  # None where it is not known, as it was
    column[:] = values.to_list()
    return column
