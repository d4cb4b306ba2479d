"""Exact search of the segments of an index: postings first, the rows of candidates last.

Postings are summed in the order that prunes best: these sums only select candidates. Returned scores come from
`score_row`, by ascending term and part after part, as in scoring without an index.
"""

from __future__ import annotations

import numpy as np

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.leading import reached_by_few, search_leading
from tercet.kernels.postings import (
    FEW_TOUCHED,
    NONE,
    TOGETHER,
    Heap,
    add_up,
    kept,
    lay_out,
    score_row,
    segment_at,
    some_reach,
    wipe,
)
from tercet.kernels.prefetch import prefetch
from tercet.kernels.topk import offer, sort_heap

N_BUCKETS = 1024
_FIRST_CHECK = 0.5  # of the postings are left
_NEXT_CHECK = 0.5  # share of the postings left at the last check
_SAMPLE = 2048
_FEW_TERMS = 24  # sorting so few terms is faster than clearing the buckets
_AHEAD, _PREFETCHED = 6, 128  # distance in terms, and number of postings, of prefetching
_COST_OF_A_TERM = 4.0  # cost of a term of a scored row, in postings
_COST_OF_A_ROW = 200.0
_SMALLEST_UNIT, _LARGEST_UNIT = 1e-200, 1e200  # beyond these, products of doubles overflow or lose digits


@helper
def _plan(postings, bounds, words, union, max_length, scratch):
    """Order the terms to find good documents soon, and bound the rest from each position on.

    order (m,)      terms with postings here, by the largest increase of a score per posting
    rest  (m + 1,)  bound of all further additions to any document
    left  (m + 1,)  number of further postings

    Return the number of terms, a bound of the summed sizes of all additions to a document of at most the longest
    length, and the same for each part of W alone: parts that nearly cancel leave little but the rounding of
    `score_row`.
    """
    starts = postings[0]
    _, order, by_bucket, ratio, bits, counts, rest, left, _, _ = scratch
    n, size, squared, largest, gross = 0, 0.0, 0.0, 0.0, 0.0
    for i in range(union.size):
        term = union[i]
        n_docs = np.int64(starts[term + 1]) - np.int64(starts[term])
        if n_docs == 0:
            continue
        weight, sizes = 0.0, 0.0
        for p in range(words.shape[0]):
            weight += words[p, term]
            sizes += abs(words[p, term])
        gross += sizes * max(bounds[term, 0], -bounds[term, 1])
        up = max(weight * bounds[term, 0], weight * bounds[term, 1])
        size += max(up, -min(weight * bounds[term, 0], weight * bounds[term, 1]))
        squared += weight * weight
        largest = max(largest, abs(weight))
        bucket = N_BUCKETS - 1
        if up > 0.0:  # a zero may have a sign
            ratio[n] = up / n_docs
            bucket -= bits[n] >> 21  # exponent and two bits more: in order up to a quarter
        bits[n] = bucket
        order[n] = term
        n += 1
    if n <= _FEW_TERMS:
        for i in range(n):
            j = i
            while j > 0 and bits[j - 1] > bits[j]:
                bits[j - 1], bits[j] = bits[j], bits[j - 1]
                order[j - 1], order[j] = order[j], order[j - 1]
                j -= 1
        for i in range(n):
            by_bucket[i] = order[i]
    else:
        for b in range(counts.size):
            counts[b] = 0
        for i in range(n):
            counts[bits[i] + 1] += 1
        for b in range(N_BUCKETS):
            counts[b + 1] += counts[b]
        for i in range(n):
            by_bucket[counts[bits[i]]] = order[i]
            counts[bits[i]] += 1
    rest[n], left[n] = 0.0, 0
    for i in range(n - 1, -1, -1):
        term = by_bucket[i]
        order[i] = term
        weight = 0.0
        for p in range(words.shape[0]):
            weight += words[p, term]
        rest[i] = rest[i + 1] + max(weight * bounds[term, 0], weight * bounds[term, 1])
        left[i] = left[i + 1] + np.int64(starts[term + 1]) - np.int64(starts[term])
    # In these units, weights are rounded to float32, too.
    return n, max(min(size, np.sqrt(squared) * max_length), 1e-30 * largest), gross


@helper
def _reached(sums, step, rows, words, base, has_base, sample):
    """Return a score reached by k documents, k the length of the sample; -inf with too few known documents."""
    size = NONE
    for d in range(0, sums.size, step):
        if sums[d] > -np.inf and (has_base or sums[d] != 0.0):
            size = offer(sample.score, sample.row, size, np.float64(sums[d]), d)
    if size < sample.score.size:
        return -np.inf
    lowest = np.inf
    for j in range(size):
        d = np.int64(sample.row[j])
        score, matched = score_row(d, rows, words)
        if has_base:
            score += base[d]
        elif not matched:
            return -np.inf
        lowest = min(lowest, score)
    return lowest


