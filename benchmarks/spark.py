"""
A fit on Spark beside the local one: where the time of a half-sweep goes, and what the driver holds.

python benchmarks/spark.py            20 million positives, 100,000 × 17,770, K=200; takes about ten minutes
python benchmarks/spark.py --quick    a fiftieth of it, K=50

Two executors of one core each on this machine (local-cluster), reading Parquet, against the local solver in two
threads. The shares are of the cores' time: a core that waits for the driver or for data is idle. Every part runs in a
process of its own. The data are made up as in netflix.py; the driver is measured on a quarter of the positives of the
same clients and products, too.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from common import RESULTS, parser, save
from netflix import alone, make, read

from ocular.data.readers import read as read_file
from ocular.solver.config import FitConfig
from ocular.solver.cpu import CpuBackend
from ocular.solver.start.initial import initial_state

USERS, PAIRS, SWEEPS, EXECUTORS, TASKS, MANY = 100_000, 20_000_000, 20, 2, 64, 2000
PARTS = "total", "broadcast", "job", "gather"
COLUMNS = {"client": "who", "product": "what"}
MIN_KERNEL = 0.6  # share of the cores' time
QUIET = {"spark_ui_enabled": "false", "spark_executor_memory": "4g", "spark_driver_memory": "2g"}


def config(K: int) -> FitConfig:
    return FitConfig(K, 60.0, seed=0, max_iter=SWEEPS, tol=0.0, n_threads=EXECUTORS)


def write_parquet(path: Path, folder: Path, share: float) -> int:
    """The pairs, or some of them, in files as a warehouse would have them: in no order."""
    data, rng = read(path), np.random.default_rng(0)
    chosen = rng.permutation(data.nnz)[: int(share * data.nnz)]
    users, items = data.pair_users[chosen], data.by_user.indices[chosen]
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(chosen)), 8)):
        pl.DataFrame({"who": users[part], "what": items[part]}).write_parquet(folder / f"{number}.parquet")
    return len(chosen)


def sweep_locally(folder: Path, K: int) -> dict[str, Any]:
    data = read_file(folder, **COLUMNS)
    backend = CpuBackend(data, config(K))
    backend.start(initial_state(data, config(K)))
    marks, objectives = [time.perf_counter()], []
    for _ in range(SWEEPS):
        objectives.append(backend.sweep())
        marks.append(time.perf_counter())
    return {"sweep": float(np.diff(marks)[1:].mean()), "objectives": objectives}


def sweep_on_spark(folder: Path, K: int, sweeps: int = SWEEPS) -> dict[str, Any]:
    from ocular.spark import connect
    from ocular.spark.fit import SparkBackend
    from ocular.spark.interactions import SparkInteractions, block_degrees

    spark = connect(f"local-cluster[{EXECUTORS},1,4096]", **QUIET)
    begun = time.perf_counter()
    interactions = SparkInteractions.of(folder, spark, COLUMNS)
    read_in = time.perf_counter() - begun
    backend = SparkBackend(interactions, config(K), spark)
    backend.start(initial_state(interactions, config(K)))
    objectives = [backend.sweep() for _ in range(sweeps)]
    blocks = {}
    for side, rows in (("item", interactions.items), ("user", interactions.users)):
        begun = time.perf_counter()
        rows.run(block_degrees)
        blocks[side] = time.perf_counter() - begun
    state = backend.state()
    bytes_of = {side: _bytes(getattr(state, f"{side}_factors")) for side in ("user", "item")}
    peaks = {"python": _peak(os.getpid()), "java": _peak(spark.sparkContext._gateway.proc.pid)}
    found = {
        "read": read_in, "shape": interactions.shape, "positives": interactions.nnz, "objectives": objectives,
        "blocks": blocks, "bytes": bytes_of,
        "tasks": len(backend.half_sweeps[-1].kernels),
        "half-sweeps": [vars(half) for half in backend.half_sweeps[2:]],  # the first compiles and loads
        "driver": peaks,
    }  # fmt: skip
    backend.close()
    spark.stop()
    return found


def time_tasks() -> dict[str, float]:
    """Seconds of an empty task: of Python's on a core; of Java's on all of it, which the driver hands out at least."""
    from ocular.spark import connect

    spark = connect(f"local-cluster[{EXECUTORS},1,4096]", **QUIET)
    took = {"core": [], "driver": []}
    for _ in range(3):
        begun = time.perf_counter()
        spark.sparkContext.parallelize(range(TASKS), TASKS).count()
        took["core"].append((time.perf_counter() - begun) * EXECUTORS / TASKS)
        begun = time.perf_counter()
        spark.range(0, MANY, 1, MANY).selectExpr("count(*)").collect()
        took["driver"].append((time.perf_counter() - begun) / MANY)
    spark.stop()
    return {name: min(times) for name, times in took.items()}


def _bytes(factors: Any) -> int:
    """As they travel."""
    from ocular.spark.fit import packed

    sent = packed(factors)
    return int(sent.nbytes if isinstance(sent, np.ndarray) else sent.data.nbytes + sent.indices.nbytes)


def _peak(pid: int) -> float:
    """GiB that a process has held at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 2**20


