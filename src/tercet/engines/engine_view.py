"""Searches of documents in an engine: the engine lists candidates, the model scores candidates locally.

Scores are equal to the bit to an embedded `Index`: rows are made from the texts in the engine, and memory is added to
documents with past queries. The engine also lists the documents with the largest amounts of memory, so a remembered
document needs no word of the query.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.values import Record
from tercet.engines.engine import CandidateQuery, Engine, EngineDocument, ListedDocument
from tercet.engines.lucene_query import boosted_words, expanded_weights
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.kernels.rows import QueryRow
from tercet.search.base import Best
from tercet.search.documents import canonical
from tercet.search.results import DocRows
from tercet.search.scorer import ExactScores, ExpandedQueries, Scorer
from tercet.search.stored_fields import unpacked_record
from tercet.weights import Part
from tercet.weights.scoring import Matrix, as_matrix

_CANDIDATES: Final = 150  # listed for a query, at least
_REMEMBERED: Final = 50  # documents with the largest amounts of memory that are added to the candidates
_MORE: Final = 10  # candidates beyond the requested hits
_MOST_WORDS: Final = 16  # most words of a query to an engine that scores texts with BM25
_KEPT_CHARACTERS: Final = 2**26  # of texts in the cache
_QUERIES_AT_ONCE: Final = 16

Row = tuple[NDArray[np.int32], NDArray[np.float32]]


class DocumentCache:
    """Cache of scored documents by position, each with its row; shared by threads."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, tuple[EngineDocument, Row]] = OrderedDict()
        self._n_characters = 0
        self._lock = threading.Lock()

    def documents(self, engine: Engine, listed: Sequence[ListedDocument]) -> list[EngineDocument]:
        """Return listed documents with their texts, in any order; missing documents are read."""
        with self._lock:
            cached = [self._entries[each.position][0] for each in listed if each.position in self._entries]
            missing = [each.doc_id for each in listed if each.position not in self._entries]
        return cached + engine.fetch(missing)

    def rows(self, documents: Sequence[EngineDocument], model: TextModel) -> list[Row]:
        """Return the row of each document; new rows are made together."""
        positions = [document.position for document in documents]
        with self._lock:
            rows = {position: self._entries[position][1] for position in positions if position in self._entries}
            for position in rows:
                self._entries.move_to_end(position)
        missing = [document for document in documents if document.position not in rows]
        if missing:
            D = canonical(model.docs([document.text for document in missing]))
            for i, document in enumerate(missing):
                entries = slice(D.indptr[i], D.indptr[i + 1])
                rows[document.position] = D.indices[entries].astype(np.int32), D.data[entries].astype(np.float32)
            self._keep(missing, rows)
        return [rows[position] for position in positions]

    def _keep(self, documents: Sequence[EngineDocument], rows: Mapping[int, Row]) -> None:
        with self._lock:
            for document in documents:
                if document.position not in self._entries:
                    self._entries[document.position] = document, rows[document.position]
                    self._n_characters += len(document.text)
            while self._n_characters > _KEPT_CHARACTERS:
                _, (oldest, _) = self._entries.popitem(last=False)
                self._n_characters -= len(oldest.text)


