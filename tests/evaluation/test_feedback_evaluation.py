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
from ocular.evaluation.feedback import FeedbackPairs, feedback_auc, read_feedback, without_feedback

BLOCKS = np.kron(np.eye(2, dtype=int), np.ones((6, 4), dtype=int))
BLOCKS[0, 3] = BLOCKS[7, 4] = 0
INTERACTIONS = Interactions.from_matrix(
    BLOCKS, user_labels=[f"client {u}" for u in range(12)], item_labels=["=nut", *(f"product {i}" for i in range(1, 8))]
)


def feedback(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["at,client,product,status", *(f"now,{row}" for row in rows)]) + "\n")
    return path


def test_the_last_word_on_a_pair_counts(tmp_path: Path) -> None:
    path = feedback(
        tmp_path / "f.csv", "client 0,product 3,not a fit", "client 0,product 3,won", "client 0,product 5,lost",
        "nobody,product 3,won",
    )  # fmt: skip
    pairs = read_feedback(path, INTERACTIONS)
    assert pairs.users.tolist() == [0, 0]
    assert pairs.items.tolist() == [3, 5]
    assert pairs.taken_up.tolist() == [True, False]
    assert pairs.n_unknown == 1


def test_names_that_were_marked_for_spreadsheets_are_found(tmp_path: Path) -> None:
    path = feedback(tmp_path / "f.csv", "client 8,'=nut,lost", "client 7,product 4,pursuing")
    assert read_feedback(path, INTERACTIONS).items.tolist() == [0, 4]


@pytest.mark.parametrize("name", ["ocular", "ease", "user-knn"])
def test_models_that_see_the_pattern_agree_with_people(name: str) -> None:
    pairs = FeedbackPairs(np.array([0, 7, 0, 7]), np.array([3, 4, 6, 1]), np.array([True, True, False, False]), 0)
    model = OCuLaR(2, 0.1, random_state=0) if name == "ocular" else BASELINES[name]()
    model.fit(without_feedback(INTERACTIONS, pairs))
    assert feedback_auc(model, pairs) == 1.0
    assert feedback_auc(model, pairs._replace(taken_up=~pairs.taken_up)) == 0.0


def test_what_a_fit_excludes_scores_lowest() -> None:
    pairs = FeedbackPairs(np.array([0, 7, 0, 7]), np.array([3, 4, 6, 1]), np.array([True, True, False, False]), 0)
    purchases = without_feedback(INTERACTIONS, pairs)
    model = OCuLaR(2, 0.1, random_state=0)
    assert feedback_auc(model.fit(purchases, without="product 6"), pairs) == 1.0
    assert feedback_auc(model.fit(purchases, without="product 3"), pairs) == 0.5  # below both that were refused


def test_pairs_with_feedback_are_left_out_of_the_purchases() -> None:
    pairs = FeedbackPairs(np.array([1, 0]), np.array([2, 3]), np.array([True, False]), 0)
    left = without_feedback(INTERACTIONS, pairs)
    assert left.nnz == INTERACTIONS.nnz - 1  # the second was never bought
    assert 2 not in left.by_user[1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["client 0,product 3,maybe"], "expected a status of pursuing, snoozed, not a fit, won, lost"),
        (["client 0,product 3,won"], "taken up and others that were refused"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_feedback(feedback(tmp_path / "f.csv", *rows), INTERACTIONS)


def test_the_command_has_a_column_for_it(tmp_path: Path) -> None:
    path = tmp_path / "purchases.csv"
    users, items = BLOCKS.nonzero()
    path.write_text("c,p\n" + "".join(f"client {u},product {i}\n" for u, i in zip(users, items, strict=True)))
    given = feedback(tmp_path / "f.csv", "client 0,product 3,won", "client 0,product 6,lost")
    found = run(
        "evaluate", path, "--client", "c", "--product", "p", "--coclusters", 2, "--regularization", 0.1,
        "--feedback", given, "--format", "json",
    )  # fmt: skip
    assert json.loads(found.stdout)[0]["feedback_auc"] == 1.0
