"""Limits of the memory that a file can take; docs/reference/limits.md lists every limit.

A hostile line, header or packed file of a few megabytes must not fill the memory. Readers look limits up at each use,
for tests to lower them.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from tercet.errors import FormatError

LONGEST_LINE = 1 << 24  # bytes; also those of a record of CSV that goes over several lines
LARGEST_TEXT = 1 << 24  # bytes of a file that is one text
MOST_VALUES = 1 << 18  # on one line: ids, cells, or elements and keys of JSON
DEEPEST_JSON = 100  # arrays and objects inside each other
MOST_COLUMNS = 10_000  # of a table; keys, where it is JSON
MOST_QUERIES_OF_A_TEXT = 1_000  # that a judgement which names a query by its text may mean
MOST_TIMES_PACKED = 100  # how many times its size on disk a packed file may unpack to,
ALWAYS_UNPACKED = 100 << 20  # beyond these bytes, which any may
LONGEST_TAR_HEADER = 1 << 16  # bytes that name a member of an archive, or say more of it
MOST_ROWS_PER_BYTE = 100  # of Parquet, where a column of one value takes no room


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