@dataclass(frozen=True, eq=False)
class EngineView:
    """Collection and model; the row of a document is its position.

    ``documents`` are the documents of a search. Hits keep the view of their search, so texts and reasons belong to the
    scored version of a document.
    """

    engine: Engine
    model: TextModel
    scorer: Scorer
    unseen: Part | None  # part of W for documents without past queries
    columns: Mapping[str, int]  # of documents in memory
    cache: DocumentCache
    documents: dict[int, EngineDocument] = field(default_factory=dict)

    @classmethod
    def build(cls, engine: Engine, model: TextModel, cache: DocumentCache | None = None) -> EngineView:
        """Prepare a model for searches; a cache of the same words may be shared."""
        scorer, memory = Scorer(model.weights), model.memory
        unseen, columns = None, {}
        if memory is not None:
            columns = {doc_id: column for column, doc_id in enumerate(memory.doc_ids)}
            unseen = memory.unseen_part(scorer.n_terms) if memory.settings.unseen else None
        return cls(engine, model, scorer, unseen, columns, cache or DocumentCache())

    def for_search(self) -> EngineView:
        """Return the same view with documents of its own."""
        return replace(self, documents={})

    # -- documents ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.engine.count()

    def find(self, doc_id: str) -> int | None:
        """Read a document and return its row, or None."""
        documents = self.engine.fetch([doc_id])
        self._remember(documents)
        return documents[0].position if documents else None

    def ids(self) -> Iterator[str]:
        return self.engine.ids()

    def doc_ids(self, rows: DocRows) -> list[str]:
        return [document.doc_id for document in self._at(rows)]

    def text(self, row: int) -> str:
        return self.documents[row].text

    def stored_fields(self, row: int) -> Record:
        document = self.documents[row]
        return unpacked_record(document.stored_fields, f"{self.engine.url}: document {document.doc_id!r}")

    def has_column(self, _column: str) -> bool:
        return False

    def filter(self, where: Mapping[str, Collection[str]]) -> EngineView:
        columns = ", ".join(repr(column[:80]) for column in where)
        raise InputError(
            f"documents that {self.engine.name} keeps cannot be filtered by stored fields; asked for {columns}"
        )

    def matrix(self, row: int) -> sparse.csr_array:
        return self.rows_of([self.documents[row]])

    def terms(self, row: int) -> NDArray[np.int32]:
        [(terms, _)] = self.cache.rows([self.documents[row]], self.model)
        return terms

    def rescore(self, query: ExpandedQueries, rows: Any) -> NDArray[np.float64]:
        """Exact scores of documents by words for a lone query."""
        return ExactScores(self.scorer, query)(self.rows_of(self._at(rows)))

    def rows_of(self, documents: Sequence[EngineDocument]) -> sparse.csr_array:
        """Return the words of documents as a matrix."""
        rows = self.cache.rows(documents, self.model)
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([terms.size for terms, _ in rows], out=indptr[1:])
        terms = np.concatenate([np.empty(0, np.int32), *(terms for terms, _ in rows)])
        values = np.concatenate([np.empty(0, np.float32), *(values for _, values in rows)])
        matrix = sparse.csr_array((values, terms, indptr), shape=(len(rows), self.scorer.n_terms))
        matrix.has_canonical_format = True
        return matrix

    def _at(self, rows: DocRows) -> list[EngineDocument]:
        return [self.documents[row] for row in rows.tolist()]

    def _remember(self, documents: Sequence[EngineDocument]) -> None:
        self.documents.update((document.position, document) for document in documents)

    # -- search -------------------------------------------------------------------------------------------------

    def best(self, Q: Matrix | QueryRow, queries: ExpandedQueries, k: int) -> list[Best]:
        """Return rows and exact scores of the k best candidates of each query, best first, ties by lower row."""
        Q, answers = as_matrix(Q), []
        for start in range(0, Q.shape[0], _QUERIES_AT_ONCE):
            block = range(start, min(start + _QUERIES_AT_ONCE, Q.shape[0]))
            scored = [QueryScores(self, Q[[i]], queries.one(i)) for i in block]
            n = max(_CANDIDATES, *(k + _MORE + each.n_lowered for each in scored))
            listed = self.engine.candidates([each.candidate_query() for each in scored], n)
            answers += [self._best_of(each, candidates, k) for each, candidates in zip(scored, listed, strict=True)]
        return answers

    def _best_of(self, scored: QueryScores, listed: Sequence[ListedDocument], k: int) -> Best:
        documents = {document.position: document for document in self.cache.documents(self.engine, listed)}
        rows = np.array(list(documents), dtype=np.int64)
        scores = scored(list(documents.values())) if documents else np.empty(0)
        best = np.lexsort((rows, -scores))[:k]
        rows, scores = rows[best], scores[best]
        self._remember([documents[row] for row in rows.tolist()])
        return rows, scores

    def scores(self, q: Matrix | QueryRow, query: ExpandedQueries, rows: DocRows) -> NDArray[np.float64]:
        """Exact scores of documents for a lone query, with memory."""
        return QueryScores(self, as_matrix(q), query)(self._at(rows))


class QueryScores:
    """Scores of documents for one query: W, and memory for documents with past queries."""

    def __init__(self, view: EngineView, q: sparse.csr_array, query: ExpandedQueries) -> None:
        self.view, self.q, self.memory = view, q, view.model.memory
        self._seen_words = ExactScores(view.scorer, query)
        self._unseen_words = self._seen_words
        self._candidate_weights = view.scorer.weights
        if view.unseen is not None:
            wider = view.scorer.with_part(view.unseen)
            self._candidate_weights = wider.weights
            self._unseen_words = ExactScores(wider, query.with_part(view.unseen.expand_entries(q)))
        amounts = sparse.csr_array((1, 0)) if self.memory is None else self.memory.scores(q)
        self._amounts: NDArray[np.float64] = amounts.data  # amount of each document in the columns of memory
        self._columns: NDArray[np.integer[Any]] = amounts.indices

    @property
    def n_lowered(self) -> int:
        """Number of documents that memory moves down the list of an engine."""
        return int((self._amounts < 0).sum())

    def __call__(self, documents: Sequence[EngineDocument]) -> NDArray[np.float64]:
        columns = np.array([self.view.columns.get(document.doc_id, -1) for document in documents], dtype=np.int64)
        scores = np.empty(len(documents))
        for is_here, words in ((columns >= 0, self._seen_words), (columns < 0, self._unseen_words)):
            rows = np.flatnonzero(is_here).tolist()
            if rows:
                scores[rows] = words(self.view.rows_of([documents[row] for row in rows]))
        amounts = dict(zip(self._columns.tolist(), self._amounts.tolist(), strict=True))
        scores += [amounts.get(column, 0.0) for column in columns.tolist()]
        return scores

    def candidate_query(self) -> CandidateQuery:
        """Expand the query to the strongest words, and name the remembered documents."""
        model, engine = self.view.model, self.view.engine
        weights = expanded_weights(self._candidate_weights, self.q)
        terms = np.empty(0, np.int64)
        words: tuple[tuple[str, float], ...] = ()
        if engine.has_vectors:
            terms = np.flatnonzero(weights)
            if terms.size > engine.most_terms:
                strength = np.abs(weights[terms]) * model.doc_vectorizer.idf_[terms]
                terms = np.sort(terms[np.argsort(-strength, kind="stable")[: engine.most_terms]])
        else:
            words = boosted_words(model, self.q, weights, _MOST_WORDS)
        doc_ids: tuple[str, ...] = ()
        if self.memory is not None:
            strongest = np.argsort(-self._amounts, kind="stable")[:_REMEMBERED]
            columns = self._columns[strongest[self._amounts[strongest] > 0]].tolist()
            doc_ids = tuple(self.memory.doc_ids[column] for column in columns)
        return CandidateQuery(terms, weights[terms], words, doc_ids)
