"""Documents in an engine as a search sees them: the engine lists candidates, the model scores them here.

Scores of candidates are those of an embedded `Index`, to the bit: rows are made of the texts that the engine keeps,
and memory is added to documents that have past queries. Documents that memory puts near the top are read by id, so a
remembered document needs no word of the query.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.values import Record
from tercet.engines.engine import PAGE, CandidateQuery, Engine, EngineDocument
from tercet.engines.lucene_query import boosted_words
from tercet.errors import EngineError, InputError
from tercet.fitting.text_model import TextModel
from tercet.kernels.rows import QueryRow
from tercet.search.base import Best
from tercet.search.documents import canonical
from tercet.search.results import DocRows
from tercet.search.scorer import ExactScores, ExpandedQueries, Scorer
from tercet.search.stored_fields import unpacked_record
from tercet.weights import Part, Weights
from tercet.weights.scoring import Matrix, as_matrix

_CANDIDATES: Final = 100  # listed for a query, at least
_MORE: Final = 10  # candidates beyond the hits that are asked for
_KEPT_CHARACTERS: Final = 2**24  # texts whose rows are kept
_QUERIES_AT_ONCE: Final = 16
_SLACK: Final = 1e-5  # relative error of sums in single precision

Row = tuple[NDArray[np.int32], NDArray[np.float32]]


class RowCache:
    """Rows of the texts that were scored last; threads share it."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Row] = OrderedDict()
        self._n_characters = 0
        self._lock = threading.Lock()

    def rows(self, texts: Sequence[str], model: TextModel) -> list[Row]:
        """Return the row of each text; the rows of new texts are made together."""
        with self._lock:
            rows = {text: self._rows[text] for text in texts if text in self._rows}
            for text in rows:
                self._rows.move_to_end(text)
        missing = [text for text in dict.fromkeys(texts) if text not in rows]
        if missing:
            D = canonical(model.docs(missing))
            for i, text in enumerate(missing):
                entries = slice(D.indptr[i], D.indptr[i + 1])
                rows[text] = D.indices[entries].astype(np.int32), D.data[entries].astype(np.float32)
            self._keep(missing, rows)
        return [rows[text] for text in texts]

    def _keep(self, texts: Sequence[str], rows: Mapping[str, Row]) -> None:
        with self._lock:
            for text in texts:
                if text not in self._rows:
                    self._rows[text] = rows[text]
                    self._n_characters += len(text)
            while self._n_characters > _KEPT_CHARACTERS:
                oldest, _ = self._rows.popitem(last=False)
                self._n_characters -= len(oldest)


@dataclass(frozen=True, eq=False)
class EngineView:
    """A collection and a model; the row of a document is its position.

    ``documents`` are the ones that a search has read. Hits keep the view of their search, so texts and reasons of a
    hit are those of the document that was scored.
    """

    engine: Engine
    model: TextModel
    scorer: Scorer
    row_cache: RowCache = field(default_factory=RowCache)
    documents: dict[int, EngineDocument] = field(default_factory=dict)

    def for_search(self) -> EngineView:
        """Return the same view with documents of its own."""
        return replace(self, documents={})

    # -- documents ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.engine.count()

    def find(self, doc_id: str) -> int | None:
        """Read a document and return its row; None where it is not there."""
        found = self.engine.fetch([doc_id])
        self._remember(found)
        return found[0].position if found else None

    def ids(self) -> Iterator[str]:
        return self.engine.ids()

    def doc_ids(self, rows: DocRows) -> list[str]:
        return [self.documents[row].doc_id for row in rows.tolist()]

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
        return self._matrix([self.documents[row]])

    def terms(self, row: int) -> NDArray[np.int32]:
        [(terms, _)] = self.row_cache.rows([self.documents[row].text], self.model)
        return terms

    def rescore(self, query: ExpandedQueries, rows: Any) -> NDArray[np.float64]:
        """Exact scores of documents by words for a lone query."""
        return ExactScores(self.scorer, query)(self._matrix([self.documents[row] for row in rows.tolist()]))

    def _remember(self, documents: Sequence[EngineDocument]) -> None:
        self.documents.update((document.position, document) for document in documents)

    def _matrix(self, documents: Sequence[EngineDocument]) -> sparse.csr_array:
        rows = self.row_cache.rows([document.text for document in documents], self.model)
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([terms.size for terms, _ in rows], out=indptr[1:])
        terms = np.concatenate([np.empty(0, np.int32), *(terms for terms, _ in rows)])
        values = np.concatenate([np.empty(0, np.float32), *(values for _, values in rows)])
        matrix = sparse.csr_array((values, terms, indptr), shape=(len(rows), self.scorer.n_terms))
        matrix.has_canonical_format = True
        return matrix

    # -- search -------------------------------------------------------------------------------------------------

    def best(self, Q: Matrix | QueryRow, queries: ExpandedQueries, k: int, max_terms: int | None) -> list[Best]:
        """Rows and exact scores of the k best candidates of each query, best first, ties by lower row.

        The third value bounds by how much a document that is no candidate can be above the last hit: None for 0.
        """
        Q, answers = as_matrix(Q), []
        most = min(max_terms or self.engine.most_terms, self.engine.most_terms)
        for start in range(0, Q.shape[0], _QUERIES_AT_ONCE):
            block = range(start, min(start + _QUERIES_AT_ONCE, Q.shape[0]))
            scored = [QueryScores(self, Q[[i]], queries.one(i)) for i in block]
            n = max(_CANDIDATES, *(k + _MORE + each.n_lowered for each in scored))
            asked = [candidate_query(self.model, each.weights, each.q, most) for each in scored]
            listed = self.engine.candidates(asked, n)
            answers += [
                _merged(self, each, query, documents, k, n, most)
                for each, query, documents in zip(scored, asked, listed, strict=True)
            ]
        return answers

    def scores(self, q: Matrix | QueryRow, query: ExpandedQueries, rows: DocRows) -> NDArray[np.float64]:
        """Exact scores of documents for a lone query, with memory."""
        return QueryScores(self, as_matrix(q), query)([self.documents[row] for row in rows.tolist()])

    @cached_property
    def unseen(self) -> Part | None:
        """The part of W for documents without past queries; None where memory gives them no weight."""
        memory = self.model.memory
        return None if memory is None or not memory.settings.unseen else memory.unseen_part(self.scorer.n_terms)


