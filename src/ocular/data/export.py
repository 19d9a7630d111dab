"""Purchases as frames, of the kind that the caller works with, and as HTML for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ocular.data.interactions import Interactions

EAGER_KINDS = ("pandas", "modin", "cudf", "pyarrow")  # those that a result can be returned in


def to_native(table: pl.DataFrame, kind: str) -> Any:
    """Return a polars frame as a frame of another library; polars where that cannot be done eagerly."""
    if kind == "pandas":
        return table.to_pandas()
    if kind == "pyarrow":
        return table.to_arrow()
    if kind in EAGER_KINDS:
        return nw.from_arrow(table, backend=kind).to_native()  # type: ignore[arg-type]
    return table


def purchases_frame(interactions: Interactions) -> pl.DataFrame:
    """Return a row for each purchase, or for each pair where no amounts are known."""
    purchases = interactions.purchases
    pair = np.arange(interactions.nnz) if purchases is None else purchases.pair
    users, items = interactions.pair_users[pair], interactions.by_user.indices[pair]
    columns = [
        spread("client", interactions.user_labels, users),
        spread("product", interactions.item_labels, items),
    ]
    if interactions.user_names is not None:
        columns.append(spread("client_name", interactions.user_names, users))
    if interactions.item_names is not None:
        columns.append(spread("product_name", interactions.item_names, items))
    amounts = {} if purchases is None else purchases.columns
    for name, values in amounts.items():
        column = pl.Series(name, values.astype("datetime64[ms]") if name == "time" else values)
        columns.append(column if name == "time" else column.fill_nan(None))
    return pl.DataFrame(columns)


def spread(name: str, values: NDArray[Any], rows: NDArray[Any]) -> pl.Series:
    """Return the value of each row as a column."""
    return pl.Series(name, values.tolist()).gather(rows)


def facts_html(interactions: Interactions) -> str:
    """Return a small table for notebooks: how much there is, and from when to when."""
    purchases = interactions.purchases
    facts = {
        "clients": f"{interactions.n_users:,}",
        "products": f"{interactions.n_items:,}",
        "pairs": f"{interactions.nnz:,}",
    }
    if purchases is not None:
        facts["purchases"] = f"{len(purchases):,}"
        if purchases.time is not None and not np.isnat(purchases.time).all():
            days = purchases.time[~np.isnat(purchases.time)].astype("datetime64[D]")
            facts["dates"] = f"{days.min()} to {days.max()}"
        if (payments := interactions.payments) is not None and len(payments.prices):
            facts["prices"] = f"{interactions.currency}{payments.prices.min():,.2f} to {payments.prices.max():,.2f}"
    for side, attributes in (("client", interactions.user_attributes), ("product", interactions.item_attributes)):
        if attributes:
            facts[f"{side} attributes"] = ", ".join(attributes)
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return f"<table><caption>Interactions</caption>{rows}</table>"
