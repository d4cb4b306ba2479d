"""Documents for an index: validation, batches, and comparison with indexed documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from tercet._lazy import sparse
from tercet.data.documents import Documents, as_documents
from tercet.data.frames import as_table
from tercet.data.lines import id_problem, surrogate_problem
from tercet.errors import InputError
from tercet.fitting.text_model import ORDINARY_BM25, TextModel
from tercet.search.growth import GrowingVocabulary
from tercet.search.segment import Segment
from tercet.search.stored_fields import packed_record, unpacked_record
from tercet.search.view import LiveSegment
from tercet.store.strings import PackedIds
from tercet.text import Analyzer, FieldedVectorizer, Vectorizer
from tercet.text.language import usual_analyzer

# Any argument of `as_documents`, or an iterable of (id, text) or (id, text, stored fields).
Docs = Any
Progress = Callable[[int], None]

_TEXTS_AT_ONCE = 8192
_TIER = 8  # segments with at most a power of _TIER documents are joined once they hold that many together


def with_words(docs: Docs, model: TextModel | None, analyzer: Analyzer | None) -> tuple[Docs, GrowingVocabulary]:
    """Return documents and their model: the given model, or BM25 of the documents, with words already counted."""
    if model is not None:
        if analyzer is not None:
            raise InputError("the model has an analyzer of its own; give a model or an analyzer")
        check_model(model, TextModel)
        return docs, GrowingVocabulary(model)
    docs = list(docs) if isinstance(docs, Iterator) else in_columns(docs)
    words = Vectorizer(analyzer=analyzer or usual_analyzer(_texts(listed_one_by_one(docs))), **ORDINARY_BM25)
    counts = words.fit_counts(_texts(listed_one_by_one(docs)))
    return docs, GrowingVocabulary(TextModel.of_words(words), counts)


def _texts(entries: Iterator[Any]) -> Iterator[str]:
    n_read = 0
    while block := next_documents(entries, _TEXTS_AT_ONCE, n_read):
        yield from (text for _, text, _ in block)
        n_read += len(block)


def in_columns(docs: Docs) -> Docs:
    """Convert records and frames to `Documents`; texts by id and iterables of documents are returned unchanged."""
    if isinstance(docs, Documents | Iterator):
        return docs
    if isinstance(docs, Mapping):
        key, value = next(iter(docs.items()), ("", ""))
        return as_documents(docs) if isinstance(value, Mapping) or not isinstance(key, str) else docs
    if isinstance(docs, str | bytes):
        return as_documents(docs)  # which says what is wrong
    if isinstance(docs, Sequence):
        return as_documents(docs) if docs and isinstance(docs[0], Mapping | str) else docs
    table = as_table(docs, "docs")
    return docs if table is None else as_documents(docs)


def listed_one_by_one(docs: Docs) -> Iterator[Any]:
    """Documents as (id, text) or (id, text, stored fields), unchecked."""
    docs = in_columns(docs)
    if isinstance(docs, Documents):
        return ((doc_id, text, docs.stored_fields(doc_id)) for doc_id, text in docs.items())
    if not isinstance(docs, Iterable):
        raise InputError(f"docs is of type {type(docs).__name__}; expected documents: id -> text, records or a frame")
    return iter(docs.items() if isinstance(docs, Mapping) else docs)


def check_model(model: Any, allowed: Any) -> None:
    if not isinstance(model, allowed):
        expected = "a TextModel" if allowed is TextModel else "a TextModel or Weights"
        raise InputError(f"model is of type {type(model).__name__}; expected {expected}")


def segments_of_texts(
    docs: Docs, growth: GrowingVocabulary, segment_docs: int, keep_texts: bool, progress: Progress | None
) -> Iterator[Segment]:
    """Yield segments of at most ``segment_docs`` documents; the texts of one segment are in memory at a time."""
    docs = in_columns(docs)
    entries = listed_one_by_one(docs)
    n_read = 0
    while True:
        ids: list[str] = []
        texts: list[str] = []
        stored_fields: list[str] = []
        blocks: list[sparse.csr_array] = []
        while len(ids) < segment_docs:
            block = next_documents(entries, min(_TEXTS_AT_ONCE, segment_docs - len(ids)), n_read)
            if not block:
                break
            block_ids, block_texts, block_fields = zip(*block, strict=True)
            ids += block_ids
            stored_fields += block_fields
            blocks.append(_rows(growth, docs, block_ids, block_texts, block_fields))
            if keep_texts:
                texts += block_texts
            n_read += len(block)
            if progress is not None:
                progress(n_read)
        if not ids:
            return
        for block_rows in blocks:
            block_rows.resize(block_rows.shape[0], blocks[-1].shape[1])  # words that came later
        D = blocks[0] if len(blocks) == 1 else sparse.csr_array(sparse.vstack(blocks, format="csr"))
        yield Segment.build(ids, canonical(D), texts if keep_texts else None, stored_fields)


def _rows(
    growth: GrowingVocabulary, docs: Docs, ids: Sequence[str], texts: Sequence[str], stored_fields: Sequence[str]
) -> sparse.csr_array:
    """The rows of some documents, with the columns that the model scores."""
    if not isinstance(growth.vectorizer, FieldedVectorizer):
        return growth.rows(texts)
    model = growth.model
    if isinstance(docs, Documents):
        return model.docs(docs.part(ids))
    records = [
        unpacked_record(packed, f"document {doc_id!r}") for doc_id, packed in zip(ids, stored_fields, strict=True)
    ]
    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: [record.get(name) for record in records] for name in names}
    return model.docs(Documents(ids, {**columns, "text": texts}))


def next_documents(entries: Iterator[Any], n: int, done: int) -> list[tuple[str, str, str]]:
    """The next n documents, checked: id, text, and stored fields as JSON; ``done`` is how many came before."""
    documents: list[tuple[str, str, str]] = []
    for entry in entries:
        number = done + len(documents)
        if not isinstance(entry, tuple | list) or not 2 <= len(entry) <= 3:
            raise InputError(f"docs[{number}] is {entry!r}; expected an id and a text, and perhaps stored fields")
        doc_id, text, stored_fields = entry if len(entry) == 3 else (*entry, None)
        _check_id(doc_id, number)
        _check_text(text, doc_id)
        documents.append((doc_id, text, packed_record(stored_fields, doc_id) if stored_fields else ""))
        if len(documents) == n:
            break
    return documents


def segments_of_rows(ids: Sequence[str], D: Any, n_terms: int, segment_docs: int) -> Iterator[Segment]:
    """The same for documents that are vectors already, without texts."""
    D = in_single(checked_rows(D, "D", n_terms))
    if len(ids) != D.shape[0]:
        raise InputError(f"there are {len(ids)} ids for {D.shape[0]} rows of D; they must agree")
    for number, doc_id in enumerate(ids):
        _check_id(doc_id, number)
    for start in range(0, D.shape[0], segment_docs):
        part = slice(start, start + segment_docs)
        yield Segment.build(ids[part], D[part], None)


def _check_id(doc_id: Any, number: int) -> None:
    problem = id_problem(doc_id)
    if problem is not None:
        raise InputError(f"the id of document {number} {problem}")


def _check_text(text: Any, doc_id: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"the text of document {doc_id!r} is of type {type(text).__name__}; expected a string")
    if problem := surrogate_problem(text):
        raise InputError(f"the text of document {doc_id!r} {problem}")


def checked_rows(X: Any, name: str, n_terms: int) -> sparse.csr_array:
    """Rows over the columns of a model: canonical CSR, finite."""
    if isinstance(X, sparse.csr_array) and X.shape == (1, n_terms) and _is_plain_row(X):
        return X
    try:
        rows = X if isinstance(X, sparse.csr_array) else sparse.csr_array(X)
        if rows.dtype.kind not in "biuf":
            raise TypeError(f"its values are of type {rows.dtype}")
        rows.check_format(full_check=True)  # kernels believe the columns
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no matrix of real numbers: {error}") from error
    if rows.ndim != 2 or rows.shape[1] != n_terms:
        raise InputError(f"{name} must have {n_terms} columns, one per term of the model; got shape {rows.shape}")
    if not np.isfinite(rows.data).all():
        raise InputError(f"{name} has values that are not finite")
    return canonical(rows)


def _is_plain_row(q: sparse.csr_array) -> bool:
    """Return True if nothing is wrong with a row; SciPy's own checks take longer than a search."""
    columns, values = q.indices, q.data
    return bool(
        columns.size
        and values.dtype.kind in "biuf"
        and q.indptr.tolist() == [0, columns.size]
        and values.size == columns.size
        and columns[0] >= 0
        and columns[-1] < q.shape[1]
        and (columns[1:] > columns[:-1]).all()
        and np.isfinite(values).all()
        and values.all()
    )


