"""A part seen through word maps, and the list of all parts, of which it may hold any."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import BundleError, DamagedBundleError, InputError, MemoryLimitError
from tercet.store import Fields
from tercet.weights.hashed import Hashed
from tercet.weights.lowrank import LowRank
from tercet.weights.part import Part, csr_arrays, frozen_csr, take_csr, take_shape
from tercet.weights.parts import Dense, Diagonal, Identity, Sparse
from tercet.weights.scoring import Matrix, product

_MOST_ENTRIES = 10**8  # of W as a matrix: about a gigabyte


@dataclass(frozen=True, eq=False, kw_only=True)
class Mapped(Part):
    """``W = A' part B``: words are replaced by others, each by some share, and the part weighs those.

    Correlated feature hashing is this with A and B the map that `CorrelatedWords` learns. Explanations and related
    words are in terms of the original words.

    Scoring costs that of the part for the mapped texts; the texts of a call are mapped once. A pair of words costs as
    many pairs of the part as the maps have entries for the two; a row of W costs a row of the part and a look at all
    of B.

    Parameters
    ----------
    A : from query words to the part's, CSR (part's query terms, n_query_terms)
    B : from document words to the part's, CSR (part's document terms, n_doc_terms); A itself where both are alike
    part : any part, scaled or with a per-document scale as it may be

    Examples
    --------
    >>> from scipy import sparse
    >>> same = sparse.csr_array([[1.0, 1.0]])  # two words that mean the same
    >>> Mapped(A=same, B=same, part=Identity(n_terms=1)).block(np.array([0, 1]), np.array([0, 1])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    kind = "mapped"
    A: Matrix
    B: Matrix
    part: Part

    def __post_init__(self) -> None:
        tied = self.tied
        object.__setattr__(self, "A", frozen_csr(self.A, "A"))
        object.__setattr__(self, "B", self.A if tied else frozen_csr(self.B, "B"))
        if (self.A.shape[0], self.B.shape[0]) != self.part.shape:
            raise InputError(
                f"A and B map to {self.A.shape[0]} and {self.B.shape[0]} words; the {self.part.kind} part has "
                f"{self.part.shape[0]} and {self.part.shape[1]}"
            )
        if not np.isfinite(self.part.scale):
            raise InputError(f"the scale of the mapped {self.part.kind} part is {self.part.scale}; scales are finite")

    @property
    def tied(self) -> bool:
        return self.B is self.A

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[1], self.B.shape[1]

    @property
    def n_stored(self) -> int:
        return self.A.nnz + (0 if self.tied else self.B.nnz) + self.part.n_stored

    @cached_property
    def _query_words(self) -> Matrix:
        """A': what each query word is replaced by, in a row."""
        return self.A.T.tocsr()

    @cached_property
    def _doc_words(self) -> Matrix:
        return self._query_words if self.tied else self.B.T.tocsr()

    def map_queries(self, Q: Matrix) -> Matrix:
        """Rows ``Aq`` (n_q, part's query terms), in double precision."""
        return _product(Q, self._query_words)

    def map_docs(self, D: Matrix) -> Matrix:
        """Rows ``Bd`` (n_d, part's document terms), in double precision."""
        return _product(D, self._doc_words)

    def expand(self, Q: Matrix) -> Any:
        return (self.part.expand(self.map_queries(Q)) @ self.B.astype(np.float64)) * self.scale

    def score(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        return self.part.score(self.map_queries(Q), self.map_docs(D)) * self.scale

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        return self.part.score_rows(self.map_queries(Q), self.map_docs(D)) * self.scale

    def doc_scale(self, D: Matrix) -> NDArray[np.float64] | None:
        return self.part.doc_scale(self.map_docs(D))

    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        # Only the part's words that one of the terms is replaced by are looked at.
        a, b = self._query_words[query_terms].tocoo(), self._doc_words[doc_terms].tocoo()
        inner_query, row_a = np.unique(a.col, return_inverse=True)
        inner_doc, row_b = np.unique(b.col, return_inverse=True)
        inner = self.part.block(inner_query, inner_doc)
        left = sparse.csr_array((a.data.astype(np.float64), (a.row, row_a)), shape=(len(query_terms), len(inner_query)))
        right = sparse.csr_array((b.data.astype(np.float64), (row_b, b.row)), shape=(len(inner_doc), len(doc_terms)))
        return np.asarray((left @ inner) @ right) * self.scale

    @property
    def innermost(self) -> Part:
        """The part behind all maps; a mapped part may hold another."""
        return self.part.innermost if isinstance(self.part, Mapped) else self.part

    @property
    def is_thin(self) -> bool:
        """Whether W can be had as a sparse matrix of at most 10⁸ entries."""
        inner = self._flat().part
        return isinstance(inner, (Identity, Diagonal, Sparse)) and self._most_entries() <= _MOST_ENTRIES

    def plain(self) -> Part:
        """``A' part B`` as one part between the original words: of low rank where the part is, else sparse or dense.

        A sparse or dense one is refused where it has more than 10⁸ entries.
        """
        flat = self._flat()
        inner = flat.part.plain()
        scale = flat.scale * inner.scale
        A, B = flat._query_words.astype(np.float64), flat.B.astype(np.float64)
        if isinstance(inner, LowRank):
            U = (A @ inner.query_factors).astype(np.float32)
            V = U if flat.tied and inner.tied else (B.T @ inner.doc_factors).astype(np.float32)
            return LowRank(query_factors=U, doc_factors=V, typical_length=inner.typical_length, scale=scale)
        most = flat._most_entries()
        if most > _MOST_ENTRIES:
            raise MemoryLimitError(
                f"a {inner.kind} part that is mapped to {self.shape[0]:,} × {self.shape[1]:,} words may have {most:,} "
                f"entries as a matrix; {_MOST_ENTRIES:,} are allowed. Look at some with rows or related, or keep the "
                "largest with a ranker's thin"
            )
        if isinstance(inner, Dense):
            return Dense(weights=(A @ inner.weights.astype(np.float64) @ B).astype(np.float32), scale=scale)
        if isinstance(inner, Diagonal):
            A = A * inner.weights.astype(np.float64)
        elif isinstance(inner, Sparse):
            A = A @ inner.weights.astype(np.float64)
        return Sparse(weights=A @ B, scale=scale)

    def _flat(self) -> Mapped:
        """The same W with one map on each side."""
        if not isinstance(self.part, Mapped):
            return self
        inner = self.part._flat()
        A = inner.A.astype(np.float64) @ self.A
        B = A if self.tied and inner.tied else inner.B.astype(np.float64) @ self.B
        return Mapped(A=A, B=B, part=inner.part, scale=self.scale * inner.scale)

    def _most_entries(self) -> int:
        """How many entries W has at most, counted without making it."""
        per_inner_doc = np.diff(self.B.indptr)
        if isinstance(self.part, (Identity, Diagonal)):
            per_inner_query = per_inner_doc
        elif isinstance(self.part, Sparse):
            W = self.part.weights
            per_inner_query = sparse.csr_array((np.ones(W.nnz), W.indices, W.indptr), shape=W.shape) @ per_inner_doc
        else:
            return self.shape[0] * self.shape[1]
        return min(self.shape[0] * self.shape[1], int(np.diff(self.A.indptr) @ per_inner_query))

    def arrays(self) -> dict[str, NDArray[Any]]:
        groups = {"A": csr_arrays(self.A), "part": self.part.arrays()}
        if not self.tied:
            groups["B"] = csr_arrays(self.B)
        return {f"{group}.{name}": array for group, arrays in groups.items() for name, array in arrays.items()}

    def meta(self) -> dict[str, Any]:
        return super().meta() | {"tied": self.tied, "part": self.part.meta()}

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        n, m = take_shape(fields)
        tied = fields.take("tied", bool)
        if tied and n != m:
            raise DamagedBundleError(f"a mapped part has shape ({n}, {m}) and one map for both sides; it is square")
        part = part_from_state(fields.take("part", dict), arrays, "part", f"{fields.where}, mapped")
        A = take_csr(_group(arrays, "A"), (part.shape[0], n))
        B = A if tied else take_csr(_group(arrays, "B"), (part.shape[1], m))
        return cls(A=A, B=B, part=part)


def _product(X: Matrix, words: Matrix) -> Matrix:
    mapped = product(X, words)
    mapped.sort_indices()  # kernels want each word of a row once, in ascending order
    return mapped


# -- all parts ----------------------------------------------------------------------------------------------------

PARTS: dict[str, type[Part]] = {cls.kind: cls for cls in (Identity, Diagonal, Dense, Sparse, LowRank, Hashed, Mapped)}


def part_from_state(meta: Any, arrays: dict[str, NDArray[Any]], group: str, where: str) -> Part:
    """The part that ``meta`` and the arrays named ``group.…`` describe, refusing anything that does not fit."""
    fields = Fields(meta, where)
    kind = fields.take("kind", str)
    scale = fields.take("scale", (float, int))
    if kind not in PARTS:
        raise BundleError(f"{where} is of unknown kind {kind!r}; known: {', '.join(PARTS)}")
    if not abs(scale) <= sys.float_info.max:
        raise DamagedBundleError(f"{where} has a scale that no float holds")
    try:
        part = PARTS[kind].from_state(fields, _group(arrays, group)).scaled(float(scale))
    except InputError as error:
        raise DamagedBundleError(f"{where} does not fit together: {error}") from error
    fields.done()
    return part


def _group(arrays: dict[str, NDArray[Any]], group: str) -> dict[str, NDArray[Any]]:
    """The arrays named ``group.name``, as ``name``."""
    return {name.partition(".")[2]: array for name, array in arrays.items() if name.partition(".")[0] == group}
