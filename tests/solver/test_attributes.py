"""Attributes in the likelihood: the definition, kernels against it, and what a fit with attributes must do."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import consensus_score
from support import Array, distance, needs_warp, parameters_of, random_matrix

from ocular import Interactions
from ocular.errors import ArtifactError, ConfigError, DataError
from ocular.explain.coclusters import find_members
from ocular.solver import objective
from ocular.solver.attribute_objective import AttributeRowProblem, AttributeTerm
from ocular.solver.attribute_steps import AttributeSide
from ocular.solver.attributes import Attributes, Categories, SideAttributes, Tags
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import BIAS_COLUMN, FitConfig, State
from ocular.solver.cpu import CpuBackend, fold_in_attributes
from ocular.solver.devices import open_backend
from ocular.solver.fit import FitResult, run_fit
from ocular.solver.pool import RowPool
from ocular.solver.start.initial import initial_state
from ocular.synthetic import planted

R = random_matrix(60, 40)
DATA = Interactions.from_matrix(R)
CONFIG = FitConfig(5, 0.5, init="overlap", seed=3, n_threads=1, attribute_strength=0.7, tol=0.0, max_iter=12)
VARIANTS: dict[str, dict[str, Any]] = {
    "ocular": {},
    "relative": {"relative": True, "regularization": 2.0},
    "bias": {"bias": True},
    "paper line search": {"line_search": "paper"},
    "strong": {"attribute_strength": 20.0},
    "many co-clusters": {"n_coclusters": 71},
}


def made_up(n: int, seed: int) -> Attributes:
    """Two attributes with one value per row and one with any number, all with missing values; more than a block."""
    rng = np.random.default_rng(seed)
    known = rng.random(n) < 0.8
    tags = (rng.random((n, 70)) < 0.15) & known[:, None]
    return Attributes.of(
        n,
        [
            Categories(rng.integers(-1, 4, n), 4),
            Tags(sp.csr_array(tags.astype(np.int8)), known),
            Categories(rng.integers(-1, 2, n), 2),
        ],
    )


BOTH = SideAttributes(made_up(60, 1), made_up(40, 2))


def fit(
    config: FitConfig = CONFIG,
    attributes: SideAttributes | None = BOTH,
    checkpoint: Checkpoint | None = None,
    data: Interactions = DATA,
) -> FitResult:
    backend = CpuBackend(data, config, attributes=attributes)
    try:
        options: dict[str, Any] = {"checkpoint": checkpoint, "attributes": attributes}
        return run_fit(data, config, backend, lambda: initial_state(data, config), **options)
    finally:
        backend.close()


def state_bytes(state: State) -> list[bytes]:
    arrays = (
        state.user_factors, state.item_factors, state.user_steps, state.item_steps, state.user_attribute_weights,
        state.item_attribute_weights, np.array([state.bias, *state.objectives]),
    )  # fmt: skip
    return [b"" if array is None else np.asarray(array).tobytes() for array in arrays]


def random_weights(attributes: Attributes, K: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 1, (attributes.n_weights, K + 1))


# ----------------------------------------------------------------------------------------------------- the definition


def test_the_term_by_hand() -> None:
    """Three values, two memberships: P = softmax over −⟨w', f'⟩ and 0 for the last value."""
    attributes = Attributes.of(3, [Categories(np.array([0, 2, -1]), 3)])
    F = np.array([[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]])
    W = np.array([[0.5, -1.0, 0.25], [-0.5, 0.0, 0.0]])
    first = np.exp([-0.75, 0.5])  # values 0 and 1 of the first row; the last has 1
    second = np.exp([1.75, 0.0])
    expected = -np.log(first[0] / (1 + first.sum())) - np.log(1 / (1 + second.sum()))
    term = AttributeTerm.of(attributes, 2.0)
    assert term.row_values(F, W).sum() == pytest.approx(2 * expected)
    assert term.row_values(F, W)[2] == 0  # not known: nothing
    assert term.value(F, W) == pytest.approx(2 * (expected + term.ridge * (W**2).sum()))


def test_several_values_are_a_binary_attribute_each() -> None:
    rng = np.random.default_rng(0)
    tags = (rng.random((9, 4)) < 0.4).astype(np.int64)
    together = Attributes.of(9, [Tags(sp.csr_array(tags))])
    apart = Attributes.of(9, [Categories(1 - tags[:, k], 2) for k in range(4)])  # the value without weights: no tag
    F, W = rng.random((9, 3)), random_weights(together, 3)
    assert AttributeTerm.of(together, 1.0).value(F, W) == pytest.approx(AttributeTerm.of(apart, 1.0).value(F, W))


def test_gradients_are_those_of_finite_differences() -> None:
    attributes = made_up(12, 0)
    term, F = AttributeTerm.of(attributes, 1.3), np.random.default_rng(1).random((12, 3))
    W, h = random_weights(attributes, 3), 1e-6
    for analytic, at in ((term.factor_gradient(F, W), F), (term.weight_gradient(F, W), W)):
        numeric = np.empty_like(at)
        for index in np.ndindex(*at.shape):
            before = at[index]
            at[index] = before + h
            above = term.value(F, W)
            at[index] = before - h
            numeric[index] = (above - term.value(F, W)) / (2 * h)
            at[index] = before
        np.testing.assert_allclose(analytic, numeric, rtol=1e-5, atol=1e-6)


def test_the_curvature_of_a_row_is_an_upper_bound() -> None:
    attributes = made_up(12, 0)
    term, F = AttributeTerm.of(attributes, 1.3), np.random.default_rng(1).random((12, 3))
    W, h = random_weights(attributes, 3), 1e-4
    for k in range(3):
        step = np.eye(3)[k] * h
        difference = term.factor_gradient(F + step, W) - term.factor_gradient(F - step, W)
        assert (difference[:, k] / (2 * h) <= term.factor_curvature(F, W)[:, k] + 1e-6).all()


def test_missing_values_are_not_observed() -> None:
    """A row without values says nothing about memberships and weights, as if it were not there."""
    codes = np.array([0, 1, 2, 1, 0, -1])
    tags = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 0]])
    with_it = Attributes.of(6, [Categories(codes, 3), Tags(sp.csr_array(tags), np.arange(6) < 5)])
    without = Attributes.of(5, [Categories(codes[:5], 3), Tags(sp.csr_array(tags[:5]))])
    F, W = np.random.default_rng(0).random((6, 2)), random_weights(with_it, 2)
    here, there = AttributeTerm.of(with_it, 1.0), AttributeTerm.of(without, 1.0)
    assert here.value(F, W) == pytest.approx(there.value(F[:5], W))
    assert (here.factor_gradient(F, W)[5] == 0).all()
    np.testing.assert_allclose(here.weight_gradient(F, W), there.weight_gradient(F[:5], W))
    np.testing.assert_array_equal(with_it.initial_weights(2), without.initial_weights(2))


# -------------------------------------------------------------------------------------------- kernels and definition


def weighted() -> tuple[Interactions, Array, Array]:
    """The purchases with weights, some others refused, and both as matrices."""
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.3, 3.0, DATA.nnz).astype(np.float32)
    refused = (rng.random(R.shape) < 0.1) & (R == 0)
    data = DATA.weighted(weights).with_refusals(Interactions.from_matrix(refused).by_user)
    given = R.copy()
    given[R > 0] = weights
    return data, given, refused.astype(np.float64)


def oracle_half(
    rows: Array, other: Array, positives: Array, pair_weights: Array, term: AttributeTerm, W: Array, config: FitConfig,
    bias: float, own: int, steps: Array,
) -> Array:  # fmt: skip
    """One step for every row of a side, by `AttributeRowProblem`; columns K and K + 1 are the biases."""
    K = config.n_coclusters
    ridge = np.array([config.regularization] * K + [0.0, 0.0])
    free = np.array([1.0] * K + [0.0, 0.0])
    free[own] = config.bias
    out, background = rows.copy(), config.background + bias
    for r in range(len(rows)):
        seen = positives[r] > 0
        total = np.where(seen, 1.0, pair_weights[r]) @ other
        fixed = other[seen], total, pair_weights[r, seen], background, ridge, free
        problem = AttributeRowProblem(*fixed, term.take(r), W)
        out[r], steps[r] = problem.step(
            rows[r], float(steps[r]), config.beta, config.sigma, config.line_search == "scaled"
        )
    return out


@pytest.mark.parametrize("variant", [*VARIANTS, "weights and refusals"])
def test_sweeps_are_those_of_the_definition(variant: str) -> None:
    config = replace(CONFIG, **VARIANTS.get(variant, {}))
    data, given, refused = weighted() if variant == "weights and refusals" else (DATA, None, None)
    weights = objective.user_weights(R, config.relative)
    pairs = objective.pair_weights(R, weights, given, refused, config.refusal_weight)
    K, start = config.n_coclusters, initial_state(data, config)
    terms = [AttributeTerm.of(side, config.attribute_strength) for side in BOTH if side is not None]
    user_W, item_W = (side.initial_weights(K).astype(np.float64) for side in BOTH if side is not None)
    columns = K + 2
    users, items = (np.zeros((len(f), columns)) for f in (start.user_factors, start.item_factors))
    for ours, theirs in ((users, start.user_factors), (items, start.item_factors)):
        n = min(columns, theirs.shape[1]) if config.bias else K
        ours[:, :n] = theirs[:, :n]
    bias = start.bias
    user_steps, item_steps = np.ones(60), np.ones(40)
    backend = CpuBackend(data, config, attributes=BOTH)
    backend.start(start)
    for sweep in range(1, 4):
        q = backend.sweep()
        if config.bias:
            now = objective.Parameters(
                users[:, :K], items[:, :K], users[:, K] * BIAS_COLUMN, items[:, K + 1] * BIAS_COLUMN, bias
            )
            bias = objective.updated_bias(R, now, pairs, config.background)
        items = oracle_half(items, users, R.T, pairs.T, terms[1], item_W, config, bias, K + 1, item_steps)
        for _ in range(2):
            item_W = terms[1].weight_step(items[:, :K], item_W)
        users = oracle_half(users, items, R, pairs, terms[0], user_W, config, bias, K, user_steps)
        for _ in range(2):
            user_W = terms[0].weight_step(users[:, :K], user_W)
        state = backend.state()
        assert distance(state.user_factors[:, :K], users[:, :K]) < 1e-4, f"users after sweep {sweep}"
        assert distance(state.item_factors[:, :K], items[:, :K]) < 1e-4, f"items after sweep {sweep}"
        assert distance(state.user_attribute_weights, user_W) < 1e-3, f"weights after sweep {sweep}"
        assert distance(state.item_attribute_weights, item_W) < 1e-3, f"weights after sweep {sweep}"
        assert q == pytest.approx(true_q(state, config, pairs), rel=1e-5), f"Q after sweep {sweep}"
    backend.close()


def true_q(state: State, config: FitConfig, pairs: Array | None = None) -> float:
    """Q of the purchases and the attributes by the definition; `pairs` are the weights of all pairs."""
    K, weights = config.n_coclusters, objective.user_weights(R, config.relative) if pairs is None else pairs
    p = parameters_of(state, config)
    total = objective.objective(R, p, weights, config.regularization, config.background)
    sides = (state.user_factors, state.user_attribute_weights), (state.item_factors, state.item_attribute_weights)
    for side, (factors, weights) in zip(BOTH, sides, strict=True):
        if side is not None and weights is not None:
            term = AttributeTerm.of(side, config.attribute_strength)
            total += term.value(factors[:, :K].astype(np.float64), weights.astype(np.float64))
    return total


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_objective_falls_and_is_true(variant: str) -> None:
    config = replace(CONFIG, max_iter=60, **VARIANTS[variant])
    state = fit(config).state
    assert (np.diff(state.objectives) <= 1e-6 * state.objectives[0]).all()
    assert state.objectives[-1] == pytest.approx(true_q(state, config), rel=1e-5)
    for array in (state.user_factors, state.item_factors):
        assert np.isfinite(array).all()
        assert array.min() >= 0


def test_the_weights_end_at_the_minimum_of_a_convex_problem() -> None:
    attributes, F = made_up(200, 3), np.zeros((200, 16), dtype=np.float32)
    F[:, :4] = np.random.default_rng(0).random((200, 4)) < 0.3
    config, weights = replace(CONFIG, n_coclusters=4), attributes.initial_weights(4)
    with RowPool(1) as pool:
        value = AttributeSide(attributes, config, pool).step_weights(weights, F, 400)
    term = AttributeTerm.of(attributes, config.attribute_strength)
    memberships = F[:, :4].astype(np.float64)
    assert value == pytest.approx(term.value(memberships, weights.astype(np.float64)), rel=1e-6)
    assert np.abs(term.weight_gradient(memberships, weights.astype(np.float64))).max() < 0.02
    assert np.abs(term.weight_gradient(memberships, attributes.initial_weights(4).astype(np.float64))).max() > 1


def test_the_weights_have_settled_at_the_end_of_a_fit() -> None:
    truth = planted(200, 300, 4, density=0.3, noise=0.02, random_state=1)
    codes = np.where(np.random.default_rng(0).random(300) < 0.8, truth.columns.argmax(axis=0), 4)
    attributes = Attributes.of(300, [Categories(codes, 5)])
    config = FitConfig(4, 2.0, seed=0, n_threads=1, attribute_strength=1.0)
    state = fit(config, SideAttributes(items=attributes), data=truth.interactions).state
    term, F = AttributeTerm.of(attributes, 1.0), state.item_factors[:, :4].astype(np.float64)
    weights = state.item_attribute_weights
    assert weights is not None
    value = term.value(F, weights.astype(np.float64))
    with RowPool(1) as pool:
        more = AttributeSide(attributes, config, pool).step_weights(weights, state.item_factors, 200)
    assert 0 <= value - more < 0.01 * value
    assert value < 0.8 * term.value(F, attributes.initial_weights(4).astype(np.float64))


def test_scores_of_any_size_give_numbers() -> None:
    attributes, config = made_up(40, 2), replace(CONFIG, attribute_strength=1e6, max_iter=5)
    state = fit(config, SideAttributes(None, attributes)).state
    assert np.isfinite(state.objectives).all()
    rows = np.full((40, 16), 1e4, dtype=np.float32)
    weights = random_weights(attributes, 5).astype(np.float32)
    with RowPool(1) as pool:
        assert np.isfinite(AttributeSide(attributes, config, pool).step_weights(weights, rows))
    assert np.isfinite(weights).all()


# ------------------------------------------------------------------------------------------------------- the same bytes


@pytest.mark.parametrize("changes", [{}, {"init": "seeds", "n_coclusters": 300}, {"bias": True}, {"init": "auto"}])
def test_zero_strength_is_the_fit_without_attributes(changes: dict[str, Any]) -> None:
    config = replace(CONFIG, attribute_strength=0.0, **changes)
    without, zero = fit(config, None).state, fit(config).state
    assert zero.user_attribute_weights is None
    for name in ("user_factors", "item_factors"):
        ours, theirs = getattr(without, name), getattr(zero, name)
        assert type(ours) is type(theirs)
        ours, theirs = (side if isinstance(side, np.ndarray) else side.toarray() for side in (ours, theirs))
        assert ours.tobytes() == theirs.tobytes()
    assert without.objectives == zero.objectives


def test_strength_changes_something() -> None:
    assert fit().state.item_factors.tobytes() != fit(attributes=None).state.item_factors.tobytes()


def test_any_number_of_threads_gives_the_same_bytes() -> None:
    data = planted(2500, 1500, 4, density=0.05, noise=0.002).interactions  # more than a block of rows
    attributes = SideAttributes(made_up(2500, 5), made_up(1500, 6))
    config = replace(CONFIG, max_iter=3)
    one, three = (fit(replace(config, n_threads=n), attributes, data=data).state for n in (1, 3))
    assert state_bytes(one) == state_bytes(three)


@pytest.mark.parametrize("attributes", [BOTH, BOTH._replace(users=None), BOTH._replace(items=None)])
@pytest.mark.parametrize("changes", [{}, {"bias": True}])
def test_a_stopped_fit_goes_on_with_the_same_bytes(
    tmp_path: Path, attributes: SideAttributes, changes: dict[str, Any]
) -> None:
    config, kept = replace(CONFIG, **changes), Checkpoint(tmp_path / "fit.npz")
    fit(replace(config, max_iter=5), attributes, kept)
    assert state_bytes(fit(config, attributes, kept).state) == state_bytes(fit(config, attributes).state)


def test_a_checkpoint_of_other_attributes_is_refused(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path / "fit.npz")
    fit(replace(CONFIG, max_iter=2), checkpoint=kept)
    for other in (SideAttributes(BOTH.users, made_up(40, 9)), None):
        with pytest.raises(ArtifactError, match="belongs to other attributes; delete it or choose another file"):
            fit(attributes=other, checkpoint=kept)
    with pytest.raises(ArtifactError, match=r"belongs to a fit with attribute_strength=0\.7"):
        fit(replace(CONFIG, attribute_strength=0.8), checkpoint=kept)


def test_a_state_is_taken_over_with_its_weights() -> None:
    backend = CpuBackend(DATA, CONFIG, attributes=BOTH)
    backend.start(fit(replace(CONFIG, max_iter=4)).state)
    expected = fit(replace(CONFIG, max_iter=5)).state
    assert backend.sweep() == expected.objectives[-1]
    backend.close()


# --------------------------------------------------------------------------------------------- what attributes are for


@pytest.mark.parametrize("seed", range(3))
def test_few_purchases_and_attributes_recover_planted_coclusters(seed: int) -> None:
    """A product's attribute is its co-cluster, known of four in five; a client bought about two things."""
    truth = planted(400, 60, 4, overlap=0.0, density=0.12, noise=0.01, random_state=seed)
    codes = truth.columns.argmax(axis=0)
    codes[::5] = -1
    attributes = SideAttributes(items=Attributes.of(60, [Categories(codes, 4)]))
    scores = []
    for strength in (0.0, 10.0):
        config = FitConfig(4, 1.0, init="random", seed=seed, n_threads=1, attribute_strength=strength)
        state = fit(config, attributes, data=truth.interactions).state
        members = find_members(*(sp.csr_array(f[:, :4]) for f in (state.user_factors, state.item_factors)))
        found = members.users.toarray().T > 0, members.items.toarray().T > 0
        scores.append(consensus_score(found, (truth.rows, truth.columns)))
    assert scores[1] > 1.5 * scores[0]
    assert scores[1] > 0.5


