"""
How a fit on Spark would scale: the costs that benchmarks/spark.py measured on two executors, put together for more of
them and for more positives. A model, not a measurement; what it assumes of the network and of the data is below.

python experiments/cluster_scaling.py [--quick]        needs benchmarks/results/spark.json

A half-sweep takes
    kernel      positives × seconds of a positive / cores
  + blocks      4 bytes a positive, from the executor's memory into Python / cores
  + broadcast   the driver writes the other side and its own once; every executor receives them, in pieces from each
                other, and every core opens them
  + gathering   the new rows come to the driver over its one network card, and are put together there
  + tasks       seconds of an empty one on its core × tasks of a core; and the driver hands out one after the other
Memory of the driver: both sides; of an executor: its positives twice, and both sides for each core.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import draw_lines, parse, save

MEASURED = Path(__file__).parent.parent / "benchmarks" / "results" / "spark.json"
NETWORK = 1.25e9  # bytes a second: 10 Gbit/s, what common cloud machines have at least
CORES = 1  # of an executor, as measured
MEMBERSHIPS, MEMBERSHIP_BYTES = 12, 8  # of a row in a converged fit (benchmarks/netflix.py has about 10 and 15)
PER_USER, USERS_PER_ITEM = 200, 30  # positives of a user; users for each item
EXECUTORS = (2, 8, 64, 512)
POSITIVES = (2e7, 1e8, 1e9, 1e10)
BLOCKS_PER_CORE = 2


@dataclass(frozen=True)
class Costs:
    """Seconds, as measured."""

    positive: float  # of the kernel, in a half-sweep
    block_byte: float  # from the executor's memory into Python
    broadcast_byte: float  # on the driver
    open_byte: float  # on a core
    gather_byte: float  # on the driver
    task: float  # on its core, empty
    hand_out: float  # a task, on the driver

    @classmethod
    def read(cls, measured: dict[str, Any], task: dict[str, float]) -> Costs:
        n, cores, means = measured["positives"], 2, measured["means"]["half-sweeps"]
        bytes_of = measured["bytes"]
        both = [sum(bytes_of.values())] * 2
        kernel = sum(means[side]["kernel"] for side in means) * cores / (2 * n)
        empty = task["core"] * measured["tasks"] / cores
        blocks = sum(max(means[side]["scheduling and blocks of R"] - empty, 0) for side in means)
        opened = sum(means[side]["opening memberships, waiting"] for side in means)
        return cls(
            kernel, blocks * cores / (2 * 4 * n), sum(means[side]["broadcast"] for side in means) / both[0],
            opened / sum(both), sum(means[side]["gathering"] for side in means) / both[0],
            task["core"], task["driver"],
        )  # fmt: skip


def half_sweep(costs: Costs, positives: float, executors: int) -> dict[str, float]:
    """Mean of the two sides."""
    users = positives / PER_USER
    rows = users + users / USERS_PER_ITEM
    sent = rows * MEMBERSHIPS * MEMBERSHIP_BYTES  # both sides
    cores = executors * CORES
    each = sent / 2  # a new side for each half-sweep
    return {
        "kernel": positives * costs.positive / cores,
        "blocks": 4 * positives * costs.block_byte / cores,
        "broadcast": each * costs.broadcast_byte + 2 * each / NETWORK + sent * costs.open_byte,
        "gathering": each * costs.gather_byte + each / NETWORK,
        "tasks": costs.task * BLOCKS_PER_CORE + costs.hand_out * BLOCKS_PER_CORE * cores,
        "driver GiB": sent / 2**30,
        "executor GiB": (2 * 4 * positives / executors + 2 * sent * CORES) / 2**30,
    }


def routed(positives: float, executors: int) -> tuple[float, float]:
    """
    What blocks routed as in Spark's ALS would receive in an item half-sweep, in GB: all of a block's users once, each
    with its memberships; for an executor, and for all. Users are taken to be drawn evenly.
    """
    users, drawn = positives / PER_USER, positives / executors
    distinct = users * -np.expm1(-drawn / users)
    each = distinct * MEMBERSHIPS * MEMBERSHIP_BYTES / 1e9
    return each, each * executors


def main() -> None:
    given = parse(__doc__, needs_data=False)
    results = json.loads(MEASURED.read_text())
    measured = results["K=200"]
    costs = Costs.read(measured, results["task"])
    print(f"measured with {measured['positives']:,} positives, K=200: {costs}")
    lines: dict[str, Any] = {}
    rows = []
    for positives in POSITIVES:
        times = []
        for executors in EXECUTORS:
            parts = half_sweep(costs, positives, executors)
            seconds = sum(value for name, value in parts.items() if "GiB" not in name)
            largest = max((name for name in parts if "GiB" not in name), key=parts.__getitem__)
            print(f"{positives:8.0e} positives, {executors:3} executors: {seconds:9.1f} s a half-sweep, "
                  f"kernel {parts['kernel'] / seconds:4.0%}, most {largest}; driver {parts['driver GiB']:.1f} GiB, "
                  f"executor {parts['executor GiB']:.1f} GiB")  # fmt: skip
            times.append(seconds)
            rows.append({"positives": positives, "executors": executors, "seconds": seconds} | parts)
        lines[f"{positives:.0e} positives"] = (EXECUTORS, times)
    for executors in EXECUTORS:
        each, together = routed(POSITIVES[-1], executors)
        print(f"{POSITIVES[-1]:.0e} positives, {executors} executors, blocks routed: each would receive {each:.2f} GB, "
              f"{each * 1e9 / NETWORK:.1f} s of its network; all together {together:.0f} GB")  # fmt: skip
    figure = draw_lines(
        {"seconds a half-sweep": lines}, "A model of the fit on Spark, K = 200", "executors of one core",
        xscale="log", yscale="log",
    )  # fmt: skip
    save(given, "cluster_scaling", {"costs": vars(costs), "rows": rows}, figure)


if __name__ == "__main__":
    main()
