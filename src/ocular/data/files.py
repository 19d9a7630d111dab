"""Paths as people give them: files, folders, globs, several of them, standard input, folders such as year=2024."""

from __future__ import annotations

import difflib
import glob
import io
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import polars as pl

from ocular.data.tables import one_line, require
from ocular.data.text_files import STANDARD_INPUT, text_frame
from ocular.data.values import Locate
from ocular.errors import DataError, Parameter

TEXT, PARQUET, DUCKDB = ("csv", "tsv", "txt"), ("parquet", "pq"), ("duckdb", "ddb")
DASH = "-"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")  # a text such as 007 stays text


class _Part(NamedTuple):
    """The rows of one file."""

    frame: pl.LazyFrame
    length: int | None  # where it is known without reading
    locate: Locate


def kind_of(path: Path) -> str:
    """Return the kind of a file by its name: csv, parquet, …"""
    return path.name.lower().removesuffix(".gz").rpartition(".")[2]


def is_duckdb(source: str | Path) -> bool:
    return kind_of(Path(source)) in DUCKDB


def files_frame(
    sources: Sequence[str | Path], names: Sequence[str], encoding: str | None
) -> tuple[pl.DataFrame, Locate]:
    """Return the rows of all files, one after the other, and how to find one of them."""
    n_dashes = sum(str(source) == DASH for source in sources)
    if n_dashes > 1:
        raise DataError(f"expected {DASH} at most once, got it {n_dashes} times; standard input can be read once")
    files = _distinct([file for source in sources for file in _expanded(source)])
    several = len(files) > 1
    folders = _Folders([file for file in files if isinstance(file, Path)])
    parts = [_part(file, names, encoding, folders, several) for file in files]
    try:
        frame = pl.concat([part.frame for part in parts], how="vertical_relaxed").collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        place = _shown(sources)
        if not several:
            raise _not_parquet(place, error) from error
        raise DataError(
            f"{place}: expected files with the same columns of the same types, got {one_line(error)}"
        ) from error
    return frame, parts[0].locate if not several else lambda row: _locate(parts, row)


def _distinct(files: Sequence[Path | bytes]) -> list[Path | bytes]:
    """Return every file once, also where two patterns match it or two spellings of its path name it."""
    distinct: dict[Path | bytes, Path | bytes] = {}
    for file in files:
        distinct.setdefault(file.resolve() if isinstance(file, Path) else file, file)
    return [*distinct.values()]


def _shown(sources: Sequence[str | Path]) -> str:
    return ", ".join(Path(source).name for source in sources[:3]) + (", …" if len(sources) > 3 else "")


def _locate(parts: Sequence[_Part], row: int) -> str:
    lengths = [part.frame.select(pl.len()).collect().item() if part.length is None else part.length for part in parts]
    starts = [0, *accumulate(lengths)]
    part = bisect_right(starts, row) - 1
    return parts[part].locate(row - starts[part])


def _expanded(source: str | Path) -> list[Path | bytes]:
    """Return the files that a path, a folder, a pattern or - stands for, in the order of their names."""
    text = str(source)
    if text == DASH:
        return [sys.stdin.buffer.read()]
    if scheme := re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text):
        raise _not_here(scheme[1].lower())
    path = Path(source).expanduser()
    if is_model(path):
        raise DataError(
            f"expected purchases, got a model folder; name the files that {path.name!r} was fitted to, "
            "or load the model with ocular.load"
        )
    if path.is_dir():
        return [*_files_in(path)]
    if path.exists():
        return [path if path.is_file() else path.read_bytes()]  # a pipe, as of <(zcat …), can be read only once
    if glob.has_magic(text):
        matches = [*map(Path, sorted(glob.glob(str(path), recursive=True)))]  # noqa: PTH207  may be absolute
        if not matches:
            raise DataError(f"expected files that match {text!r}, got none")
        return [file for match in matches for file in (_files_in(match) if match.is_dir() else [match])]
    raise DataError(f"expected a file or folder, got {str(path)!r}, which is not there{nearest_file(path)}")


def is_model(path: Path) -> bool:
    """Whether a folder is a saved model; a folder of purchases may have a manifest.json, but no arrays beside it."""
    return all((path / name).is_file() for name in ("manifest.json", "arrays.npz"))


