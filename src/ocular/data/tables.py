"""How a table of purchases becomes Interactions: the same rules wherever the table came from."""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ocular.data.interactions import Interactions
from ocular.data.values import Formats, Locate, clean, is_text, refuse, to_ids, to_numbers, to_times
from ocular.errors import ConfigError, DataError, Parameter, UnknownNameError

_log = logging.getLogger("ocular")

# columns that are added to those of the source, whose names are the user's
CLIENT, PRODUCT = "ocular:client", "ocular:product"
AMOUNTS = {part: f"ocular:{part}" for part in ("price", "quantity", "time")}

MAX_CURRENCY = 8  # characters
ROUNDING = 1e-9  # 0.1 + 0.2 - 0.3 is not 0 in floats
RATINGS_REMEDY = ["pass ", Parameter("min_value"), " to turn ratings into positives"]  # where values are not 0 and 1


@dataclass(frozen=True)
class Columns:
    """Which column plays which part, how its values are written, and which rows count."""

    client: str
    product: str
    price: str | None = None
    quantity: str | None = None
    time: str | None = None
    value: str | None = None
    min_value: float | None = None
    client_attributes: Sequence[str] = ()
    product_attributes: Sequence[str] = ()
    drop_missing: bool = False
    currency: str = ""
    client_name: str | None = None
    product_name: str | None = None
    keep_returned: bool = False
    decimal: str = "."
    thousands: str | None = None
    date_format: str | None = None

    def __post_init__(self) -> None:
        for side in ("client_attributes", "product_attributes"):
            given = getattr(self, side)
            object.__setattr__(self, side, (given,) if isinstance(given, str) else tuple(given))
        if self.client == self.product:
            raise ConfigError(f"expected two columns, one of clients and one of products, got {self.client!r} twice")
        if self.currency and (
            len(self.currency) > MAX_CURRENCY or not self.currency.isprintable() or self.price is None
        ):
            got = "no price column" if self.price is None else repr(self.currency)
            raise ConfigError(
                f"expected a currency of at most {MAX_CURRENCY} characters, such as £ or EUR, with a price, got {got}"
            )
        if self.min_value is not None and self.value is None:
            given = Parameter("min_value", f"{self.min_value:g}")
            raise ConfigError("expected a column to compare with ", given, "; name it with ", Parameter("value"))
        if self.min_value is not None and math.isnan(self.min_value):
            raise ConfigError("expected a number as ", Parameter("min_value"), ", got nan")
        self.formats  # noqa: B018  a bad format is refused before anything is read

    @property
    def names(self) -> list[str]:
        """Every column that is read, once."""
        single = [self.client, self.product, self.price, self.quantity, self.time, self.value]
        single += [self.client_name, self.product_name]
        named = [name for name in single if name is not None]
        return list(dict.fromkeys([*named, *self.client_attributes, *self.product_attributes]))

    @property
    def formats(self) -> Formats:
        """How numbers and dates are written."""
        return Formats(self.decimal, self.thousands, self.date_format)


def _row(row: int) -> str:
    return f"row {row}"


def to_interactions(
    frame: pl.DataFrame, columns: Columns, locate: Locate = _row, frame_kind: str = "polars"
) -> Interactions:
    """Return the purchases of a table as Interactions; `locate` tells the user where a bad row is."""
    if frame.is_empty():
        raise DataError("expected at least one purchase, got no rows")
    n_rows = len(frame)
    frame = _without_returns(_rows(frame, columns, locate), columns)
    if frame.is_empty():
        raise no_purchase(columns, n_rows)
    if columns.quantity is None and columns.price is not None:
        _report_negative(frame[AMOUNTS["price"]], columns.price)
    users, user_labels = _codes(frame[CLIENT])
    items, item_labels = _codes(frame[PRODUCT])
    amounts: dict[str, Any] = {part: frame[name].to_numpy() for part, name in AMOUNTS.items() if name in frame.columns}
    return Interactions.from_pairs(
        users,
        items,
        user_labels=user_labels,
        item_labels=item_labels,
        user_attributes={a: _attribute(users, frame[a], len(user_labels)) for a in columns.client_attributes},
        item_attributes={a: _attribute(items, frame[a], len(item_labels)) for a in columns.product_attributes},
        user_names=None if columns.client_name is None else _names(users, frame[columns.client_name], user_labels),
        item_names=None if columns.product_name is None else _names(items, frame[columns.product_name], item_labels),
        currency=columns.currency,
        frame_kind=frame_kind,
        **amounts,
    )


