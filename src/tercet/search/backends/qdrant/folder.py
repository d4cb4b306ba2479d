"""What an index on Qdrant keeps locally: which collection it is, its model, and how far an upload has come.

::

    index/manifest.json             a bundle: URL, collection, what its documents were made with
    index/models/0123456789abcdef/  the model
    index/upload.json               an upload that has not ended
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

from tercet.errors import BundleError, DamagedBundleError, MissingBundleError
from tercet.fitting.model import TextModel
from tercet.search.backends.qdrant.marker import Limits
from tercet.search.folder import MODELS, UPLOAD, Folder
from tercet.search.folder import QDRANT_KIND as KIND
from tercet.store import (
    MANIFEST_NAME,
    Fields,
    canonical_bytes,
    check_destination,
    lock_folder,
    read_bundle,
    write_bundle,
    write_file_atomically,
)
from tercet.weights import Weights

_BESIDE: Final = (MODELS, UPLOAD)


@dataclass(frozen=True)
class Place:
    """What the manifest says: where the documents are, which index it is (see `Marker`), and the model."""

    url: str
    collection: str
    index: str
    vectoriser: str
    factors: str
    model: str
    model_digest: str


@dataclass(frozen=True)
class Upload:
    """How far an upload has come.

    Attributes
    ----------
    kind : ``"build"``, ``"add"`` or ``"replace"``
    place : where to, and with which model
    texts : whether they are sent, too
    batch_docs : documents in a batch
    first_row : the number of its first document
    sent : how many documents Qdrant has acknowledged
    digest : SHA-256 of all that were sent
    """

    kind: str
    place: Place
    texts: bool
    batch_docs: int
    first_row: int
    sent: int
    digest: str
    limits: Limits

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        try:
            told = json.loads(data)
        except ValueError as error:
            raise DamagedBundleError(f"{where} is not JSON: {error}") from error
        found = Fields(told, where)
        place = _taken(Place, found.take("place", dict), where)
        limits = _taken(Limits, found.take("limits", dict), where)
        own = cls(
            found.take("kind", str),
            place,
            found.take("texts", bool),
            found.take("batch_docs", int),
            found.take("first_row", int),
            found.take("sent", int),
            found.take("digest", str),
            limits,
        )
        found.done()
        return own


def _taken(cls: Any, told: Any, where: str) -> Any:
    """A flat dataclass from what JSON has of it."""
    types = {"str": str, "int": int, "float": float}
    found = Fields(told, where)
    made = cls(**{each.name: found.take(each.name, types[str(each.type)]) for each in fields(cls)})
    found.done()
    return made


class QdrantFolder:
    """The folder of an index on Qdrant."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Folder(path)  # knows how models are kept
        self.path = self._folder.path

    # -- reading ------------------------------------------------------------------------------------------------

    def place(self) -> Place:
        try:
            bundle = read_bundle(self.path, kind=KIND)
        except MissingBundleError as error:
            if (self.path / UPLOAD).is_file():
                raise MissingBundleError(
                    f"the upload of the index at {self.path} has not ended; give the same command again"
                ) from error
            raise
        found: Place = _taken(Place, bundle.meta, f"{self.path}: meta")
        return found

    def place_or_none(self) -> Place | None:
        return self.place() if os.path.lexists(self.path / MANIFEST_NAME) else None

    def read_model(self, place: Place) -> TextModel | Weights:
        return self._folder.read_model(place.model, place.model_digest)

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
        check_destination(self.path, beside=_BESIDE)
        if os.path.lexists(self.path / MANIFEST_NAME):
            read_bundle(self.path, kind=KIND)  # a model, say, or an index of another kind is not to be overwritten
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
        write_file_atomically(self.path / UPLOAD, canonical_bytes(asdict(upload)))

    def forget_upload(self) -> None:
        (self.path / UPLOAD).unlink(missing_ok=True)

    def commit_place(self, place: Place) -> None:
        write_bundle(self.path, kind=KIND, meta=asdict(place), arrays={}, beside=_BESIDE)
        self.forget_upload()
        for entry in os.listdir(self.path / MODELS):
            if entry != place.model:
                shutil.rmtree(self.path / MODELS / entry)
