"""Base class of indexes with documents in another engine."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import threading
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from tercet.engines.engine import Engine, EngineDocument, check_collection, pages, shown_url
from tercet.engines.engine_view import EngineView
from tercet.engines.lucene_query import check_columns
from tercet.errors import BundleError, EngineError, InputError
from tercet.fitting.text_model import TextModel
from tercet.kernels.rows import QueryRow
from tercet.search.base import BaseIndex, Best, listed_ids, n_terms, same_words
from tercet.search.documents import (
    Docs,
    Progress,
    canonical,
    check_model,
    listed_one_by_one,
    next_documents,
    with_words,
)
from tercet.search.folder import MODELS, Folder, check_fits, vectorizer_fingerprint
from tercet.search.promotions import By, Evidence, Promotion, kept_models, last_to_undo, next_promotion
from tercet.search.results import DocRows, DocumentView
from tercet.search.scorer import ExpandedQueries
from tercet.store import MANIFEST_NAME, check_destination, lock_folder, read_bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.text import Analyzer
from tercet.weights import Weights
from tercet.weights.scoring import Matrix

_BATCH_DOCS: Final = 256  # documents tokenized and compared together
_REQUEST_BYTES: Final = 8 * 2**20
_BYTES_OF_A_TERM: Final = 32  # in a request


@dataclass(frozen=True)
class Location:
    """Manifest of the folder: collection, model and progress of the build.

    ``owner`` is the random name of the index in the collection; ``vectorizer`` is the fingerprint of the vocabulary and
    the weights of words.
    """

    url: str
    collection: str
    owner: str
    vectorizer: str
    model: str
    model_digest: str
    is_complete: bool
    promotions: tuple[Promotion, ...] = ()

    def __str__(self) -> str:
        return f"the collection {self.collection!r} at {shown_url(self.url)}"


class EngineIndex(BaseIndex):
    """Documents in a collection of an engine, with the interface of `Index`.

    The engine lists at least 150 candidates for a query; the model scores candidates locally, with memory, equal to the
    bit to an embedded index. `Results.exact` is False, as a document outside the list could belong among the hits.

    The folder holds the model and the address of the documents. Repeat an interrupted build to continue. Readers see
    changes of documents at once; one writer at a time may change an index.

    Attributes
    ----------
    kind : kind of the folder
    longest_name : largest number of letters of a collection's name
    """

    can_filter = False  # engines keep stored fields as one text
    is_exact = False
    kind: ClassVar[str]
    longest_name: ClassVar[int] = 200

    def __init__(self, model: TextModel, folder: Path, location: Location, view: EngineView) -> None:
        self._model: TextModel = model
        self._folder, self._location = folder, location
        self._view: EngineView = view
        self._changing = threading.Lock()

    # -- where engines differ -----------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def connect(cls, url: str, collection: str, secret: str | None, *, is_named: bool = False) -> Engine:
        """Return a collection, possibly missing; ``is_named`` means a server named by the user."""

    @classmethod
    @abstractmethod
    def kept_url(cls, url: Any) -> str:
        """Check a URL and return the URL for the folder, without secrets."""

    # -- making and opening -------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        docs: Docs,
        model: TextModel | None,
        path: str | PathLike[str],
        *,
        url: str,
        analyzer: Analyzer | None = None,
        collection: str | None = None,
        secret: str | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Self:
        """Write documents to a new collection.

        Parameters
        ----------
        docs, model, analyzer : as in `Index.build`
        path : folder for model and address; an index in the folder is replaced together with its collection
        url : address of the engine
        collection : name of the collection; None takes the name of the folder. A foreign collection is an error
        secret : key or password of the server; None reads the environment. Secrets are not written to disk
        progress : called with the number of documents so far
        settings : settings of the engine, see its class
        """
        docs, growth = with_words(docs, model, analyzer)
        model = growth.model
        check_columns(model)
        root = Path(path)
        name = default_collection(root) if collection is None else collection
        kept_url = cls.kept_url(url)
        engine = cls._reached(url, name, secret, is_named=True, **settings)
        _prepare(root, cls.kind)
        with _locked(root):
            before = _location_or_none(root, cls.kind)
            model_name, digest = Folder(root).write_model(model)
            fits = vectorizer_fingerprint(model)
            location = Location(kept_url, name, secrets.token_hex(16), fits, model_name, digest, False)
            patient = engine.patient()
            location = _begin(root, location, before, patient, cls.kind)
            patient.create(location.owner, model)
            written = _upload(patient, model, docs, progress)
            leftover = [doc_id for doc_id in patient.ids() if doc_id not in written]
            for page in pages(leftover):  # leftovers of an interrupted run with other documents
                patient.delete(page)
            patient.finish()
            location = replace(location, is_complete=True)
            _commit(root, location, cls.kind)
        return cls(model, root, location, EngineView.build(engine, model))

    @classmethod
    def open(
        cls, path: str | PathLike[str], model: TextModel | Weights | None = None, secret: str | None = None
    ) -> Self:
        """Read the folder of an index and connect to the collection.

        Parameters
        ----------
        path : folder
        model : other model over the same vocabulary, see `with_model`
        secret : key or password of the server; None reads the environment, for servers of TERCET_SECRET_HOSTS and this
            machine, since the folder names the server and may come from anybody
        """
        root = Path(path)
        location = _read_location(root, cls.kind)
        if not location.is_complete:
            raise BundleError(f"the upload of the index at {path} has not ended; give the same command again")
        if model is None:
            model = Folder(root).read_model(location.model, location.model_digest)
        words = _checked(model)
        check_fits(words, location.vectorizer, str(path))
        engine = cls._reached(location.url, location.collection, secret)
        _check_owner(engine, location)
        return cls(words, root, location, EngineView.build(engine, words))

    @classmethod
    def _reached(
        cls, url: str, collection: str, secret: str | None, *, is_named: bool = False, **settings: Any
    ) -> Engine:
        check_collection(collection, cls.longest_name)  # also for the name in a folder: the folder is untrusted input
        engine = cls.connect(url, collection, secret, is_named=is_named, **settings)
        engine.check_version()
        return engine

    @classmethod
    def is_interrupted(cls, path: str | PathLike[str]) -> bool:
        """Return True for a folder with an unfinished build."""
        location = _location_or_none(Path(path), cls.kind)
        return location is not None and not location.is_complete

    def with_model(self, model: TextModel | Weights) -> Self:
        """Return an index of the same documents with another model over the same vocabulary."""
        words = _checked(model)
        if not same_words(words, self._model):
            check_fits(words, self._location.vectorizer, "the index")
        return type(self)(words, self._folder, self._location, self._view_by(words))

    def _view_by(self, model: TextModel) -> EngineView:
        return EngineView.build(self._view.engine, model, self._view.cache)

    def refresh(self) -> bool:
        """Read the model of a promotion since opening; documents are always current."""
        location = _read_location(self._folder, self.kind)
        if location == self._location:
            return False
        fresh = type(self).open(self._folder)
        self._model, self._location, self._view = fresh._model, fresh._location, fresh._view
        return True

    # -- what is in it ------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return self._location.url

    @property
    def collection(self) -> str:
        return self._location.collection

    def __repr__(self) -> str:
        where = str(self._location).removeprefix("the collection ")
        return f"{type(self).__name__}({len(self):,} documents, {n_terms(self._model):,} words, {where})"

    # -- searching ----------------------------------------------------------------------------------------------

    def _current(self) -> tuple[TextModel | Weights, DocumentView]:
        return self._model, self._view.for_search()

    def _best(self, view: DocumentView, Q: Matrix | QueryRow, queries: ExpandedQueries, k: int) -> list[Best]:
        assert isinstance(view, EngineView)
        return view.best(Q, queries, k)

    def _scores(
        self, view: DocumentView, Q: Matrix | QueryRow, query: ExpandedQueries, rows: DocRows, doc_ids: Sequence[str]
    ) -> NDArray[np.float64]:
        assert isinstance(view, EngineView)
        return view.scores(Q, query, rows)

    # -- changing -----------------------------------------------------------------------------------------------

    def add(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents; a taken id with other contents is an error, raised after earlier documents are added."""
        with self._writing() as engine:
            _upload(engine, self._model, docs, progress, may_replace=False)
            engine.finish()

    def replace(self, docs: Docs, progress: Progress | None = None) -> None:
        """Add documents, in place of documents with the same ids."""
        with self._writing() as engine:
            _upload(engine, self._model, docs, progress)
            engine.finish()

    def remove(self, doc_ids: Iterable[str]) -> None:
        """Remove documents; if an id is missing, raise an error and remove nothing."""
        listed = list(dict.fromkeys(listed_ids(doc_ids)))
        with self._writing() as engine:
            for page in pages(listed):
                digests = engine.digests(page)
                missing = next((doc_id for doc_id in page if doc_id not in digests), None)
                if missing is not None:
                    raise InputError(f"there is no document {missing!r} among the {len(self):,} of the index")
            for page in pages(listed):
                engine.delete(page)
            engine.finish()

    def promote(
        self, model: TextModel | Weights, by: By = "hand", evidence: Evidence | None = None, over: str | None = None
    ) -> Promotion:
        """Make a model over the same words the model of the index; documents do not change.

        Parameters
        ----------
        model, by, evidence, over : as in `Index.promote`
        """
        words = _checked(model)
        check_fits(words, self._location.vectorizer, "the index")
        with self._writing():
            if over is not None and over != self._location.model:
                raise InputError(f"the model of {self._folder} is {self._location.model} by now, no longer {over}")
            name, digest = Folder(self._folder).write_model(words)
            if name == self._location.model:
                raise InputError(f"{name} is the model of {self._folder} already; nothing was changed")
            return self._promoted(words, name, digest, by, None, evidence)

    def take_back(self) -> Promotion:
        """Undo the last promotion."""
        with self._writing():
            last = last_to_undo(self._location.promotions)
            if last is None:
                raise InputError(f"{self._folder} has no promotion to take back")
            model = _checked(Folder(self._folder).read_model(last.before, last.before_digest))
            return self._promoted(model, last.before, last.before_digest, "hand", last.number, None)

    def _promoted(
        self, model: TextModel, name: str, digest: str, by: By, undoes: int | None, evidence: Evidence | None
    ) -> Promotion:
        before = self._location
        models = (before.model, before.model_digest), (name, digest)
        entry = next_promotion(before.promotions, *models, by, undoes, evidence)
        location = replace(before, model=name, model_digest=digest, promotions=(*before.promotions, entry))
        _commit(self._folder, location, self.kind)
        self._model, self._location, self._view = model, location, self._view_by(model)
        return entry

    @property
    def promotions(self) -> tuple[Promotion, ...]:
        return self._location.promotions

    def former_model(self) -> TextModel | Weights | None:
        last = last_to_undo(self.promotions)
        return None if last is None else Folder(self._folder).read_model(last.before, last.before_digest)

    @contextmanager
    def _writing(self) -> Iterator[Engine]:
        with self._changing, _locked(self._folder):
            engine = self._view.engine.patient()
            _check_owner(engine, self._location)
            yield engine


