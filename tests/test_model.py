"""The estimator's contract: what goes in, what comes out, and every refusal in words."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import consensus_score
from support import all_pairs, distance, learned_bytes, parameters_of_model, random_matrix, true_objective

import ocular
from ocular import Interactions, OCuLaR
from ocular.data.splits import per_user_split
from ocular.errors import ConfigError, DataError, OcularError
from ocular.solver import objective
from ocular.synthetic import Planted

BACKGROUND = 1e-4


def estimator(**changes: Any) -> OCuLaR:
    """A fast one that neither converges nor warns."""
    return OCuLaR(**{"n_coclusters": 4, "regularization": 0.5, "tol": 0.0, "max_iter": 8, "random_state": 0, **changes})


# ------------------------------------------------------------------------------------------------------------- fitting


def with_unsorted_indices(R: np.ndarray) -> sp.csr_array:
    rows = [np.flatnonzero(row)[::-1] for row in R]
    indptr = np.cumsum([0, *map(len, rows)])
    return sp.csr_array((np.ones(indptr[-1]), np.concatenate(rows), indptr), shape=R.shape)


def with_explicit_zeros(R: np.ndarray) -> sp.csr_array:
    full = sp.csr_array(np.ones_like(R))
    full.data = R.ravel().copy()
    return full


@pytest.mark.parametrize(
    "as_input",
    [
        pytest.param(sp.csr_matrix, id="csr_matrix"),
        pytest.param(sp.csr_array, id="csr_array"),
        pytest.param(sp.csc_matrix, id="csc_matrix"),
        pytest.param(sp.csc_array, id="csc_array"),
        pytest.param(sp.coo_matrix, id="coo_matrix"),
        pytest.param(sp.coo_array, id="coo_array"),
        pytest.param(sp.lil_matrix, id="lil_matrix"),
        pytest.param(lambda R: R.tolist(), id="list"),
        pytest.param(lambda R: R.astype(bool), id="bool"),
        pytest.param(lambda R: R.astype(np.int8), id="int8"),
        pytest.param(lambda R: R.astype(np.float64), id="float64"),
        pytest.param(lambda R: np.asfortranarray(R.astype(np.float32)), id="fortran-float32"),
        pytest.param(lambda R: sp.csr_array(R.astype(bool)), id="sparse-bool"),
        pytest.param(with_explicit_zeros, id="explicit-zeros"),
        pytest.param(with_unsorted_indices, id="unsorted-indices"),
        pytest.param(Interactions.from_matrix, id="interactions"),
    ],
)
def test_any_matrix_of_zeros_and_ones_gives_the_same_bytes(bought: np.ndarray, as_input: Callable[..., Any]) -> None:
    given = as_input(bought)
    before = copy.deepcopy(given)
    assert learned_bytes(estimator().fit(given)) == learned_bytes(estimator().fit(bought))
    if sp.issparse(given):
        assert (given != before).nnz == 0
        assert given.nnz == before.nnz


def test_min_value_turns_ratings_into_positives(bought: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    ratings = np.where(bought, rng.integers(3, 6, bought.shape), rng.integers(0, 3, bought.shape))
    for given in (ratings, sp.coo_array(ratings)):
        assert learned_bytes(estimator(min_value=3).fit(given)) == learned_bytes(estimator().fit(bought))


def test_constructor_only_stores_and_clone_copies_every_parameter() -> None:
    changed = {
        "n_coclusters": -5, "regularization": "nonsense", "links": "l", "peers": (), "popularity": -9,
        "link_regularization": "m", "link_loss": 1, "peer_regularization": "p", "n_links": 0.5, "metric": 2,
        "validation": 3,
        "trend": "t", "trend_half_life": (1,),
        "taste": "t", "appeal": {}, "attribute_regularization": "a", "attribute_separator": 4,
        "relative": None, "bias": 3, "background": [], "half_life": (), "weights": 8, "refusal_weight": "c",
        "attribute_strength": "weak",
        "max_iter": "x", "tol": None, "beta": 7, "sigma": -1, "init": object, "line_search": 0, "min_value": "a",
        "device": "abacus", "n_threads": -2, "random_state": "s", "verbose": {},
    }  # fmt: skip
    model = OCuLaR(**changed)
    assert model.get_params() == changed
    assert all(getattr(model, name) is value for name, value in changed.items())
    assert clone(model).get_params() == changed
    assert OCuLaR().get_params().keys() == changed.keys()


def test_defaults_are_those_of_the_design() -> None:
    assert OCuLaR().get_params() | {"line_search": "scaled", "min_value": None} == {
        "n_coclusters": 100, "regularization": 30.0, "links": 0.0, "peers": None, "popularity": None,
        "link_regularization": None, "link_loss": None, "peer_regularization": None, "n_links": 500,
        "metric": "balanced", "validation": "auto",
        "relative": False, "bias": False, "background": 1e-4, "half_life": None, "weights": None,
        "refusal_weight": 10.0, "attribute_strength": 0.0, "trend": None, "trend_half_life": None,
        "taste": None, "appeal": None, "attribute_regularization": 1000.0, "attribute_separator": "|",
        "max_iter": 100, "tol": 1e-4, "beta": 0.5, "sigma": 0.1, "init": "auto", "line_search": "scaled",
        "min_value": None, "device": "cpu", "n_threads": None, "random_state": None, "verbose": False,
    }  # fmt: skip


def test_fit_returns_self_and_leaves_the_parameters_alone(bought: np.ndarray) -> None:
    model = estimator()
    before = model.get_params()
    assert model.fit(bought) is model
    assert model.get_params() == before
    assert model.set_params(max_iter=3).fit(bought).n_iter_ == 3


def test_a_clone_is_not_fitted_and_fits_to_the_same_bytes(model: OCuLaR, named: Interactions) -> None:
    other = clone(model)
    with pytest.raises(NotFittedError):
        other.recommend(0)
    assert learned_bytes(other.fit(named)) == learned_bytes(model)


@pytest.mark.parametrize("bias", [False, True])
def test_learned_attributes(bought: np.ndarray, bias: bool) -> None:
    model = estimator(bias=bias, max_iter=30).fit(bought)
    for factors, n in ((model.user_factors_, 60), (model.item_factors_, 40)):
        assert isinstance(factors, sp.csr_array)
        assert factors.shape == (n, 4)
        assert factors.dtype == np.float32
        assert factors.nnz == np.count_nonzero(factors.toarray())  # no zero is stored
        assert factors.data.min() > 0
    assert model.user_bias_.shape == (60,)
    assert model.item_bias_.shape == (40,)
    assert (model.bias_ > 0) == bias
    assert model.n_iter_ == len(model.history_)
    assert model.objective_ == model.history_[-1]
    assert all(isinstance(q, float) for q in model.history_)
    assert model.n_features_in_ == 40
    assert isinstance(model.interactions_, Interactions)
    assert model.objective_ == pytest.approx(true_objective(bought, parameters_of_model(model), model), rel=1e-5)


def test_most_memberships_of_a_converged_fit_are_zero(model: OCuLaR) -> None:
    assert model.user_factors_.nnz < 0.6 * 60 * 4
    assert model.item_factors_.nnz < 0.6 * 40 * 4


def test_a_refit_forgets_the_first_fit(bought: np.ndarray) -> None:
    import pandas as pd

    first = pd.DataFrame(random_matrix(25, 30, seed=9).astype(int), columns=[f"item {i}" for i in range(30)])
    model = estimator().fit(first)
    assert model.feature_names_in_.tolist() == list(first.columns)
    model.recommend(0, N=3)
    model.similar_items(0)
    model.fit(Interactions.from_matrix(bought))
    fresh = estimator().fit(bought)
    assert learned_bytes(model) == learned_bytes(fresh)
    assert model.rows_.shape == (4, 60)
    assert model.n_features_in_ == 40
    assert not hasattr(model, "feature_names_in_")
    for ours, theirs in zip(model.recommend(np.arange(60)), fresh.recommend(np.arange(60)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_seed_decides(bought: np.ndarray) -> None:
    one, again, other = (learned_bytes(estimator(random_state=seed).fit(bought)) for seed in (1, np.int64(1), 2))
    assert one == again
    assert one != other
    same = (np.random.RandomState(3), np.random.RandomState(3))
    assert learned_bytes(estimator(random_state=same[0]).fit(bought)) == learned_bytes(
        estimator(random_state=same[1]).fit(bought)
    )


def test_a_given_start_is_gone_on_from(bought: np.ndarray) -> None:
    """From a random start every early sweep lowers Q by percents, far more than the rounding of any processor."""
    first = estimator(init="random", max_iter=4).fit(bought)
    start = first.user_factors_, first.item_factors_.toarray().astype(np.float64)
    before = start[0].copy(), start[1].copy()
    further = estimator(init=start, max_iter=4, random_state=99).fit(bought)
    assert further.history_[0] < 0.97 * first.objective_
    # the second half of a longer fit, but for the remembered steps
    longer = estimator(init="random", max_iter=8).fit(bought)
    assert longer.objective_ < 0.9 * first.objective_
    assert further.objective_ == pytest.approx(longer.objective_, rel=0.01)
    assert (start[0] != before[0]).nnz == 0
    np.testing.assert_array_equal(start[1], before[1])


def test_a_converged_start_stays(model: OCuLaR, named: Interactions) -> None:
    again = clone(model).set_params(init=(model.user_factors_, model.item_factors_), tol=1e-4).fit(named)
    assert again.n_iter_ <= 3
    assert again.objective_ == pytest.approx(model.objective_, rel=1e-4)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_users_and_items_without_positives(bought: np.ndarray, relative: bool, bias: bool) -> None:
    R = bought.copy()
    R[11], R[:, 17] = 0, 0
    model = estimator(relative=relative, bias=bias, max_iter=40).fit(R)
    ids, probabilities = model.recommend(11, N=40)
    np.testing.assert_allclose(probabilities, model.predict_proba(11, ids), rtol=1e-5)
    assert not model.user_factors_[[11]].nnz
    assert not model.item_factors_[[17]].nnz
    assert model.recommend(0, N=1)[1][0] > 0.2
    if not bias:
        popularity = R.sum(axis=0)
        assert ids.tolist() == sorted(range(40), key=lambda i: (-popularity[i], i))
        np.testing.assert_allclose(probabilities, -np.expm1(-BACKGROUND), rtol=1e-5)
        np.testing.assert_allclose(model.predict_proba(np.arange(60), 17), -np.expm1(-BACKGROUND), rtol=1e-6)


# -------------------------------------------------------------------------------------------------------- recommending


def test_recommend_for_one_user_is_flat(model: OCuLaR) -> None:
    for user in (3, np.int64(3), np.array(3)):
        ids, probabilities = model.recommend(user, N=5)
        assert ids.shape == probabilities.shape == (5,)
        assert ids.dtype == np.int32
        assert probabilities.dtype == np.float32
        assert (np.diff(probabilities) <= 0).all()


def test_recommend_for_many_users_has_a_row_each_in_their_order(model: OCuLaR) -> None:
    for users in ([5, 2, 2], np.array([5, 2, 2], dtype=np.uint8), (5, 2, 2)):
        ids, probabilities = model.recommend(users, N=4)
        assert ids.shape == probabilities.shape == (3, 4)
        for row, user in enumerate(users):
            np.testing.assert_array_equal(ids[row], model.recommend(user, N=4)[0])
            np.testing.assert_array_equal(probabilities[row], model.recommend(user, N=4)[1])
    assert model.recommend([7])[0].shape == (1, 10)
    assert model.recommend(np.array([], dtype=int), N=3)[0].shape == (0, 3)
    assert model.recommend([], N=3)[0].shape == (0, 3)


@pytest.mark.parametrize("which", ["model", "biased"])
def test_recommended_probabilities_are_those_of_predict_proba(which: str, request: pytest.FixtureRequest) -> None:
    fitted: OCuLaR = request.getfixturevalue(which)
    users = np.arange(60)
    ids, probabilities = fitted.recommend(users, N=40, filter_already_liked_items=False)
    assert (np.sort(ids) == np.arange(40)).all()
    np.testing.assert_allclose(probabilities, fitted.predict_proba(users[:, None], ids), rtol=1e-5)


@pytest.mark.parametrize("which", ["model", "biased"])
def test_probabilities_are_those_of_the_definition(which: str, request: pytest.FixtureRequest) -> None:
    fitted: OCuLaR = request.getfixturevalue(which)
    z = objective.affinities(parameters_of_model(fitted), BACKGROUND)
    np.testing.assert_allclose(all_pairs(fitted), objective.probability(z), rtol=1e-6)


def test_predict_proba_broadcasts(model: OCuLaR) -> None:
    table = model.predict_proba(np.arange(3)[:, None], [5, 6])
    assert table.shape == (3, 2)
    assert model.predict_proba([0, 1, 2], [5, 5, 5]).tolist() == table[:, 0].tolist()
    assert model.predict_proba(1, [5, 6]).tolist() == table[1].tolist()
    assert model.predict_proba([1], 6).shape == (1,)
    single = model.predict_proba(1, 6)
    assert np.ndim(single) == 0
    assert float(single) == table[1, 1]


def test_owned_items_are_left_out_unless_wanted(model: OCuLaR, bought: np.ndarray) -> None:
    ids, _ = model.recommend(np.arange(60), N=40)
    for u in range(60):
        found = ids[u][ids[u] >= 0]
        assert sorted(found) == np.flatnonzero(bought[u] == 0).tolist()
    everything, _ = model.recommend(np.arange(60), N=40, filter_already_liked_items=False)
    assert bought[0, everything[0, :3]].all()  # what is owned is most probable


def test_fewer_items_than_asked_for(model: OCuLaR, bought: np.ndarray) -> None:
    ids, probabilities = model.recommend(0, N=100)
    left = (bought[0] == 0).sum()
    assert (ids[:left] >= 0).all()
    assert (ids[left:] == -1).all()
    assert np.isfinite(probabilities[:left]).all()
    assert np.isnan(probabilities[left:]).all()


def test_filter_items_and_items(model: OCuLaR) -> None:
    best, _ = model.recommend(0, N=40)
    best = best[best >= 0]
    without, _ = model.recommend(0, N=4, filter_items=best[:3])
    assert without.tolist() == best[3:7].tolist()
    only, probabilities = model.recommend(0, N=4, items=best[[6, 2]])
    assert only.tolist() == [best[2], best[6], -1, -1]
    assert np.isnan(probabilities[2:]).all()
    both, _ = model.recommend([0, 0], N=4, items=best[[6, 2]], filter_items=[int(best[2])])
    assert both.tolist() == [[best[6], -1, -1, -1]] * 2


def test_empty_restrictions_mean_what_they_say(model: OCuLaR) -> None:
    np.testing.assert_array_equal(model.recommend(0, filter_items=[])[0], model.recommend(0)[0])
    assert (model.recommend(0, items=[])[0] == -1).all()


def test_user_items_holds_a_row_for_each_id_or_for_every_user(model: OCuLaR, bought: np.ndarray) -> None:
    users = np.array([8, 3])
    mine = np.zeros((2, 40), dtype=int)
    mine[0, :30], mine[1, 10:] = 1, 1
    everybody = np.zeros((60, 40), dtype=int)
    everybody[users] = mine
    for rows in (mine, sp.csr_matrix(mine), everybody, sp.csr_array(everybody)):
        ids, _ = model.recommend(users, user_items=rows, N=40)
        for row, own in zip(ids, mine, strict=True):
            assert sorted(row[row >= 0]) == np.flatnonzero(own == 0).tolist()
    single, _ = model.recommend(8, user_items=sp.csr_matrix(mine[:1]), N=40)
    np.testing.assert_array_equal(single, model.recommend(users, user_items=mine, N=40)[0][0])
    # as many rows as ids are rows of the ids, whatever the ids are
    turned = np.arange(60)[::-1]
    ids, _ = model.recommend(turned, user_items=bought[turned], N=5)
    np.testing.assert_array_equal(ids, model.recommend(turned, N=5)[0])


def test_user_items_that_are_ratings_count_from_min_value(bought: np.ndarray) -> None:
    model = estimator(min_value=3).fit(bought * 4)
    ids, _ = model.recommend(0, user_items=np.r_[[5.0] * 30, [1.0] * 10][None], N=40)
    assert sorted(ids[ids >= 0]) == list(range(30, 40))


def test_recalculate_user_uses_the_given_row(model: OCuLaR, bought: np.ndarray) -> None:
    a, b = 0, int((bought @ bought[0] - bought.sum(axis=1)).argmin())  # they have next to nothing in common
    swapped, p = model.recommend(a, user_items=bought[[b]], recalculate_user=True, N=5)
    own, q = model.recommend(b, N=5)
    assert set(swapped[:3]) == set(own[:3])
    np.testing.assert_allclose(p, q, rtol=0.02)
    fitted, _ = model.recommend(a, user_items=bought[[b]], N=5)
    assert set(fitted[:3]) != set(own[:3])
    again, r = model.recommend(a, recalculate_user=True, N=5)
    np.testing.assert_allclose(r, model.recommend(a, N=5)[1], rtol=0.02)
    assert again.shape == (5,)


@pytest.mark.parametrize("changes", [{}, {"relative": True, "regularization": 5.0}, {"bias": True}])
def test_folding_in_a_training_row_gives_the_fitted_probabilities(bought: np.ndarray, changes: dict[str, Any]) -> None:
    """With the items fixed a row's problem is convex: its minimum is what a converged fit holds."""
    model = estimator(max_iter=2000, tol=1e-7, **changes).fit(bought)
    ids, folded = model.recommend(
        np.arange(60), user_items=bought, recalculate_user=True, N=40, filter_already_liked_items=False
    )
    np.testing.assert_allclose(folded, model.predict_proba(np.arange(60)[:, None], ids), atol=0.005)
    assert folded.max() > 0.7