@kernel
def search_segments(table, lengths, words, union, base, slack, scratch, heap, candidates, size):
    """Offer the documents of segments to a heap of the best; return its new size and the number of candidates.

    table, lengths   from `table_row` for each segment
    base     float32 (n_docs,)  of a single segment: first scores, from low-rank factors, -inf for excluded documents;
                                else empty
    slack    largest error of ``base``

    ``candidates`` are scratch; with a base, they are all possible best documents. Without a base only documents with a
    word of the query count.
    """
    n_candidates = 0
    for i in range(lengths.size):
        segment, dead, first_row = segment_at(table, lengths, i)
        size, n_candidates = _search_one(
            segment, words, union, base, dead, slack, first_row, scratch, heap, size, candidates
        )
    return size, n_candidates


@kernel
def search_segments_for_all(table, lengths, words, query, union, scratch, heaps, candidates, sizes):
    """`search_segments` without a base for many queries, each with a separate heap, sorted best first at the end.

    query   (starts, stops (n_queries, n_parts), terms, weights) as `lay_out` takes them
    heaps   a `Heap` of arrays (n_queries, k); with sizes (n_queries,) changed in place
    union   scratch as long as the longest query
    """
    starts, stops, terms, weights = query
    no_base = np.empty(0, dtype=np.float32)
    for s in range(lengths.size):
        segment, dead, first_row = segment_at(table, lengths, s)
        for i in range(sizes.size):
            n = lay_out(starts[i], stops[i], terms, weights, words, union)
            if n == 0:
                continue
            own, heap = union[:n], Heap(heaps.score[i], heaps.row[i])
            sizes[i], _ = _search_one(
                segment, words, own, no_base, dead, 0.0, first_row, scratch, heap, sizes[i], candidates
            )
            wipe(words, own)
    for i in range(sizes.size):
        sort_heap(heaps.score[i], heaps.row[i], sizes[i])


