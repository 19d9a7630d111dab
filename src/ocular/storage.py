"""Files that are whole or not there: written under a temporary name, flushed, renamed."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ocular.errors import ArtifactError

DAY = 24 * 3600  # seconds
FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last four are full-width signs


def write_file(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Call write(file) on a temporary file beside `path`, then put it in place at once; links and devices stay."""
    path, temporary = path.resolve(), None
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as device:
                write(device)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # as any other file: temporary ones are for their owner only
        temporary.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise _not_written(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_table(path: Path, table: Any) -> None:
    """Write a polars frame as .csv or .parquet, by the name of the file."""
    content = table_bytes(table, path.suffix)
    write_file(path, lambda file: file.write(content))


def escape_formula(value: Any) -> Any:
    """
    Return text that a spreadsheet would take for a formula marked as text; numbers stay numbers.

    >>> escape_formula("=1+1"), escape_formula(-2.5), escape_formula("Acme")
    ("'=1+1", -2.5, 'Acme')
    """
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA_STARTS) else value


def table_bytes(table: Any, suffix: str) -> bytes:
    """Return a frame as the bytes of a file; in memory, because polars has errors of its own for a full disk."""
    buffer = io.BytesIO()
    (table.write_csv if suffix == ".csv" else table.write_parquet)(buffer)
    return buffer.getvalue()


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """
    Yield a temporary folder beside `path` that takes its place when the block ends well.

    An old folder of that name stays until the new one is complete. Exchanging them takes two renames; where a writer
    was killed between them the old folder has another name, which `present` knows and the next writer puts right.
    """
    fresh, old = None, _old_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _tidy(path)
        fresh = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp"))
        yield fresh
        for file in fresh.iterdir():
            _flush(file)
        _flush(fresh)
        fresh.chmod(0o777 & ~_umask())
        if path.exists():
            path.rename(old)
        fresh.rename(path)
        _flush(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        if old.exists() and not path.exists():
            old.rename(path)
        raise _not_written(path, error) from error
    finally:
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)


def check_writable(path: Path) -> None:
    """Raise what `write_file` would raise for this place, without writing anything."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _not_written(path, error) from error


def present(path: Path) -> Path:
    """Return the folder `path`, or what it was before an exchange that was cut short."""
    old = _old_name(path)
    return old if old.exists() and not path.exists() else path


def _tidy(path: Path) -> None:
    """Clean up after a killed writer: the old folder gets its name back, and temporary ones of yesterday go."""
    old = _old_name(path)
    if old.exists() and path.exists():
        shutil.rmtree(old)
    elif old.exists():
        old.rename(path)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if time.time() - leftover.stat().st_mtime > DAY:
            shutil.rmtree(leftover, ignore_errors=True)


def _not_written(path: Path, error: OSError) -> ArtifactError:
    return ArtifactError(f"could not write {path}: {error.strerror or error}; what was there before is whole")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _old_name(path: Path) -> Path:
    return path.parent / f".{path.name}.old"


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