def _checked(model: TextModel | Weights) -> TextModel:
    """Return the model of an index in an engine, or raise an error."""
    check_model(model, TextModel)
    assert isinstance(model, TextModel)
    check_columns(model)
    return model


def default_collection(path: Path) -> str:
    """A collection named after a folder.

    Examples
    --------
    >>> default_collection(Path("my index"))
    'tercet-my-index'
    """
    return "tercet-" + (re.sub(r"[^a-z0-9_-]+", "-", path.resolve().name.lower()).strip("-") or "index")


# -- uploads --------------------------------------------------------------------------------------------------------


def _upload(
    engine: Engine, model: TextModel, docs: Docs, progress: Progress | None, *, may_replace: bool = True
) -> set[str]:
    """Write documents in batches, without documents already in the engine; return their ids."""
    # Later uploads get larger positions: documents of equal scores stay in the order of upload.
    position, written = time.time_ns() // 1000, set[str]()
    entries = listed_one_by_one(docs)
    while block := next_documents(entries, _BATCH_DOCS, len(written)):
        digests = {doc_id: _digest_of(doc_id, *rest) for doc_id, *rest in block}
        if len(digests) < len(block) or not written.isdisjoint(digests):
            ids = [doc_id for doc_id, _, _ in block]
            twice = next(doc_id for doc_id in ids if doc_id in written or ids.count(doc_id) > 1)
            raise InputError(f"document {twice!r} is there twice; ids must differ")
        present = engine.digests(list(digests))
        new = [i for i, (doc_id, _, _) in enumerate(block) if present.get(doc_id) != digests[doc_id]]
        clash = next((block[i][0] for i in new if block[i][0] in present), None)
        if clash is not None and not may_replace:
            raise InputError(f"document {clash!r} is in the index already; replace takes it")
        documents = [EngineDocument(*block[i], position + i, digests[block[i][0]]) for i in new]
        if engine.has_vectors and documents:
            documents = _with_words(documents, model, engine)
        for request in _requests(documents):
            engine.put(request)
        position += len(block)
        written.update(digests)
        if progress is not None:
            progress(len(written))
    return written


