"""Methods side by side: the same instances for all, tuned where it was said, tested in pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel

from ocular import Interactions, OCuLaR
from ocular.baselines import ease, factorization
from ocular.data.splits import random_split, time_split
from ocular.errors import ConfigError, MissingExtraError
from ocular.evaluation import protocol
from ocular.evaluation.metrics import measure
from ocular.evaluation.protocol import Method, backtest, compare
from ocular.synthetic import planted

SMALL = {"n_coclusters": 4, "regularization": 0.5, "init": "overlap"}


@pytest.fixture(scope="module")
def market() -> Interactions:
    return planted(120, 60, 4, overlap=0.4, density=0.7, noise=0.02, random_state=3).interactions


def test_a_method_given_by_name_is_tuned_unless_told_otherwise(market: Interactions) -> None:
    tuned, plain = (compare(market, ["user-knn"], instances=1, tune=tune, M=10) for tune in ("validation", "none"))
    assert tuned.results[0].parameters in protocol.SETTINGS["user-knn"]
    assert plain.results[0].parameters == {}


def test_every_method_sees_the_same_instances(market: Interactions) -> None:
    found = compare(market, [Method("ocular", [SMALL]), "popularity"], instances=2, M=(10, 5), random_state=7)
    assert (found.tuned_on, found.metric, found.M) == ("validation", "recall", 10)
    for result in found.results:
        assert len(result.scores) == len(result.seconds) == 2
        for number, scores in enumerate(result.scores):
            train, test = random_split(market, 0.25, 7 + number)
            model = Method(result.method).make(result.parameters, 7).fit(train)
            expected = measure(model, train, test, (5, 10))
            assert scores.mean("recall", 10) == pytest.approx(expected.mean("recall", 10))
            assert scores.mean("map", 5) == pytest.approx(expected.mean("map", 5))
    ours = next(result for result in found.results if result.method == "ocular")
    assert found.best is ours
    values = [scores.mean("recall", 10) for scores in ours.scores]
    assert ours.mean("recall", 10) == pytest.approx(np.mean(values))
    assert ours.error("recall", 10) == pytest.approx(abs(values[0] - values[1]) / 2)


def test_rows_mark_the_best_and_say_how_sure(market: Interactions) -> None:
    found = compare(market, ["popularity", Method("ocular", [SMALL])], instances=2, M=10)
    first, second = found.rows()
    assert (first["model"], first["best"], first["p_value"]) == ("ocular", True, None)
    assert (second["model"], second["best"]) == ("popularity", False)
    best, other = (result.per_user("recall", 10) for result in (found.best, found.results[0]))
    users = sorted(best.keys() & other.keys())
    expected = ttest_rel([best[u] for u in users], [other[u] for u in users]).pvalue
    assert second["p_value"] == pytest.approx(expected, rel=0.06)
    assert found.to_dict()["rows"] == [first, second]


def test_a_single_instance_has_no_standard_error(market: Interactions) -> None:
    row = compare(market, ["popularity"], instances=1, M=10).rows()[0]
    assert row["standard_error"] is None
    assert row["instances"] == 1


@pytest.mark.parametrize("tune", ["validation", "test"])
def test_tuning_looks_only_where_it_says(market: Interactions, tune: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, Any]] = []

    def spy(model: Any, train: Interactions, test: Interactions, M: Any) -> Any:
        asked.append((train, test))
        return measure(model, train, test, M)

    monkeypatch.setattr(protocol, "measure", spy)
    poor = {**SMALL, "regularization": 300.0}
    found = compare(market, [Method("ocular", [poor, SMALL])], instances=1, tune=tune, M=10)
    assert found.results[0].parameters == SMALL
    train, test = random_split(market, 0.25, 0)
    tuning, final = asked[:2], asked[2]
    assert final[1].fingerprint() == test.fingerprint()
    inside = random_split(train, 0.1, 0) if tune == "validation" else (train, test)
    for pair in tuning:
        assert [part.fingerprint() for part in pair] == [part.fingerprint() for part in inside]


def test_without_tuning_the_first_setting_is_taken(market: Interactions) -> None:
    poor = {**SMALL, "regularization": 300.0}
    found = compare(market, [Method("ocular", [poor, SMALL])], instances=1, tune="none", M=10)
    assert found.results[0].parameters == poor


def test_a_backtest_asks_for_what_came_after() -> None:
    rng = np.random.default_rng(0)
    base = planted(80, 30, 3, overlap=0.2, density=0.8, random_state=1).interactions
    days = np.datetime64("2024-01-01") + rng.integers(0, 100, base.nnz).astype("timedelta64[D]")
    interactions = Interactions.from_pairs(base.pair_users, base.by_user.indices, base.shape, time=days)
    found = backtest(interactions, "2024-03-01", [Method("ocular", [SMALL])], M=5)
    train, test = time_split(interactions, "2024-03-01")
    expected = measure(Method("ocular").make(SMALL, 0).fit(train), train, test, 5)
    assert found.rows()[0]["recall@5"] == pytest.approx(expected.mean("recall", 5), abs=1e-4)


def seasonal() -> Interactions:
    """
    Purchases of co-clusters in spring and of bestsellers alone from June on.

    A random part of what was bought before July is mostly spring; its last part is June, which is like July.
    """
    rng = np.random.default_rng(3)
    spring = planted(120, 40, 4, overlap=0.1, density=0.6, random_state=2).interactions
    purchases = [
        (user, item, np.datetime64("2024-01-01") + np.timedelta64(int(rng.integers(0, 150)), "D"))
        for user, item in zip(spring.pair_users.tolist(), spring.by_user.indices.tolist(), strict=True)
    ]
    for user in range(120):
        bestsellers = 40 + rng.choice(12, 8, replace=False)
        months = ["2024-01-01"] * 4 + ["2024-06-01"] * 2 + ["2024-07-01"] * 2
        purchases += [
            (user, item, np.datetime64(month) + np.timedelta64(int(rng.integers(0, 28)), "D"))
            for item, month in zip(bestsellers.tolist(), months, strict=True)
        ]
    users, items, days = zip(*purchases, strict=True)
    return Interactions.from_pairs(users, items, (120, 52), time=np.array(days, dtype="datetime64[D]"))


def test_a_backtest_is_tuned_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    interactions = seasonal()
    asked: list[tuple[Interactions, Interactions]] = []

    def spy(model: Any, train: Interactions, test: Interactions, M: Any) -> Any:
        asked.append((train, test))
        return measure(model, train, test, M)

    monkeypatch.setattr(protocol, "measure", spy)
    method = Method("user-knn", [{"k": 1}, {"k": 40}])
    backtest(interactions, "2024-07-01", [method], tune="validation", M=5)
    train, test = time_split(interactions, "2024-07-01")
    for tuning_train, tuning_test in asked[:2]:
        assert tuning_train.purchases is not None
        assert tuning_test.purchases is not None
        assert tuning_train.nnz + tuning_test.nnz == train.nnz
        assert tuning_train.purchases.time.max() < tuning_test.purchases.time.min()  # type: ignore[union-attr]
        assert tuning_test.purchases.time.min() >= np.datetime64("2024-06-01")  # type: ignore[union-attr]
        assert tuning_test.purchases.time.max() < np.datetime64("2024-07-01")  # type: ignore[union-attr]
    assert [part.fingerprint() for part in asked[2]] == [train.fingerprint(), test.fingerprint()]


def test_tuning_by_time_chooses_what_the_test_rewards() -> None:
    interactions = seasonal()
    bestsellers = {**SMALL, "regularization": 1e6}  # no memberships are left: popularity decides
    method = Method("ocular", [SMALL, bestsellers])
    tuned = {tune: backtest(interactions, "2024-07-01", [method], tune=tune, M=5) for tune in ("validation", "test")}
    assert tuned["validation"].best_params_ == tuned["test"].best_params_ == bestsellers
    train, _ = time_split(interactions, "2024-07-01")
    assert compare(train, [method], instances=1, test_share=0.1, tune="test", M=5).best_params_ == SMALL


def test_the_validation_period_is_as_long_as_the_test() -> None:
    days = np.datetime64("2024-01-01") + np.arange(100).astype("timedelta64[D]")
    daily = Interactions.from_pairs(np.arange(100) % 10, np.arange(100) // 10, (10, 10), time=days)
    for date, first in (
        ("2024-03-11", "2024-02-11"),  # 30 days of test: the 30 days before (29 between the first and the last)
        ("2024-04-08", "2024-03-29"),  # two days would be too few: a tenth of the training purchases
        ("2024-02-01", "2024-01-16"),  # 69 days before there is nothing: half of them
    ):
        held_out = protocol.split_before(*time_split(daily, date)).test.purchases
        assert held_out is not None
        assert held_out.time.min() == np.datetime64(first)  # type: ignore[union-attr]


def test_results_print_short_and_give_frames(market: Interactions) -> None:
    found = compare(market, [Method("ocular", [SMALL]), "popularity"], instances=2, M=10)
    value = found.best.mean("recall", 10)
    assert repr(found) == f"Comparison(2 methods; best recall@10 {value:.4f} by ocular)"
    frame = found.to_frame()
    assert frame["model"].to_list() == ["ocular", "popularity"]
    assert frame["recall@10"].to_list() == [row["recall@10"] for row in found.rows()]
    assert frame["parameters"][0] == "n_coclusters=4, regularization=0.5, init=overlap"
    assert found.best_params_ == SMALL
    page = found._repr_html_()
    assert page.startswith("<table") or "<table" in page
    assert "popularity" in page
    relative = compare(market, [Method("r-ocular", [SMALL])], instances=1, M=10)
    assert OCuLaR(**relative.best_params_).relative is True


def test_matrices_are_taken_as_fit_takes_them(market: Interactions) -> None:
    by_hand = compare(market, ["popularity"], instances=1, M=10).rows()[0]
    by_matrix = compare(market.to_matrix(), ["popularity"], instances=1, M=10).rows()[0]
    assert {**by_hand, "fit_seconds": 0} == {**by_matrix, "fit_seconds": 0}


def test_a_model_that_cannot_run_is_found_before_the_first_fit(
    market: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_fit", lambda *_: pytest.fail("nothing may be fitted"))
    with pytest.raises(ConfigError, match="expected k to be a whole number of at least 1, got 0"):
        compare(market, ["ocular", Method("user-knn", [{"k": 0}])], instances=1)
    monkeypatch.setattr(ease, "MAX_ITEMS", 50)
    with pytest.raises(ConfigError, match="expected at most 50 items for EASE, got 60"):
        compare(market, ["popularity", "ease"], instances=1)
    monkeypatch.setattr(factorization, "import_module", missing)
    with pytest.raises(MissingExtraError, match="WALS and BPR need implicit"):
        compare(market, ["popularity", "bpr"], instances=1)


def missing(name: str) -> Any:
    raise ImportError(name)


def test_ctrl_c_in_a_fit_ends_the_comparison(market: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped:
        interrupted_ = True

        def fit(self, _: Any) -> Stopped:
            return self

    monkeypatch.setattr(Method, "make", lambda *_: Stopped())
    monkeypatch.setattr(Method, "check", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        compare(market, [Method("ocular", [SMALL])], instances=1)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda m: compare(m, ["svd"]), "expected models to be one of ocular, r-ocular, .*, got 'svd'"),
        (lambda m: compare(m, ["ocular", "ocular"]), "every model once, got ocular, ocular"),
        (lambda m: compare(m, []), "every model once, got none"),
        (
            lambda m: compare(m, ["ocular"], tune="train"),
            "tune to be one of none, validation, test, got 'train'",
        ),
        (
            lambda m: compare(m, ["ocular"], metric="auc"),
            "metric to be one of recall, map, ndcg, precision, got 'auc'",
        ),
        (lambda m: compare(m, ["ocular"], instances=0), "expected instances to be a whole number of at least 1, got 0"),
        (lambda m: compare(m, [Method("ocular", [{"n_coclusters": 0}])]), "n_coclusters"),
        (lambda m: compare(m, [Method("popularity", [{"depth": 3}])]), "parameters of popularity"),
        (lambda _: Method("ocular", []), "at least one setting of ocular"),
    ],
)
def test_nonsense_is_refused_before_any_fit(
    market: Interactions, monkeypatch: pytest.MonkeyPatch, ask: Any, says: str
) -> None:
    monkeypatch.setattr(protocol, "_fit", lambda *_: pytest.fail("nothing may be fitted"))
    with pytest.raises(ConfigError, match=says):
        ask(market)


def test_a_single_name_and_numpy_numbers_do(market: Interactions) -> None:
    found = compare(market, "popularity", instances=1, tune="none", M=np.int64(5))
    assert found.M == 5
    assert [row["model"] for row in found.rows()] == ["popularity"]


@pytest.mark.parametrize(
    ("methods", "M", "says"),
    [
        ([OCuLaR(2)], 5, "expected names of models .* or ocular.Method, got OCuLaR"),
        (OCuLaR(2), 5, "got OCuLaR"),
        ("popularity", [], "expected at least one M"),
    ],
)
def test_what_cannot_be_compared_is_said(market: Interactions, methods: Any, M: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        compare(market, methods, instances=1, M=M)


def test_too_many_recommendations_are_noted_once(market: Interactions, caplog: pytest.LogCaptureFixture) -> None:
    n = market.n_items
    compare(market, ["popularity", "user-knn"], instances=2, tune="none", M=n)
    [note] = caplog.messages
    assert note.startswith(f"{n} recommendations of {n} products find nearly everything; try M=")
    caplog.clear()
    compare(market, ["popularity"], instances=1, M=n // 3)
    assert not caplog.messages


def test_the_log_of_tuning_is_for_people(market: Interactions) -> None:
    lines: list[str] = []
    settings = [{"n_coclusters": 2, "regularization": 30.0, "n_threads": None}, {"n_coclusters": 3}]
    compare(market, [Method("ocular", settings)], instances=1, M=5, report=lines.append)
    assert lines[0].startswith("tuning ocular K=2 λ=30: recall@5 ")
