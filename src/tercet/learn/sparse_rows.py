"""Storage for a W that is sparse while it trains: the arrays behind ``kernels/sparse_rows.py``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import MemoryLimitError
from tercet.kernels.sparse_rows import (
    BLOCK,
    COST,
    FAST_COST,
    GAPS,
    N_SIZES,
    SIZE_SHIFT,
    SMALL_COST,
    TAKEN,
    TIGHT,
    compact,
    count_live,
    count_sizes,
    cut,
    read_rows,
    rebase,
    sweep,
    write_rows,
)

LINE_BYTES = 64
LEAST_GAPS = 1 << 18  # words between rows that are not worth closing


def width_of_head(n_columns: int) -> int:
    """Levels of a row that has one for each column."""
    return -(-n_columns // BLOCK) * BLOCK


class SparseRows:
    """Rows of W as levels. Memory is reserved at once and used, page by page, as entries come.

    Every row has a level for each column when that fits ``max_memory``; otherwise only for its first columns.
    """

    def __init__(self, shape: tuple[int, int], max_memory: int) -> None:
        n, m = shape
        self.shape = shape
        self.max_memory = max_memory
        self._peak = 0
        self.whole = 4 * n * width_of_head(m) <= max_memory
        n_words = n * width_of_head(m) if self.whole else max_memory // LINE_BYTES * (LINE_BYTES // 4)
        if not self.whole and n * LINE_BYTES > max_memory:
            raise MemoryLimitError(
                f"{n:,} rows need at least {n * LINE_BYTES:,} bytes while training; max_memory is {max_memory:,}"
            )
        # zeros() gives pages that take memory only once they are written to; rows begin at a cache line.
        reserved = np.zeros(n_words + LINE_BYTES // 4, dtype=np.int32)
        start = -reserved.ctypes.data % LINE_BYTES // 4
        keys = reserved[start : start + n_words]
        levels = keys.view(np.float32)
        place = np.zeros(n, dtype=np.int64)
        head, size, used = (np.zeros(n, dtype=np.int32) for _ in range(3))
        books = np.array([0, 0, self.whole, FAST_COST, LEAST_GAPS, 0], dtype=np.int64)
        counts, spare = np.zeros(width_of_head(m) // BLOCK, dtype=np.int64), np.zeros(2 * m, dtype=np.int32)
        self.arrays = (place, head, size, used, keys, levels, levels.reshape(1, -1), books, counts, spare)

    def fill(self, levels: sparse.csr_array, absent: float = 0.0) -> None:
        """Put entries, explicit zeros too, into rows, in place of what they held; heads get ``absent`` elsewhere.

        There may be fewer rows of them; those that follow are not to be used then.
        """
        books = self.arrays[7]
        books[GAPS] = 0
        for cost, tight in ((FAST_COST, 0), (SMALL_COST, 1)):  # for speed, or else as small as can be
            books[TAKEN], books[COST], books[TIGHT] = 0, cost, tight
            if write_rows(
                self.arrays,
                levels.indptr.astype(np.int64),
                levels.indices.astype(np.int32, copy=False),
                levels.data.astype(np.float32, copy=False),
                np.float32(absent),
            ):
                return
        raise MemoryLimitError(
            f"{levels.nnz:,} entries in {self.shape[0]:,} rows do not fit max_memory of {self.max_memory:,} bytes; "
            f"about {16 * levels.nnz + LINE_BYTES * self.shape[0]:,} are needed to learn on"
        )

    def n_live(self, cum: float) -> NDArray[np.int64]:
        """Live entries of each row."""
        counts = np.zeros(self.shape[0], dtype=np.int64)
        count_live(self.arrays, np.float32(cum), counts)
        return counts

    def live(self, cum: float) -> sparse.csr_array:
        """Levels of the live entries, columns sorted."""
        indptr = np.concatenate([[0], np.cumsum(self.n_live(cum))])
        columns = np.empty(indptr[-1], dtype=np.int32)
        levels = np.empty(indptr[-1], dtype=np.float32)
        read_rows(self.arrays, np.float32(cum), indptr, columns, levels)
        found = sparse.csr_array((levels, columns, indptr), shape=self.shape)
        found.sort_indices()
        return found

    def sweep(self, cum: float) -> None:
        """Give back the places of dead entries."""
        if not self.whole:
            sweep(self.arrays, np.float32(cum))
            self.compact()

    def make_space(self, cum: float) -> None:
        """Sweep until nothing more is gained; from now on rows are as small as can be, and slower."""
        self.arrays[7][COST], self.arrays[7][TIGHT] = SMALL_COST, 1
        before = self.bytes_used() + 1
        while self.bytes_used() < before:
            before = self.bytes_used()
            self.sweep(cum)

    def compact(self) -> None:
        """Close the gaps that moved rows left."""
        self._peak = self.peak_bytes()
        if self.arrays[7][GAPS]:
            compact(self.arrays, np.argsort(self.arrays[0]))

    def rebase(self, cum: float) -> None:
        rebase(self.arrays, np.float32(cum))

    def cut(self, density: float, absent: float) -> None:
        """Drop the smallest weights, so that about the share ``density`` of all entries is left; nothing may be owed.

        Of sizes too close to tell apart at the threshold all are kept. Heads get ``absent`` in place of the others.
        """
        n_of_size = np.zeros(N_SIZES, dtype=np.int64)
        count_sizes(self.arrays, n_of_size)
        n_of_size[0] = 0  # zeros
        wanted = max(1, round(density * self.shape[0] * self.shape[1]))
        at_least = np.cumsum(n_of_size[::-1])[::-1]
        edge = max(1, int(np.count_nonzero(at_least >= wanted)) - 1)
        smallest = np.array(edge << SIZE_SHIFT, dtype=np.uint32).view(np.float32)[()]
        cut(self.arrays, smallest, np.float32(absent))

    @property
    def n_bytes(self) -> int:
        """Bytes that are reserved."""
        return int(self.arrays[4].nbytes)

    def bytes_used(self) -> int:
        """Bytes of rows in use, gaps included."""
        return int(4 * self.arrays[7][TAKEN])

    def peak_bytes(self) -> int:
        """The most bytes that were in use so far."""
        return max(self._peak, self.bytes_used())

    def no_room(self, cum: float) -> MemoryLimitError:
        return MemoryLimitError(
            f"W has outgrown max_memory of {self.max_memory:,} bytes: {int(self.n_live(cum).sum()):,} entries take "
            f"{self.bytes_used():,} and the next step needs more; allow more, or use a larger l1"
        )
