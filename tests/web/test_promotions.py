"""promoted.json decides what is served: not a clock, and not what happens to lie in the folder."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import pytest
from command import run

from ocular.artifact import _manifest_digest
from ocular.errors import ArtifactError
from ocular.refresh.promotion import PROMOTIONS_FILE
from ocular.web.registry import Registry


@pytest.fixture
def models(first_model: Path, tmp_path: Path) -> Path:
    """Two models, of which the promoted one says that it is the older."""
    models = Path(shutil.copytree(first_model, tmp_path / "models"))
    put(models, "second", "2000-01-01T00:00:00Z")
    assert run("promote", models / "second", "--uncalibrated").returncode == 0
    return models


@pytest.fixture
def registry(models: Path) -> Registry:
    registry = Registry(models)
    registry.refresh()
    return registry


def put(models: Path, name: str, created: str) -> None:
    path = Path(shutil.copytree(models / "first", models / name))
    manifest = json.loads((path / "manifest.json").read_text("utf-8")) | {"created": created}
    manifest["digest"] = _manifest_digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def name_of(registry: Registry) -> str:
    return registry.current.version.rpartition("-")[0]


def test_the_promoted_model_is_served_and_not_the_newest(models: Path, registry: Registry) -> None:
    assert name_of(registry) == "second"
    put(models, "third", "2099-01-01T00:00:00Z")
    registry.refresh()
    assert name_of(registry) == "second"


def test_a_rollback_is_served_within_one_look(models: Path, registry: Registry) -> None:
    assert run("rollback", models).stdout == "rolled back from second to first\n"
    registry.refresh()
    assert name_of(registry) == "first"


def test_where_the_promoted_model_is_broken_the_one_before_is_served(models: Path) -> None:
    (models / "second" / "arrays.npz").write_bytes(b"broken")
    registry = Registry(models)
    registry.refresh()
    assert name_of(registry) == "first"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": "ocular-promotions", "version": 9}', "[" * 100_000, "../first", "null"]
)
def test_damaged_promotions_change_nothing_and_are_logged_once(
    models: Path, registry: Registry, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (models / PROMOTIONS_FILE).write_text(content)
    with caplog.at_level(logging.ERROR, "ocular.web"):
        registry.refresh()
        registry.refresh()
    assert name_of(registry) == "second"
    assert len(caplog.records) == 1
    with pytest.raises(ArtifactError):
        Registry(models).start()


def test_a_pipe_in_place_of_promotions_does_not_stop_the_watch(models: Path, registry: Registry) -> None:
    (models / PROMOTIONS_FILE).unlink()
    os.mkfifo(models / PROMOTIONS_FILE)
    registry.refresh()
    assert name_of(registry) == "second"


@pytest.mark.parametrize("name", ["../elsewhere", ".hidden", "/etc", "", 3])
def test_promotions_name_only_folders_beside_them(models: Path, registry: Registry, name: object) -> None:
    file = models / PROMOTIONS_FILE
    content = json.loads(file.read_text())
    content["served"][0]["model"] = name
    file.write_text(json.dumps(content))
    registry.refresh()
    assert name_of(registry) == "second"
