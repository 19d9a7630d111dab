"""The finished tasks of a search on file, so that a killed one goes on where it was."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ocular.errors import ArtifactError
from ocular.evaluation.trial import Point, Score, Task
from ocular.storage import check_writable, write_file

FORMAT, VERSION = "ocular-search", 1


class ResultsFile:
    """
    Finished tasks, a JSON line each below a header that says of what; only in memory without a path.

    A last line without an end was being written when the search was killed: it is cut off.
    """

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self._path, self._scores = path, dict[Task, Score]()
        if path is None:
            return
        header = {"format": FORMAT, "version": VERSION, **header}
        first = json.dumps(header)
        check_writable(path)
        try:
            content = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise ArtifactError(f"{path} can not be read ({error.strerror}); choose another file") from error
        whole_lines = content[: content.rfind(b"\n") + 1]
        if not whole_lines:
            if not first.encode().startswith(content):
                raise ArtifactError(f"{path} is not a results file of a search; choose another file")
            write_file(path, lambda file: file.write(f"{first}\n".encode()))
            return
        self._read(whole_lines, header)
        if len(whole_lines) < len(content):
            os.truncate(path, len(whole_lines))

    def _read(self, content: bytes, header: dict[str, Any]) -> None:
        path, number = self._path, 1
        try:
            theirs, *lines = content.decode().splitlines()
            _check_header(path, json.loads(theirs), header)
            for number, text in enumerate(lines, 2):  # noqa: B007  the error names it
                line = json.loads(text)
                task = Task(Point(**line["point"]), int(line["fold"]))
                self._scores[task] = Score(*(float(line[name]) for name in Score._fields))
        except (ValueError, KeyError, TypeError) as error:
            what = "not a results file of a search" if number == 1 else f"damaged in line {number}"
            raise ArtifactError(f"{path} is {what}; choose another file") from error

    def __contains__(self, task: Task) -> bool:
        return task in self._scores

    def scores(self, point: Point, folds: int) -> list[Score]:
        """Of the first folds."""
        return [self._scores[Task(point, fold)] for fold in range(folds)]

    def add(self, task: Task, score: Score) -> None:
        if task in self:
            return
        self._scores[task] = score
        if self._path is None:
            return
        line = json.dumps({"point": asdict(task.point), "fold": task.fold, **score._asdict()})
        try:
            with self._path.open("ab") as file:
                file.write(f"{line}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ArtifactError(f"could not write {self._path}: {error.strerror}; free some space and go on") from error


def _check_header(path: Path | None, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    if theirs["format"] != FORMAT or theirs["version"] != VERSION:
        raise ValueError(theirs["format"])
    if theirs["data"] != ours["data"]:
        raise ArtifactError(f"{path} belongs to another purchase history; delete it or choose another file")
    was, now = theirs["settings"], ours["settings"]
    different = [name for name in now | was if was.get(name) != now.get(name)]
    if different:
        told = ", ".join(f"{name}={was.get(name)!r}" if name != "points" else "another grid" for name in different)
        raise ArtifactError(f"{path} belongs to a search with {told}; delete it or choose another file")
