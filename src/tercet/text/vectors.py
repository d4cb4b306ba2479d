"""Documents and queries as vectors on disk, made of texts that may be larger than memory.

A folder of vectors is one bundle: the vectorizer, or one for each side; rows of documents and of queries; their ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.lines import surrogate_problem
from tercet.data.stored_rows import NewFile, RowSpool, mapped_rows, spooling
from tercet.errors import BundleError, InputError
from tercet.store import Verify, read_bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.store.kinds import VECTORS
from tercet.store.schema import SameAs
from tercet.store.strings import PackedIds, PackedStrings
from tercet.text.counting import WordCollector, WordCounts
from tercet.text.vectorizer import Vectorizer

DOC_ROWS, QUERY_ROWS = "doc_rows.", "query_rows."  # before the names of arrays
BLOCK_TEXTS: Final = 4096  # most texts of a block
BLOCK_LETTERS: Final = 2**22  # most characters of a block, unless a single text has more

Texts: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Block = tuple[list[str], list[str]]  # ids, texts
_END: Final = object()  # behind the last text


@dataclass(frozen=True, eq=False)
class Vectors:
    """A folder of vectors, made by ``vectorize`` and opened by ``Vectors.open``.

    Attributes
    ----------
    path : the folder
    docs, queries : CSR arrays whose arrays are mapped; None without queries
    doc_ids, query_ids : ``ids[row]``, ``ids.find(id)``, ``ids.get_many(ids)``; empty without queries
    vectorizer : the vectorizer of both

    Examples
    --------
    >>> import tempfile
    >>> from tercet.text import vectorize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = vectorize({"a": "green tea", "b": "black tea"}, {"q": "tea"}, f"{folder}/vectors")
    ...     vectors = Vectors.open(f"{folder}/vectors")
    ...     vectors.docs.shape, vectors.doc_ids[1]
    ((2, 3), 'b')
    """

    path: Path
    docs: sparse.csr_array
    doc_ids: PackedIds
    queries: sparse.csr_array | None
    query_ids: PackedIds
    vectorizer: Vectorizer

    @classmethod
    def open(cls, path: str | os.PathLike[str], verify: Verify = "open") -> Vectors:
        """Open a folder of vectors; ``verify="open"`` reads and checks every byte, "never" leaves damage unnoticed."""
        bundle = read_bundle(path, kind=VECTORS, mapped=True, verify=verify)
        where = str(bundle.path)
        parts: dict[str, dict[str, NDArray[Any]]] = {"": {}, DOC_ROWS: {}, QUERY_ROWS: {}}
        for name, array in bundle.arrays.items():
            prefix = next(prefix for prefix in (DOC_ROWS, QUERY_ROWS, "") if name.startswith(prefix))
            parts[prefix][name.removeprefix(prefix)] = array
        saved = decode(_SavedVectors, bundle.meta, parts[""], where=f"{where}: meta")
        sides: list[tuple[sparse.csr_array | None, PackedIds]] = [(None, PackedIds.pack(()))]
        for prefix, vectorizer in ((QUERY_ROWS, saved.queries), (DOC_ROWS, saved.docs)):
            if prefix == DOC_ROWS or saved.has_queries:
                name = f"{where}: {prefix.removesuffix('.')}"
                rows = mapped_rows(parts[prefix], len(vectorizer.words_), name, verify)
                ids = PackedIds.from_arrays(parts[prefix], rows.shape[0], name, verify == "open")
                sides.append((rows, ids))
        (docs, doc_ids), (queries, query_ids) = sides[-1], sides[-2]
        assert docs is not None
        return cls(bundle.path, docs, doc_ids, queries, query_ids, saved.docs)


@dataclass(frozen=True)
class _SavedVectors:
    queries: Vectorizer
    docs: Annotated[Vectorizer, SameAs("queries", "shared_vocabulary")]
    has_queries: bool


def vectorize(
    docs: Texts,
    queries: Texts | None,
    path: str | os.PathLike[str],
    *,
    vectorizer: Vectorizer | None = None,
    progress: Callable[[int], Any] | None = None,
) -> Vectors:
    """Turn texts into vectors on disk, with the bits of ``Vectorizer.fit_transform_docs``.

    Texts are read once; their word counts wait in a temporary file beside ``path`` for the vocabulary of all texts.
    The
    folder is written at the end, as a whole; an error or a kill leaves nothing.

    Parameters
    ----------
    docs, queries : id -> text, or pairs (id, text) in any iterable; queries may be None
    path : a folder that is new or empty
    vectorizer : a fitted one is used as it is, such as that of a model. Another learns words and weights from the
        documents, and words of queries get a column, too; None for ``Vectorizer()``. A smaller ``max_features`` makes
        vectors and model smaller, but not the memory of counting
    progress : called with the number of documents read

    Notes
    -----
    Memory: the different words of all documents (about 200 bytes each), 16 bytes for each document, and a block of
    texts. Disk: 8 bytes for each word of each document, and twice as much again until the folder is written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vectors = vectorize({"a": "green fields", "b": "green eyes"}, {"q": "eyes"}, Path(folder, "vectors"))
    ...     vectors.docs.shape, vectors.doc_ids.find("b"), vectors.vectorizer.words_
    ((2, 3), 1, ['eyes', 'fields', 'green'])
    """
    folder, vectorizer = Path(path), vectorizer or Vectorizer()
    with spooling(folder) as new_file:
        if not hasattr(vectorizer, "words_"):
            vectorizer = copy(vectorizer)
            sides = _learn_and_spool(docs, queries, new_file, vectorizer, progress)
        else:
            rows = ((vectorizer.transform_docs(block), ids) for ids, block in _blocks(docs, progress))
            sides = {DOC_ROWS: _spooled(new_file, vectorizer, rows)}
            if queries is not None:
                rows = ((vectorizer.transform_queries(block), ids) for ids, block in _blocks(queries, None))
                sides[QUERY_ROWS] = _spooled(new_file, vectorizer, rows)
        meta, arrays = encode(_SavedVectors(vectorizer, vectorizer, QUERY_ROWS in sides))
        for prefix, side in sides.items():
            arrays |= {prefix + name: array for name, array in side.arrays().items()}
        write_bundle(folder, kind=VECTORS, meta=meta, arrays=arrays)
    return Vectors.open(folder, verify="never")


def _learn_and_spool(
    docs: Texts,
    queries: Texts | None,
    new_file: NewFile,
    vectorizer: Vectorizer,
    progress: Callable[[int], Any] | None,
) -> dict[str, RowSpool]:
    collector = WordCollector()
    with Spool(new_file()) as doc_counts, Spool(new_file()) as query_counts:
        for ids, texts in _blocks(docs, progress):
            doc_counts.put(vectorizer.count(collector, texts), ids)
        if queries is not None:
            for ids, texts in _blocks(queries, None):
                query_counts.put(vectorizer.count(collector, texts, only_words=True), ids)
        columns = vectorizer.settle(collector)
        del collector  # free memory: the vectorizer has the words
        vectorizer.settle_scale(counts.moved(columns) for counts, _ in doc_counts)
        rows = ((vectorizer.doc_rows(counts.moved(columns)), ids) for counts, ids in doc_counts)
        sides = {DOC_ROWS: _spooled(new_file, vectorizer, rows)}
        if queries is not None:
            rows = ((vectorizer.query_rows(counts.moved(columns)), ids) for counts, ids in query_counts)
            sides[QUERY_ROWS] = _spooled(new_file, vectorizer, rows)
        return sides


def _spooled(new_file: NewFile, vectorizer: Vectorizer, blocks: Iterable[tuple[Any, list[str]]]) -> RowSpool:
    spool = RowSpool(new_file, len(vectorizer.words_), with_ids=True)
    for rows, ids in blocks:
        spool.add(rows, ids)
    return spool


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
    """Word counts and ids put aside in a file."""

    def __init__(self, file: Any) -> None:
        self._file = file

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
        for array in arrays:
            rest = np.ascontiguousarray(array).view(np.uint8).data
            while rest:
                rest = rest[self._file.write(rest) :]

    def __iter__(self) -> Iterator[tuple[WordCounts, list[str]]]:
        """Yield the stored blocks in order."""
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
                raise BundleError("the temporary file of word counts has been cut short")
            rest = rest[count:]
        return array
