"""Bytes of a text file as UTF-8, whatever the file was saved in."""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ocular.errors import ConfigError, DataError, Parameter

CHUNK = 1 << 20
# UTF-32 before UTF-16: the mark of UTF-32-LE begins with that of UTF-16-LE
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
NOT_OF_FILES = ("idna", "punycode", "undefined")  # codecs of Python that are text, but of no text file
WINDOWS = Parameter("encoding", '"cp1252"')


@contextmanager
def open_plain(source: Path | bytes) -> Iterator[IO[bytes]]:
    """Open a file or bytes for reading, unpacked where they are packed with gzip, by content and not by name."""
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked  # type: ignore[misc]


def check_encoding(encoding: str | None) -> str | None:
    """Return Python's name of an encoding, or raise where there is none of that name."""
    if encoding is None:
        return None
    try:
        b"a".decode(encoding, "ignore")  # refuses what does not decode to text, such as base64
        name = codecs.lookup(encoding).name
        if name in NOT_OF_FILES:
            raise LookupError(name)
        return name
    except (LookupError, ValueError, TypeError):  # ValueError: a name with NUL
        raise ConfigError(
            "expected ", Parameter("encoding"), f" to be one such as utf-8, utf-16 or cp1252, got {encoding!r}"
        ) from None  # fmt: skip


def as_utf8(source: Path | bytes, name: str, encoding: str | None) -> Path | bytes:
    """Return the source as it is where it is UTF-8; otherwise its text as UTF-8 bytes."""
    with open_plain(source) as file:
        start = file.read(4)
    encoding = check_encoding(encoding) or _detected(start, name)
    if encoding in ("utf-8", "utf-8-sig", "ascii"):
        return source
    decoder, encoded = codecs.getincrementaldecoder(encoding)(), bytearray()
    with open_plain(source) as file:
        while True:
            chunk = file.read(CHUNK)
            try:
                encoded += decoder.decode(chunk, final=not chunk).removeprefix("\ufeff").encode()
            except UnicodeDecodeError as error:
                line = encoded.count(b"\n") + 1 + error.object[: error.start].decode(encoding, "ignore").count("\n")
                raise DataError(
                    f"{name}, line {line}: expected text in {encoding}, got {_shown(error.object, error.start)}; "
                    "pass another ",
                    Parameter("encoding"),
                ) from None
            if not chunk:
                return bytes(encoded)


def decode_utf8(line: bytes, number: int, name: str) -> str:
    """Return a line as text, or say which byte is not UTF-8."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, line {number}: expected UTF-8 text, got {_shown(line, error.start)}; pass ",
            WINDOWS,
            " if a Windows program wrote the file, or save it as UTF-8",
        ) from None


def _shown(content: bytes, position: int) -> str:
    return f"byte 0x{content[position]:02x}"


def _detected(start: bytes, name: str) -> str:
    for mark, encoding in BYTE_ORDER_MARKS:
        if start.startswith(mark):
            return encoding
    if b"\0" in start:  # UTF-16 without a mark, of letters that have a code below 256
        raise DataError(
            f"{name}, line 1: expected UTF-8 text, got byte 0x00; pass ",
            Parameter("encoding", '"utf-16-be"' if start.startswith(b"\0") else '"utf-16-le"'),
            " if it is UTF-16, or save it as UTF-8",
        )
    return "utf-8"
