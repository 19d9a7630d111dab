"""One contract for OCuLaR and everything it is compared with; what each method computes, against its definition."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from ocular import Interactions, OCuLaR
from ocular.baselines import BASELINES, base, ease, slim
from ocular.baselines.base import Baseline, best
from ocular.baselines.ease import EASE
from ocular.baselines.factorization import BPR, WALS
from ocular.baselines.knn import ItemKNN, UserKNN
from ocular.baselines.popularity import Popularity
from ocular.baselines.rp3beta import RP3beta
from ocular.baselines.slim import SLIM, fit_weights
from ocular.data.splits import random_split
from ocular.errors import ConfigError, DataError, FitError, MissingExtraError
from ocular.evaluation.metrics import METRICS, measure
from ocular.synthetic import Planted, planted

MODELS: dict[str, Any] = {
    "ocular": OCuLaR(n_coclusters=4, regularization=0.5, tol=1e-4, max_iter=500, random_state=0),
    "user-knn": UserKNN(k=10),
    "item-knn": ItemKNN(k=10),
    "wals": WALS(factors=8, regularization=1.0, alpha=10.0),
    "bpr": BPR(factors=8, learning_rate=0.05),
    "ease": EASE(regularization=10.0),
    "slim": SLIM(l1=0.5, l2=5.0, k=30),
    "rp3beta": RP3beta(alpha=0.9, beta=0.3, k=20),
    "popularity": Popularity(),
}
N_USERS, N_ITEMS = 61, 41
NEWCOMER, UNSOLD = 60, 40  # a client without purchases, a product without buyers
every = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def interactions(bought: np.ndarray) -> Interactions:
    """The market and somebody who has bought nothing and something that nobody has bought."""
    return Interactions.from_matrix(
        np.pad(bought, ((0, 1), (0, 1))),
        user_labels=[f"Client {u} GmbH" for u in range(N_USERS)],
        item_labels=[f"Produkt №{i}" for i in range(N_ITEMS)],
    )


@pytest.fixture(scope="module")
def fitted(interactions: Interactions) -> dict[str, Any]:
    return {name: clone(model).fit(interactions) for name, model in MODELS.items()}


def by_popularity(interactions: Interactions) -> list[int]:
    return sorted(range(interactions.n_items), key=lambda i: (-interactions.by_item.degrees[i], i))


def test_every_baseline_is_under_the_contract() -> None:
    assert set(MODELS) == {*BASELINES, "ocular"}
    assert all(type(MODELS[name]) is kind and issubclass(kind, Baseline) for name, kind in BASELINES.items())


# ----------------------------------------------------------------------------------------------- the contract


@every
def test_shapes_and_types(fitted: dict[str, Any], name: str) -> None:
    ids, scores = fitted[name].recommend(3, N=5)
    assert ids.shape == scores.shape == (5,)
    assert ids.dtype == np.int32
    assert scores.dtype == np.float32
    assert (np.diff(scores) <= 0).all()
    many, table = fitted[name].recommend([3, 7, 3], N=5)
    assert many.shape == table.shape == (3, 5)
    assert fitted[name].recommend([3], N=5)[0].shape == (1, 5)
    assert fitted[name].recommend([], N=5)[0].shape == (0, 5)


@every
def test_one_user_is_a_row_of_many(fitted: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, users = fitted[name], np.arange(N_USERS)[::-1]
    many, table = model.recommend(users, N=7)
    for u, ids, scores in zip(users, many, table, strict=True):
        alone, values = model.recommend(u, N=7)
        np.testing.assert_array_equal(alone, ids)
        np.testing.assert_allclose(values, scores, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(base, "MAX_CELLS", 5 * N_ITEMS)  # blocks of five users
    np.testing.assert_array_equal(model.recommend(users, N=7)[0], many)


@every
def test_missing_places_are_marked(fitted: dict[str, Any], interactions: Interactions, name: str) -> None:
    ids, scores = fitted[name].recommend([0, 1], N=N_ITEMS + 9)
    for u in (0, 1):
        left = np.setdiff1d(np.arange(N_ITEMS), interactions.by_user[u])
        assert sorted(ids[u, : len(left)]) == left.tolist()
        assert np.isfinite(scores[u, : len(left)]).all()
        assert (ids[u, len(left) :] == -1).all()
        assert np.isnan(scores[u, len(left) :]).all()


@every
def test_everything_without_the_filter(fitted: dict[str, Any], name: str) -> None:
    ids, scores = fitted[name].recommend(0, N=N_ITEMS, filter_already_liked_items=False)
    assert sorted(ids) == list(range(N_ITEMS))
    assert np.isfinite(scores).all()


@every
def test_items_and_filter_items(fitted: dict[str, Any], interactions: Interactions, name: str) -> None:
    order = [i for i in fitted[name].recommend(5, N=N_ITEMS)[0].tolist() if i >= 0]
    assert fitted[name].recommend(5, N=3, filter_items=order[:2])[0].tolist() == order[2:5]
    some = order[1::2]
    assert fitted[name].recommend(5, N=len(some) + 1, items=some)[0].tolist() == [*some, -1]
    ids, scores = fitted[name].recommend(5, N=2, items=interactions.by_user[5])
    assert ids.tolist() == [-1, -1]
    assert np.isnan(scores).all()


@every
def test_rows_of_user_items(fitted: dict[str, Any], interactions: Interactions, name: str) -> None:
    """A row for each id, or one for every fitted user; no other number."""
    model, X = fitted[name], interactions.to_matrix()
    expected = model.recommend([9, 4], N=5)
    for rows in (X[[9, 4]], sp.csr_matrix(X[[9, 4]]), X[[9, 4]].toarray(), X, interactions):
        ids, scores = model.recommend([9, 4], rows, N=5)
        np.testing.assert_array_equal(ids, expected[0])
        np.testing.assert_array_equal(scores, expected[1])
    np.testing.assert_array_equal(model.recommend(4, X[[4]], N=5)[0], expected[0][1])
    with pytest.raises(DataError, match="expected user_items with a row for each of 2 ids or of 61 users, got 3"):
        model.recommend([9, 4], X[:3])
    with pytest.raises(DataError, match="expected a column for each of 41 items, got 40"):
        model.recommend([9, 4], X[[9, 4], :40])


@every
def test_bad_requests_are_refused(fitted: dict[str, Any], name: str) -> None:
    model = fitted[name]
    with pytest.raises(DataError, match="expected user ids from 0 to 60, got 61"):
        model.recommend(N_USERS)
    with pytest.raises(DataError, match="expected user ids from 0 to 60, got -1"):
        model.recommend([0, -1])
    with pytest.raises(DataError, match="got 2 dimensions"):
        model.recommend([[0, 1]])
    with pytest.raises(DataError, match="expected item ids from 0 to 40, got 41"):
        model.recommend(0, items=[N_ITEMS])
    with pytest.raises(ConfigError, match="expected N to be a whole number"):
        model.recommend(0, N=0)


@every
def test_only_zeros_and_ones_are_fitted(name: str) -> None:
    with pytest.raises(DataError, match="expected values 0 or 1, got 5"):
        clone(MODELS[name]).fit(np.array([[0, 5], [1, 0]]))
    with pytest.raises(DataError, match="expected at least one positive, got none in 2 × 3"):
        clone(MODELS[name]).fit(np.zeros((2, 3)))


@every
def test_the_same_again_and_without_names(
    fitted: dict[str, Any], interactions: Interactions, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = fitted[name].recommend(np.arange(N_USERS))
    without_names = interactions.to_matrix(), interactions.to_matrix().toarray()
    # OCuLaR goes by the order of names, so that without names ties and last digits are others
    for X in (interactions, *(without_names if name != "ocular" else ())):
        model = clone(fitted[name])
        assert not hasattr(model, "interactions_")
        assert model.get_params() == MODELS[name].get_params()
        assert model.fit(X) is model
        ids, scores = model.recommend(np.arange(N_USERS))
        np.testing.assert_array_equal(ids, expected[0])
        np.testing.assert_array_equal(scores, expected[1])
    assert fitted[name].interactions_ is interactions
    assert capfd.readouterr() == ("", "")  # no progress bars


@every
def test_a_user_without_purchases_gets_bestsellers(
    fitted: dict[str, Any], interactions: Interactions, name: str
) -> None:
    ids, bestsellers = fitted[name].recommend(NEWCOMER, N=N_ITEMS)[0], by_popularity(interactions)
    if name == "ocular":  # ties go by name
        buyers = interactions.by_item.degrees
        assert buyers[ids].tolist() == buyers[bestsellers].tolist()
    else:
        assert ids.tolist() == bestsellers


@every
def test_what_nobody_has_is_not_recommended_first(fitted: dict[str, Any], name: str) -> None:
    assert UNSOLD not in fitted[name].recommend(np.arange(N_USERS), N=1)[0]


@every
def test_beats_popularity(name: str) -> None:
    market = planted(120, 60, 5, overlap=0.3, density=0.9, noise=0.02, random_state=2)
    train, test = random_split(market.interactions, random_state=0)
    scores = measure(clone(MODELS[name]).fit(train), train, test, M=(5, 10))
    assert set(scores.to_dict()) == {*(f"{metric}@{M}" for metric in METRICS for M in (5, 10)), "users", "left_out"}
    floor = measure(Popularity().fit(train), train, test, M=10).mean("recall", 10)
    if name == "popularity":
        assert 0.1 < floor < 0.4
        return
    assert scores.mean("recall", 10) > 2 * floor
    if name in BASELINES:  # with the parameters that one gets without asking
        assert measure(BASELINES[name]().fit(train), train, test, M=10).mean("recall", 10) > 2 * floor


NEW = {name: model for name, model in MODELS.items() if name not in ("ocular", "bpr", "popularity")}


@pytest.mark.parametrize("name", NEW)
def test_somebody_new_is_scored_by_their_own_row(fitted: dict[str, Any], market: Planted, name: str) -> None:
    """Half of a co-cluster's products, given for a user who has others, brings the other half."""
    inside = np.flatnonzero(market.columns[2] & (market.columns.sum(axis=0) == 1))
    row = np.zeros((1, N_ITEMS), dtype=int)
    row[0, inside[::2]] = 1
    outsider = int(np.flatnonzero(~market.rows[2])[0])
    found = fitted[name].recommend(outsider, row, N=len(inside[1::2]))[0]
    assert set(found.tolist()) <= set(np.flatnonzero(market.columns[2]).tolist()) - set(inside[::2].tolist())
    # the rows beside it are not touched by that
    X = fitted[name].interactions_.to_matrix().toarray()
    both = fitted[name].recommend([3, outsider, 4], np.vstack([X[3], row[0], X[4]]), N=4)[0]
    np.testing.assert_array_equal(both[[0, 2]], fitted[name].recommend([3, 4], N=4)[0])
    np.testing.assert_array_equal(both[1, : len(found)], found[:4])


