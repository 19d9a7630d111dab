"""
The saved format of a model, both ways: a folder with manifest.json, arrays.npz, clients.parquet, products.parquet.

The manifest holds the parameters and how they were chosen, the objective values and the calibration, the sizes and
sha256 digests of the other files, and a digest of itself; all are checked before anything is used. Nothing is pickled.
The folder holds the purchases too, so that a model recommends and explains without the file that it was fitted on.

arrays.npz: user_data, user_indices, user_indptr (memberships, CSR), the same for item_…, links_… and peers_… and, where
they weigh something, taste_… and appeal_…; user_bias, item_bias, excluded_items, user_attribute_weights and
item_attribute_weights where the likelihood has attributes, row by row, and interactions_… as `SavedInteractions.arrays`
names them. The tables hold the key of each client or product, the name that is shown where it is another one, and the
attributes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from ocular.data.interactions import Attributes, Interactions, Labels, Purchases, rows_of
from ocular.errors import ArtifactError
from ocular.evidence import EvidenceConfig, client_features, product_features
from ocular.solver.config import FitConfig
from ocular.storage import digest, new_folder, present, table_bytes
from ocular.version import __version__

FORMAT, VERSION = "ocular-model", 2
MANIFEST = "manifest.json"
FILES = ARRAYS, CLIENTS, PRODUCTS = "arrays.npz", "clients.parquet", "products.parquet"
KEY, DISPLAY_NAME, ATTRIBUTE = "name", "display name", "attribute:"  # columns of the two tables; the last is a prefix
CSR_PARTS = ("data", "indices", "indptr")
WEIGHTS = ("user_attribute_weights", "item_attribute_weights")
INTERACTIONS = "interactions_"  # prefix of their arrays
MAX_MANIFEST = 64_000_000  # bytes
MAX_GROWTH, MIN_LIMIT = 20, 64_000_000  # times and bytes that the arrays may hold more than their archive


class Streamed(NamedTuple):
    """An array that is written part by part, because it need not fit into memory."""

    dtype: Any
    length: int
    parts: Iterable[NDArray[Any]]


Arrays = Mapping[str, NDArray[Any] | Streamed]
# takes the arrays of a model and its digest, returns the same ones, which may be in memory that processes share
Share = Callable[[Mapping[str, NDArray[Any]], str], Mapping[str, NDArray[Any]]]


class SavedInteractions(Protocol):
    """The purchases as they are saved with a model: those of one machine, or those on a cluster."""

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
    def user_names(self) -> Labels | None: ...
    @property
    def item_names(self) -> Labels | None: ...
    @property
    def user_attributes(self) -> Attributes: ...
    @property
    def item_attributes(self) -> Attributes: ...

    def arrays(self) -> Arrays:
        """
        Return indptr and indices of the pairs by user and, where they are known, weights, refused_indptr and
        refused_indices, and of purchases pair, price, quantity and time.
        """
        ...


Source_co = TypeVar("Source_co", bound=SavedInteractions, covariant=True)


@dataclass(frozen=True, eq=False)
class SavedModel(Generic[Source_co]):
    """Everything that is saved of a fitted model."""

    config: FitConfig  # of the fit
    min_value: float | None
    user_factors: sp.csr_array
    item_factors: sp.csr_array
    user_bias: NDArray[np.float32]
    item_bias: NDArray[np.float32]
    bias: float
    user_attribute_weights: NDArray[np.float32]  # (n_values, K + 1); no rows where the likelihood has no attributes
    item_attribute_weights: NDArray[np.float32]
    objective_values: list[float]  # after each sweep
    converged: bool
    excluded_items: NDArray[np.bool_]  # (n_items,) never recommended
    evidence: EvidenceConfig  # the weights of links and peers
    links: sp.csr_array  # (n_items, n_items)
    peers: sp.csr_array  # (n_users, n_users)
    taste: sp.csr_array  # (n_users, values of products)
    appeal: sp.csr_array  # (values of clients, n_items)
    attribute_values: Mapping[str, list[str]]  # names of the values: "taste" of products, "appeal" of clients
    pattern_labels: Mapping[int, str]  # of co-clusters that keep the label of the model that the fit started from
    calibration: Mapping[str, Any] | None  # as Calibration.to_dict gives it
    tuning: Mapping[str, Any] | None  # as Choice.to_dict gives it
    interactions: Source_co


def write_model(path: Path, model: SavedModel[SavedInteractions]) -> None:
    """Write the folder `path`, in place of an older model there; until the new one is complete the old one stays."""
    path = path.resolve()  # a link to the folder stays a link
    check_target(path)
    purchases = model.interactions
    with new_folder(path) as folder:
        _write_arrays(folder / ARRAYS, _to_arrays(model))
        clients = _to_table(purchases.user_labels, purchases.user_names, purchases.user_attributes)
        products = _to_table(purchases.item_labels, purchases.item_names, purchases.item_attributes)
        (folder / CLIENTS).write_bytes(clients)
        (folder / PRODUCTS).write_bytes(products)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "ocular": __version__,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "parameters": asdict(model.config),
            "evidence": asdict(model.evidence),
            "min_value": model.min_value,
            "fit": {"bias": model.bias, "objective_values": model.objective_values, "converged": model.converged},
            "data": {"clients": purchases.shape[0], "products": purchases.shape[1], "pairs": purchases.nnz,
                     "currency": purchases.currency},
            "calibration": model.calibration,
            "files": {
                name: {"bytes": (folder / name).stat().st_size, "sha256": digest(folder / name)} for name in FILES
            },
        }  # fmt: skip
        if model.attribute_values:
            manifest["attribute_values"] = model.attribute_values
        if model.pattern_labels:
            manifest["pattern_labels"] = {str(number): label for number, label in model.pattern_labels.items()}
        if model.tuning is not None:
            manifest["tuning"] = model.tuning
        manifest["digest"] = _manifest_digest(manifest)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def redate(path: Path, created: datetime) -> None:
    """Say in the manifest of a saved model that it was made at another time, as for one that stands for an old one."""
    manifest = read_manifest(path)
    manifest["created"] = created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    manifest["digest"] = _manifest_digest(manifest)
    (path / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_target(path: Path) -> None:
    """Refuse to replace anything but a model: better before a long fit than after it."""
    if not path.exists():
        return
    names = {file.name for file in path.iterdir()} if path.is_dir() else {path.name}
    if not names:
        return
    try:
        ours = names <= {MANIFEST, *FILES} and json.loads(_read_file(path / MANIFEST, MAX_MANIFEST))["format"] == FORMAT
    except (OSError, ArtifactError, ValueError, KeyError, TypeError, RecursionError):
        ours = False
    if not ours:
        raise ArtifactError(
            f"expected a new folder or an older model, got {path} with other content; choose another name"
        )


def read_model(path: Path, share: Share | None = None) -> SavedModel[Interactions]:
    """Read the folder `path` and check all of it; `share` may put its arrays elsewhere."""
    while True:
        folder = present(path.resolve())
        before = _identity(folder)
        try:
            return _read_folder(folder, share)
        except ArtifactError:
            if _identity(present(path.resolve())) == before:
                raise
            # another process has just put a newer model in its place


def read_manifest(path: Path) -> dict[str, Any]:
    """Read what the folder `path` says of itself (digest, created, parameters, data, …), checked against its digest."""
    file = path / MANIFEST
    if not file.exists():
        raise ArtifactError(
            f"expected a model folder, got {path} without {MANIFEST}; `ocular fit … -o {path.name}` makes one"
        )
    try:
        manifest = json.loads(_read_file(file, MAX_MANIFEST).decode())
        kind, version = manifest["format"], manifest["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{file} is damaged ({error}); fit and save the model again") from error
    if kind != FORMAT:
        raise ArtifactError(f"expected a model, got {kind!r} in {file}")
    if not isinstance(version, int) or version > VERSION:
        raise ArtifactError(
            f"{file} has version {version} of the format, this ocular reads up to {VERSION}; upgrade ocular"
        )
    if not isinstance(manifest.get("digest"), str) or manifest["digest"] != _manifest_digest(manifest):
        raise ArtifactError(f"{file} was changed after it was written; fit and save the model again")
    return dict(manifest)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_folder(path: Path, share: Share | None) -> SavedModel[Interactions]:
    manifest = read_manifest(path)
    try:
        contents = {name: _read_checked(path / name, manifest["files"][name]) for name in FILES}
        _check_growth(contents[ARRAYS])
        with np.load(io.BytesIO(contents[ARRAYS]), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if share is not None:
            arrays = dict(share(arrays, manifest["digest"]))
        if manifest["version"] == 1:
            manifest, arrays = _from_version_1(manifest, arrays)
        currency = str(manifest["data"].get("currency", ""))
        interactions = _to_interactions(arrays, contents[CLIENTS], contents[PRODUCTS], currency)
        return _to_model(manifest, arrays, interactions)
    except ArtifactError:
        raise
    except Exception as error:  # files may hold anything, and each kind of nonsense raises an error of its own
        raise ArtifactError(f"{path} is not a whole model ({error!r}); fit and save it again") from error


def _from_version_1(
    manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Version 1 had other names for the same, no excluded products, and patterns as the only evidence."""
    fit = dict(manifest["fit"])
    fit["objective_values"] = fit.pop("history")
    renamed = {
        name.replace("history_", INTERACTIONS).replace("purchases_", INTERACTIONS): values
        for name, values in arrays.items()
    }
    renamed["excluded_items"] = np.zeros(len(arrays["item_bias"]), dtype=bool)
    for name, side in (("links", "item"), ("peers", "user")):
        n = len(arrays[f"{side}_bias"])
        renamed |= {f"{name}_{part}": getattr(sp.csr_array((n, n), dtype=np.float32), part) for part in CSR_PARTS}
    return manifest | {"fit": fit, "evidence": {}}, renamed


