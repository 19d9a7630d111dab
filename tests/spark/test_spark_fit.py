"""A fit on executors ends with the bytes of a fit on one machine, whatever happens to them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from spark_support import estimator, executors
from support import learned_bytes, public_set, start_python

from ocular import Interactions, OCuLaR, load
from ocular.data.datasets import movielens
from ocular.data.readers import read
from ocular.errors import ConfigError
from ocular.solver.checkpoint import Checkpoint
from ocular.spark import fit
from ocular.spark.blocks import cut
from ocular.spark.fit import SparkModel
from ocular.spark.interactions import SparkInteractions

COLUMNS = {"client": "who", "product": "what", "price": "paid", "quantity": "n", "time": "at", "currency": "EUR"}
EVIDENCE = {"links": 1.0, "peers": 0.5, "link_regularization": 20.0}


def locally(data: Interactions, model: OCuLaR) -> OCuLaR:
    return clone(model).fit(data)


@pytest.mark.parametrize(
    "changes",
    [
        {},  # auto: several starts and repairs, on the driver
        {"init": "overlap", "relative": True},
        {"init": "overlap", "bias": True},
        {"init": "random", "line_search": "paper"},
        {"init": "seeds", "n_coclusters": 100, "max_iter": 6},  # sparse from the first sweep
        {"init": "overlap", "n_coclusters": 240, "regularization": 1.0, "max_iter": 7},  # becomes sparse
    ],
    ids=["auto", "relative", "bias", "paper", "seeds", "becomes sparse"],
)
def test_the_factors_have_the_same_bytes(spark: Any, sales: Interactions, changes: dict[str, Any]) -> None:
    model = estimator(**changes)
    found = fit(sales, model, spark, n_blocks=5)
    assert learned_bytes(found) == learned_bytes(locally(sales, model))
    assert found.interactions_ is sales
    assert found.get_params() == model.get_params()
    assert not hasattr(model, "user_factors_")


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
@pytest.mark.parametrize("relative", [False, True])
def test_links_and_peers_have_the_same_bytes(spark: Any, sales: Interactions, n_blocks: int, relative: bool) -> None:
    model = estimator(init="random", max_iter=1, relative=relative, popularity=-0.2, n_links=40, **EVIDENCE)
    found, local = fit(sales, model, spark, n_blocks=n_blocks), locally(sales, model)
    assert local.links_.nnz > 0
    assert local.peers_.nnz > 0
    assert learned_bytes(found) == learned_bytes(local)
    assert found.evidence_config_ == local.evidence_config_
    np.testing.assert_array_equal(found.predict_proba([3, 4], [5, 6]), local.predict_proba([3, 4], [5, 6]))


def test_popularity_alone(spark: Any, sales: Interactions) -> None:
    model = estimator(init="random", max_iter=1, popularity=-0.5)
    found, local = fit(sales, model, spark), locally(sales, model)
    assert found.links_.nnz == found.peers_.nnz == 0
    np.testing.assert_array_equal(found.predict_proba([3, 4], [5, 6]), local.predict_proba([3, 4], [5, 6]))


@pytest.mark.parametrize("name", ["links", "n_coclusters"])
def test_values_are_not_chosen_on_spark(spark: Any, sales: Interactions, name: str) -> None:
    with pytest.raises(ConfigError, match=f"expected a fixed value of {name} on Spark, got 'auto'"):
        fit(sales, estimator(**{name: "auto"}), spark)


def test_a_given_start_and_a_generator_of_seeds(spark: Any, sales: Interactions) -> None:
    rng = np.random.default_rng(0)
    start = tuple(rng.random((n, 12), dtype=np.float32) / 10 for n in sales.shape)
    given = estimator(init=start, max_iter=2)
    assert learned_bytes(fit(sales, given, spark)) == learned_bytes(locally(sales, given))
    drawn = [estimator(random_state=np.random.RandomState(3), init="random", max_iter=2) for _ in range(2)]
    assert learned_bytes(fit(sales, drawn[0], spark)) == learned_bytes(drawn[1].fit(sales))


@pytest.mark.parametrize("changes", [{"links": 1.0, "peers": 0.5}, {"init": "random"}], ids=["auto", "random"])
def test_names_that_are_not_in_order(spark: Any, sales: Interactions, changes: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    names = {"user_labels": rng.permutation(sales.n_users), "item_labels": rng.permutation(sales.n_items)}
    data, model = Interactions.from_matrix(sales.to_matrix(), **names), estimator(**changes)
    found = fit(data, model, spark, n_blocks=3)
    assert learned_bytes(found) == learned_bytes(locally(data, model))
    assert found.interactions_ is data


def test_a_device_is_refused(spark: Any, sales: Interactions) -> None:
    with pytest.raises(ConfigError, match="expected device to be cpu on Spark, got 'cuda'"):
        fit(sales, estimator(device="cuda"), spark)


@pytest.mark.parametrize("part", ["taste", "appeal"])
def test_attributes_are_refused(spark: Any, sales: Interactions, part: str) -> None:
    with pytest.raises(ConfigError, match=f"expected no {part} on Spark, which reads no attributes; leave it out"):
        fit(sales, estimator(**{part: 1.0}), spark)


@pytest.mark.data
@pytest.mark.parametrize("changes", [{}, {"relative": True, "regularization": 300.0}, {"bias": True}])
def test_the_factors_of_movielens_have_the_same_bytes(spark: Any, changes: dict[str, Any]) -> None:
    data = movielens(public_set("movielens-1m"))
    model = estimator(**{"n_coclusters": 50, "regularization": 30.0, "max_iter": 8} | changes)
    assert learned_bytes(fit(data, model, spark)) == learned_bytes(locally(data, model))


def test_sparse_memberships_were_tested(sales: Interactions) -> None:
    """The last two settings above are of no use if their memberships stay dense."""
    from ocular.solver.cpu import CpuBackend
    from ocular.solver.start.initial import initial_state

    config = estimator(init="overlap", n_coclusters=240, regularization=1.0).config()
    backend = CpuBackend(sales, config)
    backend.start(initial_state(sales, config))
    formats = []
    for _ in range(7):
        backend.sweep()
        formats.append(isinstance(backend.state().user_factors, np.ndarray))
    assert formats[0]
    assert not formats[-1]


# ------------------------------------------------------------------------------------------------------------- Parquet


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Purchases with everything that a reader has to put right: blanks, returns, unknown prices, repeated pairs."""
    folder, rng, n = tmp_path_factory.mktemp("sales"), np.random.default_rng(0), 6000
    table = pl.DataFrame({
        "who": [f" Client {u} " for u in rng.integers(0, 300, n)],
        "what": rng.integers(0, 80, n).astype(np.int32),
        "paid": pl.Series(rng.random(n).round(2) * 100).set(pl.Series(rng.random(n) < 0.1), None),
        "n": rng.integers(0, 4, n),
        "at": pl.from_epoch(pl.Series(rng.integers(1_500_000_000, 1_700_000_000, n))),
    })  # fmt: skip
    table[:2000].write_parquet(folder / "a.parquet")
    table[2000:].write_parquet(folder / "b.parquet")
    return folder


