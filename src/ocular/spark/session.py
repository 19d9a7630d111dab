"""A Spark session, and its errors in one line."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ocular import errors
from ocular.errors import ClusterError, ConfigError, DataError, OcularError
from ocular.spark.requirements import require_java

PARTITIONS_PER_CORE = 4  # of tables that are sorted or joined
MAX_WAIT = 10.0  # seconds for a master to answer
MASTERS = re.compile(r"local(-cluster)?(\[.*\])?|spark://.+|yarn|k8s://.+")
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def connect(master: str, *, name: str = "ocular", **settings: Any) -> SparkSession:
    """
    Return a session at `master`: local[…], local-cluster[…], spark://host:port, yarn or k8s://….

    `settings` are Spark's, with _ in place of dots: spark_executor_memory="4g". A session that runs already, as in a
    notebook or on Databricks, is given to `fit`, `search` and `recommend` as it is.
    """
    require_java()
    if not MASTERS.fullmatch(master):
        raise ConfigError(
            f"expected a Spark master such as local[2], spark://host:7077, yarn or k8s://https://host, got {master!r}"
        )
    _check_reachable(master)
    if master.startswith("local") or urlsplit(master).hostname in LOOPBACK:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # every port on loopback
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    ours = {
        "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR",
        "spark.broadcast.compress": "false",  # memberships hardly get smaller, and it takes longer than sending them
    }  # fmt: skip
    for key, value in (ours | {key.replace("_", "."): value for key, value in settings.items()}).items():
        builder = builder.config(key, value)
    with plain_errors():
        spark = builder.getOrCreate()
    if "spark_sql_shuffle_partitions" not in settings:  # Spark's 200 take longer to hand out than to do on few cores
        spark.conf.set("spark.sql.shuffle.partitions", PARTITIONS_PER_CORE * spark.sparkContext.defaultParallelism)
    return spark


def place_of(path: str | Path) -> str:
    """Return a place of this machine as a URL: Spark takes a bare path for one of the cluster's file system."""
    return str(path) if "://" in str(path) else f"file://{Path(path).expanduser().resolve()}"


def _check_reachable(master: str) -> None:
    """Raise where no master answers; Spark itself would try for a minute and then fail with a trace."""
    for address in master.removeprefix("spark://").split(",") if master.startswith("spark://") else ():
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=MAX_WAIT):
                return
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    if master.startswith("spark://"):
        raise ConfigError(
            f"expected a Spark master at {master}, got no answer within {MAX_WAIT:.0f} s ({problem}); "
            "is it running there?"
        )


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what went wrong on an executor as if it had gone wrong here."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _plain(str(error)) from error


def _plain(trace: str) -> OcularError:
    if "No module named 'ocular'" in trace:
        return ConfigError(
            "expected the package ocular on every executor, got one without it; pip install 'ocular-rec[spark]' in the "
            "Python that PYSPARK_PYTHON names there"
        )
    ours = re.findall(r"^ocular\.errors\.(\w+): (.+)$", trace, re.MULTILINE)
    if ours:
        kind, message = ours[-1]
        error: OcularError = getattr(errors, kind, ClusterError)(message)
        return error
    if "PATH_NOT_FOUND" in trace:
        path = re.search(r"Path does not exist: (\S+?)\.?(\s|$)", trace)
        return DataError(f"expected Parquet, got {path[1] if path else 'a place'}, which is not there")
    if "UNABLE_TO_INFER_SCHEMA" in trace or "is not a Parquet file" in trace:
        return DataError("expected Parquet, got files that are not")
    raised = re.findall(r"^(\w[\w.]*(?:Error|Exception): .+)$", trace, re.MULTILINE)
    message = (raised[-1] if raised else trace.strip().partition("\n")[0])[:300]
    return ClusterError(f"Spark could not do it: {message}")
