"""Refusals in whatever form a caller has them."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ocular import Interactions
from ocular.data.refusals import refusals_of, refused_rows
from ocular.errors import DataError

SALES = Interactions.from_pairs(
    [0, 1, 2], [0, 1, 2], user_labels=["Acme", "Bolt", "Cask"], item_labels=[7, 8, 9], user_names=["A", "B", "B"]
)
MATRIX = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0]])
FORMS = {
    "pairs": [("Acme", 8), ("Cask", "7"), ("Cask", 8), ("Cask", 8)],
    "display names": [("A", 8), ("Cask", 7), ("Cask", 8)],
    "sparse": sp.coo_array(MATRIX),
    "dense": MATRIX,
    "interactions": Interactions.from_pairs([1, 0, 0], [0, 0, 1], user_labels=["Cask", "Acme"], item_labels=["8", "7"]),
}


@pytest.mark.parametrize("form", ["pairs", "display names", "sparse", "dense"])
def test_every_form_says_the_same(form: str) -> None:
    refused = refused_rows(FORMS[form], SALES)
    assert [refused[u].tolist() for u in range(3)] == [[1], [], [0, 1]]


def test_interactions_are_matched_by_name() -> None:
    refused = refused_rows(FORMS["interactions"], SALES)
    assert [refused[u].tolist() for u in range(3)] == [[1], [], [0, 1]]


def test_pairs_come_back_by_name() -> None:
    data = SALES.with_refusals(refused_rows(FORMS["pairs"], SALES))
    assert refusals_of(data) == [("Acme", 8), ("Cask", 7), ("Cask", 8)]
    assert refusals_of(SALES) is None


def test_unknown_names_are_ignored_and_told(caplog: pytest.LogCaptureFixture) -> None:
    pairs = [("Acme", 8), ("Dodo", 8), ("Acme", 55), ("B", 7), ("Egg", 1), ("Fig", 7)]  # two clients are named B
    with caplog.at_level(logging.WARNING, "ocular"):
        refused = refused_rows(pairs, SALES)
    assert refused[0].tolist() == [1]
    assert len(refused.indices) == 1
    assert caplog.messages == [
        "5 of 6 refusals are of clients or products without purchases and are ignored: 'Dodo', '55', 'B', …"
    ]


def test_a_purchase_wins_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ocular"):
        refused = refused_rows([("Acme", 7), ("Acme", 8)], SALES)
    assert refused.indices.tolist() == [1]
    assert caplog.messages == ["1 of 2 refused pairs were bought; the purchase counts, the refusal does not"]


@pytest.mark.parametrize("bad", [3, [1, 2], ["Acme"], [("Acme", 7, 1)], "Acme"])
def test_what_is_no_pair_is_refused(bad: Any) -> None:
    with pytest.raises(
        DataError, match=r"expected refusals as pairs \(client, product\), a matrix or Interactions, got"
    ):
        refused_rows(bad, SALES)


def test_a_matrix_must_have_the_shape_of_the_purchases() -> None:
    with pytest.raises(DataError, match=r"expected refusals of shape \(3, 3\), got \(2, 3\)"):
        refused_rows(sp.csr_array((2, 3)), SALES)
