"""An index on disk: immutable segments, and one bundle that lists the current segments.

::

    index/manifest.json, arrays-….safetensors   which segments and model count, dead rows, new words; a swap commits
    index/segments/000007/                      a segment
    index/factors/000007-0123456789abcdef/      its latent documents for the weights with that fingerprint
    index/models/0123456789abcdef/              its model, and those that promotions put in its place

All of these are bundles. A writer writes new ones, commits, and only then removes what no longer counts, so a kill at
any moment leaves what was committed last; what a dead writer left is removed by the next one. Files that a reader has
mapped stay until it lets go of them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet.errors import BundleError, DamagedBundleError, InputError, MissingBundleError
from tercet.fitting.text_model import TextModel
from tercet.search.promotions import Promotion, kept_models
from tercet.search.segment import MOST_DOCS, MOST_SEGMENTS, Segment
from tercet.search.view import Factors
from tercet.store import (
    MANIFEST_NAME,
    Bundle,
    Verify,
    bundle_kind,
    check_destination,
    lock_folder,
    read_bundle,
    take_array,
    write_bundle,
)
from tercet.store.codec import decode, encode
from tercet.store.digest import digest_of, state_digest
from tercet.store.fields import csr_problem
from tercet.store.kinds import INDEX, INDEX_FACTORS, INDEX_SEGMENT, TEXT_MODEL, WEIGHTS
from tercet.store.schema import OMIT_DEFAULT, Bounds, Shape
from tercet.store.strings import PackedStrings
from tercet.text.vectorizer import AddedWords
from tercet.weights import Weights

T = TypeVar("T")

SEGMENTS, FACTORS, MODELS = "segments", "factors", "models"
FOLDERS: Final = (SEGMENTS, FACTORS, MODELS)

_OPEN_ATTEMPTS: Final = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listed:
    """Segment in the manifest."""

    name: str
    digest: str
    dead: NDArray[np.uint16]


@dataclass(frozen=True)
class IndexSettings:
    """Settings of the whole index in the manifest."""

    vectorizer: str
    model: str
    model_digest: str
    segment_docs: Annotated[int, Bounds(1, MOST_DOCS)]
    keeps_texts: bool
    next_segment: int
    promotions: Annotated[tuple[Promotion, ...], OMIT_DEFAULT] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Committed(IndexSettings):
    """Contents of the manifest."""

    segments: tuple[Listed, ...]
    digest: str = ""
    added: AddedWords = field(default_factory=lambda: AddedWords([], np.empty(0, np.int64)), kw_only=True)

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Committed:
        where = str(bundle.path)
        stored = decode(_StoredCommit, bundle.meta, bundle.arrays, where=where)
        starts = stored.dead_starts.tolist()
        segments = tuple(
            Listed(checked_name(name, where), digest, stored.dead[start:stop].copy())
            for (name, digest), start, stop in zip(stored.segments, starts[:-1], starts[1:], strict=True)
        )
        promoted = (name for entry in stored.promotions for name in (entry.before, entry.after))
        for name in (stored.model, *promoted):
            checked_name(name, where)
        return cls(**_settings(stored), segments=segments, digest=bundle.digest, added=stored.added(where))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        starts = np.zeros(len(self.segments) + 1, dtype=np.int64)
        np.cumsum([listed.dead.size for listed in self.segments], out=starts[1:])
        dead = np.concatenate([np.empty(0, np.uint16), *(listed.dead for listed in self.segments)])
        pairs = tuple((listed.name, listed.digest) for listed in self.segments)
        stored = _StoredCommit(**_settings(self), segments=pairs, dead_starts=starts, dead=dead.astype(np.uint16))
        if self.added.words:
            words = PackedStrings.pack(self.added.words)
            stored = replace(
                stored, words=words.letters, word_offsets=words.starts, document_frequency=self.added.frequency
            )
        return encode(stored)


@dataclass(frozen=True, eq=False)
class _StoredCommit(IndexSettings):
    """The same on disk: the names and digests of the segments, and the dead rows of all of them as one array.

    ``words`` are those that came after the model was made, as bytes and offsets.
    """

    segments: tuple[tuple[str, str], ...]
    dead_starts: NDArray[np.int64]
    dead: NDArray[np.uint16]
    words: NDArray[np.uint8] | None = None
    word_offsets: NDArray[np.int64] | None = None
    document_frequency: Annotated[NDArray[np.int64] | None, Shape(None, bounds=Bounds(least=0))] = None

    def added(self, where: str) -> AddedWords:
        """Words that came after the model was made."""
        if self.words is None or self.word_offsets is None or self.document_frequency is None:
            return AddedWords([], np.empty(0, np.int64))
        packed = PackedStrings(self.words, self.word_offsets)
        packed.check(f"{where}: words")
        words = packed.many(np.arange(len(packed)))
        if len(set(words)) < len(words) or not all(words):
            raise DamagedBundleError(f"{where}: new words are empty, or there are some twice")
        return AddedWords(words, self.document_frequency.copy())

    def __post_init__(self) -> None:
        n_offsets, n_words = (
            0 if array is None else len(array) for array in (self.word_offsets, self.document_frequency)
        )
        if n_offsets != n_words + (self.words is not None):
            raise InputError(f"new words have {n_offsets} offsets and {n_words} document frequencies")
        if len(self.segments) > MOST_SEGMENTS:
            raise InputError(f"it lists {len(self.segments)} segments; at most {MOST_SEGMENTS} are possible")
        if len(self.dead_starts) != len(self.segments) + 1:
            raise InputError(
                f"{len(self.segments)} segments have {len(self.dead_starts) - 1} lists of removed documents"
            )
        problem = csr_problem(self.dead_starts, self.dead, MOST_DOCS, ascending=True)
        if problem is not None:
            raise InputError(f"the matrix of removed documents, one row a segment, {problem}")


def _settings(of: IndexSettings) -> dict[str, Any]:
    return {each.name: getattr(of, each.name) for each in fields(IndexSettings)}


@dataclass(frozen=True, eq=False)
class _StoredFactors:
    """Metadata of latent documents on disk: digests of their sources, and the largest length."""

    segment: str
    weights: str
    max_length: Annotated[float, Bounds(0)]


def checked_name(name: str, where: str) -> str:
    # Only one form is allowed, so that a name cannot lead out of the folder.
    if not name or not name.isascii() or not name.isalnum():
        raise DamagedBundleError(f"{where} names {name!r}, which is no name that Tercet gives")
    return name


class Folder:
    """Folder of an index; reads without a lock, writes with a lock."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise InputError(f"path is {path!r}; expected the path of a folder")
        self.path = Path(path)

    # -- reading ------------------------------------------------------------------------------------------------

    def committed(self) -> Committed:
        if bundle_kind(self.path) == TEXT_MODEL:
            raise BundleError(
                f"{self.path} holds a model; tc.Index.build(docs, tc.load(path)) indexes documents for it, in a shell "
                "tercet index"
            )
        return Committed.from_bundle(read_bundle(self.path, kind=INDEX))

    def committed_or_none(self) -> Committed | None:
        return self.committed() if os.path.lexists(self.path / MANIFEST_NAME) else None

    def lists(self, segment: Segment) -> bool:
        """Return True for a segment of the current commit."""
        committed = self.committed_or_none()
        of_segment = segment.name, segment.digest
        return committed is not None and any((each.name, each.digest) == of_segment for each in committed.segments)

    def consistently(self, read: Callable[[Committed], T]) -> T:
        """Return ``read(committed)``, repeated if a writer removes files meanwhile."""
        committed = self.committed()
        for _ in range(_OPEN_ATTEMPTS):
            try:
                return read(committed)
            except BundleError:
                latest = self.committed()
                if latest.digest == committed.digest:
                    raise
                committed = latest
        raise BundleError(f"{self.path} was changed {_OPEN_ATTEMPTS} times while it was being opened")

    def read_model(self, name: str, digest: str) -> TextModel | Weights:
        bundle = self._sealed(MODELS, checked_name(name, str(self.path)), digest)
        if bundle.kind == TEXT_MODEL:
            return TextModel.from_bundle(bundle)
        if bundle.kind == WEIGHTS:
            return Weights.from_state(bundle.meta, bundle.arrays)
        raise DamagedBundleError(f"{bundle.path} holds a {bundle.kind!r}; expected a text model or weights")

    def read_segment(self, listed: Listed, vectorizer: str, verify: Verify) -> Segment:
        bundle = self._sealed(SEGMENTS, listed.name, listed.digest, verify)
        if bundle.kind != INDEX_SEGMENT:
            raise DamagedBundleError(f"{bundle.path} holds a {bundle.kind!r}; expected a segment of an index")
        segment = Segment.from_bundle(bundle, listed.name, vectorizer, verify != "never")
        if listed.dead.size and listed.dead[-1] >= segment.n_docs:
            raise DamagedBundleError(f"{self.path} has removed a document that {bundle.path} does not have")
        return segment

    def read_factors(self, segment: Segment, weights: str, n_components: int, verify: Verify) -> Factors | None:
        """Read the latent documents of a segment; None without a file."""
        path = self._factors_path(segment, weights)
        try:
            bundle = read_bundle(path, kind=INDEX_FACTORS, mapped=True, verify=verify)
        except MissingBundleError:
            if path.is_dir():
                raise
            return None
        stored = decode(_StoredFactors, bundle.meta, where=str(path))
        if (stored.segment, stored.weights) != (segment.digest, weights) or set(bundle.arrays) != {"factors"}:
            raise DamagedBundleError(f"{path} belongs to another segment or to other weights")
        shape = (segment.n_docs, n_components)
        values = take_array(bundle.arrays, "factors", np.float32, shape, where=str(path), finite=verify != "never")
        return Factors(values, stored.max_length)

    def _sealed(self, folder: str, name: str, digest: str, verify: Verify = "open") -> Bundle:
        """Map the arrays of a model or a segment."""
        path = self.path / folder / name
        try:
            bundle = read_bundle(path, mapped=True, verify=verify)
        except MissingBundleError as error:
            raise DamagedBundleError(f"{self.path} names {folder}/{name}, which is not there: {error}") from error
        if bundle.digest != digest:
            raise DamagedBundleError(f"{path} is not the one that {self.path} names; its digest differs")
        return bundle

    def _factors_path(self, segment: Segment, weights: str) -> Path:
        return self.path / FACTORS / f"{segment.name}-{weights[:16]}"

    # -- writing ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folders; refuse a folder with other contents."""
        check_destination(self.path, siblings=FOLDERS)
        if os.path.lexists(self.path / MANIFEST_NAME):
            read_bundle(self.path, kind=INDEX)  # refuse to overwrite a bundle of another kind, such as a model
        self._make_folders(parents=True)

    def _make_folders(self, parents: bool) -> None:
        for path in (self.path, *(self.path / name for name in FOLDERS)):
            try:
                path.mkdir(parents=parents, exist_ok=True)
            except OSError as error:
                raise BundleError(f"{self.path} cannot be written: {error}") from error

    def remove_empty(self) -> None:
        """Remove the folders that `prepare` made, as far as nothing is in them and there is no index."""
        if os.path.lexists(self.path / MANIFEST_NAME):
            return
        for path in (*(self.path / name for name in FOLDERS), self.path):
            with contextlib.suppress(OSError):
                path.rmdir()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Let one writer at a time change the index."""
        locked = self.path / SEGMENTS
        while True:
            self._make_folders(parents=False)  # copying an index file by file loses empty folders
            if not os.access(locked, os.W_OK):
                raise BundleError(f"{self.path} cannot be written: it is read-only")
            with contextlib.ExitStack() as stack:
                try:
                    before = os.stat(locked)
                    stack.enter_context(lock_folder(locked))
                    is_there_still = os.path.samestat(before, os.stat(locked))
                except FileNotFoundError:
                    is_there_still = False
                except OSError as error:
                    raise BundleError(f"{self.path} cannot be written: {error}") from error
                if is_there_still:
                    yield
                    return
            # Another writer removed the folder while this writer waited: the lock protects nothing.

    def write_segment(self, segment: Segment, name: str, vectorizer: str) -> str:
        """Write a segment; returns its digest."""
        path = self.path / SEGMENTS / name
        return write_bundle(path, kind=INDEX_SEGMENT, meta=segment.meta(vectorizer), arrays=segment.arrays())

    def write_factors(self, segment: Segment, weights: str, factors: Factors) -> None:
        meta, _ = encode(_StoredFactors(segment.digest, weights, factors.max_length))
        path = self._factors_path(segment, weights)
        write_bundle(path, kind=INDEX_FACTORS, meta=meta, arrays={"factors": factors.values})

    def write_model(self, model: TextModel | Weights) -> tuple[str, str]:
        """Write a new model; return its name and digest."""
        name = model_name(model)
        path = self.path / MODELS / name
        with contextlib.suppress(BundleError):
            return name, read_bundle(path).digest
        if isinstance(model, TextModel):
            model.save(path)
        else:
            meta, arrays = model.to_state()
            write_bundle(path, kind=WEIGHTS, meta=meta, arrays=arrays)
        return name, read_bundle(path).digest

    def commit(self, committed: Committed) -> str:
        """Make the change visible, atomically; return the digest of the new commit."""
        meta, arrays = committed.to_state()
        return write_bundle(self.path, kind=INDEX, meta=meta, arrays=arrays, siblings=FOLDERS)

    def clean(self, committed: Committed | None) -> None:
        """Remove files outside the commit, of interrupted writers or of former commits."""
        segments = {listed.name for listed in committed.segments} if committed else set()
        models = kept_models(committed.promotions, committed.model) if committed else set()
        for folder in FOLDERS:
            try:
                for entry in os.listdir(self.path / folder):
                    if entry.partition("-")[0] not in (models if folder == MODELS else segments):
                        shutil.rmtree(self.path / folder / entry)
            except OSError as error:
                # The index is complete without the cleanup; the next writer tries again.
                _log.warning("%s has what is no longer needed and cannot be removed: %s", self.path / folder, error)


def model_fingerprint(model: TextModel | Weights) -> str:
    """Digest of all scoring parameters of a model."""
    if isinstance(model, Weights):
        return state_digest(model)
    sides = [state_digest(value) for value in (model.query_vectorizer, model.doc_vectorizer, model.weights)]
    taught = {"taught": [f"{rows.number}:{rows.store}" for rows in model.taught]} if model.taught else {}
    memory = {} if model.memory is None else {"memory": state_digest(model.memory)}
    sure = {} if model.confidence is None else {"confidence": model.confidence.weights}
    return digest_of({"of": sides, "report": repr(model.report)} | taught | memory | sure)


def model_name(model: TextModel | Weights) -> str:
    """First letters of the fingerprint, the name of the model in ``models/`` and in promotions."""
    return model_fingerprint(model)[:16]


def vectorizer_fingerprint(model: TextModel | Weights, fitted: bool = False) -> str:
    """Digest of the document vectorizer, or of the number of columns of weights.

    With ``fitted``, words added after fitting do not count.
    """
    if isinstance(model, Weights):
        return digest_of({"n_terms": model.shape[1]})
    return state_digest(model.doc_vectorizer.as_fitted() if fitted else model.doc_vectorizer)


def check_fits(model: TextModel | Weights, vectorizer: str, where: str, fitted: bool = False) -> None:
    """Refuse a model with other document rows than the index."""
    if vectorizer_fingerprint(model, fitted) != vectorizer:
        raise does_not_fit(where)


def does_not_fit(where: str) -> InputError:
    return InputError(
        f"{where} was made with another vectorizer than the model's: vocabulary, analyzer or term weights differ. "
        "Index the documents again with this model, or learn it with the words of the index"
    )