def _with_words(documents: Sequence[EngineDocument], model: TextModel, engine: Engine) -> list[EngineDocument]:
    """Return documents with their words; refuse documents beyond an engine's limits."""
    D = canonical(model.docs([document.text for document in documents]))
    rows = [slice(start, stop) for start, stop in pairwise(D.indptr.tolist())]
    for document, row in zip(documents, rows, strict=True):
        if row.stop - row.start > engine.most_terms:
            raise InputError(
                f"document {document.doc_id!r} has {row.stop - row.start:,} different words; {engine.name} takes "
                f"{engine.most_terms:,}"
            )
    terms, values = D.indices.astype(np.int64), D.data.astype(np.float32)
    pairs = zip(documents, rows, strict=True)
    return [replace(document, terms=terms[row], values=values[row]) for document, row in pairs]


def _requests(documents: Sequence[EngineDocument]) -> Iterator[Sequence[EngineDocument]]:
    """Split documents into requests of bounded size."""
    start, size = 0, 0
    for i, document in enumerate(documents):
        n_characters = len(document.text) + len(document.stored_fields)
        n_bytes = _BYTES_OF_A_TERM * document.terms.size + 4 * n_characters
        if i > start and size + n_bytes > _REQUEST_BYTES:
            yield documents[start:i]
            start, size = i, 0
        size += n_bytes
    if start < len(documents):
        yield documents[start:]