@helper
def _search_one(segment, words, union, base, dead, slack, first_row, scratch, heap, size, candidates):
    """Search a single segment like `search_segments`."""
    postings, bounds, rows, limits = segment
    starts, docs, values = postings
    _, order, _, _, _, _, rest, left, sample_score, sample_row = scratch
    n_docs, k = rows[0].size - 1, heap[0].size
    sums = scratch.sums[:n_docs]
    heap_score, heap_row = heap
    sample = Heap(sample_score, sample_row)
    found_row, found_score = candidates
    has_base = base.size > 0
    n, unit, gross = _plan(postings, bounds, words, union, limits[1], scratch)
    if has_base:
        highest = 0.0
        for d in range(n_docs):
            highest = max(highest, abs(base[d]))
        unit += highest
    if unit == 0.0:
        unit = 1.0  # all that is added is zero
    for i in range(dead.size):
        sums[dead[i]] = -np.inf
    if not (unit > _SMALLEST_UNIT and gross < _LARGEST_UNIT and unit < _LARGEST_UNIT):
        return _offer_all(rows, words, base, sums, first_row, heap, size, candidates)
    if has_base:
        for d in range(n_docs):
            sums[d] += base[d] / unit
    # Sums are float32, in units in which no sum is above 1. A sum rounds once per word of a row: two sums further
    # apart than this bound are in the right order.
    n_added = min(n, limits[0]) + 8
    wrong = 2.0**-22 * n_added * unit + 2.0**-50 * (n_added + words.shape[0]) * gross + 2.0 * slack
    per_unit = 1.0 / unit
    threshold = heap_score[0] if size == k else -np.inf
    begin = 0
    if not has_base:
        if size < k:
            threshold = reached_by_few(segment, words, n, per_unit, dead, scratch, sample, candidates)
        if threshold > wrong:
            units = per_unit, wrong
            size, begin = search_leading(
                segment, words, n, units, threshold, dead, first_row, scratch, heap, size, candidates
            )
            if begin < 0:
                return size, 0
    step = max(1, n_docs // max(_SAMPLE, 8 * k))
    row_cost = _COST_OF_A_ROW + _COST_OF_A_TERM * words.shape[0] * rows[1].size / n_docs
    next_check = np.int64(_FIRST_CHECK * left[0])
    least_left = n_docs + 400 * k  # cost of a check, in postings
    docs_line, values_line = docs.reshape(1, -1), values.reshape(1, -1)
    done = n
    for i in range(begin, n):
        # Always check before postings that can only lower scores.
        if left[i] > least_left and (left[i] <= next_check or (rest[i] == 0.0 and (i == 0 or rest[i - 1] > 0.0))):
            next_check = np.int64(_NEXT_CHECK * left[i])
            hopeless = not has_base and rest[i] * per_unit > 2.0 * _highest(sums, step)  # far too much is to come
            if not hopeless:
                reached = _reached(sums, step, rows, words, base, has_base, sample)
                threshold = max(threshold, reached)
                need = (threshold - rest[i] - wrong) * per_unit
                hopeless = not has_base and need <= 0.0  # documents without a word are also candidates
            if not hopeless:
                n_above = 0
                for d in range(0, n_docs, step):
                    n_above += sums[d] >= need
                if n_above * step * row_cost < left[i]:
                    done = i
                    break
        if i + _AHEAD < n:
            ahead = order[i + _AHEAD]
            a, stop = np.int64(starts[ahead]), np.int64(starts[ahead + 1])
            for line in range(a, min(stop, a + _PREFETCHED), 32):
                prefetch(docs_line, 0, line)
            for line in range(a, min(stop, a + _PREFETCHED), 16):
                prefetch(values_line, 0, line)
        add_up(postings, words, order, i, i + 1, per_unit, sums)

    if done == n:
        few = not has_base and FEW_TOUCHED * left[0] < n_docs
        if few:
            n_near = _near_touched(postings, union, sums, threshold * per_unit, wrong * per_unit, sample, candidates)
        else:
            n_near = _near(sums, has_base, threshold * per_unit, wrong * per_unit, sample, candidates)
        for i in range(n_near):
            d = np.int64(found_row[i])
            score, _ = score_row(d, rows, words)
            if has_base:
                score += base[d]
                found_score[i] = score
            size = offer(heap_score, heap_row, size, score, first_row + d)
        if not few and not has_base and (size < k or heap_score[0] <= wrong):
            # A document with a sum of exactly zero may have a word, and may be among the best.
            for i in range(union.size):
                for a in range(np.int64(starts[union[i]]), np.int64(starts[union[i] + 1])):
                    d = np.int64(docs[a])
                    if sums[d] == 0.0:
                        sums[d] = 1.0  # offered once
                        score, _ = score_row(d, rows, words)
                        size = offer(heap_score, heap_row, size, score, first_row + d)
        if few:
            for i in range(dead.size):
                sums[dead[i]] = 0.0
        else:
            sums[:] = 0.0
        return size, n_near

    n_near = 0
    need = (threshold - rest[done] - wrong) * per_unit
    for first in range(0, n_docs, TOGETHER):
        if not some_reach(sums, first, need):
            continue
        for d in range(first, min(first + TOGETHER, n_docs)):
            if sums[d] < need or sums[d] == -np.inf:
                continue
            score, matched = score_row(d, rows, words)
            if has_base:
                score += base[d]
                if score >= threshold - wrong:
                    found_row[n_near], found_score[n_near] = d, score
                    n_near += 1
            elif not matched:
                continue
            size = offer(heap_score, heap_row, size, score, first_row + d)
            if size == k and heap_score[0] > threshold:
                threshold = heap_score[0]
                need = (threshold - rest[done] - wrong) * per_unit
    sums[:] = 0.0
    return size, n_near


@helper
def _offer_all(rows, words, base, sums, first_row, heap, size, candidates):
    """Offer every document whose sum is not -inf, for queries beyond the range of the sums' numbers."""
    n = 0
    for d in range(sums.size):
        if sums[d] == -np.inf:
            continue
        score, matched = score_row(d, rows, words)
        if base.size > 0:
            score += base[d]
        elif not matched:
            continue
        candidates.rows[n], candidates.scores[n] = d, score
        n += 1
        size = offer(heap.score, heap.row, size, score, first_row + d)
    sums[:] = 0.0
    return size, n


@helper
def _highest(sums, step):
    highest = np.float32(0.0)
    for d in range(0, sums.size, step):
        highest = max(highest, sums[d])
    return highest


@helper
def _near(sums, has_base, threshold, wrong, best, candidates):
    """List the documents with the best sums, down to the best less the rounding error.

    Sums of exactly zero are left out without a base; ``best`` is scratch of length k.
    """
    size, n = NONE, NONE
    for first in range(0, sums.size, TOGETHER):
        if not some_reach(sums, first, threshold - wrong):
            continue
        for d in range(first, min(first + TOGETHER, sums.size)):
            total = sums[d]
            if total < threshold - wrong or total == -np.inf or (total == 0.0 and not has_base):
                continue
            candidates.rows[n], candidates.scores[n] = d, total
            n += 1
            size = offer(best.score, best.row, size, np.float64(total), d)
            if size == best.score.size and best.score[0] > threshold:
                threshold = best.score[0]
    return kept(candidates, n, threshold - wrong)


@helper
def _near_touched(postings, union, sums, threshold, wrong, best, candidates):
    """List like `_near` if few documents have a word: reads only these, and resets their sums to zero."""
    starts, docs, _ = postings
    size, n = NONE, NONE
    for i in range(union.size):
        for a in range(np.int64(starts[union[i]]), np.int64(starts[union[i] + 1])):
            d = np.int64(docs[a])
            total = sums[d]
            if total == -np.inf or total < threshold - wrong:
                continue
            sums[d] = -np.inf  # listed once
            candidates.rows[n], candidates.scores[n] = d, total
            n += 1
            size = offer(best.score, best.row, size, np.float64(total), d)
            if size == best.score.size and best.score[0] > threshold:
                threshold = best.score[0]
    for i in range(union.size):
        for a in range(np.int64(starts[union[i]]), np.int64(starts[union[i] + 1])):
            sums[docs[a]] = 0.0
    return kept(candidates, n, threshold - wrong)
