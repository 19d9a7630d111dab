"""Every experiment runs in its quick form and writes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "common.py")


@pytest.mark.parametrize("script", SCRIPTS)
def test_quick(script: str, tmp_path: Path) -> None:
    command = [sys.executable, FOLDER / script, "--quick", "--output", tmp_path / "results"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir())
