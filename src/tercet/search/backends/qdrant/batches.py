"""Documents on their way to Qdrant, a batch at a time: vectors are made only for batches that are sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import InputError
from tercet.fitting.model import TextModel
from tercet.search.backends.qdrant.engine import DOC_ID, TEXT, Point
from tercet.search.backends.qdrant.marker import Marker
from tercet.search.documents import Docs, canonical, check_id, checked_rows, in_single, taken

Batches = Callable[[int], Iterator["Batch"]]  # given how many documents one has


@dataclass(frozen=True, eq=False)
class Batch:
    """Some documents: ids, texts where they are kept, how to get their rows, and bytes that stand for them."""

    ids: Sequence[str]
    texts: Sequence[str] | None
    rows: Callable[[], sparse.csr_array]
    told: bytes


def batches_of_texts(docs: Docs, model: TextModel, keep_texts: bool) -> Batches:
    """Of a mapping from id to text, or of an iterable of both, which is read once."""

    def batches(size: int) -> Iterator[Batch]:
        pairs = iter(docs.items() if isinstance(docs, Mapping) else docs)
        done = 0
        while block := taken(pairs, size, done):
            ids, texts = zip(*block, strict=True)
            told = _told(*(part.encode("utf-8") for pair in block for part in pair))
            yield Batch(ids, texts if keep_texts else None, partial(_vectors, model, texts), told)
            done += len(block)

    return batches


def batches_of_rows(ids: Sequence[str], D: Any, n_terms: int, texts: Sequence[str] | None) -> Batches:
    """Of documents that are vectors already."""
    D = in_single(checked_rows(D, "D", n_terms))
    for name, given in (("ids", ids), ("texts", texts)):
        if given is not None and len(given) != D.shape[0]:
            raise InputError(f"there are {len(given)} {name} for {D.shape[0]} rows of D; they must agree")
    for at, doc_id in enumerate(ids):
        check_id(doc_id, at)

    def batches(size: int) -> Iterator[Batch]:
        for start in range(0, D.shape[0], size):
            part = slice(start, start + size)
            own = D[part]
            arrays = (own.indptr.astype(np.int64), own.indices.astype(np.int64), own.data.astype(np.float32))
            words = [word.encode("utf-8") for word in (*ids[part], *(texts[part] if texts is not None else ()))]
            told = _told(*words, *(array.tobytes() for array in arrays))
            yield Batch(ids[part], None if texts is None else texts[part], partial(_same, own), told)

    return batches


def _vectors(model: TextModel, texts: Sequence[str]) -> sparse.csr_array:
    return canonical(model.docs(texts))


def _same(D: sparse.csr_array) -> sparse.csr_array:
    return D


def _told(*parts: bytes) -> bytes:
    """Bytes that differ wherever a part does: each has its length in front."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


def points_of(
    batch: Batch, D: sparse.csr_array, factors: NDArray[np.float32] | None, first_row: int, marker: Marker
) -> list[Point]:
    """Documents as points: words, then latent dimensions, then the one that says that there is a known word.

    A document without a known word has no vector, so it is never found and only known by its id.
    """
    if D.nnz and D.data.min() < 0:
        at = int(np.searchsorted(D.indptr, np.flatnonzero(D.data < 0)[0], side="right")) - 1
        raise InputError(f"document {batch.ids[at]!r} has negative values, which an index on Qdrant does not take")
    points = []
    for i, doc_id in enumerate(batch.ids):
        inside = slice(D.indptr[i], D.indptr[i + 1])
        terms, values = D.indices[inside].astype(np.int64), D.data[inside].astype(np.float32)
        if factors is not None and terms.size:
            here = np.flatnonzero(factors[i])
            terms = np.concatenate([terms, marker.n_terms + here, [marker.always]])
            values = np.concatenate([values, factors[i, here], np.ones(1, dtype=np.float32)])
        payload = {DOC_ID: doc_id} | ({TEXT: batch.texts[i]} if batch.texts is not None else {})
        points.append(Point(first_row + i, terms, values, payload))
    return points
