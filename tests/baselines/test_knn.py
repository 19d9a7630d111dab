"""Nearest neighbours: scores by hand and by definition, explanations that add up, sentences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from support import random_matrix

from ocular import Interactions
from ocular.baselines import base
from ocular.baselines.knn import ItemKNN, UserKNN, nearest
from ocular.errors import DataError

#        bolt nut saw oar
SHOP = [[1, 1, 0, 0],   # Ada
        [1, 1, 1, 0],   # Bob
        [0, 1, 1, 0],   # Cyd
        [0, 0, 0, 1]]  # Dan  # fmt: skip
NAMED = Interactions.from_matrix(
    np.array(SHOP), user_labels=["Ada", "Bob", "Cyd", "Dan"], item_labels=["bolt", "nut", "saw", "oar"]
)


def test_user_scores_by_hand() -> None:
    """cos(Ada, Bob) = 2/√6, cos(Ada, Cyd) = 1/2; both have the saw, nobody near has the oar."""
    ids, scores = UserKNN(k=3).fit(NAMED).recommend(0, N=2)
    assert ids.tolist() == [2, 3]
    assert scores.tolist() == pytest.approx([2 / 6**0.5 + 1 / 2, 0])
    assert UserKNN(k=1).fit(NAMED).recommend(0, N=1)[1].tolist() == pytest.approx([2 / 6**0.5])


def test_item_scores_by_hand() -> None:
    """cos(saw, nut) = 2/√6, cos(saw, bolt) = 1/2; with one neighbour it is the saw's own that counts, the nut."""
    ids, scores = ItemKNN(k=3).fit(NAMED).recommend(0, N=2)
    assert ids.tolist() == [2, 3]
    assert scores.tolist() == pytest.approx([2 / 6**0.5 + 1 / 2, 0])
    ids, scores = ItemKNN(k=1).fit(NAMED).recommend(0, N=2)
    assert ids.tolist() == [2, 3]
    assert scores.tolist() == pytest.approx([2 / 6**0.5, 0])


def defined(R: np.ndarray, k: int) -> np.ndarray:
    """Cosines of the k nearest other rows, one pair after the other."""
    near = np.zeros((len(R), len(R)))
    for a in range(len(R)):
        cosine = [
            0.0 if a == b else float(R[a] @ R[b]) / max((R[a].sum() * R[b].sum()) ** 0.5, 1) for b in range(len(R))
        ]
        for b in sorted(range(len(R)), key=lambda b: (-round(cosine[b], 6), b))[:k]:
            near[a, b] = cosine[b]
    return near


@pytest.mark.parametrize("k", [1, 4, 100])
def test_scores_are_their_definition(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_CELLS", 70)  # blocks of a few rows
    R = random_matrix(30, 20)
    R[7] = 0
    users, items = UserKNN(k).fit(R), ItemKNN(k).fit(R)
    np.testing.assert_allclose(users.neighbours_.toarray(), defined(R, k), rtol=1e-5)
    np.testing.assert_allclose(items.neighbours_.toarray(), defined(R.T, k), rtol=1e-5)
    for model, table in ((users, defined(R, k) @ R), (items, R @ defined(R.T, k).T)):
        ids, scores = model.recommend(np.arange(30), N=20, filter_already_liked_items=False)
        np.testing.assert_allclose(scores, np.take_along_axis(table, ids, axis=1), rtol=1e-4, atol=1e-6)


def test_nobody_is_their_own_neighbour() -> None:
    """Even where others have the same: twins are neighbours of each other."""
    twins = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert UserKNN(k=3).fit(twins).neighbours_.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert ItemKNN(k=3).fit(twins).neighbours_.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_somebody_new_is_compared_with_every_user() -> None:
    """A row that is not Dan's: Ada has the same, and then is a neighbour like any other."""
    model = UserKNN(k=3).fit(NAMED)
    ids, scores = model.recommend(3, [SHOP[0]], N=4, filter_already_liked_items=False)
    assert dict(zip(ids.tolist(), scores.tolist(), strict=True)) == pytest.approx(
        {0: 1 + 2 / 6**0.5, 1: 1 + 2 / 6**0.5 + 1 / 2, 2: 2 / 6**0.5 + 1 / 2, 3: 0}
    )
    # the same row for Ada herself is Ada
    assert model.recommend(0, [SHOP[0]], N=1)[1].tolist() == pytest.approx([2 / 6**0.5 + 1 / 2])
    assert model.recommend(0, N=4, filter_already_liked_items=False)[1].max() == pytest.approx(2 / 6**0.5 + 1 / 2)


@pytest.mark.parametrize("kind", [UserKNN, ItemKNN])
def test_contributions_sum_to_the_score(kind: type[UserKNN] | type[ItemKNN]) -> None:
    R = random_matrix(30, 20)
    model = kind(k=6).fit(R)
    for u in range(30):
        ids, scores = model.recommend(u, N=20, filter_already_liked_items=False)
        for i, score in zip(ids.tolist(), scores.tolist(), strict=True):
            evidence = model.explain(u, i)
            assert sum(evidence.contributions) == pytest.approx(score, abs=1e-5) == evidence.score
            assert list(evidence.contributions) == sorted(evidence.contributions, reverse=True)
            assert all(R[v, i] if kind is UserKNN else R[u, v] for v in evidence.neighbours)
    assert max(len(model.explain(0, i).neighbours) for i in range(20)) > 1


def test_sentences() -> None:
    users, items = UserKNN().fit(NAMED), ItemKNN().fit(NAMED)
    assert users.explain(0, 2).text() == "saw is recommended to Ada because similar clients (Bob and Cyd) bought it."
    assert users.explain(2, 0).neighbours == (1, 0)
    assert UserKNN(k=1).fit(NAMED).explain(0, 2).text().endswith("because a similar client (Bob) bought it.")
    assert users.explain(0, 3).text() == "There is no reason for oar: no client similar to Ada bought it."
    assert users.explain(0, 1).text().startswith("nut, which Ada has already, scores 1.32 because similar clients")
    assert items.explain(0, 2).text() == "saw is recommended to Ada because the client has nut and bolt."
    assert items.explain(0, 3).text() == "There is no reason for oar: Ada has no product similar to it."
    numbered = np.array(SHOP)
    assert UserKNN().fit(numbered).explain(0, 2).text() == (
        "Item 2 is recommended to Client 0 because similar clients (Clients 1-2) bought it."
    )
    assert ItemKNN().fit(numbered).explain(0, 2).text() == (
        "Item 2 is recommended to Client 0 because the client has Items 0-1."
    )


@pytest.mark.parametrize("kind", [UserKNN, ItemKNN])
def test_explains_only_what_it_knows(kind: type[UserKNN] | type[ItemKNN]) -> None:
    model = kind().fit(NAMED)
    with pytest.raises(DataError, match="expected user ids from 0 to 3, got 4"):
        model.explain(4, 0)
    with pytest.raises(DataError, match="expected item ids from 0 to 3, got -1"):
        model.explain(0, -1)


def test_of_equally_near_rows_the_earlier_counts_even_if_it_is_met_later() -> None:
    """Row 0 meets row 2 at its first column and row 1 only at its second; both are equally near."""
    rows = sp.csr_array(np.array([[1, 1], [0, 1], [1, 0]]))
    assert nearest(rows, rows, 1, own=True)[[0]].indices.tolist() == [1]


def test_no_other_rows_to_be_near_to() -> None:
    assert nearest(sp.csr_array(np.ones((1, 3), dtype=np.float32)), sp.csr_array((4, 3), dtype=np.float32), 2).nnz == 0
