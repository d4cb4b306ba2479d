"""Learning on from a click log, also one that grows, writing the model again and again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from numpy.typing import NDArray

from tercet.data.click_sessions import SessionCounts, odd_sessions, oddness, without_odd_sessions
from tercet.data.click_tables import read_click_log
from tercet.data.clicks import Impression, ImpressionParser, Skipped
from tercet.data.growing import GrowingFile
from tercet.data.lines import FilePath, open_lines
from tercet.data.preference_files import START, StreamPosition
from tercet.data.ubi import GrowingUbi, check_grown, open_growing
from tercet.errors import FormatError, InputError, MissingBundleError
from tercet.fitting.clicks import ClickLearner, ClickTally, Docs, Queries
from tercet.fitting.examination import BY_GUESS, choose_examination
from tercet.fitting.text_model import TextModel
from tercet.learn.online import OnlineRule
from tercet.store import check_destination, claim_folder, read_bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.store.digest import digest_of, state_digest
from tercet.store.kinds import CLICK_CHECKPOINT
from tercet.store.schema import Bounds
from tercet.weights import Weights

LINES_AT_ONCE = 1024
POLL_SECONDS = 0.2
RUNNING = "running"  # folder in a checkpoint, there and locked as long as a run is at work


@dataclass(frozen=True)
class ClickEvent:
    """What a listener is told: after each portion of the log, after each writing, and when something happened to it.

    Attributes
    ----------
    tally : what was learned from so far, over all runs
    line : lines of the log that were read
    written : whether model and checkpoint have just been written
    note : what happened to the log, or None
    """

    tally: ClickTally
    line: int
    written: bool = False
    note: str | None = None


def learn_from_clicks(
    model: TextModel,
    log: FilePath,
    docs: Docs,
    *,
    queries: Queries | None = None,
    output: str | PathLike[str] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    follow: bool = False,
    new_log: bool = False,
    every: int = 10_000,
    seconds: float = 60.0,
    skipped: Skipped = "above",
    rule: OnlineRule | None = None,
    examination: Sequence[float] | None = None,
    on_event: Callable[[ClickEvent], None] | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> TextModel:
    """Learn a model on from a click log, TSV or JSONL as `read_clicks` takes it, and return what it became.

    The model's weights stay as they are; what clicks add is one sparse part next to them (`ClickLearner`). Memory is
    that of the model, of what it learns, and of the documents where they are not on disk.

    Parameters
    ----------
    model, docs, queries, skipped, rule : as `ClickLearner` has them
    log : the file, half a line at whose end is left for later, or the folder of the service's impressions log
        (`GrowingUbi`)
    output : folder to write the model to, again and again; may be the one it was read from
    checkpoint : folder that keeps the place in the log and what was learned. When it holds those of the same model, the
        run goes on from there: no line is learned from twice, and a run that was killed at any moment ends with the
        same bits as one that was not. ``model`` may be the one that was learned on from, or what it became since
    follow : wait for more lines until ``stopped()``, and for the log itself where there is none yet; a log that is
        renamed is read to its end, and then the new one
    new_log : the log is another one than that of the checkpoint, as after a renaming that no run saw: what was learned
        stays, and the log is read from its first line
    every, seconds : impressions, or seconds, after which model and checkpoint are written, if anything was learned
    examination : the chance that each rank is looked at. By default it is estimated from the log as it is when learning
        begins, by the rule of `choose_examination`, or guessed, and a note says so; a checkpoint keeps it
    on_event : called with a `ClickEvent`
    stopped : whether to end; asked between portions and while waiting

    Notes
    -----
    Lists of sessions that no person made are left out and counted (`odd_sessions`): of the log as it is when learning
    begins, all lists of such a session; of what comes later, those from where on it is one. Without sessions, each list
    is one of its own.

    A second run for the same output or checkpoint is refused while the first is at work.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import tercet as tc
    >>> from tercet.text import Vectoriser
    >>> from tercet.weights import Identity
    >>> docs = {"a": "green avocado", "b": "avocado toast with oil"}
    >>> words = Vectoriser(min_df=1).fit(docs.values())
    >>> model = TextModel(words, words, Weights([Identity(n_terms=len(words.words_))]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = pathlib.Path(folder, "clicks.jsonl")
    ...     _ = log.write_text('{"query": "avocado", "shown": ["a", "b"], "clicked": ["b"]}\\n' * 100)
    ...     learned = learn_from_clicks(model, log, docs)
    >>> list(learned.rank({"q": "avocado"}, docs)["q"])
    ['b', 'a']
    """
    if every < 1 or not seconds > 0:
        raise InputError(f"every must be at least 1 and seconds above 0; got {every} and {seconds}")
    if output is not None:
        check_destination(output)
    with _alone(output, checkpoint):
        kept = None if checkpoint is None else ClickCheckpoint(checkpoint, skipped, rule or OnlineRule())
        progress = None if kept is None else kept.find(model)
        base = model if progress is None else progress.base
        notes: tuple[str, ...] = ()
        if progress is not None:
            if examination is not None and tuple(examination) != progress.examination:
                raise InputError(
                    f"{checkpoint} was learned with other chances of looking at a rank than those of examination; "
                    "leave them out to go on with its own, or name another folder"
                )
            examination, people = progress.examination, People.of(progress.people)
        else:
            ahead = _ahead(log)
            people, notes = ahead.people, ahead.notes
            if examination is None:
                examination, notes = ahead.examination, (*notes, f"clicks are weighed by {ahead.source}")
        learner = ClickLearner(base, docs, queries=queries, skipped=skipped, rule=rule, examination=examination)
        if on_event is not None:
            for note in notes:
                on_event(ClickEvent(learner.tally, 0, note=note))
        position = START
        if progress is not None:
            learner.online.restore(progress.state, progress.arrays)
            learner.tally = progress.tally
            position = START if new_log else progress.position
        if follow and not _is_there(log, learner.tally, on_event, stopped):
            return learner.model
        if progress is not None and not new_log:
            check_grown(log, position, progress.digest)
        with open_growing(log, position) as file:
            if follow and file.is_packed:
                raise InputError(f"{log} is gzipped and cannot grow; leave out follow")
            if progress is not None and new_log:
                people.meet_anew()
            run = _LogRun(learner, people, file, output, kept, on_event, every, seconds)
            if progress is not None and output is not None:
                learner.model.save(output)  # a kill may have come between the two writings
            learner.online.compile()
            run.go(follow, stopped)
        return learner.model


class People:
    """Which lists people made, and not robots.

    Parameters
    ----------
    odd : sessions that are left out
    seen : lists, documents shown and clicks of each session, in these and in those that came since
    n_known : lists that were there when learning began
    n_met : lists that came so far
    """

    def __init__(
        self, odd: Iterable[str] = (), seen: Mapping[str, Sequence[int]] | None = None, n_known: int = 0, n_met: int = 0
    ) -> None:
        self._counts = SessionCounts(seen, odd)
        self._n_known, self._n_met = n_known, n_met

    @staticmethod
    def of(stored: _StoredPeople) -> People:
        return People(stored.odd, stored.seen, stored.n_known, stored.n_met)

    def to_stored(self) -> _StoredPeople:
        return _StoredPeople(tuple(sorted(self._counts.odd)), self._counts.seen, self._n_known, self._n_met)

    def meet_anew(self) -> None:
        """From here on it is another log."""
        self._n_known = self._n_met

    def made(self, session: str | None, impression: Impression) -> bool:
        """Whether a person made the next list."""
        self._n_met += 1
        size = len(impression.shown), len(impression.clicked)
        if session is None:
            return oddness(1, *size, lambda: 1.0) is None
        if self._n_met <= self._n_known:
            return session not in self._counts.odd
        return not self._counts.note(session, *size)


class _Ahead(NamedTuple):
    """What a log tells, as it is, before anything is learned: who is no person, and how far people look."""

    people: People
    notes: tuple[str, ...]
    examination: tuple[float, ...] | None
    source: str


def _ahead(log: FilePath) -> _Ahead:
    if not (os.path.isfile(log) or os.path.isdir(log)):  # not there yet, or a pipe, which would wait for ever
        return _Ahead(People(), (), None, f"{BY_GUESS}: there is no file yet to estimate them from")
    try:
        # A bad line, or half of one, is said when it is learned from.
        whole = read_click_log(log, refused=lambda problem: None)
    except (InputError, OSError) as error:
        return _Ahead(People(), (), None, f"{BY_GUESS}: the log cannot be looked at as a whole: {error}")
    odd = odd_sessions(whole)
    kept = without_odd_sessions(whole, odd)
    examination = choose_examination(kept)
    seen: dict[str, list[int]] = {}
    for session, impression in zip(whole.sessions, whole.impressions, strict=False):
        counts = seen.setdefault(session, [0, 0, 0])
        for place, count in enumerate((1, len(impression.shown), len(impression.clicked))):
            counts[place] += count
    left_out = tuple(one.name for one in odd) if kept is not whole and whole.sessions else ()
    people = People(left_out, seen, len(whole.impressions))
    notes = tuple(note.removeprefix("click log: ") for note in kept.notes[len(whole.notes) :])
    return _Ahead(people, notes, examination.chances, examination.source)


def learning_folder(output: str | PathLike[str]) -> Path:
    """The checkpoint that goes with an output unless another is named: ``OUTPUT.learning``, beside it."""
    folder = Path(output).resolve()
    return folder.with_name(f"{folder.name}.learning")


@contextmanager
def _alone(output: str | PathLike[str] | None, checkpoint: str | PathLike[str] | None) -> Iterator[None]:
    """Refuse to work where another run does: each would write over what the other has learned."""
    owned = {} if output is None else {learning_folder(output): output}
    if checkpoint is not None:
        owned.setdefault(Path(checkpoint).resolve(), checkpoint)
    with ExitStack() as claims:
        for folder, what in owned.items():
            refusal = f"another run is learning for {what}; let it end, or name another output and checkpoint"
            claims.enter_context(claim_folder(folder / RUNNING, refusal))
        yield


def _is_there(
    log: FilePath, tally: ClickTally, on_event: Callable[[ClickEvent], None] | None, stopped: Callable[[], bool]
) -> bool:
    """Wait for a log; False when it did not come before ``stopped()``."""
    if not os.path.exists(log) and on_event is not None:
        on_event(ClickEvent(tally, 0, note=f"there is no {log} yet; waiting for it"))
    while not os.path.exists(log):
        if stopped():
            return False
        time.sleep(POLL_SECONDS)
    return True


class _LogRun:
    """One call of `learn_from_clicks`."""

    def __init__(
        self,
        learner: ClickLearner,
        people: People,
        file: GrowingFile | GrowingUbi,
        output: str | PathLike[str] | None,
        checkpoint: ClickCheckpoint | None,
        on_event: Callable[[ClickEvent], None] | None,
        every: int,
        seconds: float,
    ) -> None:
        self.learner, self.people, self.file = learner, people, file
        self.output, self.checkpoint, self.on_event = output, checkpoint, on_event
        self.every, self.seconds = every, seconds
        self._parse = _parser(file)
        self._written = learner.tally.n_impressions
        self._written_at = time.monotonic()

    def go(self, follow: bool, stopped: Callable[[], bool]) -> None:
        while not stopped():
            lines = self._read(min(LINES_AT_ONCE, self.every))
            if lines:
                self._learn(lines)
            elif not follow:
                break
            elif self.file.is_replaced():
                self._begin_again()
            else:
                self._write_if_due()
                time.sleep(POLL_SECONDS)
        if not follow and self.file.waiting:
            self.report(note=self.file.waiting)
        self._write()

    def _read(self, limit: int) -> list[tuple[int, str]]:
        try:
            return self.file.read(limit)
        except FormatError:
            if not self.file.is_packed:
                self._write()  # a log that was cut off cannot be learned from again
            raise

    def _learn(self, lines: list[tuple[int, str]]) -> None:
        impressions, n_left_out = [], 0
        for line, text in lines:
            impression = self._parse(text, line) if text.strip() else None
            if impression is None:
                continue
            if self.people.made(self._parse.session, impression):
                impressions.append(impression)
            else:
                n_left_out += 1
        self.learner.learn(impressions)
        tally = self.learner.tally
        self.learner.tally = replace(tally, n_left_out=tally.n_left_out + n_left_out)
        self.report()
        self._write_if_due()

    def _begin_again(self) -> None:
        while lines := self._read(min(LINES_AT_ONCE, self.every)):  # that came between the last look and the renaming
            self._learn(lines)
        lost = self.file.n_waiting
        note = f"{self.file.path} is another file now; the one before was read to line {self.file.position.within:,}"
        if lost:
            note += f", and {lost:,} bytes of a line without an end are left out"
        self.file.begin_again()
        self.people.meet_anew()
        self._parse = _parser(self.file)
        self._write()
        self.report(note=note)

    def _write_if_due(self) -> None:
        fresh = self.learner.tally.n_impressions - self._written
        if fresh >= self.every or (fresh and time.monotonic() - self._written_at >= self.seconds):
            self._write()

    def _write(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.write(self.learner, self.people, self.file)
        if self.output is not None:
            self.learner.model.save(self.output)
        self._written, self._written_at = self.learner.tally.n_impressions, time.monotonic()
        self.report(written=True)

    def report(self, written: bool = False, note: str | None = None) -> None:
        if self.on_event is not None:
            self.on_event(ClickEvent(self.learner.tally, self.file.position.within, written, note))


def _parser(file: GrowingFile | GrowingUbi) -> ImpressionParser:
    """What makes impressions of lines; the first line of the file tells it how."""
    parse = ImpressionParser(file.path)
    if isinstance(file, GrowingUbi):
        return parse  # all it gives is JSON
    with closing(open_lines(file.path)) as lines:
        read_before = ((text, line) for line, text in islice(lines, file.position.within) if text.strip())
        for first in islice(read_before, 1):
            parse(*first)
    return parse


# -- checkpoints ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LogProgress:
    """What a checkpoint keeps, and the model it was learned on from."""

    base: TextModel
    position: StreamPosition
    digest: str
    tally: ClickTally
    state: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    examination: tuple[float, ...] | None
    people: _StoredPeople


@dataclass(frozen=True)
class _StoredPeople:
    """`People` as a checkpoint keeps them."""

    odd: tuple[str, ...] = ()
    seen: dict[str, list[int]] = field(default_factory=dict)
    n_known: int = 0
    n_met: int = 0


@dataclass(frozen=True)
class _StoredProgress:
    """What a checkpoint holds beside the arrays of the learner.

    ``n_parts`` and ``base`` are the number of parts and the digest of the model that was learned on from; ``offset``
    and ``line`` the place in the log, and ``log`` the digest of what stands before it.
    """

    n_parts: Annotated[int, Bounds(least=0)]
    base: str
    rules: dict[str, Any]
    offset: Annotated[int, Bounds(least=0)]
    line: Annotated[int, Bounds(least=0)]
    log: str
    tally: ClickTally
    state: dict[str, Any]
    examination: tuple[float, ...] | None = None
    people: _StoredPeople = _StoredPeople()


class ClickCheckpoint:
    """A folder with the place in the log and what was learned."""

    def __init__(self, path: str | PathLike[str], skipped: str, rule: OnlineRule) -> None:
        self.path = Path(path)
        self.rules = {"skipped": skipped, **asdict(rule)}
        self._base: tuple[int, str] | None = None

    def find(self, model: TextModel) -> LogProgress | None:
        """What is there; None where nothing is. A checkpoint of another model or other rules is refused."""
        try:
            bundle = read_bundle(self.path, kind=CLICK_CHECKPOINT)
        except MissingBundleError:
            check_destination(self.path, beside=(RUNNING,))
            self._base = len(model.weights.parts), _digest(model, model.weights)
            return None
        stored = decode(_StoredProgress, bundle.meta, where=f"{self.path}: meta")
        # The model may have been written over by what it became: the same parts, and the learned one after them.
        parts = model.weights.parts
        base = Weights(parts[: stored.n_parts]) if len(parts) in (stored.n_parts, stored.n_parts + 1) else model.weights
        if _digest(model, base) != stored.base:
            raise InputError(
                f"{self.path} belongs to another model than this; remove it to learn from the whole log anew, or name "
                "another folder"
            )
        if stored.rules != self.rules:
            raise InputError(
                f"{self.path} was learned by {stored.rules}, not {self.rules}; remove it or name another folder"
            )
        self._base = stored.n_parts, stored.base
        return LogProgress(
            replace(model, weights=base),
            StreamPosition(stored.offset, stored.line),
            stored.log,
            stored.tally,
            stored.state,
            bundle.arrays,
            stored.examination,
            stored.people,
        )

    def write(self, learner: ClickLearner, people: People, file: GrowingFile | GrowingUbi) -> None:
        assert self._base is not None
        state, arrays = learner.online.to_state()
        examination = None if learner.examination is None else tuple(learner.examination)
        at, line = file.position.at, file.position.within
        stored = _StoredProgress(
            *self._base,
            self.rules,
            at,
            line,
            file.digest(),
            learner.tally,
            state,
            examination,
            people.to_stored(),
        )
        meta, _ = encode(stored)
        write_bundle(self.path, kind=CLICK_CHECKPOINT, meta=meta, arrays=arrays, beside=(RUNNING,))


def _digest(model: TextModel, weights: Weights) -> str:
    """A digest of the words and the weights of a model."""
    return digest_of(*map(state_digest, (model.query_vectoriser, model.doc_vectoriser, weights)))