def no_purchase(columns: Columns, n_rows: int) -> DataError:
    """Return the error for a table in which no row is a purchase."""
    threshold = "" if columns.min_value is None else f" with {columns.value!r} at least {columns.min_value:g}"
    return DataError(f"expected at least one purchase{threshold}, got none in {n_rows:,} rows")


def to_purchases(frame: pl.DataFrame, columns: Columns, locate: Locate = _row) -> pl.DataFrame:
    """
    Return the rows that are purchases, checked, with the columns CLIENT, PRODUCT and AMOUNTS beside their own.

    Every row is looked at by itself, so a table may come in pieces: a return is left out, but does not cancel what
    another row bought. `to_interactions` does that too.
    """
    rows = _rows(frame, columns, locate)
    return rows.filter(~_returned(rows))


def _rows(frame: pl.DataFrame, columns: Columns, locate: Locate) -> pl.DataFrame:
    """The one place where rows are checked and become purchases and returns."""
    n_rows = len(frame)
    clients = to_ids(frame[columns.client], locate)
    products = to_ids(frame[columns.product], locate)
    missing = clients.is_null() | products.is_null()
    if missing.any():
        if not columns.drop_missing:
            raise DataError(
                f"{locate(missing.arg_true()[0])}: expected {columns.client!r} and {columns.product!r} in every row, "
                f"got {missing.sum():,} without; fill them in, or pass ",
                Parameter("drop_missing", True),
                " to leave them out",
            )
        _log.info(
            "left out %s of %s rows without %r or %r",
            f"{missing.sum():,}",
            f"{n_rows:,}",
            columns.client,
            columns.product,
        )
        # before anything else is looked at: what such a row holds is often a total or a remark
        frame, clients, products = frame.filter(~missing), clients.filter(~missing), products.filter(~missing)
        locate = _after_dropping(missing, locate)
    amounts: dict[str, Any] = {
        part: convert(frame[name], locate, columns.formats)
        for part, name, convert in (
            ("price", columns.price, to_numbers),
            ("quantity", columns.quantity, to_numbers),
            ("time", columns.time, to_times),
        )
        if name is not None
    }
    named = {CLIENT: clients, PRODUCT: products} | {AMOUNTS[part]: values for part, values in amounts.items()}
    rows = frame.with_columns(**named)
    if columns.value is None:
        return rows
    positive = _positives(frame[columns.value], columns, locate)
    _log.info("%s of %s rows are purchases by %r", f"{positive.sum():,}", f"{len(frame):,}", columns.value)
    return rows.filter(positive)


def _after_dropping(dropped: pl.Series, locate: Locate) -> Locate:
    remaining = (~dropped).arg_true()
    return lambda row: locate(remaining[row])


def _positives(column: pl.Series, columns: Columns, locate: Locate) -> pl.Series:
    """Which rows are purchases by their value."""
    values = to_numbers(column, locate, columns.formats)
    refuse(column, values.is_null(), "a value", ["fill it in or take the row out"], locate)
    if columns.min_value is not None:
        return values >= columns.min_value
    refuse(column, ~values.is_in([0.0, 1.0]), "0 or 1", RATINGS_REMEDY, locate)
    return values == 1


# Returns


def _returned(rows: pl.DataFrame) -> pl.Series:
    """Which rows are returns: their quantity is known and not positive."""
    if AMOUNTS["quantity"] not in rows.columns:
        return pl.repeat(False, len(rows), eager=True)
    returned = (rows[AMOUNTS["quantity"]] <= 0).fill_null(False)
    if returned.any():
        _log.info("left out %s rows with a quantity of zero or less (returns)", f"{returned.sum():,}")
    return returned


