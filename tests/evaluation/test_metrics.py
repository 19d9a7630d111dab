"""Hand-computed values of the paper's metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.metrics import ndcg_score

from ocular import OCuLaR
from ocular.data.interactions import Interactions
from ocular.data.splits import random_split
from ocular.errors import ConfigError, DataError
from ocular.evaluation.metrics import measure, rank
from ocular.synthetic import planted


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


def test_every_metric_at_every_m_by_hand() -> None:
    scores = measure(Fixed([[3, 2, 1, 4], [4, 2, 1, 3], [1, 2, 3, 4]]), TRAIN, TEST, M=(1, 4, 2))
    assert scores.cutoffs == (1, 2, 4)
    assert scores.users.tolist() == [0, 1]
    assert scores.left_out == 1
    assert scores.mean("recall", 1) == pytest.approx((1 / 3 + 0) / 2)
    assert scores.mean("precision", 4) == pytest.approx((2 / 4 + 1 / 4) / 2)
    first = (1 / np.log2(2) + 1 / np.log2(4)) / (1 / np.log2(2) + 1 / np.log2(3) + 1 / np.log2(4))
    assert scores.mean("ndcg", 4) == pytest.approx((first + 1 / np.log2(3)) / 2)
    assert scores.mean("map", 2) == pytest.approx(((1 / 1) / 2 + (1 / 2) / 1) / 2)
    # among the first two of both: items 2, 3, 4 of six; everybody has item 0, nobody the others
    assert scores.mean("coverage", 2) == pytest.approx(3 / 6)
    assert scores.mean("novelty", 2) == pytest.approx(np.log2(3))
    assert scores.to_dict()["recall@4"] == scores.mean("recall", 4)


@pytest.mark.parametrize("threads", [1, 3])
def test_against_a_plain_definition_and_scikit_learn(threads: int) -> None:
    rng = np.random.default_rng(5)
    n_users, n_items, n = 300, 40, 12
    bought = rng.random((n_users, n_items)) < 0.2
    hidden = bought & (rng.random(bought.shape) < 0.4)
    lists = np.array([rng.permutation(n_items)[:n] for _ in range(n_users)])
    lists[rng.random(lists.shape) < 0.05] = -1
    train, test = (Interactions.from_matrix(part.astype(int)) for part in (bought & ~hidden, hidden))
    scores = measure(Fixed(lists.tolist()), train, test, M=(5, n), n_threads=threads)
    for row, user in enumerate(scores.users.tolist()):
        wanted = set(np.flatnonzero(hidden[user]).tolist())
        for at, M in enumerate((5, n)):
            hits = [item in wanted for item in lists[user][:M].tolist()]
            precisions = [sum(hits[: m + 1]) / (m + 1) for m in range(M) if hits[m]]
            assert scores.per_user["recall"][row, at] == pytest.approx(sum(hits) / len(wanted))
            assert scores.per_user["map"][row, at] == pytest.approx(sum(precisions) / min(len(wanted), M))
            assert scores.per_user["precision"][row, at] == pytest.approx(sum(hits) / M)
            if (lists[user] >= 0).all():  # scikit-learn fills gaps with the other items
                order = np.zeros(n_items)
                order[lists[user]] = np.arange(n, 0, -1)
                expected = ndcg_score([hidden[user]], [order], k=M)
                assert scores.per_user["ndcg"][row, at] == pytest.approx(expected)


def test_implicit_agrees_where_it_measures_the_same() -> None:
    """Its "precision" is recall divided by min(K, liked), its MAP and NDCG are ours."""
    from implicit.evaluation import ranking_metrics_at_k

    market = planted(120, 60, 5, overlap=0.5, density=0.7, noise=0.02, random_state=2)
    train, test = random_split(market.interactions, random_state=1)
    model = OCuLaR(5, 0.5, random_state=0).fit(train)
    ours = measure(model, train, test, M=10)
    theirs = ranking_metrics_at_k(
        model, csr_matrix(train.to_matrix()), csr_matrix(test.to_matrix()), K=10, show_progress=False, num_threads=1
    )
    assert ours.mean("map", 10) == pytest.approx(theirs["map"], rel=1e-6)
    assert ours.mean("ndcg", 10) == pytest.approx(theirs["ndcg"], rel=1e-6)


def test_m_larger_than_the_catalogue() -> None:
    scores = measure(Fixed([[5, 4, 3, 2, 1, 0]] * 3), TRAIN, TEST, M=(6, 50))
    assert scores.mean("recall", 50) == scores.mean("recall", 6) == 1.0
    assert scores.mean("precision", 50) == pytest.approx((3 / 50 + 1 / 50) / 2)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: measure(Fixed([[0]] * 3), TRAIN, TEST, M=0), "expected M to be a whole number of at least 1, got 0"),
        (lambda: measure(Fixed([[0]] * 3), TRAIN, TEST, M=()), "expected at least one M"),
        (lambda: measure(Fixed([[0]] * 3), TRAIN, TEST, M=2.5), "M"),
        (
            lambda: measure(Fixed([[0]] * 3), TRAIN, TEST).mean("auc", 50),
            "metric to be one of recall, map, ndcg",
        ),
        (lambda: measure(Fixed([[0]] * 3), TRAIN, TEST).mean("recall", 20), "expected M of 50, got 20"),
    ],
)
def test_bad_questions(ask: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ask()


def test_scores_print_short_and_give_frames() -> None:
    scores = measure(Fixed([[3, 2, 1, 4], [4, 2, 1, 3], [1, 2, 3, 4]]), TRAIN, TEST, M=(1, 4))
    assert repr(scores) == "Scores(recall@4 0.8333, map@4 0.5278, ndcg@4 0.6674, precision@4 0.3750; 2 users)"
    frame = scores.to_frame()
    assert frame["M"].to_list() == [1, 4]
    assert frame["recall"].to_list() == [scores.mean("recall", 1), scores.mean("recall", 4)]
    assert "2 users; 1 without held-out items" in scores._repr_html_()


def test_matrices_are_taken_as_fit_takes_them() -> None:
    model = Fixed([[3, 2, 1, 4], [4, 2, 1, 3], [1, 2, 3, 4]])
    dense, sparse = TRAIN.to_matrix().toarray(), csr_matrix(TEST.to_matrix())
    assert measure(model, dense, sparse, 4).to_dict() == measure(model, TRAIN, TEST, 4).to_dict()
    with pytest.raises(DataError, match=r"the same users and items, got \(3, 6\) and \(3, 5\)"):
        measure(model, TRAIN, np.ones((3, 5)))


def test_pairs_of_train_are_no_test() -> None:
    with pytest.raises(DataError, match="expected held-out pairs, got pairs of train; split first: train, test = "):
        measure(Fixed([[3, 2, 1, 4]] * 3), TRAIN, TRAIN, M=2)
