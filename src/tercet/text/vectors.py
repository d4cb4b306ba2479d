"""Documents and queries as vectors on disk, made of texts that may be larger than memory.

::

    vectors/manifest.json, arrays-….safetensors   the vectoriser, or one for each side
    vectors/docs/                                 rows of the documents, with their ids
    vectors/queries/                              rows of the queries, where there are any
    vectors/writing/                              locked by the writer, and gone when it is done

The manifest is written last: a folder without one is being written, or what a killed writer left.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tercet.data.lines import surrogate_problem
from tercet.data.mapped_rows import VECTORS_UNFINISHED
from tercet.data.shards import SHARD_ENTRIES, MappedRows, ShardWriter, StoredIds, remove_unfinished
from tercet.errors import BundleError, DamagedBundleError, InputError
from tercet.store import MANIFEST_NAME, Verify, check_destination, claim_folder, read_bundle, write_bundle
from tercet.store.bundle import UNCONFIRMED
from tercet.store.codec import decode, encode
from tercet.store.kinds import VECTORS
from tercet.store.schema import OMIT_DEFAULT, SameAs
from tercet.store.strings import PackedStrings
from tercet.text.analyser import Analyser
from tercet.text.counting import WordCollector, WordCounts
from tercet.text.vectoriser import Vectoriser

DOCS, QUERIES = "docs", "queries"
OURS: Final = (DOCS, QUERIES, VECTORS_UNFINISHED)  # beside the manifest
BLOCK_TEXTS: Final = 4096  # at most, that are held at a time
BLOCK_LETTERS: Final = 2**22  # at most, but for a text that has more by itself

Texts: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Block = tuple[list[str], list[str]]  # ids, texts
_END: Final = object()  # behind the last text


@dataclass(frozen=True, eq=False)
class Vectors:
    """A folder of vectors. Open it with ``Vectors.open``, make it with ``vectorise``.

    Attributes
    ----------
    path : the folder
    docs : the documents' rows, ``MappedRows``
    queries : the queries' rows, or None
    query_vectoriser, doc_vectoriser : what made them; the same object where both sides have one vocabulary

    Examples
    --------
    >>> import tempfile
    >>> from tercet.text import vectorise
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = vectorise({"a": "green tea", "b": "black tea"}, {"q": "tea"}, f"{folder}/vectors")
    ...     vectors = Vectors.open(f"{folder}/vectors")
    ...     vectors.docs.shape, vectors.doc_ids[1]
    ((2, 3), 'b')
    """

    path: Path
    docs: MappedRows
    queries: MappedRows | None
    query_vectoriser: Vectoriser
    doc_vectoriser: Vectoriser

    @classmethod
    def open(cls, path: str | os.PathLike[str], verify: Verify = "touch") -> Vectors:
        """Open a folder of vectors.

        ``verify`` is "touch": each block of its files is checked when it is first looked at; "open": everything is read
        once and checked; or "never": damage is not noticed.
        """
        bundle = read_bundle(path, kind=VECTORS)
        saved = decode(_SavedVectors, bundle.meta, bundle.arrays, where=f"{bundle.path}: meta")
        rows = {}
        for name, digest, vectoriser in (
            (DOCS, saved.docs_digest, saved.docs),
            (QUERIES, saved.queries_digest, saved.queries),
        ):
            if digest is not None:
                rows[name] = opened = MappedRows.open(bundle.path / name, verify)
                n_words = len(vectoriser.words_)
                if opened.fingerprint() != digest or opened.shape[1] != n_words or opened.ids is None:
                    raise DamagedBundleError(f"{opened.path} is not what the vectors in {bundle.path} were made with")
        return cls(bundle.path, rows[DOCS], rows.get(QUERIES), saved.queries, saved.docs)

    @property
    def vectoriser(self) -> Vectoriser:
        """What made the documents' rows, and the queries' where both have one vocabulary."""
        return self.doc_vectoriser

    @property
    def doc_ids(self) -> StoredIds:
        """The documents' ids: ``doc_ids[row]``, ``doc_ids.find(id)``, ``doc_ids.get_many(ids)``."""
        assert self.docs.ids is not None
        return self.docs.ids

    @property
    def query_ids(self) -> StoredIds:
        """The queries' ids, in the same way."""
        if self.queries is None or self.queries.ids is None:
            raise InputError(f"{self.path} has no queries; vectorise them together with the documents")
        return self.queries.ids


@dataclass(frozen=True)
class _SavedVectors:
    queries: Vectoriser
    docs: Annotated[Vectoriser, SameAs("queries", "shared_vocabulary")]
    has_queries: bool
    docs_digest: str
    queries_digest: Annotated[str | None, OMIT_DEFAULT] = None


