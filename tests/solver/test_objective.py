"""The oracle itself: values by hand, gradients by finite differences, and what the steps promise."""

from __future__ import annotations

from dataclasses import fields, replace
from math import exp, expm1, log
from typing import Any

import numpy as np
import pytest
from support import Array, random_matrix

from ocular.solver import kernels, objective
from ocular.solver.objective import Parameters, RowProblem

#         i0  i1  i2
#   u0     1   .   .
#   u1     1   1   .
TINY = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
MEMBERS = Parameters(
    user_factors=np.array([[1.0, 0.0], [2.0, 1.0]]),
    item_factors=np.array([[0.5, 0.0], [0.0, 3.0], [1.0, 1.0]]),
    user_bias=np.zeros(2),
    item_bias=np.zeros(3),
    bias=0.0,
)
# ⟨f_u, f_i⟩ of MEMBERS: u0: 0.5, 0, 1;  u1: 1, 3, 3
BIASED = replace(MEMBERS, user_bias=np.array([0.1, 0.2]), item_bias=np.array([0.01, 0.02, 0.03]), bias=0.5)
SQUARES = (1 + 4 + 1) + (0.25 + 9 + 1 + 1)


def minus_log_probability(z: float) -> float:
    return -log(1 - exp(-z))


@pytest.mark.parametrize(
    ("parameters", "weights", "regularization", "background", "expected"),
    [
        pytest.param(
            MEMBERS, [1, 1], 0.0, 0.25,
            minus_log_probability(0.75) + minus_log_probability(1.25) + minus_log_probability(3.25) + (0 + 1) + 3,
            id="plain",
        ),
        pytest.param(
            MEMBERS, [1, 1], 2.0, 0.25,
            minus_log_probability(0.75) + minus_log_probability(1.25) + minus_log_probability(3.25) + 4 + 2 * SQUARES,
            id="penalty",
        ),
        pytest.param(
            MEMBERS, [2, 0.5], 0.0, 0.25,
            2 * minus_log_probability(0.75)
            + 0.5 * (minus_log_probability(1.25) + minus_log_probability(3.25)) + 4,
            id="relative",
        ),
        pytest.param(
            BIASED, [1, 1], 1.0, 0.25,
            minus_log_probability(0.75 + 0.1 + 0.01 + 0.5)
            + minus_log_probability(1.25 + 0.2 + 0.01 + 0.5)
            + minus_log_probability(3.25 + 0.2 + 0.02 + 0.5)
            + (0 + 0.1 + 0.02 + 0.5) + (1 + 0.1 + 0.03 + 0.5) + (3 + 0.2 + 0.03 + 0.5)
            + SQUARES,  # biases carry no penalty
            id="bias",
        ),
    ],
)  # fmt: skip
def test_objective_by_hand(
    parameters: Parameters, weights: list[float], regularization: float, background: float, expected: float
) -> None:
    q = objective.objective(TINY, parameters, np.array(weights, dtype=float), regularization, background)
    assert q == pytest.approx(expected, rel=1e-12)


def test_an_unexplained_positive_costs_the_logarithm_of_the_background() -> None:
    nothing = Parameters(np.zeros((1, 1)), np.zeros((2, 1)), np.zeros(1), np.zeros(2), 0.0)
    q = objective.objective(np.array([[1.0, 0.0]]), nothing, np.ones(1), 30.0, 1e-12)
    assert q == pytest.approx(12 * log(10), rel=1e-9)  # an unknown of affinity background costs nothing


def test_weights_are_unknowns_per_positive() -> None:
    R = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=float)
    assert objective.user_weights(R, relative=True).tolist() == [3.0, 1 / 3, 0.0, 1.0]
    assert objective.user_weights(R, relative=False).tolist() == [1.0, 1.0, 1.0, 1.0]