def nearest_file(path: Path) -> str:
    """Return a hint at the file whose name is nearest to that of a missing one, or "" where none is near."""
    try:
        names = sorted(file.name for file in path.parent.iterdir() if not file.name.startswith("."))
    except OSError:
        return ""
    # by the name without its ending: all files of a folder may end in .csv
    near = difflib.get_close_matches(path.stem, [Path(name).stem for name in names], n=1)
    if not near:
        return ""
    same = [name for name in names if Path(name).stem == near[0]]
    return f"; did you mean {difflib.get_close_matches(path.name, same, n=1, cutoff=0)[0]!r}?"


def _files_in(folder: Path) -> Iterator[Path]:
    parts = (file.relative_to(folder).parts for file in sorted(folder.rglob("*")) if kind_of(file) in (*TEXT, *PARQUET))
    # Spark leaves unfinished parts in folders such as _temporary
    files = [folder.joinpath(*part) for part in parts if not any(name.startswith(("_", ".")) for name in part)]
    files = [file for file in files if file.is_file()]
    if not files:
        raise DataError(f"expected .parquet or .csv files in the folder {str(folder)!r}, got none")
    if len({kind_of(file) in PARQUET for file in files}) > 1:
        raise DataError(
            f"expected files of one kind in the folder {str(folder)!r}, got Parquet and text; "
            "name the files, for example as folder/*.csv"
        )
    return iter(files)


def _not_here(scheme: str) -> DataError:
    """The error for an address; it does not repeat the address, which may hold a password."""
    if scheme in ("http", "https", "ftp"):
        remedy: list[object] = ["download it first, for example with curl -O, and pass the file"]
    elif scheme == "file":
        remedy = ["leave out file://"]
    elif scheme in ("sqlite", "postgresql", "postgres", "duckdb"):
        remedy = ["pass ", Parameter("query"), " to read from a database"]
    else:
        remedy = ["copy it to this machine first, or read it where it is on Spark"]
    return DataError(f"expected a file or folder on this machine, got an address {scheme}://…; ", *remedy)


def _part(file: Path | bytes, names: Sequence[str], encoding: str | None, folders: _Folders, several: bool) -> _Part:
    if isinstance(file, bytes):
        place, kind, values = STANDARD_INPUT, "parquet" if file.startswith(b"PAR1") else "csv", {}
    else:
        place, kind, values = file.name, kind_of(file), partition_values(file)
    if kind in PARQUET:
        frame = _parquet_frame(file, place, names, folders.literals(values))
        return _Part(frame, None, lambda row: f"{place}, row {row}" if several else f"row {row}")
    if kind in TEXT:
        text, locate = text_frame(file, names, encoding, values)
        return _Part(text.lazy(), len(text), locate)
    raise DataError(f"expected .csv, .tsv, .txt (also .gz) or .parquet, got {place!r}; save it as one of them")


def _parquet_frame(file: Path | bytes, place: str, names: Sequence[str], constants: dict[str, pl.Expr]) -> pl.LazyFrame:
    try:
        source = io.BytesIO(file) if isinstance(file, bytes) else file
        table = pl.scan_parquet(source, glob=False, hive_partitioning=False)
        there = table.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _not_parquet(place, error) from error
    constants = {name: value for name, value in constants.items() if name not in there}
    require(names, [*there, *constants], place)
    added = (value.alias(name) for name, value in constants.items() if name in names)
    return table.with_columns(*added).select(names)


def _not_parquet(place: str, error: Exception) -> DataError:
    return DataError(f"{place}: expected Parquet, got a file that cannot be read ({one_line(error)})")


def partition_values(file: Path) -> dict[str, str | None]:
    """
    Return the columns that the folders of a file name, as Hive and Spark write them.

    >>> partition_values(Path("sales/year=2024/region=North%20Sea/part-0.parquet"))
    {'year': '2024', 'region': 'North Sea'}
    """
    pairs = (folder.partition("=") for folder in file.parts[:-1] if "=" in folder.strip("="))
    return {unquote(key): None if value == HIVE_NULL else unquote(value) for key, _, value in pairs}


class _Folders:
    """Knows which columns in the names of folders hold whole numbers only: these become numbers, as on Spark."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._whole: dict[str, bool] = {}
        for folder in {file.parent for file in files}:
            for name, value in partition_values(folder / "file").items():
                whole = value is None or WHOLE.fullmatch(value) is not None
                self._whole[name] = self._whole.get(name, True) and whole

    def literals(self, values: dict[str, str | None]) -> dict[str, pl.Expr]:
        """Return the values of a file as expressions."""
        return {
            name: pl.lit(None if value is None else int(value), pl.Int64)
            if self._whole[name]
            else pl.lit(value, pl.String)
            for name, value in values.items()
        }