def vectorise(
    docs: Texts,
    queries: Texts | None,
    path: str | os.PathLike[str],
    *,
    vectoriser: Vectoriser | None = None,
    query_vectoriser: Vectoriser | None = None,
    analyser: Analyser | None = None,
    weighting: str = "tfidf",
    min_df: int | float = 1,
    max_df: int | float = 1.0,
    max_words: int | None = None,
    shard_entries: int = SHARD_ENTRIES,
    progress: Callable[[int], Any] | None = None,
) -> Vectors:
    """Turn texts into vectors on disk: the numbers that ``Vectoriser.fit_transform_docs`` would give, to the bit.

    Texts are read once. Their words are counted, and the counts put aside in a temporary file in ``path``, until the
    last text has told which words there are. With a fitted vectoriser rows are written at once. After an error nothing
    is left of them.

    Parameters
    ----------
    docs, queries : id -> text, or pairs (id, text) in any iterable; queries may be None
    path : a folder that is new or empty
    vectoriser : fitted, such as that of a model; without it, words and weights are learned from the documents
    query_vectoriser : fitted, for queries that have a vocabulary of their own
    analyser, weighting, min_df, max_df : see ``Vectoriser``; words that only queries have get a column, too
    max_words : keep only that many words, those that occur most often. This and ``min_df`` choose among all words at
        the end, so they make the vectors and the model smaller, but not the memory that counting takes
    shard_entries : see ``ShardWriter``
    progress : called with the number of documents read so far

    Notes
    -----
    Memory: the different words of all documents (about 200 bytes each), a block of texts, and what ``ShardWriter``
    takes. Disk: 8 bytes for each word of each document, and as much again until the last row is written.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vectors = vectorise({"a": "green fields", "b": "green eyes"}, {"q": "eyes"}, Path(folder, "vectors"))
    ...     vectors.docs.shape, vectors.doc_ids.find("b"), vectors.vectoriser.words_
    ((2, 3), 1, ['eyes', 'fields', 'green'])
    """
    if vectoriser is None and query_vectoriser is not None:
        raise InputError("query_vectoriser stands beside a given vectoriser; without one, both sides share the new one")
    folder = Path(path)
    with _alone_in(folder) as aside:
        if vectoriser is None:
            vectoriser = query_vectoriser = Vectoriser(
                analyser=analyser, weighting=weighting, min_df=min_df, max_df=max_df, max_features=max_words
            )
            sides = _learn_and_write(docs, queries, folder, aside, vectoriser, shard_entries, progress)
        else:
            query_vectoriser = query_vectoriser or vectoriser
            rows = ((vectoriser.transform_docs(block), ids) for ids, block in _blocks(docs, progress))
            sides = {DOCS: _write(folder / DOCS, len(vectoriser.words_), shard_entries, rows)}
            if queries is not None:
                rows = ((query_vectoriser.transform_queries(block), ids) for ids, block in _blocks(queries, None))
                sides[QUERIES] = _write(folder / QUERIES, len(query_vectoriser.words_), shard_entries, rows)
        return _sealed(folder, sides, query_vectoriser, vectoriser)


@contextmanager
def _alone_in(folder: Path) -> Iterator[Path]:
    """Let one writer fill a folder, and clear away what it wrote should it fail; gives a folder that will be gone."""
    check_destination(folder, siblings=OURS)
    aside = folder / VECTORS_UNFINISHED
    with claim_folder(aside, f"{folder} is being written by another process; nothing was written"):
        if (folder / MANIFEST_NAME).exists():
            raise BundleError(f"{folder} holds vectors already; choose another folder, or remove it first")
        for name in (DOCS, QUERIES):
            remove_unfinished(folder / name)  # of a writer that was killed
        try:
            yield aside
        except BaseException as error:
            is_there = (folder / MANIFEST_NAME).exists()
            if not is_there:
                for name in (DOCS, QUERIES):
                    with suppress(OSError, BundleError):  # the first error is the one to report
                        remove_unfinished(folder / name)
            if isinstance(error, BundleError) and isinstance(error.__cause__, OSError):
                # What is said of a file on the way says nothing of the whole.
                which = UNCONFIRMED if is_there else "nothing was written"
                raise BundleError(f"{folder} cannot be written: {error.__cause__}; {which}") from error
            raise


