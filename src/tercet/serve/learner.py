"""Learning while serving: a thread applies entries and publishes whole versions; readers take the one that is there.

Where an entry changes what was learned long ago, it counts at once in an interim version, and the exact one, which has
the bits of a replay from nothing, follows when all that came after is learned again.
"""

from __future__ import annotations

import logging
import threading
import time
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
from tercet.serve.behind import Behind, LookBehind
from tercet.serve.bounds import SNAPSHOT_EVERY, LearningBounds
from tercet.serve.interim import Interim
from tercet.serve.journal import Entry
from tercet.serve.journal_chain import Entries
from tercet.serve.problems import HttpProblem
from tercet.serve.replay import Replay, VoteOutcome, text_model
from tercet.serve.snapshots import Snapshots
from tercet.store.digest import digest_of
from tercet.weights import Sparse, Weights

_log = logging.getLogger(__name__)

Looking: TypeAlias = Callable[[NDArray[np.int64]], Iterator[LookBehind]]

_LOOK_WAIT_SECONDS = 0.25  # how long who looks at what is behind the weights waits while they change
_LOOK_PAUSE_SECONDS = 0.001  # between two looks, so that who changes them gets its turn
_INTERIM_SECONDS = 0.05  # what takes longer to learn is served in the interim way until it is learned
_ENGINE_AWAY_SECONDS = 2.0  # between attempts to learn while the engine that keeps the documents is away


class ChangedPair(NamedTuple):
    """A pair of words, its weight in the overlay, and the votes behind it."""

    query_word: str
    doc_word: str
    weight: float
    behind: Behind


class Strongest(NamedTuple):
    """Pairs of words, those that were changed most first, and whether all votes were looked at that are behind them."""

    pairs: list[ChangedPair]
    is_whole: bool


@dataclass(frozen=True, eq=False)
class Version:
    """All that a reader needs, none of which ever changes: the base and the overlay of the entries up to ``number``.

    The first ``n_baked`` entries are part of the base, and not of the overlay.
    ``outcomes`` has, by their numbers, what came of the entries that it was the first to have. ``look_behind`` finds
    the votes behind pairs of words, as they are when it is asked, a stretch of them at a time. An `Interim` version is
    not ``exact``: a replay gives other bits, and is under way.
    """

    number: int
    index: BaseIndex
    overlay: sparse.csr_array
    inactive: frozenset[int]
    look_behind: Looking
    n_baked: int = 0
    outcomes: Mapping[int, tuple[VoteOutcome, ...]] = field(default_factory=dict)
    exact: bool = True

    @property
    def name(self) -> str:
        return f"v{self.number}" if self.exact else f"v{self.number}~"

    @property
    def model(self) -> TextModel:
        return text_model(self.index)

    @cached_property
    def digest(self) -> str:
        """What the overlay is known by; where it is exact, a replay of the same journal gives the same."""
        return digest_of(self.overlay)[:32]

    def strongest(self, k: int, is_late: Callable[[], bool] = lambda: False) -> Strongest:
        """The k pairs of words that were changed most; once it is late, no more is looked for behind them."""
        sizes = np.abs(self.overlay.data)
        # Of all those that are large enough: there may be millions of others, which need no order.
        large = np.flatnonzero(sizes >= np.partition(sizes, -k)[-k]) if k < sizes.size else np.arange(sizes.size)
        places = large[np.argsort(-sizes[large], kind="stable")[:k]]
        rows: NDArray[np.int64] = np.searchsorted(self.overlay.indptr, places, side="right") - 1
        columns = self.overlay.indices[places].astype(np.int64)
        keys = rows * self.overlay.shape[1] + columns
        looks = self.look_behind(keys)
        behind = next(looks)
        while not (behind.is_whole or is_late()):
            behind = next(looks)
        query_words, doc_words = self.model.query_vectoriser.words_, self.model.doc_vectoriser.words_
        pairs = zip(rows.tolist(), columns.tolist(), self.overlay.data[places].tolist(), keys.tolist(), strict=True)
        changed = [ChangedPair(query_words[i], doc_words[j], weight, behind[key]) for i, j, weight, key in pairs]
        return Strongest(changed, behind.is_whole)


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
    return _learned(index, entries, bounds)[1]


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
    state, version = _learned(index, entries, bounds)
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


def _learned(index: BaseIndex, entries: Iterable[Entry], bounds: LearningBounds | None) -> tuple[Replay, Version]:
    """Entries replayed from nothing; those that the model has left out."""
    state, number, n_left_out = _begun(index, entries, bounds)
    later = _Counted(entries[number:] if isinstance(entries, Entries) else entries, number)
    state.apply(later)
    return state, _version(state, index, later.number, n_left_out)