def _to_arrays(model: SavedModel[SavedInteractions]) -> dict[str, NDArray[Any] | Streamed]:
    arrays: dict[str, NDArray[Any] | Streamed] = {
        "user_bias": model.user_bias,
        "item_bias": model.item_bias,
        "excluded_items": model.excluded_items,
    }
    weights = dict(zip(WEIGHTS, (model.user_attribute_weights, model.item_attribute_weights), strict=True))
    arrays |= {name: table.ravel() for name, table in weights.items() if len(table)}
    tables = {"user": model.user_factors, "item": model.item_factors, "links": model.links, "peers": model.peers}
    tables |= {name: getattr(model, name) for name in model.attribute_values}
    for name, table in tables.items():
        arrays |= {f"{name}_{part}": getattr(table, part) for part in CSR_PARTS}
    return arrays | {f"{INTERACTIONS}{name}": values for name, values in model.interactions.arrays().items()}


def _to_model(
    manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], interactions: Interactions
) -> SavedModel[Interactions]:
    config, fit = FitConfig(**manifest["parameters"]), manifest["fit"]
    if not fit["objective_values"]:
        raise ValueError("no objective value is there")
    sides = {"user": interactions.n_users, "item": interactions.n_items}
    shapes = {side: (n, config.n_coclusters) for side, n in sides.items()}
    shapes |= {"links": (sides["item"],) * 2, "peers": (sides["user"],) * 2}
    evidence, values = EvidenceConfig(**manifest["evidence"]), dict(manifest.get("attribute_values") or {})
    _check_values(values, interactions, evidence)
    shapes |= {
        "taste": (sides["user"], len(values.get("taste", ()))),
        "appeal": (len(values.get("appeal", ())), sides["item"]),
    }
    arrays = dict(arrays)
    for name in {"taste", "appeal"} - values.keys():
        empty = sp.csr_array(shapes[name], dtype=np.float32)
        arrays |= {f"{name}_{part}": getattr(empty, part) for part in CSR_PARTS}
    tables = {
        name: sp.csr_array(tuple(arrays[f"{name}_{part}"] for part in CSR_PARTS), shape=shape)
        for name, shape in shapes.items()
    }
    for table in tables.values():
        table.check_format(full_check=True)
    for name, n in (("user_bias", sides["user"]), ("item_bias", sides["item"]), ("excluded_items", sides["item"])):
        if arrays[name].shape != (n,):
            raise ValueError(f"{name} of shape {arrays[name].shape} where {(n,)} belongs")
    empty = np.empty(0, dtype=np.float32)
    weights = {name: arrays.get(name, empty).reshape(-1, config.n_coclusters + 1) for name in WEIGHTS}
    return SavedModel(
        config=config,
        min_value=manifest["min_value"],
        user_factors=tables["user"],
        item_factors=tables["item"],
        user_bias=arrays["user_bias"],
        item_bias=arrays["item_bias"],
        bias=fit["bias"],
        user_attribute_weights=weights[WEIGHTS[0]],
        item_attribute_weights=weights[WEIGHTS[1]],
        objective_values=fit["objective_values"],
        converged=fit["converged"],
        excluded_items=arrays["excluded_items"].astype(np.bool_),
        evidence=evidence,
        links=tables["links"],
        peers=tables["peers"],
        taste=tables["taste"],
        appeal=tables["appeal"],
        attribute_values=values,
        pattern_labels={
            int(number): str(label) for number, label in dict(manifest.get("pattern_labels") or {}).items()
        },
        calibration=manifest.get("calibration"),
        tuning=manifest.get("tuning"),
        interactions=interactions,
    )


