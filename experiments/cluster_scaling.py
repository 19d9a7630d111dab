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
    def read(cls, measured: dict[str, Any]) -> Costs:
        n, cores, means = measured["positives"], 2, measured["means"]["half-sweeps"]
        bytes_of = measured["bytes"]
        both = [sum(bytes_of.values())] * 2
        kernel = sum(means[side]["kernel"] for side in means) * cores / (2 * n)
        task = measured["task"]
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


def main() -> None:
    given = parse(__doc__, needs_data=False)
    measured = json.loads(MEASURED.read_text())["K=200"]
    costs = Costs.read(measured)
    print(f"measured with {measured['positives']:,} positives, K=200: {costs}")
    lines: dict[str, Any] = {}
    results = []
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
            results.append({"positives": positives, "executors": executors, "seconds": seconds} | parts)
        lines[f"{positives:.0e} positives"] = (EXECUTORS, times)
    figure = draw_lines(
        {"seconds a half-sweep": lines}, "A model of the fit on Spark, K = 200", "executors of one core",
        xscale="log", yscale="log",
    )  # fmt: skip
    save(given, "cluster_scaling", {"costs": vars(costs), "rows": results}, figure)


if __name__ == "__main__":
    main()