def test_fold_in_gives_memberships_of_new_clients(model: OCuLaR, bought: np.ndarray) -> None:
    rows = model.fold_in(sp.csr_matrix(bought[:5]))
    assert isinstance(rows, sp.csr_array)
    assert rows.shape == (5, 4)
    assert rows.dtype == np.float32
    assert distance(rows.toarray(), model.user_factors_[:5].toarray()) < 0.01
    assert not model.fold_in(np.zeros((1, 40))).nnz
    assert model.fold_in(bought[0]).shape == (1, 4)  # a single row may be flat


def test_folding_in_does_not_depend_on_company(model: OCuLaR, bought: np.ndarray) -> None:
    together = model.fold_in(bought).toarray()
    np.testing.assert_allclose(model.fold_in(bought[[7]]).toarray()[0], together[7], rtol=1e-2, atol=1e-4)


def test_fold_in_does_not_depend_on_threads(model: OCuLaR, bought: np.ndarray) -> None:
    one, two = (copy.deepcopy(model).set_params(n_threads=n).fold_in(bought) for n in (1, 2))
    assert one.toarray().tobytes() == two.toarray().tobytes()


def cosines(rows: np.ndarray, row: int) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1)
    return rows @ rows[row] / np.maximum(norms * norms[row], 1e-12)


