"""
Interactions on the executors: who bought what in blocks by user and by item, amounts where they were read.

Names become numbers by a join with the distinct names, which the driver sorts as a local read does, so that clients and
products have the same rows as there. The driver knows the names and how long each row is, nothing of what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import RDD, Broadcast, SparkContext, StorageLevel
from pyspark.sql import DataFrame, SparkSession

from ocular.artifact import Streamed
from ocular.data.interactions import Adjacency, Attributes, Interactions, Labels, Purchases, as_labels
from ocular.data.ordering import Ordering
from ocular.data.tables import AMOUNTS, CLIENT, PRODUCT, Columns, codes_of, no_purchase, require, to_purchases
from ocular.errors import ConfigError, Parameter
from ocular.solver.backend import weight_sums
from ocular.solver.pool import RowPool
from ocular.spark.blocks import Block, BlockRows, cut, default_blocks
from ocular.spark.session import place_of, plain_errors

ROWS_AT_ONCE = 1_000_000
DTYPES = {
    "pair": np.dtype("int64"), "price": np.dtype("float64"), "quantity": np.dtype("float64"),
    "time": np.dtype("datetime64[s]"),
}  # fmt: skip
UNKNOWN = {"price": float("nan"), "quantity": float("nan"), "time": np.iinfo(np.int64).min}


class SparkInteractions:
    """Interactions in blocks on the executors: what a start, a checkpoint and a saved model read."""

    def __init__(
        self,
        users: BlockRows,
        items: BlockRows,
        labels: tuple[Labels, Labels],
        purchases: Callable[[], RDD[dict[str, NDArray[Any]]]] | None = None,
        amounts: tuple[str, ...] = (),
        currency: str = "",
        local: Interactions | None = None,
    ) -> None:
        """`local` are the same interactions where the driver has them anyway."""
        self.users, self.items, self.currency = users, items, currency
        self.user_labels, self.item_labels = labels
        self.shape, self.nnz = (len(labels[0]), len(labels[1])), int(users.indptr[-1])
        self.user_names: Labels | None = None
        self.item_names: Labels | None = None
        self.user_attributes: Attributes = {}
        self.item_attributes: Attributes = {}
        self._purchases, self._amounts, self.local = purchases, amounts, local

    @classmethod
    def of(
        cls, source: Any, session: SparkSession, columns: dict[str, Any] | None = None, n_blocks: int | None = None
    ) -> SparkInteractions:
        """Return Interactions, a Spark frame or Parquet files in blocks; `columns` are those of `ocular.read`."""
        if n_blocks is not None and n_blocks < 1:
            raise ConfigError(f"expected at least 1 block, got {n_blocks}")
        if not isinstance(source, Interactions):
            return _of_frame(source, session, columns or {}, n_blocks)
        if columns:
            raise ConfigError(f"expected no columns with Interactions, got {', '.join(columns)}")
        blocks = n_blocks or default_blocks(session.sparkContext, source.nnz)
        ordered = Ordering.of(source).sort(source)
        users, items = (_sent(side, blocks, session.sparkContext) for side in (ordered.by_user, ordered.by_item))
        return cls(users, items, (source.user_labels, source.item_labels), local=source)

    @cached_property
    def _digest(self) -> int:
        return int(sum(done.result for done in self.users.run(_digest_block, self.shape[1]))) % 2**64

    @property
    def ordering(self) -> Ordering:
        """How the blocks' rows stand in `local`; a cluster's own are in the order of names."""
        return Ordering() if self.local is None else Ordering.of(self.local)

    def fingerprint(self) -> str:
        """Return a digest of who bought what that does not depend on the blocks; `Interactions` has another one."""
        known = f"spark-{self.shape[0]}-{self.shape[1]}-{self.nnz}-{self._digest:016x}"
        has_more = self.local is not None and (self.local.weights is not None or self.local.refusals is not None)
        return f"{known}-{self.gather().fingerprint()}" if has_more else known

    def baskets(self, users: NDArray[np.int64]) -> Adjacency:
        rows: dict[int, NDArray[np.int32]] = {}
        for done in self.users.run(_take_block, np.unique(users)):
            rows |= done.result
        baskets = [rows[user] for user in users.tolist()]
        return Adjacency(np.concatenate([[0], np.cumsum([len(row) for row in baskets])]), np.concatenate(baskets))

    def by_user(self) -> Adjacency:
        """Return who bought what on this machine, in the order of names, as the blocks have it."""
        return self.users.gather() if self.local is None else self.ordering.sort(self.local).by_user

    def by_item(self) -> Adjacency:
        """Return the other orientation of `by_user`."""
        return self.items.gather() if self.local is None else self.ordering.sort(self.local).by_item

    def gather(self) -> Interactions:
        """Return all interactions on this machine, in the order of names, as the blocks have them."""
        if self.local is not None:
            return self.ordering.sort(self.local)
        arrays = {
            name: values if isinstance(values, np.ndarray) else np.concatenate([*values.parts])
            for name, values in self.arrays().items()
        }
        purchases = None
        by_user = Adjacency(arrays.pop("indptr"), arrays.pop("indices"))
        if arrays:
            purchases = Purchases(**arrays, currency=self.currency)
        return Interactions(by_user, self.shape[1], self.user_labels, self.item_labels, purchases)

    def arrays(self) -> dict[str, NDArray[Any] | Streamed]:
        """Return the arrays of a saved model that hold the interactions; see `ocular.artifact`."""
        arrays: dict[str, NDArray[Any] | Streamed] = {
            "indptr": self.users.indptr,
            "indices": Streamed(np.int32, self.nnz, (block.positives.indices for block in self.users.stream())),
        }
        if self._purchases is not None:
            blocks = self._purchases().persist(StorageLevel.DISK_ONLY)  # each column is a pass over them
            with plain_errors():
                n = sum(blocks.map(_length).collect())
            for name in ("pair", *self._amounts):
                arrays[name] = Streamed(DTYPES[name], n, _stream(blocks, name))
        return arrays

    def release(self) -> None:
        """Let the executors drop the blocks; where they are needed again they are read again."""
        self.users.release()
        self.items.release()


def _length(block: dict[str, NDArray[Any]]) -> int:
    return len(block["pair"])


def _stream(blocks: RDD[dict[str, NDArray[Any]]], name: str) -> Iterator[NDArray[Any]]:
    with plain_errors():
        yield from blocks.map(itemgetter(name)).toLocalIterator()


# ---------------------------------------------------------------------------------------------------- from this machine


def _sent(positives: Adjacency, n_blocks: int, context: SparkContext) -> BlockRows:
    bounds = cut(positives.indptr, n_blocks)
    blocks = []
    for first, last in pairwise(bounds.tolist()):
        blocks.append(Block(first, positives.take(np.arange(first, last))))
    refused = None if positives.refused is None else positives.refused.indptr
    sums = None if positives.weights is None else weight_sums(positives)
    return BlockRows(context.parallelize(blocks, len(blocks)), positives.indptr, refused, sums)


# --------------------------------------------------------------------------------------------------------- from Parquet


def _of_frame(data: Any, spark: SparkSession, columns: dict[str, Any], n_blocks: int | None) -> SparkInteractions:
    chosen = Columns(**columns)
    if chosen.client_attributes or chosen.product_attributes:
        raise ConfigError("expected no attributes of clients or products on Spark, got some; leave them out")
    if chosen.client_name is not None or chosen.product_name is not None:
        given = Parameter("client_name"), " and ", Parameter("product_name")
        raise ConfigError("expected no display names on Spark, got a column of them; leave out ", *given)
    with plain_errors():
        frame, place = _opened(data, spark)
        require(chosen.names, frame.columns, place)
        amounts = tuple(part for part in AMOUNTS if getattr(chosen, part) is not None)
        purchases = _cleaned(frame.select(*(f"`{name}`" for name in chosen.names)), chosen, amounts).persist()
        clients, products = (_counted(purchases, name) for name in ("client", "product"))
        if clients.is_empty():
            raise no_purchase(chosen, frame.count())
        n_blocks = n_blocks or default_blocks(spark.sparkContext, int(clients["count"].sum()))
        table = Table(purchases, clients, products, n_blocks)
        users, items = table.rows("user"), table.rows("item")
    labels = as_labels(clients["name"].to_numpy()), as_labels(products["name"].to_numpy())
    read_amounts = partial(table.amounts, users.indptr, amounts) if amounts else None
    return SparkInteractions(users, items, labels, read_amounts, amounts, chosen.currency)


def _opened(data: Any, spark: SparkSession) -> tuple[DataFrame, str]:
    """Return the frame and its name in messages."""
    if not isinstance(data, str | Path):
        return data, "Spark frame"
    here = Path(data).expanduser().exists()
    return spark.read.parquet(place_of(data) if here else str(data)), Path(data).name


def _cleaned(frame: DataFrame, columns: Columns, amounts: tuple[str, ...]) -> DataFrame:
    """Return purchases by the rules of a local read: client, product, amounts; times in seconds since 1970."""
    types = dict(frame.dtypes)
    parts = [f"client {_id_type(types[columns.client])}", f"product {_id_type(types[columns.product])}"]
    parts += [f"{part} {'bigint' if part == 'time' else 'double'}" for part in amounts]
    return frame.mapInArrow(partial(_clean_batches, columns, amounts), ", ".join(parts))


def _id_type(spark_type: str) -> str:
    if spark_type in ("string", "tinyint", "smallint", "int", "bigint"):
        return spark_type
    return "bigint" if spark_type.startswith(("float", "double", "decimal")) else "string"


def _clean_batches(
    columns: Columns, amounts: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        purchases = to_purchases(pl.DataFrame(batch), columns, lambda _row: "a row")
        chosen = [pl.col(CLIENT).alias("client"), pl.col(PRODUCT).alias("product")]
        for part in amounts:
            amount = pl.col(AMOUNTS[part])
            chosen.append((amount.dt.epoch("s") if part == "time" else amount).alias(part))
        yield from plain_arrow(purchases.select(chosen)).to_batches()


def plain_arrow(frame: pl.DataFrame) -> pa.Table:
    """Return a table with the text type that Spark expects; polars has another one."""
    table = frame.to_arrow()
    fields = [pa.field(f.name, pa.string() if pa.types.is_large_string(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def _counted(purchases: DataFrame, name: str) -> pl.DataFrame:
    """Return the distinct names, sorted as a local read sorts them, and how often each occurs."""
    counts = purchases.groupBy(name).count().withColumnRenamed(name, "name")
    return pl.DataFrame(counts.toArrow()).sort("name")


class Table:
    """Purchases on the executors, whose names become rows in blocks."""

    def __init__(self, purchases: DataFrame, clients: pl.DataFrame, products: pl.DataFrame, n_blocks: int) -> None:
        self._purchases, self._n_blocks = purchases, n_blocks
        self._counts = {"user": clients["count"], "item": products["count"]}
        self._names = purchases.sparkSession.sparkContext.broadcast((clients["name"], products["name"]))

    def rows(self, own: str) -> BlockRows:
        """Return one side of the positives."""
        n_other, bounds = len(self._counts["item" if own == "user" else "user"]), self._bounds(own)
        blocks = self._pieces(own, ()).mapPartitionsWithIndex(partial(_to_block, bounds, n_other, own))
        rows = BlockRows(blocks, np.zeros(1, dtype=np.int64))
        degrees = [done.result for done in rows.run(block_degrees)]
        rows.indptr = np.concatenate([[0], np.cumsum(np.concatenate(degrees))])
        return rows

    def amounts(self, indptr: NDArray[np.int64], amounts: tuple[str, ...]) -> RDD[dict[str, NDArray[Any]]]:
        """Return every purchase, sorted by pair, in the blocks of the users."""
        starts = indptr[self._bounds("user")]
        return self._pieces("user", amounts).mapPartitionsWithIndex(partial(_to_amounts, starts, amounts))

    def _bounds(self, own: str) -> NDArray[np.int64]:
        return cut(np.concatenate([[0], np.cumsum(self._counts[own].to_numpy())]), self._n_blocks)

    def _pieces(self, own: str, amounts: tuple[str, ...]) -> RDD[Any]:
        """Return a partition per block of a side, with the purchases of its rows in no order."""
        bounds = self._bounds(own)
        fields = ", ".join(f"{name} binary" for name in ("user", "item", *amounts))
        pieces = self._purchases.mapInArrow(partial(_pieces, self._names, own, bounds, amounts), f"block int, {fields}")
        return pieces.rdd.map(_keyed).partitionBy(len(bounds) - 1, int)


def _pieces(
    names: Broadcast[tuple[pl.Series, pl.Series]], own: str, bounds: NDArray[np.int64], amounts: tuple[str, ...],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield purchases with rows in place of names, one piece per block of rows."""
    clients, products = names.value
    for frame in _larger(batches):
        columns = {"user": codes_of(frame["client"], clients), "item": codes_of(frame["product"], products)}
        columns |= {part: frame[part].fill_null(UNKNOWN[part]).to_numpy() for part in amounts}
        block = np.searchsorted(bounds, columns[own], side="right") - 1
        order = np.argsort(block, kind="stable")
        there, starts = np.unique(block[order], return_index=True)
        parts = {name: np.split(values[order], starts[1:]) for name, values in columns.items()}
        packed = {name: [part.tobytes() for part in pieces] for name, pieces in parts.items()}
        yield pa.RecordBatch.from_pydict({"block": there.astype(np.int32), **packed})