def test_probability_is_accurate_for_tiny_affinities() -> None:
    z = np.array([1e-15, 1e-8, 0.5, 40.0])
    np.testing.assert_allclose(objective.probability(z), [-expm1(-x) for x in z], rtol=1e-15)


@pytest.fixture(params=[False, True], ids=["ocular", "relative"])
def problem(request: pytest.FixtureRequest) -> tuple[Array, Parameters, Array, float, float]:
    """R, parameters with every part positive, weights, λ and background."""
    rng = np.random.default_rng(5)
    R = random_matrix(8, 6, 0.4, seed=2)
    p = Parameters(rng.random((8, 3)), rng.random((6, 3)), rng.random(8), rng.random(6), 0.3)
    return R, p, objective.user_weights(R, request.param), 0.7, 0.05


@pytest.mark.parametrize("part", [field.name for field in fields(Parameters)])
def test_gradient_agrees_with_finite_differences(part: str, problem: Any) -> None:
    R, p, weights, regularization, background = problem
    h = 1e-6

    def q(value: Any) -> float:
        return objective.objective(R, replace(p, **{part: value}), weights, regularization, background)

    here = getattr(p, part)
    claimed = np.asarray(getattr(objective.gradient(R, p, weights, regularization, background), part))
    assert claimed.shape == np.shape(here)
    for place in np.ndindex(claimed.shape):
        shift = np.zeros(claimed.shape)
        shift[place] = h
        slope = (q(here + shift) - q(here - shift)) / (2 * h)
        assert claimed[place] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def row_problem(R: Array, p: Parameters, weights: Array, regularization: float, background: float) -> RowProblem:
    """The share of user 3, whose bias is a further column against a column of ones; item biases are a constant."""
    other = np.column_stack([p.item_factors, np.ones(R.shape[1]), p.item_bias])
    seen = R[3] > 0
    ridge = np.array([regularization] * 3 + [0.0, 0.0])
    free = np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    return RowProblem(other[seen], other.sum(axis=0), np.full(seen.sum(), weights[3]), background + p.bias, ridge, free)


def row_of(p: Parameters) -> Array:
    return np.r_[p.user_factors[3], p.user_bias[3], 1.0]


def test_row_value_differs_as_the_objective_does(problem: Any) -> None:
    R, p, weights, regularization, background = problem
    row = row_problem(*problem)
    users, bias = p.user_factors.copy(), p.user_bias.copy()
    users[3], bias[3] = [0.0, 2.0, 0.4], 0.9
    q = replace(p, user_factors=users, user_bias=bias)
    change = objective.objective(R, q, weights, regularization, background) - objective.objective(
        R, p, weights, regularization, background
    )
    assert abs(change) > 0.1
    assert row.value(row_of(q)) - row.value(row_of(p)) == pytest.approx(change, rel=1e-9)


def test_row_slopes_agree_with_finite_differences(problem: Any) -> None:
    row = row_problem(*problem)
    f = row_of(problem[1])
    first, second = row.slopes(f)
    for k in range(4):
        h = np.zeros(5)
        h[k] = 1e-4
        assert first[k] == pytest.approx((row.value(f + h) - row.value(f - h)) / 2e-4, rel=1e-6)
        assert second[k] == pytest.approx((row.value(f + h) - 2 * row.value(f) + row.value(f - h)) / 1e-8, rel=1e-4)
    assert first[4] == 0.0  # the constant against the other side's bias does not move


def test_row_slopes_are_the_gradient_of_the_whole(problem: Any) -> None:
    whole = objective.gradient(*problem)
    first, _ = row_problem(*problem).slopes(row_of(problem[1]))
    np.testing.assert_allclose(first[:3], whole.user_factors[3], rtol=1e-12)
    assert first[3] == pytest.approx(whole.user_bias[3], rel=1e-12)


