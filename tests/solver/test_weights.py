"""Weights of positives and refusals in the solver: against their definition, and without them the bytes of before."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from support import Array, distance, pair_weights, parameters_of, random_matrix, reference_sweeps, true_objective

from ocular import Interactions
from ocular.data.interactions import Adjacency
from ocular.data.ordering import Ordering
from ocular.errors import ConfigError, DataError
from ocular.solver import links as links_module
from ocular.solver import objective
from ocular.solver.config import FitConfig, State
from ocular.solver.cpu import CpuBackend
from ocular.solver.devices import open_backend
from ocular.solver.links import LIKELIHOOD, SQUARES, LinkConfig, fit_links
from ocular.solver.objective import LinkProblem, Parameters
from ocular.solver.start.initial import initial_state
from ocular.synthetic import skewed

BACKENDS = {"dense": partial(CpuBackend, sparse=0.0), "sparse": partial(CpuBackend, sparse=np.inf)}
PLAIN = FitConfig(n_coclusters=5, regularization=0.5, init="overlap", seed=3, n_threads=1)
CONFIGS = {
    "ocular": PLAIN,
    "relative": replace(PLAIN, relative=True, regularization=2.0),
    "bias": replace(PLAIN, bias=True),
    "seeds": replace(PLAIN, init="seeds", n_coclusters=71),
    "paper": replace(PLAIN, line_search="paper"),
    "strong-refusals": replace(PLAIN, refusal_weight=50.0),
}
KINDS = ("weights", "refusals", "both")


def random_refusals(R: Array, share: float = 0.15, seed: int = 99) -> Adjacency:
    """Refuse a share of the pairs that are not positive; the first user refuses nothing."""
    refused = (np.random.default_rng(seed).random(R.shape) < share) & (R == 0)
    refused[0] = False
    return Interactions.from_matrix(refused.astype(int)).by_user


def data_of(R: Array, kind: str = "both") -> Interactions:
    data = Interactions.from_matrix(R)
    if kind in ("weights", "both"):
        data = data.weighted(np.random.default_rng(1).uniform(0.2, 3.0, data.nnz))
    if kind in ("refusals", "both"):
        data = data.with_refusals(random_refusals(R))
    return data


def dense(state: State) -> State:
    if isinstance(state.user_factors, np.ndarray):
        return state
    return replace(state, user_factors=state.user_factors.toarray(), item_factors=state.item_factors.toarray())


def swept(make: Any, data: Interactions, config: FitConfig, n: int) -> State:
    backend = make(data, config)
    backend.start(initial_state(data, config))
    objectives = [backend.sweep() for _ in range(n)]
    backend.close()
    return replace(dense(backend.state()), objectives=objectives)


def state_bytes(state: State) -> list[bytes]:
    arrays = (state.user_factors, state.item_factors, state.user_steps, state.item_steps)
    return [*(array.tobytes() for array in arrays), np.array([state.bias, *state.objectives]).tobytes()]


# ------------------------------------------------------------------------------------------------------ the definition


def test_the_objective_by_hand() -> None:
    R = np.array([[1.0, 0.0, 0.0]])
    p = Parameters(np.array([[2.0]]), np.array([[0.5], [0.1], [0.3]]), np.zeros(1), np.zeros(3), 0.0)
    W = objective.pair_weights(R, np.ones(1), np.array([[3.0, 9.0, 9.0]]), np.array([[0.0, 1.0, 0.0]]), 7.0)
    expected = -3 * np.log(1 - np.exp(-1.0)) + 7 * 0.2 + 0.6  # the weight of an unknown has no effect
    assert objective.objective(R, p, W, 0.0, 1e-12) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("part", [field.name for field in fields(Parameters)])
def test_the_gradient_agrees_with_finite_differences(part: str) -> None:
    R, rng = random_matrix(8, 6, 0.4, seed=2), np.random.default_rng(5)
    p = Parameters(rng.random((8, 3)), rng.random((6, 3)), rng.random(8), rng.random(6), 0.3)
    W = pair_weights(data_of(R), replace(PLAIN, relative=True))
    assert len(np.unique(W)) > 10
    claimed = np.asarray(getattr(objective.gradient(R, p, W, 0.7, 0.05), part))

    def q(value: Any) -> float:
        return objective.objective(R, replace(p, **{part: value}), W, 0.7, 0.05)

    here = getattr(p, part)
    for place in np.ndindex(claimed.shape):
        shift = np.zeros(claimed.shape)
        shift[place] = 1e-6
        assert claimed[place] == pytest.approx((q(here + shift) - q(here - shift)) / 2e-6, rel=1e-6, abs=1e-6)


def test_the_reference_never_increases_the_objective() -> None:
    R, rng = random_matrix(15, 10), np.random.default_rng(1)
    p = Parameters(rng.random((15, 4)), rng.random((10, 4)), np.zeros(15), np.zeros(10), 0.1)
    W, steps = pair_weights(data_of(R), replace(PLAIN, refusal_weight=20.0)), (np.ones(15), np.ones(10))
    values = [objective.objective(R, p, W, 0.3, 1e-4)]
    for _ in range(15):
        p = replace(p, bias=objective.updated_bias(R, p, W, 1e-4))
        values.append(objective.objective(R, p, W, 0.3, 1e-4))
        p, steps = objective.sweep(R, p, steps, W, 0.3, 1e-4, with_bias=True)
        values.append(objective.objective(R, p, W, 0.3, 1e-4))
    assert (np.diff(values) <= 1e-12 * values[0]).all()


# -------------------------------------------------------------------------------------------------------- the kernels


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", CONFIGS)
def test_sweeps_are_those_of_the_definition(backend: str, kind: str, variant: str) -> None:
    R, config = random_matrix(60, 40), CONFIGS[variant]
    data = data_of(R, kind)
    W, start = pair_weights(data, config), dense(initial_state(data, config))
    for n, reference in enumerate(islice(reference_sweeps(R, start, config, W), 3), start=1):
        state = swept(BACKENDS[backend], data, config, n)
        ours = parameters_of(state, config)
        for name in ("user_factors", "item_factors", "user_bias", "item_bias"):
            assert distance(getattr(ours, name), getattr(reference, name)) < 1e-4, f"{name} after sweep {n}"
        assert ours.bias == pytest.approx(reference.bias, rel=1e-4)
        assert state.objectives[-1] == pytest.approx(true_objective(R, ours, config, W), rel=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_longer_than_a_block_follow_the_definition(backend: str) -> None:
    chances = np.linspace(0.01, 1.0, 200)[:, None]
    R = (np.random.default_rng(0).random((200, 200)) < chances).astype(np.float64)
    data, config = data_of(R), replace(PLAIN, n_coclusters=3, regularization=5.0)
    W, start = pair_weights(data, config), dense(initial_state(data, config))
    reference = next(reference_sweeps(R, start, config, W))
    ours = parameters_of(swept(BACKENDS[backend], data, config, 1), config)
    assert distance(ours.user_factors, reference.user_factors) < 1e-4


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("variant", ["ocular", "bias"])
def test_refusals_of_weight_one_change_no_byte(backend: str, variant: str) -> None:
    R, config = random_matrix(60, 40), replace(CONFIGS[variant], refusal_weight=1.0)
    plain, refused = Interactions.from_matrix(R), data_of(R, "refusals")
    one, other = (state_bytes(swept(BACKENDS[backend], data, config, 8)) for data in (plain, refused))
    assert one == other


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_of_one_change_no_byte(backend: str) -> None:
    R, config = random_matrix(60, 40), PLAIN
    plain = Interactions.from_matrix(R)
    same = replace(plain, by_user=replace(plain.by_user, weights=np.ones(plain.nnz, dtype=np.float32)))
    expected = state_bytes(swept(BACKENDS[backend], plain, config, 8))
    assert plain.weighted(np.ones(plain.nnz)).weights is None
    assert state_bytes(swept(BACKENDS[backend], same, config, 8)) == expected
    assert state_bytes(swept(BACKENDS[backend], data_of(R), config, 8)) != expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("variant", ["ocular", "bias"])
def test_any_number_of_threads_gives_the_same_bytes(backend: str, variant: str) -> None:
    data = skewed(300, 150, 4000, random_state=1)
    data = data_of(data.to_matrix().toarray().astype(np.float64))
    one, three = (
        state_bytes(swept(BACKENDS[backend], data, replace(CONFIGS[variant], n_threads=n), 6)) for n in (1, 3)
    )
    assert one == three


def test_a_gpu_refuses_them_in_one_line() -> None:
    pytest.importorskip("warp")
    for kind in KINDS:
        with pytest.raises(ConfigError, match="on a GPU, got others; fit them with device=cpu"):
            open_backend("warp-cpu", data_of(random_matrix(), kind), PLAIN)


# ----------------------------------------------------------------------------------------------------- links and peers

EXACT = LinkConfig(regularization=2.0, n_links=100, max_iter=20_000, tol=0.0, refusal_weight=4.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["links", "peers"])
def test_links_are_the_minimum(kind: str, side: str) -> None:
    R = random_matrix(60, 15, 0.3, seed=3)
    data = data_of(R, kind)
    W = pair_weights(data, FitConfig(refusal_weight=EXACT.refusal_weight))
    if side == "links":
        user_weights = np.random.default_rng(4).uniform(1, 4, 60).astype(np.float32)
        S = fit_links(data.by_item, data.by_user, EXACT, n_features=15, weights=user_weights)
        positives, matrix, unknown = W * user_weights[:, None], R, W
    else:
        S = fit_links(data.by_user, data.by_item, EXACT, n_features=60)
        positives, matrix, unknown = W.T, R.T, W.T
    S = S.toarray().astype(np.float64)
    n = len(S)
    for t in range(0, n, 2):
        problem = LinkProblem.of(
            matrix, t, EXACT.regularization, EXACT.background, positives[:, t], unknown_weights=unknown[:, t]
        )
        s, others = S[:, t], np.arange(n) != t
        slope = problem.gradient(s)[others]
        linked = matrix[matrix[:, t] > 0].any(axis=0)[others]  # who shares no positive is no candidate
        assert slope[linked].min() > -0.05
        assert np.abs(s[others] * slope).max() < 3e-3
        best = minimize(problem.value, s, jac=problem.gradient, bounds=[(0, None)] * n, method="L-BFGS-B")
        assert problem.value(s) == pytest.approx(best.fun, rel=3e-5)


def test_the_slope_of_links_by_finite_differences() -> None:
    R, rng = random_matrix(30, 8, 0.4, seed=1), np.random.default_rng(0)
    problem = LinkProblem.of(R, 3, 1.5, 1e-3, rng.uniform(0.2, 3, 30), rng.uniform(1, 9, 30))
    s = rng.uniform(0.05, 0.5, 8)
    for j, slope in enumerate(problem.gradient(s)):
        step = np.zeros(8)
        step[j] = 1e-6
        assert slope == pytest.approx((problem.value(s + step) - problem.value(s - step)) / 2e-6, rel=1e-5, abs=1e-6)


def test_links_without_weights_and_refusals_keep_their_bytes() -> None:
    R = random_matrix(60, 15, 0.3, seed=3)
    plain, config = Interactions.from_matrix(R), LinkConfig(2.0, refusal_weight=1.0)
    same = replace(plain, by_user=replace(plain.by_user, weights=np.ones(plain.nnz, dtype=np.float32)))
    expected = fit_links(plain.by_item, plain.by_user, config, n_features=15)
    for data in (same, plain.with_refusals(random_refusals(R))):
        assert (fit_links(data.by_item, data.by_user, config, n_features=15) != expected).nnz == 0
    heavy = replace(config, refusal_weight=9.0)
    assert (fit_links(data.by_item, data.by_user, heavy, n_features=15) != expected).nnz > 0


def test_links_have_the_same_bytes_for_any_number_of_threads() -> None:
    data = data_of(random_matrix(200, 60, 0.2))
    one, many = (
        fit_links(data.by_item, data.by_user, replace(EXACT, n_threads=n, tol=1e-3), n_features=60) for n in (1, 3)
    )
    assert one.data.tobytes() == many.data.tobytes()


def test_a_sample_of_a_long_row_takes_its_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client is there twice: every second one with the right weights says the same as all."""
    once = data_of(random_matrix(200, 6, 0.5, seed=0), "weights")
    twice = Interactions.from_matrix(np.repeat(once.to_matrix().toarray(), 2, axis=0))
    twice = twice.weighted(once.by_user.take(np.repeat(np.arange(200), 2)).weights)
    whole = fit_links(twice.by_item, twice.by_user, EXACT, n_features=6).toarray()
    monkeypatch.setattr(links_module, "MAX_ROWS", int(np.ceil(twice.by_item.degrees.max() / 2)))
    sampled = fit_links(twice.by_item, twice.by_user, EXACT, n_features=6).toarray()
    assert (whole > 0).any()
    np.testing.assert_allclose(sampled, whole, atol=2e-3)


