"""Recommendations for all clients on Spark: the items' side is broadcast once, each task gets its own clients."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from pyspark import Broadcast
from pyspark.sql import SparkSession

from ocular.batch import Batch, Clients
from ocular.data.interactions import Adjacency
from ocular.errors import ConfigError
from ocular.model import OCuLaR, load
from ocular.spark.blocks import cut, default_blocks
from ocular.spark.interactions import plain_arrow
from ocular.spark.session import place_of, plain_errors

FIELDS = {
    "rank": "int", "confidence": "float", "hit_rate": "double", "pattern": "int", "pattern_label": "string",
    "share": "double", "because": "string",
}  # fmt: skip


def recommend(model: OCuLaR | str | Path, spark: SparkSession, output: str | Path, n: int = 10) -> int:
    """
    The n best products of every client, with confidence and strongest reason, as a folder of Parquet files.

    The columns are those of `ocular recommend --all`. An older folder of that name is replaced. Returns the number of
    recommendations.
    """
    model = model if isinstance(model, OCuLaR) else load(model)
    if n < 1:
        raise ConfigError(f"expected at least 1 product for each client, got {n}")
    context, history = spark.sparkContext, model.interactions_
    bounds = cut(history.by_user.indptr, default_blocks(context, history.nnz)).tolist()
    batch = Batch(model)
    empty = batch.recommend(Clients.of(model, 0, 1), n)
    schema = ", ".join(f"`{name}` {FIELDS.get(name) or _label_type(empty[name])}" for name in empty.columns)
    parts = [_packed(Clients.of(model, *ends)) for ends in pairwise(bounds)]
    target = place_of(output)
    sent = context.broadcast(batch)
    try:
        with plain_errors():
            # a partition for each part, as createDataFrame would not promise
            blocks = spark.createDataFrame(context.parallelize([(part,) for part in parts], len(parts)), "part binary")
            found = blocks.mapInArrow(partial(_recommend, sent, n), schema)
            found.write.mode("overwrite").parquet(target)
            return spark.read.parquet(target).count()
    finally:
        sent.destroy()


def _label_type(labels: pl.Series) -> str:
    return "bigint" if labels.dtype == pl.Int64 else "string"


def _packed(clients: Clients) -> bytes:
    buffer = io.BytesIO()
    text = clients.labels.dtype == object
    np.savez(
        buffer, allow_pickle=False, labels=clients.labels.astype(str) if text else clients.labels,
        data=clients.factors.data, indices=clients.factors.indices, ends=clients.factors.indptr,
        width=clients.factors.shape[1], bias=clients.bias, owned_ends=clients.owned.indptr, owned=clients.owned.indices,
    )  # fmt: skip
    return buffer.getvalue()


def _unpacked(part: bytes) -> Clients:
    with np.load(io.BytesIO(part), allow_pickle=False) as arrays:
        labels, width = arrays["labels"], int(arrays["width"])
        parts = arrays["data"], arrays["indices"], arrays["ends"]
        factors = sp.csr_array(parts, shape=(len(labels), width))
        return Clients(labels, factors, arrays["bias"], Adjacency(arrays["owned_ends"], arrays["owned"]))


def _recommend(sent: Broadcast[Batch], n: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch["part"].to_pylist():
            yield from plain_arrow(sent.value.recommend(_unpacked(part), n)).to_batches()
