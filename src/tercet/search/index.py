"""An index of documents that any model over the same vocabulary searches, exactly and with reasons."""

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
from tercet.data.values import timestamp
from tercet.errors import InputError, MissingBundleError
from tercet.fitting.text_model import TextModel
from tercet.kernels.rows import QueryRow
from tercet.search.base import BaseIndex, Best, best_rows, listed_ids, n_terms, row_of, same_words
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
from tercet.search.growth import Growth, added_words, can_grow, fitted_to, scorer_of
from tercet.search.memory_search import MemorySearch
from tercet.search.promotions import KEPT_MODELS, KEPT_PROMOTIONS, By, Evidence, Promotion, kept_models, last_to_undo
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
    """What a search needs, replaced as a whole.

    ``given`` is the model as it was opened, and ``model`` the same over all words of the index.
    """

    given: TextModel | Weights
    model: TextModel | Weights
    view: View


class Index(BaseIndex):
    """Documents, ready to be searched. Make one with `build`, or read one with `open`.

    Answers are exact: those of scoring every document, for every kind of weights. Ties go to the document that came
    first. A document that has none of the words to which the query gives weight is never found; with a low-rank part
    every document with a known word is a candidate. A query without a known word finds nothing.

    Documents may be added, replaced and removed. Words that the model does not know are found, too: the model of the
    index grows by them, unless it has fields, a word map, two vocabularies or limits on words. An index on disk changes
    as a whole or not at all, one writer at a time, and whoever has it open keeps what it has until `refresh`. Threads
    may search at the same time.

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
        self._memory_search: MemorySearch | None = None  # of the view and memory that were searched last
        self._model_digest = committed.model_digest  # of the index's own when this object was made
        self._changing = threading.Lock()  # held by a thread that changes the index; searches never wait

    @property
    def _model(self) -> TextModel | Weights:  # type: ignore[override]
        return self._state.model

    @property
    def _view(self) -> View:  # type: ignore[override]
        return self._state.view

    def _current(self) -> tuple[TextModel | Weights, DocumentView]:
        state = self._state  # a writer may replace it meanwhile
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
        docs : anything that `as_documents` takes, id -> text, records or a frame, or an iterable of (id, text) or (id,
            text, values by column), which is read once; without a model, an iterator is held in memory, and so are
            the word counts, 12 bytes for each different word of each document. Other columns of a table are stored
            fields, and hits give them back
        model : tokenizes documents and, unless `open` gets another, scores them; None for `TextModel.bm25` of them
        path : a folder to write; an index that is there is replaced. None keeps everything in memory
        analyzer : without a model, how texts are tokenized, see `TextModel.bm25`
        segment_docs : documents in a segment, up to 65,536; so many texts are in memory at a time
        keep_texts : whether hits can give their texts
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
        texts: Sequence[str] | None = None,
    ) -> Index:
        """Index documents that are rows of a matrix already; with `Weights` there are no words, only columns."""
        check_model(model, TextModel | Weights)
        segments = segments_of_rows(
            ids, D, n_terms(model), check_integer(segment_docs, "segment_docs", 1, MOST_DOCS), texts
        )
        return cls._made(lambda _: segments, model, path, segment_docs, texts is not None)

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
        """Read an index; its arrays stay on disk and are mapped.

        Parameters
        ----------
        path : its folder
        model : another model than the one it was made with; its documents must be cut and weighted the same way.
            Latent documents that are not on disk for it are worked out, see `save_factors`
        verify : "open" checks every byte, and whatever leads from one array into another, before anything is answered;
            "never" opens at once and leaves damage unnoticed
        """
        check_verify(verify)
        if model is not None:
            check_model(model, TextModel | Weights)
        folder = Folder(path)

        def read(committed: Committed) -> Index:
            given = folder.read_model(committed.model, committed.model_digest) if model is None else model
            scoring_model = fitted_to(given, committed, str(path))
            view = opened(folder, committed, scorer_of(scoring_model), verify)
            return Index(IndexState(given, scoring_model, view), committed, folder)

        return folder.consistently(read)

    # -- searching with memory ----------------------------------------------------------------------------------

    def _best(
        self, view: DocumentView, Q: Matrix | QueryRow, queries: ExpandedQueries, k: int, max_terms: int | None
    ) -> list[Best]:
        searched = self._searched_by_memory(view)
        if searched is None:
            assert isinstance(view, View)
            return best_rows(view, queries, k, max_terms)
        return searched.best(as_matrix(Q), queries, k, max_terms)

    def _scores(
        self, view: DocumentView, Q: Matrix | QueryRow, query: ExpandedQueries, rows: DocRows, doc_ids: Sequence[str]
    ) -> NDArray[np.float64]:
        searched = self._searched_by_memory(view)
        if searched is None:
            return super()._scores(view, Q, query, rows, doc_ids)
        return searched.scores(as_matrix(Q), query, rows, doc_ids)

    def _searched_by_memory(self, view: DocumentView) -> MemorySearch | None:
        """The documents of a view by what memory knows of them; None where the model has no memory."""
        state, cached = self._state, self._memory_search  # another thread may change both meanwhile
        model, current = state.model, state.view
        memory = model.memory if isinstance(model, TextModel) else None
        if memory is None:
            return None
        assert isinstance(model, TextModel)
        assert isinstance(view, View)
        if cached is None or cached.view is not current or cached.memory is not memory:
            # Looked up once for each version of the documents.
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
        committed, given = self._committed, model
        if not same_words(model, self._model):
            model = fitted_to(model, committed, "the index")
        scorer = scorer_of(model)
        view = View(self._entries_for(scorer), scorer)
        made = Index(IndexState(given, model, view), committed, self._folder)
        made._memory_search = self._memory_search  # where the documents of memory are does not depend on weights
        return made

    def with_words(self, texts: Sequence[str]) -> Index:
        """The same documents by a model that also knows the words of some texts, such as queries.

        The index itself where its model knows them, or cannot grow. It is for searching; documents are changed in the
        index before.

        Examples
        --------
        >>> index = Index.build({"a": "invoice"}).with_words(["bill"])
        >>> index.search("bill").unknown
        ()
        """
        given, model, _ = self._state
        if not isinstance(model, TextModel) or not can_grow(model):
            return self
        growth = Growth(model)
        growth.rows(texts)
        if growth.model is model:
            return self
        scorer = scorer_of(growth.model)
        state = IndexState(given, growth.model, View(tuple(widened(self._entries_for(scorer), scorer)), scorer))
        made = Index(state, replace(self._committed, added=growth.vectorizer.added), self._folder)
        made._memory_search = self._memory_search
        return made

    def _entries_for(self, scorer: Scorer) -> tuple[LiveSegment, ...]:
        """The open segments, with latent documents for other weights."""
        view = self._view
        if scorer.fingerprint == view.scorer.fingerprint:  # its latent documents are those that are here
            return view.entries
        return tuple(
            replace(entry, factors=kept_or_made_factors(self._folder, entry.segment, scorer, "open"))
            for entry in view.entries
        )

    def refresh(self) -> bool:
        """See what writers have committed since; whether there was anything."""
        if self._folder is None or self._folder.committed().digest == self._committed.digest:
            return False
        before = self._committed
        committed, state = self._folder.consistently(self._reread)
        if self._committed is before:  # else a thread has changed the index through this object since, and sees more
            self._see(committed, state)
        return True

    def latest(self, own_model: bool = True) -> Index:
        """The index as writers have left it, as another object; this one stays what it is. Open segments are shared.

        Parameters
        ----------
        own_model : take over the model that was committed, where that is another by now; False keeps this one
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
        given = self._folder.read_model(committed.model, committed.model_digest)
        model = fitted_to(given, committed, str(self._folder.path))
        scorer = scorer_of(model)
        view = opened(self._folder, committed, scorer, "open", self._entries_for(scorer))
        return Index(IndexState(given, model, view), committed, self._folder)

    def _reread(self, committed: Committed) -> tuple[Committed, IndexState]:
        assert self._folder is not None
        given, before, view = self._state
        model = fitted_to(before, committed, str(self._folder.path))
        scorer = view.scorer if model is before else scorer_of(model)
        return committed, IndexState(given, model, opened(self._folder, committed, scorer, "open", view.entries))

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
    def digest(self) -> str:
        return self._committed.digest

    def same_row(self, other: BaseIndex, doc_id: str) -> bool:
        # Segments never change, and an index that changes shares those that stay.
        is_shared = isinstance(other, Index) and self._view.position(doc_id) == other._view.position(doc_id)
        return is_shared or super().same_row(other, doc_id)

    @property
    def n_unknown_in_memory(self) -> int:
        """Number of documents that the model's memory knows and the index lacks; searches ignore them."""
        searched = self._searched_by_memory(self._view)
        return 0 if searched is None else int((searched.rows < 0).sum())

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
        """Add documents; one whose id is there is refused, and then none is added."""
        self._add(partial(self._segments, docs, progress), False)

    def replace(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents in the place of those with the same ids, where there are any; they come last from now on."""
        self._add(partial(self._segments, docs, progress), True)

    def add_rows(self, ids: Sequence[str], D: Any, texts: Sequence[str] | None = None) -> None:
        """`add` for documents that are rows of a matrix already."""
        self._add(partial(self._segments_of_rows, ids, D, texts), False)

    def remove(self, doc_ids: Iterable[str]) -> None:
        """Remove documents; an id that is not there is refused, and then none is removed. `merge` frees their space."""
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
        """Make a model over the same words the index's own, in one commit; `take_back` puts the one before back.

        Whoever opens the index from now on scores with it, and so does this object, which no other thread should be
        searching meanwhile: `latest` gives another one. The latest 8 models before it stay in the folder.

        Parameters
        ----------
        model : its documents must be cut and weighted the same way as those of the index
        by : "hand", or "rule" where a test decided it
        evidence : what it rests on
        over : fingerprint of the model that must be the index's own until then; None for any

        Returns
        -------
        Promotion
            The entry that `promotions` ends with from now on.

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
        """Undo the last promotion that counts: the model before it is the index's own again, which is an entry, too."""
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
        """The model that the last promotion put another one in the place of; None where there is none that is kept."""
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
        """Commit a model that is in the folder as the index's own."""
        before = self._committed
        number = before.promotions[-1].number + 1 if before.promotions else 1
        entry = Promotion(number, timestamp(), by, before.model, before.model_digest, name, digest, undoes, evidence)
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
        committed, growth = self._committed, Growth(self._text_model())
        segments = segments_of_texts(docs, growth, committed.segment_docs, committed.keeps_texts, progress)
        return writer.with_words(segments, growth)

    def _segments_of_rows(
        self, ids: Sequence[str], D: Any, texts: Sequence[str] | None, writer: Writer
    ) -> Iterator[Segment]:
        committed = self._committed
        if (texts is not None) != committed.keeps_texts:
            raise InputError("the index keeps texts" if texts is None else "the index keeps no texts")
        return segments_of_rows(ids, D, n_terms(self._model), committed.segment_docs, texts)

    def _add(self, segments: Callable[[Writer], Iterator[Segment]], replacing: bool) -> None:
        with self._writing() as writer:  # made by what the index is now: it may keep texts since it was made anew
            entries = added(self._view.entries, segments(writer), writer, replacing)
            entries = widened(entries, writer.scorer)
            entries = writer.put_new(tiered(entries, self._committed.segment_docs))
            committed, view = writer.commit(entries)
            self._see(committed, IndexState(self._state.given, writer.model or self._model, view))

    def _see_view(self, committed: Committed, view: View) -> None:
        self._see(committed, self._state._replace(view=view))

    def _see(self, committed: Committed, state: IndexState) -> None:
        # In this order: whoever copies this object in between has an old commit, and so reads what is new once more.
        self._state = state
        self._committed = committed

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        """Change the index as it is now, whoever changed it last."""
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
    return replace(committed, model=name, model_digest=digest, next_segment=first, segments=(), promotions=())