def _begun(
    index: BaseIndex, entries: Iterable[Entry], bounds: LearningBounds | None, kept: Kept | None = None
) -> tuple[Replay, int, int]:
    """A replay from nothing, or from a snapshot; up to which entry that is, and how many of these the model has."""
    state = Replay(index, bounds or LearningBounds())
    n_left_out = n_baked(state.model, entries)
    if kept is not None and isinstance(entries, Entries):
        saved = kept.snapshots.restore(state, kept.model, entries, n_left_out)
        if saved is not None:
            return state, saved, n_left_out
        state = Replay(index, state.bounds)
    return state, n_left_out, n_left_out


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


def _version(state: Replay, base: BaseIndex, number: int, n_baked: int, interim: Interim | None = None) -> Version:
    matrix, inactive = (state.matrix(), state.inactive) if interim is None else (interim.matrix, interim.inactive)
    index = base.with_model(_with_overlay(state.model, matrix)) if matrix.nnz else base
    return Version(number, index, matrix, inactive, state.look_behind, n_baked, exact=interim is None)


def _with_overlay(model: TextModel, matrix: sparse.csr_array) -> TextModel:
    """A model with an overlay as its last part; what was baked into it before is one part with that.

    Thus a model that is baked again and again has one overlay, and its answers are those of the service to the bit.
    """
    *parts, last = model.weights.parts
    if model.baked and isinstance(last, Sparse) and last.scale == 1.0:
        return replace(model, weights=Weights([*parts, Sparse(weights=last.weights + matrix)]))
    return replace(model, weights=model.weights + Weights([Sparse(weights=matrix)]))


