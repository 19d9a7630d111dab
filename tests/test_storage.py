"""Where files are written: links, pipes and devices are not replaced."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ocular.errors import ArtifactError
from ocular.storage import write_file


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_file(link, lambda file: file.write(b"new"))
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, lambda file: file.write(b"through"))
    reader.join(10)
    assert read == [b"through"]
    assert pipe.is_fifo()


def test_a_folder_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ArtifactError, match="could not write"):
        write_file(tmp_path / "folder", lambda file: file.write(b"x"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
