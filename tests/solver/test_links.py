"""Links against their definition: values by hand, gradients by finite differences, the conditions of a minimum."""

from __future__ import annotations

from dataclasses import replace
from math import expm1, log

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from support import Array, random_matrix

from ocular import Interactions
from ocular.errors import ConfigError
from ocular.solver import links as links_module
from ocular.solver.link_kernels import choose
from ocular.solver.links import LOSSES, SQUARES, LinkConfig, fit_links
from ocular.solver.objective import LinkProblem, SquaresProblem
from ocular.synthetic import planted, skewed

EXACT = LinkConfig(regularization=2.0, n_links=100, max_iter=20_000, tol=0.0)
BACKGROUND = EXACT.background


def product_links(data: Interactions, config: LinkConfig, weights: Array | None = None) -> sp.csr_array:
    given = None if weights is None else weights.astype(np.float32)
    return fit_links(data.by_item, data.by_user, config, n_features=data.n_items, weights=given)


def test_the_value_by_hand() -> None:
    #      t  a  b
    R = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    problem = LinkProblem.of(R, 0, ridge=0.5, background=0.1, weights=np.array([1.0, 2.0, 9.0]))
    s = np.array([7.0, 0.2, 0.3])  # the target's own entry has no effect but on the ridge
    expected = -log(-expm1(-0.3)) - 2 * log(-expm1(-0.6)) + (0.2 + 0.3) + 0.5 * (49 + 0.04 + 0.09)
    assert problem.value(s) == pytest.approx(expected)


