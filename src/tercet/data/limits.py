"""Limits of the memory that a file can take; docs/reference/limits.md lists every limit.

A hostile line, header or packed file of a few megabytes must not fill the memory. Readers look up a limit at each use,
so that tests can lower the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from tercet.errors import FormatError

LONGEST_LINE = 1 << 24  # bytes of a line, or of a CSV record that spans lines
LARGEST_TEXT = 1 << 24  # bytes of a file that is one text
MOST_VALUES = 1 << 18  # ids, cells, or JSON elements and keys on one line
DEEPEST_JSON = 100  # nested arrays and objects
MOST_COLUMNS = 10_000  # columns of a table, or keys of JSON records
MOST_QUERIES_OF_A_TEXT = 1_000  # queries with the same text, for a judgement that names its query by the text
MOST_TIMES_PACKED = 100  # largest ratio of unpacked bytes to bytes on disk, beyond ALWAYS_UNPACKED
ALWAYS_UNPACKED = 100 << 20  # bytes to which every packed file may unpack
LONGEST_TAR_HEADER = 1 << 16  # bytes of the headers of an archive's member
MOST_ROWS_PER_BYTE = 100  # rows per byte of Parquet, whose columns of one value take almost no bytes


def check_unpacked(
    path: str | PathLike[str], n_unpacked: int, n_packed: int, packing: str, line: int | None = None
) -> None:
    """Refuse data that unpack to far more than any real file does."""
    if n_unpacked > max(ALWAYS_UNPACKED, MOST_TIMES_PACKED * n_packed):
        raise FormatError(
            path,
            line,
            f"the {packing} data of {n_packed:,} bytes unpacks to more than {MOST_TIMES_PACKED} times as many, as made "
            "to fill the memory; if it is right, unpack the file first",
            "packing",
        )


def check_values(text: str, marks: Sequence[str], path: str | PathLike[str], line: int, what: str) -> None:
    """Refuse a line with more values than any real line, by the marks between values."""
    if len(text) > MOST_VALUES and sum(map(text.count, marks)) > MOST_VALUES:
        raise FormatError(path, line, f"the line has more than {MOST_VALUES:,} {what}; give it as several")


def too_long(path: str | PathLike[str], line: int, unit: str = "bytes") -> FormatError:
    """Return the error for a line that is too long."""
    return FormatError(path, line, f"the line is longer than {LONGEST_LINE:,} {unit}; is this a text file?")
