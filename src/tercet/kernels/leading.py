"""Search by the few rare words that each of the best documents must have.

Given a score reached by k documents, common words alone may not reach this score. Only postings of the rare words are
then summed. The parts of common words are looked up for the remaining candidates.
"""

from __future__ import annotations

import numpy as np

from tercet.kernels.compiler import helper
from tercet.kernels.postings import FEW_TOUCHED, NONE, TOGETHER, add_up, kept, score_row, some_reach, weight_of
from tercet.kernels.topk import offer

_COST_OF_A_LOOK = 32  # cost of a lookup of one posting of a document, in sequential postings
_POSTINGS_OF_FEW = 8  # postings per requested document for a first bound of the scores
_FIRST_STEP = 16  # first step of the search around the expected posting
_TINY = np.float32(2.0**-100)  # what is above zero


@helper
def search_leading(segment, words, n, units, threshold, dead, first_row, scratch, heap, size, candidates):
    """Offer the documents of a segment to the heap, if cheaper than a sum of all postings.

    n           number of terms, in the order of ``scratch``
    units       the score 1 in units of sums, and the error of sums
    threshold   a score reached by k documents

    Return the new size of the heap, and -1; or, if too expensive, the number of summed terms.
    """
    postings, _, rows, _ = segment
    _, order, _, _, _, _, rest, left, _, _ = scratch
    per_unit, wrong = units
    sums = scratch.sums[: rows[0].size - 1]
    leading = 0
    while rest[leading] > threshold - wrong:
        leading += 1
    n_leading = left[0] - left[leading]
    few = FEW_TOUCHED * n_leading < sums.size
    if not few and 2 * n_leading >= left[0]:
        return size, 0
    least = max(_TINY, (threshold - rest[leading] - wrong) * per_unit)
    if few and leading == 1:
        n_found = _list_one(
            postings, order[0], np.float32(weight_of(words, order[0]) * per_unit), sums, least, candidates
        )
    else:
        add_up(postings, words, order, 0, leading, per_unit, sums)
        if few:
            n_found = _list_touched(postings, order, leading, sums, least, candidates)
        elif _n_reaching(sums, least) * _COST_OF_A_LOOK < left[leading]:
            n_found = _list_reaching(sums, least, candidates)
        else:
            return size, leading
    for i in range(dead.size):
        sums[dead[i]] = 0.0
    positions = leading, n
    size = _offer_leading(
        segment, words, n_found, positions, units, threshold, first_row, scratch, heap, size, candidates
    )
    return size, -1


@helper
def reached_by_few(segment, words, n_terms, per_unit, dead, scratch, sample, candidates):
    """Return a score reached by k documents with the first terms, k the length of the sample; -inf if unknown.

    All sums are unchanged.
    """
    postings, _, rows, _ = segment
    sums, order, left = scratch.sums[: rows[0].size - 1], scratch.order, scratch.left
    k, n_added = sample.score.size, 0
    while n_added < n_terms and left[0] - left[n_added] < _POSTINGS_OF_FEW * k:
        if FEW_TOUCHED * (left[0] - left[n_added + 1]) > sums.size:
            break
        n_added += 1
    if left[0] - left[n_added] < k:
        return -np.inf
    add_up(postings, words, order, 0, n_added, per_unit, sums)
    n = _list_touched(postings, order, n_added, sums, _TINY, candidates)
    for i in range(dead.size):
        sums[dead[i]] = -np.inf
    if n < k:
        return -np.inf
    size = NONE
    for j in range(n):
        size = offer(sample.score, sample.row, size, candidates.scores[j], np.int64(candidates.rows[j]))
    lowest = np.inf
    for j in range(k):
        score, _ = score_row(np.int64(sample.row[j]), rows, words)
        lowest = min(lowest, score)
    return lowest


@helper
def _list_one(postings, term, single, sums, need, candidates):
    """List the living documents with a single term and a sum of at least ``need``."""
    starts, docs, values = postings
    n = np.int64(0)
    for a in range(np.int64(starts[term]), np.int64(starts[term + 1])):
        if single * values[a] >= need and sums[docs[a]] == 0.0:
            candidates.rows[n], candidates.scores[n] = docs[a], single * values[a]
            n += 1
    return n


