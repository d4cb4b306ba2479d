"""The upload: batch after batch, each acknowledged and noted, so that it can go on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tercet.errors import BundleError, InputError
from tercet.search.backends.qdrant.batches import Batch, Batches, points_of
from tercet.search.backends.qdrant.engine import TEXT, Engine, Point
from tercet.search.backends.qdrant.folder import UPLOAD, QdrantFolder, Upload
from tercet.search.backends.qdrant.marker import Marker
from tercet.search.documents import Progress
from tercet.search.scorer import Scorer

_AT_ONCE: Final = 1024
_REQUEST_BYTES: Final = 8 * 2**20  # servers take 32 MB unless they are told otherwise
_BYTES_OF_A_VALUE: Final = 32  # of a dimension and its value, in JSON


class Uploader:
    """Sends documents to a collection. What was sent is noted in the folder after each batch.

    A batch that was sent and not noted is removed and sent again.
    """

    def __init__(
        self, engine: Engine, folder: QdrantFolder, upload: Upload, marker: Marker, scorer: Scorer, batches: Batches
    ) -> None:
        self.engine, self.folder, self.upload, self.marker = engine, folder, upload, marker
        self.scorer, self.batches = scorer, batches

    def run(self, progress: Progress | None) -> Marker:
        """Send all; returns what the marker says then. Documents that cannot be taken leave those that were there."""
        try:
            done = self._send(progress)
        except InputError:
            self._take_back()
            raise
        if self.upload.kind == "replace":
            self._remove_replaced(done)
        marker = self.marker.changed(next_row=self.upload.first_row + done, complete=True)
        self.engine.put([marker.point()])
        return marker

    def _send(self, progress: Progress | None) -> int:
        digest = hashlib.sha256()
        done, noted, sending = 0, self.upload, False
        for batch in self.batches(noted.batch_docs):
            digest.update(batch.told)
            if done < noted.sent:
                done += len(batch.ids)
                if done > noted.sent or (done == noted.sent and digest.hexdigest() != noted.digest):
                    raise _other_documents(self.folder, noted)
            else:
                if not sending:
                    self._remove_unnoted()
                    sending = True
                self._send_batch(batch, noted.first_row + done)
                done += len(batch.ids)
                self.upload = replace(self.upload, sent=done, digest=digest.hexdigest(), limits=self.marker.limits)
                self.folder.keep(self.upload)
            if progress is not None:
                progress(done)
        if done < noted.sent:
            raise _other_documents(self.folder, noted)
        if not sending:
            self._remove_unnoted()
        return done

    def _remove_unnoted(self) -> None:
        """Remove what an upload that was interrupted sent and did not note; what follows now may be other documents."""
        found = self.engine.ids_from(self.upload.first_row + self.upload.sent, self.upload.batch_docs)
        if found:
            self.engine.delete([row for row, _ in found])

    def _send_batch(self, batch: Batch, first_row: int) -> None:
        self._check_ids(batch.ids)
        D = batch.rows()
        factors = self.scorer.factors(D) if self.scorer.latent else None
        points = points_of(batch, D, factors, first_row, self.marker)
        limits = self.marker.limits.with_documents(D, factors)
        if limits != self.marker.limits:
            # Before the documents, so that no search takes them for smaller than they are.
            self.marker = replace(self.marker, limits=limits)
            self.engine.put([self.marker.point()])
        for some in _portions(points):
            self.engine.put(some)

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

    def _remove_replaced(self, done: int) -> None:
        first, end = self.upload.first_row, self.upload.first_row + done
        for start in range(first, end, _AT_ONCE):
            ids = [doc_id for row, doc_id in self.engine.ids_from(start, min(_AT_ONCE, end - start)) if row < end]
            old = [row for row, _ in self.engine.rows_of(ids) if row < first] if ids else []
            if old:
                self.engine.delete(old)

    def _take_back(self) -> None:
        if self.upload.kind == "build":
            self.engine.drop()
        else:
            first = self.upload.first_row
            end = first + self.upload.sent + self.upload.batch_docs
            for start in range(first, end, _AT_ONCE):
                self.engine.delete(list(range(start, min(start + _AT_ONCE, end))))
            self.engine.put([self.marker.with_rows_taken(end).point()])
        self.folder.forget_upload()


def _portions(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Points in requests that a server takes: long texts make a batch of many too large."""
    start, size = 0, 0
    for at, point in enumerate(points):
        own = _BYTES_OF_A_VALUE * point.terms.size + 2 * len(point.payload.get(TEXT, "").encode("utf-8"))
        if at > start and size + own > _REQUEST_BYTES:
            yield points[start:at]
            start, size = at, 0
        size += own
    yield points[start:]


def _other_documents(folder: QdrantFolder, upload: Upload) -> BundleError:
    return BundleError(
        f"{folder.path} has an upload that has not ended, of other documents than these: the {upload.sent:,} that were "
        f"sent differ. Go on with the same ones, or remove {folder.path / UPLOAD} to give it up"
    )
