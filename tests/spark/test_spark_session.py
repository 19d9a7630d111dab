"""Masters of all kinds, and what is missing there, in one line."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pyspark
import pytest
from command import run
from spark_support import FAST, estimator, executors
from support import learned_bytes, wait_for

from ocular import Interactions, load
from ocular.cli.fit import fit_on_spark
from ocular.errors import ConfigError, DataError, MissingExtraError, UnknownNameError
from ocular.spark import connect, fit, requirements
from ocular.spark.blocks import slots

HOME = Path(pyspark.__file__).parent


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


# ------------------------------------------------------------------------------------------- a standalone cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers on loopback, as an administrator would start them."""
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(folder), "SPARK_DAEMON_JAVA_OPTS": FAST,
    }  # fmt: skip
    daemons = []

    def start(*arguments: str) -> None:
        command = [str(HOME / "bin" / "spark-class"), *arguments]
        with (folder / f"{len(daemons)}.log").open("w") as log:
            daemons.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True))

    deploy = "org.apache.spark.deploy"
    start(f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    wait_for(lambda: answers(port), daemons[0])
    for _ in range(2):
        start(f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0",
              master)  # fmt: skip
    logs = [folder / f"{n}.log" for n in (1, 2)]
    wait_for(lambda: all("Successfully registered" in log.read_text() for log in logs), daemons[0])
    yield master
    for daemon in reversed(daemons):
        daemon.terminate()
        daemon.wait(20)


ON_CLUSTER = """
import sys
from ocular.cli import main
sys.argv = ["ocular", *sys.argv[1:]]
main()
"""


@pytest.fixture(scope="module")
def sales_file(sales: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sales") / "sales.parquet"
    pl.DataFrame({"company": [f"C{u:05}" for u in sales.pair_users], "sku": sales.by_user.indices}).write_parquet(path)
    return path


def test_the_commands_on_a_standalone_cluster(cluster: str, sales_file: Path, tmp_path: Path) -> None:
    """In a process of its own: there is one Spark in a process, and here it is another one."""
    columns = ["--client", "company", "--product", "sku", "--coclusters", "12", "--regularization", "5"]
    limits = ["--peers", "0.5", "--max-iter", "3", "--tol", "0", "-o"]
    command = [sys.executable, "-c", ON_CLUSTER, "fit", str(sales_file), *columns, *limits, str(tmp_path / "model"),
               "--spark", cluster]  # fmt: skip
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": FAST}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "read 1,500 clients × 150 products" in done.stdout
    assert "note: parameters are not chosen from the data on Spark; taking --links 1\n" in done.stderr
    assert "saved to" in done.stdout
    local = run("fit", sales_file, *columns, "--links", "1", *limits, tmp_path / "local", "--no-calibration")
    assert local.returncode == 0
    fitted, expected = load(tmp_path / "model"), load(tmp_path / "local")
    assert fitted.peers_.nnz > 0
    assert learned_bytes(fitted) == learned_bytes(expected)
    assert fitted.evidence_config_ == expected.evidence_config_


def test_values_given_as_auto_are_refused_before_anything_is_read(spark: Any, sales_file: Path) -> None:
    model, options = estimator(peers="auto"), {"links": None, "peers": "auto"}
    with pytest.raises(ConfigError, match="expected a fixed value of peers on Spark, got 'auto'"):
        fit_on_spark(model, (str(sales_file),), options, spark, None)
    assert model.links == 1


LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")  # as Linux writes them


def listening(pid: int) -> list[str]:
    """Addresses at which a process waits for connections."""
    sockets = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed in the meantime
            sockets.add(str(handle.readlink()))
    tables = (Path(f"/proc/{pid}/net/{kind}").read_text() for kind in ("tcp", "tcp6"))
    lines = [line.split() for table in tables for line in table.splitlines()]
    return [line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets]


def test_every_port_is_on_loopback(spark: Any) -> None:
    processes = [spark.sparkContext._gateway.proc.pid, *executors(spark)]
    assert len(processes) > 1  # one that was killed may not be back yet
    found = [address for pid in processes for address in listening(pid)]
    assert found
    assert set(found) <= set(LOOPBACK)


# ---------------------------------------------------------------------------------------------- what may be missing


def test_a_master_that_does_not_answer() -> None:
    address = f"spark://127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match=f"expected a Spark master at {address}, got no answer within 10 s"):
        connect(address)
    done = run("recommend", "model", "--all", "-o", "x", "--spark", "mesos://host")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("master", ["mesos://host:5050", "", "spark:/host", "locale"])
def test_a_master_that_is_none(master: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a Spark master such as local\[2\]"):
        connect(master)


def test_without_pyspark_or_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None if name == "pyspark" else object())
    with pytest.raises(MissingExtraError, match=r"needs pyspark, which .*; pip install 'ocular-rec\[spark\]'"):
        requirements.require_pyspark()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingExtraError, match="needs Java 17 or later, which is not installed; install it"):
        connect("local[1]")


def test_columns_and_files_that_are_not_there(spark: Any, sales_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"sales.parquet: no column named 'skuu'; did you mean 'sku'\?"):
        fit(sales_file, estimator(), spark, client="company", product="skuu")
    with pytest.raises(DataError, match=r"expected Parquet, got .*nowhere.parquet, which is not there"):
        fit(tmp_path / "nowhere.parquet", estimator(), spark, client="company", product="sku")
    (tmp_path / "text.parquet").write_text("company,sku\na,b\n")
    with pytest.raises(DataError, match="expected Parquet, got files that are not"):
        fit(tmp_path / "text.parquet", estimator(), spark, client="company", product="sku")
    with pytest.raises(ConfigError, match="expected no attributes"):
        fit(sales_file, estimator(), spark, client="company", product="sku", client_attributes="sku")


def test_a_bad_row_on_an_executor_is_one_line(spark: Any, tmp_path: Path) -> None:
    pl.DataFrame({"who": ["a", None], "what": ["x", "y"]}).write_parquet(tmp_path / "gaps.parquet")
    with pytest.raises(DataError, match=r"a row: expected 'who' and 'what' in every row, got 1 without") as caught:
        fit(tmp_path / "gaps.parquet", estimator(), spark, client="who", product="what")
    assert "\n" not in str(caught.value)
    pl.DataFrame({"who": ["a"], "what": ["x"], "n": [-1]}).write_parquet(tmp_path / "returns.parquet")
    with pytest.raises(DataError, match="expected at least one purchase, got none in 1 rows"):
        fit(tmp_path / "returns.parquet", estimator(), spark, client="who", product="what", quantity="n")


WITHOUT_PACKAGE = """
import sys
from ocular.synthetic.market import b2b
from ocular.errors import ConfigError
from ocular import OCuLaR
from ocular.spark import connect, fit

spark = connect("local[1]", spark_ui_enabled="false", spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=1")
try:
    fit(b2b(100, 20).interactions, OCuLaR(4, 1.0, init="random"), spark)
except ConfigError as error:
    print(error)
"""


def test_executors_without_the_package(tmp_path: Path) -> None:
    bare = tmp_path / "python"  # one that knows nothing but its own library and what Spark brings
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    environment = os.environ | {"PYSPARK_PYTHON": str(bare), "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE], env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert "expected the package ocular on every executor, got one without it; pip install" in done.stdout, done.stderr


def test_the_session_counts_its_cores(spark: Any) -> None:
    assert slots(spark.sparkContext) == 2
