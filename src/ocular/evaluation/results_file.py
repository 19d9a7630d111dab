"""The results file of a search: finished trials, so that a killed search goes on where it was."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ocular.errors import ArtifactError
from ocular.evaluation.fold_evidence import Weights
from ocular.evaluation.trial import GridPoint, Trial, TrialScore
from ocular.storage import check_writable, write_file

FORMAT, VERSION = "ocular-search", 1


class ResultsFile:
    """
    Finished trials, one JSON line each below a header that names the purchases and the settings.

    Without a path they are kept in memory only. A last line without an end was being written when the search was
    killed: it is cut off.
    """

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self._path, self._scores = path, dict[Trial, TrialScore]()
        if path is None:
            return
        header = {"format": FORMAT, "version": VERSION, **header}
        first = json.dumps(header)
        check_writable(path)
        try:
            content = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read ({error.strerror}); choose another file") from error
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
        path, number, has_weights = self._path, 1, "links" in header["settings"]
        try:
            first_line, *lines = content.decode().splitlines()
            _check_header(path, json.loads(first_line), header)
            for number, text in enumerate(lines, 2):  # noqa: B007  the error names it
                line = json.loads(text)
                trial = Trial(GridPoint(**line["point"]), int(line["fold"]))
                value, error, seconds = (float(line[name]) for name in ("value", "error", "seconds"))
                weights = Weights(*(float(line[name]) for name in Weights._fields)) if has_weights else None
                self._scores[trial] = TrialScore(value, error, seconds, weights)
        except (ValueError, KeyError, TypeError) as error:
            what = "not a results file of a search" if number == 1 else f"damaged in line {number}"
            raise ArtifactError(f"{path} is {what}; choose another file") from error

    def __contains__(self, trial: Trial) -> bool:
        return trial in self._scores

    def scores(self, point: GridPoint, folds: int) -> list[TrialScore]:
        """Return the scores of a grid point on the first folds."""
        return [self._scores[Trial(point, fold)] for fold in range(folds)]

    def add(self, trial: Trial, score: TrialScore) -> None:
        """Keep a score, on file before the next trial begins."""
        if trial in self:
            return
        self._scores[trial] = score
        if self._path is None:
            return
        measured = score._asdict()
        weights = measured.pop("weights")
        measured |= {} if weights is None else weights._asdict()
        line = json.dumps({"point": asdict(trial.point), "fold": trial.fold, **measured})
        try:
            with self._path.open("ab") as file:
                file.write(f"{line}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ArtifactError(f"could not write {self._path}: {error.strerror}; free some space and go on") from error


def _check_header(path: Path | None, header: dict[str, Any], expected: dict[str, Any]) -> None:
    if header["format"] != FORMAT or header["version"] != VERSION:
        raise ValueError(header["format"])
    if header["data"] != expected["data"]:
        raise ArtifactError(f"{path} belongs to other purchases; delete it or choose another file")
    was, now = ({"links": 0} | settings for settings in (header["settings"], expected["settings"]))
    different = [name for name in now | was if was.get(name) != now.get(name)]
    if different:
        settings = ", ".join("another grid" if name == "points" else f"{name}={was.get(name)!r}" for name in different)
        raise ArtifactError(f"{path} belongs to a search with {settings}; delete it or choose another file")
