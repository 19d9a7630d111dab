"""Escapes from local optima that no sweep can leave, and how much of them a fit may try."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from support import parameters_of, true_objective

from ocular.solver.config import FitConfig, State
from ocular.solver.cpu import CpuBackend
from ocular.solver.start.initial import START_SWEEPS, initial_state, search_effort
from ocular.solver.start.repair import TRIAL_SWEEPS, Analysis, repair
from ocular.synthetic import Planted, planted, skewed

SWEEPS, TRIALS = 40, 10


@pytest.fixture(scope="module")
def truth() -> Planted:
    return planted(80, 60, 4, overlap=0.0, density=0.9, random_state=3)


def in_local_optimum(truth: Planted, config: FitConfig) -> tuple[State, float, CpuBackend]:
    """Swept from a start where co-cluster 0 is the union of two and co-cluster 1 is a corner of another one."""
    users, items = (side.T.astype(np.float32) for side in (truth.rows, truth.columns))
    for side in (users, items):
        side[:, 0] = np.maximum(side[:, 0], side[:, 1])
        side[:, 1] = 0.0  # and stays, on both sides
        side[np.flatnonzero(side[:, 2])[:3], 1] = 0.5
    state = initial_state(truth.interactions, config, (users, items))
    backend = CpuBackend(truth.interactions, config)
    backend.start(state)
    return state, min(backend.sweep() for _ in range(SWEEPS)), backend


@pytest.mark.parametrize("changes", [{}, {"bias": True}, {"relative": True, "regularization": 5.0}])
def test_a_union_is_cut_in_two(truth: Planted, changes: dict[str, object]) -> None:
    config = FitConfig(**{"n_coclusters": 4, "regularization": 1.0, "seed": 0, "n_threads": 1, **changes})
    state, before, backend = in_local_optimum(truth, config)
    found = repair(state, truth.interactions, config, backend, TRIALS)
    assert found is not state
    bought = truth.interactions.to_matrix().toarray().astype(np.float64)
    after = true_objective(bought, parameters_of(found, config), config)
    assert after < 0.97 * before
    # every planted co-cluster is the strongest of one column again
    inside = np.array([found.user_factors[members, :4].mean(axis=0) for members in truth.rows])
    assert sorted(inside.argmax(axis=1)) == [0, 1, 2, 3]


def test_a_fit_without_a_union_goes_on_as_if_nothing_had_been_tried(truth: Planted) -> None:
    config = FitConfig(n_coclusters=4, regularization=1.0, seed=0, n_threads=1)
    start = (
        (truth.rows.T + np.float32(0.01)).astype(np.float32),
        (truth.columns.T + np.float32(0.01)).astype(np.float32),
    )
    state = initial_state(truth.interactions, config, start)
    backend = CpuBackend(truth.interactions, config)
    backend.start(state)
    for _ in range(SWEEPS):
        backend.sweep()
    untouched, found = deepcopy(state), repair(deepcopy(state), truth.interactions, config, backend, TRIALS)
    backend.start(untouched)
    for _ in range(TRIAL_SWEEPS):
        backend.sweep()
    assert found.user_factors.tobytes() == backend.state().user_factors.tobytes()
    assert found.item_factors.tobytes() == backend.state().item_factors.tobytes()


def test_removal_costs_are_what_the_objective_says(truth: Planted) -> None:
    config = FitConfig(n_coclusters=4, regularization=1.0, seed=0, n_threads=1)
    state, _, _ = in_local_optimum(truth, config)
    bought = truth.interactions.to_matrix().toarray().astype(np.float64)
    with_all = true_objective(bought, parameters_of(state, config), config)
    costs = Analysis.of(state, truth.interactions, config).costs
    for k in range(4):
        without = parameters_of(state, config)
        without.user_factors[:, k] = without.item_factors[:, k] = 0.0
        assert costs[k] == pytest.approx(true_objective(bought, without, config) - with_all, rel=1e-3, abs=0.5)
    assert costs[1] < 0.2 * np.median(costs)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (2, 2)])
def test_nothing_to_cut(shape: tuple[int, int]) -> None:
    tiny = planted(*shape, 1, density=1.0)
    config = FitConfig(n_coclusters=3, regularization=0.1, seed=0)
    state = initial_state(tiny.interactions, config)  # auto repairs
    assert np.isfinite(state.user_factors).all()


class Remote(CpuBackend):
    """Keeps a state of its own, as a device or a cluster does."""

    def start(self, state: State) -> None:
        super().start(deepcopy(state))


def test_the_state_is_that_of_the_backend(truth: Planted) -> None:
    config = FitConfig(n_coclusters=4, regularization=1.0, seed=0, n_threads=1)
    state, _, backend = in_local_optimum(truth, config)
    here = repair(deepcopy(state), truth.interactions, config, backend, TRIALS)
    there = repair(deepcopy(state), truth.interactions, config, Remote(truth.interactions, config), TRIALS)
    assert np.array_equal(here.user_factors, there.user_factors)
    assert not np.array_equal(here.user_factors, state.user_factors)


@pytest.mark.parametrize("changes", [{}, {"bias": True}])
def test_a_larger_start_is_repaired_to_the_same_bytes_by_any_number_of_threads(changes: dict[str, bool]) -> None:
    market = planted(1200, 600, 25, overlap=0.3, density=0.9, noise=0.01, random_state=0)
    assert search_effort(market.interactions.nnz * 25).max_repairs
    one, three = (
        initial_state(market.interactions, FitConfig(25, 3.0, seed=0, n_threads=n, **changes)) for n in (1, 3)
    )
    assert one.user_factors.tobytes() == three.user_factors.tobytes()
    assert one.item_factors.tobytes() == three.item_factors.tobytes()
    plain = FitConfig(25, 3.0, seed=0, n_threads=1, init="overlap", **changes)
    objectives = {}
    for name, state in (("auto", one), ("overlap", initial_state(market.interactions, plain))):
        backend = CpuBackend(market.interactions, plain)
        backend.start(state)
        objectives[name] = min(backend.sweep() for _ in range(100))
    assert objectives["auto"] < 0.97 * objectives["overlap"]


def test_planted_coclusters_come_back_where_one_start_fails() -> None:
    """Single starts end in local optima: 1000 × 500 with 20 co-clusters."""
    from sklearn.metrics import consensus_score

    from ocular import OCuLaR

    market = planted(1000, 500, 20, overlap=0.0, density=0.9, noise=0.01, random_state=0)
    scores = {
        init: consensus_score(
            OCuLaR(20, 3.0, init=init, random_state=0, max_iter=300).fit(market.interactions).biclusters_,
            (market.rows, market.columns),
        )
        for init in ("overlap", "auto")
    }
    assert scores["overlap"] < 0.95
    assert scores["auto"] > 0.99


def test_effort_shrinks_with_the_work_and_never_jumps() -> None:
    works = np.geomspace(1e4, 1e9, 200).astype(np.int64)
    efforts = [search_effort(int(work)) for work in works]
    for part in ("n_starts", "max_repairs"):
        steps = np.diff([getattr(effort, part) for effort in efforts])
        assert set(steps.tolist()) <= {0, -1}
    assert efforts[0] == (10, 10)
    assert efforts[-1] == (1, 0)


def test_where_no_trial_is_accepted_auto_ends_as_the_plain_start() -> None:
    """What is held out of a fit may change how much it tries, but then not what kind of fit it is."""
    purchases = skewed(400, 300, 40_000, random_state=2)
    assert search_effort(purchases.nnz * 100) == (1, 2)
    auto, plain = (FitConfig(100, 30.0, init=init, seed=0, n_threads=1) for init in ("auto", "overlap"))
    begun = initial_state(purchases, auto)
    backend = CpuBackend(purchases, plain)
    backend.start(initial_state(purchases, plain))
    for _ in range(START_SWEEPS + TRIAL_SWEEPS):
        backend.sweep()
    assert begun.user_factors.tobytes() == backend.state().user_factors.tobytes()
