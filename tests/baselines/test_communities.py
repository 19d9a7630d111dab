"""Communities of the purchase graph: blocks are found, the likelihood rises, bad input is refused in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import consensus_score

from ocular.baselines.communities import bigclam, bigclam_factors, log_likelihood, modularity, purchase_graph
from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, DataError, MissingExtraError
from ocular.synthetic import planted

METHODS: dict[str, Callable[[Interactions], Any]] = {
    "greedy": modularity,
    "louvain": lambda interactions: modularity(interactions, method="louvain", random_state=1),
    "BIGCLAM": lambda interactions: bigclam(interactions, 2),
}


@pytest.mark.parametrize("method", METHODS)
def test_finds_disjoint_blocks(method: str) -> None:
    truth = planted(30, 20, 2, overlap=0, density=1, random_state=3)
    rows, columns = METHODS[method](truth.interactions)
    assert rows.dtype == columns.dtype == bool
    assert consensus_score((rows, columns), (truth.rows, truth.columns)) == 1.0


def test_clients_without_purchases_are_in_no_community() -> None:
    rows, columns = modularity(Interactions.from_pairs([0, 1], [0, 0], (3, 2)))
    assert rows.tolist() == [[True, True, False]]
    assert columns.tolist() == [[True, False]]


def two_cliques() -> sp.csr_array:
    """An ordinary graph: nodes 0-11 and 8-19 are cliques, 8-11 belong to both."""
    member = np.zeros((20, 2))
    member[:12, 0] = member[8:, 1] = 1
    joined = member @ member.T > 0
    np.fill_diagonal(joined, False)
    return sp.csr_array(joined.astype(np.float32))


@pytest.mark.parametrize("seed", range(5))
def test_bigclam_finds_an_overlap(seed: int) -> None:
    F, _ = bigclam_factors(two_cliques(), 2, random_state=seed, tol=1e-8)
    groups = {frozenset(np.flatnonzero(column >= 0.5).tolist()) for column in F.T}
    assert groups == {frozenset(range(12)), frozenset(range(8, 20))}


def test_likelihood_is_its_definition() -> None:
    graph = two_cliques()
    F = np.random.default_rng(0).random((20, 3))
    expected = 0.0
    for u in range(20):
        for v in range(u):
            z = F[u] @ F[v]
            expected += np.log(1 - np.exp(-z - 1e-4)) if graph[u, v] else -z
    assert log_likelihood(graph, F) == pytest.approx(expected)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_likelihood_never_falls(noise: float) -> None:
    graph = purchase_graph(planted(60, 40, 4, noise=noise, random_state=0).interactions)
    F, likelihoods = bigclam_factors(graph, 4, max_iter=60, tol=0)
    assert np.diff(likelihoods).min() >= -1e-9 * abs(likelihoods[0])
    assert likelihoods[-1] > likelihoods[0] + 100
    assert likelihoods[-1] == log_likelihood(graph, F)
    assert (F >= 0).all()


def test_bigclam_is_reproducible() -> None:
    interactions = planted(40, 30, 3, noise=0.05, random_state=0).interactions
    first, again, other = (bigclam_factors(purchase_graph(interactions), 3, random_state=seed)[0] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_more_communities_than_neighbourhoods() -> None:
    rows, columns = bigclam(Interactions.from_pairs([0, 1, 2], [0, 0, 0], (4, 1)), 5)
    assert rows.shape == (5, 4)
    assert columns.shape == (5, 1)
    assert (rows & columns).any(axis=0).tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda h: modularity(h, method="walk"), "expected method to be one of greedy, louvain, got 'walk'"),
        (lambda h: bigclam(h, 0), "expected n_communities to be a whole number of at least 1, got 0"),
        (lambda h: bigclam(h, 2, max_iter=0), "expected max_iter to be a whole number of at least 1, got 0"),
        (lambda h: bigclam(h, 2, random_state=-1), "expected random_state to be a whole number of at least 0, got -1"),
        (
            lambda h: bigclam_factors(purchase_graph(h), 2, tol=float("nan")),
            "expected tol to be a number of at least 0, got nan",
        ),
    ],
)
def test_bad_arguments(call: Callable[[Interactions], Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        call(Interactions.from_pairs([0, 1], [0, 1]))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("method", METHODS)
def test_without_purchases(method: str) -> None:
    with pytest.raises(DataError, match="expected at least one purchase, got none"):
        METHODS[method](Interactions.from_pairs([], [], (3, 2)))


def test_without_networkx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ocular-rec\[eval\]'"):
        modularity(Interactions.from_pairs([0], [0]))
