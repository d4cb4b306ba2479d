"""Preferences from files that are never all in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._validate import check_integer, is_integer
from tercet.data.lines import FilePath, sampled_digest
from tercet.data.lookup import RowLookup, check_lookup, rows_of_ids
from tercet.data.preference_files import (
    START,
    STRETCH,
    StreamPosition,
    Stretch,
    count_preferences,
    preference_paths,
    stretches,
)
from tercet.data.preferences import Preferences
from tercet.errors import DamagedBundleError, InputError
from tercet.learn.sources import Source
from tercet.store.codec import decode, encode
from tercet.store.digest import digest_of
from tercet.store.schema import Bounds
from tercet.weights import Weights

UNKNOWN_ID = "unknown-id"  # the kind of a FormatError: a preference names something that has no row
MARKS_KEPT = 8  # places to go back to; a cluster draws ahead of the step it is at
_LOOKED_UP = 1000  # preferences at the beginning whose rows are part of the fingerprint

_log = logging.getLogger(__name__)

Count = Annotated[int, Bounds(least=0)]


class Mark(NamedTuple):
    """Where a step of a pass is: the file, the position in it, and how many preferences were left out before."""

    step: Count
    file: Count
    offset: Count
    line: Count
    skipped: Count


_BEGINNING = Mark(0, 0, *START, 0)


@dataclass(frozen=True)
class SavedStream:
    """What a checkpoint keeps of a StreamSource."""

    marks: list[Mark]


class StreamSource(Source):
    """Preferences of TSV, JSONL and Parquet files, in their order, in memory for one stretch of some thousands.

    What is drawn has the bits of the same preferences given as arrays. Checkpoints keep the place in the files, so that
    a resumed run goes on reading there (a gzipped file is unpacked up to the place).

    Parameters
    ----------
    paths : a file, several in their order, a folder or a pattern such as ``"log/*.tsv.gz"``
    query_rows, doc_rows : the row of each id: a dict, or anything with ``get_many(ids)`` that gives -1 for unknown ones
    n_steps : {"count"}, int or None
        The number of preferences of a pass. "count" finds it by reading the files once without parsing them (Parquet
        says it at once); with ``skip_unknown`` or ``leave_out`` every id is looked up for it. A number is taken as it
        is: fewer than there are takes the first so many, more is an error. None needs no look at the files, but allows
        one pass only and no schedule that must know the end.
    skip_unknown : leave out preferences with an id that has no row, and count them in ``n_skipped``; else they are an
        error that names file and line
    leave_out : rows of queries whose preferences are passed over, such as those that are held out
    stretch : preferences read at once

    Notes
    -----
    Reads and looks up 380,000 preferences a second from TSV, 290,000 from Parquet and 90,000 from JSONL, on one core.
    Memory is some 500 bytes for each preference of a stretch.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "preferences.tsv")
    ...     _ = file.write_text("q1\\td7\\td3\\nq1\\td3\\td9\\n")
    ...     source = StreamSource(file, {"q1": 0}, {"d7": 0, "d3": 1, "d9": 2})
    ...     source.n_steps, source.draw(1, lambda: None).worse.tolist()
    (2, [2])
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        query_rows: RowLookup,
        doc_rows: RowLookup,
        *,
        n_steps: int | Literal["count"] | None = "count",
        skip_unknown: bool = False,
        leave_out: ArrayLike = (),
        stretch: int = STRETCH,
    ) -> None:
        check_lookup(query_rows, "query_rows")
        check_lookup(doc_rows, "doc_rows")
        if not is_integer(n_steps, 1) and n_steps not in ("count", None):
            raise InputError(f"n_steps must be an integer from 1, 'count' or None; got {n_steps!r}")
        check_integer(stretch, "stretch")
        self.paths = preference_paths(paths)
        self.query_rows, self.doc_rows = query_rows, doc_rows
        self.skip_unknown = skip_unknown
        self.leave_out = np.unique(np.asarray(leave_out, dtype=np.int64))
        self.stretch = int(stretch)
        self.n_skipped = 0  # of a pass, as far as any was read
        self._marks: list[Mark] = []
        self._reader: Iterator[tuple[Mark, Preferences]] | None = None
        self._first, self._now = 0, Preferences([], [], [])
        self.n_steps: int | None = None
        if n_steps == "count":
            self.n_steps = self._count()
        elif n_steps is not None:
            self.n_steps = int(n_steps)

    def _count(self) -> int:
        if not self.skip_unknown and not self.leave_out.size:
            return sum(map(count_preferences, self.paths))
        n_kept = sum(len(prefs) for _, prefs in self._read(_BEGINNING))
        self._tell_skipped(n_kept)
        return n_kept

    def _tell_skipped(self, n_kept: int) -> None:
        """At the end of a pass."""
        if not n_kept and self.n_skipped:
            raise InputError(f"{self.paths[0]}: none of the {self.n_skipped:,} preferences has ids that have a row")
        if not n_kept:
            raise InputError(f"{self.paths[0]}: all preferences are of queries that are left out")
        if self.n_skipped:
            message = "%s: %d of %d preferences are left out, since an id of theirs has no row"
            _log.warning(message, self.paths[0], self.n_skipped, n_kept + self.n_skipped)

    def one_pass(self) -> Iterator[Preferences]:
        """The preferences of one pass, some thousands at a time. What is drawn next does not change."""
        n_read = 0
        for _, prefs in self._read(_BEGINNING):
            yield prefs if self.n_steps is None else prefs[: self.n_steps - n_read]
            n_read += len(prefs)
            if self.n_steps is not None and n_read >= self.n_steps:
                return
        self._ended(n_read)

    # -- drawing ------------------------------------------------------------------------------------------------

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        position = step if self.n_steps is None else step % self.n_steps
        while not self._first <= position < self._first + len(self._now):
            if self._reader is None or position < self._first + len(self._now):
                self._go_to(position)
            assert self._reader is not None
            stretch = next(self._reader, None)
            if stretch is None:
                self._reader = None
                self._ended(self._first + len(self._now))
                return Preferences([], [], [])
            mark, self._now = stretch
            self._first = mark.step
            self._marks = [*self._marks[1 - MARKS_KEPT :], mark]
        last = len(self._now) if self.n_steps is None else self.n_steps - self._first
        return self._now[position - self._first : last]

    def _go_to(self, position: int) -> None:
        """Begin to read at the last mark that is not behind the step."""
        before = [mark for mark in self._marks if mark.step <= position]
        start = before[-1] if before else _BEGINNING
        self._marks = [mark for mark in before if mark.step < start.step]
        self._reader = self._read(start)
        self._first, self._now = start.step, Preferences([], [], [])

    def _read(self, mark: Mark) -> Iterator[tuple[Mark, Preferences]]:
        """Preferences from a mark on, each time with the mark of the first of them."""
        step, number, position, skipped = mark.step, mark.file, StreamPosition(mark.offset, mark.line), mark.skipped
        for path in self.paths[number:]:
            for stretch in stretches(path, position, self.stretch):
                prefs = self._looked_up(path, stretch)
                n_unknown = len(stretch.triples) - len(prefs)
                if self.leave_out.size:
                    prefs = prefs[~np.isin(prefs.query, self.leave_out)]
                if len(prefs):
                    yield Mark(step, number, *position, skipped), prefs
                step += len(prefs)
                skipped += n_unknown
                self.n_skipped = max(self.n_skipped, skipped)
                position = stretch.after
            number, position = number + 1, START

    def _looked_up(self, path: FilePath, stretch: Stretch) -> Preferences:
        triples = stretch.triples
        columns = []
        kept = np.ones(len(triples), dtype=bool)
        for what, ids, rows in (
            ("query", triples.qid, self.query_rows),
            ("better document", triples.better, self.doc_rows),
            ("worse document", triples.worse, self.doc_rows),
        ):
            row_numbers = rows_of_ids(rows, ids)
            if (row_numbers < 0).any():
                if not self.skip_unknown:
                    first = int((row_numbers < 0).argmax())
                    raise stretch.error(
                        path,
                        first,
                        f"the {what} {ids[first]!r} has no row; give the rows of all ids, or leave such "
                        "preferences out (skip_unknown)",
                        UNKNOWN_ID,
                    )
                kept &= row_numbers >= 0
            columns.append(row_numbers)
        if not kept.all():
            columns = [column[kept] for column in columns]
        numbers = {name: column[kept] for name, column in triples.numbers().items()}
        return Preferences(*columns, **numbers)

    def _ended(self, n_kept: int) -> None:
        if self.n_steps is not None:
            raise InputError(
                f"{self.paths[-1]}: the files end after {n_kept:,} preferences and {self.n_steps:,} were expected; "
                "they have changed, or n_steps is wrong"
            )
        self._tell_skipped(n_kept)

    # -- resuming -----------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        first = next(stretches(self.paths[0], START, _LOOKED_UP)).triples
        pairs = ((first.qid, self.query_rows), (first.better, self.doc_rows), (first.worse, self.doc_rows))
        rows = [rows_of_ids(lookup, ids).tolist() for ids, lookup in pairs]
        files = [sampled_digest(path) for path in self.paths]
        return digest_of("stream", self.n_steps, self.skip_unknown, files, rows, self.leave_out)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return encode(SavedStream(self._marks))

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._marks = decode(SavedStream, meta, arrays, where="source").marks
        if any(mark.file >= len(self.paths) for mark in self._marks):
            raise DamagedBundleError(f"source: a place is in a file beyond the {len(self.paths)} there are")
        self.n_skipped = max([self.n_skipped, *(mark.skipped for mark in self._marks)])
        self._reader = None
        self._first, self._now = 0, Preferences([], [], [])
