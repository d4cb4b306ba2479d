"""A text model that learns on from clicks: what was clicked is better than what was shown and skipped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.clicks import Impression, Skipped, click_preferences, impression_problem
from tercet.data.documents import Documents
from tercet.data.lookup import RowLookup, rows_of_ids
from tercet.data.mapped_rows import Texts, take
from tercet.data.preferences import Preferences
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.learn.online import OnlineLearner, OnlineRule
from tercet.store.digest import state_digest
from tercet.text import Vectoriser
from tercet.text.vectors import Vectors

IMPRESSIONS_AT_ONCE = 256
_TEXTS_AT_ONCE = 4096
_TRIED = 1000  # documents that were shown, of which at least one must be known


@runtime_checkable
class DocumentRows(Protocol):
    """Rows of documents by their ids, one by one; an index is one."""

    def __contains__(self, doc_id: object, /) -> bool: ...

    def row(self, doc_id: str, /) -> sparse.csr_array:
        """The document's row, (1, n_doc_terms)."""
        ...


Docs = DocumentRows | Vectors | Mapping[str, str] | Iterable[tuple[str, str]]
Queries = Mapping[str, str] | Vectors


class _RowLookup(ABC):
    """Rows of documents by their ids, many at a time."""

    @abstractmethod
    def known(self, doc_ids: Sequence[str]) -> NDArray[np.bool_]:
        """Which documents there are."""

    @abstractmethod
    def rows(self, doc_ids: Sequence[str]) -> sparse.csr_array:
        """The rows of documents that there are."""


class _IndexRows(_RowLookup):
    def __init__(self, docs: DocumentRows) -> None:
        self._docs = docs

    def known(self, doc_ids: Sequence[str]) -> NDArray[np.bool_]:
        return np.array([doc_id in self._docs for doc_id in doc_ids], dtype=bool)

    def rows(self, doc_ids: Sequence[str]) -> sparse.csr_array:
        return sparse.csr_array(sparse.vstack([self._docs.row(doc_id) for doc_id in doc_ids], format="csr"))


class _NumberedRows(_RowLookup):
    """Documents that are rows of a matrix, in memory or on disk, numbered by their ids."""

    def __init__(self, texts: Texts, numbers: RowLookup) -> None:
        self._texts, self._numbers = texts, numbers

    def known(self, doc_ids: Sequence[str]) -> NDArray[np.bool_]:
        return rows_of_ids(self._numbers, doc_ids) >= 0

    def rows(self, doc_ids: Sequence[str]) -> sparse.csr_array:
        return take(self._texts, rows_of_ids(self._numbers, doc_ids))


def _text_rows(model: TextModel, docs: Mapping[str, str] | Iterable[tuple[str, str]]) -> _NumberedRows:
    """Documents in memory as a model's rows; only some thousand of the texts are held at a time."""
    if isinstance(docs, Documents):
        return _NumberedRows(model.docs(docs), {doc_id: row for row, doc_id in enumerate(docs)})
    pairs = iter(docs.items() if isinstance(docs, Mapping) else docs)
    numbers: dict[str, int] = {}
    blocks = []
    while some := list(islice(pairs, _TEXTS_AT_ONCE)):
        for doc_id, _ in some:
            if doc_id in numbers:
                raise InputError(f"the document id {doc_id!r} is there twice; each document needs its own")
            numbers[doc_id] = len(numbers)
        blocks.append(model.docs([text for _, text in some]))
    if not blocks:
        raise InputError("there are no documents to learn about")
    return _NumberedRows(sparse.csr_array(sparse.vstack(blocks, format="csr")), numbers)


def _rows_of(model: TextModel, docs: Docs) -> _RowLookup:
    if isinstance(docs, Vectors):
        _check_words(docs, docs.doc_vectoriser, model.doc_vectoriser)
        return _NumberedRows(docs.docs, docs.doc_ids)
    return _IndexRows(docs) if isinstance(docs, DocumentRows) else _text_rows(model, docs)


def _check_words(vectors: Vectors, actual: Vectoriser, expected: Vectoriser) -> None:
    if state_digest(actual) != state_digest(expected):
        raise InputError(f"{vectors.path} was made with other words than the model has; vectorise with this model")


class _QueryRows:
    """Rows of queries: an id has those of its text, or its stored ones; anything else is a text itself."""

    def __init__(self, model: TextModel, queries: Queries | None) -> None:
        self._model = model
        self._stored: Vectors | None = None
        self._texts: Mapping[str, str] = {}
        if isinstance(queries, Vectors):
            _check_words(queries, queries.query_vectoriser, model.query_vectoriser)
            self._stored = queries
        elif queries is not None:
            self._texts = queries

    def rows(self, queries: Sequence[str]) -> sparse.csr_array:
        if self._stored is None or self._stored.queries is None:
            return self._model.queries([self._texts.get(query, query) for query in queries])
        stored = self._stored.query_ids.get_many(queries)
        ids, texts = np.flatnonzero(stored >= 0), np.flatnonzero(stored < 0)
        blocks = [self._stored.queries.rows(stored[ids])] if ids.size else []
        if texts.size:
            blocks.append(self._model.queries([queries[row] for row in texts.tolist()]))
        stacked = sparse.csr_array(sparse.vstack(blocks, format="csr"))
        return stacked[np.argsort(np.concatenate([ids, texts]))]


