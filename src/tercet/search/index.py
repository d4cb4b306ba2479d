"""An index of documents that any model over the same vocabulary searches, exactly and with reasons."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from tercet.errors import InputError, MissingBundleError
from tercet.model import TextExplanation, TextModel
from tercet.search.best import best
from tercet.search.documents import (
    Docs,
    Progress,
    checked_rows,
    merged,
    segments_of_rows,
    segments_of_texts,
    tiered,
)
from tercet.search.folder import Committed, Folder, check_fits, vectoriser_fingerprint
from tercet.search.results import Hit, Results, Run, Source
from tercet.search.scorer import Scorer
from tercet.search.segment import MOST_DOCS, Segment
from tercet.search.view import View
from tercet.search.writing import Writer, added, found_factors, opened, without, writing
from tercet.weights import Explanation, Weights


class Index:
    """Documents, ready to be searched. Make one with `build`, or read one with `open`.

    Answers are exact: those of scoring every document, for every kind of weights. Ties go to the document that came
    first. A document that has none of the words to which the query gives weight is never found; with a low-rank part
    every document with a known word is a candidate. A query without a known word finds nothing.

    Documents may be added, replaced and removed. An index on disk changes as a whole or not at all, one writer at a
    time, and whoever has it open keeps what it has until `refresh`. Threads may search at the same time.

    Examples
    --------
    >>> from tercet import TextModel, Vectoriser
    >>> from tercet.weights import Identity
    >>> docs = {"a": "green avocado", "b": "green eyes", "c": "blue sky"}
    >>> words = Vectoriser().fit(docs.values())
    >>> model = TextModel(words, words, Weights([Identity(n_terms=len(words.words_))]))
    >>> index = Index.build(docs, model)
    >>> [(hit.doc_id, round(hit.score, 2)) for hit in index.search("green avocados", k=5)]
    [('a', 0.61), ('b', 0.61)]
    >>> index.search("green avocados").unknown
    ('avocados',)
    """

    def __init__(self, model: TextModel | Weights, committed: Committed, view: View, folder: Folder | None) -> None:
        self._model, self._committed, self._view, self._folder = model, committed, view, folder
        self._changing = threading.Lock()  # held by a thread that changes the index; searches never wait

    # -- making and opening -------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        docs: Docs,
        model: TextModel,
        path: str | PathLike[str] | None = None,
        *,
        segment_docs: int = MOST_DOCS,
        keep_texts: bool = True,
        progress: Progress | None = None,
    ) -> Index:
        """Index documents.

        Parameters
        ----------
        docs : a mapping from id to text, or any iterable of (id, text), read once
        model : cuts documents and, unless `open` gets another, scores them
        path : a folder to write; an index that is there is replaced. None keeps everything in memory
        segment_docs : documents in a segment, up to 65,536; so many texts are in memory at a time
        keep_texts : whether hits can give their texts
        progress : called with the number of documents so far
        """
        _check_model(model, TextModel)
        segments = segments_of_texts(docs, model, _checked_count(segment_docs), keep_texts, progress)
        return cls._made(segments, model, path, segment_docs, keep_texts)

    @classmethod
    def build_rows(
        cls,
        ids: Sequence[str],
        D: Any,
        model: TextModel | Weights,
        path: str | PathLike[str] | None = None,
        *,
        segment_docs: int = MOST_DOCS,
        texts: Sequence[str] | None = None,
    ) -> Index:
        """Index documents that are rows of a matrix already; with `Weights` there are no words, only columns."""
        _check_model(model, TextModel | Weights)
        segments = segments_of_rows(ids, D, _n_terms(model), _checked_count(segment_docs), texts)
        return cls._made(segments, model, path, segment_docs, texts is not None)

    @classmethod
    def _made(
        cls,
        segments: Iterable[Segment],
        model: TextModel | Weights,
        path: str | PathLike[str] | None,
        segment_docs: int,
        keeps_texts: bool,
    ) -> Index:
        committed = Committed(vectoriser_fingerprint(model), "", "", segment_docs, keeps_texts, 0, ())
        folder = None if path is None else Folder(path)
        scorer = Scorer(_weights(model))
        with _prepared(folder), writing(folder) as before:
            if folder is not None:
                committed = _begun(folder, committed, before, model)
            writer = Writer(folder, committed, scorer)
            committed, view = writer.commit(added((), segments, writer, False))
        return Index(model, committed, view, folder)

    @classmethod
    def open(cls, path: str | PathLike[str], model: TextModel | Weights | None = None, verify: bool = True) -> Index:
        """Read an index; its arrays stay on disk and are mapped.

        Parameters
        ----------
        path : its folder
        model : another model than the one it was made with; its documents must be cut and weighted the same way.
            Latent documents that are not on disk for it are worked out, see `save_factors`
        verify : check every byte; False opens at once and leaves damage unnoticed
        """
        if model is not None:
            _check_model(model, TextModel | Weights)
        folder = Folder(path)

        def read(committed: Committed) -> Index:
            own = folder.read_model(committed) if model is None else model
            check_fits(own, committed.vectoriser, str(path))
            scorer = Scorer(_weights(own))
            return Index(own, committed, opened(folder, committed, scorer, verify), folder)

        return folder.consistently(read)

    def with_model(self, model: TextModel | Weights) -> Index:
        """The same documents for another model over the same vocabulary; nothing is copied."""
        _check_model(model, TextModel | Weights)
        if not _same_words(model, self._model):
            check_fits(model, self._committed.vectoriser, "the index")
        scorer, committed, view = Scorer(_weights(model)), self._committed, self._view
        entries = view.entries
        if scorer.fingerprint != view.scorer.fingerprint:  # else its latent documents are those that are here
            entries = tuple(
                replace(entry, factors=found_factors(self._folder, entry.segment, scorer, True)) for entry in entries
            )
        return Index(model, committed, View(entries, scorer), self._folder)

    def refresh(self) -> bool:
        """See what writers have committed since; whether there was anything."""
        if self._folder is None or self._folder.committed().digest == self._committed.digest:
            return False
        before = self._committed
        committed, view = self._folder.consistently(self._reread)
        if self._committed is before:  # else a thread has changed the index through this object since, and sees more
            self._committed, self._view = committed, view
        return True

    def _reread(self, committed: Committed) -> tuple[Committed, View]:
        assert self._folder is not None
        check_fits(self._model, committed.vectoriser, str(self._folder.path))
        view = self._view
        return committed, opened(self._folder, committed, view.scorer, True, view.entries)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index to a folder of its own; `open` and ``tc.load`` give it back."""
        folder = Folder(path)
        if self._folder is not None and folder.path.resolve() == self._folder.path.resolve():
            raise InputError(f"{path} is where the index is kept; it is saved already")
        with _prepared(folder), writing(folder) as before:
            committed = _begun(folder, self._committed, before, self._model)
            writer = Writer(folder, committed, self._view.scorer)
            writer.commit([replace(writer.put(entry.segment), dead=entry.dead) for entry in self._view.entries])

    def save_factors(self) -> None:
        """Keep the latent documents of this model on disk, so that opening the index with it finds them there."""
        with self._writing() as writer:
            for entry in self._view.entries:
                writer.keep_factors(entry.segment, entry.factors)

    # -- what is in it ------------------------------------------------------------------------------------------

    @property
    def model(self) -> TextModel | Weights:
        """What it scores with."""
        return self._model

    @property
    def n_segments(self) -> int:
        return len(self._view.entries)

    def __len__(self) -> int:
        return len(self._view)

    def __contains__(self, doc_id: object) -> bool:
        return isinstance(doc_id, str) and self._view.find(doc_id) is not None

    def __iter__(self) -> Iterator[str]:
        """The ids, in the order in which the documents came."""
        return self._view.ids()

    def __repr__(self) -> str:
        where = "in memory" if self._folder is None else str(self._folder.path)
        return f"Index({len(self):,} documents, {_n_terms(self._model):,} words, {where})"

    def row(self, doc_id: str) -> sparse.csr_array:
        """The words of a document as the index has them, a row of a matrix (1, n_terms)."""
        view = self._view
        return view.matrix(_row(view, doc_id))

    def text(self, doc_id: str) -> str:
        """The text of a document."""
        view = self._view  # another thread may refresh between two looks at it
        empty = sparse.csr_array((1, _weights(self._model).shape[0]), dtype=np.float32)
        return Hit(doc_id, 0.0, Source(view, None, empty, ()), _row(view, doc_id)).text

    # -- searching ----------------------------------------------------------------------------------------------

    def search(self, text: str, k: int = 10, max_terms: int | None = None) -> Results:
        """The k best documents for a text, best first.

        Parameters
        ----------
        text : the query
        k : how many at most
        max_terms : look for candidates by so many words of the expanded query only, those that can count most.
            Scores stay exact; `Results.exact` and `Results.missed` say what may be missing
        """
        model, Q = self._query(text)
        unknown = tuple(model.query_vectoriser.unknown_words(text))
        return self._results(Source(self._view, model, Q, unknown), _checked_count(k, "k"), max_terms)

    def search_row(self, q: Any, k: int = 10, max_terms: int | None = None) -> Results:
        """`search` for a query that is a row of a matrix already."""
        Q = checked_rows(q, "q", _weights(self._model).shape[0])
        if Q.shape[0] != 1:
            raise InputError(f"q must be one row; got {Q.shape[0]}")
        model = self._model if isinstance(self._model, TextModel) else None
        return self._results(Source(self._view, model, Q, ()), _checked_count(k, "k"), max_terms)

    def search_many(self, queries: Mapping[str, str], k: int = 100, max_terms: int | None = None) -> Run:
        """A run for many queries: qid -> doc_id -> score, best first; a query that finds nothing has an empty dict."""
        model, view = self._text_model(), self._view
        _checked_count(k, "k")
        _check_max_terms(max_terms)
        run = Run(dict(queries), model)
        Q = model.queries(list(queries.values()))
        qids = iter(queries)
        for block in view.scorer.expand(Q):
            found = best(view, block, k, max_terms)
            ids = iter(view.doc_ids(np.concatenate([rows for rows, _, _ in found])))
            for _, scores, _ in found:
                run[next(qids)] = {next(ids): score for score in scores.tolist()}
        for qid, n_known in zip(queries, np.diff(Q.indptr), strict=True):
            if not n_known:
                run[qid] = {}  # low-rank parts would rank all documents for it, all with zero
        return run

    def _results(self, source: Source, k: int, max_terms: int | None) -> Results:
        _check_max_terms(max_terms)
        if not source.query.nnz:
            return Results(unknown=source.unknown)
        [query] = source.view.scorer.expand(source.query)
        [(rows, scores, missed)] = best(source.view, query, k, max_terms)
        hits = [
            Hit(doc_id, score, source, row)
            for doc_id, score, row in zip(source.view.doc_ids(rows), scores.tolist(), rows.tolist(), strict=True)
        ]
        return Results(hits, source.unknown, missed is None, missed or 0.0)

    # -- explaining ---------------------------------------------------------------------------------------------

    def explain(self, text: str, doc_id: str) -> TextExplanation:
        """Why a document gets its score for a text: pairs of words and what each adds."""
        source = self._source(text)
        return source.why(_row(source.view, doc_id))

    def versus(self, text: str, doc_id: str, other: str) -> TextExplanation:
        """Why one document is ahead of another: pairs of words and what each adds to the difference."""
        source = self._source(text)
        return source.versus(_row(source.view, doc_id), _row(source.view, other))

    def explain_row(self, q: Any, doc_id: str) -> Explanation:
        """`explain` for a query that is a row of a matrix, in terms of columns."""
        Q = checked_rows(q, "q", _weights(self._model).shape[0])
        source = Source(self._view, None, Q, ())
        return source.pairs(_row(source.view, doc_id))

    def _source(self, text: str) -> Source:
        model, Q = self._query(text)
        return Source(self._view, model, Q, tuple(model.query_vectoriser.unknown_words(text)))

    def _query(self, text: str) -> tuple[TextModel, sparse.csr_array]:
        model = self._text_model()
        if not isinstance(text, str):
            raise InputError(f"the query is of type {type(text).__name__}; expected a string")
        return model, model.queries([text])

    def _text_model(self) -> TextModel:
        if not isinstance(self._model, TextModel):
            raise InputError("the index has weights without words; use search_row and explain_row")
        return self._model

    # -- changing -----------------------------------------------------------------------------------------------

    def add(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents; one whose id is there is refused, and then none is added."""
        self._add(self._segments(docs, progress), False)

    def replace(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents in the place of those with the same ids, where there are any; they come last from now on."""
        self._add(self._segments(docs, progress), True)

    def add_rows(self, ids: Sequence[str], D: Any, texts: Sequence[str] | None = None) -> None:
        """`add` for documents that are rows of a matrix already."""
        if (texts is not None) != self._committed.keeps_texts:
            raise InputError("the index keeps texts" if texts is None else "the index keeps no texts")
        segments = segments_of_rows(ids, D, _n_terms(self._model), self._committed.segment_docs, texts)
        self._add(segments, False)

    def remove(self, doc_ids: Iterable[str]) -> None:
        """Remove documents; an id that is not there is refused, and then none is removed. `merge` frees their space."""
        if isinstance(doc_ids, str):
            raise InputError(f"remove takes ids, found the string {doc_ids!r}; pass [{doc_ids!r}]")
        with self._writing() as writer:
            view = self._view
            rows = np.unique(np.array([_row(view, doc_id) for doc_id in doc_ids], dtype=np.int64))
            self._committed, self._view = writer.commit(without(view.entries, rows))

    def merge(self) -> None:
        """Join small segments and leave out removed documents: frees their space and makes search faster."""
        with self._writing() as writer:
            entries = writer.put_new(merged(self._view.entries, self._committed.segment_docs))
            self._committed, self._view = writer.commit(entries)

    def _segments(self, docs: Docs, progress: Progress | None) -> Iterator[Segment]:
        committed = self._committed
        return segments_of_texts(docs, self._text_model(), committed.segment_docs, committed.keeps_texts, progress)

    def _add(self, segments: Iterator[Segment], replacing: bool) -> None:
        with self._writing() as writer:
            entries = added(self._view.entries, segments, writer, replacing)
            entries = writer.put_new(tiered(entries, self._committed.segment_docs))
            self._committed, self._view = writer.commit(entries)

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        """Change the index as it is now, whoever changed it last."""
        with self._changing, writing(self._folder) as before:
            if self._folder is not None:
                if before is None:
                    self._folder.remove_empty()
                    raise MissingBundleError(f"there is no index at {self._folder.path} any more")
                if before.digest != self._committed.digest:
                    self._committed, self._view = self._reread(before)
            yield Writer(self._folder, self._committed, self._view.scorer)


@contextmanager
def _prepared(folder: Folder | None) -> Iterator[None]:
    """Folders to write to; when nothing comes of it, those that were made are gone again."""
    if folder is None:
        yield
        return
    folder.prepare()
    try:
        yield
    except BaseException:
        folder.remove_empty()
        raise


def _begun(folder: Folder, committed: Committed, before: Committed | None, model: TextModel | Weights) -> Committed:
    """What a new index says before it has documents: its model is written, and no name is used again."""
    name, digest = folder.write_model(model)
    first = 0 if before is None else before.next_segment
    return replace(committed, model=name, model_digest=digest, next_segment=first, segments=())


def _row(view: View, doc_id: str) -> int:
    row = view.find(doc_id) if isinstance(doc_id, str) else None
    if row is None:
        raise InputError(f"there is no document {doc_id!r} among the {len(view):,} of the index")
    return row


def _weights(model: TextModel | Weights) -> Weights:
    return model if isinstance(model, Weights) else model.weights


def _same_words(one: TextModel | Weights, other: TextModel | Weights) -> bool:
    """Whether two models have the very same document vectoriser, so that nothing needs to be compared."""
    if isinstance(one, TextModel) and isinstance(other, TextModel):
        return one.doc_vectoriser is other.doc_vectoriser
    return False


def _n_terms(model: TextModel | Weights) -> int:
    return _weights(model).shape[1]


def _check_model(model: Any, allowed: Any) -> None:
    if not isinstance(model, allowed):
        expected = "a TextModel" if allowed is TextModel else "a TextModel or Weights"
        raise InputError(f"model is of type {type(model).__name__}; expected {expected}")


def _check_max_terms(max_terms: Any) -> None:
    if max_terms is not None:
        _checked_count(max_terms, "max_terms")


def _checked_count(count: Any, name: str = "segment_docs") -> int:
    most = MOST_DOCS if name == "segment_docs" else 2**31 - 1
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= most:
        raise InputError(f"{name} is {count!r}; expected an integer from 1 to {most}")
    return int(count)
