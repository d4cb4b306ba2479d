"""Exact index of documents for any model over the same vocabulary, with explanations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet._validate import check_integer
from tercet.errors import InputError, MissingBundleError
from tercet.fitting.text_model import TextModel
from tercet.kernels.rows import QueryRow
from tercet.search.base import BaseIndex, Best, listed_ids, n_terms, row_of, same_words
from tercet.search.documents import (
    Docs,
    Progress,
    check_model,
    merged,
    segments_of_rows,
    segments_of_texts,
    tiered,
    with_words,
)
from tercet.search.folder import Committed, Folder, vectorizer_fingerprint
from tercet.search.growth import GrowingVocabulary, added_words, can_grow, fitted_to, scorer_of
from tercet.search.memory_search import MemorySearch
from tercet.search.promotions import (
    KEPT_MODELS,
    KEPT_PROMOTIONS,
    By,
    Evidence,
    Promotion,
    kept_models,
    last_to_undo,
    next_promotion,
)
from tercet.search.results import DocRows, DocumentView
from tercet.search.scorer import ExpandedQueries, Scorer
from tercet.search.segment import MOST_DOCS, Segment
from tercet.search.view import LiveSegment, View
from tercet.search.writing import Writer, added, kept_or_made_factors, opened, widened, writing
from tercet.store import Verify, check_verify
from tercet.text import Analyzer
from tercet.weights import Weights
from tercet.weights.scoring import Matrix, as_matrix


class IndexState(NamedTuple):
    """State of a search, replaced as a whole: the opened model, the same model over all words, documents."""

    given: TextModel | Weights
    model: TextModel | Weights
    view: View


class Index(BaseIndex):
    """Documents to search. Make an index with `build`, or read one with `open`.

    Results are exact for every kind of weights: equal to scoring every document. Ties go to the older document. A hit
    has a word with weight in the expanded query; with a low-rank part, every document with a known word is a
    candidate. A query without a known word has no hits.

    Documents may be added, replaced and removed. The vocabulary grows by the words of new documents, unless the model
    has fields, a word map, two vocabularies or limits on words. An index on disk changes atomically, one writer at a
    time; readers see a change after `refresh`. Threads may search at the same time.

    Examples
    --------
    >>> docs = {"a": "green avocado", "b": "green eyes", "c": "blue sky"}
    >>> index = Index.build(docs)  # no model: BM25
    >>> [(hit.doc_id, round(hit.score, 2)) for hit in index.search("green avocados", k=5)]
    [('a', 0.95), ('b', 0.31)]
    >>> index.search("green tomatoes").unknown
    ('tomatoes',)
    """

    def __init__(self, state: IndexState, committed: Committed, folder: Folder | None) -> None:
        self._state, self._committed, self._folder = state, committed, folder
        self._memory_search: MemorySearch | None = None  # for the last searched view and memory
        self._model_digest = committed.model_digest  # digest of the index's own model when this object was made
        self._changing = threading.Lock()  # held by a thread that changes the index; searches never wait

    @property
    def _model(self) -> TextModel | Weights:  # type: ignore[override]
        return self._state.model

    @property
    def _view(self) -> View:  # type: ignore[override]
        return self._state.view

    def _current(self) -> tuple[TextModel | Weights, DocumentView]:
        state = self._state  # read once: a writer may replace the state
        return state.model, state.view

    @property
    def given_model(self) -> TextModel | Weights:
        return self._state.given

    # -- making and opening -------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        docs: Docs,
        model: TextModel | None = None,
        path: str | PathLike[str] | None = None,
        *,
        analyzer: Analyzer | None = None,
        segment_docs: int = MOST_DOCS,
        keep_texts: bool = True,
        progress: Progress | None = None,
    ) -> Index:
        """Index documents.

        Parameters
        ----------
        docs : documents as in `as_documents`, or an iterable of (id, text) or (id, text, values by column), which is
            read once. Without a model, an iterator is held in memory, with 12 bytes for each different word of each
            document. Other columns of a table are stored fields
        model : tokenizes and scores documents; None for `TextModel.bm25` of the documents
        path : folder to write; an index in the folder is replaced. None keeps the index in memory
        analyzer : without a model, the tokenizer, see `TextModel.bm25`
        segment_docs : documents of a segment, up to 65,536; texts of one segment are in memory at a time
        keep_texts : store texts for hits
        progress : called with the number of documents so far
        """
        check_integer(segment_docs, "segment_docs", 1, MOST_DOCS)
        docs, growth = with_words(docs, model, analyzer)
        segments = segments_of_texts(docs, growth, segment_docs, keep_texts, progress)
        return cls._made(
            lambda writer: writer.with_words(segments, growth), growth.model, path, segment_docs, keep_texts
        )

    @classmethod
    def build_rows(
        cls,
        ids: Sequence[str],
        D: Any,
        model: TextModel | Weights,
        path: str | PathLike[str] | None = None,
        *,
        segment_docs: int = MOST_DOCS,
    ) -> Index:
        """Index the rows of a matrix as documents; with `Weights` the index has columns but no words."""
        check_model(model, TextModel | Weights)
        segments = segments_of_rows(ids, D, n_terms(model), check_integer(segment_docs, "segment_docs", 1, MOST_DOCS))
        return cls._made(lambda _: segments, model, path, segment_docs, keeps_texts=False)

    @classmethod
    def _made(
        cls,
        segments: Callable[[Writer], Iterable[Segment]],
        model: TextModel | Weights,
        path: str | PathLike[str] | None,
        segment_docs: int,
        keeps_texts: bool,
    ) -> Index:
        fingerprint, words = vectorizer_fingerprint(model, fitted=True), added_words(model)
        committed = Committed(fingerprint, "", "", segment_docs, keeps_texts, 0, (), added=words)
        folder = None if path is None else Folder(path)
        scorer = scorer_of(model)
        with _prepared(folder), writing(folder) as before:
            if folder is not None:
                committed = _begun(folder, committed, before, model)
            writer = Writer(folder, committed, scorer)
            committed, view = writer.commit(added((), segments(writer), writer, False))
        return Index(IndexState(model, writer.model or model, view), committed, folder)

    @classmethod
    def open(
        cls, path: str | PathLike[str], model: TextModel | Weights | None = None, verify: Verify = "open"
    ) -> Index:
        """Read an index; arrays are memory-mapped.

        Parameters
        ----------
        path : folder of the index
        model : other model over the same vocabulary; missing latent documents are computed
        verify : "open" checks every byte and every offset; "never" opens at once without checks
        """
        check_verify(verify)
        if model is not None:
            check_model(model, TextModel | Weights)
        folder = Folder(path)

        def read(committed: Committed) -> Index:
            given_model = folder.read_model(committed.model, committed.model_digest) if model is None else model
            scoring_model = fitted_to(given_model, committed, str(path))
            view = opened(folder, committed, scorer_of(scoring_model), verify)
            return Index(IndexState(given_model, scoring_model, view), committed, folder)

        return folder.consistently(read)

    # -- searching with memory ----------------------------------------------------------------------------------

    def _best(self, view: DocumentView, Q: Matrix | QueryRow, queries: ExpandedQueries, k: int) -> Sequence[Best]:
        assert isinstance(view, View)
        searched = self._searched_by_memory(view)
        return view.search(queries, k) if searched is None else searched.best(as_matrix(Q), queries, k)

    def _scores(
        self, view: DocumentView, Q: Matrix | QueryRow, query: ExpandedQueries, rows: DocRows, doc_ids: Sequence[str]
    ) -> NDArray[np.float64]:
        searched = self._searched_by_memory(view)
        if searched is None:
            return super()._scores(view, Q, query, rows, doc_ids)
        return searched.scores(as_matrix(Q), query, rows, doc_ids)

    def _searched_by_memory(self, view: DocumentView) -> MemorySearch | None:
        """Return the memory search of a view; None for a model without memory."""
        state, cached = self._state, self._memory_search  # read once: another thread may change both
        model, current = state.model, state.view
        memory = model.memory if isinstance(model, TextModel) else None
        if memory is None:
            return None
        assert isinstance(model, TextModel)
        assert isinstance(view, View)
        if cached is None or cached.view is not current or cached.memory is not memory:
            # Rows of memory's documents are looked up once per version of the documents.
            cached = MemorySearch.build(current, memory, model.n_words, cached)
            self._memory_search = cached
        if view is current:
            return cached
        if view.scorer is current.scorer and view.has_segments_of(current):
            return cached.filter(view)
        return MemorySearch.build(view, memory, model.n_words)

    def with_model(self, model: TextModel | Weights) -> Index:
        """The same documents for another model over the same vocabulary; nothing is copied."""
        check_model(model, TextModel | Weights)
        committed, given_model = self._committed, model
        if not same_words(model, self._model):
            model = fitted_to(model, committed, "the index")
        scorer = scorer_of(model)
        view = View(self._entries_for(scorer), scorer)
        made = Index(IndexState(given_model, model, view), committed, self._folder)
        made._memory_search = self._memory_search  # the rows of memory's documents do not depend on weights
        return made

    def with_words(self, texts: Sequence[str]) -> Index:
        """Return an index whose model also knows the words of some texts, such as queries.

        The result is for searching; change documents in this index.

        Examples
        --------
        >>> index = Index.build({"a": "invoice"}).with_words(["bill"])
        >>> index.search("bill").unknown
        ()
        """
        given_model, model, _ = self._state
        if not isinstance(model, TextModel) or not can_grow(model):
            return self
        growth = GrowingVocabulary(model)
        growth.rows(texts)
        if growth.model is model:
            return self
        scorer = scorer_of(growth.model)
        state = IndexState(given_model, growth.model, View(tuple(widened(self._entries_for(scorer), scorer)), scorer))
        made = Index(state, replace(self._committed, added=growth.vectorizer.added), self._folder)
        made._memory_search = self._memory_search
        return made

    def _entries_for(self, scorer: Scorer) -> tuple[LiveSegment, ...]:
        """The open segments, with latent documents for other weights."""
        view = self._view
        if scorer.fingerprint == view.scorer.fingerprint:  # latent documents are unchanged
            return view.entries
        return tuple(
            replace(entry, factors=kept_or_made_factors(self._folder, entry.segment, scorer, "open"))
            for entry in view.entries
        )

    def refresh(self) -> bool:
        """Read the changes of other writers; return False without changes."""
        if self._folder is None or self._folder.committed().digest == self._committed.digest:
            return False
        before = self._committed
        committed, state = self._folder.consistently(self._reread)
        if self._committed is before:  # else another thread has changed the index through this object, to a newer state
            self._see(committed, state)
        return True

    def latest(self, own_model: bool = True) -> Index:
        """Return the latest version as another object; open segments are shared.

        Parameters
        ----------
        own_model : use the committed model; False keeps the model of this object
        """
        copied = Index(self._state, self._committed, self._folder)
        copied._model_digest, copied._memory_search = self._model_digest, self._memory_search
        if self._folder is None:
            return copied
        if not own_model or self._folder.committed().model_digest == self._model_digest:
            copied.refresh()
            if not own_model or copied._committed.model_digest == self._model_digest:
                return copied
        return self._folder.consistently(self._with_own_model)

    def _with_own_model(self, committed: Committed) -> Index:
        assert self._folder is not None
        if committed.vectorizer != self._committed.vectorizer:  # it was made anew
            return Index.open(self._folder.path)
        given_model = self._folder.read_model(committed.model, committed.model_digest)
        model = fitted_to(given_model, committed, str(self._folder.path))
        scorer = scorer_of(model)
        view = opened(self._folder, committed, scorer, "open", self._entries_for(scorer))
        return Index(IndexState(given_model, model, view), committed, self._folder)

    def _reread(self, committed: Committed) -> tuple[Committed, IndexState]:
        assert self._folder is not None
        given_model, before, view = self._state
        model = fitted_to(before, committed, str(self._folder.path))
        scorer = view.scorer if model is before else scorer_of(model)
        return committed, IndexState(given_model, model, opened(self._folder, committed, scorer, "open", view.entries))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index to another folder, for `open` and ``tc.load``."""
        folder = Folder(path)
        if self._folder is not None and folder.path.resolve() == self._folder.path.resolve():
            raise InputError(f"{path} is where the index is kept; it is saved already")
        with _prepared(folder), writing(folder) as before:
            committed = _begun(folder, self._committed, before, self._model)
            writer = Writer(folder, committed, self._view.scorer)
            writer.commit([replace(writer.put(entry.segment), dead=entry.dead) for entry in self._view.entries])

    # -- what is in it ------------------------------------------------------------------------------------------

    @property
    def digest(self) -> str:
        return self._committed.digest

    def same_row(self, other: BaseIndex, doc_id: str) -> bool:
        # Segments are immutable; a changed index shares the segments that stay.
        is_shared = isinstance(other, Index) and self._view.position(doc_id) == other._view.position(doc_id)
        return is_shared or super().same_row(other, doc_id)

    @property
    def n_segments(self) -> int:
        return len(self._view.entries)

    @property
    def promotions(self) -> tuple[Promotion, ...]:
        return self._committed.promotions

    def __repr__(self) -> str:
        where = "in memory" if self._folder is None else str(self._folder.path)
        return f"Index({len(self):,} documents, {n_terms(self._model):,} words, {where})"

    # -- changing -----------------------------------------------------------------------------------------------

    def add(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents; if an id is taken, raise an error and add nothing."""
        self._add(partial(self._segments, docs, progress), False)

    def replace(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents, in place of documents with the same ids; new documents come last in the order."""
        self._add(partial(self._segments, docs, progress), True)

    def add_rows(self, ids: Sequence[str], D: Any) -> None:
        """Add the rows of a matrix as documents to an index without texts."""

        def segments(_: Writer) -> Iterator[Segment]:
            if self._committed.keeps_texts:
                raise InputError("the index keeps texts; add takes documents with texts")
            return segments_of_rows(ids, D, n_terms(self._model), self._committed.segment_docs)

        self._add(segments, False)

    def remove(self, doc_ids: Iterable[str]) -> None:
        """Remove documents; if an id is missing, remove nothing. `merge` frees the space."""
        listed = listed_ids(doc_ids)
        with self._writing() as writer:
            view = self._view
            rows = np.unique(np.array([row_of(view, doc_id) for doc_id in listed], dtype=np.int64))
            self._see_view(*writer.commit(view.drop(rows).entries))

    def merge(self) -> None:
        """Join small segments and leave out removed documents: frees their space and makes search faster."""
        with self._writing() as writer:
            entries = writer.put_new(merged(self._view.entries, self._committed.segment_docs))
            self._see_view(*writer.commit(entries))

    def promote(
        self, model: TextModel | Weights, by: By = "hand", evidence: Evidence | None = None, over: str | None = None
    ) -> Promotion:
        """Make a model over the same words the model of the index, in one commit; see `take_back`.

        Do not search this object in other threads meanwhile; `latest` returns another object. The folder keeps 8 former
        models.

        Parameters
        ----------
        model : model with the same tokenizer and term weights
        by : "hand", or "rule" for a decision by a test
        evidence : evidence of the promotion
        over : fingerprint of the current model; a different current model is an error. None for any model

        Returns
        -------
        Promotion
            The new last entry of `promotions`.

        Examples
        --------
        >>> import tempfile
        >>> from tercet.weights import Identity
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     index = Index.build({"a": "green avocado", "b": "green eyes"}, path=folder)
        ...     louder = Weights([Identity(n_terms=index.model.weights.shape[0], scale=3.0)])
        ...     entry = index.promote(replace(index.model, weights=louder), evidence=Evidence(40, 18, 5))
        ...     index.take_back().undoes, [entry.number for entry in Index.open(folder).promotions]
        (1, [1, 2])
        """
        check_model(model, TextModel | Weights)
        folder = self._own_folder()
        with self._writing():
            committed = self._committed
            fitted_to(model, committed, str(folder.path))
            if over is not None and over != committed.model:
                raise InputError(
                    f"the model of {folder.path} is {committed.model} by now, no longer {over}; nothing was changed"
                )
            name, digest = folder.write_model(model)
            if name == committed.model:
                raise InputError(f"{name} is the model of {folder.path} already; nothing was changed")
            return self._promoted(model, name, digest, by, None, evidence)

    def take_back(self) -> Promotion:
        """Undo the last promotion; the undo is an entry of `promotions` as well."""
        folder = self._own_folder()
        with self._writing():
            committed = self._committed
            undone = last_to_undo(committed.promotions)
            if undone is None:
                raise InputError(f"{folder.path} has no promotion that could be taken back")
            name, digest = undone.before, undone.before_digest
            if name not in kept_models(committed.promotions, committed.model):
                raise InputError(
                    f"promotion {undone.number} of {folder.path} was long ago: its model before, {name}, is not kept; "
                    f"the latest {KEPT_MODELS} are"
                )
            return self._promoted(folder.read_model(name, digest), name, digest, "hand", undone.number, None)

    def former_model(self) -> TextModel | Weights | None:
        """Return the model before the last promotion; None without a stored former model."""
        committed = self._committed
        if self._folder is None or not committed.promotions:
            return None
        last = committed.promotions[-1]
        if last.before not in kept_models(committed.promotions, committed.model):
            return None
        return self._folder.read_model(last.before, last.before_digest)

    def _use(self, model: TextModel) -> None:
        if self._folder is not None:
            self.promote(model)
            return
        with self._changing:
            scoring_model = replace(self._text_model(), confidence=model.confidence)
            self._see(self._committed, self._state._replace(given=model, model=scoring_model))

    def _own_folder(self) -> Folder:
        if self._folder is None:
            raise InputError("the index is in memory, where models are not kept; save it, or use with_model")
        return self._folder

    def _promoted(
        self,
        model: TextModel | Weights,
        name: str,
        digest: str,
        by: By,
        undoes: int | None,
        evidence: Evidence | None,
    ) -> Promotion:
        """Commit a stored model as the model of the index."""
        before = self._committed
        models = (before.model, before.model_digest), (name, digest)
        entry = next_promotion(before.promotions, *models, by, undoes, evidence)
        promotions = (*before.promotions, entry)[-KEPT_PROMOTIONS:]
        committed = replace(before, model=name, model_digest=digest, promotions=promotions)
        grown = fitted_to(model, committed, "the index")
        writer = Writer(self._folder, committed, scorer_of(grown))
        entries = [
            replace(each, factors=writer.keep_factors(each.segment, each.factors))
            for each in self._entries_for(writer.scorer)
        ]
        committed, view = writer.commit(entries)
        self._see(committed, IndexState(model, grown, view))
        self._model_digest = digest
        return entry

    def _segments(self, docs: Docs, progress: Progress | None, writer: Writer) -> Iterator[Segment]:
        committed, growth = self._committed, GrowingVocabulary(self._text_model())
        segments = segments_of_texts(docs, growth, committed.segment_docs, committed.keeps_texts, progress)
        return writer.with_words(segments, growth)

    def _add(self, segments: Callable[[Writer], Iterator[Segment]], replacing: bool) -> None:
        with self._writing() as writer:  # depends on the present index, which may keep texts since the rebuild
            entries = added(self._view.entries, segments(writer), writer, replacing)
            entries = widened(entries, writer.scorer)
            entries = writer.put_new(tiered(entries, self._committed.segment_docs))
            committed, view = writer.commit(entries)
            self._see(committed, IndexState(self._state.given, writer.model or self._model, view))

    def _see_view(self, committed: Committed, view: View) -> None:
        self._see(committed, self._state._replace(view=view))

    def _see(self, committed: Committed, state: IndexState) -> None:
        # State first, then commit: a copy made in between has the old commit and reads the new segments again.
        self._state = state
        self._committed = committed

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        """Lock the index for a change of the latest version."""
        with self._changing, writing(self._folder) as before:
            if self._folder is not None:
                if before is None:
                    self._folder.remove_empty()
                    raise MissingBundleError(f"there is no index at {self._folder.path} any more")
                if before.digest != self._committed.digest:
                    self._see(*self._reread(before))
            yield Writer(self._folder, self._committed, self._view.scorer)


@contextmanager
def _prepared(folder: Folder | None) -> Iterator[None]:
    """Make the folders of an index; remove new folders after an error."""
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
    """Return the first commit of a new index, with a stored model and unused segment names."""
    name, digest = folder.write_model(model)
    first = 0 if before is None else before.next_segment
    return replace(committed, model=name, model_digest=digest, next_segment=first, segments=(), promotions=())
