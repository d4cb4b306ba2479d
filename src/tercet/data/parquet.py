"""Recognise Parquet files, and refuse those made to fill the memory; `tables` reads them."""

from __future__ import annotations

import os
from typing import Any

from tercet.data import limits
from tercet.data.lines import FilePath
from tercet.errors import FormatError

MAGIC = b"PAR1"


def is_parquet(path: FilePath) -> bool:
    """Whether a file begins as Parquet files do; what is no file is none."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False  # whoever reads it says what is wrong


def check_parquet_size(file: Any, path: FilePath) -> None:
    """Refuse a file that says of itself that it unpacks to far more than it is; one that lies is not told by this."""
    metadata, size = file.metadata, os.path.getsize(path)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    limits.check_unpacked(path, sum(group.total_byte_size for group in groups), size, "Parquet")
    if metadata.num_rows > max(1 << 20, limits.MOST_ROWS_PER_BYTE * size):
        rows = f"{metadata.num_rows:,} rows in {size:,} bytes"
        raise FormatError(path, None, f"{rows}, as made to fill the memory; are they all the same?", "packing")
