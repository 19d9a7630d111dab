"""The start from baskets: sparse, nobody left out, and modest in what it expects."""

from __future__ import annotations

import numpy as np
import pytest

from ocular import Interactions, OCuLaR
from ocular.solver.config import FitConfig
from ocular.solver.start.initial import initial_state
from ocular.solver.start.rows import LocalInteractions
from ocular.solver.start.seeds import EXPECTED, MAX_MEMBERSHIPS, seed_rows
from ocular.synthetic import skewed


@pytest.mark.parametrize("K", [1, 30, 500])
def test_rows_are_sparse_and_expect_their_share(K: int) -> None:
    data = skewed(300, 200, 3000, random_state=2)
    users, items = seed_rows(LocalInteractions(data, 1), FitConfig(K, seed=0))
    for rows, side in ((users, data.by_user), (items, data.by_item)):
        sizes = np.diff(rows.indptr)
        assert sizes.max() <= MAX_MEMBERSHIPS
        assert (sizes >= (side.degrees > 0)).all()
        assert (rows.data > 0).all()
        assert rows.indices.max() < K
    expected = items @ users.sum(axis=0)
    usual = np.median(expected[data.by_item.degrees > 0] / data.by_item.degrees[data.by_item.degrees > 0])
    assert usual == pytest.approx(EXPECTED, rel=0.05)


def test_who_shares_nothing_with_any_basket_is_not_lost() -> None:
    """One co-cluster for two worlds: the basket is of one of them, and the other must be able to move."""
    worlds = np.kron(np.eye(2), np.ones((20, 10)))
    users, items = seed_rows(LocalInteractions(Interactions.from_matrix(worlds), 1), FitConfig(1, seed=0))
    assert (np.diff(users.indptr) > 0).all()
    assert (np.diff(items.indptr) > 0).all()


def test_single_purchases_are_baskets_too_but_last() -> None:
    singles = np.eye(40)[np.arange(200) % 40]
    pairs = np.zeros((3, 40))
    pairs[:, :2] = 1
    data = Interactions.from_matrix(np.vstack([singles, pairs]))
    few, many = (seed_rows(LocalInteractions(data, 1), FitConfig(K, seed=0))[1] for K in (3, 203))
    assert np.flatnonzero(few[[0]].toarray()).size > 0
    assert len(np.unique(many.indices)) > 150  # a co-cluster each, not halves of three baskets


@pytest.mark.parametrize("matrix", [[[1]], [[1, 0], [0, 1]], [[1], [1], [0]], [[0, 0], [0, 1]]])
def test_the_smallest_data(matrix: list[list[int]]) -> None:
    model = OCuLaR(3, 0.1, init="seeds", random_state=0).fit(np.array(matrix))
    assert np.isfinite(model.objective_)


def test_the_usual_start_is_this_one_where_purchases_are_few() -> None:
    few, many = skewed(8000, 6000, 60_000, random_state=0), skewed(1500, 1000, 60_000, random_state=0)
    config = FitConfig(500, seed=0)
    assert not isinstance(initial_state(few, config).user_factors, np.ndarray)
    assert isinstance(initial_state(many, config).user_factors, np.ndarray)