def _larger(batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield batches put together: small ones would leave tiny pieces in many blocks."""
    waiting: list[pl.DataFrame] = []
    for batch in batches:
        waiting.append(pl.DataFrame(batch))
        if sum(map(len, waiting)) >= ROWS_AT_ONCE:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _keyed(row: Any) -> tuple[int, dict[str, bytes]]:
    return row["block"], row.asDict()


def _column(pieces: list[dict[str, bytes]], name: str, dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.frombuffer(piece[name], dtype=dtype) for piece in pieces])


def _to_block(
    bounds: NDArray[np.int64], n_other: int, own: str, block: int, keyed: Iterator[tuple[int, dict[str, bytes]]]
) -> Iterator[Block]:
    pieces = [piece for _, piece in keyed]
    first, last = bounds[block], bounds[block + 1]
    rows, others = (_column(pieces, name, np.int32) for name in (own, "item" if own == "user" else "user"))
    distinct = np.unique((rows - first) * n_other + others)  # of repeated purchases one is kept
    ends = np.searchsorted(distinct, np.arange(last - first + 1) * n_other)
    yield Block(int(first), Adjacency(ends.astype(np.int64), (distinct % n_other).astype(np.int32)))


def _to_amounts(
    starts: NDArray[np.int64], amounts: tuple[str, ...], block: int, keyed: Iterator[tuple[int, dict[str, bytes]]]
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield purchases sorted by pair; repeated ones by their amounts, since Spark keeps no order of rows."""
    pieces = [piece for _, piece in keyed]
    columns = {name: _column(pieces, name, DTYPES[name]) for name in amounts}
    users, items = (_column(pieces, name, np.int32) for name in ("user", "item"))
    order = np.lexsort((*reversed(columns.values()), items, users))
    users, items = users[order], items[order]
    another = np.concatenate([[False], (users[1:] != users[:-1]) | (items[1:] != items[:-1])])
    yield {"pair": starts[block] + np.cumsum(another)} | {name: values[order] for name, values in columns.items()}


# -------------------------------------------------------------------------------------------------------- of each block


def block_degrees(block: Block, _pool: RowPool) -> NDArray[np.int64]:
    """Return how many positives each row of a block has."""
    return block.positives.degrees


def _take_block(block: Block, _pool: RowPool, users: NDArray[np.int64]) -> dict[int, NDArray[np.int32]]:
    here = users[(users >= block.first) & (users < block.first + len(block.positives))]
    return {user: block.positives[user - block.first] for user in here.tolist()}


def _digest_block(block: Block, _pool: RowPool, n_items: int) -> int:
    """Return the sum of a hash of each pair (the finalizer of splitmix64), which does not depend on their order."""
    rows = np.repeat(np.arange(len(block.positives), dtype=np.uint64), block.positives.degrees)
    code = (rows + np.uint64(block.first)) * np.uint64(n_items) + block.positives.indices.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        code = (code ^ (code >> np.uint64(shift))) * np.uint64(factor)
    return int((code ^ (code >> np.uint64(31))).sum(dtype=np.uint64))
