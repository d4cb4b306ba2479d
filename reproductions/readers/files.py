"""Files of the data sets: bytes, lines and numbers, with errors that name file and line."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator
from pathlib import Path

from tercet.errors import FormatError


def read_bytes(path: Path) -> bytes:
    """Read a file, decompressed if gzipped."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file") from None
    except (EOFError, OSError) as error:
        raise FormatError(path, None, f"the gzip data is damaged: {error}") from error


def decode_text(content: bytes, path: Path) -> str:
    """Content as UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(path, line, f"byte {content[error.start]:#04x} is not UTF-8") from error


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a UTF-8 file with their numbers, without their ends."""
    lines = decode_text(read_bytes(path), path).split("\n")
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, start=1):
        yield number, line.removesuffix("\r")


def parse_number(text: str, path: Path, line: int, what: str) -> float:
    """Parse a finite number; ``what`` is the name in the error."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FormatError(path, line, f"{what} {text[:40]!r}; a number is needed")
    return value


def parse_integer(text: str, path: Path, line: int, what: str) -> int:
    """Parse a whole number; ``what`` is the name in the error."""
    try:
        return int(text)
    except ValueError:
        raise FormatError(path, line, f"{what} {text[:40]!r}; a whole number is needed") from None