def _learn_and_write(
    docs: Texts,
    queries: Texts | None,
    folder: Path,
    aside: Path,
    vectoriser: Vectoriser,
    shard_entries: int,
    progress: Callable[[int], Any] | None,
) -> dict[str, MappedRows]:
    collector = WordCollector()
    with Spool(aside) as doc_counts, Spool(aside) as query_counts:
        for ids, texts in _blocks(docs, progress):
            doc_counts.put(vectoriser.count(collector, texts), ids)
        if queries is not None:
            for ids, texts in _blocks(queries, None):
                query_counts.put(vectoriser.count(collector, texts, only_words=True), ids)
        columns = vectoriser.settle(collector)
        del collector  # the words are the vectoriser's now
        vectoriser.settle_scale(counts.moved(columns) for counts, _ in doc_counts)
        n_words = len(vectoriser.words_)
        rows = ((vectoriser.doc_rows(counts.moved(columns)), ids) for counts, ids in doc_counts)
        sides = {DOCS: _write(folder / DOCS, n_words, shard_entries, rows)}
        if queries is not None:
            rows = ((vectoriser.query_rows(counts.moved(columns)), ids) for counts, ids in query_counts)
            sides[QUERIES] = _write(folder / QUERIES, n_words, shard_entries, rows)
        return sides


def _write(path: Path, n_words: int, shard_entries: int, blocks: Iterable[tuple[Any, list[str]]]) -> MappedRows:
    with ShardWriter(path, n_columns=n_words, with_ids=True, shard_entries=shard_entries) as writer:
        for rows, ids in blocks:
            writer.add(rows, ids)
        return writer.close()


def _sealed(
    folder: Path, rows: dict[str, MappedRows], query_vectoriser: Vectoriser, doc_vectoriser: Vectoriser
) -> Vectors:
    digests = {f"{name}_digest": side.fingerprint() for name, side in rows.items()}
    meta, arrays = encode(_SavedVectors(query_vectoriser, doc_vectoriser, QUERIES in rows, **digests))
    write_bundle(folder, kind=VECTORS, meta=meta, arrays=arrays, siblings=OURS)
    return Vectors(folder, rows[DOCS], rows.get(QUERIES), query_vectoriser, doc_vectoriser)


def _blocks(texts: Texts, progress: Callable[[int], Any] | None) -> Iterator[Block]:
    """Ids and texts, as many at a time as may be held."""
    pairs = texts.items() if isinstance(texts, Mapping) else texts
    ids: list[str] = []
    block: list[str] = []
    n_letters, n_done = 0, 0
    for pair in chain(pairs, [_END]):
        if block and (pair is _END or len(block) == BLOCK_TEXTS or n_letters >= BLOCK_LETTERS):
            yield ids, block
            n_done += len(block)
            if progress is not None:
                progress(n_done)
            ids, block, n_letters = [], [], 0
        if pair is not _END:
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise InputError(f"text {n_done + len(block)} is {pair!r}; expected a pair of an id and a text")
            name, text = pair
            for what, value in (("the id", name), ("the text", text)):
                if not isinstance(value, str):
                    raise InputError(f"{what} of text {n_done + len(block)} is {value!r}; expected a string")
            if problem := surrogate_problem(name):
                raise InputError(f"the id of text {n_done + len(block)} {problem}")
            ids.append(name)
            block.append(text)
            n_letters += len(text)


class Spool:
    """Word counts and ids put aside in a file without a name: it is gone with this process, whatever ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Without a buffer, so that a full disk is noticed at once, and not again when the file is closed.
        try:
            self._file: Any = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise BundleError(f"{folder} cannot be written: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def put(self, counts: WordCounts, ids: list[str]) -> None:
        packed = PackedStrings.pack(ids)
        arrays = (
            np.array([len(ids), len(counts.column), len(packed.letters)], dtype=np.int64),
            counts.indptr,
            counts.n_words,
            packed.starts,
            counts.column.astype(np.int32),
            counts.times.astype(np.int32),
            packed.letters,
        )
        try:
            for array in arrays:
                rest = np.ascontiguousarray(array).view(np.uint8).data
                while rest:
                    rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise BundleError(f"{self._folder} cannot be written: {error}") from error

    def __iter__(self) -> Iterator[tuple[WordCounts, list[str]]]:
        """What was put aside, block by block in its order."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        while self._file.tell() < size:
            n, n_entries, n_letters = self._read(np.int64, 3).tolist()
            indptr, n_words, starts = (self._read(np.int64, size) for size in (n + 1, n, n + 1))
            column, times = (self._read(np.int32, n_entries) for _ in range(2))
            ids = PackedStrings(self._read(np.uint8, n_letters), starts).many(np.arange(n))
            yield WordCounts(column.astype(np.int64), times.astype(np.float64), indptr, n_words), ids

    def _read(self, dtype: Any, size: int) -> NDArray[Any]:
        array = np.empty(size, dtype=dtype)
        rest = array.view(np.uint8).data
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise BundleError(f"what was put aside in {self._folder} has been cut short")
            rest = rest[count:]
        return array
