"""Compiled kernels are kept by the state of their sources, and a place that cannot be written stops nobody."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba.core.config
import pytest
from support import start_python

from ocular import compiling
from ocular.compiling import cache_folder, njit


@pytest.fixture(autouse=True)
def _forget_the_folder() -> Iterator[None]:
    cache_folder.cache_clear()
    yield
    cache_folder.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one kernel and one file without, and a folder for what is compiled."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "kernels.py").write_text("from ocular.compiling import njit\n")
    (folder / "helpers.py").write_text("from numba import types\n")
    (folder / "words.py").write_text("WORD = 1\n")
    monkeypatch.setattr(compiling, "PACKAGE", folder)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    numba.core.config.reload_config()  # type: ignore[attr-defined]  # as a process has it that starts with this setting
    return folder


def folder_now() -> Path:
    cache_folder.cache_clear()
    found = cache_folder()
    assert found is not None
    return found


def test_a_change_of_any_kernel_gets_a_new_folder(package: Path) -> None:
    first = folder_now()
    (package / "words.py").write_text("WORD = 2\n")
    assert folder_now() == first
    for name in ("kernels.py", "helpers.py"):
        before = folder_now()
        (package / name).write_text((package / name).read_text() + "# changed\n")
        assert folder_now() != before


def test_another_release_gets_a_new_folder(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = folder_now()
    monkeypatch.setattr(compiling, "__version__", "9.9")
    assert folder_now() != first


def test_folders_that_nobody_uses_go_away(package: Path) -> None:
    old, recent = folder_now(), folder_now().with_name("ocular-recent")
    recent.mkdir()
    os.utime(old, (0, time.time() - compiling.MAX_AGE - 60))
    (package / "kernels.py").write_text("# njit\n")
    used = folder_now()
    assert [path.exists() for path in (old, recent, used)] == [False, True, True]


def double(x: int) -> int:
    return 2 * x


def test_only_our_own_kernels_are_kept_there(package: Path) -> None:
    before = numba.core.config.CACHE_DIR  # type: ignore[attr-defined]
    assert njit(cache=True)(double)(4) == 8
    assert list(folder_now().rglob("*.nbc"))
    assert before == numba.core.config.CACHE_DIR  # type: ignore[attr-defined]


def test_a_full_disk_stops_no_kernel(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.caching import IndexDataCacheFile

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", fail)
    assert njit(cache=True)(double)(4) == 8
    assert not list(folder_now().rglob("*.nbc"))


def test_where_nothing_can_be_written_a_fit_works_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/dev/null/nowhere")
    process = start_python(
        "import logging; logging.basicConfig()\n"
        "from ocular import OCuLaR; import numpy as np\n"
        "print(OCuLaR(2, 0.1, random_state=0).fit(np.eye(6)).n_iter_ > 0)"
    )
    out, err = process.communicate(timeout=300)
    assert out.strip() == "True", err
    assert err.count("set NUMBA_CACHE_DIR") == 1
