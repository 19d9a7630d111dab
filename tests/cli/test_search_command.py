"""ocular search as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import Done, run
from support import wait_for

import ocular
from ocular import plots
from ocular.cli.search import heat_map_text
from ocular.data.interactions import Interactions
from ocular.errors import ConfigError
from ocular.evaluation.fold_evidence import Weights
from ocular.evaluation.search import GridPoint, SearchResult, SearchRow
from ocular.evaluation.trial import TrialRunner

COLUMNS = ("--client", "client", "--product", "product")
SMALL = ("--coclusters", "2,4", "--regularization", "0.5,300", "--folds", 3, "--at", 10)


@pytest.fixture(scope="module")
def sales(named: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "sales.csv"
    rows = zip(named.user_labels[named.pair_users], named.item_labels[named.by_user.indices], strict=True)
    path.write_text("client,product\n" + "".join(f"{client},{product}\n" for client, product in rows))
    return path


def searched(sales: Path, *options: object) -> Done:
    done = run("search", sales, *COLUMNS, *SMALL, *options)
    assert done.returncode == 0, done.stderr
    return done


def test_table_json_and_csv_agree(sales: Path, tmp_path: Path) -> None:
    results = tmp_path / "search.jsonl"
    patterns = "--links", 0, "--results", results
    found = json.loads(searched(sales, *patterns, "--format", "json").stdout)
    assert found["best"]["n_coclusters"] == 4
    assert found["best"]["regularization"] == 0.5
    assert len(results.read_text().splitlines()) == 1 + 4 * 3
    as_csv = list(csv.DictReader(io.StringIO(searched(sales, *patterns, "--format", "csv").stdout)))
    assert [float(row["recall@10"]) for row in as_csv] == [round(row["recall@10"], 4) for row in found["rows"]]
    assert [row["choice"] for row in as_csv] == ["", "", "best, interpretable", ""]
    done = searched(sales, *patterns)
    table, heat, chosen = done.stdout.split("\n\n", 2)
    assert [line.split()[0] for line in table.splitlines()[2:]] == ["2", "2", "4", "4"]
    assert "best, interpretable" in table.splitlines()[4]
    assert "co-clusters down, regularization across" in heat
    assert "best           4 co-clusters, λ=0.5: recall@10 " in chosen
    assert "interpretable  4 co-clusters, λ=0.5: recall@10 " in chosen
    assert done.stderr.splitlines() == [  # no bar where there is no terminal
        "note: the best has the largest --coclusters that was tried, 4; try larger ones too",
        "note: the best has the smallest --regularization that was tried, 0.5; try smaller ones too",
    ]


def test_links_and_peers_are_shown_where_they_are_measured(sales: Path, tmp_path: Path) -> None:
    weights = ("links", "peers", "popularity", "link_regularization", "peer_regularization")
    plain = searched(sales, "--links", 0)
    assert not set(weights) & set(plain.stdout.split("\n")[0].split())
    assert "\n\nrecall@10, co-clusters down" in plain.stdout
    assert "peers" not in plain.stdout
    results = "--coclusters", 1, "--results", tmp_path / "search.jsonl"  # which leaves something to links
    found = json.loads(searched(sales, *results, "--format", "json").stdout)
    assert set(weights) < set(found["best"])
    shown = searched(sales, *results).stdout
    assert "links" in shown.split("\n")[0].split()
    assert "\n\nrecall@10 with links and peers, co-clusters down" in shown
    best = found["best"]
    assert f", links {best['links']:g}, peers {best['peers']:g}, popularity {best['popularity']:g}, link reg" in shown
    searched(sales, *results, "--refit", tmp_path / "model")
    model = ocular.load(tmp_path / "model")
    assert {name: getattr(model.evidence_config_, name) for name in weights} == {n: best[n] for n in weights}
    assert best["links"] > 0
    assert model.links_.nnz > 0


def test_where_to_stop_is_a_variant(sales: Path) -> None:
    table, tight, loose, chosen = searched(sales, "--tol", "1e-4,0.2").stdout.split("\n\n", 3)
    header, _, *rows = table.splitlines()
    assert "tol" in header.split()
    assert {row.split()[2] for row in rows} == {"0.0001", "0.2"}
    assert tight.startswith("tol=0.0001: recall@10")
    assert loose.startswith("tol=0.2: recall@10")
    assert "λ=0.5, tol=0.2: recall@10" in chosen


def test_plot_and_refit(sales: Path, tmp_path: Path) -> None:
    done = searched(
        sales, "--strategy", "halving", "--bias", "--plot", tmp_path / "search.png", "--refit", tmp_path / "model",
        "--format", "json",
    )  # fmt: skip
    best = json.loads(done.stdout)["best"]
    assert (tmp_path / "search.png").read_bytes().startswith(b"\x89PNG")
    model = ocular.load(tmp_path / "model")
    assert {name: getattr(model, name) for name in best} == best
    assert model.interactions_.nnz == len(sales.read_text().splitlines()) - 1
    assert model.interactions_.user_labels[0] == "Client 0 GmbH"
    assert model.calibration_ is not None
    assert f"saved to {tmp_path / 'model'}" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--coclusters", "10,x"), "expected --coclusters as whole numbers such as 10,20,50, got '10,x'"),
        (("--coclusters", "2.5"), "expected --coclusters as whole numbers such as 10,20,50, got '2.5'"),
        (("--regularization", ""), "expected --regularization as numbers such as 1,3,10, got ''"),
        (("--coclusters", "4,0"), "expected --coclusters to be a whole number of at least 1, got 0"),
        (
            ("--regularization", "1,-1"),
            "expected --regularization to be a number from 0 to 1e+12, got -1.0",
        ),
        (("--tol", "-1"), "expected --tol to be a number of at least 0, got -1.0"),
        (("--metric", "auc"), "expected --metric to be one of recall, map, ndcg, precision, got 'auc'"),
        (("--strategy", "bayes"), "expected --strategy to be one of grid, random, halving, got 'bayes'"),
        (("--strategy", "random"), "expected --points with the strategy random, got None"),
        (("--links", "0.5"), 'expected --links to be "auto" or 0, got 0.5'),
        (("--links", "yes"), "expected --links to be \"auto\" or 0, got 'yes'"),
        (
            ("--links", 0, "--link-regularization", 30),
            "expected no --link-regularization without links, got 30.0; add --links auto",
        ),
        (("--folds", 0), "expected --folds to be a whole number of at least 1, got 0"),
        (("--at", 0), "expected --at to be a whole number of at least 1, got 0"),
        (("--jobs", 0), "expected --jobs to be a whole number of at least 1, got 0"),
        (("--plot", "search.gif"), "expected a file name that ends in .png, .svg or .pdf, got 'search.gif'"),
        (("--refit", "."), "expected a new folder or an older model, got . with other content; choose another name"),
        (("--results", __file__), "is not a results file of a search; choose another file"),
    ],
)
def test_bad_input_is_one_line_before_any_fit(
    sales: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[Any, ...], message: str
) -> None:
    monkeypatch.setattr(TrialRunner, "run", lambda *_: pytest.fail("a fit has begun"))
    done = run("search", sales, *COLUMNS, *SMALL, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_says_how_to_go_on(sales: Path, tmp_path: Path, jobs: int) -> None:
    results = tmp_path / "search.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", "from ocular.cli import main; main()", "search", sales, *COLUMNS, "--results", results,
         "--coclusters", "3,4,5,6,7,8,9", "--regularization", "0.1,0.2,0.3,1,2,3", "--folds", "9", "--jobs", str(jobs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: results.exists() and len(results.read_text().splitlines()) > 1, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == f"Interrupted: the search is not finished; the same command goes on from {results}"
    assert "Traceback" not in err
    for line in results.read_text().splitlines():
        json.loads(line)


def test_help_shows_an_example() -> None:
    text = run("search", "--help").stdout
    assert "ocular search purchases.csv --client company --product sku --coclusters 10,20,50" in text


def result(n: int, *, drop: int | None = None, folds: int = 5) -> SearchResult:
    """K and λ of 1 to n; the mean is highest in the middle."""
    rows = []
    for K in range(1, n + 1):
        for r in range(1, n + 1):
            mean = 0.5 - 0.01 * ((K - (n + 1) // 2) ** 2 + (r - (n + 1) // 2) ** 2) ** 1.5 / n
            if (K, r) != (1, drop):
                rows.append(SearchRow(GridPoint(K, r), mean, 0.004, folds if (K, r) != (1, 1) else 1, 1.0))
    return SearchResult("recall", 50, folds, "grid", tuple(rows))


def test_heat_map_in_the_terminal() -> None:
    assert heat_map_text(result(3, drop=3)) == "\n".join(
        [
            "recall@50, co-clusters down, regularization across",
            "            1       2       3",
            "    1  ░░.491  ▓▓.497+   ·",
            "    2  ▓▓.497  ██.500* ▓▓.497",
            "    3  ░░.491  ▓▓.497  ░░.491",
            "",
            "* best   + interpretable   ░▒▓█ from 0.491 to 0.500",
        ]
    )
    wide = heat_map_text(result(25)).splitlines()
    assert max(map(len, wide)) <= 81
    assert wide[14].count("*") == 1


@pytest.mark.parametrize("n", [1, 3, 12, 25])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_outlines_what_is_chosen(n: int, theme: str) -> None:
    found = result(n) if n > 1 else result(1, folds=1)
    figure = plots.plot_search(found, theme=theme)
    axes = figure.axes[0]
    shown = axes.images[0].get_array()
    assert shown.shape == (n, n)
    boxes = [(round(box.get_x() + 0.45), round(box.get_y() + 0.45), box.get_linestyle()) for box in axes.patches]
    middle = (n + 1) // 2 - 1
    assert boxes[-1] == (middle, middle, "-")
    assert len(boxes) == (2 if n > 1 else 1)
    at = round(found.interpretable.point.regularization) - 1, found.interpretable.point.n_coclusters - 1
    assert boxes[0][:2] == at
    written = [text.get_text() for text in axes.texts]
    assert len(written) == (n * n if n <= 12 else 0)
    if n == 3:
        assert ".500" in written
        assert "(.491)" in written  # on fewer folds
    assert plots.png(figure).startswith(b"\x89PNG")
    assert {text.get_text() for text in figure.legends[0].get_texts()} & {"best", "best and interpretable"}


def test_the_picture_has_a_panel_for_each_variant() -> None:
    rows = tuple(SearchRow(GridPoint(2, 1.0, r, b), 0.3, 0.1, 5, 1.0) for r in (False, True) for b in (False, True))
    figure = plots.plot_search(SearchResult("map", 5, 5, "grid", rows))
    names = [axes.get_title() for axes in figure.axes][:4]
    assert names == ["OCuLaR", "OCuLaR with biases", "R-OCuLaR", "R-OCuLaR with biases"]
    tols = tuple(SearchRow(GridPoint(2, 1.0, tol=tol), 0.3, 0.1, 5, 1.0) for tol in (1e-4, 1e-3))
    figure = plots.plot_search(SearchResult("map", 5, 5, "grid", tols))
    assert [axes.get_title() for axes in figure.axes][:2] == ["OCuLaR, tol 0.0001", "OCuLaR, tol 0.001"]
    assert figure.get_suptitle() == "map@5 of 2 settings"
    weights = Weights(0.6, 0.0, 0.0, 100.0, 1000.0)
    weighted = tuple(SearchRow(GridPoint(K, 1.0), 0.3, 0.1, 5, 1.0, weights) for K in (2, 4))
    figure = plots.plot_search(SearchResult("recall", 50, 5, "grid", weighted))
    assert figure.get_suptitle() == "recall@50 with links and peers, 2 settings"
    with pytest.raises(ConfigError, match="expected theme"):
        plots.plot_search(SearchResult("map", 5, 5, "grid", rows), theme="sepia")
