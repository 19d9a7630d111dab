"""What every backend must do: the oracle's sweeps, on any data, with the same bytes for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import consensus_score
from support import (
    Array,
    distance,
    needs_warp,
    parameters_of,
    random_matrix,
    reference_sweeps,
    start_python,
    true_objective,
)

from ocular import Interactions
from ocular.explain.coclusters import find_members
from ocular.solver.backend import Backend
from ocular.solver.config import FitConfig, State
from ocular.solver.cpu import CpuBackend
from ocular.solver.devices import open_backend
from ocular.solver.objective import Parameters
from ocular.solver.start.initial import initial_state
from ocular.synthetic import Planted, skewed

BACKENDS = [
    pytest.param(partial(CpuBackend, sparse=0.0), id="cpu"),
    pytest.param(partial(CpuBackend, sparse=np.inf), id="cpu-sparse"),  # from the first sweep
    pytest.param(partial(open_backend, "warp-cpu"), id="warp-cpu", marks=needs_warp),  # the GPU's kernels
]

Run = Callable[..., State]  # run(interactions, config, sweeps) -> the state after so many sweeps

R = random_matrix(60, 40)

PLAIN = FitConfig(n_coclusters=5, regularization=0.5, init="overlap", seed=3, n_threads=1)
VARIANTS = {
    "ocular": PLAIN,
    "relative": replace(PLAIN, relative=True, regularization=2.0),
    "bias": replace(PLAIN, bias=True),
    "relative-bias": replace(PLAIN, relative=True, bias=True, regularization=2.0),
    "random-start": replace(PLAIN, init="random"),
    "seeds-start": replace(PLAIN, init="seeds", n_coclusters=90),  # more than there are baskets
    "strong-penalty": replace(PLAIN, regularization=30.0),
    "no-penalty": replace(PLAIN, regularization=0.0, init="random"),
    "many-coclusters": replace(PLAIN, n_coclusters=71),  # more than users, more than items, no multiple of 16
}
SEARCHES = ("scaled", "paper")


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs sweeps on the backend; the state's objectives are the Q that it reported."""
    opened: list[Backend] = []

    def sweeps(interactions: Interactions, config: FitConfig, n: int, start: State | None = None) -> State:
        backend: Backend = request.param(interactions, config)
        opened.append(backend)
        backend.start(start or initial_state(interactions, config))
        objectives = [backend.sweep() for _ in range(n)]
        return replace(dense(backend.state()), objectives=objectives)

    yield sweeps
    for backend in opened:
        backend.close()


def dense(state: State) -> State:
    if isinstance(state.user_factors, np.ndarray):
        return state
    return replace(state, user_factors=state.user_factors.toarray(), item_factors=state.item_factors.toarray())


def data_of(R: Any) -> Interactions:
    return Interactions.from_matrix(np.asarray(R))


@pytest.mark.parametrize("seed", range(10))
def test_the_usual_start_is_no_trap_on_small_data(seed: int) -> None:
    """Two plain blocks: a single start now and then puts both co-clusters into the same one, and stays there."""
    blocks = np.array(
        [[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 0, 1]]
    )
    state = initial_state(data_of(blocks), FitConfig(n_coclusters=2, regularization=0.1, seed=seed))
    first, second = state.user_factors[:, :2].argmax(axis=1)[[0, 2]]
    assert state.user_factors[:, :2].argmax(axis=1).tolist() == [first, first, second, second, second]
    assert first != second


def state_bytes(state: State) -> list[bytes]:
    arrays = (state.user_factors, state.item_factors, state.user_steps, state.item_steps)
    return [*(array.tobytes() for array in arrays), np.array([state.bias, *state.objectives]).tobytes()]


