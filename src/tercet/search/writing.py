"""Changes of an index: new segments first, then one commit, then cleaning up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from tercet.errors import BundleError, InputError, TercetError
from tercet.fitting.text_model import TextModel
from tercet.search.documents import clashes
from tercet.search.folder import Committed, Folder, Listed
from tercet.search.growth import GrowingVocabulary, scorer_of
from tercet.search.scorer import Scorer
from tercet.search.segment import MOST_SEGMENTS, Segment
from tercet.search.view import Factors, LiveSegment, View
from tercet.store import Verify
from tercet.store.bundle import UNCHANGED, UNCONFIRMED

_NONE_DEAD = np.empty(0, dtype=np.uint16)


class Writer:
    """Writes segments to the index folder, or keeps segments in memory, and commits a list of segments."""

    def __init__(self, folder: Folder | None, committed: Committed, scorer: Scorer) -> None:
        self.folder, self.committed, self.scorer = folder, committed, scorer
        self.next_segment = committed.next_segment
        self.model: TextModel | None = None  # the model extended by new words

    def with_words(self, segments: Iterable[Segment], growth: GrowingVocabulary) -> Iterator[Segment]:
        """Yield segments to write, after adding the words of their documents to the vocabulary."""
        for segment in segments:
            words = growth.vectorizer.added
            if len(words.words) > len(self.committed.added.words):
                self.committed = replace(self.committed, added=words)
                self.model = growth.model
                self.scorer = scorer_of(self.model)
            yield segment

    def put(self, segment: Segment) -> LiveSegment:
        """Write a segment and its latent documents; written arrays are mapped and memory is freed."""
        factors = made_factors(segment, self.scorer)
        if self.folder is None:
            return LiveSegment(segment, factors=factors)
        name = f"{self.next_segment:06d}"
        self.next_segment += 1
        digest = self.folder.write_segment(segment, name, self.committed.vectorizer)
        segment = self.folder.read_segment(Listed(name, digest, _NONE_DEAD), self.committed.vectorizer, verify="never")
        return LiveSegment(segment, factors=self.keep_factors(segment, factors))

    def put_new(self, pieces: Iterable[LiveSegment | Segment]) -> list[LiveSegment]:
        """Write the new segments among some segments."""
        return [self.put(piece) if isinstance(piece, Segment) else piece for piece in pieces]

    def keep_factors(self, segment: Segment, factors: Factors | None) -> Factors | None:
        """Write the latent documents of a segment, if missing on disk."""
        if self.folder is None or factors is None:
            return factors
        weights, n_components = self.scorer.fingerprint, self.scorer.n_components
        stored_factors = self.folder.read_factors(segment, weights, n_components, verify="open")
        if stored_factors is not None:
            return stored_factors
        self.folder.write_factors(segment, weights, factors)
        return self.folder.read_factors(segment, weights, n_components, verify="never")  # written just now

    def commit(self, entries: Sequence[LiveSegment]) -> tuple[Committed, View]:
        alive = tuple(entry for entry in widened(entries, self.scorer) if entry.n_alive)
        listed = tuple(Listed(entry.segment.name, entry.segment.digest, entry.dead) for entry in alive)
        after = replace(self.committed, next_segment=self.next_segment, segments=listed)
        if self.folder is not None:
            after = replace(after, digest=self.folder.commit(after))
            self.folder.clean(after)
        return after, View(alive, self.scorer)


@contextmanager
def writing(folder: Folder | None) -> Iterator[Committed | None]:
    """Lock an index and yield the current commit. After an error, written files are removed."""
    if folder is None:
        yield None
        return
    with folder.writing():
        before = folder.committed_or_none()
        folder.clean(before)
        try:
            yield before
        except BaseException as error:
            # Report the first error only; the next writer removes leftover files.
            is_changed = False
            with suppress(OSError, TercetError):
                now = folder.committed_or_none()
                is_changed = now is not None and (before is None or now.digest != before.digest)
                folder.clean(now)
            if isinstance(error, BundleError) and isinstance(error.__cause__, OSError):
                # An error that names a temporary file says nothing about the index.
                which = UNCONFIRMED if is_changed else UNCHANGED
                raise BundleError(f"{folder.path} cannot be written: {error.__cause__}; {which}") from error
            raise


def added(
    entries: Sequence[LiveSegment], segments: Iterable[Segment], writer: Writer, replacing: bool
) -> list[LiveSegment]:
    """Return entries followed by new segments; taken ids are an error, or the old documents are removed."""
    after = list(entries)
    for segment in segments:
        if len(after) >= MOST_SEGMENTS:
            raise InputError(f"an index has at most {MOST_SEGMENTS:,} segments; merge it, or use a larger segment_docs")
        twice = segment.ids.repeated()
        if twice is not None:
            raise InputError(f"document {twice!r} is there twice; ids must differ")
        for i, entry in enumerate(after):
            clashing = clashes(entry, segment.ids)
            if not clashing:
                continue
            _, doc_id = clashing[0]
            if i >= len(entries):
                raise InputError(f"document {doc_id!r} is there twice; ids must differ")
            if not replacing:
                raise InputError(f"document {doc_id!r} is in the index already; replace takes it")
            after[i] = entry.drop(np.array([row for row, _ in clashing], dtype=np.int64))
        after.append(writer.put(segment))
    return after


def widened(entries: Iterable[LiveSegment], scorer: Scorer) -> list[LiveSegment]:
    """Return entries over all words of a scorer; older segments have no entries in new columns."""
    return [replace(entry, segment=entry.segment.widened(scorer.n_terms)) for entry in entries]


def made_factors(segment: Segment, scorer: Scorer) -> Factors | None:
    """Compute the latent documents of a segment; None without a low-rank part."""
    if not scorer.latent:
        return None
    segment = segment.widened(scorer.n_terms)
    return Factors.from_values(scorer.factors(segment.matrix(np.arange(segment.n_docs))))


def opened(
    folder: Folder, committed: Committed, scorer: Scorer, verify: Verify, open_already: Sequence[LiveSegment] = ()
) -> View:
    """Read the committed segments; open segments are reused."""
    # Compare names as well: the same documents, written again, have the same digest, but the old files are gone.
    by_name = {(entry.segment.name, entry.segment.digest): entry for entry in open_already}
    entries = []
    for listed in committed.segments:
        entry = by_name.get((listed.name, listed.digest))
        if entry is None:
            segment = folder.read_segment(listed, committed.vectorizer, verify)
            entry = LiveSegment(segment, factors=kept_or_made_factors(folder, segment, scorer, verify))
        entries.append(replace(entry, dead=listed.dead))
    return View(tuple(widened(entries, scorer)), scorer)


def kept_or_made_factors(folder: Folder | None, segment: Segment, scorer: Scorer, verify: Verify) -> Factors | None:
    """Read the latent documents of a segment from disk, or compute missing ones."""
    if not scorer.latent:
        return None
    factors = None
    if folder is not None:
        try:
            factors = folder.read_factors(segment, scorer.fingerprint, scorer.n_components, verify)
        except BundleError:
            if folder.lists(segment):
                raise
            # A writer joined the segment with others and removed the segment's factors during the read.
    return made_factors(segment, scorer) if factors is None else factors
