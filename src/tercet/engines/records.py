"""What an index in another engine writes down about itself: a marker in its collection, and a folder here.

The marker is the point that makes a collection ours: number 0, without a vector, so that no search ever finds it. The
folder says which collection it is, keeps its model, and notes how far an upload has come::

    index/manifest.json             a bundle: URL, collection, what its documents were made with
    index/models/0123456789abcdef/  the model
    index/upload.json               an upload that has not ended
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.engines.engine import MISSING, Engine, Point, shown_url
from tercet.errors import BundleError, DamagedBundleError, EngineError, MissingBundleError
from tercet.fitting.text_model import TextModel
from tercet.search.folder import MODELS, UPLOAD, Folder
from tercet.store import (
    MANIFEST_NAME,
    canonical_bytes,
    check_destination,
    lock_folder,
    read_bundle,
    write_bundle,
    write_file_atomically,
)
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT
from tercet.weights import Weights

_SIBLINGS: Final = (MODELS, UPLOAD)

MARKER_ROW: Final = 0
MOST_ROWS: Final = 2**39  # numbers that an index may give to documents, those that are gone included
_KEY: Final = "tercet"
_FORMAT: Final = 1


# -- the marker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VectorLimits:
    """What no document exceeds: dimensions of its vector, the vector's length, and the value of a word."""

    dimensions: int = 0
    length: float = 0.0
    value: float = 0.0

    def with_documents(self, D: sparse.csr_array, factors: NDArray[np.float32] | None) -> VectorLimits:
        """VectorLimits that hold for more documents, too."""
        if not D.shape[0]:
            return self
        squares = np.add.reduceat(np.append(D.data.astype(np.float64) ** 2, 0.0), D.indptr[:-1])
        squares[np.diff(D.indptr) == 0] = 0.0  # there reduceat gives the next row's first
        n = int(np.diff(D.indptr).max())
        if factors is not None:
            squares += np.einsum("ij,ij->i", factors, factors, dtype=np.float64)
            n += factors.shape[1]
        length, value = float(np.sqrt(squares.max())), float(D.data.max(initial=0.0))
        return VectorLimits(
            self.dimensions if n <= self.dimensions else n + n // 8,  # with room for more, so that they hardly change
            self.length if 1.01 * length <= self.length else 1.125 * length,
            self.value if value <= self.value else 1.125 * value,
        )


@dataclass(frozen=True)
class Marker:
    """What a collection says of itself.

    Attributes
    ----------
    index : which index it is, given by chance when it was begun
    vectoriser, factors : fingerprints of what made the words of its documents, and their latent dimensions
    n_terms, n_components : numbers of both
    texts : whether documents have their texts
    next_row : the number that the next document gets, at least
    complete : whether the first upload has ended
    changes : how many there were
    """

    index: str
    vectoriser: str
    factors: str
    n_terms: int
    n_components: int
    texts: bool
    next_row: int
    complete: bool = False
    changes: int = 0
    limits: VectorLimits = VectorLimits()

    @property
    def always(self) -> int:
        """The dimension that every document with a known word has, where latent dimensions make all of them count."""
        return self.n_terms + self.n_components

    @property
    def first_row(self) -> int:
        return first_row(self.index)

    def with_rows_taken(self, end: int) -> Self:
        """Numbers below ``end`` are never given to other documents, since readers may remember those that had them."""
        return self.changed(next_row=max(self.next_row, end))

    def changed(self, **fields: Any) -> Self:
        return replace(self, changes=self.changes + 1, **fields)

    def point(self) -> Point:
        payload = {_KEY: encode(self)[0] | {"format": _FORMAT}}
        return Point(MARKER_ROW, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32), payload)

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any], where: str) -> Self:
        meta = payload[_KEY]
        version = meta.get("format") if isinstance(meta, Mapping) else None
        if version != _FORMAT:
            raise EngineError(f"{where} has format {version}; this version of Tercet reads {_FORMAT}")
        fields = {name: value for name, value in meta.items() if name != "format"}
        return decode(cls, fields, where=where, error=EngineError)


def first_row(index: str) -> int:
    """The number of the first document of an index: its random name decides, so that two indexes share no numbers.

    Whoever still searches a collection that was built anew notices by the numbers of what it finds.
    """
    return int(index[:6], 16) * MOST_ROWS + 1


def read_marker(engine: Engine) -> Marker | None:
    """The marker of a collection; None where it is not one of ours, or is not there."""
    return _marker_in(engine) if engine.problem() is None else None


def _marker_in(engine: Engine) -> Marker | None:
    payload = engine.payload(MARKER_ROW)
    if payload is None or _KEY not in payload:
        return None
    return Marker.from_payload(payload, engine.where)


def own_marker(engine: Engine, index: str) -> Marker:
    """The marker of the collection that belongs to an index; any other is an error."""
    problem = engine.problem()
    if problem is not None:
        other = "" if problem == MISSING else "; it is not the one of this index"
        raise EngineError(f"{engine.where}, {problem}{other}")
    marker = _marker_in(engine)
    if marker is None:
        raise EngineError(f"{engine.where}, was not made by Tercet; it is not the one of this index")
    if marker.index != index:
        raise EngineError(f"{engine.where}, belongs to another index of Tercet; this one's is gone or was replaced")
    return marker


