"""The upload: documents in batches, each acknowledged and noted, so that it can go on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.engines.engine import DOC_ID, PAGE, STORED_FIELDS, TEXT, Engine, Point
from tercet.engines.records import Marker, RemoteFolder, Upload
from tercet.errors import BundleError, InputError
from tercet.fitting.text_model import TextModel
from tercet.search.documents import Docs, Progress, canonical, checked_documents, listed_one_by_one, next_documents
from tercet.search.folder import UPLOAD
from tercet.search.scorer import Scorer

_REQUEST_BYTES: Final = 8 * 2**20  # servers take 32 MB unless they are told otherwise
_BYTES_OF_A_VALUE: Final = 32  # of a dimension and its value, in JSON


# -- batches --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Batch:
    """Some documents: ids, texts where they are kept, stored fields, their rows, and a SHA-256 that stands for them.

    Rows are made only for batches that are sent.
    """

    ids: Sequence[str]
    texts: Sequence[str] | None
    stored_fields: Sequence[str]  # as JSON, empty for nothing
    rows: Callable[[], sparse.csr_array]
    digest: bytes


Batches = Callable[[int], Iterator[Batch]]  # given how many documents one has


def batches_of_texts(docs: Docs, model: TextModel, keep_texts: bool) -> Batches:
    """Of documents, which are read once."""

    def batches(size: int) -> Iterator[Batch]:
        entries = listed_one_by_one(docs)
        done = 0
        while block := next_documents(entries, size, done):
            ids, texts, stored_fields = zip(*block, strict=True)
            parts = [part.encode("utf-8") for entry in block for part in (entry if entry[2] else entry[:2])]
            kept = texts if keep_texts else None
            yield Batch(ids, kept, stored_fields, partial(_vectors, model, texts), _digest_of(*parts))
            done += len(block)

    return batches


def batches_of_rows(ids: Sequence[str], D: Any, n_terms: int, texts: Sequence[str] | None) -> Batches:
    """Of documents that are vectors already."""
    D = checked_documents(ids, D, n_terms, texts)

    def batches(size: int) -> Iterator[Batch]:
        for start in range(0, D.shape[0], size):
            part = slice(start, start + size)
            rows = D[part]
            arrays = (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data.astype(np.float32))
            words = [word.encode("utf-8") for word in (*ids[part], *(texts[part] if texts is not None else ()))]
            digest = _digest_of(*words, *(array.tobytes() for array in arrays))
            kept = None if texts is None else texts[part]
            yield Batch(ids[part], kept, [""] * rows.shape[0], partial(_same, rows), digest)

    return batches


def _vectors(model: TextModel, texts: Sequence[str]) -> sparse.csr_array:
    return canonical(model.docs(texts))


def _same(D: sparse.csr_array) -> sparse.csr_array:
    return D


def _digest_of(*parts: bytes) -> bytes:
    """SHA-256 of parts, each with its length in front, so that it differs wherever a part does."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def points_of(
    batch: Batch,
    D: sparse.csr_array,
    factors: NDArray[np.float32] | None,
    first_row: int,
    marker: Marker,
    engine: Engine,
) -> list[Point]:
    """Documents as points: words, then latent dimensions, then the one that says that there is a known word.

    A document without a known word has no vector, so it is never found and only known by its id.
    """
    if D.nnz and D.data.min() < 0:
        i = int(np.searchsorted(D.indptr, np.flatnonzero(D.data < 0)[0], side="right")) - 1
        raise InputError(
            f"document {batch.ids[i]!r} has negative values, which an index in {engine.name} does not take"
        )
    points = []
    for i, doc_id in enumerate(batch.ids):
        entries = slice(D.indptr[i], D.indptr[i + 1])
        terms, values = D.indices[entries].astype(np.int64), D.data[entries].astype(np.float32)
        if factors is not None and terms.size:
            components = np.flatnonzero(factors[i])
            terms = np.concatenate([terms, marker.n_terms + components, [marker.always]])
            values = np.concatenate([values, factors[i, components], np.ones(1, dtype=np.float32)])
        if engine.most_dimensions is not None and terms.size > engine.most_dimensions:
            raise InputError(
                f"document {doc_id!r} has {terms.size:,} different words and latent dimensions; {engine.name} takes "
                f"{engine.most_dimensions:,}"
            )
        payload = {DOC_ID: doc_id} | ({TEXT: batch.texts[i]} if batch.texts is not None else {})
        payload |= {STORED_FIELDS: batch.stored_fields[i]} if batch.stored_fields[i] else {}
        points.append(Point(first_row + i, terms, values, payload))
    return points


# -- sending them ---------------------------------------------------------------------------------------------------


