"""Searches over K and λ: the same table whatever happened on the way, and a choice that can be followed by hand."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV, KFold
from support import start_python, wait_for

from ocular import Interactions, OCuLaR
from ocular.data.splits import k_fold, per_user_split, random_split
from ocular.errors import ArtifactError, ConfigError, DataError
from ocular.evaluation.metrics import measure
from ocular.evaluation.search import Grid, GridPoint, SearchResult, SearchRow, recall_scorer, search
from ocular.evaluation.trial import Trial, TrialRunner
from ocular.synthetic import Planted

GRID = Grid((2, 4), (0.5, 10, 300))
FOLDS = 3
KILLED = """
import sys, tempfile, time
from pathlib import Path
from ocular.synthetic import planted
from ocular.evaluation.trial import TrialRunner
from ocular.evaluation.search import Grid, search

tempfile.tempdir = sys.argv[4]
run, left = TrialRunner.run, [5]

def run_five(self, *trial):
    left[0] -= 1
    if left[0] < 0:
        time.sleep(600)
    return run(self, *trial)

if sys.argv[2] != "2":
    TrialRunner.run = run_five
market = planted(60, 40, 4, overlap=0.3, density=0.95, noise=0.02, random_state=1).interactions
jobs = int(sys.argv[2])
search(market, Grid((2, 4), (0.5, 10, 300)), M=10, folds=3, results=Path(sys.argv[1]), n_jobs=jobs,
       warm_start=sys.argv[3] == "True")
"""


@pytest.fixture(scope="module")
def interactions(market: Planted) -> Interactions:
    return market.interactions


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """The trials that were run in this process."""
    seen: list[Trial] = []
    run = TrialRunner.run

    def counted(self: TrialRunner, trial: Trial, *paths: Any) -> Any:
        seen.append(trial)
        return run(self, trial, *paths)

    monkeypatch.setattr(TrialRunner, "run", counted)
    return seen


def table(result: SearchResult) -> list[dict[str, Any]]:
    """All that must not depend on chance."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in result.table()]


def done(path: Path) -> list[tuple[Any, ...]]:
    """(point, fold) of every whole line."""
    lines = path.read_text().splitlines(keepends=True)[1:]
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(GridPoint(**line["point"]), line["fold"]) for line in whole]


def test_scores_are_those_of_a_fit_on_each_fold(interactions: Interactions) -> None:
    [row] = search(interactions, Grid([4], [10]), metric="ndcg", M=10, folds=FOLDS, random_state=2).rows
    by_hand = [
        measure(OCuLaR(4, 10, random_state=2).fit(train), train, test, 10).mean("ndcg", 10)
        for train, test in k_fold(interactions, FOLDS, 2)
    ]
    assert row.mean == pytest.approx(np.mean(by_hand), abs=1e-12)
    assert row.error == pytest.approx(np.std(by_hand, ddof=1) / np.sqrt(FOLDS), abs=1e-12)
    assert row.folds == FOLDS


def test_one_fold_is_a_single_split_with_the_error_over_clients(interactions: Interactions) -> None:
    [row] = search(interactions.to_matrix(), Grid([4], [10]), M=10, folds=1).rows
    train, test = random_split(interactions, 0.25, 0)
    each = measure(OCuLaR(4, 10, random_state=0).fit(train), train, test, 10).per_user["recall"][:, 0]
    assert (row.mean, row.folds) == (pytest.approx(each.mean()), 1)
    assert row.error == pytest.approx(each.std(ddof=1) / np.sqrt(len(each)))


