"""Learning while serving: a thread applies entries and publishes whole versions; readers take the one that is there."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import EngineError, InputError
from tercet.fitting.text_model import Baked, TextModel
from tercet.search import BaseIndex, Index
from tercet.serve.bounds import LearningBounds
from tercet.serve.journal import Entry
from tercet.serve.journal_chain import Entries
from tercet.serve.problems import HttpProblem
from tercet.serve.replay import Replay, VoteOutcome, text_model
from tercet.serve.snapshots import Snapshots
from tercet.store.digest import digest_of
from tercet.weights import Sparse, Weights

_log = logging.getLogger(__name__)

EntriesBehind: TypeAlias = Callable[[NDArray[np.int64]], Mapping[int, tuple[int, ...]]]

_LOOK_WAIT_SECONDS = 0.25  # how long who looks at what is behind the weights waits while they change
_ENGINE_AWAY_SECONDS = 2.0  # between attempts to learn while the engine that keeps the documents is away


@dataclass(frozen=True, eq=False)
class Version:
    """All that a reader needs, none of which ever changes: the base and the overlay of the entries up to ``number``.

    The first ``n_baked`` entries are part of the base, and not of the overlay.
    ``outcomes`` has, by their numbers, what came of the entries that it was the first to have. ``entries_behind`` finds
    the entries behind pairs of words, as they are when it is asked.
    """

    number: int
    index: BaseIndex
    overlay: sparse.csr_array
    inactive: frozenset[int]
    entries_behind: EntriesBehind
    n_baked: int = 0
    outcomes: Mapping[int, tuple[VoteOutcome, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"v{self.number}"

    @property
    def model(self) -> TextModel:
        return text_model(self.index)

    @cached_property
    def digest(self) -> str:
        """What the overlay is known by; a replay of the same journal gives the same."""
        return digest_of(self.overlay)[:32]

    def strongest(self, k: int) -> list[tuple[str, str, float, tuple[int, ...]]]:
        """The k pairs of words that were changed most: their weights in the overlay, and the entries behind them."""
        rows = np.repeat(np.arange(self.overlay.shape[0]), np.diff(self.overlay.indptr))
        order = np.argsort(-np.abs(self.overlay.data), kind="stable")[:k]
        keys: NDArray[np.int64] = rows[order] * self.overlay.shape[1] + self.overlay.indices[order].astype(np.int64)
        behind = self.entries_behind(keys)
        query_words, doc_words = self.model.query_vectoriser.words_, self.model.doc_vectoriser.words_
        return [
            (query_words[i], doc_words[j], float(weight), behind[i * self.overlay.shape[1] + j])
            for i, j, weight in zip(
                rows[order].tolist(), self.overlay.indices[order].tolist(), self.overlay.data[order], strict=True
            )
        ]


def replay(index: BaseIndex, entries: Iterable[Entry], bounds: LearningBounds | None = None) -> Version:
    """The version that a journal gives, from nothing.

    Examples
    --------
    >>> from tercet.serve.journal import Preferred
    >>> from tercet import Index, Vectoriser
    >>> from tercet.weights import Identity
    >>> docs = {"a": "green avocado", "b": "green eyes"}
    >>> words = Vectoriser().fit(docs.values())
    >>> index = Index.build(docs, TextModel(words, words, Weights([Identity(n_terms=len(words.words_))])))
    >>> [hit.doc_id for hit in index.search("green")]
    ['a', 'b']
    >>> learned = replay(index, [Preferred(1, "", "me", "green", better="b", worse="a")])
    >>> [hit.doc_id for hit in learned.index.search("green")]
    ['b', 'a']
    """
    return _begun(index, entries, bounds)[1]


def bake(index: BaseIndex, entries: Entries, bounds: LearningBounds | None = None) -> TextModel:
    """The model of an index with what a journal teaches as a part of it: its answers are those of the service.

    They are the same to the bit. The model notes how many entries of which journal it has, so that `replay`, and the
    service with it, does not apply them again. What was baked before stays one part with what is baked now.

    Parameters
    ----------
    index : the documents that the entries are about, and the model that learns from them
    entries : of a journal, see `read_journal`
    bounds : as the service has them
    """
    state, version = _begun(index, entries, bounds)
    sum_there = entries.sum_after(version.number)
    assert sum_there is not None
    if version.number == version.n_baked:
        raise InputError("the journal has no entry that the model does not have, so there is nothing to bake")
    # Of the same journal, what was baked before is among what is baked now.
    others = tuple(baked for baked in state.model.baked if entries.sum_after(baked.entry) != baked.sum)
    return replace(version.model, baked=(*others, Baked(version.number, sum_there)))


def n_baked(model: TextModel, entries: Iterable[Entry]) -> int:
    """How many entries of a journal, from the first on, are part of a model; 0 where it is another journal."""
    if not isinstance(entries, Entries):
        return 0
    there = (
        baked.entry
        for baked in sorted(model.baked, key=lambda baked: -baked.entry)
        if entries.sum_after(baked.entry) == baked.sum
    )
    return next(there, 0)


def _begun(
    index: BaseIndex, entries: Iterable[Entry], bounds: LearningBounds | None, kept: Kept | None = None
) -> tuple[Replay, Version]:
    """Entries replayed from nothing, or from a snapshot; those that the model has left out."""
    state = Replay(index, bounds or LearningBounds())
    number = n_left_out = n_baked(state.model, entries)
    if isinstance(entries, Entries):
        if kept is not None:
            saved = kept.snapshots.restore(state, kept.model, entries, n_left_out)
            if saved is None:
                state = Replay(index, state.bounds)
            else:
                number = saved
        entries = entries[number:]
    counted = _Counted(entries, number)
    state.apply(counted)
    return state, _version(state, index, counted.number, n_left_out)


class _Counted(Iterable[Entry]):
    """Entries, and the number of the last one that somebody took."""

    def __init__(self, entries: Iterable[Entry], number: int) -> None:
        self._entries, self.number = entries, number

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            self.number = entry.number
            yield entry


class Kept(NamedTuple):
    """Where what is learned is kept for the next start, and the fingerprint of the model that learns."""

    snapshots: Snapshots
    model: str


def _version(state: Replay, base: BaseIndex, number: int, n_baked: int, behind: EntriesBehind | None = None) -> Version:
    matrix = state.overlay.matrix()
    index = base.with_model(_with_overlay(state.model, matrix)) if matrix.nnz else base
    return Version(number, index, matrix, state.inactive, behind or state.entries_behind, n_baked)


def _with_overlay(model: TextModel, matrix: sparse.csr_array) -> TextModel:
    """A model with an overlay as its last part; what was baked into it before is one part with that.

    Thus a model that is baked again and again has one overlay, and its answers are those of the service to the bit.
    """
    *parts, last = model.weights.parts
    if model.baked and isinstance(last, Sparse) and last.scale == 1.0:
        return replace(model, weights=Weights([*parts, Sparse(weights=last.weights + matrix)]))
    return replace(model, weights=model.weights + Weights([Sparse(weights=matrix)]))


class _LookBehind:
    """Finds the entries behind pairs of words in a state that a thread may be changing.

    Versions have this and not the learner, which has them: in such a circle a learner that is closed, and with it the
    index that it served, would stay in memory until the garbage collector looks at all objects, minutes later.
    """

    def __init__(self, state: Replay, applying: threading.Lock) -> None:
        self._state, self._applying = state, applying

    def __call__(self, keys: NDArray[np.int64]) -> Mapping[int, tuple[int, ...]]:
        # Going far back takes its time; who waits for that has one of the few threads that search.
        if not self._applying.acquire(timeout=_LOOK_WAIT_SECONDS):
            seconds = self._state.seconds_left
            detail = f"what was taught is being learned again, for about {seconds:.0f} s; come again"
            raise HttpProblem(503, detail, "learning", seconds)
        try:
            return self._state.entries_behind(keys)
        finally:
            self._applying.release()


class Learner:
    """Keeps the current `Version`. `tell` it of each entry; a thread of its own takes it in and swaps the version.

    Parameters
    ----------
    index : the base; its model is never changed
    entries : what the journal holds; applied before this returns
    before : a learner by the same journal and bounds over other documents: where the model is the same, what it has
        applied is gone on from, see `Replay.over`
    kept : where snapshots are, or None
    """

    def __init__(
        self,
        index: BaseIndex,
        entries: Sequence[Entry],
        bounds: LearningBounds | None = None,
        before: Learner | None = None,
        kept: Kept | None = None,
    ) -> None:
        self._base, self._kept = index, kept
        self._applying = threading.Lock()  # held while the state changes, and while it is copied
        begun = None if before is None else before._begun_over(index, entries)
        self._state, version = begun or _begun(index, entries, bounds, kept)
        self._look_behind = _LookBehind(self._state, self._applying)
        self.current = replace(version, entries_behind=self._look_behind)
        self._state.compile()  # so that the first to teach does not wait for it
        self.query_row = self._state.query_row
        self.failure: str | None = None
        self._todo: deque[Entry] = deque()
        self._waiting: list[tuple[int, Future[Version]]] = []
        self._changed = threading.Condition()
        self._is_whole = True
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="tercet-learner", daemon=True)
        self._thread.start()

    def tell(self, entry: Entry) -> Future[Version]:
        """Have an entry applied; the future gives the first version with it."""
        applied: Future[Version] = Future()
        with self._changed:
            if self.failure is not None:
                applied.cancel()
                return applied
            self._todo.append(entry)
            self._waiting.append((entry.number, applied))
            self._changed.notify()
        return applied

    def _begun_over(self, index: BaseIndex, entries: Sequence[Entry]) -> tuple[Replay, Version] | None:
        """What this one has applied, and entries after that, over other documents; None where the model differs."""
        if index.model is not self._base.model or not (isinstance(index, Index) and isinstance(self._base, Index)):
            return None  # another engine has rows no sooner than a replay has
        with self._applying:
            if not self._is_whole:
                return None
            state, number = self._state.over(index), self.current.number
        later = _Counted(entries[number:], number)
        state.apply(later)
        return state, _version(state, index, later.number, self.current.n_baked)

    @property
    def seconds_left(self) -> float:
        """About how long it will be until all is learned that is being learned now; any thread may ask."""
        return self._state.seconds_left

    def close(self, at_end: bool = False) -> None:
        """Apply what was told, and stop; at the end of a service, keep what it has learned."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
        if at_end:
            self._keep(at_end)

    def _keep(self, at_end: bool = False) -> None:
        if self._kept is not None and self._is_whole:
            snapshots, model = self._kept
            snapshots.keep(self._state, model, self.current.number, self.current.n_baked, at_end)

    def _run(self) -> None:
        self._keep()  # what a start had to replay
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._todo or self._stopping)
                entries = list(self._todo)
                self._todo.clear()
            if not entries:
                return
            try:
                with self._applying:
                    self._state.prepare(entries)
            except EngineError as error:
                _log.warning("entry %d waits to be learned: %s", entries[0].number, error)
                with self._changed:
                    self._todo.extendleft(reversed(entries))
                    if self._changed.wait_for(lambda: self._stopping, timeout=_ENGINE_AWAY_SECONDS):
                        return  # they are in the journal for the next start
                continue
            try:
                with self._applying:
                    self._is_whole = False  # until it went well
                    self._state.apply(entries)
                    number, behind = entries[-1].number, self._look_behind
                    version = _version(self._state, self._base, number, self.current.n_baked, behind)
                    outcomes = {entry.number: self._state.outcomes(entry) for entry in entries}
                    self.current = replace(version, outcomes=outcomes)  # the swap: one reference
                    self._is_whole = True
            except Exception as error:
                # A defect. Readers keep the last whole version; the journal keeps the entries for a restart.
                _log.exception("the learner stopped at entry %d", entries[0].number)
                self._fail(f"the learner stopped: {type(error).__name__}")
                return
            self._answer()
            self._keep()

    def _answer(self) -> None:
        with self._changed:
            done = [future for number, future in self._waiting if number <= self.current.number]
            self._waiting = [(number, future) for number, future in self._waiting if number > self.current.number]
        for future in done:
            if future.set_running_or_notify_cancel():
                future.set_result(self.current)

    def _fail(self, failure: str) -> None:
        with self._changed:
            self.failure = failure
            waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            future.cancel()
