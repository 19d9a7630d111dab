"""
The record of an evaluation that is kept beside the models: accuracy of several methods on held-out purchases.

`ocular evaluate … --save MODELS` writes it; the application shows it. There is one for random splits and one for a
back-test by date, each with the fingerprint of the purchases, so that a record of other purchases is told as such.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ocular.storage import write_file

QUALITY_FILE, FORMAT = "quality.json", "ocular-quality"


@dataclass(frozen=True)
class MethodAccuracy:
    """What one method found of the held-out purchases."""

    model: str
    recall: float
    map: float
    ndcg: float
    parameters: dict[str, Any]


@dataclass(frozen=True)
class QualityRecord:
    """Methods on the same held-out purchases, the best first."""

    methods: list[MethodAccuracy]
    metric: str  # by which the methods are sorted
    at: int  # recommendations per client
    tuned_on: str  # "none", "validation" or "test"
    clients: int  # with held-out purchases
    held_out: float | None  # share of the purchases; None for a back-test by date
    date: str | None  # from which purchases were held out
    measured: str  # day of the evaluation
    data: str = ""  # fingerprint of the purchases


def record_of(
    rows: Iterable[Mapping[str, Any]], metric: str, at: int, tuned_on: str, held_out: float | None, date: str | None
) -> QualityRecord:
    """Return the record of the rows of a comparison."""
    rows = list(rows)
    methods = [
        MethodAccuracy(
            model=row["model"],
            recall=row[f"recall@{at}"],
            map=row[f"map@{at}"],
            ndcg=row[f"ndcg@{at}"],
            parameters={name: value for name, value in row["parameters"].items() if name != "n_threads"},
        )
        for row in rows
    ]
    day = datetime.now(UTC).date().isoformat()
    return QualityRecord(methods, metric, at, tuned_on, rows[0]["clients"], held_out, date, day)


def save_quality(folder: Path, fingerprint: str, record: QualityRecord) -> None:
    """Write a record in the folder of the models; the record of the other kind of split stays."""
    kind = "random" if record.date is None else "by_date"
    records = read_quality(folder) | {kind: replace(record, data=fingerprint)}
    content = {"format": FORMAT} | {kind: asdict(each) for kind, each in records.items()}
    write_file(folder / QUALITY_FILE, lambda file: file.write(json.dumps(content, indent=1).encode()))


def read_quality(folder: Path) -> dict[str, QualityRecord]:
    """Return the records by kind, "random" and "by_date"; what is missing or cannot be read is left out."""
    records = {}
    try:
        content = json.loads((folder / QUALITY_FILE).read_text("utf-8"))
        if content.get("format") != FORMAT:
            return {}
        for kind in ("random", "by_date"):
            if kind in content:
                methods = [MethodAccuracy(**_typed(method)) for method in content[kind].pop("methods")]
                records[kind] = QualityRecord(methods, **content[kind])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return records


def _typed(method: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a method, its numbers as such: a page formats them."""
    return method | {name: float(method[name]) for name in ("recall", "map", "ndcg")}