def test_a_warm_start_goes_from_the_largest_regularization_down(interactions: Interactions) -> None:
    grid = Grid([4], [10, 300, 30])
    found = search(interactions, grid, metric="map", M=10, folds=1, warm_start=True)
    train, test = random_split(interactions, 0.25, 0)
    start: Any = "overlap"
    by_hand = []
    for regularization in (300, 30, 10):
        model = OCuLaR(4, regularization, init=start, random_state=0).fit(train)
        start = model.user_factors_, model.item_factors_
        by_hand.append(measure(model, train, test, 10).mean("map", 10))
    assert [row.mean for row in found.rows] == by_hand[::-1]
    cold = search(interactions, grid, metric="map", M=10, folds=1)
    assert found.rows[1].mean < cold.rows[1].mean - 0.3  # a λ that is too large spoils the next: not the default


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_killed_search_goes_on_and_repeats_nothing(
    interactions: Interactions, tmp_path: Path, tmp_path_factory: Any, fits: list[Trial], warm_start: bool
) -> None:
    whole = search(interactions, GRID, M=10, folds=FOLDS, warm_start=warm_start)
    assert len(fits) == 18
    results = tmp_path / "search.jsonl"
    process = start_python(KILLED, results, 1, warm_start, tmp_path_factory.mktemp("temporary"))
    wait_for(lambda: results.exists() and len(done(results)) == 5, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = done(results)
    with results.open("a") as file:
        file.write('{"point": {"n_coclus')  # the line that was being written
    fits.clear()
    resumed = search(interactions, GRID, M=10, folds=FOLDS, results=results, warm_start=warm_start)
    assert table(resumed) == table(whole)
    assert len(fits) == 13
    assert not set(fits) & set(before)
    assert len(done(results)) == len(set(done(results))) == 18
    assert [file.name for file in tmp_path.iterdir()] == ["search.jsonl"]
    fits.clear()
    again = search(interactions, GRID, M=10, folds=FOLDS, results=results, warm_start=warm_start)
    assert fits == []
    assert again.to_dict() == resumed.to_dict()  # seconds too


def test_two_processes_give_the_same_table_and_end_with_their_parent(
    interactions: Interactions, tmp_path: Path
) -> None:
    results = tmp_path / "search.jsonl"
    process = start_python(KILLED, results, 2, False, tmp_path)
    wait_for(lambda: results.exists() and len(done(results)) > 0, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.communicate()  # ends when the last one that holds its output has ended
    assert len(children) >= 2
    end = time.monotonic() + 60
    while any(_alive(int(child)) for child in children):
        assert time.monotonic() < end, "a worker has outlived its parent"
        time.sleep(0.01)
    assert [file.name for file in tmp_path.iterdir()] == ["search.jsonl"]  # no copy of the data is left
    both = search(interactions, GRID, M=10, folds=FOLDS, results=results, n_jobs=2)
    assert table(both) == table(search(interactions, GRID, M=10, folds=FOLDS))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_results_file_of_something_else_is_refused(
    interactions: Interactions, bought: np.ndarray, tmp_path: Path, fits: list[Trial]
) -> None:
    results = tmp_path / "search.jsonl"
    one = Grid([2], [1])
    search(interactions, one, M=10, folds=2, results=results)
    fits.clear()
    other = Interactions.from_matrix(bought.T)
    with pytest.raises(ArtifactError, match=r"search.jsonl belongs to other purchases; delete it"):
        search(other, one, M=10, folds=2, results=results)
    with pytest.raises(ArtifactError, match=r"belongs to a search with M=10, folds=2; delete it"):
        search(interactions, one, M=20, folds=3, results=results)
    with pytest.raises(ArtifactError, match=r"belongs to a search with warm_start=False"):
        search(interactions, one, M=10, folds=2, results=results, warm_start=True)
    text = results.read_text()
    results.write_text(text.replace('"fold": 0', '"fold": x'))
    with pytest.raises(ArtifactError, match=r"damaged in line 2; choose another file"):
        search(interactions, one, M=10, folds=2, results=results)
    for precious in ("company,sku\nAcme,bolt\n", "no line end", '{"format": "other"}\n', "[]\n", "7\n"):
        results.write_text(precious)
        with pytest.raises(ArtifactError, match="is not a results file of a search; choose another file"):
            search(interactions, one, M=10, folds=2, results=results)
        assert results.read_text() == precious
    assert fits == []


def test_a_header_that_was_torn_is_written_again(interactions: Interactions, tmp_path: Path) -> None:
    results = tmp_path / "search.jsonl"
    search(interactions, Grid([2], [1]), M=10, folds=2, results=results)
    results.write_text(results.read_text()[:40])
    search(interactions, Grid([2], [1]), M=10, folds=2, results=results)
    assert len(done(results)) == 2


def test_a_larger_grid_takes_up_what_is_there(interactions: Interactions, tmp_path: Path, fits: list[Trial]) -> None:
    results = tmp_path / "search.jsonl"
    search(interactions, Grid([2], [1, 10]), M=10, folds=2, results=results)
    fits.clear()
    larger = search(interactions, Grid([2, 3], [10, 1]), M=10, folds=2, results=results)
    assert {trial.point.n_coclusters for trial in fits} == {3}
    assert len(larger.rows) == 4


def test_halving_finds_the_best_with_fewer_fits(interactions: Interactions, tmp_path: Path, fits: list[Trial]) -> None:
    grid = Grid((1, 2, 4), (0.5, 10, 300))
    results = tmp_path / "search.jsonl"
    every = search(interactions, grid, M=10, folds=5, results=results)
    fits.clear()
    halved = search(interactions, grid, M=10, folds=5, strategy="halving")
    assert len(fits) == 9 * 1 + 3 * 1 + 1 * 3  # 1, 2 and 5 folds
    assert halved.best.point.n_coclusters == every.best.point.n_coclusters == 4
    same = next(row for row in every.rows if row.point == halved.best.point)
    assert (halved.best.mean, halved.best.error) == (same.mean, same.error)
    assert sorted(row.folds for row in halved.rows) == [1] * 6 + [2] * 2 + [5]
    # folds that another search has left in the file do not count
    fits.clear()
    assert table(search(interactions, grid, M=10, folds=5, strategy="halving", results=results)) == table(halved)
    assert fits == []


def test_random_draws_points_of_the_grid(interactions: Interactions) -> None:
    drawn = search(interactions, GRID, M=10, folds=1, strategy="random", n_points=3, random_state=4)
    points = [row.point for row in drawn.rows]
    assert len(set(points)) == 3
    assert set(points) <= set(GRID.points())
    others = [
        search(interactions, GRID, M=10, folds=1, strategy="random", n_points=3, random_state=s).rows for s in (4, 5, 6)
    ]
    assert [row.point for row in others[0]] == points
    assert any([row.point for row in rows] != points for rows in others)


def test_variants_are_points_too(interactions: Interactions) -> None:
    found = search(interactions, Grid([4], [2], (False, True), (False, True)), M=10, folds=1)
    train, test = random_split(interactions, 0.25, 0)
    by_hand = OCuLaR(4, 2, relative=True, bias=True, random_state=0).fit(train)
    assert [(row.point.relative, row.point.bias) for row in found.rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found.rows[3].mean == pytest.approx(measure(by_hand, train, test, 10).mean("recall", 10))


def result(*rows: tuple[int, float, float, float, int]) -> SearchResult:
    return SearchResult("map", 20, 5, "grid", tuple(SearchRow(GridPoint(K, r), m, e, n, 1.0) for K, r, m, e, n in rows))


def test_the_choice_by_hand() -> None:
    found = result(
        (10, 1.0, 0.370, 0.5, 5),  # below .40 − .02, whatever its own error
        (20, 1.0, 0.385, 0.001, 5),
        (20, 3.0, 0.381, 0.001, 5),  # as few co-clusters, larger λ
        (50, 3.0, 0.400, 0.020, 5),
        (90, 3.0, 0.400, 0.001, 5),  # as good with more co-clusters
        (5, 3.0, 0.500, 0.1, 1),  # left out of a halving after the first fold
    )
    assert found.best.point == GridPoint(50, 3.0)
    assert found.interpretable.point == GridPoint(20, 3.0)
    assert [row["choice"] for row in found.table()] == [None, None, "interpretable", "best", None, None]
    assert found.table()[3] == {
        "n_coclusters": 50, "regularization": 3.0, "relative": False, "bias": False, "tol": 1e-4,
        "map@20": 0.4, "error": 0.02, "folds": 5, "seconds": 1.0, "choice": "best",
    }  # fmt: skip
    assert json.loads(json.dumps(found.to_dict()))["interpretable"]["n_coclusters"] == 20
    alone = result((10, 1.0, 0.5, 0.1, 5))
    assert alone.best == alone.interpretable
    assert alone.table()[0]["choice"] == "best, interpretable"


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        (Grid([10, 0], [1]), {}, "expected n_coclusters to be a whole number of at least 1, got 0"),
        (Grid([10], [1, -3]), {}, "expected regularization to be a number from 0 to 1e\\+12, got -3"),
        (Grid([10], [1, float("nan")]), {}, "got nan"),
        (Grid([10], [1], relative=["yes"]), {}, "expected relative to be True or False, got 'yes'"),  # type: ignore[list-item]
        (Grid([], [1]), {}, "expected at least one value of n_coclusters, got none"),
        (GRID, {"metric": "coverage"}, "expected metric to be one of recall, map, ndcg, precision, got 'coverage'"),
        (GRID, {"M": 0}, "expected M to be a whole number of at least 1, got 0"),
        (GRID, {"folds": 0}, "expected folds to be a whole number of at least 1, got 0"),
        (GRID, {"folds": 10**6}, "lower k"),
        (GRID, {"random_state": -1}, "expected random_state to be a whole number of at least 0, got -1"),
        (GRID, {"n_jobs": 0}, "expected n_jobs to be a whole number of at least 1, got 0"),
        (GRID, {"strategy": "bayes"}, "expected strategy to be one of grid, random, halving, got 'bayes'"),
        (GRID, {"strategy": "random"}, "expected n_points with the strategy random, got None"),
        (GRID, {"n_points": 3}, "expected no n_points with the strategy grid, got 3"),
        (GRID, {"strategy": "random", "n_points": 0}, "expected n_points to be a whole number of at least 1, got 0"),
        (GRID, {"strategy": "halving", "folds": 1}, "expected at least 2 folds to halve by, got 1; use 5"),
    ],
)
def test_nonsense_is_refused_before_any_fit(
    interactions: Interactions, tmp_path: Path, fits: list[Trial], grid: Grid, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, DataError), match=message) as refused:
        search(interactions, grid, results=tmp_path / "search.jsonl", **options)
    assert "\n" not in str(refused.value)
    assert fits == []
    assert list(tmp_path.iterdir()) == []