def test_similar_items_have_the_same_memberships_and_the_same_buyers(model: OCuLaR, bought: np.ndarray) -> None:
    factors = model.item_factors_.toarray().astype(np.float64)
    similarities = (cosines(factors, 6) + 0.1 * cosines(bought.T.astype(np.float64), 6)) / 1.1
    ids, scores = model.similar_items(6, N=8)
    assert ids[0] == 6
    assert scores[0] == pytest.approx(1.0, rel=1e-6)
    assert ids.dtype == np.int32
    np.testing.assert_allclose(scores, np.sort(similarities)[::-1][:8], rtol=1e-5)
    np.testing.assert_allclose(scores, similarities[ids], rtol=1e-5)
    assert model.similar_items(6, N=3, filter_items=[6, int(ids[1])])[0][0] == ids[2]
    assert model.similar_items(6, N=3, items=ids[[4, 2]])[0].tolist() == [ids[2], ids[4], -1]


def test_items_of_a_single_cocluster_do_not_tie(model: OCuLaR, bought: np.ndarray) -> None:
    factors = model.item_factors_.toarray().astype(np.float64)
    single = [i for i in range(40) if np.count_nonzero(factors[i]) == 1]
    item = next(i for i in single if (cosines(factors, i) > 1 - 1e-9).sum() >= 6)  # five others point the same way
    ids, scores = model.similar_items(item, N=6)
    assert (cosines(factors, item)[ids] > 1 - 1e-9).all()
    assert len(set(scores.tolist())) > 3
    assert scores[1] < 1
    buyers = cosines(bought.T.astype(np.float64), item)[ids]
    assert (np.diff(buyers) <= 1e-9).all()  # most buyers in common first