def assert_follows_the_oracle(run: Run, R: Array, config: FitConfig) -> None:
    """
    Three sweeps from the same start. Later a row that is nearly at its minimum may take or leave a step by rounding,
    and float32 and float64 then go ways of their own.
    """
    data = data_of(R)
    start = dense(initial_state(data, config))
    for n, reference in enumerate(islice(reference_sweeps(R, start, config), 3), start=1):
        state = run(data, config, n)
        ours = parameters_of(state, config)
        for p, q in zip(sides(ours), sides(reference), strict=True):
            assert distance(p, q) < 1e-4, f"memberships and biases after sweep {n}"
        assert ours.bias == pytest.approx(reference.bias, rel=1e-4), f"overall bias after sweep {n}"
        truth = true_objective(R, reference, config)
        assert state.objectives[-1] == pytest.approx(truth, rel=1e-4), f"Q after sweep {n}"


def sides(p: Parameters) -> tuple[Array, Array]:
    """All that a user has, and all that an item has."""
    return np.column_stack([p.user_factors, p.user_bias]), np.column_stack([p.item_factors, p.item_bias])


# ---------------------------------------------------------------------------------------------------- the mathematics


@pytest.mark.parametrize("line_search", SEARCHES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_sweeps_are_those_of_the_oracle(run: Run, variant: str, line_search: str) -> None:
    assert_follows_the_oracle(run, R, replace(VARIANTS[variant], line_search=line_search))


@pytest.mark.parametrize("background", [1e-12, 1e-8, 1e-6, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("variant", ["ocular", "relative-bias"])
def test_sweeps_are_those_of_the_oracle_for_any_background(run: Run, variant: str, background: float) -> None:
    assert_follows_the_oracle(run, R, replace(VARIANTS[variant], background=background))


def test_sweeps_are_those_of_the_oracle_for_rows_longer_than_a_block(run: Run) -> None:
    """Kernels take neighbours in blocks: rows of few to 200 positives cover every remainder."""
    chances = np.linspace(0.01, 1.0, 200)[:, None]
    R = (np.random.default_rng(0).random((200, 200)) < chances).astype(np.float64)
    assert_follows_the_oracle(run, R, replace(PLAIN, n_coclusters=3, regularization=5.0))


def test_sweeps_are_those_of_the_oracle_for_rows_of_very_different_lengths(run: Run) -> None:
    """One item that everybody has and one user who has everything, among rows of one or two positives, or none."""
    R = np.zeros((600, 40))
    R[np.arange(500), np.arange(500) % 35] = 1.0
    R[:, 0] = R[7] = 1.0
    R[550:, 0] = 0.0
    assert_follows_the_oracle(run, R, replace(PLAIN, n_coclusters=3, regularization=5.0))


def test_beta_and_sigma_reach_the_line_search(run: Run) -> None:
    config = replace(PLAIN, beta=0.3, sigma=0.6, line_search="paper")
    assert_follows_the_oracle(run, R, config)
    usual = run(data_of(R), replace(PLAIN, line_search="paper"), 6)
    assert run(data_of(R), config, 6).objectives != usual.objectives


@pytest.mark.parametrize("line_search", SEARCHES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_reported_objective_is_that_of_the_state(run: Run, variant: str, line_search: str) -> None:
    config = replace(VARIANTS[variant], line_search=line_search)
    for n in (1, 2, 15):
        state = run(data_of(R), config, n)
        truth = true_objective(R, parameters_of(state, config), config)
        assert state.objectives[-1] == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("line_search", SEARCHES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_objective_never_increases(run: Run, variant: str, line_search: str) -> None:
    config = replace(VARIANTS[variant], line_search=line_search)
    objectives = np.array(run(data_of(R), config, 60).objectives)
    # a float32 sum resolves no more than this; without a penalty affinities, and what cancels in the sum, grow large
    resolution = 2e-6 if config.regularization else 2e-5
    assert (np.diff(objectives) <= resolution * objectives[:-1]).all()
    assert objectives[-1] < objectives[0]


# ------------------------------------------------------------------------------------------------------ the structure


@pytest.mark.parametrize(
    ("changes", "at_least"),
    [
        pytest.param({}, 0.95, id="ocular"),
        pytest.param({"relative": True, "regularization": 5.0}, 0.85, id="relative"),
        pytest.param({"bias": True}, 0.6, id="bias"),
        pytest.param({"line_search": "paper"}, 0.85, id="paper"),
    ],
)
def test_planted_coclusters_are_recovered(run: Run, market: Planted, changes: dict[str, Any], at_least: float) -> None:
    config = FitConfig(**{"n_coclusters": 4, "regularization": 0.5, "seed": 0, **changes})
    state = run(market.interactions, config, 100)
    members = find_members(sp.csr_array(state.user_factors[:, :4]), sp.csr_array(state.item_factors[:, :4]))
    found = members.users.toarray().T > 0, members.items.toarray().T > 0
    assert consensus_score(found, (market.rows, market.columns)) >= at_least


@pytest.mark.parametrize("init", ["auto", "overlap", "random"])
@pytest.mark.parametrize("shape", [(7, 5), (1, 5), (7, 1), (1, 1)])
def test_every_start_explains_a_full_block(run: Run, shape: tuple[int, int], init: str) -> None:
    """No row is unusual there, but a start without any membership is a place that no step leaves."""
    config = replace(PLAIN, n_coclusters=2, regularization=0.01, init=init)
    state = run(data_of(np.ones(shape)), config, 50)
    affinity = state.user_factors[:, :2] @ state.item_factors[:, :2].T
    assert (-np.expm1(-affinity) > 0.9).all()


@pytest.mark.parametrize("line_search", SEARCHES)
@pytest.mark.parametrize("variant", ["ocular", "relative-bias"])
def test_rows_without_positives_belong_nowhere(run: Run, variant: str, line_search: str) -> None:
    R = random_matrix(60, 40)
    R[4], R[:, 7] = 0.0, 0.0
    config = replace(VARIANTS[variant], line_search=line_search)
    start = initial_state(data_of(R), config)
    start.user_factors[4, :5] = start.item_factors[7, :5] = 0.5  # even if they start somewhere
    state = run(data_of(R), config, 40, start)
    K = config.n_coclusters
    assert not state.user_factors[4, :K].any()
    assert not state.item_factors[7, :K].any()
    p = parameters_of(state, config)
    assert p.user_bias[4] == p.item_bias[7] == 0.0
    assert state.objectives[-1] == pytest.approx(true_objective(R, p, config), rel=1e-5)


@pytest.mark.parametrize("variant", ["ocular", "bias"])
def test_what_is_not_a_membership_stays_as_it_was(run: Run, variant: str) -> None:
    """The constants against the biases and the zeros that fill up the lanes."""
    config = VARIANTS[variant]
    data = data_of(R)
    start, state = initial_state(data, config), run(data, config, 10)
    K = config.n_coclusters
    users = [*range(K + 1, config.width)] if config.bias else [*range(K, config.width)]
    items = [K, *range(K + 2, config.width)] if config.bias else [*range(K, config.width)]
    np.testing.assert_array_equal(state.user_factors[:, users], start.user_factors[:, users])
    np.testing.assert_array_equal(state.item_factors[:, items], start.item_factors[:, items])


# -------------------------------------------------------------------------------------------------------- determinism


@pytest.mark.parametrize("variant", ["ocular", "relative-bias", "random-start", "seeds-start"])
def test_any_number_of_threads_gives_the_same_bytes(run: Run, variant: str) -> None:
    data = skewed(300, 150, 4000, random_state=1)
    one, two, three = (state_bytes(run(data, replace(VARIANTS[variant], n_threads=n), 8)) for n in (1, 2, 3))
    assert one == two == three


@pytest.mark.parametrize("make", BACKENDS)
@pytest.mark.parametrize("sweeps", [2, 40])  # in the end rows stand still, and what is kept of them is old
def test_going_on_from_a_state_gives_the_same_bytes(make: Callable[..., Backend], sweeps: int) -> None:
    data, config = data_of(R), replace(PLAIN, init="seeds", n_coclusters=60)
    going, resumed = make(data, config), make(data, config)
    going.start(initial_state(data, config))
    for _ in range(sweeps):
        going.sweep()
    resumed.start(deepcopy(going.state()))
    for _ in range(3):
        assert going.sweep() == resumed.sweep()
        assert state_bytes(dense(going.state())) == state_bytes(dense(resumed.state()))
    going.close()
    resumed.close()


def test_the_seed_decides(run: Run) -> None:
    data = data_of(R)
    for init in ("overlap", "random", "seeds"):
        config = replace(PLAIN, init=init)
        first, again, other = (state_bytes(run(data, replace(config, seed=seed), 5)) for seed in (1, 1, 2))
        assert first == again
        assert first[0] != other[0]
        assert first[1] != other[1]


SWEEP_AND_PRINT = """
import hashlib
from ocular.synthetic import skewed
from ocular.solver.config import FitConfig, user_weights
from ocular.solver.cpu import CpuBackend
from ocular.solver.links import LinkConfig, fit_links
from ocular.solver.start.initial import initial_state

data = skewed(80, 50, 900, random_state=4)
weights = user_weights(data.by_user, data.n_items, relative=True)
links = fit_links(data.by_item, data.by_user, LinkConfig(2.0), n_features=data.n_items, weights=weights)
print(hashlib.sha256(links.data.tobytes()).hexdigest())
for sparse, changes in ((0.0, {"bias": True}), (1e9, {"init": "seeds"})):
    config = FitConfig(6, 2.0, seed=7, **changes)
    backend = CpuBackend(data, config, sparse=sparse)
    backend.start(initial_state(data, config))
    for _ in range(5):
        backend.sweep()
    for side in (backend.state().user_factors, backend.state().item_factors):
        array = side.toarray() if sparse else side
        print(hashlib.sha256(array.tobytes()).hexdigest())
"""


def test_a_kernel_compiled_now_gives_the_bytes_of_one_compiled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first fit on a machine compiles, later ones read Numba's cache: the same seed must mean the same in both."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    printed = []
    for _ in range(2):
        process = start_python(SWEEP_AND_PRINT)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        printed.append(out)
    assert any(tmp_path.rglob("*.nbc"))
    assert printed[0] == printed[1]


# ----------------------------------------------------------------------------------------------------------- extremes

MATRICES = {
    "sparse": random_matrix(),
    "one-user": np.array([[1, 0, 1, 1]]),
    "one-item": np.array([[1], [0], [1]]),
    "one-pair": np.array([[1]]),
    "all-ones": np.ones((7, 5)),
    "empty-rows": np.array([[1, 0, 0], [0, 0, 0], [1, 0, 1]]),
    "nearly-full": 1.0 - random_matrix(density=0.05) + np.eye(30, 20),
}
EXTREMES = {
    "one-cocluster": {"n_coclusters": 1},
    "more-coclusters-than-anything": {"n_coclusters": 50},
    "tiny-background": {"background": 1e-12},
    "large-background": {"background": 1.0},
    "no-penalty": {"regularization": 0.0},
    "huge-penalty": {"regularization": 1e12},
    "random-start": {"init": "random"},
    "seeds-start": {"init": "seeds"},
}


@pytest.mark.parametrize("relative", [False, True], ids=["ocular", "relative"])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("matrix", MATRICES)
def test_extremes_give_numbers(run: Run, matrix: str, extreme: str, bias: bool, relative: bool) -> None:
    R = np.asarray(MATRICES[matrix], dtype=np.float64)
    for line_search in SEARCHES:
        config = replace(PLAIN, bias=bias, relative=relative, line_search=line_search, **EXTREMES[extreme])
        state = run(data_of(R), config, 30)
        for array in (state.user_factors, state.item_factors, state.user_steps, state.item_steps):
            assert np.isfinite(array).all()
        assert np.isfinite(state.bias)
        assert np.isfinite(state.objectives).all()
        assert state.user_factors.min() >= 0
        assert state.item_factors.min() >= 0
        # Q is a sum of costs: near zero the float32 sums leave an error of the size of what cancels
        truth = true_objective(R, parameters_of(state, config), config)
        assert state.objectives[-1] == pytest.approx(truth, rel=1e-3, abs=0.1)


def test_a_huge_penalty_leaves_no_membership(run: Run) -> None:
    config = replace(PLAIN, regularization=1e12)
    state = run(data_of(R), config, 30)
    assert max(state.user_factors.max(), state.item_factors.max()) < 1e-6
    assert state.objectives[-1] == pytest.approx(-R.sum() * np.log(-np.expm1(-1e-4)), rel=1e-3)
