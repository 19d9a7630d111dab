"""What all benchmarks share: the data, the machine they ran on, and results as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ocular.data.datasets import citeulike, movielens
from ocular.data.interactions import Interactions

RESULTS = Path(__file__).parent / "results"
Name = TypeVar("Name")


def parser(description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_data_option(arguments: argparse.ArgumentParser, *, required: bool = True) -> None:
    folder = os.environ.get("OCULAR_DATA")
    arguments.add_argument(
        "--data",
        type=Path,
        default=folder,
        required=required and folder is None,
        help="folder with movielens-1m and citeulike-a",
    )


def movielens_1m(data: Path) -> Interactions:
    return movielens(data / "movielens-1m", min_rating=3)


def citeulike_a(data: Path) -> Interactions:
    return citeulike(data / "citeulike-a")


def seconds(run: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


class Cost(NamedTuple):
    """Seconds by the clock, and of all cores together; the second suffers less from what else the machine does."""

    clock: float
    cores: float


def costs(contenders: Mapping[Name, Callable[[], Any]], repeats: int = 3) -> dict[Name, Cost]:
    """Return the least of each cost of each contender, run in turns."""
    found: dict[Name, list[Cost]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            begun = Cost(time.perf_counter(), time.process_time())
            run()
            found[name].append(Cost(time.perf_counter() - begun.clock, time.process_time() - begun.cores))
    return {name: Cost(*map(min, zip(*runs, strict=True))) for name, runs in found.items()}


def machine() -> dict[str, Any]:
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((line.partition(": ")[2] for line in info.read_text().splitlines() if "model name" in line), cpu)
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version()} | {
        name: _version(name)
        for name in ("ocular-rec", "numpy", "scipy", "numba", "implicit", "cornac", "lenskit", "warp-lang")
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def save(name: str, results: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **results}, indent=2) + "\n")
    print(f"written to benchmarks/results/{path.name}")


def saved_result(name: str) -> dict[str, Any]:
    """Return what `save` wrote, without the machine; empty where nothing was saved yet."""
    path = RESULTS / f"{name}.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    return {part: result for part, result in results.items() if part != "machine"}
