"""A segment of an index for kernels, and the sums and scores of its documents.

A segment holds at most 65,536 documents: a posting stores its document in two bytes, and the sums of all documents
stay in the second-level cache. ``words`` float64 (n_parts, n_terms) is the expanded query, a part of W in a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.compiler import array_at, array_helper, helper, helper_in_order, intrinsic, kernel, kernel_in_order
from tercet.kernels.rows import CsrRows

TOGETHER = 32  # sums compared side by side
FEW_TOUCHED = 8  # if fewer than one in so many documents has a word, only documents with a word are visited
NONE = np.int64(0)  # typed: a literal 0, or another integer type, would compile another version


class SegmentArrays(NamedTuple):
    """Arrays of one segment of an index for search."""

    postings: Any  # CsrRows: starts uint32 (n_terms + 1), docs uint16, values float32: the documents of each term
    bounds: NDArray[Any]  # float32 (n_terms, 2), largest and smallest value of each term, or 0
    rows: Any  # CsrRows: starts uint32 (n_docs + 1), terms int32, values float32: of each document, ascending
    limits: tuple[int, float]  # most words of a row, largest length of a row


def table_row(segment: SegmentArrays, dead: NDArray[Any], first_row: int) -> tuple[list[int], float]:
    """Return the addresses of a segment and its dead rows, and its longest row, for a table of segments.

    Passing the arrays of each segment would cost a short query more than the search. The owner of a table keeps the
    arrays alive.
    """
    arrays = (*segment.postings, segment.bounds, *segment.rows, dead)
    n_docs, n_terms = len(segment.rows[0]) - 1, len(segment.bounds)
    sizes = [n_docs, n_terms, len(segment.postings[1]), len(dead), segment.limits[0], first_row]
    return [*(array.ctypes.data for array in arrays), *sizes], float(segment.limits[1])


@intrinsic
def _pointer(typing_context, address):
    """A number as an address."""
    from numba import types

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@array_helper
def segment_at(table, lengths, i):
    """The segment in a row of a table, its dead rows and the number of its first document."""
    at = table[i]
    n_docs, n_terms, n_postings = at[8], at[9], at[10]
    postings = CsrRows(
        array_at(_pointer(at[0]), (n_terms + 1,), np.uint32),
        array_at(_pointer(at[1]), (n_postings,), np.uint16),
        array_at(_pointer(at[2]), (n_postings,), np.float32),
    )
    rows = CsrRows(
        array_at(_pointer(at[4]), (n_docs + 1,), np.uint32),
        array_at(_pointer(at[5]), (n_postings,), np.int32),
        array_at(_pointer(at[6]), (n_postings,), np.float32),
    )
    bounds = array_at(_pointer(at[3]), (n_terms, 2), np.float32)
    dead = array_at(_pointer(at[7]), (at[11],), np.uint16)
    return SegmentArrays(postings, bounds, rows, (at[12], lengths[i])), dead, at[13]


class SearchScratch(NamedTuple):
    """Buffers of a search; buffers without a size are longer by 1 than the words of a query."""

    sums: NDArray[Any]  # float32 (n_docs,), all zero between calls
    order: NDArray[Any]  # int32
    by_bucket: NDArray[Any]  # int32
    ratio: NDArray[Any]  # float32
    bits: NDArray[Any]  # int32, the same memory
    counts: NDArray[Any]  # int64 (N_BUCKETS + 1,)
    rest: NDArray[Any]  # float64
    left: NDArray[Any]  # int64
    sample_score: NDArray[Any]  # (k,)
    sample_row: NDArray[Any]  # int32 (k,)


class Heap(NamedTuple):
    """The best documents, with the worst of them at the root."""

    score: NDArray[Any]  # (k,)
    row: NDArray[Any]  # int32 (k,)


class Candidates(NamedTuple):
    """Documents of a segment that may be among the best."""

    rows: NDArray[Any]  # int32 (n_docs,)
    scores: NDArray[Any]  # (n_docs,)


@kernel
def lay_out(starts, stops, terms, weights, words, union):
    """Spread an expanded query over ``words`` and list each of its terms once in ``union``; returns how many.

    Part p has the entries from starts[p] to stops[p] of ``terms`` and ``weights``.
    """
    n = 0
    for p in range(starts.size):
        for a in range(starts[p], stops[p]):
            term = terms[a]
            if weights[a] == 0.0:
                continue
            listed = False
            for other in range(p):
                listed |= words[other, term] != 0.0
            words[p, term] = weights[a]
            if not listed:
                union[n] = term
                n += 1
    return n


@kernel
def wipe(words, union):
    """Make ``words`` zero again."""
    for p in range(words.shape[0]):
        for i in range(union.size):
            words[p, union[i]] = 0.0


@helper
def weight_of(words, term):
    """Return the sum of a term's weights over all parts of W."""
    weight = 0.0
    for p in range(words.shape[0]):
        weight += words[p, term]
    return weight