def _without_returns(rows: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """
    Leave out returns, and pairs of client and product that returned all they bought.

    What was returned in part stays bought, with the amounts of its purchases as they are. A purchase of an unknown
    quantity is never taken for returned. A return from before the first purchase belongs to one that the table does not
    have, and cancels none.
    """
    returned = _returned(rows)
    purchases = rows.filter(~returned)
    if columns.keep_returned or not returned.any():
        return purchases
    pair, quantity = [CLIENT, PRODUCT], pl.col(AMOUNTS["quantity"])
    returns = rows.filter(returned)
    if AMOUNTS["time"] in rows.columns:
        returns = _after_first_purchase(returns, purchases)
    back = returns.group_by(pair).agg(quantity.sum().alias("back"))
    # an unknown quantity makes the sum null, which no comparison holds for
    bought = purchases.group_by(pair).agg(pl.when(quantity.is_not_null().all()).then(quantity.sum()).alias("bought"))
    left = pl.col("bought") + pl.col("back")
    cancelled = bought.join(back, on=pair).filter(left <= ROUNDING * pl.col("bought"))
    if cancelled.is_empty():
        return purchases
    _log.info("left out %s pairs of a client and a product that were fully returned", f"{len(cancelled):,}")
    return purchases.join(cancelled, on=pair, how="anti", maintain_order="left")


def _after_first_purchase(returns: pl.DataFrame, purchases: pl.DataFrame) -> pl.DataFrame:
    """Leave out returns that are known to be from before the first purchase of their pair."""
    pair, time = [CLIENT, PRODUCT], pl.col(AMOUNTS["time"])
    # a purchase of an unknown time may be the first, so that nothing is known to be from before it
    first = pl.when(time.is_not_null().all()).then(time.min()).alias("ocular:first")
    dated = returns.join(purchases.group_by(pair).agg(first), on=pair, how="left")
    return dated.filter((time < pl.col("ocular:first")).fill_null(False).not_())


def _report_negative(prices: pl.Series, name: str) -> None:
    n = (prices < 0).sum()
    if n:
        _log.warning(
            "%s of %s purchases have a negative %r; they count as purchases, because no quantity column says which "
            "are returns",
            f"{n:,}",
            f"{len(prices):,}",
            name,
        )


# Names and attributes


def _codes(ids: pl.Series) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the position of each id among the distinct ones, which are sorted, and these."""
    labels = ids.unique().sort()
    return codes_of(ids, labels), labels.to_numpy()


def codes_of(ids: pl.Series, labels: pl.Series) -> NDArray[Any]:
    """Return the position of each id among the labels."""
    known = pl.DataFrame({"id": labels}).with_row_index("code")
    return pl.DataFrame({"id": ids}).join(known, on="id", how="left", maintain_order="left")["code"].to_numpy()


def _attribute(codes: NDArray[Any], column: pl.Series, n: int) -> NDArray[Any]:
    """Return the first value that is known of each client or product."""
    values = clean(column) if is_text(column.dtype) else column
    if values.dtype.is_float() or values.dtype.is_decimal():
        values = values.cast(pl.Float64).fill_nan(None)
    known = pl.DataFrame({"code": pl.Series(codes, dtype=pl.UInt32), "value": values}).drop_nulls()
    return _spread(known.unique("code", keep="first", maintain_order=True), n).to_numpy()


def _names(codes: NDArray[Any], column: pl.Series, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the most frequent name of each client or product; its key where no name is known."""
    given = pl.DataFrame({"code": pl.Series(codes, dtype=pl.UInt32), "value": clean(column.cast(pl.String))})
    counts = given.drop_nulls().group_by("code", "value").len().sort("len", "value", descending=[True, False])
    usual = _spread(counts.unique("code", keep="first", maintain_order=True).drop("len"), len(labels))
    return usual.zip_with(usual.is_not_null(), pl.Series(labels.tolist()).cast(pl.String)).to_numpy()


def _spread(known: pl.DataFrame, n: int) -> pl.Series:
    """Return the values of the codes 0 to n − 1, null where there is none."""
    everyone = pl.DataFrame({"code": np.arange(n, dtype=np.uint32)})
    return everyone.join(known, on="code", how="left", maintain_order="left")["value"]


def require(names: Sequence[str], there: Sequence[str], place: str) -> None:
    """Raise where one of the names is not among the columns, or more than once."""
    for name in names:
        if there.count(name) == 1:
            continue
        if name in there:
            raise DataError(f"{place}: expected one column named {name!r}, got {there.count(name)}; rename the others")
        near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(f"{place}: no column named {name!r}{hint} (columns: {', '.join(there)})")


def one_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return " ".join(str(error).strip().partition("\n")[0].split())
