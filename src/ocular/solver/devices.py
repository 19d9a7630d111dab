"""
Where a fit runs: the cores of this machine, or a GPU by NVIDIA Warp, which is imported only where a GPU is chosen.

docs/gpu.md has the GPU.
"""

from __future__ import annotations

import ctypes
import os
import re
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ocular.data.interactions import Adjacency, Interactions
from ocular.errors import ConfigError, MissingExtraError, Parameter
from ocular.solver import cpu
from ocular.solver.attributes import SideAttributes
from ocular.solver.backend import Backend
from ocular.solver.config import FitConfig

NAMES = re.compile(r"cpu|auto|warp-cpu|cuda(:\d+)?")  # warp-cpu: the GPU's kernels on the CPU, for tests
TILE = 32  # columns on a GPU are padded with zeros to a multiple of this, so that each row is whole cache lines
SUM_BLOCK = 1024  # rows whose columns are added up by one thread each
MAX_POSITIVES = 2**31 - 8  # positions in the lists of positives have 32 bits there, and are taken four at a time


def find_device(device: object) -> str:
    """Return the device that is meant, "cpu", "warp-cpu" or "cuda:N", or raise where it is not there."""
    if not isinstance(device, str) or not NAMES.fullmatch(device):
        raise ConfigError(f"expected device to be one of cpu, cuda, cuda:N, auto, got {device!r}")
    if device == "auto":
        try:
            return "cuda:0" if _has_driver() and _count_gpus() else "cpu"
        except MissingExtraError:
            return "cpu"
    if device.startswith("cuda"):
        number, n = int(device.partition(":")[2] or 0), _count_gpus()
        if number >= n:
            raise ConfigError(
                f"expected device to be a CUDA device that nvidia-smi lists, got {device!r} where there are "
                f"{n or 'none'}; use cpu, or install the driver of the GPU"
            )
        return f"cuda:{number}"
    if device == "warp-cpu":
        _gpu()
    return device


def open_backend(
    device: str, interactions: Interactions, config: FitConfig, attributes: SideAttributes | None = None
) -> Backend:
    """Return the backend of a device; too little memory on a GPU is refused here, before anything is copied."""
    name = find_device(device)
    if name == "cpu":
        return cpu.CpuBackend(interactions, config, attributes=attributes)
    check_no_attributes(config, name)
    _check_plain(interactions.by_user)
    backend: Backend = _gpu().GpuBackend(interactions, config, name)
    return backend


def check_no_attributes(config: FitConfig, where: str) -> None:
    """Refuse attributes in the likelihood on anything but the CPU of this machine."""
    if config.attribute_strength > 0:
        strength = Parameter("attribute_strength", 0)
        got = f" on {where}, got {config.attribute_strength:g}: attributes in the likelihood are fitted on the CPU"
        raise ConfigError("expected ", strength, got, " of one machine; leave it out, or fit there")


def fold_in(
    device: str, positives: Adjacency, item_factors: NDArray[np.float32], config: FitConfig, bias: float
) -> NDArray[np.float32]:
    """Do what `cpu.fold_in` does, on any device."""
    name = find_device(device)
    if name == "cpu":
        return cpu.fold_in(positives, item_factors, config, bias)
    _check_plain(positives)
    rows: NDArray[np.float32] = _gpu().fold_in(positives, item_factors, config, bias, name)
    return rows


def rank_rows(device: str, *arrays: Any) -> None:
    """Do what `scoring._rank` does for all rows, on a GPU."""
    _gpu().rank_rows(device, *arrays)


def tile_width(columns: int) -> int:
    """Return the number of columns that a table has on a GPU."""
    return -(-columns // TILE) * TILE


def estimate_bytes(n_users: int, n_items: int, nnz: int, n_coclusters: int, *, bias: bool = False) -> int:
    """
    Return the bytes that a fit takes on a GPU: O(max(nnz, n_users · K, n_items · K)).

    8 bytes per positive: its index in both orientations. 4 bytes per membership, with K (and two columns for biases)
    rounded up to a multiple of 32. 24 bytes per row: the end of its list, its place in the order, its weight, its step
    and its value. Per column 16 bytes per 1024 rows of the larger side, and 24: sums, penalties, what may move.

    >>> estimate_bytes(480_189, 17_770, 100_480_507, 200) < 2.7e9  # Netflix
    True
    """
    width, rows = tile_width(n_coclusters + 2 * bias), n_users + n_items
    sums = 16 * -(-max(n_users, n_items) // SUM_BLOCK) + 24
    return 8 * nnz + 24 * rows + 8 + width * (4 * rows + sums)


def check_memory(device: str, available: float, size: tuple[int, int, int], config: FitConfig) -> None:
    """Raise where users, items and positives do not fit into the free memory, and say what would."""
    nnz = size[-1]
    needed = estimate_bytes(*size, config.n_coclusters, bias=config.bias)
    if nnz > MAX_POSITIVES:
        raise ConfigError(f"expected at most {MAX_POSITIVES:,} positives on {device}, got {nnz:,}; use the device cpu")
    if needed <= available:
        return
    without = estimate_bytes(*size, 0)
    tiles = int((available - without) // (estimate_bytes(*size, TILE) - without))
    largest = tiles * TILE - 2 * config.bias
    remedy = f"at most {largest} for n_coclusters, or the device cpu" if largest > 0 else "the device cpu"
    raise ConfigError(
        f"expected a fit within the {available / 1e9:.2f} GB that are free on {device}, got {needed / 1e9:.2f} GB for "
        f"{config.n_coclusters} co-clusters; use {remedy}"
    )


def _check_plain(positives: Adjacency) -> None:
    """Refuse what the kernels of a GPU do not know."""
    if positives.weights is not None or positives.refused is not None:
        raise ConfigError(
            "expected purchases of equal weight and no refusals on a GPU, got others; fit them with ",
            Parameter("device", "cpu"),
        )


def _count_gpus() -> int:
    gpu = _gpu()
    return int(gpu.count_gpus()) if _has_driver() else 0  # Warp would say in its own words that there is no driver


def _has_driver() -> bool:
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True


def _gpu() -> Any:
    try:
        return import_module("ocular.solver.gpu")
    except ModuleNotFoundError as error:
        if error.name != "warp":
            raise
        raise MissingExtraError(
            "a GPU needs NVIDIA Warp; install it with: pip install 'ocular-rec[gpu]', or use the device cpu"
        ) from None