def in_single(D: sparse.csr_array) -> sparse.csr_array:
    """Convert values to the float32 of an index; a value that underflows to zero is removed from the document."""
    if D.dtype == np.float32:
        return D
    with np.errstate(over="ignore"):
        single = D.astype(np.float32)
    if not np.isfinite(single.data).all():
        raise InputError("D has values beyond 3.4e38, the largest number of an index")
    return canonical(single)


def canonical(D: sparse.csr_array) -> sparse.csr_array:
    """Each column of a row once, in order, no zeros."""
    if not D.has_canonical_format or not D.data.all():
        D = D.copy()
        D.sum_duplicates()
        D.eliminate_zeros()
    return D


def merged(entries: Sequence[LiveSegment], segment_docs: int) -> Iterator[LiveSegment | Segment]:
    """The same documents in as few segments as hold them, without the dead; whole segments stay as they are."""
    pending: list[tuple[LiveSegment, np.ndarray[Any, Any]]] = []
    n_pending = 0
    for entry in entries:
        if not pending and not entry.dead.size and entry.segment.n_docs >= segment_docs:
            yield entry
            continue
        rows = entry.alive()
        while rows.size:
            first, rows = np.split(rows, [segment_docs - n_pending])
            pending.append((entry, first))
            n_pending += first.size
            if n_pending == segment_docs:
                yield _joined(pending)
                pending, n_pending = [], 0
    if pending:
        yield _joined(pending)