@helper
def _list_touched(postings, order, n_terms, sums, need, candidates):
    """List the documents with one of the first terms and a sum of at least ``need``; reset all sums to zero."""
    starts, docs, _ = postings
    n = np.int64(0)
    for i in range(n_terms):
        for a in range(np.int64(starts[order[i]]), np.int64(starts[order[i] + 1])):
            d = docs[a]
            if sums[d] >= need:
                candidates.rows[n], candidates.scores[n] = d, sums[d]
                n += 1
                sums[d] = -np.inf  # listed once
    for i in range(n_terms):
        for a in range(np.int64(starts[order[i]]), np.int64(starts[order[i] + 1])):
            sums[docs[a]] = 0.0
    return n


@helper
def _list_reaching(sums, need, candidates):
    """The same of all documents."""
    n = np.int64(0)
    for first in range(0, sums.size, TOGETHER):
        if some_reach(sums, first, need):
            for d in range(first, min(first + TOGETHER, sums.size)):
                if sums[d] >= need:
                    candidates.rows[n], candidates.scores[n] = d, sums[d]
                    n += 1
    sums[:] = 0.0
    return n


@helper
def _n_reaching(sums, limit):
    n, least = 0, np.float32(limit)
    for d in range(sums.size):
        n += sums[d] >= least
    return n


@helper
def _offer_leading(segment, words, n, positions, units, threshold, first_row, scratch, heap, size, candidates):
    """Offer the n candidates, with their sums over the leading terms, to a heap.

    Parts of the remaining terms are looked up for candidates alone; each term leaves fewer candidates.
    """
    per_unit, wrong = units
    postings, _, rows, _ = segment
    starts, docs, values = postings
    sums, order, rest, n_docs = scratch.sums, scratch.order, scratch.rest, rows[0].size - 1
    found_row, found_score = candidates
    for i in range(positions[0], positions[1]):
        if n == 0:
            break
        single = np.float32(weight_of(words, order[i]) * per_unit)
        start, stop = np.int64(starts[order[i]]), np.int64(starts[order[i] + 1])
        if stop - start < _COST_OF_A_LOOK * n:
            for j in range(n):
                sums[found_row[j]] = found_score[j]
            for a in range(start, stop):
                if sums[docs[a]] != 0.0:
                    sums[docs[a]] += single * values[a]
            for j in range(n):
                found_score[j] = sums[found_row[j]]
                sums[found_row[j]] = 0.0
        else:
            for j in range(n):
                found_score[j] += single * _value_of(docs, values, start, stop, n_docs, np.int64(found_row[j]))
        n = kept(candidates, n, max(_TINY, (threshold - rest[i + 1] - wrong) * per_unit))
    for j in range(n):
        if found_score[j] >= (threshold - wrong) * per_unit:
            d = np.int64(found_row[j])
            score, _ = score_row(d, rows, words)
            size = offer(heap.score, heap.row, size, score, first_row + d)
            if size == heap.score.size:
                threshold = max(threshold, heap.score[0])
    return size


@helper
def _value_of(docs, values, start, stop, n_docs, d):
    """Return the value of a document in the rising postings from start to stop, or 0.

    The search starts at the position of the document in evenly spread postings.
    """
    if start == stop:
        return np.float32(0.0)
    low = high = start + (stop - start) * d // n_docs
    step = _FIRST_STEP
    if docs[low] < d:
        while high < stop and docs[high] < d:
            low, high, step = high + 1, high + step, 2 * step
        high = min(high, stop)
    else:
        while low > start and docs[low] >= d:
            low, high, step = low - step, low, 2 * step
        low = max(low, start)
    while low < high:
        middle = (low + high) // 2
        if docs[middle] < d:
            low = middle + 1
        else:
            high = middle
    return values[low] if low < stop and docs[low] == d else np.float32(0.0)