def test_several_attributes_are_learned_at_once() -> None:
    """Weights tell apart the values of an attribute that follows the co-clusters, and not those of a random one."""
    truth = planted(200, 90, 3, overlap=0.0, density=0.5, noise=0.01, random_state=0)
    group, rng = truth.columns.argmax(axis=0), np.random.default_rng(0)
    columns = [Categories(group, 3), Categories(rng.integers(0, 3, 90), 3)]
    attributes = Attributes.of(90, [*columns, Tags(sp.csr_array(np.eye(3, dtype=np.int8)[group]))])
    config = FitConfig(3, 1.0, seed=0, n_threads=1, attribute_strength=1.0)
    weights = fit(config, SideAttributes(items=attributes), data=truth.interactions).state.item_attribute_weights
    assert weights is not None
    spread = np.abs(weights[:, :-1]).max(axis=1)
    follows, at_random, tags = spread[:2], spread[2:4], spread[4:]
    assert follows.min() > 2 * at_random.max()
    assert tags.min() > 2 * at_random.max()


# ------------------------------------------------------------------------------------------------------------ new rows


def planted_fit() -> tuple[State, FitConfig, np.ndarray, np.ndarray]:
    truth = planted(300, 90, 3, overlap=0.0, density=0.5, noise=0.01, random_state=0)
    group = truth.columns.argmax(axis=0)
    attributes = SideAttributes(items=Attributes.of(90, [Categories(group, 3)]))
    config = FitConfig(3, 1.0, seed=0, n_threads=1, attribute_strength=3.0)
    return fit(config, attributes, data=truth.interactions).state, config, group, truth.rows