class Uploader:
    """Sends documents to a collection. What was sent is noted in the folder after each batch.

    A batch that was sent and not noted is removed and sent again, under other numbers: who read it meanwhile remembers
    what its documents were by these.
    """

    def __init__(
        self, engine: Engine, folder: RemoteFolder, upload: Upload, marker: Marker, scorer: Scorer, batches: Batches
    ) -> None:
        self.engine, self.folder, self.upload, self.marker = engine, folder, upload, marker
        self.scorer, self.batches = scorer, batches

    def run(self, progress: Progress | None) -> Marker:
        """Send all; returns what the marker says then. Documents that cannot be taken leave those that were there."""
        try:
            self._send(progress)
        except InputError:
            self._take_back()
            raise
        if self.upload.kind == "replace":
            self._remove_replaced()
        marker = self.marker.changed(next_row=self.upload.next_row, complete=True)
        self.engine.put([marker.point()])
        return marker

    def _send(self, progress: Progress | None) -> None:
        digest = hashlib.sha256()
        done, noted, sending = 0, self.upload, False
        for batch in self.batches(noted.batch_docs):
            digest.update(batch.digest)
            if done < noted.sent:
                done += len(batch.ids)
                if done > noted.sent or (done == noted.sent and digest.hexdigest() != noted.digest):
                    raise _other_documents(self.folder, noted)
            else:
                if not sending:
                    self._remove_unnoted()
                    sending = True
                self._send_batch(batch)
                done += len(batch.ids)
                self.upload = replace(self.upload, sent=done, digest=digest.hexdigest(), limits=self.marker.limits)
                self.folder.keep(self.upload)
            if progress is not None:
                progress(done)
        if done < noted.sent:
            raise _other_documents(self.folder, noted)
        if not sending:
            self._remove_unnoted()

    def _remove_unnoted(self) -> None:
        """Remove what an upload that was interrupted sent and did not note; what follows now may be other documents."""
        first = self.upload.next_row
        unnoted = [row for row, _ in self.engine.ids_from(first, self.upload.batch_docs)]
        if unnoted:
            self.engine.delete(unnoted)
            self.upload = replace(self.upload, skipped=self.upload.skipped + max(unnoted) + 1 - first)
            self.folder.keep(self.upload)

    def _send_batch(self, batch: Batch) -> None:
        self._check_ids(batch.ids)
        D = batch.rows()
        factors = self.scorer.factors(D) if self.scorer.latent else None
        points = points_of(batch, D, factors, self.upload.next_row, self.marker, self.engine)
        limits = self.marker.limits.with_documents(D, factors)
        if limits != self.marker.limits:
            # Before the documents, so that no search takes them for smaller than they are.
            self.marker = replace(self.marker, limits=limits)
            self.engine.put([self.marker.point()])
        for request in _requests(points):
            self.engine.put(request)

    def _check_ids(self, ids: Sequence[str]) -> None:
        """Ids must differ; where documents are added, they must differ from those that are there, too."""
        last = {doc_id: i for i, doc_id in enumerate(ids)}
        if len(last) < len(ids):
            twice = next(doc_id for i, doc_id in enumerate(ids) if last[doc_id] != i)
            raise InputError(f"document {twice!r} is there twice; ids must differ")
        for row, doc_id in self.engine.rows_of(ids):
            if row >= self.upload.first_row:
                raise InputError(f"document {doc_id!r} is there twice; ids must differ")
            if self.upload.kind != "replace":
                raise InputError(f"document {doc_id!r} is in the index already; replace takes it")

    def _remove_replaced(self) -> None:
        first, end = self.upload.first_row, self.upload.next_row
        for start in range(first, end, PAGE):
            ids = [doc_id for row, doc_id in self.engine.ids_from(start, min(PAGE, end - start)) if row < end]
            old = [row for row, _ in self.engine.rows_of(ids) if row < first] if ids else []
            if old:
                self.engine.delete(old)

    def _take_back(self) -> None:
        if self.upload.kind == "build":
            self.engine.drop()
        else:
            first, end = self.upload.first_row, self.upload.next_row + self.upload.batch_docs
            for start in range(first, end, PAGE):
                self.engine.delete(list(range(start, min(start + PAGE, end))))
            self.engine.put([self.marker.with_rows_taken(end).point()])
        self.folder.forget_upload()


def _requests(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Points in requests that a server takes: long texts make a batch of many too large."""
    start, size = 0, 0
    for i, point in enumerate(points):
        strings = point.payload.get(TEXT, "") + point.payload.get(STORED_FIELDS, "")
        point_bytes = _BYTES_OF_A_VALUE * point.terms.size + 2 * len(strings.encode("utf-8"))
        if i > start and size + point_bytes > _REQUEST_BYTES:
            yield points[start:i]
            start, size = i, 0
        size += point_bytes
    yield points[start:]


def _other_documents(folder: RemoteFolder, upload: Upload) -> BundleError:
    return BundleError(
        f"{folder.path} has an upload that has not ended, of other documents than these: the {upload.sent:,} that were "
        f"sent differ. Go on with the same ones, or remove {folder.path / UPLOAD} to give it up"
    )