@pytest.mark.parametrize("side", ["items", "users"])
def test_similar_ones_of_many_have_a_row_each(model: OCuLaR, side: str) -> None:
    similar = getattr(model, f"similar_{side}")
    ids, scores = similar([5, 2, 5], N=4)
    assert ids.shape == scores.shape == (3, 4)
    for row, one in enumerate((5, 2, 5)):
        np.testing.assert_array_equal(ids[row], similar(one, N=4)[0])
        np.testing.assert_array_equal(scores[row], similar(one, N=4)[1])
    assert similar([], N=4)[0].shape == (0, 4)
    assert similar([7])[0].shape == (1, 10)


def test_similar_users_are_of_the_same_planted_cocluster(model: OCuLaR, market: Planted) -> None:
    for user in np.flatnonzero(market.rows.sum(axis=0) == 1)[:10]:
        ids, scores = model.similar_users(int(user), N=6)
        assert ids[0] == user
        assert (np.diff(scores) <= 1e-6).all()
        own = market.rows[:, user]
        assert (market.rows[:, ids] & own[:, None]).any(axis=0).all()
    assert model.similar_users(0, N=2, users=[9, 4])[0].tolist() in ([9, 4], [4, 9])
    assert 0 not in model.similar_users(0, N=60, filter_users=[0])[0]


# ------------------------------------------------------------------------------------------- users, memberships, z


@pytest.mark.parametrize("which", ["model", "biased"])
def test_users_for_an_item_are_those_of_predict_proba(which: str, request: pytest.FixtureRequest) -> None:
    fitted: OCuLaR = request.getfixturevalue(which)
    data, table = fitted.interactions_, all_pairs(fitted)
    purchases = data.by_user.degrees
    for item in (0, 6, 39):
        ids, probabilities = fitted.recommend_users(item, N=60)
        others = np.setdiff1d(np.arange(60), data.by_item[item])
        assert sorted(ids[ids >= 0]) == others.tolist()
        n = len(others)
        np.testing.assert_allclose(probabilities[:n], table[ids[:n], item], rtol=1e-5)
        np.testing.assert_allclose(probabilities[:n], np.sort(table[others, item])[::-1], rtol=1e-5)
        assert (ids[n:] == -1).all()
        assert np.isnan(probabilities[n:]).all()
        tied = np.flatnonzero(np.diff(probabilities[:n]) == 0)
        assert (purchases[ids[tied]] >= purchases[ids[tied + 1]]).all()
        assert ids.dtype == np.int32
        assert probabilities.dtype == np.float32
    everybody, _ = fitted.recommend_users(6, N=60, filter_already_liked_items=False)
    assert sorted(everybody) == list(range(60))


def test_users_without_purchases_come_last_for_an_item_in_no_cocluster(bought: np.ndarray) -> None:
    R = bought.copy()
    R[11], R[:, 17] = 0, 0
    ids, probabilities = estimator(max_iter=30).fit(R).recommend_users(17, N=60)
    purchases = R.sum(axis=1)
    assert ids.tolist() == sorted(range(60), key=lambda u: (-purchases[u], u))
    np.testing.assert_allclose(probabilities, -np.expm1(-BACKGROUND), rtol=1e-5)


def test_users_for_many_items_and_filters(model: OCuLaR) -> None:
    ids, probabilities = model.recommend_users([6, 2, 6], N=5)
    assert ids.shape == probabilities.shape == (3, 5)
    for row, item in enumerate((6, 2, 6)):
        np.testing.assert_array_equal(ids[row], model.recommend_users(item, N=5)[0])
    best, _ = model.recommend_users(6, N=8)
    assert model.recommend_users(6, N=3, filter_users=best[:2])[0].tolist() == best[2:5].tolist()
    assert model.recommend_users(6, N=3, users=best[[5, 1]])[0].tolist() == [best[1], best[5], -1]
    assert model.recommend_users([], N=3)[0].shape == (0, 3)


