"""Hand-computed values of the paper's metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ocular.data.interactions import Interactions
from ocular.errors import DataError
from ocular.evaluation.metrics import rank


class Fixed:
    """Recommends the same lists whatever it is asked."""

    def __init__(self, lists: list[list[int]]) -> None:
        self.lists = np.array(lists)

    def recommend(self, userid: Any, user_items: Any, N: int) -> tuple[Any, Any]:
        ids = self.lists[userid][:, :N]
        return ids, np.zeros(ids.shape)


TRAIN = Interactions.from_pairs([0, 1, 2], [0, 0, 0], (3, 6))
TEST = Interactions.from_pairs([0, 0, 0, 1], [1, 3, 5, 2], (3, 6))


def test_recall_and_map_by_hand() -> None:
    # user 0 wants 1, 3, 5 and finds 3 in place 1 and 1 in place 3; user 1 wants 2 and finds it in place 2
    result = rank(Fixed([[3, 2, 1, 4], [4, 2, 1, 3], [1, 2, 3, 4]]), TRAIN, TEST, M=4)
    assert result.recall == pytest.approx((2 / 3 + 1) / 2)
    assert result.map == pytest.approx(((1 / 1 + 2 / 3) / 3 + (1 / 2) / 1) / 2)
    assert result.n_users == 2  # user 2 has nothing to find


def test_map_divides_by_m_where_more_is_wanted() -> None:
    result = rank(Fixed([[3, 1], [4, 1], [1, 2]]), TRAIN, TEST, M=2)
    assert result.map == pytest.approx((2 / 2 + 0) / 2)


def test_missing_places_are_no_hits() -> None:
    result = rank(Fixed([[5, -1], [-1, -1], [-1, -1]]), TRAIN, TEST, M=2)
    assert result.recall == pytest.approx((1 / 3 + 0) / 2)


def test_nothing_to_test_on() -> None:
    with pytest.raises(DataError, match="got none"):
        rank(Fixed([[0]] * 3), TRAIN, TRAIN.where(np.zeros(3, dtype=bool)))
