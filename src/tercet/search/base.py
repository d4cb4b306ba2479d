"""Base class of all indexes: search, explanations and lookup of documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer
from tercet.data.values import Record
from tercet.errors import InputError
from tercet.fitting.text_model import TextExplanation, TextModel
from tercet.kernels.rows import QueryRow
from tercet.measure.confidence import Confidence
from tercet.search.documents import Docs, Progress, checked_rows
from tercet.search.filtering import Where, checked_where
from tercet.search.promotions import By, Evidence, Promotion
from tercet.search.results import DocRows, DocumentView, Hit, Results, SearchedQuery, SearchRun, text_of
from tercet.search.scorer import ExpandedQueries
from tercet.weights import Explanation, Weights
from tercet.weights.scoring import Matrix

LEAST_SHARE: Final = 0.05  # least share of the best score for a match without a word of the query

Best = tuple[DocRows, NDArray[np.float64]]  # rows and scores, best first


class BaseIndex(ABC):
    """Documents and a model to search them with; `Index` stores documents itself, an `EngineIndex` in an engine.

    Hits and scores are the same for both, see `Index`. Only an `Index` learns words from new documents.

    Examples
    --------
    >>> from tercet import Index
    >>> index = Index.build({"a": "green tea", "b": "black tea"})
    >>> isinstance(index, BaseIndex), index.search("green tea")[0].doc_id
    (True, 'a')
    """

    can_filter: ClassVar[bool] = True  # whether `search` takes ``where``
    is_exact: ClassVar[bool] = True  # False if another document may belong among the hits
    _model: TextModel | Weights
    _view: DocumentView

    # -- where they differ --------------------------------------------------------------------------------------

    @abstractmethod
    def with_model(self, model: TextModel | Weights) -> Self:
        """Return an index of the same documents with another model over the same vocabulary."""

    @abstractmethod
    def refresh(self) -> bool:
        """Read the changes of other writers; return False without changes."""

    @abstractmethod
    def add(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents; if an id is taken, raise an error and add nothing."""

    @abstractmethod
    def replace(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents, in place of documents with the same ids; new documents come last in the order."""

    @abstractmethod
    def remove(self, doc_ids: Iterable[str]) -> None:
        """Remove documents; if an id is missing, raise an error and remove nothing."""

    def promote(
        self, model: TextModel | Weights, by: By = "hand", evidence: Evidence | None = None, over: str | None = None
    ) -> Promotion:
        """Make another model the model of the index."""
        raise InputError(f"{self!r} has no promotions; open it with another model, or index the documents anew")

    def take_back(self) -> Promotion:
        """Undo the last promotion."""
        raise InputError(f"{self!r} has no promotions, so there is none to take back")

    # -- what is in it ------------------------------------------------------------------------------------------

    @property
    def promotions(self) -> tuple[Promotion, ...]:
        """Promotions of the index, the oldest first."""
        return ()

    def former_model(self) -> TextModel | Weights | None:
        """Model before the last promotion; None without a stored former model."""
        return None

    @property
    def model(self) -> TextModel | Weights:
        """Model for scores."""
        return self._model

    @property
    def given_model(self) -> TextModel | Weights:
        """Model as opened, without the words of documents added since."""
        return self._model

    def _current(self) -> tuple[TextModel | Weights, DocumentView]:
        """Return model and documents of one version."""
        return self._model, self._view

    @property
    def digest(self) -> str:
        """Digest of documents and model on disk; empty for an index in memory."""
        return ""

    def __len__(self) -> int:
        return len(self._view)

    def __contains__(self, doc_id: object) -> bool:
        return isinstance(doc_id, str) and self._view.find(doc_id) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over ids in the order of addition."""
        return self._view.ids()

    def row(self, doc_id: str) -> sparse.csr_array:
        """Return the words of a document as a matrix (1, n_terms)."""
        view = self._view
        return view.matrix(row_of(view, doc_id))

    def same_row(self, other: BaseIndex, doc_id: str) -> bool:
        """Return True if a document has equal words in both indexes, or is in neither."""
        if doc_id not in self or doc_id not in other:
            return doc_id not in self and doc_id not in other
        row, other_row = self.row(doc_id), other.row(doc_id)
        return all(np.array_equal(getattr(row, name), getattr(other_row, name)) for name in ("indices", "data"))

    def text(self, doc_id: str) -> str:
        """The text of a document."""
        view = self._view  # read once: another thread may replace the view
        return text_of(doc_id, view.text(row_of(view, doc_id)))

    def stored_fields(self, doc_id: str) -> Record:
        """Return the stored fields of a document, by column."""
        view = self._view
        return view.stored_fields(row_of(view, doc_id))

    def has_column(self, column: str) -> bool:
        """Return True if `search` can filter by a stored field."""
        return self._view.has_column(column)

    # -- searching ----------------------------------------------------------------------------------------------

    def search(
        self,
        text: str,
        k: int = 10,
        *,
        cutoff: bool = True,
        where: Where | None = None,
    ) -> Results:
        """Return the k best documents for a text, best first, down to the last match.

        Parameters
        ----------
        text : text of the query
        k : largest number of hits
        cutoff : end the list at the last match. A match has a word of the query or at least a twentieth of the best
            score, without numbers of documents. False fills the list, as in `search_many`
        where : filter by stored fields, column -> values: documents with one of the values in every column. An index
            in an engine has no filters
        """
        return self._results(self._searched(text, where), check_integer(k, "k"), cutoff)

    def search_row(self, q: Any, k: int = 10, *, cutoff: bool = False, where: Where | None = None) -> Results:
        """Search with a query row instead of a text; the list is not cut off by default."""
        searched = self._searched_row(q, where)
        return self._results(searched, check_integer(k, "k"), cutoff)

    def hits_of(self, q: Any, doc_ids: Sequence[str]) -> list[Hit]:
        """Return documents as hits of a query row, with the scores of a search."""
        searched = self._searched_row(q)
        view, Q = searched.view, searched.row
        rows = np.array([row_of(view, doc_id) for doc_id in doc_ids], dtype=np.int64)
        scores = self._scores(view, Q, view.scorer.expanded(Q), rows, doc_ids)
        listed = zip(doc_ids, scores.tolist(), rows.tolist(), strict=True)
        return [Hit(doc_id, score, searched, row) for doc_id, score, row in listed]

    def search_many(self, queries: Mapping[str, str], k: int = 100) -> SearchRun:
        """Return a run of many queries: qid -> doc_id -> score, best first; empty without hits."""
        current, view = self._current()
        model = _with_texts(current)
        check_integer(k, "k")
        if not isinstance(queries, Mapping):
            raise InputError(f"queries is of type {type(queries).__name__}; expected texts by id")
        run = SearchRun(dict(queries), model)
        run.update((qid, {}) for qid in queries)
        Q = model.queries(list(queries.values()))
        worded = np.diff(Q.indptr) > 0  # without words, low-rank parts would rank all documents with score zero
        qids = iter([qid for qid, has_words in zip(queries, worded.tolist(), strict=True) if has_words])
        asked = Q if worded.all() else Q[worded]
        n_before = 0
        for block in view.scorer.expand(asked):
            answers = self._best(view, asked[n_before : n_before + len(block)], block, k)
            n_before += len(block)
            ids = iter(view.doc_ids(np.concatenate([rows for rows, _ in answers])))
            for _, scores in answers:
                run[next(qids)] = {next(ids): score for score in scores.tolist()}
        return run

    def calibrate(self, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]], k: int = 10) -> Confidence:
        """Calibrate the confidence of hits and store the calibration in the index's model.

        On disk, the calibrated model is a promotion.

        Parameters
        ----------
        queries : id -> text of queries outside the training data
        qrels : grades of documents by query; a hit without a positive grade is wrong
        k : number of hits of a query, at least 2

        Examples
        --------
        >>> from tercet import Index
        >>> index = Index.build({"a": "green tea", "b": "black tea", "c": "blue sky", "d": "blue sea"})
        >>> queries = {"1": "green tea", "2": "black tea", "3": "blue", "4": "a blue sky"}
        >>> _ = index.calibrate(queries, {"1": {"a": 1}, "2": {"b": 1}, "3": {}, "4": {"c": 1}})
        >>> sure, unsure = index.search("black tea")
        >>> sure.confidence > 0.5 > unsure.confidence
        True
        """
        check_integer(k, "k", 2)
        if lacking := next((qid for qid in qrels if qid not in queries), None):
            raise InputError(f"query {lacking!r} is judged, but has no text; give queries, id -> text")
        lists = [(self.search(queries[qid], k), judged) for qid, judged in qrels.items()]
        confidence = Confidence.fit(
            [[hit.score for hit in hits] for hits, _ in lists],
            [[judged.get(hit.doc_id, 0) > 0 for hit in hits] for hits, judged in lists],
        )
        self._use(replace(_with_texts(self.given_model), confidence=confidence))
        return confidence

    def _use(self, model: TextModel) -> None:
        """Make a model the index's own."""
        self.promote(model)

    def _results(self, searched: SearchedQuery, k: int, cutoff: bool) -> Results:
        view, row, model = searched.view, searched.row, searched.model
        if not row.indices.size:
            return Results(unknown=searched.unknown)
        confidence = None if model is None else model.confidence
        n_asked = k if confidence is None else max(k, 2)  # confidence depends on the lead over the second hit
        [(rows, scores)] = self._best(view, row, view.scorer.expanded(row), n_asked)
        sure = repeat(None) if confidence is None else confidence(scores).tolist()
        rows, scores = rows[:k], scores[:k]
        n = n_matches(searched, rows, scores) if cutoff else len(rows)
        listed = zip(view.doc_ids(rows[:n]), scores.tolist(), rows.tolist(), sure, strict=False)
        hits = [Hit(doc_id, score, searched, row, value) for doc_id, score, row, value in listed]
        return Results(hits, searched.unknown, self.is_exact, len(rows) - n)

    @abstractmethod
    def _best(self, view: DocumentView, Q: Matrix | QueryRow, queries: ExpandedQueries, k: int) -> Sequence[Best]:
        """Return the best documents of each query; Q are the queries before expansion."""

    def _scores(
        self, view: DocumentView, Q: Matrix | QueryRow, query: ExpandedQueries, rows: DocRows, doc_ids: Sequence[str]
    ) -> NDArray[np.float64]:
        """Return scores of documents for a lone query, equal to the scores of `_best`."""
        return view.rescore(query, rows)

    # -- explaining ---------------------------------------------------------------------------------------------

    def explain(self, text: str, doc_id: str) -> TextExplanation:
        """Explain a document's score for a text: pairs of words and their contributions."""
        searched = self._searched(text)
        return searched.why(row_of(searched.view, doc_id))

    def versus(self, text: str, doc_id: str, other: str) -> TextExplanation:
        """Explain the lead of a document over another: pairs of words and their contributions."""
        searched = self._searched(text)
        return searched.versus(row_of(searched.view, doc_id), row_of(searched.view, other))

    def explain_row(self, q: Any, doc_id: str) -> Explanation:
        """Explain a document's score for a query row, in terms of columns."""
        model, view = self._current()
        searched = SearchedQuery(view, None, query_row(checked_rows(q, "q", weights_of(model).shape[0])), ())
        return searched.pairs(row_of(searched.view, doc_id))

    def _searched(self, text: str, where: Where | None = None) -> SearchedQuery:
        current, view = self._current()
        model = _with_texts(current)
        if not isinstance(text, str):
            many = "; search_many takes several" if isinstance(text, list | tuple | dict) else ""
            raise InputError(f"the query is of type {type(text).__name__}; expected a string{many}")
        row, unknown = model.query_vectorizer.query(text)
        return SearchedQuery(_among(view, where), model, row, unknown)

    def _searched_row(self, q: Any, where: Where | None = None) -> SearchedQuery:
        model, view = self._current()
        Q = checked_rows(q, "q", weights_of(model).shape[0])
        if Q.shape[0] != 1:
            raise InputError(f"q must be one row; got {Q.shape[0]}")
        of_text = model if isinstance(model, TextModel) else None
        return SearchedQuery(_among(view, where), of_text, query_row(Q), ())

    def _text_model(self) -> TextModel:
        return _with_texts(self._model)


