"""Methods side by side: the same instances for all, tuned where it was said, tested in pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel

from ocular import Interactions
from ocular.data.splits import random_split, time_split
from ocular.errors import ConfigError
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
    days = np.datetime64("2024-01-01") + rng.integers(0, 100, base.nnz)
    history = Interactions.from_pairs(base.pair_users, base.by_user.indices, base.shape, time=days)
    found = backtest(history, "2024-03-01", [Method("ocular", [SMALL])], M=5)
    train, test = time_split(history, "2024-03-01")
    expected = measure(Method("ocular").make(SMALL, 0).fit(train), train, test, 5)
    assert found.rows()[0]["recall@5"] == pytest.approx(expected.mean("recall", 5), abs=1e-4)


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