def test_affinity_tells_pairs_apart_that_probability_cannot(bought: np.ndarray) -> None:
    model = estimator(max_iter=30).fit(bought)
    np.testing.assert_allclose(model.predict_proba(3, [1, 2]), -np.expm1(-model.affinity(3, [1, 2])))
    model.user_factors_ = model.user_factors_ * np.float32(40)
    assert (model.predict_proba(np.arange(60), 6) == 1.0).any()
    assert len(np.unique(model.affinity(np.flatnonzero(bought[:, 6]), 6))) > 5


def test_transform_gives_memberships(model: OCuLaR, named: Interactions, bought: np.ndarray) -> None:
    assert (model.transform() != model.user_factors_).nnz == 0
    for X in (bought, sp.csr_matrix(bought), named):
        assert (model.transform(X) != model.fold_in(bought)).nnz == 0
    fitted = clone(model)
    folded = fitted.fit_transform(named)
    assert distance(folded.toarray(), fitted.user_factors_.toarray()) < 0.01
    assert model.get_feature_names_out().tolist() == ["cocluster0", "cocluster1", "cocluster2", "cocluster3"]


def test_memberships_go_on_in_a_pipeline(bought: np.ndarray) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    follows = bought[:, 6]
    others = np.delete(bought, 6, axis=1)
    pipeline = make_pipeline(estimator(max_iter=30), LogisticRegression()).fit(others, follows)
    assert pipeline.score(others, follows) > 0.85 > max(follows.mean(), 1 - follows.mean())


def test_calibrate_keeps_what_ocular_calibrate_finds(bought: np.ndarray) -> None:
    one, other = estimator(max_iter=30).fit(bought), estimator(max_iter=30).fit(bought)
    found = one.calibrate(share=0.3, per_client=10, random_state=2)
    assert one.calibration_ is found
    assert found.to_dict() == ocular.calibrate(other, share=0.3, per_client=10, random_state=2).to_dict()


def test_a_calibration_is_one_of_what_may_be_recommended(bought: np.ndarray) -> None:
    model = estimator(max_iter=30).fit(bought, only=range(20))
    found = model.calibrate(per_client=40)
    everything = estimator(max_iter=30).fit(bought).calibrate(per_client=40)
    assert 100 < found.counts.sum() < 0.7 * everything.counts.sum()


def test_a_notebook_shows_the_parameters_and_the_fit(model: OCuLaR) -> None:
    html = model._repr_html_()
    assert "n_coclusters" in html
    assert "60 users × 40 items" in html
    assert "4 co-clusters" in html
    assert f"objective {model.objective_:,.6g} after {model.n_iter_} sweeps, converged" in html
    assert model._repr_mimebundle_()["text/html"].count("60 users × 40 items") == 1
    assert "ocular-fit" not in OCuLaR()._repr_html_()


# ----------------------------------------------------------------------------------------- what is never recommended


@pytest.fixture(scope="module")
def families(bought: np.ndarray) -> Interactions:
    return Interactions(
        Interactions.from_matrix(bought).by_user,
        40,
        np.arange(60),
        np.array([f"P{i}" for i in range(40)], dtype=object),
        item_attributes={
            "family": np.array(["Printing", "Paper", None, "Fees"] * 10, dtype=object),
            "year": np.array([2020, 2021] * 20),
        },
    )


@pytest.mark.parametrize(
    ("choice", "excluded"),
    [
        ({"without": "P3"}, {3}),
        ({"without": ["P3", "P7"]}, {3, 7}),
        ({"without": {"family": "Fees"}}, set(range(3, 40, 4))),
        ({"without": {"family": ["Fees", "Paper"]}}, {*range(3, 40, 4), *range(1, 40, 4)}),
        ({"only": {"family": ["Printing", "Paper"], "year": 2020}}, set(range(40)) - set(range(0, 40, 4))),
        ({"only": {"year": "2020"}, "without": ["P0"]}, {0, *range(1, 40, 2)}),
    ],
    ids=["name", "names", "attribute", "values", "two-attributes", "both"],
)
def test_excluded_items_are_never_recommended(
    families: Interactions, choice: dict[str, Any], excluded: set[int], tmp_path: Path
) -> None:
    model = estimator().fit(families, **choice)
    assert set(np.flatnonzero(model.excluded_items_).tolist()) == excluded
    assert learned_bytes(model) == learned_bytes(estimator().fit(families))  # they are learned from all the same
    model.save(tmp_path / "model")
    for fitted in (model, ocular.load(tmp_path / "model")):
        ids, _ = fitted.recommend(np.arange(60), N=40, filter_already_liked_items=False)
        assert set(ids[ids >= 0].tolist()) == set(range(40)) - excluded
        ids, _ = fitted.recommend(0, N=40, items=sorted(excluded)[:2], filter_already_liked_items=False)
        assert (ids == -1).all()
        item = min(excluded)
        with pytest.raises(DataError, match=f"got 'P{item}', which the fit excluded"):
            fitted.recommend_users([next(i for i in range(40) if i not in excluded), item])
        assert fitted.explain(0, item).confidence > 0
    assert not model.fit(families).excluded_items_.any()


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"without": "P77"}, "no product named 'P77' among 40"),
        ({"without": {"familie": "Fees"}}, "no product attribute named 'familie'; the products have family, year"),
        ({"only": {"family": "Print"}}, "no product has family 'Print'; did you mean 'Printing'"),
        ({"only": "P3", "without": "P3"}, "expected some products to recommend, got none"),
    ],
    ids=["name", "attribute", "value", "nothing-left"],
)
def test_an_unknown_choice_is_refused_before_the_fit(
    families: Interactions, choice: dict[str, Any], message: str
) -> None:
    model = estimator()
    with pytest.raises(OcularError, match=message):
        model.fit(families, **choice)
    assert not hasattr(model, "user_factors_")
    model.fit(np.eye(3))
    with pytest.raises(OcularError, match=message):
        model.fit(families, **choice)
    assert model.n_features_in_ == 3