def _with_texts(model: TextModel | Weights) -> TextModel:
    if not isinstance(model, TextModel):
        raise InputError("the index has weights without words; use search_row and explain_row")
    return model


def _among(view: DocumentView, where: Where | None) -> DocumentView:
    return view.filter(checked_where(where)) if where else view


def n_matches(searched: SearchedQuery, rows: DocRows, scores: NDArray[np.float64]) -> int:
    """Return the number of hits down to the last match, see `BaseIndex.search`."""
    n, any_query = len(rows), None if searched.model is None else searched.model.any_query
    if any_query is not None:  # a number of a document counts for every query: no match
        view, query = searched.view, searched.row
        by_words, by_all = (view.scorer.expanded(q) for q in (_without_column(query, any_query), query))
        scores = scores - (view.rescore(by_all, rows) - view.rescore(by_words, rows))
    best = scores.max(initial=0.0)
    if best <= 0 or scores[-1] >= LEAST_SHARE * best:
        return n
    words = set(searched.row.indices.tolist()) if same_columns(searched) else set()
    while scores[n - 1] < LEAST_SHARE * best:  # which the best is not
        if not words.isdisjoint(searched.view.terms(int(rows[n - 1])).tolist()):
            break
        n -= 1
    return n


def query_row(Q: Matrix) -> QueryRow:
    """Return the only row of a matrix."""
    return QueryRow(Q.indptr, Q.indices, Q.data, Q.shape[1])


