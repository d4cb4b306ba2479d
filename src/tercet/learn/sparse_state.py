"""What ``SparseRanker`` carries while it trains, and the rows of W behind it (``kernels/sparse_rows.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError, MemoryLimitError
from tercet.kernels.rows import Chunk, CsrRows
from tercet.kernels.sparse import StepBuffers, sparse_advance
from tercet.kernels.sparse_rows import (
    BLOCK,
    COST,
    CUM,
    FAST_COST,
    GAPS,
    N_SIZES,
    PENDING,
    SHRINK_EVERY,
    SIZE_SHIFT,
    SMALL_COST,
    TAKEN,
    TIGHT,
    LevelRows,
    compact,
    count_live,
    count_sizes,
    cut,
    read_rows,
    rebase,
    sweep,
    write_rows,
)
from tercet.learn.known_pairs import pairs_matrix
from tercet.learn.matrices import KernelInput, reorder_columns
from tercet.learn.state import State, Steps, check_order, physical_memory
from tercet.store.codec import decode, encode
from tercet.store.schema import Bounds, Csr, Shape
from tercet.weights import Identity, Sparse, Weights

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
        position = np.zeros(n, dtype=np.int64)
        head, size, used = (np.zeros(n, dtype=np.int32) for _ in range(3))
        books = np.array([0, 0, self.whole, FAST_COST, LEAST_GAPS, 0], dtype=np.int64)
        counts, spare = np.zeros(width_of_head(m) // BLOCK, dtype=np.int64), np.zeros(2 * m, dtype=np.int32)
        self.arrays = LevelRows(position, head, size, used, keys, levels, levels.reshape(1, -1), books, counts, spare)

    def fill(self, levels: sparse.csr_array, absent: float = 0.0) -> None:
        """Put entries, explicit zeros too, into rows, in place of what they held; heads get ``absent`` elsewhere.

        There may be fewer rows of them; those that follow are not to be used then.
        """
        books = self.arrays.books
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
        live = sparse.csr_array((levels, columns, indptr), shape=self.shape)
        live.sort_indices()
        return live

    def sweep(self, cum: float) -> None:
        """Give back the places of dead entries."""
        if not self.whole:
            sweep(self.arrays, np.float32(cum))
            self.compact()

    def make_space(self, cum: float) -> None:
        """Sweep until nothing more is gained; from now on rows are as small as can be, and slower."""
        self.arrays.books[COST], self.arrays.books[TIGHT] = SMALL_COST, 1
        before = self.bytes_used() + 1
        while self.bytes_used() < before:
            before = self.bytes_used()
            self.sweep(cum)

    def compact(self) -> None:
        """Close the gaps that moved rows left."""
        self._peak = self.peak_bytes()
        if self.arrays.books[GAPS]:
            compact(self.arrays, np.argsort(self.arrays.position))

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
        return int(self.arrays.keys.nbytes)

    def bytes_used(self) -> int:
        """Bytes of rows in use, gaps included."""
        return int(4 * self.arrays.books[TAKEN])

    def peak_bytes(self) -> int:
        """The most bytes that were in use so far."""
        return max(self._peak, self.bytes_used())

    def no_room(self, cum: float) -> MemoryLimitError:
        return MemoryLimitError(
            f"W has outgrown max_memory of {self.max_memory:,} bytes: {int(self.n_live(cum).sum()):,} entries take "
            f"{self.bytes_used():,} and the next step needs more; allow more, or use a larger l1"
        )


SWEEP_EVERY = 2048  # steps between givings back of dead entries
LARGEST_CUM = 1.0  # is taken from the entries at the next sweep; a larger one would cost levels their last digits
KEPT_WEIGHTS = 1 << 17  # of a step, kept from reading to writing
IN_SUPPORT = -1.0  # every level is larger in size, but not the NaN of an entry outside the support
N_THINNINGS = 20  # of gradual thinning, evenly over the first three quarters of the steps


@dataclass(frozen=True)
class Thinning:
    """Cut the smallest entries again and again while learning, until the share ``density`` is left.

    What is left after each cut falls with the third power of the steps to go (Zhu and Gupta 2017), fast while most
    entries are noise. After the last cut no entry comes back: the others learn on to the end.
    """

    density: float
    n_steps: int

    def due(self) -> list[tuple[int, float]]:
        """Steps after which to cut, and the share of entries to leave then."""
        return [
            (
                max(1, self.n_steps * 3 * k // (4 * N_THINNINGS)),
                self.density + (1 - self.density) * (1 - k / N_THINNINGS) ** 3,
            )
            for k in range(1, N_THINNINGS + 1)
        ]


@dataclass(frozen=True, eq=False)
class StoredSparse:
    """A `SparseState` as it is saved: the levels of its live entries, or of the whole support when frozen."""

    order: Annotated[NDArray[np.int32], Shape("n_doc_terms")]
    levels: Annotated[sparse.csr_array, Csr("n_query_terms", "n_doc_terms", names=("levels", "columns", "indptr"))]
    l1: float
    shrink_every: Annotated[int, Bounds(least=1)]
    cum: float
    pending: float
    max_memory: Annotated[int | None, Bounds(least=0)]
    around_identity: bool
    thin_to: float | None
    thin_over: Annotated[int | None, Bounds(least=1, most=2**53)]
    frozen: bool
    step: Steps
    never_rows: Annotated[NDArray[np.int32] | None, Shape("n_never")] = None
    never_columns: Annotated[NDArray[np.int32] | None, Shape("n_never")] = None


class SparseState(State):
    """Levels of W by row, the shrinkage handed out, and the column order (frequent words first).

    levels : what W starts from, columns in that order; with ``frozen``, explicit zeros belong to the support
    max_memory : bytes that rows may take while learning, half the machine's memory by default
    around_identity : the rows hold W - I
    frozen : no entry is added and none shrinks
    never : entries that stay at zero, columns as they are given
    """

    def __init__(
        self,
        levels: sparse.csr_array,
        order: NDArray[np.int32],
        *,
        max_memory: int | None,
        l1: float,
        shrink_every: int,
        cum: float = 0.0,
        pending: float = 0.0,
        around_identity: bool = False,
        thinning: Thinning | None = None,
        frozen: bool = False,
        never: sparse.csr_array | None = None,
        step: int = 0,
    ) -> None:
        self.never = never
        if never is None:
            empty = np.zeros(levels.shape[0] + 1, dtype=np.int64)
            self._never = CsrRows(empty, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))
        else:
            kept = reorder_columns(never, order)
            self._never = CsrRows(kept.indptr.astype(np.int64), kept.indices.astype(np.int32), kept.data)
        self._levels: sparse.csr_array | None = levels
        self._rows: SparseRows | None = None
        self._shape = levels.shape
        self.order = order
        self.max_memory = max_memory
        self.shrinkage = np.array([cum, pending, 0.0 if frozen else l1, shrink_every], dtype=np.float64)
        self.l1 = l1
        self.around_identity = around_identity
        self.thinning = thinning
        self.frozen = frozen
        self.step = step

    @property
    def cum(self) -> float:
        return float(self.shrinkage[CUM])

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def rows(self) -> SparseRows:
        """W as it is kept while learning. Made when first asked for: a model that only ranks needs no room for more."""
        if self._rows is None:
            assert self._levels is not None
            allowed = physical_memory() // 2 if self.max_memory is None else self.max_memory
            rows = SparseRows(self.shape, allowed)
            rows.fill(self._levels, absent=np.nan if self.frozen else 0.0)  # which may find that they do not fit
            self._rows, self._levels = rows, None
        return self._rows

    def live(self) -> sparse.csr_array:
        """Levels of the live entries, columns in the order they are kept, sorted; when frozen, of the whole support."""
        if self._levels is not None:
            return self._levels.copy()
        return self.rows.live(IN_SUPPORT if self.frozen else self.cum)

    def __getstate__(self) -> dict[str, Any]:
        # Keys and levels of rows are the same memory, and would not be in a copy of the arrays.
        kept = {name: value for name, value in vars(self).items() if name not in ("_room", "_texts")}
        return kept | {"_levels": self.live(), "_rows": None}

    def release_rows(self) -> None:
        """Keep only what a value needs; rows are made again when asked for."""
        self._levels = self.live()
        self._rows = None

    def move_into(self, rows: SparseRows) -> None:
        """Keep W in rows that were made before, and may have held another."""
        assert self._levels is not None
        rows.fill(self._levels, absent=np.nan if self.frozen else 0.0)
        self._rows, self._levels = rows, None

    def set_weights(self, weights: sparse.csr_array, pending: float) -> None:
        """Be these weights, columns in the order they are kept, which owe nothing; of rates, so much is pending."""
        self.set_levels(weights, 0.0, pending)

    def set_levels(self, levels: sparse.csr_array, cum: float, pending: float) -> None:
        """Be these levels, of the live entries or of the whole support, at so much shrinkage handed out."""
        self._levels, self._rows = levels, None
        self.shrinkage[CUM], self.shrinkage[PENDING] = cum, pending

    def finish_thinning(self) -> None:
        """Make the last cut now, when the steps ended before it."""
        if self.thinning is not None and not self.frozen:
            self.rows.cut(self.thinning.density, absent=np.nan)
            self.frozen = True

    def penalise(self, l1: float, shrink_every: int) -> None:
        """Shrink like this from now on."""
        self.l1 = l1
        self.shrinkage[2:] = 0.0 if self.frozen else l1, shrink_every

    @property
    def n_live(self) -> int:
        """Weights that are not zero."""
        if self._levels is not None:
            return int(np.count_nonzero(np.abs(self._levels.data) > np.float32(self.cum)))
        return int(self.rows.n_live(self.cum).sum())

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        inputs = KernelInput.from_matrices(Q, reorder_columns(D, self.order))
        self.allocate(inputs, (Q, D))
        return inputs

    def allocate(self, inputs: KernelInput, texts: tuple[sparse.csr_array, sparse.csr_array] | None) -> None:
        """Get room for steps over these inputs; ``texts`` are what they were made of, where the identity is fixed."""
        longest = inputs.scratch.cols.size
        buffers = max(KEPT_WEIGHTS, 2 * longest)
        self._scratch = StepBuffers(
            np.empty(buffers, dtype=np.float32),
            np.empty(buffers, dtype=np.int64),
            np.empty((int(np.diff(inputs.Q.indptr).max(initial=0)), 3), dtype=np.int64),
            np.empty(longest, dtype=np.int64),
            np.empty(longest, dtype=np.float32),
        )
        self._texts = texts

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        start = self._margins_of_identity(chunk.query, chunk.better, chunk.worse)
        done, n, stuck = 0, len(chunk.query), 0
        # After the last cut, which may have come early, no entry comes back.
        cuts = {} if self.thinning is None or self.frozen else dict(self.thinning.due())
        while done < n or n == 0:
            step = self.step + done
            # Rebasing, sweeping and cutting happen at fixed steps, so that stopping anywhere gives the same bits.
            stops = [n, done + SWEEP_EVERY - step % SWEEP_EVERY, *(cut - self.step for cut in cuts if cut > step)]
            stop = min(stops)
            steps = sparse_advance(
                self.rows.arrays,
                inputs.Q,
                inputs.D,
                chunk.part(done, stop),
                start[done:stop],
                self.shrinkage,
                step,
                self.frozen,
                self._never,
                inputs.scratch,
                self._scratch,
                tally,
            )
            if n == 0:
                return
            done += steps
            if done < stop:  # no room: close the gaps between rows, then drop what is dead, then give up
                stuck = 1 if steps else stuck + 1
                if stuck > 3:
                    raise self.rows.no_room(self.cum)
                if stuck == 2:
                    self.rows.make_space(self.cum)
                self.rows.compact()
                continue
            stuck = 0
            step = self.step + done
            if step in cuts:
                self.frozen = step == max(cuts)
                self.rows.cut(cuts[step], absent=np.nan if self.frozen else 0.0)
            if not self.frozen and step % SWEEP_EVERY == 0:
                if self.cum > LARGEST_CUM:
                    self.rows.rebase(self.cum)
                    self.shrinkage[CUM] = 0.0
                self.rows.sweep(self.cum)

    def _margins_of_identity(
        self, query: NDArray[np.int32], better: NDArray[np.int32], worse: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """What the fixed identity, if there is one, adds to each margin."""
        if not self.around_identity:
            return np.zeros(len(query), dtype=np.float32)
        assert self._texts is not None
        Q, D = self._texts
        return np.asarray((Q[query] * (D[better] - D[worse])).sum(axis=1), dtype=np.float32)

    def weights(self) -> sparse.csr_array:
        """The current weights, without a fixed identity, columns in their given order."""
        live = self.live()
        cum = np.float32(self.cum)
        live.data = np.where(live.data > 0, live.data - cum, live.data + cum)
        weights = sparse.csr_array((live.data, self.order[live.indices], live.indptr), shape=self.shape)
        weights.eliminate_zeros()
        return weights

    def snapshot(self) -> Weights:
        learned = Sparse(weights=self.weights())
        return Weights([Identity(n_terms=self.shape[0]), learned] if self.around_identity else [learned])

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        stored = StoredSparse(
            order=self.order,
            levels=self.live(),
            l1=self.l1,
            shrink_every=int(self.shrinkage[SHRINK_EVERY]),
            cum=self.cum,
            pending=float(self.shrinkage[PENDING]),
            max_memory=self.max_memory,
            around_identity=self.around_identity,
            thin_to=None if self.thinning is None else self.thinning.density,
            thin_over=None if self.thinning is None else self.thinning.n_steps,
            frozen=self.frozen,
            step=self.step,
            **self._never_pairs(),
        )
        return encode(stored)

    def _never_pairs(self) -> dict[str, NDArray[np.int32]]:
        if self.never is None:
            return {}
        rows = np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.never.indptr))
        return {"never_rows": rows, "never_columns": self.never.indices.astype(np.int32)}

    @classmethod
    def from_state(cls, meta: object, arrays: Mapping[str, NDArray[Any]], where: str) -> Self:
        stored = decode(StoredSparse, meta, arrays, where=where, copy=True)
        thin_to, thin_over = stored.thin_to, stored.thin_over
        never = None
        if stored.never_rows is not None and stored.never_columns is not None:
            never = pairs_matrix(stored.never_rows, stored.never_columns, stored.levels.shape, where)
        state = cls(
            stored.levels,
            stored.order,
            max_memory=stored.max_memory,
            l1=stored.l1,
            shrink_every=stored.shrink_every,
            cum=stored.cum,
            pending=stored.pending,
            around_identity=stored.around_identity,
            thinning=None if thin_to is None or thin_over is None else Thinning(thin_to, thin_over),
            frozen=stored.frozen,
            never=never,
            step=stored.step,
        )
        return cls.checked(state, where)

    def check(self) -> None:
        check_order(self.order)
        if not self.shape[0]:
            raise InputError("W has no row")