# ---------------------------------------------------------------------------------------------------------- explaining


def test_an_explanation_in_words_has_the_names(model: OCuLaR) -> None:
    (item,), (probability,) = model.recommend(0, N=1)
    explanation = model.explain(0, int(item))
    text = explanation.text()
    assert text.startswith(
        f"Produkt №{item} is recommended to Client 0 GmbH with confidence {probability:.2f} because:"
    )
    strongest = explanation.reasons[0]
    assert f"Produkt №{strongest.owned_items[0]}" in text
    assert f"Client {strongest.similar_users[0]} GmbH" in text
    plain = json.loads(json.dumps(explanation.to_dict(), ensure_ascii=False))
    assert plain["client"] == "Client 0 GmbH"
    assert plain["product"] == f"Produkt №{item}"
    assert plain["confidence"] == explanation.confidence
    assert plain["reasons"][0]["similar_users"][0] == f"Client {strongest.similar_users[0]} GmbH"


def test_a_pair_without_a_common_cocluster_has_no_reason(model: OCuLaR) -> None:
    u, i = np.argwhere(all_pairs(model) < 2 * BACKGROUND)[0]
    explanation = model.explain(u, i)
    assert explanation.reasons == []
    assert explanation.confidence == pytest.approx(-math.expm1(-BACKGROUND), rel=1e-6)
    assert (
        "has no reason, because nothing that Client 0 GmbH owns leads to it; this is the background"
        in explanation.text()
    )


def test_coclusters_are_the_planted_ones(model: OCuLaR, market: Planted, bought: np.ndarray) -> None:
    found = model.coclusters()
    assert [cocluster.index for cocluster in found] == [0, 1, 2, 3]
    for cocluster in found:
        assert model.rows_[cocluster.index].sum() == len(cocluster.users)
        assert model.rows_[cocluster.index, cocluster.users].all()
        assert model.columns_[cocluster.index, cocluster.items].all()
        np.testing.assert_array_equal(
            cocluster.user_strengths, model.user_factors_.toarray()[cocluster.users, cocluster.index]
        )
        assert (np.diff(cocluster.user_strengths) <= 0).all()
        assert (np.diff(cocluster.item_strengths) <= 0).all()
        assert cocluster.density == bought[np.ix_(cocluster.users, cocluster.items)].mean() > 0.85
    strict, loose = model.coclusters(0.9), model.coclusters(0.01)
    assert sum(len(c.users) for c in strict) < sum(len(c.users) for c in found) <= sum(len(c.users) for c in loose)


def test_scikit_learn_sees_biclusters(model: OCuLaR, market: Planted, bought: np.ndarray) -> None:
    assert model.rows_.shape == (4, 60)
    assert model.columns_.shape == (4, 40)
    assert model.rows_.dtype == model.columns_.dtype == np.bool_
    assert consensus_score(model.biclusters_, (market.rows, market.columns)) > 0.9
    users, items = model.get_indices(2)
    assert users.tolist() == np.flatnonzero(model.rows_[2]).tolist()
    assert model.get_shape(2) == (len(users), len(items))
    np.testing.assert_array_equal(model.get_submatrix(2, bought), bought[np.ix_(users, items)])


# ------------------------------------------------------------------------------------------------ with other libraries


def test_implicit_evaluates_the_model(market: Planted) -> None:
    from implicit.evaluation import ranking_metrics_at_k

    train, test = per_user_split(market.interactions, 0.3, random_state=0)
    model = OCuLaR(n_coclusters=4, regularization=0.5, tol=1e-5, max_iter=500, random_state=0).fit(train)
    ours, theirs = (sp.csr_matrix(part.to_matrix().toarray()) for part in (train, test))
    metrics = ranking_metrics_at_k(model, ours, theirs, K=5, show_progress=False)
    ids, _ = model.recommend(np.arange(60), N=5)
    hits = sum(np.isin(ids[u], test.by_user[u]).sum() for u in range(60))
    assert metrics["precision"] == pytest.approx(hits / np.minimum(test.by_user.degrees, 5).sum())
    assert metrics["precision"] > 0.8


def test_implicit_takes_our_own_matrices(model: OCuLaR, market: Planted) -> None:
    from implicit.evaluation import ranking_metrics_at_k

    train, test = per_user_split(market.interactions, 0.3, random_state=0)
    metrics = ranking_metrics_at_k(
        estimator().fit(train), train.to_matrix(), test.to_matrix(), K=5, show_progress=False
    )
    assert metrics["precision"] > 0.5


def test_a_copy_keeps_the_answers(model: OCuLaR) -> None:
    """As other processes get it: copying goes the way of pickling."""
    other = copy.deepcopy(model)
    assert learned_bytes(other) == learned_bytes(model)
    np.testing.assert_array_equal(other.recommend([1, 2])[0], model.recommend([1, 2])[0])


