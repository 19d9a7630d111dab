"""Feedback as a test of models: taken up above refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command import run

from ocular import Interactions, OCuLaR
from ocular.baselines import BASELINES
from ocular.errors import DataError
from ocular.evaluation.feedback import Judged, leave_out, measure_judged, read_judged

BLOCKS = np.kron(np.eye(2, dtype=int), np.ones((6, 4), dtype=int))
BLOCKS[0, 3] = BLOCKS[7, 4] = 0
HISTORY = Interactions.from_matrix(
    BLOCKS, user_labels=[f"client {u}" for u in range(12)], item_labels=["=nut", *(f"product {i}" for i in range(1, 8))]
)


def feedback(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["at,client,product,verdict", *(f"now,{row}" for row in rows)]) + "\n")
    return path


def test_the_last_word_on_a_pair_counts(tmp_path: Path) -> None:
    path = feedback(
        tmp_path / "f.csv", "client 0,product 3,not relevant", "client 0,product 3,won", "client 0,product 5,lost",
        "nobody,product 3,won",
    )  # fmt: skip
    judged = read_judged(path, HISTORY)
    assert judged.users.tolist() == [0, 0]
    assert judged.items.tolist() == [3, 5]
    assert judged.taken.tolist() == [True, False]
    assert judged.unknown == 1


def test_names_that_were_marked_for_spreadsheets_are_found(tmp_path: Path) -> None:
    path = feedback(tmp_path / "f.csv", "client 8,'=nut,lost", "client 7,product 4,pursue")
    assert read_judged(path, HISTORY).items.tolist() == [0, 4]


@pytest.mark.parametrize("name", ["ocular", "ease", "user-knn"])
def test_models_that_see_the_pattern_agree_with_people(name: str) -> None:
    judged = Judged(np.array([0, 7, 0, 7]), np.array([3, 4, 6, 1]), np.array([True, True, False, False]), 0)
    model = OCuLaR(2, 0.1, random_state=0) if name == "ocular" else BASELINES[name]()
    model.fit(leave_out(HISTORY, judged))
    assert measure_judged(model, judged) == 1.0
    assert measure_judged(model, judged._replace(taken=~judged.taken)) == 0.0


def test_what_was_judged_is_left_out_of_the_purchases() -> None:
    judged = Judged(np.array([1, 0]), np.array([2, 3]), np.array([True, False]), 0)
    left = leave_out(HISTORY, judged)
    assert left.nnz == HISTORY.nnz - 1  # the second was never bought
    assert 2 not in left.by_user[1]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["client 0,product 3,maybe"], "expected verdicts of pursue, won, not relevant, lost"),
        (["client 0,product 3,won"], "taken up and others that were refused"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, rows: list[str], told: str) -> None:
    with pytest.raises(DataError, match=told):
        read_judged(feedback(tmp_path / "f.csv", *rows), HISTORY)


def test_the_command_has_a_column_for_it(tmp_path: Path) -> None:
    path = tmp_path / "purchases.csv"
    users, items = BLOCKS.nonzero()
    path.write_text("c,p\n" + "".join(f"client {u},product {i}\n" for u, i in zip(users, items, strict=True)))
    given = feedback(tmp_path / "f.csv", "client 0,product 3,won", "client 0,product 6,lost")
    found = run(
        "evaluate", path, "--client", "c", "--product", "p", "--coclusters", 2, "--regularization", 0.1,
        "--feedback", given, "--format", "json",
    )  # fmt: skip
    assert json.loads(found.stdout)[0]["judged"] == 1.0