def test_a_new_row_gets_the_memberships_of_its_value() -> None:
    state, config, group, _ = planted_fit()
    new = Attributes.of(4, [Categories(np.array([0, 1, 2, -1]), 3)])
    mean = state.item_factors[:, :3].mean(axis=0)
    rows = fold_in_attributes(new, state.item_attribute_weights, config, prior=mean)
    for value in range(3):
        usual = state.item_factors[group == value, :3].mean(axis=0)
        assert rows[value].argmax() == usual.argmax()
    np.testing.assert_allclose(rows[3], mean, rtol=1e-3)  # nothing is known of it
    assert (fold_in_attributes(new, state.item_attribute_weights, config)[3] == 0).all()


def test_a_new_row_with_buyers_is_at_the_minimum_of_its_problem() -> None:
    state, config, _, rows = planted_fit()
    buyers = np.flatnonzero(rows[1])[:5]
    one = Interactions.from_pairs(np.zeros(5, dtype=int), buyers, (1, 300)).by_user
    new, users = Attributes.of(1, [Categories(np.array([0]), 3)]), state.user_factors.astype(np.float64)[:, :3]
    weights = state.item_attribute_weights
    found = fold_in_attributes(new, weights, config, buyers=one, other=state.user_factors)[0].astype(np.float64)
    term = AttributeTerm.of(new, config.attribute_strength)
    fixed = np.ones(5), config.background, np.full(3, config.regularization), np.ones(3)
    problem = AttributeRowProblem(users[buyers], users.sum(axis=0), *fixed, term, weights.astype(np.float64))
    gradient, curvature = problem.slopes(found)
    movable = np.where(found > 0, gradient, np.minimum(gradient, 0))
    assert np.abs(movable / curvature).max() < 1e-2
    plain = fold_in_attributes(new, weights, config)[0].astype(np.float64)
    assert problem.value(found) < problem.value(plain) - 0.1  # the buyers count


