"""Base of the parts of a bilinear form, and the storage of their arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.errors import InputError
from tercet.kernels.rows import CsrRows
from tercet.weights.scoring import Matrix, score_expanded

_BLOCK_BYTES = 64 * 2**20


class Pairs(NamedTuple):
    """Term pairs and what each adds to a score.

    Examples
    --------
    >>> pairs = Pairs(np.array([0]), np.array([3]), np.array([0.25]))
    >>> float(pairs.contribution.sum())
    0.25
    """

    query_term: NDArray[np.int32]
    doc_term: NDArray[np.int32]
    contribution: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Term pairs, largest contribution by size first; ``contribution.sum()`` is the score.

    Iterating gives ``(query_term, doc_term, contribution)``.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.weights import Sparse, Weights
    >>> W = Weights([Sparse(weights=sparse.csr_array([[1.0, 0.5], [0.0, 1.0]]))])
    >>> list(W.explain(sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[1.0, 4.0]])))
    [(0, 1, 2.0), (0, 0, 1.0)]
    """

    score: float
    query_term: NDArray[np.int32]
    doc_term: NDArray[np.int32]
    contribution: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.contribution)

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        return zip(self.query_term.tolist(), self.doc_term.tolist(), self.contribution.tolist(), strict=True)


def merge_pairs(parts: Sequence[Pairs]) -> Pairs:
    """Add the contributions of all parts to each pair, then sort by size, ties by query and document term."""
    query_term = np.concatenate([pairs.query_term for pairs in parts])
    doc_term = np.concatenate([pairs.doc_term for pairs in parts])
    contribution = np.concatenate([pairs.contribution for pairs in parts])
    if not len(contribution):
        return Pairs(query_term, doc_term, contribution)
    keys, where = np.unique(np.stack([query_term, doc_term], axis=1), axis=0, return_inverse=True)
    total = np.bincount(where.ravel(), contribution, len(keys)).astype(np.float64)
    order = np.lexsort((keys[:, 1], keys[:, 0], -np.abs(total)))
    return Pairs(keys[order, 0], keys[order, 1], total[order])


