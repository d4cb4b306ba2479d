"""The one value all term-pair models are: a bilinear form as a tuple of scaled parts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer, is_integer
from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.topk import top_k
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT
from tercet.weights.base import Explanation, Part, frozen, merge_pairs, same_bits
from tercet.weights.hashed import Hashed
from tercet.weights.lowrank import LowRank, truncated_sum
from tercet.weights.mapped import Mapped
from tercet.weights.plain import Dense, Diagonal, Identity, Sparse
from tercet.weights.scoring import Matrix

# Kinds of parts in saved weights.
PARTS: dict[str, type[Part]] = {cls.kind: cls for cls in (Identity, Diagonal, Dense, Sparse, LowRank, Hashed, Mapped)}

_BLOCK_BYTES = 256 * 2**20  # a block of dense scores


class ScoringDevice(ABC):
    """Scores texts elsewhere, such as on a GPU; None leaves them to be scored here.

    Examples
    --------
    >>> class Elsewhere(ScoringDevice):
    ...     def score(self, weights, Q, D):
    ...         print("scores of", Q.shape[0], "by", D.shape[0])
    ...
    ...     def rank(self, weights, Q, D, k):
    ...         return None
    >>> with scoring_by(Elsewhere()):
    ...     Weights([Identity(n_terms=2)]).score(np.eye(2), np.eye(2)).tolist()
    scores of 2 by 2
    [[1.0, 0.0], [0.0, 1.0]]
    """

    @abstractmethod
    def score(self, weights: Weights, Q: Matrix, D: Matrix) -> NDArray[np.float64] | None:
        """Return the result of ``Weights.score``."""

    @abstractmethod
    def rank(
        self, weights: Weights, Q: Matrix, D: Matrix, k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]] | None:
        """Return the result of ``Weights.rank``, for at least k documents."""


_scorer: ContextVar[ScoringDevice | None] = ContextVar("scorer", default=None)


@contextmanager
def scoring_by(scorer: ScoringDevice) -> Iterator[None]:
    """Score and rank texts by this device within the block.

    Examples
    --------
    >>> class Busy(ScoringDevice):
    ...     score = rank = lambda self, *asked: print("asked, and left to the CPU")
    >>> with scoring_by(Busy()):
    ...     Weights([Identity(n_terms=1)]).score(np.eye(1), np.eye(1)).tolist()
    asked, and left to the CPU
    [[1.0]]
    """
    token = _scorer.set(scorer)
    try:
        yield
    finally:
        _scorer.reset(token)


@dataclass(frozen=True, eq=False)
class Weights:
    """``score(q, d) = q'Wd`` with ``W`` the sum of the parts. Immutable.

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
            if part.is_diagonal and shapes[0][0] != shapes[0][1]:
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
        inside = " + ".join(f"{p.scale:g}·{p.name}" for p in self.parts)
        return f"Weights({self.shape[0]:,} × {self.shape[1]:,}: {inside})"

    # -- scoring ------------------------------------------------------------------------------------------------

    def score(self, Q: Any, D: Any) -> NDArray[np.float64]:
        """All scores (n_q, n_d) as a dense array, in double precision; for small blocks."""
        Q, D = self._queries(Q), self._docs(D)
        scorer = _scorer.get()
        elsewhere = None if scorer is None else scorer.score(self, Q, D)
        if elsewhere is not None:
            return elsewhere
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
        scorer = _scorer.get()
        elsewhere = None if scorer is None else scorer.rank(self, Q, D, k)
        if elsewhere is not None:
            return elsewhere
        docs = np.empty((Q.shape[0], k), dtype=np.int32)
        scores = np.empty((Q.shape[0], k))
        for block, block_scores in self.score_blocks(Q, D):
            top_k(block_scores, k, docs[block], scores[block])
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
        row = np.arange(len(terms))
        unit = sparse.csr_array((np.ones(row.size), (row, terms)), shape=(row.size, self.shape[0]))
        total: NDArray[np.float64] | None = None
        for part in self.parts:
            rows = part.expand(unit)
            scale = part.query_scale(unit)  # a single word is not scaled as a query
            if total is not None and sparse.issparse(rows) and scale is None:
                rows.sum_duplicates()
                total[np.repeat(row, np.diff(rows.indptr)), rows.indices] += rows.data  # not all of the block
                continue
            rows = rows.toarray() if sparse.issparse(rows) else rows
            if scale is not None:
                rows = np.divide(rows, scale[:, None], out=np.zeros_like(rows), where=scale[:, None] > 0)
            total = rows if total is None else np.add(total, rows, out=total)
        assert total is not None
        return total

    def explain(self, q: Any, d: Any) -> Explanation:
        """Return the term pairs behind one score; their contributions sum to the score."""
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
    # The merged views add up to W. A mapped part counts as the plain part between the original words.

    @property
    def identity(self) -> float:
        """The weight of the identity."""
        return float(sum(part.identity for part in self.parts if part.identity is not None))

    @property
    def diagonal(self) -> NDArray[np.float64] | None:
        """The learned diagonal, without the identity; None when there is none."""
        diagonals = [part.diagonal for part in self.parts if part.diagonal is not None]
        return np.sum(diagonals, axis=0) if diagonals else None

    @property
    def sparse(self) -> Matrix | None:
        """All other parts than identity, diagonal and low rank, as one CSR matrix; None without such parts.

        Raises `MemoryLimitError` for a hashed or mapped part too large as a matrix.
        """
        total = None
        for part in self.parts:
            matrix = part.matrix
            if matrix is not None:
                total = matrix if total is None else total + matrix
        return total

    @property
    def query_factors(self) -> NDArray[np.float32] | None:
        """U of all low-rank parts side by side (n_query_terms, n_components), scales folded in."""
        factors = [part.query_factors * np.float32(part.scale) for part in self._low_rank()]
        return np.hstack(factors) if factors else None

    @property
    def doc_factors(self) -> NDArray[np.float32] | None:
        """V of all low-rank parts side by side (n_doc_terms, n_components)."""
        factors = [part.doc_factors for part in self._low_rank()]
        return np.hstack(factors) if factors else None

    def _low_rank(self) -> list[LowRank]:
        return [cast(LowRank, part.plain()) for part in self.parts if part.is_low_rank]

    @property
    def n_stored(self) -> int:
        """Number of stored numbers; a part behind several maps counts once."""
        inner = [part.inner for part in self.parts if part.inner is not None]
        repeated = sum(part.n_stored for part in inner) - sum(
            part.n_stored for part in {id(part): part for part in inner}.values()
        )
        return sum(part.n_stored for part in self.parts) - repeated

    @property
    def density(self) -> float:
        """Share of the entries of W other than zero; 1 with a part that is no sparse matrix."""
        if not all(part.is_sparse for part in self.parts):
            return 1.0
        W = sparse.csr_array(self.shape, dtype=np.float32) if self.sparse is None else self.sparse
        if self.identity or self.diagonal is not None:
            diagonal = np.full(self.shape[0], self.identity) + (0.0 if self.diagonal is None else self.diagonal)
            W = sparse.csr_array(W + sparse.diags_array(diagonal), dtype=np.float32)
        return float(np.count_nonzero(W.data)) / (self.shape[0] * self.shape[1])

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
        identities = [part for part in parts if part.identity is not None]
        if len(identities) > 1:
            parts = [part for part in parts if part.identity is None]
            parts.append(Identity(n_terms=self.shape[0], scale=sum(part.scale for part in identities)))
        return Weights(parts)

    def grown(self, n_more_queries: int, n_more_docs: int) -> Weights:
        """Return weights with more words at the end: each new word counts for itself, and for no other word.

        A new word has the weight of the identity, or without an identity the usual weight of a word on itself. New
        words of documents alone have no weight.

        Examples
        --------
        >>> Weights([Identity(n_terms=2, scale=0.5)]).grown(1, 1).rows(np.array([2])).tolist()
        [[0.0, 0.0, 0.5]]
        """
        shape = self.shape[0] + n_more_queries, self.shape[1] + n_more_docs
        parts = []
        for part in self.parts:
            A, B = (sparse.eye_array(n, m, format="csr") for n, m in zip(part.shape, shape, strict=True))
            parts.append(part.grown(*shape) or Mapped(A=A, B=A if A.shape == B.shape else B, part=part))
        if n_more_queries and self.identity == 0:
            new_words = np.zeros(shape[0], dtype=np.float32)
            new_words[-n_more_queries:] = unit_of(self)
            parts.append(Diagonal(weights=new_words))
        return Weights(parts)

    def compressed(self, n_components: int) -> Weights:
        """Merge all low-rank parts into one of at most ``n_components``; add up identities, diagonals and pairs.

        The mean of several models becomes as small and as fast as one model. Up to the rank of the sum W stays the
        same, to rounding; with fewer components W becomes the nearest W of this rank in squared error over all pairs of
        words (a truncated singular value decomposition). Hashed and mapped parts stay unchanged.

        Raises
        ------
        InputError : for a low-rank part that divides by the length of latent vectors (``normalize="latent"``)

        Notes
        -----
        Cost: O(n r²) for n words and r components in all.

        Examples
        --------
        >>> one, other = (
        ...     Weights([LowRank(query_factors=U, doc_factors=U)]) for U in np.eye(3, dtype=np.float32)[:2, :, None]
        ... )
        >>> ((one + other) * 0.5).compressed(2)
        Weights(3 × 3: 1·LowRank)
        """
        check_integer(n_components, "n_components", 1)
        groups: dict[str, list[Any]] = {}
        for part in self.parts:
            groups.setdefault(part.kind, []).append(part)
        parts: list[Part] = []
        for kind, alike in groups.items():
            if kind == LowRank.kind and (len(alike) > 1 or alike[0].query_factors.shape[1] > n_components):
                parts.append(truncated_sum(alike, n_components))
            elif len(alike) == 1 or kind not in _SUMS:
                parts.extend(alike)
            else:
                parts.append(_SUMS[kind](alike))
        return Weights(parts)

    # -- saving -------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return JSON-able meta and named arrays, for ``from_state``.

        Equal arrays, such as the arrays of one part behind several maps, are stored once.
        """
        metas: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        repeated: dict[str, str] = {}
        for i, part in enumerate(self.parts):
            part_meta, part_arrays = encode(part)
            metas.append(part_meta)
            for name, array in part_arrays.items():
                first = next(
                    (earlier for earlier, earlier_array in arrays.items() if same_bits(array, earlier_array)), None
                )
                if first is None:
                    arrays[f"{i}.{name}"] = array
                else:
                    repeated[f"{i}.{name}"] = first
        return encode(SavedWeights(metas, repeated or None))[0], arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Weights:
        """Rebuild weights from saved state; raise DamagedBundleError for arrays that do not fit."""
        stored = decode(SavedWeights, meta, where="weights")
        repeated = stored.repeated or {}
        arrays = {name: frozen(array) for name, array in arrays.items()}
        for name, first in repeated.items():
            if name in arrays or first not in arrays:
                raise DamagedBundleError(f"weights say that {name!r} is the array {first!r} again; it cannot be")
        arrays |= {name: arrays[first] for name, first in repeated.items()}
        parts: list[Part] = []
        for i, part_meta in enumerate(stored.parts):
            part_arrays = {name.removeprefix(f"{i}."): a for name, a in arrays.items() if name.startswith(f"{i}.")}
            part = decode(Part, part_meta, part_arrays, where=f"weights part {i}", kinds={Part: PARTS})  # type: ignore[type-abstract]
            parts.append(part.sharing(parts))
        numbers = {str(i) for i in range(len(parts))}
        unexpected = sorted(name for name in arrays if name.partition(".")[0] not in numbers)
        if unexpected:
            raise DamagedBundleError(f"weights have unexpected arrays {unexpected}")
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


@dataclass(frozen=True)
class SavedWeights:
    """Saved form of weights; the arrays of part i are named ``i.name``."""

    parts: list[Any]
    repeated: Annotated[dict[str, str] | None, OMIT_DEFAULT] = (
        None  # name of a repeated array -> name of the stored array
    )


def _sum_of_identities(parts: Sequence[Identity]) -> Identity:
    return Identity(n_terms=parts[0].n_terms, scale=sum(part.scale for part in parts))


def _sum_of_diagonals(parts: Sequence[Diagonal]) -> Diagonal:
    return Diagonal(weights=np.sum([part.diagonal for part in parts], axis=0).astype(np.float32))


def _sum_of_pairs(parts: Sequence[Dense | Sparse]) -> Part:
    total = parts[0].weights.astype(np.float64) * parts[0].scale
    for part in parts[1:]:
        total = total + part.weights.astype(np.float64) * part.scale
    return type(parts[0])(weights=total.astype(np.float32))


_SUMS: dict[str, Any] = {
    Identity.kind: _sum_of_identities,
    Diagonal.kind: _sum_of_diagonals,
    Sparse.kind: _sum_of_pairs,
    Dense.kind: _sum_of_pairs,
}


def _matrix(matrix: Any, name: str, width: int) -> Matrix:
    rows = sparse.csr_array(matrix)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise InputError(f"{name} must have {width} columns, one per term of the model; got shape {rows.shape}")
    if not rows.has_canonical_format:  # kernels need distinct words in ascending order in each row
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def unit_of(weights: Weights) -> float:
    """Return the usual weight of a word on itself, the unit of steps: the median over up to 1,000 words.

    1 for two vocabularies, or if most words have no weight on themselves.
    """
    n, m = weights.shape
    if n != m or n == 0:
        return 1.0
    terms = np.unique(np.linspace(0, n - 1, min(n, 1000)).astype(np.int64))
    ones = sparse.csr_array((np.ones(terms.size, np.float32), (np.arange(terms.size), terms)), shape=(terms.size, n))
    unit = float(np.median(np.abs(weights.score_rows(ones, ones))))
    return unit if unit > 0 and math.isfinite(unit) else 1.0