@pytest.fixture(scope="module")
def fitted(spark: Any, parquet: Path) -> OCuLaR:
    return fit(parquet, estimator(**EVIDENCE), spark, **COLUMNS)


def test_executors_read_parquet_by_the_rules_of_a_local_read(fitted: OCuLaR, parquet: Path) -> None:
    assert learned_bytes(fitted) == learned_bytes(locally(read(parquet, **COLUMNS), estimator(**EVIDENCE)))


def test_the_saved_model_is_that_of_one_machine(fitted: OCuLaR, parquet: Path, tmp_path: Path) -> None:
    local = locally(read(parquet, **COLUMNS), estimator(**EVIDENCE))
    fitted.save(tmp_path / "spark")
    assert learned_bytes(load(tmp_path / "spark")) == learned_bytes(local)
    assert "interactions_" not in fitted.__dict__  # streamed, not gathered
    local.save(tmp_path / "local")
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("spark", "local")]
    for name in ("parameters", "evidence", "fit", "data", "min_value", "calibration"):
        assert manifests[0][name] == manifests[1][name]
    ours, theirs = (load(tmp_path / name).interactions_ for name in ("spark", "local"))
    assert ours.user_labels.tolist() == theirs.user_labels.tolist()
    assert ours.item_labels.dtype == theirs.item_labels.dtype
    assert ours.item_labels.tolist() == theirs.item_labels.tolist()
    assert ours.fingerprint() == theirs.fingerprint()
    assert ours.purchases is not None
    assert theirs.purchases is not None
    for name in ("pair", "price", "quantity", "time"):
        columns = [getattr(interactions.purchases, name) for interactions in (ours, theirs)]
        assert columns[0].dtype == columns[1].dtype
        if name == "pair":
            np.testing.assert_array_equal(*columns)
        else:  # the order of repeated purchases is Spark's
            np.testing.assert_array_equal(*(np.sort(column) for column in columns))
    price = [load(tmp_path / name).explain(3, 5).price for name in ("spark", "local")]
    assert price[0] == price[1]


def test_the_purchases_are_gathered_when_something_reads_them(fitted: OCuLaR, parquet: Path) -> None:
    assert isinstance(fitted, SparkModel)
    local = read(parquet, **COLUMNS)
    assert fitted.interactions_.fingerprint() == local.fingerprint()
    assert fitted.recommend(0, N=3)[0].tolist() == locally(local, estimator(**EVIDENCE)).recommend(0, N=3)[0].tolist()