@dataclass(frozen=True, eq=False, kw_only=True)
class Part(ABC):
    """One scaled part of W, ``scale * part`` (n_query_terms, n_doc_terms).

    A new part is a dataclass with these methods and a line in ``PARTS`` in ``value.py``. Its fields are saved. Concrete
    methods here hold for a W of any form; special forms override them.

    Examples
    --------
    >>> from tercet.weights import Identity
    >>> part = Identity(n_terms=3, scale=2.0)
    >>> isinstance(part, Part), part.shape, part.block(np.array([0, 1]), np.array([1])).tolist()
    (True, (3, 3), [[0.0], [2.0]])
    """

    kind: ClassVar[str]
    shape_lengths: ClassVar[tuple[str, str]] = ("n_query_terms", "n_doc_terms")
    scale: float = 1.0

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """Number of stored numbers."""

    @abstractmethod
    def expand(self, Q: Matrix) -> Any:
        """Return rows ``q'W`` (n_q, n_doc_terms), sparse for a sparse W, dense for a dense W."""

    @abstractmethod
    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        """``W[query_terms][:, doc_terms]``, dense, without a scale of the query or the document."""

    def score(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        """All scores (n_q, n_d), dense, in double precision."""
        return score_expanded(self.expand_block, Q, D)

    def expand_block(self, Q: Matrix) -> Any:
        """Return ``expand`` in the faster form for scoring: sparse or dense."""
        return self.expand(Q)

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        """Scores (n,) of row i of Q with row i of D."""
        expanded = self.expand(Q)
        if sparse.issparse(expanded):
            return np.asarray(expanded.multiply(D.astype(np.float64)).sum(axis=1)).ravel()
        return np.asarray(D.astype(np.float64).multiply(expanded).sum(axis=1)).ravel()

    def doc_scale(self, D: Matrix) -> NDArray[np.float64] | None:
        """Return a factor for each document's scores (n_d,), or None."""
        return None

    def query_scale(self, Q: Matrix) -> NDArray[np.float64] | None:
        """Return a factor for each query's scores (n_q,), or None."""
        return None

    def pairs(self, q: Matrix, d: Matrix) -> Pairs:
        """Return the pairs with a nonzero contribution to the score of the one-row matrices q and d."""
        block = self.block(q.indices, d.indices)
        contribution = q.data[:, None].astype(np.float64) * block * d.data[None, :].astype(np.float64)
        for scale in (self.query_scale(q), self.doc_scale(d)):
            if scale is not None:
                contribution *= scale
        a, b = np.nonzero(contribution)
        return Pairs(q.indices[a].astype(np.int32), d.indices[b].astype(np.int32), contribution[a, b])

    def plain(self) -> Part:
        """Return the same W as an identity, a diagonal, a dense, a sparse or a low-rank part.

        Raises `MemoryLimitError` if too large.
        """
        return self

    def scaled(self, factor: float) -> Self:
        """Return the part with its scale multiplied by ``factor``; arrays are shared."""
        copied = copy(self)
        object.__setattr__(copied, "scale", self.scale * factor)
        return copied

    def grown(self, n_query_terms: int, n_doc_terms: int) -> Part | None:
        """Return W with rows and columns of zeros appended; an identity grows instead. None leaves it to `Mapped`."""
        return None

    def ungrown(self, n_added: int) -> Part:
        """Return the part without the last rows and columns of a low-rank W, if added by `grown`."""
        return self

    # -- its form -----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the part in printed weights."""
        return type(self).__name__

    @property
    def is_diagonal(self) -> bool:
        """True if words are paired with themselves only, in one vocabulary."""
        return False

    @property
    def is_sparse(self) -> bool:
        """True if the entries of W are stored singly, or form a diagonal, perhaps behind word maps."""
        return False

    @property
    def is_low_rank(self) -> bool:
        """True if `plain` returns a low-rank part."""
        return False

    @property
    def inner(self) -> Part | None:
        """The part behind word maps, or None."""
        return None

    @property
    def innermost(self) -> Part:
        """The part behind all maps; a mapped part may hold another."""
        return self

    @property
    def identity(self) -> float | None:
        """Weight of the identity, if the part is an identity."""
        return None

    @property
    def diagonal(self) -> NDArray[np.float64] | None:
        """The learned diagonal, if the part is a diagonal."""
        return None

    @property
    def matrix(self) -> Matrix | None:
        """W as CSR, unless the part is an identity, a diagonal or of low rank.

        Raises `MemoryLimitError` if too large.
        """
        plain = self.plain()
        return plain.matrix if plain is not self else None

    def expand_entries(self, Q: Matrix) -> CsrRows:
        """``expand`` as the arrays of sparse rows, without the cost of a matrix if possible."""
        expanded = self.expand_block(Q)
        if not sparse.issparse(expanded):
            expanded = sparse.csr_array(expanded)
        return CsrRows(expanded.indptr, expanded.indices, expanded.data)

    # -- seen through word maps ---------------------------------------------------------------------------------

    def through(self, A: Matrix, B: Matrix, tied: bool, scale: float) -> Part:
        """Return ``scale * A W B`` as a plain part; the part's own scale is left out. ``tied``: A is B transposed."""
        raise NotImplementedError(f"{self.name} is no plain part")

    def row_entries(self, per_doc_term: NDArray[Any]) -> NDArray[Any] | None:
        """Return a bound of the entries in each row of ``W B``, for ``per_doc_term[j]`` entries in row j of B; None for
        all.
        """
        return None

    def sharing(self, others: Sequence[Part]) -> Part:
        """Return the part; a mapped part shares its inner part with an equal inner part among the others."""
        return self


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only array; an array that the caller can still change is copied."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Return True for two nonempty arrays with the same bits."""
    if a is b:
        return True
    if not a.size or a.dtype != b.dtype or a.shape != b.shape:
        return False
    first, second = (np.ascontiguousarray(array).ravel().view(np.uint8) for array in (a, b))
    return bool((first[:4096] == second[:4096]).all()) and np.array_equal(first, second)


def check_finite(array: NDArray[Any], what: str) -> None:
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{what}{list(index)} is {array[index]}; weights are finite")


def frozen_single(array: Any, what: str, n_axes: int) -> NDArray[np.float32]:
    """Return a read-only float32 array, the form of saved parts."""
    with np.errstate(over="ignore"):
        single = np.asanyarray(array, dtype=np.float32)  # a mapped array stays mapped
    if single.ndim != n_axes:
        raise InputError(f"{what} has shape {single.shape}; expected {n_axes} axes")
    check_finite(single, what)
    return frozen(single)


def frozen_csr(matrix: Any, name: str) -> Matrix:
    """Return a read-only float32 copy in canonical form: sorted distinct columns in each row, no zeros."""
    canonical = sparse.csr_array(matrix, dtype=np.float32, copy=True)
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    check_finite(canonical.data, f"{name}.data")
    canonical.indptr, canonical.indices = canonical.indptr.astype(np.int64), canonical.indices.astype(np.int32)
    for array in (canonical.data, canonical.indices, canonical.indptr):
        array.flags.writeable = False
    return canonical


def widened(matrix: Matrix, n_rows: int, n_columns: int) -> Matrix:
    """Append empty rows and columns to a CSR matrix."""
    indptr = np.pad(matrix.indptr, (0, n_rows - matrix.shape[0]), mode="edge")
    return sparse.csr_array((matrix.data, matrix.indices, indptr), shape=(n_rows, n_columns))


def row_blocks(n: int, m: int, *, most_entries: int | None = None) -> Iterator[slice]:
    """Yield slices of rows of an (n, m) matrix, each with ``most_entries`` entries; by default 64 MiB in float64."""
    height = max(1, (most_entries or _BLOCK_BYTES // 8) // max(1, m))
    return (slice(start, min(start + height, n)) for start in range(0, n, height))
