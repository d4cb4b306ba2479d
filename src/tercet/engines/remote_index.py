"""An index whose documents live in another engine, whichever that is."""

from __future__ import annotations

import re
import secrets
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from tercet._validate import check_integer
from tercet.engines.engine import MISSING, PAGE, WRITING, Engine, check_collection
from tercet.engines.records import (
    Location,
    Marker,
    RemoteFolder,
    Upload,
    VectorLimits,
    first_row,
    own_marker,
    read_marker,
    refuse_taken,
)
from tercet.engines.remote_view import DocumentCache, RemoteView
from tercet.engines.uploading import Batches, Uploader, batches_of_rows, batches_of_texts
from tercet.errors import BundleError, InputError
from tercet.fitting.text_model import TextModel
from tercet.search.base import BaseIndex, listed_ids, n_terms, same_words, weights_of
from tercet.search.documents import Docs, Progress, check_model, with_words
from tercet.search.folder import UPLOAD, check_fits, vectoriser_fingerprint
from tercet.search.scorer import Scorer
from tercet.text import Analyser
from tercet.weights import Weights

BATCH_DOCS: Final = 256


class RemoteIndex(BaseIndex):
    """Documents in a collection of an engine, searched, explained and changed like those of an `Index`.

    Documents, their order and their scores are those of an `Index` of the same documents and model. The engine finds
    who may be among the best, by a sparse vector of a document's words with its latent dimensions appended; those few
    are scored again here, in double precision. So the latent dimensions are those of one model: `with_model` takes
    another where these are the same, or where it has none.

    The folder holds the model and where the documents are. An upload that was interrupted goes on when the same is
    asked for again. Searches see what the engine has at the time; one writer at a time may change an index.

    Attributes
    ----------
    engine_name : as people know it
    kind : of its folder
    longest_name : how many letters the name of a collection has at most
    """

    can_filter = False  # stored fields are one text of the payload
    engine_name: ClassVar[str]
    kind: ClassVar[str]
    longest_name: ClassVar[int] = 200

    def __init__(self, model: TextModel | Weights, folder: RemoteFolder, location: Location, view: RemoteView) -> None:
        self._model, self._folder, self._location = model, folder, location
        self._view: RemoteView = view
        self._changing = threading.Lock()  # held by a thread that changes the index; searches never wait

    # -- where engines differ -----------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        """Reach a collection; whether it exists is for `Engine.problem` to say."""

    @classmethod
    @abstractmethod
    def kept_url(cls, url: Any) -> str:
        """A URL as a folder keeps it, checked, without what is secret."""

    # -- making and opening -------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        docs: Docs,
        model: TextModel | None,
        path: str | PathLike[str],
        *,
        url: str,
        analyser: Analyser | None = None,
        collection: str | None = None,
        secret: str | None = None,
        batch_docs: int = BATCH_DOCS,
        keep_texts: bool = True,
        progress: Progress | None = None,
    ) -> Self:
        """Upload documents to a new collection.

        Parameters
        ----------
        docs, model, analyser : as `Index.build` takes them
        path : a folder for the model and for where the documents are; an index that is there is replaced, with its
            collection
        url : where the engine is
        collection : its name; None takes that of the folder. One that exists is an error, unless it is the one that
            this folder names
        secret : key or password of the server; None takes it from the environment. It is not written to disk
        batch_docs : documents in one request, and in memory at a time
        keep_texts : whether the engine gets the texts, too, so that hits can give them
        progress : called with the number of documents so far
        """
        docs, growth = with_words(docs, model, analyser)
        model = growth.model
        batches = batches_of_texts(docs, model, keep_texts)
        return cls._made(batches, model, path, url, collection, secret, batch_docs, keep_texts, progress)

    @classmethod
    def build_rows(
        cls,
        ids: Sequence[str],
        D: Any,
        model: TextModel | Weights,
        path: str | PathLike[str],
        *,
        url: str,
        collection: str | None = None,
        secret: str | None = None,
        batch_docs: int = BATCH_DOCS,
        texts: Sequence[str] | None = None,
    ) -> Self:
        """`build` for documents that are rows of a matrix already; values below 0 are refused."""
        check_model(model, TextModel | Weights)
        batches = batches_of_rows(ids, D, n_terms(model), texts)
        return cls._made(batches, model, path, url, collection, secret, batch_docs, texts is not None, None)

    @classmethod
    def _made(
        cls,
        batches: Batches,
        model: TextModel | Weights,
        path: str | PathLike[str],
        url: str,
        collection: str | None,
        secret: str | None,
        batch_docs: int,
        keep_texts: bool,
        progress: Progress | None,
    ) -> Self:
        if isinstance(model, TextModel):
            model.check_words_only(f"an index in {cls.engine_name}")
        folder = RemoteFolder(path, cls.kind)
        name = default_collection(folder.path) if collection is None else collection
        check_integer(batch_docs, "batch_docs")
        scorer = Scorer(weights_of(model))
        kept_url = cls.kept_url(url)
        engine = cls._reached(url, name, secret, is_named=True)
        folder.prepare()
        try:
            with folder.writing():
                kept = folder.write_model(model)
                location = Location(kept_url, name, "", vectoriser_fingerprint(model), scorer.fingerprint, *kept)
                patient = engine.patient(WRITING)
                upload = _begun(folder, location, patient, keep_texts, batch_docs)
                marker = _collection_for(upload, patient, n_terms(model), scorer.n_components)
                marker = Uploader(patient, folder, upload, marker, scorer, batches).run(progress)
                folder.commit_location(upload.location)
        except BaseException:
            if folder.upload() is None:  # else it can be gone on with
                folder.remove_unfinished()
            raise
        return cls(model, folder, upload.location, _viewed(engine, marker, scorer))

    @classmethod
    def open(
        cls, path: str | PathLike[str], model: TextModel | Weights | None = None, secret: str | None = None
    ) -> Self:
        """Read where an index is, and reach its collection.

        Parameters
        ----------
        path : its folder
        model : another model than the one it was made with, see `with_model`
        secret : key or password of the server; None takes it from the environment, for hosts of TERCET_SECRET_HOSTS
            and for this machine, since the folder, which may be anybody's, says where the server is
        """
        if model is not None:
            check_model(model, TextModel | Weights)
        folder = RemoteFolder(path, cls.kind)
        location = folder.location()
        scoring_model = folder.read_model(location) if model is None else model
        check_fits(scoring_model, location.vectoriser, str(path))
        scorer = _fitting(scoring_model, location.factors, str(path), cls.engine_name)
        engine = cls._reached(location.url, location.collection, secret)
        return cls(scoring_model, folder, location, _viewed(engine, own_marker(engine, location.index), scorer))

    @classmethod
    def _reached(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        check_collection(collection, cls.longest_name)  # also that of a folder, which may be anybody's
        engine = cls.connect(url, collection, secret, is_named=is_named)
        engine.check_version()
        return engine

    def with_model(self, model: TextModel | Weights) -> Self:
        """The same documents for another model over the same vocabulary; only queries change.

        Low-rank parts must be those that the documents were uploaded with, or none.
        """
        check_model(model, TextModel | Weights)
        if not same_words(model, self._model):
            check_fits(model, self._location.vectoriser, "the index")
        scorer, view = _fitting(model, self._location.factors, "the index", self.engine_name), self._view
        made = RemoteView(view.engine, view.marker, scorer, view.n_docs, view.memory)
        return type(self)(model, self._folder, self._location, made)

    def refresh(self) -> bool:
        """See what has changed in the collection since; whether there was anything."""
        view = self._view
        marker = own_marker(view.engine, self._location.index)
        if marker == view.marker:
            return False
        self._view = _viewed(view.engine, marker, view.scorer)
        return True

    # -- what is in it ------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self._location.url

    @property
    def collection(self) -> str:
        return self._location.collection

    def __repr__(self) -> str:
        where = self._location.shown.removeprefix("the collection ")
        return f"{type(self).__name__}({len(self):,} documents, {n_terms(self._model):,} words, {where})"

    # -- changing -----------------------------------------------------------------------------------------------

    def add(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents; one whose id is there is refused, and then none is added.

        An upload that is interrupted leaves those that were sent, and goes on when the same documents are added again.
        """
        self._upload("add", docs, progress)

    def replace(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents in the place of those with the same ids, where there are any; they come last from now on.

        Old ones are removed when all new ones are there; until then both are found.
        """
        self._upload("replace", docs, progress)

    def remove(self, doc_ids: Iterable[str]) -> None:
        """Remove documents; an id that is not there is refused, and then none is removed."""
        listed = list(dict.fromkeys(listed_ids(doc_ids)))
        with self._writing() as engine:
            marker = own_marker(engine, self._location.index)
            gone: list[int] = []
            for start in range(0, len(listed), PAGE):
                page = listed[start : start + PAGE]
                numbered = engine.rows_of([doc_id for doc_id in page if isinstance(doc_id, str)])
                missing = set(page) - {doc_id for _, doc_id in numbered}
                if missing:
                    first = next(doc_id for doc_id in page if doc_id in missing)
                    raise InputError(f"there is no document {first!r} among the {len(self):,} of the index")
                gone += [row for row, _ in numbered]
            for start in range(0, len(gone), PAGE):
                engine.delete(gone[start : start + PAGE])
            after = marker.with_rows_taken(max(gone, default=0) + 1)
            engine.put([after.point()])
            self._view = _viewed(self._view.engine, after, self._view.scorer, self._view.memory)

    def _upload(self, kind: str, docs: Docs, progress: Progress | None) -> None:
        model = self._text_model()
        with self._writing() as engine:
            marker = own_marker(engine, self._location.index)
            uploading_model = self._folder.read_model(self._location)
            scorer = Scorer(weights_of(uploading_model))  # another model may have no latent dimensions
            upload = self._folder.upload()
            if upload is None:
                free = _free_row(engine, marker)
                upload = Upload(kind, self._location, marker.texts, BATCH_DOCS, free, 0, "", marker.limits)
                self._folder.keep(upload)
            elif (upload.kind, upload.location) != (kind, self._location):
                raise BundleError(
                    f"{self._folder.path} has an upload that has not ended ({upload.kind}, {upload.sent:,} documents); "
                    f"give that command again, or remove {self._folder.path / UPLOAD} to give it up"
                )
            batches = batches_of_texts(docs, model, marker.texts)
            after = Uploader(engine, self._folder, upload, marker, scorer, batches).run(progress)
            self._folder.forget_upload()
            self._view = _viewed(self._view.engine, after, self._view.scorer, self._view.memory)

    @contextmanager
    def _writing(self) -> Iterator[Engine]:
        with self._changing, self._folder.writing():
            yield self._view.engine.patient(WRITING)


def default_collection(path: Path) -> str:
    """A collection named after a folder.

    Examples
    --------
    >>> default_collection(Path("my index"))
    'tercet-my-index'
    """
    return "tercet-" + (re.sub(r"[^A-Za-z0-9_-]+", "-", path.resolve().name).strip("-") or "index")


def _begun(folder: RemoteFolder, location: Location, engine: Engine, keep_texts: bool, batch_docs: int) -> Upload:
    """The upload to go on with, or a new one into a collection that is not there."""
    upload, before = folder.upload(), folder.location_or_none()
    if upload is not None:
        wanted = replace(location, index=upload.location.index)
        if (upload.kind, upload.location, upload.texts) == ("build", wanted, keep_texts):
            return upload
        raise BundleError(
            f"{folder.path} has an upload that has not ended: {upload.kind} of {upload.sent:,} documents so far, to "
            f"{upload.location.shown}. Go on with the same documents, model and options, or remove "
            f"{folder.path / UPLOAD} to give it up"
        )
    if before is not None and (before.url, before.collection) != (location.url, location.collection):
        raise BundleError(
            f"{folder.path} is an index in {before.shown}; name that one to replace it, or another folder"
        )
    marker = None if before is None else read_marker(engine)
    if before is not None and marker is not None and marker.index == before.index:
        engine.drop()
    else:
        refuse_taken(engine)
    location = replace(location, index=secrets.token_hex(16))
    upload = Upload("build", location, keep_texts, batch_docs, first_row(location.index), 0, "", VectorLimits())
    folder.keep(upload)  # before the collection, so that one without a marker is known to be ours
    return upload


def _collection_for(upload: Upload, engine: Engine, words: int, n_components: int) -> Marker:
    """The collection of an upload, made where it is not there yet."""
    location = upload.location
    fixed = (location.index, location.vectoriser, location.factors, words, n_components, upload.texts)
    marker = Marker(*fixed, next_row=upload.first_row, limits=upload.limits)
    if upload.sent == 0:
        problem = engine.problem()
        if problem == MISSING:
            engine.create()
        elif problem is not None or (read_marker(engine) is None and engine.count() > 0):
            refuse_taken(engine)
        if read_marker(engine) is None:
            engine.index_ids()
            engine.put([marker.point()])  # last, so that a collection with a marker is complete
    return replace(marker, limits=own_marker(engine, location.index).limits)


def _viewed(engine: Engine, marker: Marker, scorer: Scorer, memory: DocumentCache | None = None) -> RemoteView:
    return RemoteView(engine, marker, scorer, engine.count() - 1, memory or DocumentCache())  # all but the marker


def _free_row(engine: Engine, marker: Marker) -> int:
    """A number that no document has or had; uploads that were given up may have left some."""
    row = marker.next_row
    while page := engine.ids_from(row, PAGE):
        row = page[-1][0] + 1
    return row


def _fitting(model: TextModel | Weights, factors: str, where: str, engine: str) -> Scorer:
    """The scorer of a model; low-rank parts must be those that the documents were uploaded with."""
    if isinstance(model, TextModel):
        model.check_words_only(f"an index in {engine}")
    scorer = Scorer(weights_of(model))
    if scorer.latent and scorer.fingerprint != factors:
        raise InputError(
            f"{where} has documents in {engine} with the latent dimensions of "
            f"{'another model' if factors else 'none'}, and this model has low-rank parts of its own. Index the "
            "documents again with this model"
        )
    return scorer