class QueryScores:
    """Scores of documents for one query: W, and memory where a document has past queries.

    ``weights`` are those of candidates: W with the part for documents without past queries.
    """

    def __init__(self, view: EngineView, q: sparse.csr_array, query: ExpandedQueries) -> None:
        self.view, self.q, self.memory = view, q, view.model.memory
        self._words = ExactScores(view.scorer, query)
        self._unseen_words = self._words
        self.weights = view.scorer.weights
        if view.unseen is not None:
            wider = view.scorer.with_part(view.unseen)
            self.weights = wider.weights
            self._unseen_words = ExactScores(wider, query.with_part(view.unseen.expand_entries(q)))
        amounts = sparse.csr_array((1, 0)) if self.memory is None else self.memory.scores(q)
        self.amounts = dict(zip(amounts.indices.tolist(), amounts.data.tolist(), strict=True))
        self.n_lowered = sum(amount < 0 for amount in self.amounts.values())

    def __call__(self, documents: Sequence[EngineDocument]) -> NDArray[np.float64]:
        D = self.view._matrix(documents)
        if self.memory is None:
            return self._words(D)
        columns = [self.memory.ids.find(document.doc_id) for document in documents]
        remembered = np.array([column is not None for column in columns], dtype=bool)
        scores = np.empty(len(documents))
        scores[remembered] = self._words(D[remembered])
        scores[remembered] += [self.amounts.get(column, 0.0) for column in columns if column is not None]
        scores[~remembered] = self._unseen_words(D[~remembered])
        return scores

    def remembered_above(self, least: float) -> list[str]:
        """Ids of documents to which memory adds more than this, at most a page of those with the most."""
        if self.memory is None:
            return []
        above = [(amount, column) for column, amount in self.amounts.items() if amount > max(least, 0.0)]
        return [self.memory.doc_ids[column] for _, column in sorted(above, reverse=True)[:PAGE]]


def candidate_query(model: TextModel, weights: Weights, q: sparse.csr_array, most: int) -> CandidateQuery:
    """Expand a query to at most so many words, those that can count most."""
    expanded = weights.expand(q)
    vectorizer = model.doc_vectorizer
    terms, values = expanded.indices.astype(np.int64), expanded.data.astype(np.float32)
    if terms.size > most:
        strength = np.abs(values) * vectorizer.idf_[terms]
        chosen = np.sort(np.argsort(-strength, kind="stable")[:most])
        terms, values = terms[chosen], values[chosen]
    order = np.argsort(terms)
    return CandidateQuery(terms[order], values[order], boosted_words(model, q, expanded))


def _merged(
    view: EngineView,
    scored: QueryScores,
    query: CandidateQuery,
    listed: Sequence[EngineDocument],
    k: int,
    n: int,
    most: int,
) -> Best:
    """The k best of the candidates and of the documents that memory puts among them."""
    documents = {document.position: document for document in listed}
    rows = np.array(list(documents), dtype=np.int64)
    scores = scored(list(documents.values())) if documents else np.empty(0)
    sums_all = view.engine.sums_products and not view.scorer.latent and query.terms.size < most
    # The best score by words of a document that is no candidate, as far as the engine tells.
    is_full = len(listed) >= n
    ceiling = 0.0
    if is_full:
        ceiling = listed[-1].score if sums_all else float(scores.min())
    least = float(np.partition(scores, -k)[-k]) if scores.size >= k else -np.inf
    there = {document.doc_id for document in listed}
    missing = [doc_id for doc_id in scored.remembered_above(least - ceiling) if doc_id not in there]
    if missing:
        more = view.engine.fetch(missing)
        documents.update((document.position, document) for document in more)
        rows = np.concatenate([rows, np.array([document.position for document in more], dtype=np.int64)])
        scores = np.concatenate([scores, scored(more)]) if more else scores
    best = np.lexsort((rows, -scores))[:k]
    rows, scores = rows[best], scores[best]
    view._remember([documents[row] for row in rows.tolist()])
    if not is_full and (view.engine.sums_products or not view.scorer.latent):
        return rows, scores, None  # all documents with a word of the expanded query were listed
    if not sums_all:
        return rows, scores, np.inf
    above = ceiling + _SLACK * abs(ceiling) - float(scores[-1])
    return rows, scores, None if rows.size == k and above <= 0 else max(above, 0.0)


def check_documents(engine: Engine, documents: Sequence[EngineDocument]) -> None:
    """Refuse documents that an engine cannot hold."""
    for document in documents:
        if document.terms.size > engine.most_terms:
            raise InputError(
                f"document {document.doc_id!r} has {document.terms.size:,} different words; {engine.name} takes "
                f"{engine.most_terms:,}"
            )
        if document.values.size and not np.isfinite(document.values).all():
            raise EngineError(f"document {document.doc_id!r} has words whose weights are not finite")