def _digest_of(*parts: str) -> str:
    """Return a hash of strings."""
    digest = blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


# -- the folder -----------------------------------------------------------------------------------------------------


def _read_location(folder: Path, kind: str) -> Location:
    bundle = read_bundle(folder, kind=kind)
    return decode(Location, bundle.meta, where=f"{folder}: meta")


def _location_or_none(folder: Path, kind: str) -> Location | None:
    return _read_location(folder, kind) if os.path.lexists(folder / MANIFEST_NAME) else None


def _prepare(folder: Path, kind: str) -> None:
    """Make the folder; refuse a folder with other contents."""
    check_destination(folder, siblings=(MODELS,))
    if os.path.lexists(folder / MANIFEST_NAME):
        read_bundle(folder, kind=kind)  # refuse to overwrite a model or another index
    try:
        (folder / MODELS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BundleError(f"{folder} cannot be written: {error}") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one writer at a time change the index from this machine."""
    try:
        (folder / MODELS).mkdir(exist_ok=True)  # copying an index file by file loses empty folders
    except OSError as error:
        raise BundleError(f"{folder} cannot be written: {error}") from error
    with lock_folder(folder / MODELS):
        yield


def _commit(folder: Path, location: Location, kind: str) -> None:
    write_bundle(folder, kind=kind, meta=encode(location)[0], arrays={}, siblings=(MODELS,))
    models = kept_models(location.promotions, location.model)
    for entry in os.listdir(folder / MODELS):
        if entry not in models:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(folder / MODELS / entry)


def _begin(folder: Path, location: Location, before: Location | None, engine: Engine, kind: str) -> Location:
    """Continue an interrupted build, or replace the collection of this folder."""
    if before is not None and (before.url, before.collection) != (location.url, location.collection):
        raise BundleError(f"{folder} is an index in {before}; name that one to replace it, or another folder")
    owner = engine.owner()
    if owner == "" and before is not None and not before.is_complete and engine.count() <= 0:
        engine.drop()  # a collection left by an interrupted run
        owner = None
    if owner is not None and (before is None or owner != before.owner):
        of = "was not made by Tercet" if owner == "" else "is that of another index"
        if before is None:
            _remove_unfinished(folder)
        raise EngineError(
            f"{engine.url} has a collection {engine.collection!r} already, which {of}; nothing in it was changed. "
            "Name another collection, or remove that one"
        )
    is_same = before is not None and before.vectorizer == location.vectorizer
    if before is not None and is_same and not before.is_complete:
        location = replace(location, owner=before.owner)
    elif owner is not None:
        engine.drop()
    _commit(folder, location, kind)  # before the collection: an interrupted run can then drop the collection
    return location


def _remove_unfinished(folder: Path) -> None:
    """Remove the files of a refused build, and an empty folder."""
    for entry in os.listdir(folder / MODELS):
        shutil.rmtree(folder / MODELS / entry)
    for path in (folder / MODELS, folder):
        with contextlib.suppress(OSError):  # the folder may hold another file
            path.rmdir()


def _check_owner(engine: Engine, location: Location) -> None:
    """Refuse the collection of another index."""
    owner = engine.owner()
    if owner is None:
        raise EngineError(f"{engine.where}, is not there")
    if owner != location.owner:
        of = "was not made by Tercet" if owner == "" else "belongs to another index of Tercet"
        raise EngineError(f"{engine.where}, {of}; this one's is gone or was replaced")
