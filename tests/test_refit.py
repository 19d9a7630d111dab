"""Refits that do not reshuffle: the order of rows and columns changes nothing, and a start keeps the patterns."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ocular
from ocular import Interactions, OCuLaR
from ocular.baselines.ease import EASE
from ocular.data.ordering import Ordering
from ocular.errors import ArtifactError, ConfigError, DataError
from ocular.evaluation.calibration import calibrate
from ocular.solver.config import GIVEN
from ocular.synthetic import planted

Matrix = NDArray[Any]


@pytest.fixture(autouse=True)
def _no_notes() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def market(n_users: int = 90, n_items: int = 60) -> Matrix:
    """Planted co-clusters, and twins among clients and products: their scores tie."""
    bought = planted(n_users, n_items, 5, overlap=0.3, density=0.7, noise=0.05, random_state=4).interactions.to_matrix()
    R = bought.toarray().astype(int)
    R[1], R[:, 3] = R[0], R[:, 2]
    R[:, 7] = R[:, 2]
    R[:2] = R[0]  # twins have twins' columns too
    return R


def labelled(R: Matrix, kind: str) -> tuple[list[Any], list[Any]]:
    users, items = range(R.shape[0]), range(R.shape[1])
    if kind == "text":
        return [f"Client {u}" for u in users], [f"Producto №{i}" for i in items]
    return [1000 + 7 * u for u in users], [50 + 3 * i for i in items]


def shuffled(R: Matrix, users: list[Any], items: list[Any], seed: int) -> Interactions:
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(users)), rng.permutation(len(items))
    names = {"user_labels": [users[u] for u in rows], "item_labels": [items[i] for i in columns]}
    return Interactions.from_matrix(R[rows][:, columns], **names)


def by_name(model: OCuLaR, n: int = 10) -> dict[Any, list[tuple[Any, float]]]:
    data = model.interactions_
    ids, scores = model.recommend(np.arange(data.n_users), N=n)
    return {
        data.user_labels[u]: [(data.item_labels[i], float(s)) for i, s in zip(*row, strict=True) if i >= 0]
        for u, row in enumerate(zip(ids, scores, strict=True))
    }


def clients_by_name(model: OCuLaR, n: int = 10) -> dict[Any, list[Any]]:
    data = model.interactions_
    ids, _ = model.recommend_users(np.arange(data.n_items), N=n)
    return {data.item_labels[i]: [data.user_labels[u] for u in row if u >= 0] for i, row in enumerate(ids)}


EVIDENCE = {"links": 1.0, "peers": 0.5, "link_regularization": 3.0, "n_links": 12}
SETTINGS = {
    "patterns": {},
    "evidence": EVIDENCE,
    "popularity": EVIDENCE | {"popularity": -0.2},
    "bias": {"bias": True},
    "relative": {"relative": True, "links": 1.0},
    "random": {"init": "random", "max_iter": 4},
    "sparse": {"init": "seeds", "n_coclusters": 80, "regularization": 0.3},
}


class TestOrder:
    @pytest.mark.parametrize("labels", ["text", "numbers"])
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_another_order_of_rows_and_columns_gives_the_same_recommendations(self, setting: str, labels: str) -> None:
        R = market()
        names = labelled(R, labels)
        parameters = {"n_coclusters": 5, "regularization": 1.0, "random_state": 0} | SETTINGS[setting]
        one, other = (OCuLaR(**parameters).fit(shuffled(R, *names, seed)) for seed in (1, 2))
        assert by_name(one) == by_name(other)  # to the last bit
        assert clients_by_name(one) == clients_by_name(other)
        assert one.history_ == other.history_

    def test_probabilities_similar_items_and_new_clients_do_not_depend_on_the_order_either(self) -> None:
        R = market()
        names = labelled(R, "text")
        one, other = (OCuLaR(5, 1.0, random_state=0, **EVIDENCE).fit(shuffled(R, *names, seed)) for seed in (1, 2))
        users = [[m.interactions_.user_index(name) for name in names[0]] for m in (one, other)]
        items = [[m.interactions_.item_index(name) for name in names[1]] for m in (one, other)]
        tables = [m.predict_proba(np.array(u)[:, None], i) for m, u, i in zip((one, other), users, items, strict=True)]
        np.testing.assert_allclose(*tables, rtol=1e-6)
        alike = [
            [m.interactions_.item_labels[i] for i in m.similar_items(m.interactions_.item_index(names[1][2]), 20)[0]]
            for m in (one, other)
        ]
        assert alike[0] == alike[1]
        new = []
        for m, i in zip((one, other), items, strict=True):
            row = np.zeros((1, len(i)), dtype=int)
            row[0, i[:6]] = 1
            ids, scores = m.recommend([0], row, recalculate_user=True)
            new.append([(m.interactions_.item_labels[x], float(s)) for x, s in zip(ids[0], scores[0], strict=True)])
        assert new[0] == new[1]

    def test_what_is_in_order_is_fitted_as_it_is(self) -> None:
        R = market()
        users = [f"{u:03}" for u in range(R.shape[0])]
        ordered = Interactions.from_matrix(R, user_labels=users)
        assert Ordering.of(ordered).is_given
        assert Ordering.of(ordered).sort(ordered) is ordered
        named, plain = OCuLaR(5, 1.0, random_state=0).fit(ordered), OCuLaR(5, 1.0, random_state=0).fit(R)
        assert (named.user_factors_ != plain.user_factors_).nnz == 0

    def test_the_attributes_of_the_model_have_the_order_of_the_caller(self) -> None:
        R = market()
        users, items = labelled(R, "text")
        data = shuffled(R, users, items, 1)
        model = OCuLaR(5, 1.0, random_state=0, **EVIDENCE).fit(data)
        assert model.interactions_ is data
        # who bought a product is better explained than who did not: rows and columns are where they belong
        p = model.predict_proba(np.arange(data.n_users)[:, None], np.arange(data.n_items))
        bought = data.to_matrix().toarray() > 0
        assert p[bought].mean() > 3 * p[~bought].mean()
        # links go from products to others with common buyers
        common = (bought.T.astype(int) @ bought.astype(int))[model.links_.nonzero()]
        assert (common > 0).all()

    def test_a_given_start_is_in_the_order_of_the_caller(self) -> None:
        data = shuffled(market(), *labelled(market(), "text"), 1)
        fitted = OCuLaR(5, 1.0, random_state=0).fit(data)
        begun = OCuLaR(5, 1.0, init=(fitted.user_factors_, fitted.item_factors_), max_iter=1).fit(data)
        assert begun.objective_ <= fitted.objective_ * (1 + 1e-6)

    def test_a_checkpoint_of_the_same_purchases_in_another_order_is_gone_on_from(self, tmp_path: Path) -> None:
        R, file = market(), tmp_path / "fit.npz"
        names = labelled(R, "text")
        settings = {"tol": 0.0, "init": "random", "random_state": 0}
        OCuLaR(5, 1.0, max_iter=3, **settings).fit(shuffled(R, *names, 1), checkpoint=file)
        resumed = OCuLaR(5, 1.0, max_iter=6, **settings).fit(shuffled(R, *names, 2), checkpoint=file)
        whole = OCuLaR(5, 1.0, max_iter=6, **settings).fit(shuffled(R, *names, 3))
        assert resumed.history_ == whole.history_
        assert by_name(resumed) == by_name(whole)


def named_market(users: range, items: range) -> Interactions:
    """Part of the market, by name, so that refits have clients and products that come and go."""
    R = market()[users.start : users.stop, items.start : items.stop]
    names = [f"Client {u}" for u in users], [f"Product {i}" for i in items]
    return Interactions.from_matrix(R, user_labels=names[0], item_labels=names[1])


BEFORE, NOW = named_market(range(80), range(55)), named_market(range(5, 90), range(2, 60))
PARAMETERS = {"n_coclusters": 5, "regularization": 1.0, "random_state": 0, "tol": 1e-5, "max_iter": 500}


@pytest.fixture(scope="module")
def before() -> OCuLaR:
    return OCuLaR(**PARAMETERS).fit(BEFORE)


class TestStart:
    @pytest.mark.parametrize("setting", ["patterns", "bias", "relative", "sparse"])
    def test_a_refit_of_the_same_purchases_stays_where_it_was(self, setting: str) -> None:
        parameters = PARAMETERS | SETTINGS[setting]
        old = OCuLaR(**parameters).fit(BEFORE)
        new = OCuLaR(**parameters | {"random_state": 9}).fit(BEFORE, start=old)
        assert new.n_iter_ <= 3
        assert new.objective_ <= old.objective_ * (1 + 1e-6)
        np.testing.assert_allclose(new.user_factors_.toarray(), old.user_factors_.toarray(), atol=0.1)
        np.testing.assert_allclose(new.user_bias_, old.user_bias_, atol=0.02)

    @pytest.mark.parametrize("setting", ["patterns", "bias", "relative", "sparse"])
    def test_clients_and_products_are_matched_by_name(self, setting: str) -> None:
        parameters = PARAMETERS | SETTINGS[setting]
        old = OCuLaR(**parameters).fit(BEFORE)
        new = OCuLaR(**parameters | {"max_iter": 1}).fit(NOW, start=old)
        cold = OCuLaR(**parameters).fit(NOW)
        # one sweep from there is already near the end of a fit of its own
        assert new.objective_ < cold.objective_ * 1.15
        known = [f"Client {u}" for u in range(5, 80)]
        before, now = (
            model.user_factors_.toarray()[[model.interactions_.user_index(name) for name in known]]
            for model in (old, new)
        )
        alike = (before * now).sum(1) / np.maximum(np.linalg.norm(before, axis=1) * np.linalg.norm(now, axis=1), 1e-9)
        assert np.median(alike) > 0.9

    def test_new_clients_and_products_are_in_the_patterns_of_those_like_them(self, before: OCuLaR) -> None:
        new = OCuLaR(**PARAMETERS | {"max_iter": 1}).fit(NOW, start=before)
        p = new.predict_proba(np.arange(NOW.n_users)[:, None], np.arange(NOW.n_items))
        bought = NOW.to_matrix().toarray() > 0
        new_clients, new_products = np.arange(75, 85), np.arange(53, 58)
        for mask, q in ((bought[new_clients], p[new_clients]), (bought[:, new_products], p[:, new_products])):
            assert q[mask].mean() > 2 * q[~mask].mean()

    def test_fewer_sweeps_and_the_recommendations_stay(self, before: OCuLaR) -> None:
        rng = np.random.default_rng(0)
        kept = BEFORE.where(rng.random(BEFORE.nnz) > 0.01)
        warm = OCuLaR(**PARAMETERS).fit(kept, start=before)
        assert warm.n_iter_ < OCuLaR(**PARAMETERS | {"init": "random"}).fit(kept).n_iter_
        assert ocular.compare_models(before, warm, n=5).jaccard > 0.9

    def test_new_clients_with_nothing_but_new_products_are_learned_too(self, before: OCuLaR) -> None:
        R = np.zeros((86, 60), dtype=int)
        R[:80, :55] = market()[:80, :55]
        R[80:, 55:] = 1
        names = [f"Client {u}" for u in range(86)], [f"Product {i}" for i in range(60)]
        data = Interactions.from_matrix(R, user_labels=names[0], item_labels=names[1])
        new = OCuLaR(**PARAMETERS).fit(data, start=before)
        assert (
            new.predict_proba(np.arange(80, 86)[:, None], np.arange(55, 60)).min() > 0.05
        )  # without a start of their own: 0.0001

    def test_numbers_and_labels_of_patterns_stay_and_survive_saving(self, before: OCuLaR, tmp_path: Path) -> None:
        new = OCuLaR(**PARAMETERS).fit(NOW, start=before)
        old_labels = {c.index: c.label for c in before.coclusters()}
        labels = {c.index: c.label for c in new.coclusters()}
        assert [c.index for c in new.coclusters()] == [c.index for c in before.coclusters()]
        assert labels == old_labels
        cold = OCuLaR(**PARAMETERS).fit(NOW)
        cold.user_factors_, cold.item_factors_ = new.user_factors_, new.item_factors_
        assert {c.index: c.label for c in cold.coclusters()} != old_labels  # the words of its own would be others
        new.save(tmp_path / "model")
        again = ocular.load(tmp_path / "model")
        assert {c.index: c.label for c in again.coclusters()} == labels
        third = OCuLaR(**PARAMETERS).fit(NOW, start=again)
        assert {c.index: c.label for c in third.coclusters()} == labels
        assert OCuLaR(**PARAMETERS).fit(NOW).pattern_labels_ == {}

    def test_a_model_can_go_on_from_itself(self, before: OCuLaR) -> None:
        model = OCuLaR(**PARAMETERS).fit(BEFORE)
        labels = {c.index: c.label for c in model.coclusters()}
        model.fit(NOW, start=model)
        expected = OCuLaR(**PARAMETERS).fit(NOW, start=before)
        assert {c.index: c.label for c in model.coclusters()} == labels
        assert model.history_ == expected.history_

    def test_a_pattern_with_other_members_gets_a_label_of_its_own(self, before: OCuLaR) -> None:
        turned = OCuLaR(**PARAMETERS).fit(BEFORE, start=before)
        columns = np.roll(np.arange(5), 1)
        other = OCuLaR(**PARAMETERS).fit(BEFORE)
        other.user_factors_, other.item_factors_ = turned.user_factors_[:, columns], turned.item_factors_[:, columns]
        other.__dict__.pop("_members", None)
        from ocular.refit import kept_labels

        assert len(kept_labels(before.coclusters(), BEFORE, turned.members(), BEFORE)) == len(before.coclusters())
        assert not kept_labels(before.coclusters(), BEFORE, other.members(), BEFORE)

    def test_calibration_starts_without_it(self, before: OCuLaR, monkeypatch: pytest.MonkeyPatch) -> None:
        new = OCuLaR(**PARAMETERS).fit(NOW, start=before)
        assert new.config_.init.startswith(GIVEN)
        starts = []
        fit = OCuLaR.fit

        def spy(self: OCuLaR, X: Any, *arguments: Any, **options: Any) -> OCuLaR:
            starts.append((self.init, options.get("start")))
            return fit(self, X, *arguments, **options)

        monkeypatch.setattr(OCuLaR, "fit", spy)
        calibrate(new)
        assert starts == [("auto", None)]

    def test_a_checkpoint_of_another_start_is_refused(self, before: OCuLaR, tmp_path: Path) -> None:
        file = tmp_path / "fit.npz"
        OCuLaR(**PARAMETERS | {"max_iter": 1}).fit(NOW, start=before, checkpoint=file)
        with pytest.raises(ArtifactError, match="belongs to a fit with init="):
            OCuLaR(**PARAMETERS).fit(NOW, checkpoint=file)
        other = OCuLaR(**PARAMETERS | {"random_state": 5, "init": "random"}).fit(BEFORE)
        with pytest.raises(ArtifactError, match="belongs to a fit with init="):
            OCuLaR(**PARAMETERS).fit(NOW, start=other, checkpoint=file)
        gone_on = OCuLaR(**PARAMETERS).fit(NOW, start=before, checkpoint=file)
        assert gone_on.history_ == OCuLaR(**PARAMETERS).fit(NOW, start=before).history_

    @pytest.mark.parametrize(
        ("start", "says"),
        [
            ("model", "expected start to be a fitted OCuLaR, got 'model'"),
            (OCuLaR(5), "expected start to be a fitted OCuLaR, got OCuLaR"),
            ((1, 2), "expected start to be a fitted OCuLaR"),
            (OCuLaR, "expected start to be a fitted OCuLaR, got <class"),
            (EASE().fit(np.eye(4)), "expected start to be a fitted OCuLaR, got EASE"),
        ],
    )
    def test_another_kind_of_start_is_refused(self, start: Any, says: str) -> None:
        with pytest.raises(ConfigError, match=says):
            OCuLaR(**PARAMETERS).fit(NOW, start=start)

    def test_a_start_that_does_not_fit_is_refused(self, before: OCuLaR) -> None:
        with pytest.raises(ConfigError, match="expected n_coclusters to be 5, as in the model to start from, got 6"):
            OCuLaR(**PARAMETERS | {"n_coclusters": 6}).fit(NOW, start=before)
        with pytest.raises(DataError, match="expected a model to start from with some of these clients, got none"):
            OCuLaR(**PARAMETERS).fit(NOW.to_matrix(), start=before)
        strangers = Interactions.from_matrix(NOW.to_matrix(), user_labels=NOW.user_labels)
        with pytest.raises(DataError, match="with some of these products, got none of the same name"):
            OCuLaR(**PARAMETERS).fit(strangers, start=before)
        given = before.user_factors_, before.item_factors_
        with pytest.raises(ConfigError, match="expected either start or memberships as init, got both"):
            OCuLaR(**PARAMETERS | {"init": given}).fit(BEFORE, start=before)