def refuse_taken(engine: Engine) -> None:
    """An error where one collection has a name that is taken already, whoever's it is. Nothing in it is changed."""
    problem = engine.problem()
    if problem == MISSING:
        return
    if problem is None:
        problem = "was not made by Tercet" if _marker_in(engine) is None else "is that of another index"
    raise EngineError(
        f"{engine.url} has a collection {engine.collection!r} already, which {problem}; nothing in it was changed. "
        "Name another collection, or remove that one"
    )


# -- the folder -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Location:
    """What the manifest says: where the documents are, which index it is (see `Marker`), and the model."""

    url: str
    collection: str
    index: str
    vectoriser: str
    factors: str
    model: str
    model_digest: str

    @property
    def shown(self) -> str:
        """Where it is, as messages say it."""
        return f"the collection {self.collection!r} at {shown_url(self.url)}"


@dataclass(frozen=True)
class Upload:
    """How far an upload has come.

    Attributes
    ----------
    kind : ``"build"``, ``"add"`` or ``"replace"``
    location : where to, and with which model
    texts : whether they are sent, too
    batch_docs : documents in a batch
    first_row : the number of its first document
    sent : how many documents the engine has acknowledged
    digest : SHA-256 of all that were sent
    skipped : numbers that documents had which were removed again, and that no other gets
    """

    kind: str
    location: Location
    texts: bool
    batch_docs: int
    first_row: int
    sent: int
    digest: str
    limits: VectorLimits
    skipped: Annotated[int, OMIT_DEFAULT] = 0

    @property
    def next_row(self) -> int:
        """The number of the next document that is sent."""
        return self.first_row + self.sent + self.skipped

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        try:
            meta = json.loads(data)
        except ValueError as error:
            raise DamagedBundleError(f"{where} is not JSON: {error}") from error
        return decode(cls, meta, where=where)


class RemoteFolder:
    """The folder of an index whose documents are elsewhere; ``kind`` says in which engine."""

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self._folder = Folder(path)  # knows how models are kept
        self._kind = kind
        self.path = self._folder.path

    # -- reading ------------------------------------------------------------------------------------------------

    def location(self) -> Location:
        try:
            bundle = read_bundle(self.path, kind=self._kind)
        except MissingBundleError as error:
            if (self.path / UPLOAD).is_file():
                raise MissingBundleError(
                    f"the upload of the index at {self.path} has not ended; give the same command again"
                ) from error
            raise
        return decode(Location, bundle.meta, where=f"{self.path}: meta")

    def location_or_none(self) -> Location | None:
        return self.location() if os.path.lexists(self.path / MANIFEST_NAME) else None

    def read_model(self, location: Location) -> TextModel | Weights:
        return self._folder.read_model(location.model, location.model_digest)

    def upload(self) -> Upload | None:
        try:
            data = (self.path / UPLOAD).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BundleError(f"{self.path / UPLOAD} cannot be read: {error}") from error
        return Upload.from_bytes(data, str(self.path / UPLOAD))

    # -- writing ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        check_destination(self.path, siblings=_SIBLINGS)
        if os.path.lexists(self.path / MANIFEST_NAME):
            read_bundle(self.path, kind=self._kind)  # a model, or another index, is not to be overwritten
        try:
            (self.path / MODELS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BundleError(f"{self.path} cannot be written: {error}") from error

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Let one writer at a time change the index from here."""
        try:
            (self.path / MODELS).mkdir(exist_ok=True)  # empty ones get lost where an index is copied by file
        except OSError as error:
            raise BundleError(f"{self.path} cannot be written: {error}") from error
        with lock_folder(self.path / MODELS):
            yield

    def write_model(self, model: TextModel | Weights) -> tuple[str, str]:
        """Write a model unless it is there; returns its name and digest."""
        return self._folder.write_model(model)

    def remove_unfinished(self) -> None:
        """Remove what a build left that came to nothing, and the folder where nothing else is in it."""
        if os.path.lexists(self.path / MANIFEST_NAME):
            return
        self.forget_upload()
        for entry in os.listdir(self.path / MODELS):
            shutil.rmtree(self.path / MODELS / entry)
        for path in (self.path / MODELS, self.path):
            with contextlib.suppress(OSError):  # whoever put something there keeps it
                path.rmdir()

    def keep(self, upload: Upload) -> None:
        write_file_atomically(self.path / UPLOAD, canonical_bytes(encode(upload)[0]))

    def forget_upload(self) -> None:
        (self.path / UPLOAD).unlink(missing_ok=True)

    def commit_location(self, location: Location) -> None:
        write_bundle(self.path, kind=self._kind, meta=encode(location)[0], arrays={}, siblings=_SIBLINGS)
        self.forget_upload()
        for entry in os.listdir(self.path / MODELS):
            if entry != location.model:
                shutil.rmtree(self.path / MODELS / entry)
