"""Histories and models that many tests share; all of them are only read."""

from __future__ import annotations

import numpy as np
import pytest

from ocular import Interactions, OCuLaR
from ocular.data.synthetic import Planted, planted


@pytest.fixture(scope="session")
def market() -> Planted:
    """Four overlapping co-clusters among 60 clients and 40 products, with a little noise."""
    return planted(60, 40, 4, overlap=0.3, density=0.95, noise=0.02, seed=1)


@pytest.fixture(scope="session")
def bought(market: Planted) -> np.ndarray:
    """The market as a dense 0/1 matrix."""
    return market.interactions.to_matrix().toarray().astype(np.int64)


@pytest.fixture(scope="session")
def named(bought: np.ndarray) -> Interactions:
    """The market with names."""
    return Interactions.from_matrix(
        bought,
        user_labels=[f"Client {u} GmbH" for u in range(bought.shape[0])],
        item_labels=[f"Produkt №{i}" for i in range(bought.shape[1])],
    )


@pytest.fixture(scope="session")
def model(named: Interactions) -> OCuLaR:
    """A converged model of the market."""
    return OCuLaR(n_coclusters=4, regularization=0.5, tol=1e-6, max_iter=500, random_state=0).fit(named)


@pytest.fixture(scope="session")
def biased(named: Interactions) -> OCuLaR:
    """A converged model of the market with biases."""
    return OCuLaR(n_coclusters=4, regularization=0.5, bias=True, tol=1e-6, max_iter=500, random_state=0).fit(named)
