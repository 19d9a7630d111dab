"""Purchases with a served model, for the tests of ocular refresh."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import run
from refresh_support import SETTINGS, summary_of

from ocular.synthetic import planted


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Purchases, and a folder of models with one that a first refresh has promoted."""
    place = tmp_path_factory.mktemp("market")
    bought = planted(150, 60, 4, overlap=0.3, density=0.8, noise=0.02, random_state=1).interactions
    bought.to_frame().select("client", "product").with_columns(price=10.0, quantity=1).write_parquet(
        place / "purchases.parquet"
    )
    (place / "refresh.toml").write_text(SETTINGS)
    done = run("refresh", place / "refresh.toml")
    assert done.returncode == 0, done.stderr
    assert summary_of(done)["status"] == "promoted"
    return place


@pytest.fixture
def place(market: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(market, tmp_path / "place"))
