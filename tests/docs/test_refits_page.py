"""The examples of docs/refits.md print what stands there."""

from __future__ import annotations

import doctest
import warnings
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "refits.md"


def test_the_examples_of_the_page_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failed, n_examples = doctest.testfile(str(PAGE), module_relative=False)
    assert failed == 0
    assert n_examples >= 8
