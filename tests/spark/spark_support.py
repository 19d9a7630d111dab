"""What tests on Spark have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ocular import OCuLaR

FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that starts sooner
QUICK = {
    "spark_driver_extraJavaOptions": FAST, "spark_executor_extraJavaOptions": FAST, "spark_ui_enabled": "false",
    "spark_sql_shuffle_partitions": "3",
}  # fmt: skip


def estimator(**changes: Any) -> OCuLaR:
    """Return a model that sweeps four times if nothing else is asked for."""
    usual = {"n_coclusters": 12, "regularization": 5.0, "random_state": 0, "max_iter": 4, "tol": 0.0}
    return OCuLaR(**usual | changes)


def executors(spark: Any) -> list[int]:
    """Process ids of the executors."""
    found, application = [], spark.sparkContext.applicationId
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in command and application.encode() in command:
            found.append(int(folder.name))
    return found