@helper
def add_up(postings, words, order, start, stop, per_unit, sums):
    """Add the postings of the terms from start to stop of an order to the sums."""
    starts, docs, values = postings
    for i in range(start, stop):
        single = np.float32(weight_of(words, order[i]) * per_unit)
        for a in range(np.int64(starts[order[i]]), np.int64(starts[order[i] + 1])):
            sums[docs[a]] += single * values[a]


@helper_in_order
def score_row(row, rows, words):
    """Return the score of a document by its row, and True if the document has a word of the query."""
    starts, terms, values = rows
    start, stop = np.int64(starts[row]), np.int64(starts[row + 1])
    total = 0.0
    matched = False
    for p in range(words.shape[0]):
        part = 0.0
        for a in range(start, stop):
            weight = words[p, terms[a]]
            matched |= weight != 0.0
            part += weight * values[a]
        if p == 0:
            total = part
        else:
            total += part
    return total, matched


@kernel_in_order
def score_rows_of(listed, rows, words, scores):
    """`score_row` of each listed row."""
    for i in range(listed.size):
        scores[i], _ = score_row(np.int64(listed[i]), rows, words)


@kernel_in_order
def score_latent(rows, factors, query, typical_length, scores):
    """Scores of documents by low rank: rows are (int64, int32, float64), ``query`` (n_components,) is ``U'q``.

    Each document is taken for itself, so equal documents have equal scores. A typical length below 0 means none.
    """
    starts, terms, values = rows
    n_components = factors.shape[1]
    latent = np.empty(n_components)
    for d in range(scores.size):
        latent[:] = 0.0
        for a in range(starts[d], starts[d + 1]):
            value, factor = values[a], factors[terms[a]]
            for c in range(n_components):
                latent[c] += value * factor[c]
        score, squared = 0.0, 0.0
        for c in range(n_components):
            score += latent[c] * query[c]
            squared += latent[c] * latent[c]
        if typical_length >= 0.0:
            score = score * (typical_length / np.sqrt(squared)) if squared > 0.0 else 0.0
        scores[d] = score


@helper
def some_reach(sums, first, limit):
    """Return True if one of TOGETHER sums from ``first`` on reaches the limit; a shorter rest always returns True."""
    if first + TOGETHER > sums.size:
        return True
    some, least = False, np.float32(limit)
    for j in range(TOGETHER):  # no branch: SIMD compares side by side
        some |= sums[first + j] >= least
    return some


@helper
def kept(candidates, n, least):
    """Drop the candidates below a score; return the number of candidates left."""
    kept = 0
    for i in range(n):
        if candidates.scores[i] >= least:
            candidates.rows[kept], candidates.scores[kept] = candidates.rows[i], candidates.scores[i]
            kept += 1
    return kept


@kernel
def fill_postings(row_starts, row_terms, row_values, starts, docs, values, bounds):
    """Sort the entries of rows by term; ``starts``, ``docs``, ``values`` and ``bounds`` are filled in."""
    n_terms = starts.size - 1
    next_posting = np.zeros(n_terms + 1, dtype=np.int64)
    for a in range(row_terms.size):
        next_posting[row_terms[a] + 1] += 1
    for t in range(n_terms):
        next_posting[t + 1] += next_posting[t]
    for t in range(n_terms + 1):
        starts[t] = next_posting[t]
    bounds[:] = 0.0
    for d in range(row_starts.size - 1):
        for a in range(np.int64(row_starts[d]), np.int64(row_starts[d + 1])):
            term, value = row_terms[a], row_values[a]
            posting = next_posting[term]
            next_posting[term] = posting + 1
            docs[posting], values[posting] = d, value
            bounds[term, 0] = max(bounds[term, 0], value)
            bounds[term, 1] = min(bounds[term, 1], value)
