"""The nightly script of docs/deploy.md, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy.md"
FIT = '#!/bin/sh\nfor folder; do :; done\nmkdir "$folder" && touch "$folder/manifest.json" && {end}\n'


def run(folder: Path, keep: str, end: str = "exit 0") -> int:
    """With a fit that only makes the folder it is told to, and then ends so."""
    found = re.search(r"```sh\n(#!/bin/sh\n# /usr/local/bin/ocular-refit.*?)```", DEPLOY.read_text("utf-8"), re.DOTALL)
    assert found
    programs = folder / "bin"
    programs.mkdir()
    for name, text in {"ocular": FIT.format(end=end), "refit": found[1]}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    return subprocess.run([programs / "refit", folder / "models", keep], check=False, env={"PATH": path}).returncode


@pytest.fixture
def models(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    for name in ("2020-01-09", "2020-01-10", "2020-02-01", "first"):
        (models / name).mkdir(parents=True)
        (models / name / "manifest.json").touch()
    (models / "2020-01-08").mkdir()  # no model: not ours to remove
    (models / "search.jsonl").touch()
    return models


def names(models: Path) -> set[str]:
    return {path.name for path in models.iterdir() if not path.name.startswith("2020") or path.name > "2020-01-08"}


OTHERS = {"first", "search.jsonl"}


@pytest.mark.parametrize(
    ("keep", "left"),
    [("1", set()), ("2", {"2020-02-01"}), ("7", {"2020-01-09", "2020-01-10", "2020-02-01"})],
)
def test_the_newest_are_kept(models: Path, keep: str, left: set[str]) -> None:
    before = names(models)
    assert run(models.parent, keep) == 0
    after = names(models)
    (new,) = after - before
    assert after == OTHERS | left | {new}
    assert (models / "2020-01-08").is_dir()


@pytest.mark.parametrize(("keep", "end"), [("1", "exit 1"), ("0", "exit 0"), ("many", "exit 0")])
def test_nothing_is_removed_when_something_is_wrong(models: Path, keep: str, end: str) -> None:
    before = names(models)
    assert run(models.parent, keep, end) != 0
    assert before <= names(models)
