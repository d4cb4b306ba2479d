"""Storage for a W that is sparse while it trains: the arrays behind ``kernels/sparse.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import MemoryLimitError
from tercet.kernels.sparse import (
    N_BOOKS,
    SMALLEST,
    count_live,
    read_rows,
    rebase,
    sweep,
    write_rows,
)

# A direct row costs 4 bytes a column, a table about 12 to 16 a live entry.
DENSE_FROM_SHARE = 0.25


class SparseRows:
    """Rows of W as levels. Memory is reserved at once and used, page by page, as entries come.

    All rows are direct when that fits ``max_memory``; otherwise rows with few entries are tables.
    """

    def __init__(self, shape: tuple[int, int], max_memory: int) -> None:
        n, m = shape
        self.shape = shape
        self.max_memory = max_memory
        self.all_direct = 4 * n * m <= max_memory
        self.dense_from = 0 if self.all_direct else max(1, int(DENSE_FROM_SHARE * m))
        books = np.full(N_BOOKS, -1, dtype=np.int64)
        direct_slots = -(-m // 16) * 8  # two levels a slot, in whole cache lines
        if self.all_direct:
            n_slots = n * direct_slots
        else:
            n_slots = max_memory // 64 * 8
            least = n << SMALLEST
            if least > n_slots:
                raise MemoryLimitError(
                    f"{n:,} rows need at least {8 * least:,} bytes while training; max_memory is {max_memory:,}"
                )
        books[:4] = 0, n_slots, m, direct_slots
        # zeros() gives pages that take memory only once they are written to.
        slots = np.zeros(2 * n_slots, dtype=np.int32)
        place = np.zeros(n, dtype=np.int64)
        bits, used = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        self.arrays = (place, bits, used, slots, slots.view(np.float32), books)

    def fill(self, levels: sparse.csr_array, absent: float = 0.0) -> None:
        """Put entries, explicit zeros too, into fresh rows; direct rows get ``absent`` elsewhere."""
        fits = write_rows(
            self.arrays,
            levels.indptr.astype(np.int64),
            levels.indices.astype(np.int32),
            levels.data.astype(np.float32),
            self.dense_from,
            np.float32(absent),
        )
        if not fits:
            raise MemoryLimitError(f"{levels.nnz:,} entries do not fit max_memory of {self.max_memory:,} bytes")

    def live(self, cum: float) -> sparse.csr_array:
        """Levels of the live entries, columns sorted."""
        counts = np.zeros(self.shape[0], dtype=np.int64)
        count_live(self.arrays, np.float32(cum), counts)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        columns = np.empty(indptr[-1], dtype=np.int32)
        levels = np.empty(indptr[-1], dtype=np.float32)
        read_rows(self.arrays, np.float32(cum), indptr, columns, levels)
        found = sparse.csr_array((levels, columns, indptr), shape=self.shape)
        found.sort_indices()
        return found

    def sweep(self, cum: float) -> None:
        """Give back the places of dead entries."""
        if not self.all_direct:
            sweep(self.arrays, self.dense_from // 2, np.float32(cum))

    def rebase(self, cum: float) -> None:
        rebase(self.arrays, np.float32(cum))

    def bytes_used(self) -> int:
        """Bytes of rows in use, given-back ones included."""
        books: NDArray[Any] = self.arrays[5]
        return int(8 * books[0])

    def no_room(self) -> MemoryLimitError:
        return MemoryLimitError(
            f"W has outgrown max_memory of {self.max_memory:,} bytes ({self.bytes_used():,} in use); "
            "allow more, or use a larger l1"
        )
