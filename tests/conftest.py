"""Purchases and models that many tests share; all of them are only read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ocular import Interactions, OCuLaR
from ocular.synthetic import Planted, planted

# Tests that run for minutes come first, so that the other processes have the rest to do meanwhile. Each folder or file
# is a group, and a group stays in one process: Spark, PostgreSQL, the browser and Warp's kernels are started once.
SLOW_GROUPS = ("spark", "web/test_crash.py", "web/test_browser.py", "solver/test_gpu.py", "web/test_api.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(_group(item.nodeid)))  # stable: files stay in their order


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class LoadGroups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return LoadGroups(config, log)


def _group(nodeid: str) -> str:
    path = nodeid.partition("::")[0].removeprefix("tests/")
    return next((group for group in SLOW_GROUPS if path.startswith(group)), path)


def _rank(group: str) -> int:
    return SLOW_GROUPS.index(group) if group in SLOW_GROUPS else len(SLOW_GROUPS)


@pytest.fixture(scope="session")
def market() -> Planted:
    """Four overlapping co-clusters among 60 clients and 40 products, with a little noise."""
    return planted(60, 40, 4, overlap=0.3, density=0.95, noise=0.02, random_state=1)


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
def biased(bought: np.ndarray) -> OCuLaR:
    """A model with biases of the market with some busy clients and popular products: every bias is at work."""
    busy, popular = np.where(np.arange(60) % 4 == 0, 0.5, 0.05), np.where(np.arange(40) % 4 == 0, 1.0, 0.3)
    also = np.random.default_rng(0).random(bought.shape) < busy[:, None] * popular
    model = OCuLaR(n_coclusters=4, regularization=2.0, bias=True, tol=0.0, max_iter=50, random_state=0)
    model.fit((bought | also).astype(int))
    assert model.user_bias_.max() > 0.05
    assert model.item_bias_.max() > 0.05
    assert model.bias_ > 0
    return model
