"""The search over K and λ, as the page of the model shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocular.evaluation.search import Grid, search
from ocular.synthetic.market import b2b
from ocular.web.tuning import SHADES, read_search


def test_a_search_is_shown_as_it_was_measured(tmp_path: Path) -> None:
    history = b2b(60, 30).interactions
    grid = Grid((2, 4), (1.0, 30.0), tol=(1e-2,))
    found = search(history, grid, M=5, folds=2, n_jobs=1, results=tmp_path / "search.jsonl")
    shown = read_search(tmp_path, history.fingerprint())
    assert shown is not None
    assert (shown.same_data, shown.metric) == (True, "recall@5")
    assert (list(shown.rows), shown.regularizations) == ([2, 4], [1.0, 30.0])
    for row in found.rows:
        value = shown.at(row.point.n_coclusters, row.point.regularization)
        assert value == pytest.approx(row.mean)
    shades = [cell.shade for cells in shown.rows.values() for cell in cells if cell is not None]
    assert (min(shades), max(shades)) == (0, SHADES)
    assert shown.at(3, 1.0) is None
    other = read_search(tmp_path, "another history")
    assert other is not None
    assert not other.same_data


def test_a_search_with_links_says_so(tmp_path: Path) -> None:
    history = b2b(60, 30).interactions
    found = search(history, Grid(2, 30.0), M=5, folds=2, links="auto", results=tmp_path / "search.jsonl")
    shown = read_search(tmp_path, history.fingerprint())
    assert shown is not None
    assert shown.metric == "recall@5 with links and peers"
    assert shown.at(2, 30.0) == pytest.approx(found.best.mean)


@pytest.mark.parametrize("content", [None, "", "{", '{"format": "ocular-search"}\n'])
def test_what_is_no_search_is_not_shown(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "search.jsonl").write_text(content)
    assert read_search(tmp_path, "") is None