# ----------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "expected values 0 or 1, got NaN or infinity; replace missing values by 0"),
        (np.inf, "expected values 0 or 1, got NaN or infinity; replace missing values by 0"),
        (-1.0, "expected values 0 or 1, got a negative value, -1; pass min_value to turn ratings into positives"),
        (2.0, "expected values 0 or 1, got 2; pass min_value to turn ratings into positives"),
        (0.5, "expected values 0 or 1, got 0.5; pass min_value to turn ratings into positives"),
    ],
)
def test_values_other_than_0_and_1_are_refused(value: float, message: str, sparse: bool, model: OCuLaR) -> None:
    X = np.zeros((3, 40))
    X[0, 0], X[1, 1] = 1.0, value
    given = sp.csr_array(X) if sparse else X
    for call in (estimator().fit, model.fold_in, lambda rows: model.recommend([0, 1, 2], user_items=rows)):
        with pytest.raises(DataError) as caught:
            call(given)
        assert str(caught.value) == message


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_min_value_does_not_let_nan_through(value: float) -> None:
    with pytest.raises(DataError, match="NaN or infinity"):
        estimator(min_value=3).fit([[5.0, value], [1.0, 4.0]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, 3)), r"expected at least one positive, got none in 2 × 3"),
        (sp.csr_array((2, 3)), r"expected at least one positive, got none in 2 × 3"),
        (Interactions.from_matrix(np.zeros((2, 3))), r"expected at least one positive, got none in 2 × 3"),
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (sp.csr_array((0, 3)), r"0 sample\(s\)"),
        (np.zeros((3, 0)), r"0 feature\(s\)"),
        ([1, 0, 1], r"2D array"),
        (np.ones((2, 2, 2)), r"dim 3"),
        ([[1, 0], [1]], r"inhomogeneous|different length"),
        ([["a", "b"]], r"expected numbers 0 or 1|numeric"),
        ([[1j, 0]], r"Complex data not supported|expected numbers"),
        ("purchases.csv", r"2D array"),
        (None, r"2D array"),
    ],
    ids=["zeros", "sparse-zeros", "no-pairs", "no-users", "sparse-no-users", "no-items", "flat", "cube", "ragged",
         "text", "complex", "file-name", "none"],
)  # fmt: skip
def test_what_is_no_history_is_refused(X: Any, message: str) -> None:
    model = estimator()
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert not hasattr(model, "user_factors_")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *(("n_coclusters", v, "a whole number of at least 1") for v in (0, -1, 2.5, "3", None, True, np.nan)),
        *(("max_iter", v, "a whole number of at least 1") for v in (0, 1.5, None)),
        *(("n_threads", v, "a whole number of at least 1") for v in (0, -1, 1.5, "2")),
        *(
            ("regularization", v, r"a number from 0 to 1e\+12")
            for v in (-1, -1e-9, np.nan, np.inf, "30", None, True, [1.0])
        ),
        *(("tol", v, "a number of at least 0") for v in (-1e-9, np.nan, "x", None)),
        *(("background", v, "a number from 1e-12 to 1") for v in (0, -1, 1.5, np.nan, "x", None)),
        *(("beta", v, "a number from 0.01 to 0.99") for v in (0, 1, -1, "x", None)),
        *(("sigma", v, "a number from 0.0001 to 0.99") for v in (0, 1, -1, "x", None)),
        *(("line_search", v, "one of scaled, paper") for v in ("newton", None, 1)),
        *(("init", v, "one of auto, overlap, seeds, random") for v in ("svd", None, 5, ())),
        *(("random_state", v, "a whole number") for v in (-1, 1.5, "s", np.random.default_rng(0))),
        *(("relative", v, "") for v in ("no", 2)),
        *(("bias", v, "") for v in ("no", 2)),
        *(("min_value", v, "") for v in ("3", np.nan)),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:20],
)
def test_a_parameter_that_makes_no_sense_is_refused(name: str, value: Any, message: str, bought: np.ndarray) -> None:
    model = estimator(**{name: value})
    with pytest.raises(ConfigError, match=f"expected {name} to be {message}") as caught:
        model.fit(bought)
    assert "\n" not in str(caught.value)
    assert repr(value) in str(caught.value)
    assert not hasattr(model, "user_factors_")


@pytest.mark.parametrize("device", ["abacus", None, 0, "CPU"])
def test_an_unknown_device_is_refused(device: Any, bought: np.ndarray) -> None:
    with pytest.raises(ConfigError, match=f"device.*got {device!r}"):
        estimator(device=device).fit(bought)


def given_start(users: tuple[int, int] = (60, 4), items: tuple[int, int] = (40, 4), value: float = 1.0) -> Any:
    return np.full(users, value), np.ones(items)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (given_start(users=(59, 4)), r"user memberships of shape \(60, 4\).*got shape \(59, 4\)"),
        (given_start(items=(40, 5)), r"item memberships of shape \(40, 4\).*got shape \(40, 5\)"),
        (given_start(value=-1.0), r"user memberships from 0 to 10000"),
        (given_start(value=np.nan), r"user memberships"),
        (given_start()[:1], "init"),
        ((*given_start(), np.ones(3)), "init"),
        ((None, None), "user memberships|init"),
        (("users", "items"), "user memberships|init"),
    ],
    ids=["users", "items", "negative", "nan", "one-array", "three-arrays", "nothing", "text"],
)
def test_a_start_that_does_not_fit_is_refused(init: Any, message: str, bought: np.ndarray) -> None:
    with pytest.raises(OcularError, match=message):
        estimator(init=init).fit(bought)