def tell(found: dict[str, Any], local: dict[str, Any]) -> dict[str, Any]:
    """Print and return the mean half-sweep of each side, as shares of the cores' time."""
    means, total = {}, 0.0
    for side in ("item", "user"):
        halves = [half for half in found["half-sweeps"] if half["side"] == side]
        mean = {
            part: float(np.mean([half[part] for half in halves])) for part in ("total", "broadcast", "job", "gather")
        }
        kernel = float(np.mean([sum(half["kernels"]) for half in halves])) / EXECUTORS
        blocks = found["blocks"][side]  # a job that only hands the blocks to Python
        rest = max(mean["job"] - kernel - blocks, 0.0)
        parts = {"kernel": kernel, "broadcast": mean["broadcast"], "scheduling and blocks of R": blocks,
                 "opening memberships, waiting": rest, "gathering": mean["gather"]}  # fmt: skip
        total += mean["total"]
        told = ", ".join(f"{name} {value:.2f} s ({value / mean['total']:.0%})" for name, value in parts.items())
        print(f"  {side} half-sweep {mean['total']:.2f} s: {told}", flush=True)
        means[side] = {"total": mean["total"], **parts}
    share = sum(means[side]["kernel"] for side in means) / total
    print(f"  a sweep {total:.2f} s, locally {local['sweep']:.2f} s: ratio {total / local['sweep']:.2f}; "
          f"kernel {share:.0%} (asked for: ≥ {MIN_KERNEL:.0%})")  # fmt: skip
    print(f"  the objective after each sweep is the same: {found['objectives'] == local['objectives']}")
    return {"half-sweeps": means, "sweep": total, "kernel": share}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--tasks", action="store_true", help="only what an empty task costs, into the old results")
    given = arguments.parse_args()
    quick, tasks = given.quick, alone(time_tasks)
    print(
        f"an empty task: {tasks['core'] * 1e3:.0f} ms of a core, {tasks['driver'] * 1e3:.1f} ms of the driver at most"
    )
    if given.tasks:
        before = json.loads((RESULTS / "spark.json").read_text())
        save("spark", {name: value for name, value in before.items() if name != "machine"} | {"task": tasks})
        return
    share, sizes = (50, (50,)) if quick else (1, (200,))
    results: dict[str, Any] = {"executors": EXECUTORS, "task": tasks}
    with TemporaryDirectory() as temporary:
        path, whole, part = (Path(temporary) / name for name in ("interactions.npz", "whole", "part"))
        alone(make, path, USERS // share, PAIRS // share)
        n = alone(write_parquet, path, whole, 1.0)
        for K in sizes:
            local = alone(sweep_locally, whole, K)
            found = alone(sweep_on_spark, whole, K)
            print(f"{n:,} positives of {found['shape'][0]:,} × {found['shape'][1]:,}, K={K}, {EXECUTORS} executors; "
                  f"reading Parquet into blocks {found['read']:.0f} s")  # fmt: skip
            results[f"K={K}"] = found | {"local": local, "means": tell(found, local)}
        fewer = alone(write_parquet, path, part, 0.25)
        small = alone(sweep_on_spark, part, sizes[0], 4)
        results["a quarter"] = small
        large = results[f"K={sizes[0]}"]
        print(f"the driver's Python at most {large['driver']['python']:.2f} GiB with {n:,} positives, "
              f"{small['driver']['python']:.2f} with {fewer:,}; its Java {large['driver']['java']:.2f} and "
              f"{small['driver']['java']:.2f}")  # fmt: skip
    if not quick:
        save("spark", results)


if __name__ == "__main__":
    main()
