"""
Small fits end with the bytes that they always had: a change of kernels that changes their results shows here.

Numba compiles for the processor it runs on, so bytes are compared only where processor and Numba are those of a stored
entry, and numbers within a tolerance everywhere. `python tests/solver/test_digest.py` stores an entry for this machine.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import binding

from ocular import OCuLaR

STORED = Path(__file__).parent / "digests.json"
TOLERANCE = 1e-4  # relative, between processors
FITS: dict[str, dict[str, Any]] = {
    "ocular": {"init": "random"},
    "relative": {"init": "random", "relative": True, "regularization": 20.0},
    "bias": {"init": "random", "bias": True},
    "paper line search": {"init": "random", "line_search": "paper"},
    "overlap": {"init": "overlap"},
    "sparse": {"init": "seeds", "n_coclusters": 600, "max_iter": 12},
    "auto": {},
}


def purchases(n_users: int = 70, n_items: int = 45, n_blocks: int = 5) -> np.ndarray:
    """A dense 0/1 matrix with blocks along the diagonal."""
    rng = np.random.default_rng(3)
    same = np.arange(n_users)[:, None] * n_blocks // n_users == np.arange(n_items) * n_blocks // n_items
    return (rng.random((n_users, n_items)) < np.where(same, 0.7, 0.08)).astype(np.int64)


def fit(name: str) -> OCuLaR:
    usual = {"n_coclusters": 6, "regularization": 2.0, "tol": 0.0, "max_iter": 10, "random_state": 7}
    return OCuLaR(**usual | FITS[name]).fit(purchases())


def tiny() -> OCuLaR:
    return OCuLaR(2, 1.0, init="random", tol=0.0, max_iter=10, random_state=7).fit(purchases(10, 8, 2))


def digest(model: OCuLaR) -> str:
    """Return the SHA-256 of all that a fit has learned."""
    both = (model.user_factors_, model.item_factors_)
    arrays = [part for f in both for part in (f.indptr.astype(np.int64), f.indices.astype(np.int64), f.data)]
    arrays += [model.user_bias_, model.item_bias_, np.array([model.bias_, *model.history_])]
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def this_machine() -> str:
    """Return what decides on the machine code that Numba makes."""
    has = binding.get_host_cpu_features()
    vectors = "avx512" if has.get("avx512f") else "avx2" if has.get("avx2") else "no avx2"
    return f"{binding.get_host_cpu_name()}, {vectors}, numba {numba.__version__}, numpy {np.__version__}"


@pytest.mark.parametrize("name", FITS)
def test_a_fit_ends_with_the_same_bytes(name: str) -> None:
    digests = json.loads(STORED.read_text())["digests"]
    if this_machine() not in digests:
        pytest.skip(f"no digests are stored for {this_machine()}")
    assert digest(fit(name)) == digests[this_machine()][name]


@pytest.mark.parametrize("name", FITS)
def test_a_fit_ends_with_the_same_objective_on_any_machine(name: str) -> None:
    expected = json.loads(STORED.read_text())["objectives"][name]
    assert fit(name).history_ == pytest.approx(expected, rel=TOLERANCE)


def test_a_tiny_fit_ends_with_the_same_factors_on_any_machine() -> None:
    expected, model = json.loads(STORED.read_text())["tiny"], tiny()
    np.testing.assert_allclose(model.user_factors_.toarray(), expected["users"], rtol=TOLERANCE, atol=1e-5)
    np.testing.assert_allclose(model.item_factors_.toarray(), expected["items"], rtol=TOLERANCE, atol=1e-5)


def main() -> None:
    stored = json.loads(STORED.read_text()) if STORED.exists() else {"digests": {}}
    models, small = {name: fit(name) for name in FITS}, tiny()
    stored["digests"][this_machine()] = {name: digest(model) for name, model in models.items()}
    stored["objectives"] = {name: [round(q, 4) for q in model.history_] for name, model in models.items()}
    factors = {"users": small.user_factors_, "items": small.item_factors_}
    stored["tiny"] = {side: np.round(f.toarray().astype(float), 6).tolist() for side, f in factors.items()}
    STORED.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"stored digests for {this_machine()} in {STORED.name}")


if __name__ == "__main__":
    main()