@pytest.mark.parametrize(("kind", "message"), [("weights", "of equal weight"), ("refusals", "expected no refusals")])
def test_least_squares_refuse_them(kind: str, message: str) -> None:
    data = data_of(random_matrix(20, 6, 0.4), kind)
    with pytest.raises(ConfigError, match=rf"{message}.*use link_loss={LIKELIHOOD}"):
        fit_links(data.by_item, data.by_user, replace(EXACT, loss=SQUARES), n_features=6)


# ------------------------------------------------------------------------------------------------------------ the data


def entries(data: Interactions) -> dict[tuple[Any, Any], float]:
    """The weight of every pair by name."""
    assert data.weights is not None
    users, items = data.user_labels[data.pair_users], data.item_labels[data.by_user.indices]
    return dict(zip(zip(users.tolist(), items.tolist(), strict=True), data.weights.tolist(), strict=True))


def refused_names(data: Interactions) -> set[tuple[Any, Any]]:
    assert data.refusals is not None
    users = np.repeat(data.user_labels, data.refusals.degrees)
    return set(zip(users.tolist(), data.item_labels[data.refusals.indices].tolist(), strict=True))


def test_weights_and_refusals_stay_with_their_pairs() -> None:
    R, rng = random_matrix(12, 9, 0.3), np.random.default_rng(0)
    names = rng.permutation([f"client {n:02}" for n in range(12)]), rng.permutation([f"product {n}" for n in range(9)])
    data = replace(data_of(R), user_labels=names[0].astype(object), item_labels=names[1].astype(object))
    weights, refused = entries(data), refused_names(data)
    ordered = Ordering.of(data).sort(data)
    assert ordered.user_labels.tolist() == sorted(names[0])
    assert entries(ordered) == weights
    assert refused_names(ordered) == refused

    mask = rng.random(data.nnz) < 0.5
    part = data.where(mask)
    kept = [pair for pair, stays in zip(weights, mask, strict=True) if stays]
    assert entries(part) == {pair: weights[pair] for pair in kept}
    assert refused_names(part) == refused

    turned = data.by_item
    assert turned.weights is not None
    assert turned.refused is not None
    assert turned.weights.tolist() == data.by_user.weights[data.pairs_by_item].tolist()  # type: ignore[index]
    assert (data.refusals.matrix(9).toarray() == turned.refused.matrix(12).toarray().T).all()  # type: ignore[union-attr]
    some = np.array([7, 2, 2])
    taken = data.by_user.take(some)
    assert taken.refused is not None
    rows = np.split(data.weights, data.by_user.indptr[1:-1])  # type: ignore[arg-type]
    assert taken.weights.tolist() == np.concatenate([rows[u] for u in some]).tolist()  # type: ignore[union-attr]
    assert [taken.refused[r].tolist() for r in range(3)] == [data.refusals[u].tolist() for u in some]  # type: ignore[index]


def test_a_fingerprint_tells_weights_and_refusals_apart() -> None:
    R = random_matrix()
    prints = [Interactions.from_matrix(R).fingerprint(), *(data_of(R, kind).fingerprint() for kind in KINDS)]
    assert len(set(prints)) == 4


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, 1e-60])
def test_weights_must_be_above_zero(bad: float) -> None:
    data = Interactions.from_matrix(np.eye(3))
    with pytest.raises(DataError, match=r"expected weights above zero, got .* \(1 of 3\); leave out pairs"):
        data.weighted([1.0, bad, 2.0])


def test_there_must_be_a_weight_for_each_pair() -> None:
    with pytest.raises(DataError, match=r"expected a weight for each of 3 pairs, got shape \(2,\)"):
        Interactions.from_matrix(np.eye(3)).weighted([1.0, 2.0])
    with pytest.raises(DataError, match="expected a number as the weight"):
        Interactions.from_matrix(np.eye(3)).weighted(["a", "b", "c"])