def tiered(entries: Sequence[LiveSegment], segment_docs: int) -> Iterator[LiveSegment | Segment]:
    """Join small segments, left by many small additions, at little cost.

    Neighbors of fewer than 8 documents each are joined once they have 8 together, then those of fewer than 64, and so
    on up to half a segment, so a document is written again once for each power of 8. A segment of which more than
    half is dead is written again without the dead, at the cost of less than what was removed.
    """
    groups = [(entry.n_alive, [entry]) for entry in entries if entry.n_alive]
    limit = _TIER
    while limit <= segment_docs // 2:
        groups = _runs_joined(groups, limit)
        limit *= _TIER
    for _, group in groups:
        if len(group) == 1 and 2 * len(group[0].dead) <= group[0].segment.n_docs:
            yield group[0]
        else:
            yield from merged(group, segment_docs)


Group = tuple[int, list[LiveSegment]]  # number of live documents, and their segments


def _runs_joined(groups: Sequence[Group], limit: int) -> list[Group]:
    """Neighbors below a size become one where they reach it together."""
    after: list[Group] = []
    for is_small, run in groupby(groups, lambda group: group[0] < limit):
        members = list(run)
        size = sum(n for n, _ in members)
        if is_small and size >= limit:
            members = [(size, [entry for _, group in members for entry in group])]
        after += members
    return after


def _joined(pieces: Sequence[tuple[LiveSegment, np.ndarray[Any, Any]]]) -> LiveSegment | Segment:
    if len(pieces) == 1 and not pieces[0][0].dead.size and pieces[0][1].size == pieces[0][0].segment.n_docs:
        return pieces[0][0]
    ids = [doc_id for entry, rows in pieces for doc_id in entry.segment.ids.strings.many(rows)]
    D = sparse.csr_array(sparse.vstack([entry.segment.matrix(rows) for entry, rows in pieces], format="csr"))
    texts: list[str] | None = []
    for entry, rows in pieces:
        segment_texts = entry.segment.texts
        if segment_texts is None or texts is None:
            texts = None
        else:
            texts += segment_texts.many(rows)
    stored_fields: list[str] = []
    for entry, rows in pieces:
        columns = entry.segment.stored_fields
        stored_fields += [""] * rows.size if columns is None else columns.many(rows)
    return Segment.build(ids, canonical(D), texts, stored_fields)


# -- ids that are there already -------------------------------------------------------------------------------------


def clashes(entry: LiveSegment, ids: PackedIds) -> list[tuple[int, str]]:
    """Return the live rows of an entry with ids in another array, and the ids."""
    rows, listed = entry.segment.ids.shared(ids)
    alive = ~np.isin(rows, entry.dead)
    return list(zip(rows[alive].tolist(), ids.strings.many(listed[alive]), strict=True))