def test_the_gradient_by_finite_differences() -> None:
    R = random_matrix(30, 8, 0.4, seed=1)
    problem = LinkProblem.of(R, 3, ridge=1.5, background=1e-3, weights=np.random.default_rng(0).uniform(1, 3, 30))
    s = np.random.default_rng(2).uniform(0.05, 0.5, 8)
    for j, slope in enumerate(problem.gradient(s)):
        ahead, behind = s.copy(), s.copy()
        ahead[j] += 1e-6
        behind[j] -= 1e-6
        assert slope == pytest.approx((problem.value(ahead) - problem.value(behind)) / 2e-6, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_links_are_the_minimum(weighted: bool) -> None:
    """By the Karush-Kuhn-Tucker conditions, and by the value that a general solver finds."""
    R = random_matrix(60, 15, 0.3, seed=3)
    weights = np.random.default_rng(4).uniform(1, 4, 60) if weighted else None
    S = product_links(Interactions.from_matrix(R), EXACT, weights).toarray().astype(np.float64)
    assert (np.diag(S) == 0).all()
    assert (S > 0).sum() > 30
    for t in range(15):
        problem, s, others = (
            LinkProblem.of(R, t, EXACT.regularization, BACKGROUND, weights),
            S[:, t],
            np.arange(15) != t,
        )
        slope = problem.gradient(s)[others]
        assert slope.min() > -0.05  # nothing would be gained by a stronger link
        assert np.abs(s[others] * slope).max() < 2e-3  # nor by a weaker one, unless it is zero already
        best = minimize(problem.value, s, jac=problem.gradient, bounds=[(0, None)] * 15, method="L-BFGS-B")
        assert problem.value(s) == pytest.approx(best.fun, rel=1e-5)


def test_peers_are_links_of_the_transposed_matrix() -> None:
    R = random_matrix(20, 40, 0.3, seed=5)
    data, turned = Interactions.from_matrix(R), Interactions.from_matrix(R.T)
    peers = fit_links(data.by_user, data.by_item, EXACT, n_features=20)
    assert (peers != product_links(turned, EXACT)).nnz == 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_threads", [2, 5])
def test_any_number_of_threads_gives_the_same_bytes(n_threads: int, loss: str) -> None:
    data = skewed(300, 700, 6000, random_state=0)
    one, many = (product_links(data, LinkConfig(10.0, n_threads=n, loss=loss)) for n in (1, n_threads))
    for part in ("indptr", "indices", "data"):
        assert getattr(one, part).tobytes() == getattr(many, part).tobytes()


def test_an_order_of_rows_does_not_matter() -> None:
    data = skewed(200, 80, 3000, random_state=1)
    order, columns = np.random.default_rng(0).permutation(200), np.random.default_rng(1).permutation(80)
    shuffled = Interactions.from_matrix(data.to_matrix()[order][:, columns])
    straight, turned = product_links(data, EXACT).toarray(), product_links(shuffled, EXACT).toarray()
    np.testing.assert_allclose(turned, straight[np.ix_(columns, columns)], atol=1e-3)


def test_links_find_what_belongs_together() -> None:
    market = planted(400, 40, 4, overlap=0.0, density=0.8, noise=0.01, random_state=0)
    S = product_links(market.interactions, LinkConfig(10.0)).toarray()
    together = (market.columns.T.astype(int) @ market.columns.astype(int)) > 0
    np.fill_diagonal(together, False)
    apart = ~together & ~np.eye(40, dtype=bool)
    assert S[together].mean() > 20 * S[apart].mean()


def test_only_as_many_links_as_asked_for() -> None:
    data = skewed(300, 60, 5000, random_state=2)
    few = product_links(data, replace(EXACT, n_links=5))
    assert np.diff(few.tocsc().indptr).max() <= 5


@pytest.mark.parametrize("loss", LOSSES)
def test_the_strongest_links_that_carry_most_of_the_sum_are_kept(loss: str) -> None:
    data, config = Interactions.from_matrix(random_matrix(80, 25, 0.3, seed=9)), replace(EXACT, loss=loss)
    whole = product_links(data, config).toarray()
    kept = product_links(data, replace(config, kept_share=0.8)).toarray()
    for t in range(25):
        strongest = np.sort(whole[:, t])[::-1].astype(np.float64)
        n = int(np.searchsorted(np.cumsum(strongest), 0.8 * strongest.sum())) + 1  # the fewest that carry 0.8
        assert 0 < n < (whole[:, t] > 0).sum()
        np.testing.assert_array_equal(kept[:, t], np.where(whole[:, t] >= strongest[n - 1], whole[:, t], 0))


def test_a_product_without_co_purchases_has_no_links() -> None:
    S = product_links(Interactions.from_matrix(np.eye(4)), EXACT)
    assert S.nnz == 0
    empty = np.zeros((4, 3))
    empty[:, :2] = 1
    assert product_links(Interactions.from_matrix(empty), EXACT).tocsc().indptr[-1] == 2  # of two products, one each


def test_a_sample_of_a_very_long_row_gives_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted(8000, 30, 3, overlap=0.3, density=0.7, noise=0.02, random_state=0).interactions
    whole = product_links(data, LinkConfig(10.0)).toarray()
    monkeypatch.setattr(links_module, "MAX_ROWS", 900)
    monkeypatch.setattr(links_module, "MAX_FEATURES", 8)
    sampled = product_links(data, LinkConfig(10.0)).toarray()
    assert (whole != sampled).any()
    assert np.corrcoef(whole.ravel(), sampled.ravel())[0, 1] > 0.8


def test_the_slope_of_squares_by_finite_differences() -> None:
    problem = SquaresProblem.of(random_matrix(30, 8, 0.4, seed=1), 3, ridge=1.5)
    s = np.random.default_rng(2).uniform(0.05, 0.5, 8)
    for j, slope in enumerate(problem.gradient(s)):
        step = np.zeros(8)
        step[j] = 1e-6
        assert slope == pytest.approx((problem.value(s + step) - problem.value(s - step)) / 2e-6, rel=1e-5, abs=1e-5)


def test_links_by_squares_are_the_minimum() -> None:
    R = random_matrix(60, 15, 0.3, seed=3)
    S = product_links(Interactions.from_matrix(R), replace(EXACT, loss=SQUARES)).toarray().astype(np.float64)
    assert (np.diag(S) == 0).all()
    assert (S > 0).sum() > 30
    for t in range(15):
        problem, s, others = SquaresProblem.of(R, t, EXACT.regularization), S[:, t], np.arange(15) != t
        slope = problem.gradient(s)[others]
        assert slope.min() > -1e-2
        assert np.abs(s[others] * slope).max() < 1e-4
        best = minimize(problem.value, s, jac=problem.gradient, bounds=[(0, None)] * 15, method="L-BFGS-B")
        assert problem.value(s) == pytest.approx(best.fun, rel=1e-6)


def test_squares_are_refused_where_they_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    data, squares = Interactions.from_matrix(random_matrix(20, 6, 0.4, seed=0)), replace(EXACT, loss=SQUARES)
    with pytest.raises(ConfigError, match="of equal weight"):
        product_links(data, squares, np.full(20, 2.0))
    monkeypatch.setattr(links_module, "MAX_SQUARES", 5)
    with pytest.raises(
        ConfigError, match="expected at most 5 products for least squares, got 6; use link_loss=likelihood"
    ):
        product_links(data, squares)


@pytest.mark.parametrize("n_links", [1, 3, 7, 40])
def test_candidates_are_the_largest_by_count_over_root_total(n_links: int) -> None:
    rng = np.random.default_rng(0)
    totals = rng.integers(1, 50, 40).astype(np.float32)
    count = np.minimum(rng.integers(0, 20, 40), totals).astype(np.int32)
    chosen = np.empty(n_links, dtype=np.int32)
    n = choose(np.arange(40, dtype=np.int32), count, (1 / np.sqrt(totals)).astype(np.float32), n_links, chosen)
    scores = count / np.sqrt(totals)
    best = np.sort(scores)[::-1][:n_links]
    assert n == min(n_links, (count > 0).sum())
    np.testing.assert_allclose(np.sort(scores[chosen[:n]])[::-1], best[:n], rtol=1e-6)
