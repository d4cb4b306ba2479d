"""The best k of each row of scores, and of a stream of entries."""

import numpy as np

from tercet.kernels.compiler import helper, kernel


@helper
def _comes_after(score_a, row_a, score_b, row_b):
    """True when a ranks below b: a lower score, or the same score and a higher row."""
    return score_a < score_b or (score_a == score_b and row_a > row_b)


@helper
def _sift_down(heap_score, heap_row, size, score, row):
    """Put an entry at the root of a heap of a size and let the entry sink to its place."""
    slot = 0
    while True:
        child = 2 * slot + 1
        if child >= size:
            break
        right = child + 1
        if right < size and _comes_after(heap_score[right], heap_row[right], heap_score[child], heap_row[child]):
            child = right
        if not _comes_after(heap_score[child], heap_row[child], score, row):
            break
        heap_score[slot], heap_row[slot] = heap_score[child], heap_row[child]
        slot = child
    heap_score[slot], heap_row[slot] = score, np.int32(row)


@helper
def _sift_up(heap_score, heap_row, size, score, row):
    """Append an entry to a heap of ``size`` entries, and move the entry up to its position."""
    slot = size
    while slot > 0:
        up = (slot - 1) // 2
        if not _comes_after(score, row, heap_score[up], heap_row[up]):
            break
        heap_score[slot], heap_row[slot] = heap_score[up], heap_row[up]
        slot = up
    heap_score[slot], heap_row[slot] = score, np.int32(row)


@helper
def offer(heap_score, heap_row, size, score, row):
    """Offer an entry to a heap of the best, at most the length of the arrays; return its new size.

    The root is the worst entry of the heap. Entries may come in any order of rows.
    """
    if size < heap_score.size:
        _sift_up(heap_score, heap_row, size, score, row)
        return size + 1
    if _comes_after(heap_score[0], heap_row[0], score, row):
        _sift_down(heap_score, heap_row, size, score, row)
    return size


@kernel
def sort_heap(heap_score, heap_row, size):
    """Turn a heap into a list, best first: the worst is taken off again and again, filling it from the end."""
    for last in range(size - 1, 0, -1):
        worst_score, worst_row = heap_score[0], heap_row[0]
        _sift_down(heap_score, heap_row, last, heap_score[last], heap_row[last])
        heap_score[last], heap_row[last] = worst_score, worst_row


@kernel
def top_k(scores, k, docs, best):
    """Fill ``docs`` (n, k) int32 and ``best`` (n, k) with each row's k largest scores, best first; ties by lower row.

    A heap whose root is the worst kept entry; O(m log k) a row, far less when most scores fall below the root.
    """
    for i in range(scores.shape[0]):
        heap_row, heap_score = docs[i], best[i]
        size = 0
        for d in range(scores.shape[1]):
            score = scores[i, d]
            if size < k:
                _sift_up(heap_score, heap_row, size, score, d)
                size += 1
            elif score > heap_score[0]:  # at equal scores the earlier row stays in the heap
                _sift_down(heap_score, heap_row, size, score, d)
        sort_heap(heap_score, heap_row, size)