IDS = "whole numbers as {} ids"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.recommend(60), "expected user ids from 0 to 59, got 60"),
        (lambda m: m.recommend(-1), "expected user ids from 0 to 59, got -1"),
        (lambda m: m.recommend([0, 60]), "expected user ids from 0 to 59, got 60"),
        (lambda m: m.recommend(1.0), IDS.format("user")),
        (lambda m: m.recommend("Client 0 GmbH"), IDS.format("user")),
        (lambda m: m.recommend(None), IDS.format("user")),
        (lambda m: m.recommend(True), IDS.format("user")),
        (lambda m: m.recommend([[0, 1], [2, 3]]), "user ids"),
        (lambda m: m.recommend(0, items=[40]), "expected item ids from 0 to 39, got 40"),
        (lambda m: m.recommend(0, items=["nut"]), IDS.format("item")),
        (lambda m: m.recommend(0, filter_items=[-1]), "expected item ids from 0 to 39, got -1"),
        (lambda m: m.recommend(0, N=0), "expected N to be a whole number from 1 to 1,000,000, got 0"),
        (lambda m: m.recommend(0, N=-3), "expected N to be a whole number from 1 to 1,000,000, got -3"),
        (lambda m: m.recommend(0, N=2.5), "expected N to be a whole number from 1 to 1,000,000, got 2.5"),
        (lambda m: m.recommend(0, user_items=np.ones((1, 39))), "expected a column for each of 40 items, got 39"),
        (
            lambda m: m.recommend([0, 1, 2], user_items=np.ones((2, 40))),
            "expected user_items with a row for each of 3 ids or of 60 users, got 2",
        ),
        (lambda m: m.recommend(0, user_items="mine"), "expected numbers 0 or 1"),
        (lambda m: m.fold_in(np.ones((2, 41))), "expected a column for each of 40 items, got 41"),
        (lambda m: m.predict_proba(60, 0), "expected user ids from 0 to 59, got 60"),
        (lambda m: m.predict_proba(0, 40), "expected item ids from 0 to 39, got 40"),
        (lambda m: m.predict_proba([0, 1], [0, 1, 2]), "shape"),
        (lambda m: m.explain(60, 0), "expected user ids from 0 to 59, got 60"),
        (lambda m: m.explain(0, -1), "expected item ids from 0 to 39, got -1"),
        (lambda m: m.explain([0, 1], 0), "user id"),
        (lambda m: m.similar_items(40), "expected item ids from 0 to 39, got 40"),
        (lambda m: m.similar_items("nut"), IDS.format("item")),
        (lambda m: m.similar_items([[0]]), "item ids as one number or a list"),
        (lambda m: m.similar_items(0, N=0), "expected N to be a whole number from 1 to 1,000,000, got 0"),
        (lambda m: m.similar_items(0, N=2.5), "expected N to be a whole number from 1 to 1,000,000, got 2.5"),
        (lambda m: m.similar_users(60), "expected user ids from 0 to 59, got 60"),
        (lambda m: m.similar_users(0, N=-1), "expected N to be a whole number from 1 to 1,000,000, got -1"),
        (lambda m: m.similar_users(0, users=[60]), "expected user ids from 0 to 59, got 60"),
        (lambda m: m.recommend_users(40), "expected item ids from 0 to 39, got 40"),
        (lambda m: m.recommend_users("nut"), IDS.format("item")),
        (lambda m: m.recommend_users([[1]]), "item ids as one number or a list"),
        (lambda m: m.recommend_users(0, N=0), "expected N to be a whole number from 1 to 1,000,000, got 0"),
        (lambda m: m.recommend_users(0, users=[60]), "expected user ids from 0 to 59, got 60"),
        (lambda m: m.recommend_users(0, filter_users=[-1]), "expected user ids from 0 to 59, got -1"),
        (lambda m: m.transform(np.ones((2, 41))), "X has 41 features, but OCuLaR is expecting 40 features"),
        (lambda m: m.coclusters(1.0), "probability"),
        (lambda m: m.coclusters(2.0), "probability"),
        (lambda m: m.members(0.0), "probability"),
        (lambda m: m.explain(None, 0), "user_items to explain by"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_question_that_makes_no_sense_is_refused(call: Callable[[OCuLaR], Any], message: str, model: OCuLaR) -> None:
    with pytest.raises((DataError, ConfigError, ValueError), match=message) as caught:
        call(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.recommend(0),
        lambda m: m.recommend_users(0),
        lambda m: m.affinity(0, 0),
        lambda m: m.predict_proba(0, 0),
        lambda m: m.transform(),
        lambda m: m.get_feature_names_out(),
        lambda m: m.calibrate(),
        lambda m: m.fold_in([[1, 0]]),
        lambda m: m.similar_items(0),
        lambda m: m.similar_users(0),
        lambda m: m.explain(0, 0),
        lambda m: m.coclusters(),
        lambda m: m.members(),
        lambda m: m.rows_,
        lambda m: m.columns_,
        lambda m: m.save("nowhere"),
    ],
)
def test_a_model_that_is_not_fitted_says_so(call: Callable[[OCuLaR], Any]) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        call(OCuLaR())


def test_a_failed_refit_leaves_the_model_as_it_was(bought: np.ndarray) -> None:
    model = estimator().fit(bought)
    before, answer = learned_bytes(model), model.recommend(0)[0]
    with pytest.raises(DataError):
        model.fit(np.full((5, 7), 3.0))
    assert learned_bytes(model) == before
    np.testing.assert_array_equal(model.recommend(0)[0], answer)


def test_parameters_set_for_the_next_fit_do_not_change_this_one(bought: np.ndarray) -> None:
    model = estimator(max_iter=30).fit(bought)
    table, ids = all_pairs(model), model.recommend(np.arange(60))[0]
    folded = model.fold_in(bought[:3]).toarray()
    model.set_params(n_coclusters=7, background=0.5, bias=True)
    np.testing.assert_array_equal(all_pairs(model), table)
    np.testing.assert_array_equal(model.recommend(np.arange(60))[0], ids)
    np.testing.assert_array_equal(model.fold_in(bought[:3]).toarray(), folded)


def test_a_table_of_pandas_gives_the_names() -> None:
    import pandas as pd

    table = pd.DataFrame([[1, 1, 0], [1, 1, 1]], index=["Acme", "Bolt"], columns=["nut", "bolt", "saw"])
    model = OCuLaR(n_coclusters=1, regularization=0.1, tol=0.0, max_iter=30, random_state=0).fit(table)
    text = model.explain(0, 2).text()
    assert text.startswith("saw is recommended to Acme with confidence")
    assert "Acme has purchased" in text
    assert "(e.g., Bolt) also bought saw" in text


def test_the_least_value_of_the_fit_stays(tmp_path: Path) -> None:
    ratings = np.array([[3, 3, 0], [3, 3, 5], [0, 1, 5]])
    model = OCuLaR(n_coclusters=1, regularization=0.1, tol=0.0, max_iter=30, min_value=3, random_state=0).fit(ratings)
    before = model.fold_in(ratings).toarray()
    model.set_params(min_value=6)
    assert np.array_equal(model.fold_in(ratings).toarray(), before)
    model.save(tmp_path / "model")
    assert ocular.load(tmp_path / "model").min_value == 3


def test_a_refused_fit_keeps_the_number_of_items() -> None:
    model = OCuLaR(n_coclusters=1, regularization=0.1, tol=0.0, max_iter=5, random_state=0).fit(np.eye(3))
    with pytest.raises(DataError, match="expected values 0 or 1"):
        model.fit(np.full((2, 7), 3.0))
    assert model.n_features_in_ == 3


def test_explanations_made_together_are_those_made_one_by_one(model: OCuLaR, bought: np.ndarray) -> None:
    items = [0, 7, 7, 39]
    for user, row in ((3, None), (3, bought[[9]]), (None, bought[[9]])):
        together = model.explain_all(user, items, row)
        single = [model.explain(user, item, row) for item in items]
        assert [each.to_dict() for each in together] == [each.to_dict() for each in single]
    assert model.explain_all(0, []) == []