def test_grid_search_of_scikit_learn(bought: np.ndarray) -> None:
    found = GridSearchCV(
        OCuLaR(random_state=0, n_threads=1),
        {"n_coclusters": [1, 4], "regularization": [0.5, 1e5]},
        scoring=recall_scorer(M=5),
        cv=KFold(3, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(sp.csr_matrix(bought))
    assert found.best_params_ == {"n_coclusters": 4, "regularization": 0.5}
    assert found.best_score_ > 0.8


def test_the_scorer_works_as_it_stands_and_with_options(bought: np.ndarray) -> None:
    estimator, grid = OCuLaR(random_state=0, n_threads=1), {"n_coclusters": [4], "regularization": [0.5]}
    model = OCuLaR(4, 0.5, random_state=0).fit(bought[:40])
    scores = {}
    for name, scorer in (("plain", recall_scorer), ("options", recall_scorer(M=3, metric="map"))):
        found = GridSearchCV(estimator, grid, scoring=scorer, cv=KFold(2), error_score="raise").fit(bought)
        scores[name] = found.best_score_
        assert 0 < scorer(model, bought[40:], None) <= 1
    assert scores["plain"] > scores["options"]
    assert recall_scorer.M == 50  # options make a new one
    with pytest.raises(ConfigError, match=r"scoring=recall_scorer\(M=20\)"):
        recall_scorer(20)


def test_grid_search_on_interactions_says_what_to_do(interactions: Interactions) -> None:
    search_cv = GridSearchCV(OCuLaR(), {"n_coclusters": [2]}, scoring=recall_scorer, cv=KFold(2))
    with pytest.raises(
        DataError, match=r"expected a matrix, got Interactions; pass interactions.to_matrix\(\)"
    ) as refused:
        search_cv.fit(interactions)
    assert "ocular.search" in str(refused.value)


def test_results_print_short_and_give_frames(interactions: Interactions) -> None:
    found = search(interactions, {"n_coclusters": [2, 4], "regularization": [0.5, 300]}, M=10, folds=2)
    best = found.best
    assert repr(found) == (
        f"SearchResult(4 grid points; best recall@10 {best.mean:.4f} with n_coclusters=4, regularization=0.5)"
    )
    assert found.best_params_ == {
        "n_coclusters": 4, "regularization": 0.5, "relative": False, "bias": False, "tol": 1e-4,
    }  # fmt: skip
    assert OCuLaR(**found.best_params_).n_coclusters == 4
    frame = found.to_frame()
    assert frame["recall@10"].to_list() == [row.mean for row in found.rows]
    assert frame["choice"].to_list() == [row["choice"] for row in found.table()]
    page = found._repr_html_()
    assert page.count("<tr") == 1 + 4
    assert "interpretable" in page


def test_the_scorer_hides_purchases_of_clients_the_model_has_not_seen(bought: np.ndarray) -> None:
    model = OCuLaR(4, 0.5, random_state=0).fit(bought[:40])
    unseen = Interactions.from_matrix(bought[40:])
    known, hidden = per_user_split(unseen, 0.25, 0)
    recalls = []
    for user in np.flatnonzero(hidden.by_user.degrees):
        row = known.to_matrix()[[user]]
        ids, _ = model.recommend(0, row, N=5, recalculate_user=True)
        recalls.append(np.isin(hidden.by_user[user], ids).mean())
    assert recall_scorer(M=5)(model, bought[40:]) == pytest.approx(np.mean(recalls))
    # ratings become purchases as they did in the fit
    stars = OCuLaR(4, 0.5, min_value=3, random_state=0).fit(bought[:40] * 5)
    assert recall_scorer(M=5)(stars, bought[40:] * 5) == pytest.approx(np.mean(recalls))


@pytest.mark.parametrize(
    ("grid", "got"),
    [({"K": [2]}, "K"), ({"n_coclusters": [2]}, "n_coclusters"), ({}, "nothing"), ([2, 4], "list")],
)
def test_a_grid_of_other_names_is_refused(interactions: Interactions, grid: Any, got: str) -> None:
    with pytest.raises(ConfigError, match=f"expected n_coclusters and regularization, .* got {got}$"):
        search(interactions, grid)


def test_single_values_make_a_grid(interactions: Interactions) -> None:
    [row] = search(interactions, {"n_coclusters": 4, "regularization": 10.0}, M=10, folds=1).rows
    assert row.point == GridPoint(4, 10.0)


def test_too_many_recommendations_are_noted_once(interactions: Interactions, caplog: pytest.LogCaptureFixture) -> None:
    search(interactions, Grid((2, 4), 10), M=30, folds=2)
    assert caplog.messages == ["30 recommendations of 40 products find nearly everything; try M=6"]
