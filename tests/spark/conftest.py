"""One Spark with two executors in processes of their own, for all tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from spark_support import QUICK

from ocular import Interactions
from ocular.synthetic.market import b2b

MISSING = find_spec("pyspark") is None or shutil.which("java") is None

if MISSING and os.environ.get("CI") != "true":
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # pyspark's own


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from ocular.spark import connect

    session = connect("local-cluster[2,1,1024]", **QUICK)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def sales() -> Interactions:
    return b2b(1500, 150).interactions