def _without_column(row: QueryRow, column: int) -> QueryRow:
    is_kept = row.indices != column
    return QueryRow(np.array([0, int(is_kept.sum())]), row.indices[is_kept], row.data[is_kept], row.n_columns)


def same_columns(searched: SearchedQuery) -> bool:
    """Return True if queries and documents share a vocabulary."""
    model = searched.model
    n, m = searched.view.scorer.weights.shape
    return n == m if model is None else model.query_vectorizer is model.doc_vectorizer


def listed_ids(doc_ids: Iterable[str]) -> list[str]:
    """Check the ids for a removal; refuse a single string."""
    if isinstance(doc_ids, str):
        raise InputError(f"remove takes ids, found the string {doc_ids!r}; pass [{doc_ids!r}]")
    return list(doc_ids)


def row_of(view: DocumentView, doc_id: str) -> int:
    row = view.find(doc_id) if isinstance(doc_id, str) else None
    if row is None:
        raise InputError(f"there is no document {doc_id!r} among the {len(view):,} of the index")
    return row


def weights_of(model: TextModel | Weights) -> Weights:
    return model if isinstance(model, Weights) else model.weights


def same_words(one: TextModel | Weights, other: TextModel | Weights) -> bool:
    """Return True if two models have the same document vectorizer object."""
    if isinstance(one, TextModel) and isinstance(other, TextModel):
        return one.doc_vectorizer is other.doc_vectorizer
    return False


def n_terms(model: TextModel | Weights) -> int:
    return weights_of(model).shape[1]
