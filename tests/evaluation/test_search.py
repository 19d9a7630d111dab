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
from ocular.evaluation import fold_evidence, trial
from ocular.evaluation.fold_evidence import Penalties, Weights
from ocular.evaluation.metrics import PER_USER, measure
from ocular.evaluation.search import Grid, GridPoint, SearchResult, SearchRow, recall_scorer, search
from ocular.evaluation.trial import SearchSettings, Trial, TrialRunner
from ocular.synthetic import Planted
from ocular.weight_scan import WeightScan

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
        (GRID, {"links": 0.5}, 'expected links to be "auto" or 0, got 0.5$'),
        (GRID, {"links": "yes"}, "expected links to be \"auto\" or 0, got 'yes'$"),
        (GRID, {"links": None}, 'expected links to be "auto" or 0, got None$'),
        (GRID, {"link_regularization": 30}, "expected no link_regularization without links, got 30; add links=auto$"),
        (
            GRID,
            {"links": "auto", "link_regularization": -1},
            "expected link_regularization to be a number from 0 to 1e\\+12, got -1",
        ),
        (GRID, {"links": "auto", "link_regularization": "much"}, "expected link_regularization .* got 'much'"),
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


# ------------------------------------------------------------------------------------------ links and peers


@pytest.fixture(scope="module")
def paired() -> Interactions:
    """Who has product 2k has 2k + 1 in nine of ten cases: twenty pairs, which two co-clusters cannot tell apart."""
    rng = np.random.default_rng(0)
    first = rng.random((150, 20)) < 0.15
    second = (first & (rng.random(first.shape) < 0.9)) | (rng.random(first.shape) < 0.02)
    return Interactions.from_matrix(np.stack([first, second], axis=2).reshape(150, 40).astype(int))


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often patterns, links and peers were fitted in this process."""
    counts = dict.fromkeys(("fit", "fit_product_links", "fit_peers"), 0)

    def count(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    count(OCuLaR, "fit")
    count(fold_evidence, "fit_product_links")
    count(fold_evidence, "fit_peers")
    return counts


def test_planted_links_are_found_and_the_best_parameters_are_the_best_model(paired: Interactions) -> None:
    grid = Grid([2, 3], [1, 10])
    plain = search(paired, grid, M=5, folds=1)
    found = search(paired, grid, M=5, folds=1, links="auto")
    train, test = random_split(paired, 0.25, 0)
    for row in found.rows:
        assert row.weights is not None
        assert row.weights.links > 0
        model = OCuLaR(**row.params, random_state=0).fit(train)
        assert row.mean == pytest.approx(measure(model, train, test, 5).mean("recall", 5), abs=1e-12)
    assert found.best.mean > plain.best.mean + 0.2
    assert found.best_params_ == found.best.params
    assert set(Weights._fields) < set(found.best_params_)
    assert found.to_dict()["best"] == found.best_params_
    assert found.to_frame()["links"].to_list() == [row.params["links"] for row in found.rows]


def test_weights_cost_no_fit(paired: Interactions, fitted: dict[str, int]) -> None:
    grid = Grid([2, 3], [1, 10])
    given = {"link_regularization": 30, "peer_regularization": 100}
    [row, *_] = search(paired, grid, M=5, folds=2, links="auto", **given).rows  # type: ignore[arg-type]
    assert given.items() <= row.params.items()
    assert fitted == {"fit": 4 * 2, "fit_product_links": 2, "fit_peers": 2}
    fitted.update(dict.fromkeys(fitted, 0))
    found = search(paired, grid, M=5, folds=2, links="auto")
    assert (fitted["fit"], fitted["fit_peers"]) == (4 * 2, 2)
    assert 2 + 2 <= fitted["fit_product_links"] <= 2 + 9  # the penalties that were tried on the first fold
    assert len({(row.params["link_regularization"], row.params["peer_regularization"]) for row in found.rows}) == 1


def test_without_links_nothing_of_a_search_has_changed(
    paired: Interactions, tmp_path: Path, fitted: dict[str, int]
) -> None:
    results = tmp_path / "search.jsonl"
    [row] = search(paired, Grid([2], [1]), M=5, folds=2, results=results).table()
    assert fitted == {"fit": 2, "fit_product_links": 0, "fit_peers": 0}
    assert list(row)[5:] == ["recall@5", "error", "folds", "seconds", "choice"]
    header, *lines = map(json.loads, results.read_text().splitlines())
    settings = ["metric", "M", "folds", "random_state", "warm_start", "ocular"]
    assert list(header["settings"]) == settings
    assert [list(line) for line in lines] == [["point", "fold", "value", "error", "seconds"]] * 2


def test_scores_do_not_depend_on_what_was_fitted_before(
    paired: Interactions, tmp_path: Path, fits: list[Trial]
) -> None:
    results, options = tmp_path / "search.jsonl", {"M": 5, "folds": 2, "links": "auto"}
    grid = Grid([2, 3], [1, 10], relative=(False, True))
    whole = search(paired, grid, **options)  # type: ignore[arg-type]
    search(paired, Grid([3], [10], relative=True), results=results, **options)  # type: ignore[arg-type]
    fits.clear()
    resumed = search(paired, grid, results=results, **options)  # type: ignore[arg-type]
    assert len(fits) == 14
    assert table(resumed) == table(whole)
    fits.clear()
    assert search(paired, grid, results=results, **options).to_dict() == resumed.to_dict()  # type: ignore[arg-type]
    assert fits == []
    both = search(paired, grid, n_jobs=2, **options)  # type: ignore[arg-type]
    assert table(both) == table(whole)


def test_the_penalty_is_that_of_the_first_fold_wherever_a_process_begins(
    paired: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "choose_penalties", lambda split, *_: Penalties(split.test.by_user.indices.sum(), 100.0))
    tests = [float(test.by_user.indices.sum()) for _, test in k_fold(paired, 2, 0)]
    assert tests[0] != tests[1]  # which fold was held out can be told by it
    runner = TrialRunner(paired, SearchSettings("recall", 5, 2, 0, links="auto"))
    weights = runner.run(Trial(GridPoint(2, 1.0), 1), None, None).weights
    assert weights is not None
    assert weights.link_regularization == tests[0]


def test_lines_with_and_without_links_are_never_mixed(paired: Interactions, tmp_path: Path) -> None:
    one, without, with_links = Grid([2], [1]), tmp_path / "without.jsonl", tmp_path / "with.jsonl"
    options = {"M": 5, "folds": 2}
    search(paired, one, results=without, **options)  # type: ignore[arg-type]
    search(paired, one, results=with_links, links="auto", **options)  # type: ignore[arg-type]
    with pytest.raises(ArtifactError, match=r"belongs to a search with links=0; delete it"):
        search(paired, one, results=without, links="auto", **options)  # type: ignore[arg-type]
    with pytest.raises(ArtifactError, match=r"belongs to a search with links='auto'; delete it"):
        search(paired, one, results=with_links, **options)  # type: ignore[arg-type]
    with pytest.raises(ArtifactError, match=r"belongs to a search with link_regularization=None; delete it"):
        search(paired, one, results=with_links, links="auto", link_regularization=30, **options)  # type: ignore[arg-type]
    with_links.write_text(with_links.read_text().replace('"peers"', '"pears"', 1))
    with pytest.raises(ArtifactError, match=r"damaged in line 2"):
        search(paired, one, results=with_links, links="auto", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", PER_USER)
def test_weights_are_chosen_by_the_metric_of_the_search(paired: Interactions, metric: str) -> None:
    split = random_split(paired, 0.25, 0)
    scan = WeightScan(split, metric, 5, 1)
    model = OCuLaR(2, 1, links=0.7, peers=0.3, popularity=-0.2, link_regularization=30, random_state=0).fit(split.train)
    scan.use_patterns(model.user_factors_, model.item_factors_)
    scan.use_links(model.links_)
    scan.take_peers(model.peers_[:, scan.users])
    scores = measure(model, *split, 5)
    seen = np.isin(scores.users, scan.users)  # the others have nothing to score by
    expected = scores.per_user[metric][seen, 0].mean()
    assert scan.value(1.0, 0.7, 0.3, -0.2) == pytest.approx(expected, rel=1e-3)


def test_too_few_pairs_to_choose_on_are_told(bought: np.ndarray, caplog: pytest.LogCaptureFixture) -> None:
    few = Interactions.from_matrix(bought[:10])
    assert few.nnz / 4 < 50
    [row] = search(few, Grid([2], [1]), M=5, folds=4, links="auto").rows
    assert row.weights == Weights(1.0, 0.0, 0.0, 100.0, 1000.0)
    assert caplog.messages == ["fewer than 50 held-out pairs are too few to choose weights on; taking links=1, peers=0"]


def test_a_row_has_the_medians_of_the_folds() -> None:
    penalties = 30.0, 1000.0
    chosen = (0.1, 0.0, -0.1), (0.62, 0.0, 0.0), (0.773, 0.4, 0.0)
    of_folds = [Weights(*weights, *penalties) for weights in chosen]
    assert Weights.typical(of_folds) == (0.62, 0.0, 0.0, *penalties)
    assert Weights.typical(of_folds[1:]) == (0.7, 0.2, 0.0, *penalties)
    row = SearchRow(GridPoint(2, 1.0), 0.4, 0.1, 5, 1.0, of_folds[0])
    found = SearchResult("map", 20, 5, "grid", (row,))
    assert found.measure == "map@20 with links and peers"
    assert repr(found).endswith("n_coclusters=2, regularization=1, links=0.1, peers=0, popularity=-0.1)")
    assert list(found.table()[0].items())[5:11] == [*of_folds[0]._asdict().items(), ("map@20", 0.4)]
