"""The one value all term-pair models are: a bilinear form as a tuple of scaled parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer, is_integer
from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.topk import top_k
from tercet.store import Fields
from tercet.weights.explanation import Explanation, merge_pairs
from tercet.weights.lowrank import LowRank
from tercet.weights.mapped import Mapped, part_from_state
from tercet.weights.part import Part, frozen
from tercet.weights.parts import Dense, Diagonal, Identity, Sparse
from tercet.weights.scoring import Matrix

_BLOCK_BYTES = 256 * 2**20  # a block of dense scores


@dataclass(frozen=True, eq=False)
class Weights:
    """``score(q, d) = q'Wd`` with ``W`` the sum of the parts. Immutable; a reader never sees it change.

    Parameters
    ----------
    parts : one or more parts of one shape (n_query_terms, n_doc_terms)

    Examples
    --------
    >>> from scipy import sparse
    >>> weights = Weights([Identity(n_terms=2, scale=2.0)])
    >>> weights.score(sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[0.5, 1.0]])).tolist()
    [[1.0]]
    """

    parts: tuple[Part, ...]

    def __init__(self, parts: Sequence[Part]) -> None:
        if not parts:
            raise InputError("weights need at least one part")
        shapes = [part.shape for part in parts]
        for part, shape in zip(parts, shapes, strict=True):
            if shape == shapes[0]:
                continue
            if isinstance(part, (Identity, Diagonal)) and shapes[0][0] != shapes[0][1]:
                raise InputError(
                    f"{part.kind} pairs each word with itself, but the query and document vocabularies differ "
                    f"({shapes[0][0]} and {shapes[0][1]} words)"
                )
            raise InputError(f"parts must have one shape; {parts[0].kind} has {shapes[0]}, {part.kind} {shape}")
        for part in parts:
            if not np.isfinite(part.scale):
                raise InputError(f"the scale of the {part.kind} part is {part.scale}; scales are finite")
        object.__setattr__(self, "parts", tuple(parts))

    @property
    def shape(self) -> tuple[int, int]:
        """(n_query_terms, n_doc_terms)"""
        return self.parts[0].shape

    def __repr__(self) -> str:
        inside = " + ".join(f"{p.scale:g}·{_name(p)}" for p in self.parts)
        return f"Weights({self.shape[0]:,} × {self.shape[1]:,}: {inside})"

    # -- scoring ------------------------------------------------------------------------------------------------

    def score(self, Q: Any, D: Any) -> NDArray[np.float64]:
        """All scores (n_q, n_d) as a dense array, in double precision; for small blocks."""
        Q, D = self._queries(Q), self._docs(D)
        scores = self.parts[0].score(Q, D)
        for part in self.parts[1:]:
            scores += part.score(Q, D)
        return scores

    def score_rows(self, Q: Any, D: Any) -> NDArray[np.float64]:
        """Scores (n,) of row i of Q with row i of D."""
        Q, D = self._queries(Q), self._docs(D)
        if Q.shape[0] != D.shape[0]:
            raise InputError(f"Q has {Q.shape[0]} rows and D {D.shape[0]}; rows are paired, so they must agree")
        return np.sum([part.score_rows(Q, D) for part in self.parts], axis=0)

    def score_blocks(self, Q: Any, D: Any) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Scores of all documents for a block of queries at a time, in bounded memory."""
        Q, D = self._queries(Q), self._docs(D)
        height = max(1, _BLOCK_BYTES // (8 * max(1, D.shape[0])))
        for start in range(0, Q.shape[0], height):
            block = slice(start, min(start + height, Q.shape[0]))
            yield block, self.score(Q[block], D)

    def rank(self, Q: Any, D: Any, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The k best documents of each query, best first; ties by lower row. Returns (docs, scores), (n_q, k).

        k is cut to the number of documents.
        """
        check_integer(k, "k")
        Q, D = self._queries(Q), self._docs(D)
        k = min(k, D.shape[0])
        docs = np.empty((Q.shape[0], k), dtype=np.int32)
        scores = np.empty((Q.shape[0], k))
        for block, found in self.score_blocks(Q, D):
            top_k(found, k, docs[block], scores[block])
        return docs, scores

    # -- reading ------------------------------------------------------------------------------------------------

    def expand(self, Q: Any) -> Matrix:
        """Each query's weighted document words, ``q'W`` as CSR (n_q, n_doc_terms).

        A part with a per-document scale is expanded for a document of typical length.
        """
        Q = self._queries(Q)
        total = sparse.csr_array(self.parts[0].expand(Q))
        for part in self.parts[1:]:
            total = total + sparse.csr_array(part.expand(Q))
        total.sum_duplicates()
        return total

    def rows(self, terms: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Rows of W as a dense block (len(terms), n_doc_terms); for a few query terms at a time."""
        at = np.arange(len(terms))
        unit = sparse.csr_array((np.ones(at.size), (at, terms)), shape=(at.size, self.shape[0]))
        total = np.zeros((at.size, self.shape[1]))
        for part in self.parts:
            expanded = part.expand(unit)
            total += expanded.toarray() if sparse.issparse(expanded) else expanded
        return total

    def explain(self, q: Any, d: Any) -> Explanation:
        """The term pairs behind one score; their contributions sum to it."""
        q, d = self._one_row(self._queries(q), "q"), self._one_row(self._docs(d), "d")
        pairs = merge_pairs([part.pairs(q, d) for part in self.parts])
        return Explanation(score=float(self.score_rows(q, d)[0]), **pairs._asdict())

    def related(self, term: int, k: int = 10) -> list[tuple[int, float]]:
        """The k document terms with the largest weights (by size, sign kept) for one query term."""
        if not is_integer(term, 0, self.shape[0] - 1):
            raise InputError(
                f"query term {term!r} does not exist; there are {self.shape[0]} (0 to {self.shape[0] - 1})"
            )
        check_integer(k, "k")
        total = self.rows(np.array([term]))[0]
        order = np.lexsort((np.arange(total.size), -np.abs(total)))[:k]
        return [(int(j), float(total[j])) for j in order if total[j] != 0]

    # -- merged views -------------------------------------------------------------------------------------------
    # Together they are all of W. A mapped part is seen as what it is between the original words.

    @property
    def identity(self) -> float:
        """The weight of the identity."""
        return float(sum(p.scale for p in self.parts if isinstance(p, Identity)))

    @property
    def diagonal(self) -> NDArray[np.float64] | None:
        """The learned diagonal, without the identity; None when there is none."""
        found = [p.weights * np.float64(p.scale) for p in self.parts if isinstance(p, Diagonal)]
        return np.sum(found, axis=0) if found else None

    @property
    def sparse(self) -> Matrix | None:
        """All that is neither identity, diagonal nor of low rank, as one CSR matrix; None when there is nothing.

        Raises `MemoryLimitError` where a hashed or mapped part would be too large as a matrix.
        """
        total = None
        for part in self.parts:
            if isinstance(part, (Identity, Diagonal)) or isinstance(_innermost(part), LowRank):
                continue
            plain = part.plain()
            assert isinstance(plain, (Sparse, Dense))
            matrix = sparse.csr_array(plain.weights) * np.float32(plain.scale)
            total = matrix if total is None else total + matrix
        return total

    @property
    def query_factors(self) -> NDArray[np.float32] | None:
        """U of all low-rank parts side by side (n_query_terms, n_components), scales folded in."""
        found = [p.query_factors * np.float32(p.scale) for p in self._low_rank()]
        return np.hstack(found) if found else None

    @property
    def doc_factors(self) -> NDArray[np.float32] | None:
        """V of all low-rank parts side by side (n_doc_terms, n_components)."""
        found = [p.doc_factors for p in self._low_rank()]
        return np.hstack(found) if found else None

    def _low_rank(self) -> list[LowRank]:
        found = [part.plain() for part in self.parts if isinstance(_innermost(part), LowRank)]
        return [part for part in found if isinstance(part, LowRank)]

    @property
    def n_stored(self) -> int:
        """How many numbers the value keeps; a part seen through several maps counts once."""
        again = [p.part for p in self.parts if isinstance(p, Mapped)]
        once = {id(part): part for part in again}
        return (
            sum(p.n_stored for p in self.parts)
            - sum(p.n_stored for p in again)
            + sum(p.n_stored for p in once.values())
        )

    # -- combining ----------------------------------------------------------------------------------------------

    def __mul__(self, factor: float) -> Weights:
        return Weights([part.scaled(float(factor)) for part in self.parts])

    __rmul__ = __mul__

    def __add__(self, other: Weights) -> Weights:
        """A blend: the parts of both. Identities are added up."""
        if not isinstance(other, Weights):
            return NotImplemented
        if self.shape != other.shape:
            raise InputError(f"weights of shapes {self.shape} and {other.shape} cannot be blended; they must agree")
        parts = [*self.parts, *other.parts]
        identities = [p for p in parts if isinstance(p, Identity)]
        if len(identities) > 1:
            parts = [p for p in parts if not isinstance(p, Identity)]
            parts.append(Identity(n_terms=identities[0].n_terms, scale=sum(p.scale for p in identities)))
        return Weights(parts)

    # -- saving -------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON-able meta and named arrays; ``from_state`` gives the value back.

        Arrays that are the same, such as those of one part seen through several maps, are there once.
        """
        meta: dict[str, Any] = {"parts": [part.meta() for part in self.parts]}
        arrays: dict[str, NDArray[Any]] = {}
        repeated: dict[str, str] = {}
        for i, part in enumerate(self.parts):
            for name, array in part.arrays().items():
                first = next((known for known, other in arrays.items() if _same_bits(array, other)), None)
                if first is None:
                    arrays[f"{i}.{name}"] = array
                else:
                    repeated[f"{i}.{name}"] = first
        return (meta | {"repeated": repeated} if repeated else meta), arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Weights:
        """Rebuild the value, refusing anything that does not fit."""
        fields = Fields(meta, "weights")
        listed = fields.take("parts", list)
        repeated = fields.take("repeated", dict, default={})
        fields.done()
        arrays = {name: frozen(array) for name, array in arrays.items()}
        for name, first in repeated.items():
            if name in arrays or not isinstance(first, str) or first not in arrays:
                raise DamagedBundleError(f"weights say that {name!r} is the array {first!r} again; it cannot be")
        arrays |= {name: arrays[first] for name, first in repeated.items()}
        parts: list[Part] = []
        expected: set[str] = set()
        for i, part_meta in enumerate(listed):
            part = part_from_state(part_meta, arrays, str(i), f"weights part {i}")
            expected |= {f"{i}.{name}" for name in part.arrays()}
            parts.append(_sharing(part, parts))
        if set(arrays) != expected:
            raise DamagedBundleError(f"weights have unexpected arrays {sorted(set(arrays) - expected)}")
        try:
            return cls(parts)
        except InputError as error:
            raise DamagedBundleError(f"saved weights do not fit together: {error}") from error

    # -- checking -----------------------------------------------------------------------------------------------

    def _queries(self, Q: Any) -> Matrix:
        return _matrix(Q, "Q", self.shape[0])

    def _docs(self, D: Any) -> Matrix:
        return _matrix(D, "D", self.shape[1])

    @staticmethod
    def _one_row(matrix: Matrix, name: str) -> Matrix:
        if matrix.shape[0] != 1:
            raise InputError(f"{name} must be one row; got {matrix.shape[0]}")
        return matrix


def _innermost(part: Part) -> Part:
    return part.innermost if isinstance(part, Mapped) else part


def _name(part: Part) -> str:
    return f"Mapped({_name(part.part)})" if isinstance(part, Mapped) else type(part).__name__


def _sharing(part: Part, others: Sequence[Part]) -> Part:
    """The part; a mapped one with the very part that one of the others maps, where it is the same."""
    if isinstance(part, Mapped):
        own = part.part.arrays()
        for other in others:
            if isinstance(other, Mapped) and other.part.meta() == part.part.meta():
                arrays = other.part.arrays()
                if all(_same_bits(own[name], arrays[name]) for name in own):
                    return replace(part, part=other.part)
    return part


def _same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if a is b:
        return True
    if not a.size or a.dtype != b.dtype or a.shape != b.shape:
        return False
    first, second = (np.ascontiguousarray(array).ravel().view(np.uint8) for array in (a, b))
    return bool((first[:4096] == second[:4096]).all()) and np.array_equal(first, second)


def _matrix(matrix: Any, name: str, width: int) -> Matrix:
    found = sparse.csr_array(matrix)
    if found.ndim != 2 or found.shape[1] != width:
        raise InputError(f"{name} must have {width} columns, one per term of the model; got shape {found.shape}")
    if not found.has_canonical_format:  # kernels want each word of a row once, in ascending order
        found = found.copy()
        found.sum_duplicates()
    return found