class _LooksInTurns:
    """Finds the votes behind pairs of words in a state that a thread changes, in turns with it.

    Versions have this and not the learner, which has them: in such a circle a learner that is closed, and with it the
    index that it served, would stay in memory until the garbage collector looks at all objects, minutes later.
    """

    def __init__(self, state: Replay, applying: threading.Lock) -> None:
        self._state, self._applying = state, applying

    def __call__(self, keys: NDArray[np.int64]) -> Iterator[LookBehind]:
        looks = self._state.look_behind(keys)
        while (behind := self._next(looks)) is not None:
            yield behind
            if not behind.is_whole:
                time.sleep(_LOOK_PAUSE_SECONDS)

    def _next(self, looks: Iterator[LookBehind]) -> LookBehind | None:
        # Going far back takes its time; who waits for that has one of the few threads that search.
        if not self._applying.acquire(timeout=_LOOK_WAIT_SECONDS):
            seconds = max(1.0, self._state.seconds_left)  # 0 until the first is learned again
            detail = f"what was taught is being learned again, for about {seconds:.0f} s; come again"
            raise HttpProblem(503, detail, "learning", seconds)
        try:
            return next(looks, None)
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
        self._state, self._n_exact, n_left_out = begun or _begun(index, entries, bounds, kept)
        self._todo: deque[Entry] = deque()
        self._waiting: list[tuple[int, Future[Version]]] = []
        self._changed = threading.Condition()
        self._is_whole, self._is_saving = True, False
        self._interim: Interim | None = None
        self._seconds_back = 0.0  # that going back was to take, until it is done
        self._stopping = False
        self.failure: str | None = None
        self.query_row = self._state.query_row
        self._look_behind = _LooksInTurns(self._state, self._applying)
        self._state.compile()  # so that the first to teach does not wait for it
        self._start(entries, n_left_out)
        self._thread = threading.Thread(target=self._run, name="tercet-learner", daemon=True)
        self._thread.start()

    def _start(self, entries: Sequence[Entry], n_left_out: int) -> None:
        """Have the entries learned that came after what there is, or where that goes far back, have them count."""
        n_later = len(entries) - self._n_exact
        later = entries[self._n_exact :]
        if self._n_exact > n_left_out and 0 < n_later <= SNAPSHOT_EVERY:
            later = list(later)
            self._state.prepare(later)
            self._seconds_back = self._state.seconds_back(later)
            if self._seconds_back > _INTERIM_SECONDS:
                self._todo.extend(later)
                self.current = _version(self._state, self._base, self._n_exact, n_left_out)
                self._serve_interim(later)
                return
        counted = _Counted(later, self._n_exact)
        self._state.apply(counted)
        self._n_exact = counted.number
        self._publish(_version(self._state, self._base, self._n_exact, n_left_out))

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

    def _begun_over(self, index: BaseIndex, entries: Sequence[Entry]) -> tuple[Replay, int, int] | None:
        """As `_begun`, what this one has applied over other documents; None where the model differs."""
        if index.model is not self._base.model or not (isinstance(index, Index) and isinstance(self._base, Index)):
            return None  # another engine has rows no sooner than a replay has
        with self._applying:
            if not self._is_whole:
                return None
            return self._state.over(index), self._n_exact, self.current.n_baked

    @property
    def seconds_left(self) -> float:
        """About how long it will be until all is learned that is being learned now; any thread may ask."""
        return self._state.seconds_left or self._seconds_back

    def exact_in(self, version: Version) -> float | None:
        """The same of a version, for those who are told: 0 where it is exact, None where none will be."""
        if version.exact:
            return 0.0
        return None if self.failure is not None else max(0.1, round(self.seconds_left, 1))

    def close(self, at_end: bool = False) -> None:
        """Apply what was told, and stop; at the end of a service, keep what it has learned."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
        if at_end:
            self._keep(at_end)

    def _keep(self, at_end: bool = False) -> None:
        """Save what is learned, where that is due; entries that come meanwhile count in the interim."""
        if self._kept is None or not self._is_whole:
            return
        snapshots, model = self._kept
        save = snapshots.due(self._state, model, self._n_exact, self.current.n_baked, at_end)
        if save is None:
            return
        self._is_saving = True
        saving = threading.Thread(target=self._save, args=(save,), name="tercet-snapshot")
        saving.start()
        goes_on = not at_end
        while goes_on:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_saving or self._uncounted(self._todo))
                goes_on = self._is_saving
            if goes_on:
                with self._applying:
                    goes_on = self._serve_later()
        saving.join()

    def _save(self, save: Callable[[], bool]) -> None:
        try:
            save()
        finally:
            with self._changed:
                self._is_saving = False
                self._changed.notify()

    def _run(self) -> None:
        try:
            self._keep()  # what a start had to replay
            while self._learn_next():
                self._keep()
        except Exception as error:
            # A defect. Readers keep the last whole version; the journal keeps the entries for a restart.
            _log.exception("the learner stopped after entry %d", self._n_exact)
            self._fail(f"the learner stopped: {type(error).__name__}")

    def _learn_next(self) -> bool:
        """Wait for entries, and learn them; False where there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._todo or self._stopping)
            entries = list(self._todo)
        if not entries:
            return False
        try:
            with self._applying:
                self._state.prepare(entries)
        except EngineError as error:
            _log.warning("entry %d waits to be learned: %s", entries[0].number, error)
            with self._changed:
                # Where it ends, they are in the journal for the next start.
                return not self._changed.wait_for(lambda: self._stopping, timeout=_ENGINE_AWAY_SECONDS)
        with self._applying:
            self._learn(entries)
        return True

    def _learn(self, entries: Sequence[Entry]) -> None:
        """Have entries learned exactly; where that takes long they count before, as do others that come meanwhile."""
        if self._interim is None:
            self._seconds_back = self._state.seconds_back(entries)
        if self._interim is not None or self._seconds_back > _INTERIM_SECONDS:
            self._serve_interim(self._uncounted(entries))  # before the state has them
        self._is_whole = False  # until it went well
        self._state.apply(entries, None if self._interim is None else self._serve_later)
        self._n_exact, self._interim, self._seconds_back = entries[-1].number, None, 0.0
        with self._changed:
            for _ in entries:
                self._todo.popleft()
        if self._n_exact >= self.current.number:  # else what came meanwhile is served in the interim, and is next
            version = _version(self._state, self._base, self._n_exact, self.current.n_baked)
            outcomes = {entry.number: self._state.outcomes(entry) for entry in entries}
            self._publish(replace(version, outcomes=outcomes))
        self._is_whole = True

    def _serve_interim(self, entries: Sequence[Entry]) -> None:
        """Have entries, which are prepared and `_uncounted`, count in a version that is not exact."""
        if not entries:
            return
        if self._interim is None:
            self._is_whole = False  # the interim takes over its weights
            self._interim = Interim(self._state)
        outcomes = self._interim.apply(entries)
        version = _version(self._state, self._base, entries[-1].number, self.current.n_baked, self._interim)
        self._publish(replace(version, outcomes=outcomes))

    def _uncounted(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those that neither the state has nor the interim; another interim of before may have had some of them."""
        counted = self._n_exact if self._interim is None else self.current.number
        return [entry for entry in entries if entry.number > counted]

    def _serve_later(self) -> bool:
        """Have entries count that came while the state is busy; whether all that they speak of could be looked up."""
        with self._changed:
            later = self._uncounted(self._todo)
        try:
            self._state.prepare(later)
        except EngineError:
            return False  # tried again, and told, when it is their turn
        self._serve_interim(later)
        return True

    def _publish(self, version: Version) -> None:
        self.current = replace(version, look_behind=self._look_behind)  # the swap: one reference
        self._answer()

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