@dataclass(frozen=True)
class ClickTally:
    """What was learned from so far.

    Attributes
    ----------
    n_impressions, n_clicked : lists of results, and those of them with a click
    n_preferences, n_violations : preferences they gave, and those that asked for a change when they came
    n_shown, n_unknown : documents that were shown, and those of them that are not among the documents
    n_wordless : impressions of queries without a word that the model knows
    n_left_out : lists of sessions that no person made, which are not among the impressions
    """

    n_impressions: int = 0
    n_clicked: int = 0
    n_preferences: int = 0
    n_violations: int = 0
    n_shown: int = 0
    n_unknown: int = 0
    n_wordless: int = 0
    n_left_out: int = 0


class ClickLearner:
    """Learns a model on from impressions; the weights it was made with stay, and one sparse part is added to them.

    Parameters
    ----------
    model : any text model
    docs : an index or a folder of vectors of the same words, which stay on disk; or id -> text, or pairs of both, kept
        as rows in memory. Documents that are not among them are passed over and counted
    queries : texts of queries by id, or vectors of the same words with queries among them, by default those of
        ``docs``; what is not an id of one is a text itself
    skipped : what a clicked document is better than, as in `click_preferences`
    rule : how far steps go
    examination : the chance that each rank is looked at, by which preferences are weighed, as in `click_preferences`

    Notes
    -----
    Impressions may come in any portions; the bits are the same.

    Examples
    --------
    >>> import tercet as tc
    >>> docs = {"a": "green avocado", "b": "avocado toast with oil"}
    >>> from tercet.text import Vectoriser
    >>> from tercet.weights import Identity, Weights
    >>> words = Vectoriser(min_df=1).fit(docs.values())
    >>> model = TextModel(words, words, Weights([Identity(n_terms=len(words.words_))]))
    >>> learner = ClickLearner(model, docs)
    >>> list(model.rank({"q": "avocado"}, docs)["q"])
    ['a', 'b']
    >>> learner.learn([Impression("avocado", ("a", "b"), ("b",))] * 100)
    >>> list(learner.model.rank({"q": "avocado"}, docs)["q"])
    ['b', 'a']
    """

    def __init__(
        self,
        model: TextModel,
        docs: Docs,
        *,
        queries: Queries | None = None,
        skipped: Skipped = "above",
        rule: OnlineRule | None = None,
        examination: Sequence[float] | None = None,
    ) -> None:
        if skipped not in ("above", "all"):
            raise InputError(f"'skipped' must be 'above' or 'all'. Got {skipped!r}.")
        self._start = model
        self._docs = _rows_of(model, docs)
        self._queries = _QueryRows(model, docs if queries is None and isinstance(docs, Vectors) else queries)
        self.skipped, self.examination = skipped, examination
        self.online = OnlineLearner(model.weights, rule, n_words=model.n_words)
        self.tally = ClickTally()

    @property
    def model(self) -> TextModel:
        """The model as it is now."""
        return replace(self._start, weights=self.online.weights)

    def learn(self, impressions: Sequence[Impression]) -> None:
        """Learn from impressions, in their order."""
        for start in range(0, len(impressions), IMPRESSIONS_AT_ONCE):
            self._learn(impressions[start : start + IMPRESSIONS_AT_ONCE])

    def _learn(self, impressions: Sequence[Impression]) -> None:
        shown = list(dict.fromkeys(doc_id for impression in impressions for doc_id in impression.shown))
        known = list(compress(shown, self._docs.known(shown)))
        doc_rows = {doc_id: row for row, doc_id in enumerate(known)}
        query_rows = {query: row for row, query in enumerate(dict.fromkeys(query for query, _, _ in impressions))}
        columns: list[tuple[int, int, int, float]] = []
        for impression in impressions:
            problem = impression_problem(impression)
            if problem is not None:
                raise InputError(f"the impression {impression}: {problem}")
            columns += [
                (query_rows[impression.query], doc_rows[better], doc_rows[worse], weight)
                for better, worse, weight in click_preferences(
                    impression.shown, impression.clicked, self.skipped, examination=self.examination
                )
                if better in doc_rows and worse in doc_rows
            ]
        Q = self._queries.rows(list(query_rows))
        n_violations = 0
        if columns:
            query, better, worse, weight = zip(*columns, strict=True)
            used, rows = np.unique(better + worse, return_inverse=True)
            D = self._docs.rows([known[row] for row in used])
            prefs = Preferences(query, rows[: len(columns)], rows[len(columns) :], weight)
            n_violations = self.online.learn(Q, prefs, D).n_violations
        wordless = np.diff(Q.indptr) == 0
        before, all_shown = self.tally, [doc_id for impression in impressions for doc_id in impression.shown]
        self.tally = ClickTally(
            before.n_impressions + len(impressions),
            before.n_clicked + sum(bool(impression.clicked) for impression in impressions),
            before.n_preferences + len(columns),
            before.n_violations + n_violations,
            before.n_shown + len(all_shown),
            before.n_unknown + sum(doc_id not in doc_rows for doc_id in all_shown),
            before.n_wordless + sum(bool(wordless[query_rows[impression.query]]) for impression in impressions),
            before.n_left_out,
        )
        self._check_known()

    def _check_known(self) -> None:
        if self.tally.n_unknown == self.tally.n_shown >= _TRIED:
            raise InputError(
                f"none of the first {self.tally.n_shown:,} documents that were shown is known; are these the documents "
                "that the log is about?"
            )
