"""The settings of docs/refresh.md and docs/deploy.md are valid, and the defaults they state are those of the code."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from ocular.refresh.settings import Gates, read_settings

DOCS = Path(__file__).parents[2] / "docs"


def settings_in(page: str) -> str:
    found = re.findall(r"```toml\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    assert len(found) == 1
    return str(found[0])


@pytest.mark.parametrize("page", ["refresh.md", "deploy.md"])
def test_the_settings_are_valid(page: str, tmp_path: Path) -> None:
    (tmp_path / "refresh.toml").write_text(settings_in(page), "utf-8")
    settings = read_settings(tmp_path / "refresh.toml")
    assert settings.folder == Path("/var/lib/ocular/models")
    assert settings.keep == 7
    assert settings.purchases == ["postgresql:///shop"]


def test_the_gates_have_the_defaults_that_are_stated() -> None:
    stated = tomllib.loads(settings_in("refresh.md"))["gates"]
    assert stated == {name: value for name, value in asdict(Gates()).items() if name in stated}
    page = (DOCS / "refresh.md").read_text("utf-8")
    assert [name for name in asdict(Gates()) if name not in page] == []