def test_a_new_row_does_not_depend_on_the_others() -> None:
    state, config, _, _ = planted_fit()
    codes = np.array([0, 1, 2, -1, 2])
    together = fold_in_attributes(Attributes.of(5, [Categories(codes, 3)]), state.item_attribute_weights, config)
    for row, code in zip(together, codes, strict=True):
        alone = Attributes.of(1, [Categories(np.array([code]), 3)])
        np.testing.assert_array_equal(fold_in_attributes(alone, state.item_attribute_weights, config)[0], row)


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "expected at least one attribute, got none; leave attributes out"),
        ([Categories(np.array([0, 1]), 2)], "expected 3 whole numbers as codes of an attribute, got int64 (2,)"),
        ([Categories(np.array([0.0, 1, 1]), 2)], "expected 3 whole numbers as codes of an attribute, got float64 (3,)"),
        ([Categories(np.zeros(3, dtype=int), 1)], "expected an attribute with at least 2 values, got 1; leave it out"),
        ([Categories(np.array([0, 1, 2]), 2)], "from 0 to 1, or -1 where it is not known, got 2"),
        ([Categories(np.array([0, 1, -2]), 2)], "from 0 to 1, or -1 where it is not known, got -2"),
        (
            [Tags(sp.csr_array(np.ones((2, 2))))],
            "expected the values of an attribute as 3 rows, got a matrix of (2, 2)",
        ),
        ([Tags(sp.csr_array(2 * np.eye(3)))], "expected 0 or 1 for each value of an attribute, got other numbers"),
        ([Tags(sp.csr_array(np.eye(3)), np.ones(2, dtype=bool))], "expected for 3 rows whether an attribute is known"),
        ([Tags(sp.csr_array(np.eye(3)), np.arange(3) < 2)], "expected no values of an attribute in rows where it is"),
    ],
)
def test_what_are_no_attributes_is_one_line(columns: list[Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        Attributes.of(3, columns)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("strength", [-1, float("nan"), float("inf"), "much", True])
def test_a_strength_that_makes_no_sense_is_one_line(strength: Any) -> None:
    with pytest.raises(ConfigError, match="expected attribute_strength to be a number from 0 to 1e"):
        FitConfig(attribute_strength=strength)


def test_attributes_of_other_rows_are_refused() -> None:
    with pytest.raises(DataError, match="expected attributes of 40 items, got 60 rows"):
        CpuBackend(DATA, CONFIG, attributes=SideAttributes(items=made_up(60, 1)))


def test_weights_of_other_attributes_are_refused() -> None:
    state, config, _, _ = planted_fit()
    other = Attributes.of(1, [Categories(np.array([0]), 7)])
    with pytest.raises(DataError, match=r"expected weights of shape \(6, 4\) for these attributes, got \(2, 4\)"):
        fold_in_attributes(other, state.item_attribute_weights, config)


@needs_warp
def test_attributes_are_fitted_on_the_cpu_only() -> None:
    message = "expected attribute_strength=0 on warp-cpu, got 0.7: attributes in the likelihood are fitted on the CPU"
    with pytest.raises(ConfigError, match=message):
        open_backend("warp-cpu", DATA, CONFIG, BOTH)


def test_the_state_before_a_fit_is_left_alone() -> None:
    """What a caller gives is not changed by attributes that were made from it."""
    before = deepcopy(BOTH)
    fit()
    assert before.fingerprint() == BOTH.fingerprint()