def test_of_equal_costs_the_earlier_comes_first() -> None:
    rng = np.random.default_rng(0)
    costs = rng.integers(0, 4, (50, 30)).astype(np.float32)  # ties everywhere
    for n in (1, 7, 30, 99):
        np.testing.assert_array_equal(best(costs, n), np.argsort(costs, axis=1, kind="stable")[:, :n])


def test_names_of_baselines_load_nothing_heavy() -> None:
    code = (
        "import sys; from ocular.baselines import NAMES; assert 'numpy' not in sys.modules\n"
        "from ocular.baselines import BASELINES; assert tuple(BASELINES) == NAMES and 'implicit' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "model",
    [
        UserKNN(k=0),
        ItemKNN(k=2.5),  # type: ignore[arg-type]
        EASE(regularization=0.0),
        EASE(regularization=float("nan")),
        SLIM(l1=-0.1),
        SLIM(l2=float("inf")),
        SLIM(k=0),
        RP3beta(alpha="1"),  # type: ignore[arg-type]
        RP3beta(beta=-1.0),
        RP3beta(k=None),  # type: ignore[arg-type]
        WALS(factors=0),
        WALS(alpha=-1.0),
        WALS(n_threads=0),
        BPR(iterations=0),
        BPR(random_state=None),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_parameters_are_checked_by_fit(model: Baseline) -> None:
    with pytest.raises(ConfigError, match=r"^expected [a-z_12]+ to be a (whole )?number"):
        model.fit(np.eye(3, dtype=int))


# --------------------------------------------------------------------------------------------------- popularity


def test_popularity_counts(fitted: dict[str, Any], interactions: Interactions) -> None:
    ids, scores = fitted["popularity"].recommend(NEWCOMER, N=N_ITEMS)
    np.testing.assert_array_equal(scores, interactions.by_item.degrees[ids])


# --------------------------------------------------------------------------------------------------------- EASE


@pytest.mark.parametrize("double", [True, False])
def test_ease_is_its_closed_form(interactions: Interactions, double: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_CELLS", 7 * N_ITEMS)  # several blocks, the last one smaller
    if not double:
        monkeypatch.setattr(ease, "MAX_DOUBLE_ITEMS", 0)
    X = interactions.to_matrix().toarray().astype(np.float64)
    P = np.linalg.inv(X.T @ X + 3.0 * np.eye(N_ITEMS))
    B = np.eye(N_ITEMS) - P / np.diag(P)
    model = EASE(regularization=3.0).fit(interactions)
    assert model.weights_.dtype == np.float32
    np.testing.assert_allclose(model.weights_, B, atol=1e-6 if double else 1e-4)
    assert (np.diag(model.weights_) == 0).all()
    ids, scores = model.recommend(8, N=6)
    np.testing.assert_allclose(scores, (X[8] @ B)[ids], atol=1e-4)


def test_ease_refuses_what_does_not_fit_into_memory() -> None:
    with pytest.raises(
        ConfigError, match=r"at most 30,000 items for EASE, got 40,000, whose weights take 6\.4 GB of memory"
    ):
        EASE().fit(sp.csr_array(([1], ([0], [0])), shape=(2, 40_000)))


def test_ease_says_when_there_is_no_inverse() -> None:
    with pytest.raises(FitError, match="increase regularization"):
        EASE(regularization=1e-30).fit(np.ones((3, 3), dtype=int))


# --------------------------------------------------------------------------------------------------------- SLIM


@pytest.mark.parametrize(("l1", "l2", "k"), [(0.5, 5.0, None), (2.0, 0.5, None), (0.0, 1.0, None), (0.5, 5.0, 6)])
def test_slim_meets_the_conditions_of_a_minimum(
    interactions: Interactions, l1: float, l2: float, k: int | None
) -> None:
    """Where a weight is positive its derivative is 0, where it is 0 the derivative is not negative (KKT)."""
    X = interactions.to_matrix().toarray().astype(np.float64)
    W = fit_weights(interactions.to_matrix(), l1, l2, k, tol=1e-9).toarray().astype(np.float64)
    gram = X.T @ X
    derivative = gram @ W - gram + l1 + l2 * W
    free = ~np.eye(N_ITEMS, dtype=bool)
    if k is not None:  # the others of the largest cosine alone may have a weight
        cosine = np.where(free, gram, 0) / np.sqrt(np.maximum(np.diag(gram), 1))[:, None]
        order = np.lexsort((np.tile(np.arange(N_ITEMS)[:, None], N_ITEMS), -cosine), axis=0)
        chosen = np.zeros_like(free)
        np.put_along_axis(chosen, order[:k], True, axis=0)
        free &= chosen
    assert (W >= 0).all()
    assert (W[~free] == 0).all()
    assert 0.05 < (W > 0).mean() < 0.7
    np.testing.assert_allclose(derivative[W > 0], 0, atol=2e-4)
    assert derivative[free & (W == 0)].min() > -2e-4


def test_slim_stops_close_to_the_minimum(interactions: Interactions) -> None:
    matrix = interactions.to_matrix()
    exact, usual = (fit_weights(matrix, 0.5, 5.0, None, tol).toarray() for tol in (1e-9, slim.TOL))
    np.testing.assert_allclose(usual, exact, atol=0.01 * exact.max())
    model = SLIM(0.5, 5.0, None).fit(interactions)
    np.testing.assert_array_equal(model.weights_.toarray(), usual)
    ids, scores = model.recommend(8, N=6)
    np.testing.assert_allclose(scores, (matrix.toarray()[8] @ usual)[ids], rtol=1e-5)


def test_slim_is_the_same_with_any_number_of_threads(
    interactions: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for n_threads in (1, 3):
        monkeypatch.setattr(slim, "FitConfig", lambda n=n_threads: type("Config", (), {"threads": n}))
        found.append(SLIM(0.5, 5.0, 12).fit(interactions).weights_)
    assert found[0].data.tobytes() == found[1].data.tobytes()
    np.testing.assert_array_equal(found[0].indices, found[1].indices)


def test_slim_without_a_limit_of_candidates_refuses_many_items() -> None:
    matrix = sp.csr_array(([1], ([0], [0])), shape=(2, 40_000))
    with pytest.raises(
        ConfigError, match=r"expected k, .* more than 30,000 items, got None and 40,000 items; try k=500"
    ):
        SLIM(k=None).fit(matrix)
    assert SLIM().fit(matrix).weights_.nnz == 0


# ------------------------------------------------------------------------------------------------------ RP3beta


@pytest.mark.parametrize(("alpha", "beta", "k"), [(1.0, 0.0, 99), (0.8, 0.4, 99), (1.7, 1.0, 99), (0.8, 0.4, 5)])
def test_rp3beta_is_its_walk(
    interactions: Interactions, alpha: float, beta: float, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MAX_CELLS", 7 * N_ITEMS)  # several blocks, the last one smaller
    X = interactions.to_matrix().toarray().astype(np.float64)
    of_user, of_item = (np.maximum(X.sum(axis=axis), 1) for axis in (1, 0))
    P_ui, P_iu = (X / of_user[:, None]) ** alpha, (X.T / of_item[:, None]) ** alpha
    W = P_iu @ P_ui / of_item**beta
    np.fill_diagonal(W, 0)
    for column in W.T:
        column[np.argsort(-column, kind="stable")[k:]] = 0
    model = RP3beta(alpha, beta, k).fit(interactions)
    assert model.weights_.dtype == np.float32
    np.testing.assert_allclose(model.weights_.toarray(), W, rtol=1e-4, atol=1e-9)
    ids, scores = model.recommend(np.arange(N_USERS), N=N_ITEMS, filter_already_liked_items=False)
    np.testing.assert_allclose(scores, np.take_along_axis(P_ui @ W, ids.astype(int), axis=1), rtol=1e-4, atol=1e-9)


# ------------------------------------------------------------------------------------------------ factorisation


def loss_of_paper(model: WALS, X: np.ndarray, b: float, regularization: float) -> float:
    users, items = model.user_factors_.astype(np.float64), model.item_factors_.astype(np.float64)
    Z = users @ items.T
    return float(
        ((1 - Z[X == 1]) ** 2).sum()
        + b * (Z[X == 0] ** 2).sum()
        + regularization * ((users**2).sum() + (items**2).sum())
    )


def test_wals_minimises_the_loss_of_the_paper(interactions: Interactions) -> None:
    X, b, regularization = interactions.to_matrix().toarray(), 0.1, 0.2
    losses = [
        loss_of_paper(
            WALS.weighing_unknowns(b, regularization, factors=6, iterations=n).fit(interactions), X, b, regularization
        )
        for n in (1, 2, 4, 8, 16)
    ]
    assert all(later < earlier for earlier, later in pairwise(losses))
    model = WALS.weighing_unknowns(b, regularization, factors=6, iterations=60).fit(interactions)
    for alpha, weight in ((1 / b, regularization), (1 / b, regularization * 4 / b), (3 / b, regularization / b)):
        other = WALS(factors=6, alpha=alpha, regularization=weight, iterations=60).fit(interactions)
        assert loss_of_paper(other, X, b, regularization) > 1.001 * loss_of_paper(model, X, b, regularization)


def test_wals_solves_for_somebody_new(interactions: Interactions) -> None:
    """The row's own least squares problem, in the weights of the paper."""
    b, regularization = 0.1, 0.2
    model = WALS.weighing_unknowns(b, regularization, factors=6).fit(interactions)
    row = np.zeros(N_ITEMS)
    row[[1, 5, 11]] = 1
    Y = model.item_factors_.astype(np.float64)
    weight = np.where(row == 1, 1.0, b)
    f_u = np.linalg.solve(Y.T @ (weight[:, None] * Y) + regularization * np.eye(6), Y.T @ row)
    ids, scores = model.recommend(0, row[None], N=5)
    np.testing.assert_allclose(scores, Y[ids] @ f_u, rtol=1e-3, atol=1e-5)


def test_wals_is_implicit(interactions: Interactions) -> None:
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        theirs = AlternatingLeastSquares(factors=6, alpha=100.0, regularization=1.0, random_state=0)
        theirs.fit(sp.csr_matrix(interactions.to_matrix()), show_progress=False)
    for n_threads in (None, 1, 2):
        ours = WALS.weighing_unknowns(0.01, 0.01, factors=6, n_threads=n_threads).fit(interactions)
        np.testing.assert_array_equal(ours.user_factors_, theirs.user_factors)
        np.testing.assert_array_equal(ours.item_factors_, theirs.item_factors)


def test_bpr_refuses_somebody_new(fitted: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="got 1 others: BPR has no factors for new users; fit again, or use wals"):
        fitted["bpr"].recommend(
            [0, 1], np.vstack([fitted["bpr"].interactions_.to_matrix()[[0]].toarray(), np.eye(1, 41)])
        )


def test_factors_that_leave_the_numbers(interactions: Interactions) -> None:
    with pytest.raises(FitError, match="expected finite factors"):
        BPR(factors=4, learning_rate=1e30).fit(interactions)


@pytest.mark.parametrize("model", [WALS(), BPR()], ids=repr)
def test_implicit_is_an_extra(model: Baseline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "implicit", None)
    with pytest.raises(MissingExtraError, match=r"ocular-rec\[eval\]"):
        model.fit(np.eye(3, dtype=int))
