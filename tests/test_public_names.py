"""What `import ocular` offers, and what it costs."""

from __future__ import annotations

import json
import subprocess
import sys
from types import ModuleType

import pytest

import ocular

HEAVY = ("numpy", "scipy", "sklearn", "polars", "pandas", "numba", "matplotlib", "click", "tqdm", "narwhals")


def python(code: str) -> str:
    """Run code in a process of its own and return what it prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_ocular_imports_no_heavy_package() -> None:
    code = f"import json, sys, ocular; dir(ocular); print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    assert json.loads(python(code)) == []


def test_every_public_name_is_found_in_a_fresh_process() -> None:
    code = (
        "import ocular\n"
        "for name in ocular.__all__:\n"
        "    assert name in dir(ocular), name\n"
        "    print(name, type(getattr(ocular, name)).__name__)\n"
    )
    kinds = dict(line.split() for line in python(code).splitlines())
    assert list(kinds) == ocular.__all__
    for name in ("read", "read_sql", "load", "calibrate", "search", "compare", "measure", "backtest"):
        assert kinds[name] == "function"
    for name in ("plots", "synthetic", "baselines", "datasets"):
        assert kinds[name] == "module"


def test_plots_is_the_package_and_its_functions_are_there() -> None:
    assert isinstance(ocular.plots, ModuleType)
    assert ocular.plots.__name__ == "ocular.plots"
    assert callable(ocular.plots.plot_matrix)


def test_star_imports_what_is_public() -> None:
    names: dict[str, object] = {}
    exec("from ocular import *", names)
    assert names["OCuLaR"] is ocular.OCuLaR
    assert names["search"] is ocular.search


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ocular' has no attribute 'nonsense'"):
        _ = ocular.nonsense
    assert not hasattr(ocular, "spark_")