def _check_values(values: Mapping[str, list[str]], interactions: Interactions, evidence: EvidenceConfig) -> None:
    """Raise where the attributes do not have the values that taste and appeal were fitted to."""
    for name, features in (("taste", product_features), ("appeal", client_features)):
        if (getattr(evidence, name) > 0) != (name in values):
            raise ValueError(f"{name} and its weight do not belong together")
        if name in values and features(interactions, evidence).names != values[name]:
            raise ValueError(f"{name} was fitted to other values of attributes")


def _to_interactions(
    arrays: Mapping[str, NDArray[Any]], clients: bytes, products: bytes, currency: str
) -> Interactions:
    columns = {name.removeprefix(INTERACTIONS): values for name, values in arrays.items() if INTERACTIONS in name}
    user_labels, user_names, user_attributes = _from_table(clients)
    item_labels, item_names, item_attributes = _from_table(products)
    by_user = rows_of(columns)
    for rows in (by_user, by_user.refused):
        if rows is not None:
            rows.matrix(len(item_labels)).check_format(full_check=True)
            if len(rows) != len(user_labels):
                raise ValueError(f"purchases or refusals of {len(rows)} clients where {len(user_labels)} belong")
    purchases = Purchases(**columns, currency=currency) if columns else None
    interactions = Interactions(
        by_user,
        len(item_labels),
        user_labels,
        item_labels,
        purchases,
        user_attributes,
        item_attributes,
        user_names=user_names,
        item_names=item_names,
    )
    return interactions.weighted(by_user.weights)  # checks them


