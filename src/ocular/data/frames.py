"""Frames of other libraries become polars."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import narwhals as nw
import polars as pl

from ocular.data.export import EAGER_KINDS
from ocular.data.tables import one_line, require
from ocular.errors import DataError, MissingExtraError


def to_polars(source: Any, names: Sequence[str]) -> tuple[pl.DataFrame, str]:
    """Return the named columns of any frame, and its kind for `to_native`."""
    library = type(source).__module__.partition(".")[0]
    place = f"{library} frame"
    if library == "pandas" and hasattr(source, "columns"):
        return _pandas_frame(source, names), "pandas"
    try:
        known = nw.from_native(source, pass_through=True)
        if isinstance(known, nw.DataFrame | nw.LazyFrame):
            require(names, known.collect_schema().names(), place)
            chosen = known.select(*names)
            eager = chosen.collect("polars") if isinstance(chosen, nw.LazyFrame) else chosen
            kind = str(known.implementation.value)
            return eager.to_polars(), kind if kind in EAGER_KINDS else "polars"
        if not hasattr(source, "__arrow_c_stream__"):
            raise DataError(f"expected a path or a frame such as pandas, polars or Arrow, got {type(source).__name__}")
        frame = pl.DataFrame(source)
    except (pl.exceptions.PolarsError, nw.exceptions.NarwhalsError) as error:
        raise DataError(f"{place}: expected columns that polars can hold, got {one_line(error)}") from error
    require(names, frame.columns, place)
    return frame.select(names), "pyarrow" if library == "pyarrow" else "polars"


def _pandas_frame(source: Any, names: Sequence[str]) -> pl.DataFrame:
    there = [str(name) for name in source.columns]
    require(names, there, "pandas frame")
    infer_type = import_module("pandas.api.types").infer_dtype
    chosen = source.iloc[:, [there.index(name) for name in names]].set_axis(list(names), axis=1)
    for name in names:
        if infer_type(chosen[name], skipna=True) in ("mixed", "mixed-integer"):
            kinds = sorted({type(value).__name__ for value in chosen[name].dropna()})
            raise DataError(
                f"expected one type of value in column {name!r}, got {' and '.join(kinds)}; "
                f"convert it, for example with frame[{name!r}].astype(str)"
            )
    try:
        return pl.from_pandas(chosen)
    except ModuleNotFoundError:
        raise MissingExtraError(
            "a pandas frame is read through pyarrow; install it with: pip install pyarrow"
        ) from None
    except (ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise DataError(f"expected text, numbers or dates in a pandas frame, got {one_line(error)}") from error