@pytest.mark.parametrize("scaled", [True, False], ids=["scaled", "paper"])
def test_a_step_meets_the_armijo_condition_and_stays_in_bounds(scaled: bool, problem: Any) -> None:
    row = row_problem(*problem)
    f = row_of(problem[1])
    there, again = row.step(f, 1.0, beta=0.5, sigma=0.1, scaled=scaled)
    assert row.value(there) < row.value(f)
    assert row.value(there) - row.value(f) <= 0.1 * row.slopes(f)[0] @ (there - f)
    assert (there >= 0).all()
    assert there[4] == f[4]
    assert 0 < again <= objective.MAX_STEP


@pytest.mark.parametrize("scaled", [True, False], ids=["scaled", "paper"])
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("regularization", [0.0, 0.5, 50.0])
def test_reference_sweeps_never_increase_the_objective(scaled: bool, with_bias: bool, regularization: float) -> None:
    R = random_matrix(15, 10)
    rng = np.random.default_rng(1)
    p = Parameters(rng.random((15, 4)), rng.random((10, 4)), np.zeros(15), np.zeros(10), 0.1 if with_bias else 0.0)
    weights = objective.user_weights(R, relative=True)
    steps = np.ones(15), np.ones(10)
    objectives = [objective.objective(R, p, weights, regularization, 1e-4)]
    for _ in range(15):
        if with_bias:
            p = replace(p, bias=objective.updated_bias(R, p, weights, 1e-4))
        p, steps = objective.sweep(R, p, steps, weights, regularization, 1e-4, with_bias=with_bias, scaled=scaled)
        objectives.append(objective.objective(R, p, weights, regularization, 1e-4))
    falls = -np.diff(objectives)
    assert (falls >= -1e-12 * objectives[0]).all()
    assert objectives[-1] < 0.95 * objectives[0]
    assert min(p.user_factors.min(), p.item_factors.min(), p.user_bias.min(), p.item_bias.min()) >= 0
    assert with_bias or not (p.user_bias.any() or p.item_bias.any())


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("bias", [1e-6, 0.01, 0.3, 5.0])
def test_updating_the_overall_bias_never_increases_the_objective(relative: bool, bias: float) -> None:
    R = random_matrix(15, 10)
    rng = np.random.default_rng(1)
    weights = objective.user_weights(R, relative)
    p = Parameters(rng.random((15, 2)), rng.random((10, 2)), rng.random(15), rng.random(10), bias)
    objectives = []
    for _ in range(10):
        objectives.append(objective.objective(R, p, weights, 0.0, 1e-4))
        p = replace(p, bias=objective.updated_bias(R, p, weights, 1e-4))
    assert (np.diff(objectives) <= 1e-12 * objectives[0]).all()
    assert objectives[-1] < objectives[0]


def test_the_overall_bias_alone_learns_the_density() -> None:
    R = random_matrix(15, 10)
    p = Parameters(np.zeros((15, 1)), np.zeros((10, 1)), np.zeros(15), np.zeros(10), 0.5)
    for _ in range(100):
        p = replace(p, bias=objective.updated_bias(R, p, np.ones(15), 1e-9))
    assert -expm1(-p.bias) == pytest.approx(R.mean(), rel=1e-6)


def test_updating_the_overall_bias_of_a_full_matrix_in_relative_mode_stays_finite() -> None:
    """Every weight is 0 and there is no unknown: nothing to learn from, so the bias stays a number."""
    R = np.ones((3, 2))
    p = Parameters(np.ones((3, 1)), np.ones((2, 1)), np.zeros(3), np.zeros(2), 0.5)
    assert np.isfinite(objective.updated_bias(R, p, objective.user_weights(R, relative=True), 1e-4))


def test_kernels_have_the_constants_of_the_definition() -> None:
    """They are written out in both: Numba's cache does not see a change in another file."""
    for name in ("MAX_STEP", "MIN_STEP", "MIN_CURVATURE", "RESOLUTION"):
        assert getattr(kernels, name) == pytest.approx(getattr(objective, name), rel=1e-6)
