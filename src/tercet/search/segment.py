"""Immutable part of an index: up to 65,536 documents by word, by row and by id, texts and stored fields."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.postings import SegmentArrays, fill_postings
from tercet.kernels.rows import CsrRows
from tercet.search.filtering import columns_of, rows_with
from tercet.store import Bundle, forget_pages, take_array
from tercet.store.codec import decode, encode
from tercet.store.fields import csr_problem
from tercet.store.old_names import with_new_arrays
from tercet.store.schema import OMIT_DEFAULT, Bounds
from tercet.store.strings import PackedIds, PackedStrings

MOST_DOCS: Final = 2**16  # a document number takes two bytes
MOST_ENTRIES: Final = 2**32 - 1
_FILTERS_KEPT: Final = 16  # cached filters; a filter takes two bytes per passing document
MOST_SEGMENTS: Final = 2**15 - 1  # most segments of an index: segment and document take four bytes


@dataclass(frozen=True)
class StoredSegment:
    """Metadata of a segment on disk."""

    vectorizer: str
    n_docs: Annotated[int, Bounds(1, MOST_DOCS)]
    n_terms: Annotated[int, Bounds(1, below=2**31)]
    texts: bool
    limits: tuple[int, float]
    stored_fields: Annotated[bool, OMIT_DEFAULT] = False

    def __post_init__(self) -> None:
        if min(self.limits) < 0 or self.limits[0] > self.n_terms:
            raise InputError(f"the limits are {list(self.limits)}; expected a number of words and a length")


@dataclass(frozen=True, eq=False)
class Segment:
    """Documents in the order of addition; ``kernels/postings.py`` names the arrays.

    ``limits`` are the largest number of words of a document and a bound on the length of document vectors. ``name`` and
    ``digest`` refer to the files; both are empty in memory.
    """

    postings: CsrRows
    bounds: NDArray[np.float32]
    rows: CsrRows
    ids: PackedIds
    texts: PackedStrings | None
    limits: tuple[int, float]
    stored_fields: PackedStrings | None = None  # as JSON; empty for nothing
    name: str = ""
    digest: str = ""
    _filtered: dict[tuple[str, frozenset[str]], NDArray[np.uint16]] = field(default_factory=dict, repr=False)

    @property
    def kernel_arrays(self) -> SegmentArrays:
        """Arrays for kernels."""
        return SegmentArrays(self.postings, self.bounds, self.rows, self.limits)

    @property
    def n_docs(self) -> int:
        return len(self.rows.indptr) - 1

    @property
    def n_terms(self) -> int:
        return len(self.bounds)

    @classmethod
    def build(
        cls, ids: Sequence[str], D: sparse.csr_array, texts: Sequence[str] | None, stored_fields: Sequence[str] = ()
    ) -> Segment:
        """The segment of documents in canonical CSR; time is linear in their entries."""
        if D.nnz > MOST_ENTRIES:
            raise InputError(f"a segment of {D.nnz:,} entries is too large; use a smaller segment_docs")
        rows = CsrRows(D.indptr.astype(np.uint32), D.indices.astype(np.int32), D.data.astype(np.float32))
        n_terms = D.shape[1]
        starts, docs = np.empty(n_terms + 1, dtype=np.uint32), np.empty(D.nnz, dtype=np.uint16)
        values, bounds = np.empty(D.nnz, dtype=np.float32), np.empty((n_terms, 2), dtype=np.float32)
        fill_postings(*rows, starts, docs, values, bounds)
        for array in (*rows, starts, docs, values, bounds):
            array.flags.writeable = False  # read-only like mapped arrays: one compiled kernel serves both
        packed = None if texts is None else PackedStrings.pack(texts)
        squares = np.concatenate(([0.0], np.cumsum(D.data.astype(np.float64) ** 2)))
        squared = np.diff(squares[D.indptr]).max(initial=0.0) + 1e-12 * squares[-1]  # a running sum rounds
        limits = (int(np.diff(D.indptr).max(initial=0)), float(1.001 * np.sqrt(squared)))
        columns = PackedStrings.pack(stored_fields) if any(stored_fields) else None
        return cls(CsrRows(starts, docs, values), bounds, rows, PackedIds.pack(ids), packed, limits, columns)

    def widened(self, n_terms: int) -> Segment:
        """Return the same documents over a larger vocabulary."""
        if n_terms == self.n_terms:
            return self
        n_more, starts = n_terms - self.n_terms, self.postings.indptr
        starts = np.concatenate([starts, np.full(n_more, starts[-1])])
        bounds = np.concatenate([self.bounds, np.zeros((n_more, 2), dtype=np.float32)])
        for array in (starts, bounds):
            array.flags.writeable = False
        return replace(self, postings=self.postings._replace(indptr=starts), bounds=bounds)

    def take(self, rows: NDArray[np.integer[Any]]) -> CsrRows:
        """The words of some documents."""
        starts, terms, values = self.rows
        first, last = starts[rows].astype(np.int64), starts[rows + np.int64(1)].astype(np.int64)
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(last - first, out=indptr[1:])
        entries = np.arange(indptr[-1]) + np.repeat(first - indptr[:-1], last - first)
        return CsrRows(indptr, terms[entries], values[entries])

    def matrix(self, rows: NDArray[np.integer[Any]]) -> sparse.csr_array:
        """Some documents as CSR float32 (len(rows), n_terms)."""
        indptr, terms, values = self.take(rows)
        matrix = sparse.csr_array((values, terms, indptr), shape=(len(rows), self.n_terms))
        matrix.has_canonical_format = True
        return matrix

    def rows_with(self, column: str, values: Collection[str]) -> NDArray[np.uint16]:
        """Return documents with one of the values in a column; the latest answers are cached."""
        if self.stored_fields is None:
            return np.empty(0, dtype=np.uint16)
        key = column, frozenset(values)
        rows = self._filtered.get(key)
        if rows is None:
            rows = rows_with(self.stored_fields, column, values).astype(np.uint16)
            for oldest in list(self._filtered)[: 1 - _FILTERS_KEPT]:
                self._filtered.pop(oldest, None)
            self._filtered[key] = rows
        return rows

    @cached_property
    def columns(self) -> dict[str, None]:
        """Columns of stored fields, collected once for the checks of filters."""
        return {} if self.stored_fields is None else columns_of(self.stored_fields)

    @cached_property
    def empty_rows(self) -> NDArray[np.uint16]:
        """Documents without a known word."""
        return np.flatnonzero(np.diff(self.rows.indptr) == 0).astype(np.uint16)

    # -- saving -------------------------------------------------------------------------------------------------

    def meta(self, vectorizer: str) -> dict[str, Any]:
        contents = (self.texts is not None, self.limits, self.stored_fields is not None)
        return encode(StoredSegment(vectorizer, self.n_docs, self.n_terms, *contents))[0]

    def arrays(self) -> dict[str, NDArray[Any]]:
        names = ("post_starts", "post_docs", "post_values", "row_starts", "row_terms", "row_values")
        arrays: dict[str, NDArray[Any]] = dict(zip(names, (*self.postings, *self.rows), strict=True))
        arrays |= {"bounds": self.bounds, **self.ids.arrays()}
        for name, strings in (("text", self.texts), ("stored_fields", self.stored_fields)):
            arrays |= {} if strings is None else strings.arrays(name)
        return arrays

    @classmethod
    def from_bundle(cls, bundle: Bundle, name: str, vectorizer: str, verify: bool) -> Segment:
        """Read a segment from a mapped bundle; ``verify`` checks every offset."""
        where = str(bundle.path)
        stored = decode(StoredSegment, bundle.meta, where=where)
        n, n_terms = stored.n_docs, stored.n_terms
        if stored.vectorizer != vectorizer:
            raise DamagedBundleError(f"{where} was made by another vectorizer than its index")
        arrays = with_new_arrays(bundle.arrays)

        def take(array: str, dtype: Any, shape: int | tuple[int | None, ...]) -> NDArray[Any]:
            return take_array(arrays, array, dtype, shape, where=where, finite=verify)

        values = take("post_values", np.float32, 1)
        n_entries = (values.size,)
        segment = cls(
            CsrRows(take("post_starts", np.uint32, (n_terms + 1,)), take("post_docs", np.uint16, n_entries), values),
            take("bounds", np.float32, (n_terms, 2)),
            CsrRows(
                take("row_starts", np.uint32, (n + 1,)),
                take("row_terms", np.int32, n_entries),
                take("row_values", np.float32, n_entries),
            ),
            PackedIds.from_arrays(arrays, n, where, verify),
            PackedStrings.from_arrays(arrays, "text", n, where, verify) if stored.texts else None,
            stored.limits,
            PackedStrings.from_arrays(arrays, "stored_fields", n, where, verify) if stored.stored_fields else None,
            name,
            bundle.digest,
        )
        if set(arrays) != set(segment.arrays()):
            raise DamagedBundleError(f"{where} has unexpected arrays {sorted(set(arrays) - set(segment.arrays()))}")
        if verify:
            segment._check(where)
            forget_pages(values)
        return segment

    def _check(self, where: str) -> None:
        """Check all offsets."""
        for name, (starts, members, _), most in (
            ("postings", self.postings, self.n_docs),
            ("rows", self.rows, self.n_terms),
        ):
            problem = csr_problem(starts.astype(np.int64), members, most)
            if problem is not None:
                raise DamagedBundleError(f"{where}: its matrix of {name} {problem}")
