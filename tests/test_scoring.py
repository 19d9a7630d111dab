"""Ranking from sparse memberships: the same answer as scoring everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from support import DEVICES, random_matrix

from ocular import Interactions
from ocular.data.interactions import Adjacency
from ocular.scoring import Scorer, nearest, rows_with_links

N_USERS, N_ITEMS, K = 150, 45, 6


def eighths(shape: tuple[int, ...], density: float, seed: int) -> NDArray[np.float32]:
    """Sparse multiples of 1/8: float32 adds and multiplies them without error, so ties are ties."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 5, shape) / 8
    return np.where(rng.random(shape) < density, values, 0.0).astype(np.float32)


USERS, ITEMS = eighths((N_USERS, K), 0.4, 1), eighths((N_ITEMS, K), 0.3, 2)
BASE = eighths((N_ITEMS,), 0.3, 3)
OWNED = Interactions.from_matrix(random_matrix(N_USERS, N_ITEMS, 0.15, seed=4)).by_user
POPULARITY = np.random.default_rng(5).integers(0, 6, N_ITEMS)  # many ties


def scorer(base: NDArray[np.float32] = BASE, n_threads: int = 1) -> Scorer:
    return Scorer(sp.csr_array(ITEMS), base, POPULARITY, n_threads)


def dense_top(
    users: NDArray[np.float32], base: NDArray[np.float32], owned: Adjacency | None, n: int, allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """All scores, sorted: by score, then popularity, then index."""
    scores = users.astype(np.float64) @ ITEMS.T.astype(np.float64) + base
    ids = np.full((len(users), n), -1, dtype=np.int32)
    top = np.full((len(users), n), np.nan, dtype=np.float32)
    for u, row in enumerate(scores):
        candidates = np.array([i for i in range(N_ITEMS) if allowed[i] and (owned is None or i not in owned[u])], int)
        best = candidates[np.lexsort((candidates, -POPULARITY[candidates], -row[candidates]))][:n]
        ids[u, : len(best)], top[u, : len(best)] = best, row[best]
    return ids, top


@pytest.mark.parametrize("n", [1, 2, 7, 10, N_ITEMS, N_ITEMS + 5])
@pytest.mark.parametrize("owned", [None, OWNED], ids=["all", "not-owned"])
@pytest.mark.parametrize("base", [BASE, np.zeros(N_ITEMS, np.float32)], ids=["item-bias", "no-bias"])
@pytest.mark.parametrize("some", [False, True], ids=["any-item", "some-items"])
@pytest.mark.parametrize("device", DEVICES)
def test_top_is_that_of_dense_scores(
    n: int, owned: Adjacency | None, base: NDArray[np.float32], some: bool, device: str
) -> None:
    allowed = np.random.default_rng(6).random(N_ITEMS) < 0.5 if some else np.ones(N_ITEMS, dtype=bool)
    ids, scores = scorer(base).top(sp.csr_array(USERS), owned, n, allowed if some else None, device)
    expected_ids, expected_scores = dense_top(USERS, base, owned, n, allowed)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_array_equal(scores, expected_scores)
    assert ids.dtype == np.int32
    assert scores.dtype == np.float32


def test_scores_of_fitted_sizes_agree_with_dense_scores() -> None:
    rng = np.random.default_rng(8)
    users, items = (rng.gamma(0.5, 1.0, (n, K)).astype(np.float32) for n in (N_USERS, N_ITEMS))
    ids, scores = Scorer(sp.csr_array(items), BASE, POPULARITY, 1).top(sp.csr_array(users), None, 10)
    truth = users.astype(np.float64) @ items.T.astype(np.float64) + BASE
    np.testing.assert_allclose(scores, np.sort(truth)[:, ::-1][:, :10], rtol=1e-5)
    np.testing.assert_allclose(scores, np.take_along_axis(truth, ids.astype(np.int64), axis=1), rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_any_device_gives_the_same_bytes(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the same items: products and sums are rounded alike, in the same order."""
    rng = np.random.default_rng(9)
    users, items = (rng.gamma(0.5, 1.0, (n, K)) * (rng.random((n, K)) < 0.6) for n in (N_USERS, N_ITEMS))
    users[:20] = 0.0  # what is popular, for them
    users, items = sp.csr_array(users.astype(np.float32)), sp.csr_array(items.astype(np.float32))
    expected = Scorer(items, BASE, POPULARITY, 1).top(users, OWNED, 12)
    if device != "cpu":
        monkeypatch.setattr("ocular.solver.gpu.RANKED_AT_ONCE", 16 * N_ITEMS * 40)  # users at a time
    ids, scores = Scorer(items, BASE, POPULARITY, 1).top(users, OWNED, 12, device=device)
    np.testing.assert_array_equal(ids, expected[0])
    assert scores.tobytes() == expected[1].tobytes()


def test_users_without_memberships_get_what_is_popular() -> None:
    nobody = sp.csr_array((3, K), dtype=np.float32)
    owned = Adjacency(np.array([0, 0, 2, 2]), np.array([0, 1], dtype=np.int32))
    ids, scores = scorer(np.zeros(N_ITEMS, np.float32)).top(nobody, owned, N_ITEMS)
    popular = np.lexsort((np.arange(N_ITEMS), -POPULARITY))
    np.testing.assert_array_equal(ids[0], popular)
    np.testing.assert_array_equal(ids[1], [*popular[popular > 1], -1, -1])
    np.testing.assert_array_equal(ids[2], popular)
    assert (scores[0] == 0).all()
    assert np.isnan(scores[1, -2:]).all()


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_allowed_gives_nothing(device: str) -> None:
    ids, scores = scorer().top(sp.csr_array(USERS), OWNED, 4, np.zeros(N_ITEMS, dtype=bool), device)
    assert (ids == -1).all()
    assert np.isnan(scores).all()


def test_an_item_nobody_has_in_common_is_still_ranked() -> None:
    """Items without memberships come last, at the base, not missing."""
    items = ITEMS.copy()
    items[7] = 0.0
    base = np.zeros(N_ITEMS, np.float32)
    ids, scores = Scorer(sp.csr_array(items), base, POPULARITY, 1).top(sp.csr_array(USERS), None, N_ITEMS)
    assert (np.sort(ids) == np.arange(N_ITEMS)).all()
    assert (scores[ids == 7] == 0).all()


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_any_number_of_threads_gives_the_same_answer(n_threads: int) -> None:
    users = sp.csr_array(np.tile(USERS, (3, 1)))
    one, many = (scorer(n_threads=n).top(users, None, 9) for n in (1, n_threads))
    np.testing.assert_array_equal(one[0], many[0])
    assert one[1].tobytes() == many[1].tobytes()


def test_no_users_give_no_rows() -> None:
    ids, scores = scorer().top(sp.csr_array((0, K), dtype=np.float32), None, 5)
    assert ids.shape == scores.shape == (0, 5)


class TestNearest:
    FACTORS = sp.csr_array(np.array([[2, 0], [1, 1], [5, 0], [0, 3], [0, 0], [1, 0]], dtype=np.float32))
    # row 2 shares both columns with row 5 and one with row 0; row 4 has one column with row 3
    POSITIVES = Interactions.from_matrix([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1], [1, 1, 0]])

    def nearest(self, row: int, n: int, allowed: NDArray[np.bool_] | None = None) -> tuple[list[int], NDArray[Any]]:
        by_row, by_column = self.POSITIVES.by_user, self.POSITIVES.by_item
        ids, similarities = nearest(self.FACTORS, np.array([row]), n, allowed, by_row, by_column)
        assert ids.dtype == np.int32
        assert similarities.dtype == np.float32
        assert ids.shape == similarities.shape == (1, n)
        return ids[0].tolist(), similarities[0]

    def test_by_hand_and_itself_first(self) -> None:
        ids, similarities = self.nearest(2, 4)
        assert ids == [2, 5, 0, 1]
        half = np.sqrt(0.5)
        np.testing.assert_allclose(similarities, [1, 1, (1 + 0.1 * half) / 1.1, half], rtol=1e-6)

    def test_links_beside_memberships(self) -> None:
        """Half the weight of the links' cosine is that of memberships; itself is as near as can be, linked or not."""
        links = np.zeros((6, 6), dtype=np.float32)
        links[0, 5] = links[3, 4] = 2.0
        links[5, 2] = 1.0
        both = links + links.T + np.diag([2, 1, 1, 2, 2, 2])
        cosine = both @ both.T / np.outer(*2 * [np.linalg.norm(both, axis=1)])
        factors = self.FACTORS.toarray()
        lengths = np.maximum(np.linalg.norm(factors, axis=1), 1e-12)
        alike = (0.5 * factors @ factors.T / np.outer(lengths, lengths) + cosine) / 1.5
        by_row, by_column = self.POSITIVES.by_user, self.POSITIVES.by_item
        ids, similarities = nearest(
            rows_with_links(self.FACTORS, sp.csr_array(links)), np.array([5, 1, 4]), 6, None, by_row, by_column
        )
        bought = self.POSITIVES.to_matrix().toarray()
        shared = bought @ bought.T / np.sqrt(np.outer(bought.sum(axis=1), bought.sum(axis=1)))
        for row, item in enumerate([5, 1]):
            expected = (alike[item] + 0.1 * shared[item]) / 1.1
            np.testing.assert_allclose(similarities[row], expected[ids[row]], rtol=1e-5)
            assert (np.diff(similarities[row]) <= 0).all()
        assert ids[:, 0].tolist() == [5, 1, 4]
        np.testing.assert_allclose(similarities[:, 0], 1, rtol=1e-6)
        assert ids[2, 1] == 3  # linked, although 4 has no memberships

    def test_without_links_memberships_stay_as_they_are(self) -> None:
        assert rows_with_links(self.FACTORS, sp.csr_array((6, 6), dtype=np.float32)) is self.FACTORS

    def test_fewer_rows_than_asked_for(self) -> None:
        ids, similarities = self.nearest(3, 8, np.array([0, 1, 0, 1, 0, 0], dtype=bool))
        assert ids == [3, 1, -1, -1, -1, -1, -1, -1]
        assert np.isnan(similarities[2:]).all()

    def test_a_row_without_memberships_is_like_those_it_shares_with(self) -> None:
        ids, similarities = self.nearest(4, 6)
        assert ids == [4, 3, 0, 1, 2, 5]
        np.testing.assert_allclose(similarities, [0.1 / 1.1, 0.1 / 1.1, 0, 0, 0, 0], rtol=1e-6)

    def test_equal_rows_come_by_their_rank(self) -> None:
        by_row, by_column, ranks = self.POSITIVES.by_user, self.POSITIVES.by_item, np.arange(6)[::-1]
        ids, _ = nearest(self.FACTORS, np.array([4]), 6, None, by_row, by_column, ranks)
        assert ids[0].tolist() == [4, 3, 5, 2, 1, 0]

    def test_few_of_many_are_the_first_of_all(self) -> None:
        rng = np.random.default_rng(0)
        factors = sp.csr_array(eighths((200, 3), 0.4, 7))
        data = Interactions.from_matrix(rng.random((200, 30)) < 0.2)
        rows = np.arange(200)
        whole = nearest(factors, rows, 200, None, data.by_user, data.by_item)
        few = nearest(factors, rows, 9, None, data.by_user, data.by_item)
        np.testing.assert_array_equal(few[0], whole[0][:, :9])
        np.testing.assert_array_equal(few[1], whole[1][:, :9])
        assert (whole[0][:, 0] == rows).all()