def test_a_start_on_executors_leaves_the_purchases_there(spark: Any, parquet: Path, monkeypatch: Any) -> None:
    def gather(_self: SparkInteractions) -> Interactions:
        raise AssertionError("all purchases came to the driver")

    monkeypatch.setattr(SparkInteractions, "gather", gather)
    for init in ("overlap", "seeds"):
        model = estimator(init=init, max_iter=2)
        found = fit(parquet, model, spark, client="who", product="what")
        assert learned_bytes(found) == learned_bytes(locally(read(parquet, client="who", product="what"), model))


def test_every_broadcast_is_destroyed(spark: Any, sales: Interactions, monkeypatch: Any) -> None:
    from pyspark import Broadcast

    made: list[Any] = []
    real = spark.sparkContext.broadcast
    monkeypatch.setattr(spark.sparkContext, "broadcast", lambda value: made.append(real(value)) or made[-1])
    destroyed: list[Any] = []
    destroy = Broadcast.destroy
    monkeypatch.setattr(Broadcast, "destroy", lambda self, *a: destroyed.append(self) or destroy(self, *a))
    fit(sales, estimator(max_iter=3, init="overlap", bias=True, **EVIDENCE), spark)
    # three passes of the start; each version of a side once, but for the last of the users, which nobody reads; then
    # the purchases once for links and once for peers
    assert len(made) == len(destroyed) == 3 + 2 + 2 * 3 - 1 + 2
    assert set(map(id, made)) == set(map(id, destroyed))


# ---------------------------------------------------------------------------------------------------- what may go wrong


def test_a_killed_executor_changes_nothing(spark: Any, sales: Interactions) -> None:
    killed: list[int] = []

    def kill(sweep: int, _objective: float) -> None:
        if sweep == 2:
            killed.append(executors(spark)[0])
            os.kill(killed[0], signal.SIGKILL)

    model = estimator(max_iter=5, init="overlap")
    found = fit(sales, model, spark, callback=kill)
    assert killed
    assert learned_bytes(found) == learned_bytes(locally(sales, model))


DRIVER = """
import os, signal, sys, warnings
from pathlib import Path
from ocular import OCuLaR
from ocular.synthetic.market import b2b
from ocular.solver.checkpoint import Checkpoint
from ocular.spark import connect, fit

def die(sweep, _objective):
    if sweep == 4:
        os.kill(os.getpid(), signal.SIGKILL)

warnings.simplefilter("ignore")
spark = connect("local[2]", spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=1", spark_ui_enabled="false")
model = OCuLaR(12, 5.0, random_state=0, max_iter=6, tol=0.0, init="overlap")
fit(b2b(1500, 150).interactions, model, spark, callback=die, checkpoint=Checkpoint(Path(sys.argv[1]), every_sweeps=1))
"""


def test_a_killed_driver_is_gone_on_from(spark: Any, sales: Interactions, tmp_path: Path) -> None:
    process = start_python(DRIVER, tmp_path / "fit.npz")
    _, told = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, told
    model = estimator(max_iter=6, init="overlap")
    sweeps: list[int] = []
    found = fit(
        sales, model, spark, callback=lambda sweep, _: sweeps.append(sweep), n_blocks=3,
        checkpoint=Checkpoint(tmp_path / "fit.npz", every_sweeps=1),
    )  # fmt: skip
    assert sweeps == [4, 5, 6]  # the third was saved, and the blocks are others now
    assert learned_bytes(found) == learned_bytes(locally(sales, model))


def test_a_checkpoint_of_other_purchases_is_refused(spark: Any, sales: Interactions, tmp_path: Path) -> None:
    from ocular.errors import ArtifactError

    model = estimator(max_iter=1, init="random")
    fit(sales, model, spark, checkpoint=tmp_path / "fit.npz")
    mask = np.ones(sales.nnz, dtype=bool)
    mask[0] = False
    with pytest.raises(ArtifactError, match="belongs to other purchases"):
        fit(sales.where(mask), model, spark, checkpoint=tmp_path / "fit.npz")


def test_blocks_share_the_work_and_none_is_empty() -> None:
    indptr = np.concatenate([[0], np.cumsum([1000, 0, 0, 1, 1, 1, 1, 996, 0, 0])])
    bounds = cut(indptr, 4)
    assert bounds[0] == 0
    assert bounds[-1] == 10
    assert (np.diff(bounds) > 0).all()
    assert cut(np.array([0, 5]), 8).tolist() == [0, 1]
    even = cut(np.arange(0, 1001, 10), 4)
    assert np.diff(even).tolist() == [25, 25, 25, 25]
