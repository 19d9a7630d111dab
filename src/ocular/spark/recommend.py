"""Recommendations for all clients on Spark: the items' side is broadcast once, each task gets its own clients."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from pyspark import Broadcast
from pyspark.sql import SparkSession

from ocular.batch import Batch, Clients
from ocular.data.interactions import Adjacency
from ocular.model import OCuLaR, load
from ocular.spark.blocks import cut, default_blocks
from ocular.spark.interactions import plain_arrow
from ocular.spark.session import place_of, plain_errors
from ocular.validation import check_whole

SPARK_TYPES = {
    pl.Int8: "tinyint", pl.Int16: "smallint", pl.Int32: "int", pl.Int64: "bigint", pl.UInt32: "bigint",
    pl.Float32: "float", pl.Float64: "double", pl.Boolean: "boolean", pl.String: "string",
}  # fmt: skip


def recommend(model: OCuLaR | str | Path, spark: SparkSession, output: str | Path, n: int = 10) -> int:
    """
    Write the n best products of every client, with their strongest reason, as a folder of Parquet files.

    The columns are those of `ocular.batch`. An older folder of that name is replaced. Return the number of
    recommendations.
    """
    model = model if isinstance(model, OCuLaR) else load(model)
    check_whole(n, "n", 1)
    context, interactions = spark.sparkContext, model.interactions_
    bounds = cut(interactions.by_user.indptr, default_blocks(context, interactions.nnz)).tolist()
    batch = Batch(model)
    types = batch.recommend(Clients.of(model, 0, 1), n).schema  # those of all clients' recommendations
    schema = ", ".join(f"`{name}` {SPARK_TYPES[dtype.base_type()]}" for name, dtype in types.items())
    parts = [_packed(Clients.of(model, *ends)) for ends in pairwise(bounds)]
    target = place_of(output)
    sent = context.broadcast(batch)
    try:
        with plain_errors():
            # a partition for each part, as createDataFrame would not promise
            blocks = spark.createDataFrame(context.parallelize([(part,) for part in parts], len(parts)), "part binary")
            recommendations = blocks.mapInArrow(partial(_recommend, sent, n), schema)
            recommendations.write.mode("overwrite").parquet(target)
            return spark.read.parquet(target).count()
    finally:
        sent.destroy()


def _packed(clients: Clients) -> bytes:
    buffer = io.BytesIO()
    text = clients.labels.dtype == object
    refused = clients.owned.refused
    more: dict[str, Any] = {} if refused is None else {"refused_ends": refused.indptr, "refused": refused.indices}
    np.savez(
        buffer, allow_pickle=False, **more, labels=clients.labels.astype(str) if text else clients.labels,
        data=clients.rows.data, indices=clients.rows.indices, ends=clients.rows.indptr,
        width=clients.rows.shape[1], bias=clients.bias, owned_ends=clients.owned.indptr, owned=clients.owned.indices,
    )  # fmt: skip
    return buffer.getvalue()


def _unpacked(part: bytes) -> Clients:
    with np.load(io.BytesIO(part), allow_pickle=False) as arrays:
        labels, width = arrays["labels"], int(arrays["width"])
        parts = arrays["data"], arrays["indices"], arrays["ends"]
        factors = sp.csr_array(parts, shape=(len(labels), width))
        refused = Adjacency(arrays["refused_ends"], arrays["refused"]) if "refused" in arrays else None
        owned = Adjacency(arrays["owned_ends"], arrays["owned"], refused=refused)
        return Clients(labels, factors, arrays["bias"], owned)


def _recommend(sent: Broadcast[Batch], n: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch["part"].to_pylist():
            yield from plain_arrow(sent.value.recommend(_unpacked(part), n)).to_batches()
