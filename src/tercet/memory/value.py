"""Past queries as a part of a model.

    memory(q, d) = weight · m / (m + half) + pooled · q'p_d
    m = Σ_i k(q, q_i) · r(q_i, d)
    k(q, q_i) = max(0, (cos(q, q_i) − threshold) / (1 − threshold)) ** power

``q_i`` are past queries and ``r(q_i, d)`` is the evidence that document d answered q_i. The first term is the kernel
expansion of a ranker over queries, with one coefficient for each pair of a past query and a document. The second is
``q'Wd`` with the document's id among its features: ``p_d`` is the row of W that belongs to the id, filled with the
words of the past queries of d and weighted as BM25.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer
from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.topk import top_k
from tercet.store.codec import decode, encode
from tercet.store.schema import Bounds, Csr
from tercet.store.strings import PackedStrings
from tercet.weights import Weights
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
    threshold : similarity from which a past query counts
    power : exponent of the similarity; a larger one counts near queries more
    half : evidence that gets half of ``weight``

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
    unseen: Annotated[float, Bounds(least=0)] = 0.0


@dataclass(frozen=True)
class PastQuery:
    """One reason of memory: a past query, its similarity, its evidence for the document and its share of the score."""

    text: str
    similarity: float
    evidence: float
    contribution: float


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


class MemoryReasons(NamedTuple):
    """Reasons of memory for one document: past queries, and (column, contribution) of pooled words."""

    past: tuple[PastQuery, ...]
    words: tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class Memory:
    """Past queries, the documents they were answered by, and how both count.

    Attributes
    ----------
    texts : past queries as people typed them
    queries : CSR (n_past, n_terms), rows of unit length over the vocabulary of the model
    evidence : CSR (n_past, n_known), evidence that a document answered a query; negative where it did not
    doc_ids : id of each column of ``evidence``
    settings : strength and shape

    Examples
    --------
    >>> P = sparse.csr_array([[1.0, 0.0], [0.6, 0.8]])
    >>> R = sparse.csr_array([[1.0], [0.0]])
    >>> memory = Memory(("tea", "tea set"), P, R, ("a",), MemorySettings(weight=3.0))
    >>> memory.scores(sparse.csr_array([[1.0, 0.0]])).toarray().tolist()
    [[2.0]]
    """

    texts: tuple[str, ...]
    queries: sparse.csr_array
    evidence: sparse.csr_array
    doc_ids: tuple[str, ...]
    settings: MemorySettings
    times: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        for name in ("queries", "evidence"):
            object.__setattr__(self, name, frozen_csr(getattr(self, name), name))
        n_past, n_known = self.evidence.shape
        if len(self.texts) != n_past or self.queries.shape[0] != n_past:
            raise InputError(
                f"memory has {len(self.texts)} texts, {self.queries.shape[0]} query rows and {n_past} rows of "
                "evidence; there must be as many of each"
            )
        if len(self.doc_ids) != n_known:
            raise InputError(f"memory has {len(self.doc_ids)} document ids for {n_known} columns of evidence")
        if len(set(self.doc_ids)) != n_known:
            raise InputError("memory has a document id twice")

    def __repr__(self) -> str:
        return f"Memory({len(self.texts):,} past queries of {len(self.doc_ids):,} documents)"

    @cached_property
    def _by_term(self) -> sparse.csr_array:
        """Past queries by term, (n_terms, n_past)."""
        return self.queries.T.tocsr()

    @cached_property
    def pooled_rows(self) -> sparse.csr_array:
        """Words of each document's past queries weighted as BM25, CSR (n_known, n_terms), rows of mean length 1."""
        return pooled_rows(self.queries, self.evidence)

    @cached_property
    def _pooled_by_term(self) -> sparse.csr_array:
        return self.pooled_rows.T.tocsr()

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Memory as JSON values and arrays."""
        texts, doc_ids = PackedStrings.pack(self.texts), PackedStrings.pack(self.doc_ids)
        return encode(
            _SavedMemory(
                settings=self.settings,
                n_terms=self.n_terms,
                n_known=len(self.doc_ids),
                queries=self.queries,
                evidence=self.evidence,
                texts=texts.letters,
                text_starts=texts.starts,
                doc_ids=doc_ids.letters,
                doc_id_starts=doc_ids.starts,
            )
        )

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Memory:
        """Memory that `to_state` described; anything else raises `DamagedBundleError`."""
        saved = decode(_SavedMemory, meta, arrays, where="memory")
        strings = []
        for name, letters, starts in (
            ("texts", saved.texts, saved.text_starts),
            ("doc_ids", saved.doc_ids, saved.doc_id_starts),
        ):
            packed = PackedStrings(letters, starts)
            packed.check(f"memory: {name}")
            strings.append(tuple(packed.many(np.arange(len(packed)))))
        try:
            return cls(strings[0], saved.queries, saved.evidence, strings[1], saved.settings)
        except InputError as error:
            raise DamagedBundleError(f"memory: {error}") from error

    @property
    def n_terms(self) -> int:
        """Number of words that past queries are made of."""
        return int(self.queries.shape[1])

    @cached_property
    def _column_of(self) -> dict[str, int]:
        return {doc_id: column for column, doc_id in enumerate(self.doc_ids)}

    def cosine(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Cosine of queries and past queries, CSR (n_queries, n_past); columns behind the words are left out."""
        return sparse.csr_array(self._words(Q) @ self._by_term)

    def similarity(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Kernel values of queries and past queries, CSR (n_queries, n_past)."""
        kernel = self.cosine(Q)
        kernel.data = kernel_values(kernel.data, self.settings.threshold, self.settings.power)
        kernel.eliminate_zeros()
        return kernel

    def scores(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Memory of each known document for each query, CSR (n_queries, n_known)."""
        scores = sparse.csr_array(self.similarity(Q) @ self.evidence)
        scores.data = self.settings.weight * saturated(scores.data, self.settings.half)
        if self.settings.pooled:
            scores = sparse.csr_array(scores + self.settings.pooled * (self._words(Q) @ self._pooled_by_term))
        scores.sum_duplicates()
        return scores

    def rows_in(self, doc_ids: Iterable[str]) -> NDArray[np.int64]:
        """Position of each known document among other ids; -1 for a document that is not there."""
        row_of = {doc_id: row for row, doc_id in enumerate(doc_ids)}
        return np.array([row_of.get(doc_id, -1) for doc_id in self.doc_ids], dtype=np.int64)

    def add_to(self, scores: NDArray[np.float64], Q: sparse.csr_array, rows: NDArray[np.int64], D: Any = None) -> None:
        """Add memory to the scores (n_queries, n_docs) of documents, in place; ``rows`` as `rows_in` gives them."""
        if self.settings.unseen and D is not None:
            unseen = np.ones(D.shape[0], dtype=bool)
            unseen[rows[rows >= 0]] = False
            scores += self.settings.unseen * (Q @ D.T).toarray() * unseen
        remembered = self.scores(Q).tocoo()
        present = rows[remembered.col] >= 0
        scores[remembered.row[present], rows[remembered.col[present]]] += remembered.data[present]

    def rank(
        self, weights: Weights, Q: sparse.csr_array, D: sparse.csr_array, doc_ids: Sequence[str], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The k best documents of each query by weights and memory, as `Weights.rank` gives them."""
        check_integer(k, "k")
        k = min(k, D.shape[0])
        rows = self.rows_in(doc_ids)
        docs, best = np.empty((Q.shape[0], k), dtype=np.int32), np.empty((Q.shape[0], k))
        for block, scores in weights.score_blocks(Q, D):
            self.add_to(scores, Q[block], rows, D)
            top_k(scores, k, docs[block], best[block])
        return docs, best

    def explain(self, Q: sparse.csr_array, doc_id: str) -> MemoryReasons:
        """Past queries and words behind the memory of one document for one query; both sum to it.

        The contribution of a past query is its share of m times the first term.
        """
        column = self._column_of.get(doc_id)
        if column is None:
            return MemoryReasons((), ())
        evidence = self.evidence[:, [column]].toarray().ravel()
        cosine = self.cosine(Q).toarray().ravel()
        share = kernel_values(cosine, self.settings.threshold, self.settings.power) * evidence
        total = float(share.sum())
        term = self.settings.weight * float(saturated(np.array([total]), self.settings.half)[0])
        past = tuple(
            PastQuery(self.texts[row], float(cosine[row]), float(evidence[row]), float(share[row]) / total * term)
            for row in np.flatnonzero(share)[np.argsort(-np.abs(share[np.flatnonzero(share)]), kind="stable")]
            if total
        )
        row = self._words(Q)
        pooled = row.multiply(self.pooled_rows[[column]]).tocoo() if self.settings.pooled else None
        words = (
            ()
            if pooled is None
            else zip(pooled.col.tolist(), (self.settings.pooled * pooled.data).tolist(), strict=True)
        )
        return MemoryReasons(past, tuple(words))

    def _words(self, Q: sparse.csr_array) -> sparse.csr_array:
        return unit_rows(Q, self.n_terms)


def remember(
    evidence: Mapping[str, Mapping[str, float]],
    texts: Mapping[str, str],
    rows: Any,
    settings: MemorySettings,
) -> Memory:
    """Make memory of evidence by query and document.

    Parameters
    ----------
    evidence : qid -> doc_id -> evidence; queries of the same text are kept apart
    texts : text of each query
    rows : query rows of the model for these texts, in the order of ``evidence``
    settings : strength and shape

    Examples
    --------
    >>> memory = remember({"q": {"a": 2, "b": 0}}, {"q": "tea"}, sparse.csr_array([[1.0]]), MemorySettings())
    >>> memory.doc_ids, memory.evidence.toarray().tolist()
    (('a',), [[1.0]])
    """
    known: dict[str, int] = {}
    indptr, columns, values = [0], [], []
    largest = max((value for judged in evidence.values() for value in judged.values()), default=0)
    if largest <= 0:
        raise InputError("memory needs evidence above 0 for at least one document")
    for judged in evidence.values():
        for doc_id, value in judged.items():
            if value:
                columns.append(known.setdefault(doc_id, len(known)))
                values.append(value / largest)
        indptr.append(len(columns))
    matrix = sparse.csr_array(
        (np.array(values, dtype=np.float32), np.array(columns, dtype=np.int32), np.array(indptr, dtype=np.int64)),
        shape=(len(evidence), len(known)),
    )
    return Memory(tuple(texts[qid] for qid in evidence), rows, matrix, tuple(known), settings)


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
    """Counts of words by document as BM25 document rows with half of the idf; the other half is the query's."""
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


def _row_numbers(rows: sparse.csr_array) -> NDArray[np.int64]:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
