"""Past queries as a part of a model.

    score(q, d) = q'Wd + memory(q, d)      for a document with past queries
    score(q, d) = q'Wd + unseen · q'd      for any other document; q'd counts words

    memory(q, d) = weight · m / (m + half) + pooled · q'p_d
    m = Σ_i k(q, q_i) · r(q_i, d)
    k(q, q_i) = max(0, (cos(q, q_i) − threshold) / (1 − threshold)) ** power

``q_i`` are past queries and ``r(q_i, d)`` is the evidence of document d for q_i. The first term of memory is the kernel
expansion of a ranker over queries, with a coefficient for each pair of a past query and a document. The second is
``q'Wd`` with the document's id among the features of d: ``p_d`` is the row of W for the id, filled with the words of
the past queries of d and weighted as BM25. Documents without past queries share an id, and the weights of this id are
``unseen`` times the identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer
from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.topk import top_k
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT, Bounds, Csr, Shape
from tercet.store.strings import PackedIds, PackedStrings
from tercet.weights import Diagonal, Identity, Part, Weights
from tercet.weights.base import frozen_csr

_K1: Final = 1.2
_B: Final = 0.75  # BM25 over the pooled past queries of a document


@dataclass(frozen=True, kw_only=True)
class MemorySettings:
    """Strength and shape of memory.

    Attributes
    ----------
    weight : score of a document with very much evidence
    pooled : weight of the words of a document's past queries
    threshold : similarity above which a past query counts
    power : exponent of the similarity; a larger exponent counts near queries more
    half : evidence with half of ``weight``
    unseen : extra weight of matching words for documents without past queries

    Examples
    --------
    >>> MemorySettings(weight=2.0).power
    2.0
    """

    weight: Annotated[float, Bounds(least=0)] = 1.0
    pooled: Annotated[float, Bounds(least=0)] = 0.0
    threshold: Annotated[float, Bounds(least=0, below=1)] = 0.0
    power: Annotated[float, Bounds(above=0)] = 2.0
    half: Annotated[float, Bounds(above=0)] = 0.5
    unseen: Annotated[float, Bounds(least=0), OMIT_DEFAULT] = 0.0


@dataclass(frozen=True)
class PastQuery:
    """A reason of memory: a past query with its similarity, evidence and contribution to the score of a document.

    ``times`` is the number of clicks on the document for the query, if counted.
    """

    text: str
    similarity: float
    evidence: float
    contribution: float
    times: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class _SavedMemory:
    """Memory on disk; strings as bytes and offsets."""

    settings: MemorySettings
    n_terms: Annotated[int, Bounds(least=1)]
    n_known: Annotated[int, Bounds(least=1)]
    queries: Annotated[sparse.csr_array, Csr("n_past", "n_terms")]
    evidence: Annotated[sparse.csr_array, Csr("n_past", "n_known")]
    texts: NDArray[np.uint8]
    text_starts: NDArray[np.int64]
    doc_ids: NDArray[np.uint8]
    doc_id_starts: NDArray[np.int64]
    # Files of earlier versions have no hashes.
    doc_id_hashes: Annotated[NDArray[np.uint64] | None, Shape("n_known")] = None
    doc_id_rows: Annotated[NDArray[np.uint16] | NDArray[np.uint32] | None, Shape("n_known")] = None
    times: Annotated[NDArray[np.int32] | None, Shape(None, bounds=Bounds(least=0))] = None


class MemoryReasons(NamedTuple):
    """Reasons of memory for a document: past queries, and (column, contribution) of words.

    ``pooled`` are words of the document's past queries, ``matches`` words of a document without past queries.
    """

    past: tuple[PastQuery, ...]
    pooled: tuple[tuple[int, float], ...]
    matches: tuple[tuple[int, float], ...]

    @property
    def total(self) -> float:
        """Sum of all contributions."""
        words = sum(amount for _, amount in (*self.pooled, *self.matches))
        return sum(reason.contribution for reason in self.past) + words


@dataclass(frozen=True, eq=False)
class Memory:
    """Past queries, evidence for documents, and settings.

    Strings and read-only arrays are not copied: arrays of a file stay mapped.

    Attributes
    ----------
    texts : past queries as typed
    queries : CSR (n_past, n_terms), rows of unit length over the vocabulary of the model
    evidence : CSR (n_past, n_known), evidence of a document for a query, negative against the document
    doc_ids : id of each column of ``evidence``
    settings : strength and shape
    times : number of clicks on a document for a query, aligned with ``evidence.data``; None for uncounted evidence

    Examples
    --------
    >>> P = sparse.csr_array([[1.0, 0.0], [0.6, 0.8]])
    >>> R = sparse.csr_array([[1.0], [0.0]])
    >>> memory = Memory(("tea", "tea set"), P, R, ("a",), MemorySettings(weight=3.0))
    >>> memory.scores(sparse.csr_array([[1.0, 0.0]])).toarray().tolist()
    [[2.0]]
    """

    texts: Sequence[str]
    queries: sparse.csr_array
    evidence: sparse.csr_array
    doc_ids: Sequence[str]
    settings: MemorySettings
    times: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        if self.times is not None:
            object.__setattr__(self, "times", _aligned_times(self.evidence, self.times))
        for name in ("queries", "evidence"):
            object.__setattr__(self, name, _frozen_rows(getattr(self, name), name))
        n_past, n_known = self.evidence.shape
        if len(self.texts) != n_past or self.queries.shape[0] != n_past:
            raise InputError(
                f"memory has {len(self.texts)} texts, {self.queries.shape[0]} query rows and {n_past} rows of "
                "evidence; there must be as many of each"
            )
        if len(self.doc_ids) != n_known:
            raise InputError(f"memory has {len(self.doc_ids)} document ids for {n_known} columns of evidence")
        object.__setattr__(self, "texts", PackedStrings.pack(self.texts))
        object.__setattr__(self, "doc_ids", PackedIds.pack(self.doc_ids))
        twice = self.ids.repeated()
        if twice is not None:
            raise InputError(f"memory has the document id {twice!r} twice")

    def __repr__(self) -> str:
        return f"Memory({len(self.texts):,} past queries of {len(self.doc_ids):,} documents)"

    @property
    def ids(self) -> PackedIds:
        """``doc_ids``, with the column of each id."""
        assert isinstance(self.doc_ids, PackedIds)
        return self.doc_ids

    @cached_property
    def _by_term(self) -> sparse.csr_array:
        """Past queries by term, (n_terms, n_past)."""
        return _in_double(self.queries.T.tocsr())

    @cached_property
    def _amounts(self) -> sparse.csr_array:
        return _in_double(self.evidence)

    @cached_property
    def pooled_rows(self) -> sparse.csr_array:
        """Words of each document's past queries weighted as BM25, CSR (n_known, n_terms), rows of mean length 1."""
        return pooled_rows(self.queries, self.evidence)

    @cached_property
    def _pooled_by_term(self) -> sparse.csr_array:
        return _in_double(self.pooled_rows.T.tocsr())

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Memory as JSON values and arrays."""
        texts, ids = PackedStrings.pack(self.texts), self.ids
        return encode(
            _SavedMemory(
                settings=self.settings,
                n_terms=self.n_terms,
                n_known=len(ids),
                queries=self.queries,
                evidence=self.evidence,
                texts=texts.letters,
                text_starts=texts.starts,
                doc_ids=ids.strings.letters,
                doc_id_starts=ids.strings.starts,
                doc_id_hashes=ids.hashes,
                doc_id_rows=ids.rows,
                times=self.times,
            )
        )

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Memory:
        """Read the memory of `to_state`; raise `DamagedBundleError` for other values."""
        saved = decode(_SavedMemory, meta, arrays, where="memory")
        texts = PackedStrings(saved.texts, saved.text_starts)
        doc_ids = PackedStrings(saved.doc_ids, saved.doc_id_starts)
        texts.check("memory: texts")
        doc_ids.check("memory: doc_ids")
        if saved.doc_id_hashes is None or saved.doc_id_rows is None:
            ids = PackedIds.pack(doc_ids)
        else:
            ids = PackedIds(doc_ids, saved.doc_id_hashes, saved.doc_id_rows)
            ids.check_order("memory")
        try:
            return cls(texts, saved.queries, saved.evidence, ids, saved.settings, saved.times)
        except InputError as error:
            raise DamagedBundleError(f"memory: {error}") from error

    @property
    def n_terms(self) -> int:
        """Number of words of past queries."""
        return int(self.queries.shape[1])

    def cosine(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Cosine of queries and past queries, CSR (n_queries, n_past); columns after the words are left out."""
        return self._words(Q) @ self._by_term

    def similarity(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Kernel values of queries and past queries, CSR (n_queries, n_past)."""
        kernel = self.cosine(Q)
        kernel.data = kernel_values(kernel.data, self.settings.threshold, self.settings.power)
        kernel.eliminate_zeros()
        return kernel

    def scores(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Memory of each known document for each query, CSR (n_queries, n_known)."""
        scores = self.similarity(Q) @ self._amounts
        scores.data = self.settings.weight * saturated(scores.data, self.settings.half)
        if self.settings.pooled:
            scores = scores + self.settings.pooled * (self._words(Q) @ self._pooled_by_term)
        scores.sum_duplicates()
        return scores

    def unseen_part(self, n_terms: int, n_words: int | None = None) -> Part:
        """Part of W for documents without past queries alone: ``unseen`` times the identity over the words.

        Parameters
        ----------
        n_terms : columns of queries and documents
        n_words : number of leading columns of words; None for words alone
        """
        if n_words is None:
            return Identity(n_terms=n_terms, scale=self.settings.unseen)
        are_words = (np.arange(n_terms) < n_words).astype(np.float32)
        return Diagonal(weights=are_words, scale=self.settings.unseen)

    def rows_in(self, doc_ids: Iterable[str]) -> NDArray[np.int64]:
        """Position of each known document among ids; -1 for a missing document."""
        row_of = {doc_id: row for row, doc_id in enumerate(doc_ids)}
        return np.array([row_of.get(doc_id, -1) for doc_id in self.doc_ids], dtype=np.int64)

    def add_to(
        self,
        scores: NDArray[np.float64],
        Q: sparse.csr_array,
        rows: NDArray[np.int64],
        D: sparse.csr_array,
        n_words: int | None = None,
    ) -> None:
        """Add memory to the scores (n_queries, n_docs) by W, in place; ``rows`` come from `rows_in`.

        Documents outside ``rows`` have no past queries. ``n_words`` as in `unseen_part`.
        """
        remembered = self.scores(Q).tocoo()
        present = rows[remembered.col] >= 0
        scores[remembered.row[present], rows[remembered.col[present]]] += remembered.data[present]
        if not self.settings.unseen:
            return
        unseen = np.setdiff1d(np.arange(D.shape[0]), rows)
        if unseen.size:
            extra = Weights([self.unseen_part(D.shape[1], n_words)])
            scores[:, unseen] += extra.score(Q, D if unseen.size == D.shape[0] else D[unseen])

    def rank(
        self,
        weights: Weights,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        doc_ids: Sequence[str],
        k: int,
        n_words: int | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The k best documents of each query by weights and memory, in the form of `Weights.rank`."""
        check_integer(k, "k")
        k = min(k, D.shape[0])
        docs, best = np.empty((Q.shape[0], k), dtype=np.int32), np.empty((Q.shape[0], k))
        for block, scores in self.score_blocks(weights, Q, D, doc_ids, n_words):
            top_k(scores, k, docs[block], best[block])
        return docs, best

    def score_blocks(
        self, weights: Weights, Q: sparse.csr_array, D: sparse.csr_array, doc_ids: Sequence[str], n_words: int | None
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Scores of all documents by weights and memory, a block of queries at a time."""
        rows = self.rows_in(doc_ids)
        for block, scores in weights.score_blocks(Q, D):
            self.add_to(scores, Q[block], rows, D, n_words)
            yield block, scores

    def explain(
        self, Q: sparse.csr_array, doc_id: str, D: sparse.csr_array, n_words: int | None = None
    ) -> MemoryReasons:
        """Explain the memory term of a document's score: contributions of past queries and words sum to the term.

        The contribution of a past query is its share of m times the first term. ``D`` is the row of the document.
        """
        column = self.ids.find(doc_id)
        if column is None and not self.settings.unseen:
            return MemoryReasons((), (), ())
        if column is None:
            pairs = self.unseen_part(D.shape[1], n_words).pairs(Q, D)
            matches = zip(pairs.query_term.tolist(), pairs.contribution.tolist(), strict=True)
            return MemoryReasons((), (), tuple(matches))
        entries = np.flatnonzero(self.evidence.indices == column)
        rows = np.searchsorted(self.evidence.indptr, entries, side="right") - 1
        cosine = self.cosine(Q).toarray().ravel()[rows]
        evidence = self.evidence.data[entries].astype(np.float64)
        share = kernel_values(cosine, self.settings.threshold, self.settings.power) * evidence
        total = float(share.sum())
        term = self.settings.weight * float(saturated(np.array([total]), self.settings.half)[0])
        past = tuple(
            PastQuery(
                self.texts[int(rows[i])],
                float(cosine[i]),
                float(evidence[i]),
                float(share[i]) / total * term,
                None if self.times is None else int(self.times[entries[i]]),
            )
            for i in np.argsort(-np.abs(share), kind="stable")
            if share[i] and term
        )
        if not self.settings.pooled:
            return MemoryReasons(past, (), ())
        pooled = self._words(Q).multiply(self.pooled_rows[[column]]).tocoo()
        words = zip(pooled.col.tolist(), (self.settings.pooled * pooled.data).tolist(), strict=True)
        return MemoryReasons(past, tuple(words), ())

    def _words(self, Q: sparse.csr_array) -> sparse.csr_array:
        return unit_rows(Q, self.n_terms)


def kernel_values(cosine: NDArray[np.float64], threshold: float, power: float) -> NDArray[np.float64]:
    """Similarity of two queries from their cosine.

    Examples
    --------
    >>> kernel_values(np.array([0.2, 0.75, 1.0]), threshold=0.5, power=2.0).tolist()
    [0.0, 0.25, 1.0]
    """
    # Rows in float32 have cosines of slightly more than 1.
    values: NDArray[np.float64] = np.clip((cosine - threshold) / (1 - threshold), 0.0, 1.0) ** power
    return values


def saturated(m: NDArray[np.float64], half: float) -> NDArray[np.float64]:
    """``m / (|m| + half)``: evidence for and against a document is bounded alike.

    Examples
    --------
    >>> saturated(np.array([0.5, -0.5, 4.5]), half=0.5).tolist()
    [0.5, -0.5, 0.9]
    """
    bounded: NDArray[np.float64] = m / (np.abs(m) + half)
    return bounded


def unit_rows(Q: sparse.csr_array, n_terms: int) -> sparse.csr_array:
    """The first columns of queries, their words, in double precision, as rows of unit length."""
    rows = sparse.csr_array(Q if Q.shape[1] == n_terms else Q[:, :n_terms], dtype=np.float64)
    lengths = np.sqrt(np.bincount(_row_numbers(rows), rows.data**2, minlength=rows.shape[0]))
    rows.data = rows.data / np.repeat(lengths, np.diff(rows.indptr))
    return rows


def pooled_rows(queries: sparse.csr_array, evidence: sparse.csr_array) -> sparse.csr_array:
    """Words of each document's past queries weighted as BM25, CSR (n_known, n_terms), rows of mean length 1."""
    asked = sparse.csr_array(queries, copy=True)
    asked.data[:] = 1.0
    answered = sparse.csr_array(evidence, copy=True)
    answered.data = (answered.data > 0).astype(np.float32)
    counts = sparse.csr_array(answered.T @ asked)
    counts.eliminate_zeros()
    return _bm25_rows(counts)


def _bm25_rows(counts: sparse.csr_array) -> sparse.csr_array:
    """Weight counts of words by document as BM25 rows with half of the idf; queries have the other half."""
    rows = sparse.csr_array(counts, dtype=np.float64)
    n_docs = rows.shape[0]
    frequency = np.bincount(rows.indices, minlength=rows.shape[1])
    idf = np.log1p((n_docs - frequency + 0.5) / (frequency + 0.5))
    length = np.asarray(rows.sum(axis=1)).ravel()
    held_back = _K1 * (1 - _B + _B * length / max(length.mean(), 1e-12))
    rows.data *= (_K1 + 1) / (rows.data + np.repeat(held_back, np.diff(rows.indptr)))
    rows.data *= np.sqrt(idf)[rows.indices]
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    rows.data /= max(float(np.sqrt(squares).mean()), 1e-12)
    return rows


def _in_double(matrix: sparse.csr_array) -> sparse.csr_array:
    """Convert to float64 with int32 indices, to spare SciPy a copy in each product."""
    double = sparse.csr_array(matrix, dtype=np.float64)
    if max(double.nnz, *double.shape) < 2**31:
        double.indices, double.indptr = double.indices.astype(np.int32), double.indptr.astype(np.int32)
    return double


def _frozen_rows(matrix: Any, name: str) -> sparse.csr_array:
    """Rows frozen by `frozen_csr`; frozen rows are not copied."""
    if (
        isinstance(matrix, sparse.csr_array)
        and matrix.dtype == np.float32
        and not (matrix.data.flags.writeable or matrix.indices.flags.writeable)
        and matrix.has_canonical_format
        and matrix.data.all()
        and np.isfinite(matrix.data).all()
    ):
        return matrix
    return frozen_csr(matrix, name)


def _aligned_times(evidence: Any, times: Any) -> NDArray[np.int32]:
    """Times in the order of the frozen entries of evidence; times of duplicate entries are summed."""
    counts = np.asarray(times)
    if not (sparse.issparse(evidence) and evidence.format == "csr" and counts.shape == evidence.data.shape):
        raise InputError(f"times has shape {counts.shape}; expected one number for each entry of evidence, in CSR")
    if counts.dtype.kind not in "iu" or (counts.size and not 0 <= counts.min() <= counts.max() < 2**31):
        raise InputError(f"times must be whole numbers from 0 to {2**31 - 1}; got {counts.dtype}")
    if evidence.has_canonical_format and evidence.dtype == np.float32 and evidence.data.all():
        aligned = counts
    else:
        pattern = (evidence.indices.copy(), evidence.indptr.copy())
        amounts = sparse.csr_array((evidence.data.astype(np.float32), *pattern), shape=evidence.shape)
        summed = sparse.csr_array((counts.astype(np.int64), *map(np.copy, pattern)), shape=evidence.shape)
        amounts.sum_duplicates()
        summed.sum_duplicates()
        aligned = summed.data[amounts.data != 0]
    if aligned.dtype == np.int32 and not aligned.flags.writeable:
        return aligned
    aligned = aligned.astype(np.int32)
    aligned.flags.writeable = False
    return aligned


def _row_numbers(rows: sparse.csr_array) -> NDArray[np.int64]:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
