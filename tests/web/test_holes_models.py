"""One bad folder keeps no server from starting and no good model from being served, whatever is in it."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ocular.artifact import _manifest_digest
from ocular.storage import digest
from ocular.web import registry as module
from ocular.web.registry import Registry

Damage = Callable[[Path], object]


@pytest.fixture
def models(first_model: Path, tmp_path: Path) -> Path:
    """A folder with one model, to be changed."""
    return Path(shutil.copytree(first_model, tmp_path / "models"))


def rewrite(path: Path, **changes: Any) -> None:
    """Change a manifest, and sign it: what a model says of itself is consistent."""
    manifest = json.loads((path / "manifest.json").read_text("utf-8")) | changes
    for name, facts in manifest["files"].items():
        if (path / name).is_file():
            facts |= {"bytes": (path / name).stat().st_size, "sha256": digest(path / name)}
    manifest["digest"] = _manifest_digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def newer(models: Path, name: str, hours: int = 1, **changes: Any) -> Path:
    path = Path(shutil.copytree(models / "first", models / name))
    rewrite(path, created=(datetime.now(UTC) + timedelta(hours=hours)).isoformat(), **changes)
    return path


def put_arrays(path: Path, content: bytes) -> None:
    (path / "arrays.npz").write_bytes(content)
    rewrite(path)


def as_npy(path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    put_arrays(path, buffer.getvalue())


def as_bomb(path: Path) -> None:
    """An archive of 2 MB that opens to 1.7 GB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("user_bias.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (1_700_000_000,)})
        for _ in range(1700):
            file.write(bytes(1_000_000))
    put_arrays(path, buffer.getvalue())


def as_pipe(path: Path, name: str) -> None:
    (path / name).unlink()
    os.mkfifo(path / name)


def change_array(path: Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    with np.load(path / "arrays.npz") as file:
        arrays = dict(file)
    arrays[name] = change(arrays[name])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    put_arrays(path, buffer.getvalue())


DAMAGES: dict[str, Damage] = {
    "deep": lambda path: (path / "manifest.json").write_text("[" * 200_000 + "]" * 200_000),
    "deep-inside": lambda path: (path / "manifest.json").write_text(
        '{"format": "ocular-model", "version": 2, "x": ' + '{"a":' * 50_000 + "1" + "}" * 50_001
    ),
    "year-1": lambda path: rewrite(path, created="0001-01-01T00:00:00+14:00"),
    "year-1-utc": lambda path: rewrite(path, created="0001-01-01T00:00:00Z"),
    "year-2099": lambda path: rewrite(path, created="2099-01-01T00:00:00Z"),
    "year-9999": lambda path: rewrite(path, created="9999-12-31T23:59:59-14:00"),
    "number": lambda path: rewrite(path, created=5),
    "no-zip": lambda path: put_arrays(path, b"nothing of the kind"),
    "empty": lambda path: put_arrays(path, b""),
    "npy": as_npy,
    "bomb": as_bomb,
    "pipe-arrays": lambda path: as_pipe(path, "arrays.npz"),
    "pipe-table": lambda path: as_pipe(path, "clients.parquet"),
    "pipe-manifest": lambda path: as_pipe(path, "manifest.json"),
    "folder-manifest": lambda path: ((path / "manifest.json").unlink(), (path / "manifest.json").mkdir()),
    "dangling": lambda path: ((path / "manifest.json").unlink(), (path / "manifest.json").symlink_to("nowhere")),
    "calibration": lambda path: rewrite(path, calibration={"confidence": [], "rate": 7}),
    "fit": lambda path: rewrite(path, fit=[]),
    "huge-number": lambda path: rewrite(path, parameters={"n_coclusters": 10**400}),
    "scalar": lambda path: change_array(path, "user_bias", lambda _: np.float32(1)),
    "pointers": lambda path: change_array(path, "user_indptr", lambda values: values[::-1]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_bad_folder_is_refused_once_and_a_good_one_is_served(
    models: Path, caplog: pytest.LogCaptureFixture, damage: Damage
) -> None:
    running = Registry(models)
    running.refresh()
    damage(newer(models, "bad", hours=2))
    newer(models, "good")
    for _ in range(3):
        running.refresh()
    assert running.current.version.startswith("good-")
    (record,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert record.getMessage().startswith("refused the model in bad: ")
    assert "\n" not in record.getMessage()
    assert len(record.getMessage()) < 2000
    started = Registry(models)  # the next start
    started.refresh()
    assert started.current.version.startswith("good-")


@pytest.mark.parametrize(
    "error", [IndexError, TypeError, MemoryError, RecursionError, OverflowError, ValueError, AttributeError, OSError]
)
def test_any_error_of_the_loader_is_a_refusal(
    models: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    genuine = module.Opportunities

    def fail(model: Any) -> Any:
        if model.bias_ == -5.0:
            raise error("a surprise")
        return genuine(model)

    bad = newer(models, "bad", hours=2)
    rewrite(bad, fit=json.loads((bad / "manifest.json").read_text("utf-8"))["fit"] | {"bias": -5.0})
    newer(models, "good")
    monkeypatch.setattr(module, "Opportunities", fail)
    registry = Registry(models)
    registry.refresh()
    assert registry.current.version.startswith("good-")
    assert [record.levelname for record in caplog.records if "refused" in record.getMessage()] == ["ERROR"]
    assert "a surprise" in caplog.text


def test_a_stray_link_in_a_good_folder_does_no_harm(models: Path) -> None:
    (newer(models, "good") / "stray").symlink_to("nowhere")
    registry = Registry(models)
    registry.refresh()
    assert registry.current.version.startswith("good-")