def _read_checked(file: Path, expected: Mapping[str, Any]) -> bytes:
    try:
        content = _read_file(file, expected["bytes"])
    except OSError as error:
        raise ArtifactError(f"{file} cannot be read ({error.strerror}); fit and save the model again") from error
    if len(content) < expected["bytes"]:
        raise ArtifactError(
            f"expected {expected['bytes']:,} bytes in {file}, got {len(content):,}; copy or fit it again"
        )
    if hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise ArtifactError(f"{file} was changed after it was written (sha256 differs); copy or fit it again")
    return content


def _read_file(file: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes: a pipe would be waited for without end."""
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as opened:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise ArtifactError(f"expected {file} to be a file, got something else; copy or fit the model again")
        if state.st_size > limit:
            raise ArtifactError(f"expected {limit:,} bytes in {file}, got {state.st_size:,}; copy or fit it again")
        return opened.read()


def _check_growth(archive: bytes) -> None:
    """Raise where a small archive says that it opens to much more than a model has."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        n_bytes = sum(entry.file_size for entry in opened.infolist())
    limit = max(MAX_GROWTH * len(archive), MIN_LIMIT)
    if n_bytes > limit:
        raise ValueError(f"{ARRAYS} of {len(archive):,} bytes holds {n_bytes:,}, more than {limit:,}")


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    signed = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()


def _write_arrays(path: Path, arrays: Arrays) -> None:
    """Write what np.savez would write, which wants whole arrays."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in arrays.items():
            if not isinstance(values, Streamed):
                values = Streamed(values.dtype, len(values), (np.ascontiguousarray(values),))  # noqa: PLW2901
            header = {"descr": np.dtype(values.dtype).str, "fortran_order": False, "shape": (values.length,)}
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array_header_1_0(file, header)
                for part in values.parts:
                    file.write(part.astype(values.dtype, copy=False).view(np.uint8).data)


def _to_table(labels: NDArray[Any], names: NDArray[Any] | None, attributes: Mapping[str, NDArray[Any]]) -> bytes:
    columns = {KEY: labels, **({} if names is None else {DISPLAY_NAME: names})}
    columns |= {f"{ATTRIBUTE}{name}": values for name, values in attributes.items()}
    plain = {name: values.tolist() if values.dtype == object else values for name, values in columns.items()}
    return table_bytes(pl.DataFrame(plain), ".parquet")


def _from_table(content: bytes) -> tuple[NDArray[Any], NDArray[Any] | None, dict[str, NDArray[Any]]]:
    """Return keys, the names that are shown where there are any, and attributes."""
    table = pl.read_parquet(io.BytesIO(content))
    columns = {name: _column(table[name]) for name in table.columns}
    labels, names = columns.pop(KEY), columns.pop(DISPLAY_NAME, None)
    return labels, names, {name.removeprefix(ATTRIBUTE): values for name, values in columns.items()}


def _column(values: pl.Series) -> NDArray[Any]:
    if not values.null_count():
        return values.to_numpy()
    column = np.empty(len(values), dtype=object)  # None where it is not known, as it was
    column[:] = values.to_list()
    return column
