"""
A purchase history on the executors: who bought what in blocks by user and by item, amounts where they were read.

Names become numbers by a join with the distinct names, which the driver sorts as a local read does, so that clients and
products have the same rows as there. The driver knows the names and how long each row is, nothing of what is in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from ocular.artifact import Streamed
from ocular.data.interactions import Adjacency, Attributes, Interactions, Labels, Purchases, as_labels
from ocular.data.tables import AMOUNTS, CLIENT, PRODUCT, Columns, no_purchase, require, to_purchases
from ocular.errors import ConfigError
from ocular.solver.pool import RowPool
from ocular.spark.blocks import Block, BlockRows, cut, default_blocks
from ocular.spark.session import place_of, plain_errors

NOT_KNOWN = np.iinfo(np.int64).min  # of a time
DTYPES = {"price": np.dtype("float64"), "quantity": np.dtype("float64"), "time": np.dtype("datetime64[s]")}


class SparkHistory:
    """As `Positives` a start needs it, as `Data` a checkpoint, as `History` a saved model."""

    def __init__(
        self,
        users: BlockRows,
        items: BlockRows,
        labels: tuple[Labels, Labels],
        purchases: DataFrame | None = None,
        amounts: tuple[str, ...] = (),
        currency: str = "",
        local: Interactions | None = None,
    ) -> None:
        """local: the same history where the driver has it anyway."""
        self.users, self.items, self.currency = users, items, currency
        self.user_labels, self.item_labels = labels
        self.shape, self.nnz = (len(labels[0]), len(labels[1])), int(users.indptr[-1])
        self.user_attributes: Attributes = {}
        self.item_attributes: Attributes = {}
        self._purchases, self._amounts, self.local = purchases, amounts, local

    @classmethod
    def of(
        cls, data: Any, spark: SparkSession, columns: dict[str, Any] | None = None, n_blocks: int | None = None
    ) -> SparkHistory:
        """data: Interactions, a frame of Spark, or the place of Parquet files, with columns as `ocular.read` has."""
        if n_blocks is not None and n_blocks < 1:
            raise ConfigError(f"expected at least 1 block, got {n_blocks}")
        if not isinstance(data, Interactions):
            return _of_frame(data, spark, columns or {}, n_blocks)
        if columns:
            raise ConfigError(f"expected no columns with Interactions, got {', '.join(columns)}")
        blocks = n_blocks or default_blocks(spark.sparkContext, data.nnz)
        users, items = (_sent(side, blocks, spark.sparkContext) for side in (data.by_user, data.by_item))
        return cls(users, items, (data.user_labels, data.item_labels), local=data)

    @cached_property
    def _digest(self) -> int:
        return int(sum(done.result for done in self.users.run(_digest_block, self.shape[1]))) % 2**64

    def fingerprint(self) -> str:
        """Of who bought what, whatever the blocks; not that of `Interactions`, which needs them in their order."""
        return f"spark-{self.shape[0]}-{self.shape[1]}-{self.nnz}-{self._digest:016x}"

    def baskets(self, users: NDArray[np.int64]) -> Adjacency:
        wanted = np.unique(users)
        rows: dict[int, NDArray[np.int32]] = {}
        for done in self.users.run(_take_block, wanted):
            rows |= done.result
        found = [rows[user] for user in users.tolist()]
        return Adjacency(np.concatenate([[0], np.cumsum([len(row) for row in found])]), np.concatenate(found))

    def gather(self) -> Interactions:
        """The whole history on this machine."""
        if self.local is not None:
            return self.local
        arrays = {
            name: values if isinstance(values, np.ndarray) else np.concatenate([*values.parts])
            for name, values in self.arrays().items()
        }
        purchases = None
        if "purchases_pair" in arrays:
            amounts = {name: arrays[f"purchases_{name}"] for name in self._amounts}
            purchases = Purchases(arrays["purchases_pair"], **amounts, currency=self.currency)
        by_user = Adjacency(arrays["history_indptr"], arrays["history_indices"])
        return Interactions(by_user, self.shape[1], self.user_labels, self.item_labels, purchases)

    def arrays(self) -> dict[str, NDArray[Any] | Streamed]:
        arrays: dict[str, NDArray[Any] | Streamed] = {
            "history_indptr": self.users.indptr,
            "history_indices": Streamed(np.int32, self.nnz, (block.positives.indices for block in self.users.stream())),
        }
        if self._purchases is not None:
            self._purchases.persist()  # each column is a pass over them
            with plain_errors():
                n = sum(row["n"] for row in self._purchases.selectExpr("length(pair) AS n").collect()) // 8
            for name, dtype in (("pair", np.dtype("int64")), *((name, DTYPES[name]) for name in self._amounts)):
                arrays[f"purchases_{name}"] = Streamed(dtype, n, self._stream(name))
        return arrays

    def _stream(self, name: str) -> Iterator[NDArray[Any]]:
        """A column of the purchases, block by block."""
        assert self._purchases is not None  # noqa: S101  arrays() asks only then
        with plain_errors():
            for row in self._purchases.select("block", name).orderBy("block").toLocalIterator():
                dtype = np.dtype("int64") if name == "pair" else DTYPES[name]
                yield np.frombuffer(row[name], dtype=dtype)

    def release(self) -> None:
        """The executors forget what they hold; where it is asked for again it is read again."""
        self.users.release()
        self.items.release()


# ---------------------------------------------------------------------------------------------------- from this machine


def _sent(positives: Adjacency, n_blocks: int, context: SparkContext) -> BlockRows:
    bounds = cut(positives.indptr, n_blocks)
    blocks = []
    for first, last in pairwise(bounds.tolist()):
        start, end = positives.indptr[first], positives.indptr[last]
        rows = Adjacency(positives.indptr[first : last + 1] - start, positives.indices[start:end].copy())
        blocks.append(Block(first, rows))
    return BlockRows(context.parallelize(blocks, len(blocks)), positives.indptr)


# --------------------------------------------------------------------------------------------------------- from Parquet


def _of_frame(data: Any, spark: SparkSession, columns: dict[str, Any], n_blocks: int | None) -> SparkHistory:
    chosen = Columns(**columns)
    if chosen.client_attributes or chosen.product_attributes:
        raise ConfigError("expected no attributes of clients or products on Spark, got some; leave them out")
    with plain_errors():
        frame, place = _opened(data, spark)
        require(chosen.names, frame.columns, place)
        amounts = tuple(part for part in AMOUNTS if getattr(chosen, part) is not None)
        purchases = _cleaned(frame.select(*(f"`{name}`" for name in chosen.names)), chosen, amounts).persist()
        labels = [_distinct(purchases, name) for name in ("client", "product")]
        if not len(labels[0]):
            raise no_purchase(chosen, frame.count())
        for name, number, known in (("client", "user", labels[0]), ("product", "item", labels[1])):
            numbers = pl.DataFrame({name: known, number: np.arange(len(known), dtype=np.int32)})
            purchases = purchases.join(spark.createDataFrame(plain_arrow(numbers)), name).drop(name)
        pairs = purchases.select("user", "item").distinct().persist()
        n_blocks = n_blocks or default_blocks(spark.sparkContext, pairs.count())
        users = _by(pairs, "user", "item", len(labels[0]), n_blocks)
        items = _by(pairs, "item", "user", len(labels[1]), n_blocks)
        pairs.unpersist()
    names = as_labels(labels[0].to_numpy()), as_labels(labels[1].to_numpy())
    if not amounts:
        return SparkHistory(users, items, names)
    bounds = cut(users.indptr, n_blocks)
    schema = f"block int, pair binary, {', '.join(f'{part} binary' for part in amounts)}"
    starts = users.indptr[bounds]
    kept = _in_blocks(purchases, "user", bounds).applyInArrow(lambda table: _to_amounts(starts, amounts, table), schema)
    return SparkHistory(users, items, names, kept, amounts, chosen.currency)


def _opened(data: Any, spark: SparkSession) -> tuple[DataFrame, str]:
    """The frame and what to call it."""
    if not isinstance(data, str | Path):
        return data, "Spark frame"
    here = Path(data).expanduser().exists()
    return spark.read.parquet(place_of(data) if here else str(data)), Path(data).name


def _cleaned(frame: DataFrame, columns: Columns, amounts: tuple[str, ...]) -> DataFrame:
    """Purchases by the rules of a local read: client, product and amounts; times in seconds since 1970."""
    types = dict(frame.dtypes)
    parts = [f"client {_id_type(types[columns.client])}", f"product {_id_type(types[columns.product])}"]
    parts += [f"{part} {'bigint' if part == 'time' else 'double'}" for part in amounts]
    return frame.mapInArrow(partial(_clean_batches, columns, amounts), ", ".join(parts))


def _id_type(spark_type: str) -> str:
    return (
        spark_type
        if spark_type in ("string", "tinyint", "smallint", "int", "bigint")
        else ("bigint" if spark_type.startswith(("float", "double", "decimal")) else "string")
    )


def _clean_batches(
    columns: Columns, amounts: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        frame = pl.DataFrame(batch)
        purchases = to_purchases(frame, columns, lambda _row: "a row")
        chosen = [pl.col(CLIENT).alias("client"), pl.col(PRODUCT).alias("product")]
        for part in amounts:
            amount = pl.col(AMOUNTS[part])
            chosen.append((amount.dt.epoch("s") if part == "time" else amount).alias(part))
        yield from plain_arrow(purchases.select(chosen)).to_batches()


def plain_arrow(frame: pl.DataFrame) -> pa.Table:
    """With the text type that Spark expects; polars has another one."""
    table = frame.to_arrow()
    fields = [pa.field(f.name, pa.string() if pa.types.is_large_string(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def _distinct(purchases: DataFrame, name: str) -> pl.Series:
    return pl.DataFrame(purchases.select(name).distinct().toArrow())[name].sort()


def _by(pairs: DataFrame, own: str, other: str, n_rows: int, n_blocks: int) -> BlockRows:
    """The pairs as blocks of rows of one side."""
    counted = pl.DataFrame(pairs.groupBy(own).count().toArrow())
    degrees = np.zeros(n_rows, dtype=np.int64)
    degrees[counted[own].to_numpy()] = counted["count"].to_numpy()
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    bounds = cut(indptr, n_blocks)
    grouped = _in_blocks(pairs.select(own, other), own, bounds)
    blocks = grouped.applyInArrow(
        lambda table: _to_block(bounds, own, other, table), "block int, indptr binary, indices binary"
    )
    keyed = blocks.rdd.map(_opened_block).partitionBy(len(bounds) - 1, int)
    rows = BlockRows(keyed.values(), indptr)
    rows.run(_nothing)  # now, while the pairs are at hand
    return rows


def _in_blocks(frame: DataFrame, own: str, bounds: NDArray[np.int64]) -> Any:
    fields = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)
    return frame.mapInArrow(partial(_with_block, bounds, own), f"block int, {fields}").groupBy("block")


def _with_block(bounds: NDArray[np.int64], own: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        number = np.searchsorted(bounds, batch[own].to_numpy(), side="right") - 1
        columns = [pa.array(number.astype(np.int32)), *batch.columns]
        yield pa.RecordBatch.from_arrays(columns, names=["block", *batch.schema.names])


def _to_block(bounds: NDArray[np.int64], own: str, other: str, table: pa.Table) -> pa.Table:
    block = table["block"][0].as_py()
    rows, neighbours = table[own].to_numpy() - bounds[block], table[other].to_numpy()
    order = np.lexsort((neighbours, rows))
    degrees = np.bincount(rows, minlength=bounds[block + 1] - bounds[block])
    indptr, indices = np.concatenate([[0], np.cumsum(degrees)]), neighbours[order].astype(np.int32)
    first = np.concatenate([bounds[block : block + 1], indptr])  # the row it begins with, and its ends
    columns = {"block": pa.array([block], pa.int32())}
    return pa.table(columns | {"indptr": [first.astype(np.int64).tobytes()], "indices": [indices.tobytes()]})


def _opened_block(row: Any) -> tuple[int, Block]:
    ends = np.frombuffer(row["indptr"], dtype=np.int64).copy()
    indices = np.frombuffer(row["indices"], dtype=np.int32).copy()  # kernels are compiled for arrays one may write to
    return row["block"], Block(int(ends[0]), Adjacency(ends[1:].copy(), indices))


def _to_amounts(starts: NDArray[np.int64], amounts: tuple[str, ...], table: pa.Table) -> pa.Table:
    """The purchases of a block, sorted by pair; repeated ones by their amounts, since Spark keeps no order of rows."""
    frame = pl.DataFrame(table).sort("user", "item", *amounts, nulls_last=True)
    pair = starts[frame["block"][0]] + frame.select(pl.struct("user", "item").rle_id()).to_series().to_numpy()
    columns: dict[str, Any] = {
        "block": pa.array([frame["block"][0]], pa.int32()),
        "pair": [pair.astype(np.int64).tobytes()],
    }
    for part in amounts:
        values = frame[part].fill_null(NOT_KNOWN if part == "time" else float("nan")).to_numpy()
        columns[part] = [values.tobytes()]
    return pa.table(columns)


# -------------------------------------------------------------------------------------------------------- of each block


def _nothing(_block: Block, _pool: RowPool) -> None: ...


def _take_block(block: Block, _pool: RowPool, wanted: NDArray[np.int64]) -> dict[int, NDArray[np.int32]]:
    here = wanted[(wanted >= block.first) & (wanted < block.first + len(block.positives))]
    return {user: block.positives[user - block.first] for user in here.tolist()}


def _digest_block(block: Block, _pool: RowPool, n_items: int) -> int:
    """The sum of a mixed number for each pair (the finalizer of splitmix64), which does not depend on their order."""
    rows = np.repeat(np.arange(len(block.positives), dtype=np.uint64), block.positives.degrees)
    code = (rows + np.uint64(block.first)) * np.uint64(n_items) + block.positives.indices.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        code = (code ^ (code >> np.uint64(shift))) * np.uint64(factor)
    return int((code ^ (code >> np.uint64(31))).sum(dtype=np.uint64))
