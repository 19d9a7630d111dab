"""
The fit on Spark: blocks of R stay on the executors, by user and by item, and only memberships travel.

Every version of a side is broadcast once. The other side's half-sweep reads it as neighbours, its own half-sweep then
begins from it, and after that it is destroyed. The driver gathers the new rows; sums and the objective are taken there,
in the same order as on one machine, so that the factors have the same bytes.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from ocular.artifact import SavedInteractions
from ocular.data.interactions import Interactions
from ocular.errors import ConfigError, DataError, Parameter
from ocular.evidence import EvidenceConfig
from ocular.model import OCuLaR
from ocular.model.fitting import FittedEvidence, fit_evidence, with_weights
from ocular.solver import kernels, sparse_kernels
from ocular.solver.backend import SPARSE, BaseBackend, csr_parts, csr_rows, dense
from ocular.solver.checkpoint import Checkpoint
from ocular.solver.config import Factors, FitConfig, State, row_extras
from ocular.solver.cpu import step_rows, step_sparse_rows
from ocular.solver.devices import check_no_attributes
from ocular.solver.fit import Callback, FitResult, run_fit
from ocular.solver.pool import RowPool
from ocular.solver.progress import Progress
from ocular.solver.start.given import ordered_start
from ocular.solver.start.initial import initial_state
from ocular.spark.blocks import Block, BlockRows, joined
from ocular.spark.interactions import SparkInteractions
from ocular.spark.links import fit_peers, fit_product_links

MAX_SPARSE = 0.4  # of the entries are not zero: a sparse one takes twice the space


def fit(
    data: Interactions | str | Path | DataFrame,
    model: OCuLaR,
    spark: SparkSession,
    *,
    n_blocks: int | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
    callback: Callback | None = None,
    **columns: Any,
) -> OCuLaR:
    """
    Return a fitted model with the parameters of `model`: factors, links and peers of `model.fit` bit for bit.

    `data` is a place of Parquet files that the executors can read, a Spark frame, or Interactions. For the first two
    `columns` are those of `ocular.read`: client="company", product="sku", price="amount". Nothing of the size of the
    purchases comes to the driver but, while links or peers are fitted, who bought what (4 bytes per pair): `save`
    streams purchases into the model's folder, and `interactions_` is gathered only when something reads it. `model`
    itself is left as it is.

    `checkpoint` belongs on a disk that the next driver reaches too. `n_blocks` of each side are two per core by
    default.
    """
    check_on_spark(model)
    if isinstance(data, Interactions):
        data = with_weights(data, model.config())
    interactions = SparkInteractions.of(data, spark, columns, n_blocks)
    return fit_interactions(interactions, model, spark, checkpoint=checkpoint, callback=callback)


def fit_interactions(
    interactions: SparkInteractions,
    model: OCuLaR,
    spark: SparkSession,
    *,
    checkpoint: str | Path | Checkpoint | None = None,
    callback: Callback | None = None,
) -> OCuLaR:
    """Do what `fit` does with interactions that are on the executors already, which then release them."""
    check_on_spark(model)
    if interactions.nnz == 0:
        n_users, n_items = interactions.shape
        raise DataError(f"expected at least one positive, got none in {n_users} × {n_items}")
    config, evidence = model.config(), model.evidence_request().settled(EvidenceConfig())
    check_weights(interactions, config)
    if isinstance(model.random_state, np.random.RandomState):
        config = replace(config, seed=int(model.random_state.randint(2**31)))
    ordering = interactions.ordering
    given = None if isinstance(model.init, str) else ordered_start(model.init, ordering)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(Path(checkpoint))
    try:
        with (
            closing(SparkBackend(interactions, config, spark)) as backend,
            Progress(config.max_iter, show=model.verbose, callback=callback) as report,
        ):
            result = run_fit(
                interactions,
                config,
                backend,
                lambda: initial_state(interactions, config, given),
                callback=report,
                checkpoint=checkpoint,
            )
        context = spark.sparkContext
        fitted = fit_evidence(
            evidence,
            {
                "links": lambda e: fit_product_links(interactions, e, config, context),
                "peers": lambda e: fit_peers(interactions, e, config, context),
                "taste": lambda _: sp.csr_array((interactions.shape[0], 0), dtype=np.float32),
                "appeal": lambda _: sp.csr_array((0, interactions.shape[1]), dtype=np.float32),
            },
        )
    finally:
        interactions.release()
    result = replace(result, state=result.state.restored(ordering))
    return SparkModel(**model.get_params()).learn(interactions, result, config, fitted.restored(ordering))


def check_on_spark(model: OCuLaR) -> None:
    """Refuse parameters that only a fit on one machine takes."""
    if model.device != "cpu":
        raise ConfigError(f"expected device to be cpu on Spark, got {model.device!r}; leave it out")
    if model.trend not in (None, 0):  # rankings would need the dates of all purchases
        raise ConfigError("expected no ", Parameter("trend"), f" on Spark, got {model.trend}; leave it out")
    check_no_attributes(model.config(), "Spark")
    for name, value in model.get_params().items():
        if name not in ("init", "validation") and isinstance(value, str) and value == "auto":
            raise ConfigError(
                "expected a fixed value of ",
                Parameter(name),
                " on Spark, got 'auto', which only a fit on one machine chooses; give a value",
            )
    for name in ("taste", "appeal"):
        if getattr(model, name):
            raise ConfigError("expected no ", Parameter(name), " on Spark, which reads no attributes; leave it out")


def check_weights(interactions: SparkInteractions, config: FitConfig) -> None:
    """Refuse weights where the executors have read the purchases: ages and medians need all of them in one place."""
    asked = next((name for name in ("half_life", "weights") if getattr(config, name) is not None), None)
    if interactions.local is None and asked is not None:
        given = Parameter(asked), " for purchases that executors read, got one; pass Interactions, or leave it out"
        raise ConfigError("expected no ", *given)


class SparkModel(OCuLaR):
    """A model whose purchases are on the cluster; they are gathered when something reads them."""

    spark_interactions: SparkInteractions

    def learn(
        self, interactions: SparkInteractions, result: FitResult, config: FitConfig, evidence: FittedEvidence
    ) -> SparkModel:
        """Take over the outcome of a fit on Spark."""
        self.spark_interactions = interactions
        self.min_value_, self.n_features_in_ = self.min_value, interactions.shape[1]
        self._finish(result, config, evidence)
        return self

    @cached_property
    def interactions_(self) -> Interactions:  # type: ignore[override]
        local = self.spark_interactions.local
        return self.spark_interactions.gather() if local is None else local

    def _saved_interactions(self) -> SavedInteractions:
        local = self.spark_interactions.local
        return self.spark_interactions if local is None else super()._saved_interactions()


@dataclass(frozen=True)
class HalfSweep:
    """The seconds of a half-sweep, in total and by part."""

    side: str
    total: float
    broadcast: float  # handing memberships over to Spark
    job: float  # from the first task to the last result
    kernels: tuple[float, ...]  # of each task
    gather: float  # putting the new rows together


class Side:
    """A version of one side as it travels; a worker makes one table of it for all of its tasks."""

    def __init__(
        self, factors: Factors, is_dense: bool, steps: NDArray[np.float32], weights: NDArray[np.float32]
    ) -> None:
        """`is_dense` says which kernel steps it, however it travels."""
        self.factors, self.is_dense, self.steps, self.weights = factors, is_dense, steps, weights

    @cached_property
    def table(self) -> NDArray[np.float32]:
        return dense(self.factors)


class SparkBackend(BaseBackend):
    """The row steps of a sweep as tasks."""

    def __init__(
        self, interactions: SparkInteractions, config: FitConfig, spark: SparkSession, *, sparse: float = SPARSE
    ) -> None:
        super().__init__(interactions.users.ends, interactions.items.ends, config, sparse=sparse)
        self._users, self._items, self._context = interactions.users, interactions.items, spark.sparkContext
        self._sent: dict[str, Broadcast[Side]] = {}
        self._received: dict[str, Factors] = {}
        self.half_sweeps: list[HalfSweep] = []

    def start(self, state: State) -> None:
        super().start(state)
        self._forget()

    def close(self) -> None:
        self._forget()
        super().close()

    def _forget(self, *sides: str) -> None:
        if not sides:
            self._received.clear()
        for side in sides or tuple(self._sent):
            if side in self._sent:
                self._sent.pop(side).destroy()

    def _choose_format(self) -> None:
        was = isinstance(self._state.user_factors, np.ndarray)
        super()._choose_format()
        if was != isinstance(self._state.user_factors, np.ndarray):
            self._forget()

    def _side(self, side: str) -> Broadcast[Side]:
        """Return the present version of a side, broadcast once."""
        if side not in self._sent:
            s = self._state
            factors, steps = (s.user_factors, s.user_steps) if side == "user" else (s.item_factors, s.item_steps)
            weights = self._user_weights if side == "user" else self._item_weights
            received = self._received.pop(side, None)  # as the blocks have sent it, if they have
            sent = Side(
                packed(factors) if received is None else received, isinstance(factors, np.ndarray), steps, weights
            )
            self._sent[side] = self._context.broadcast(sent)
        return self._sent[side]

    def _step_items(self, user_sum: NDArray[np.float32]) -> None:
        s = self._state
        s.item_factors, s.item_steps, self._item_values = self._step("item", "user", self._items, user_sum)

    def _step_users(self, item_sum: NDArray[np.float32]) -> None:
        s = self._state
        s.user_factors, s.user_steps, self._user_values = self._step("user", "item", self._users, item_sum)

    def _step(
        self, side: str, other: str, rows: BlockRows, other_sum: NDArray[np.float32]
    ) -> tuple[Factors, NDArray[np.float32], NDArray[np.float64]]:
        begun = time.perf_counter()
        sent = self._side(side), self._side(other)
        broadcast = time.perf_counter()
        config = replace(self._config, n_threads=1)
        done = rows.run(step_block, *sent, config, side, other_sum, self._state.bias)
        ran = time.perf_counter()
        was_dense = sent[0].value.is_dense
        self._forget(side)
        parts = [d.result.factors for d in done]
        factors = unpacked(parts) if was_dense else joined(parts)
        if was_dense and not any(isinstance(part, np.ndarray) for part in parts):
            self._received[side] = joined(parts)
        steps, values = (np.concatenate([getattr(d.result, name) for d in done]) for name in ("steps", "values"))
        ended = time.perf_counter()
        kernel = tuple(d.result.kernel for d in done)
        self.half_sweeps.append(HalfSweep(side, ended - begun, broadcast - begun, ran - broadcast, kernel, ended - ran))
        return factors, steps, values

    def _positive_weights(self) -> NDArray[np.float64]:
        return self._users.weight_sums

    def _inverse_probabilities(self) -> NDArray[np.float64]:
        background = self._config.background + self._state.bias
        done = self._users.run(inverse_block, self._side("user"), self._side("item"), background)
        return np.concatenate([d.result for d in done])


class Stepped(NamedTuple):
    """New rows of a block."""

    factors: Factors
    steps: NDArray[np.float32]
    values: NDArray[np.float64]
    kernel: float  # seconds


def step_block(
    block: Block, pool: RowPool, own: Side, other: Side, config: FitConfig, side: str, other_sum: NDArray[np.float32],
    bias: float,
) -> Stepped:  # fmt: skip
    """Step each row of the block, as `CpuBackend` does for all rows."""
    positives, here = block.positives, slice(block.first, block.first + len(block.positives))
    steps, values = own.steps[here].copy(), np.empty(len(positives))
    problem = other_sum, positives, own.weights[here], other.weights, steps, values
    if own.is_dense:
        rows, table = dense(own.factors[here]), other.table
        begun = time.perf_counter()
        step_rows(pool, config, rows, table, *problem, bias, bias_column=config.n_coclusters + (side == "item"))
        took = time.perf_counter() - begun
        return Stepped(packed(rows), steps, values, took)
    rows, z = own.factors[here], np.empty(len(positives.indices), dtype=np.float32)
    begun = time.perf_counter()
    pool.run(
        sparse_kernels.own_affinities, positives, *csr_parts(rows), *csr_parts(other.factors), rows.shape[1],
        positives.indptr, positives.indices, z,
    )  # fmt: skip
    rows = step_sparse_rows(pool, config, rows, other.factors, z, *problem)
    return Stepped(rows, steps, values, time.perf_counter() - begun)


def inverse_block(block: Block, pool: RowPool, users: Side, items: Side, background: float) -> NDArray[np.float64]:
    """Return Σ w / p over the positives of each user of the block."""
    positives, here = block.positives, slice(block.first, block.first + len(block.positives))
    inverse = np.empty(len(positives))
    pool.run(
        kernels.sum_inverse_probabilities, positives, users.table[here], items.table, positives.indptr,
        positives.indices, row_extras(positives, 1.0)[0], users.weights[here], items.weights,
        np.float32(background), inverse,
    )  # fmt: skip
    return inverse


def packed(factors: Factors) -> Factors:
    """Return the factors as they travel: without their zeros where most entries are zero."""
    if not isinstance(factors, np.ndarray):
        return factors
    n_rows = len(factors)
    sizes = np.empty(n_rows, dtype=np.int64)
    kernels.count_memberships(factors, sizes, 0, n_rows)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    if ends[-1] >= MAX_SPARSE * factors.size:
        return factors
    columns, strengths = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1], dtype=np.float32)
    kernels.take_memberships(factors, ends, columns, strengths, 0, n_rows)
    return csr_rows(strengths, columns, ends, factors.shape[1])


def unpacked(parts: list[Factors]) -> NDArray[np.float32]:
    """Return the dense table of all blocks."""
    table = np.empty((sum(part.shape[0] for part in parts), parts[0].shape[1]), dtype=np.float32)
    first = 0
    for part in parts:
        last = first + part.shape[0]
        table[first:last] = part if isinstance(part, np.ndarray) else part.toarray()
        first = last
    return table
