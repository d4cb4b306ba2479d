"""Ranks of chosen documents in a ranking, without a sort of the whole ranking."""

from __future__ import annotations

import numpy as np

from tercet.kernels.compiler import helper, kernel


@helper
def count_greater(sorted_scores, value):
    """Return the number of `sorted_scores` (falling, not empty) above `value`, without unpredictable branches."""
    first = 0
    left = sorted_scores.shape[0]
    while left > 1:
        half = left // 2
        first += half if sorted_scores[first + half - 1] > value else 0
        left -= half
    return first + (1 if sorted_scores[first] > value else 0)


@helper
def count_before(sorted_scores, sorted_columns, first, value, column):
    """Like `count_greater`, from `first` on, and an equal score counts as before when its column is lower."""
    last = sorted_scores.shape[0]
    while first < last:
        middle = (first + last) // 2
        score = sorted_scores[middle]
        if score > value or (score == value and sorted_columns[middle] < column):
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def rank_chosen(scores, row_starts, starts, columns, chosen, rank, at_least):
    """Rank the chosen documents of every query; equal scores rank in column order.

    scores     (n_scores,)     the rows of scores, consecutive, without NaN
    row_starts (n_q + 1,)      start of each query's scores
    starts     (n_q + 1,)      start of each query's chosen documents
    columns    (n_chosen,)     their columns within the row, best first per query, of equal scores ascending
    chosen     (n_chosen,)     the same columns, ascending per query
    Filled in, per query and best first:
    rank       (n_chosen,)     number of documents before the chosen document
    at_least   (n_chosen,)     number of documents, itself included, with at least its score
    """
    for q in range(starts.shape[0] - 1):
        start, stop = starts[q], starts[q + 1]
        n_chosen = stop - start
        if n_chosen == 0:
            continue
        row = scores[row_starts[q] : row_starts[q + 1]]
        sorted_columns = columns[start:stop]
        sorted_scores = row[sorted_columns]
        lowest = sorted_scores[n_chosen - 1]
        between = np.zeros(n_chosen + 1, np.int64)  # other documents with i chosen documents before them
        not_below = np.zeros(n_chosen + 1, np.int64)  # other documents with i chosen documents of greater score
        upcoming = 0
        for column in range(row.shape[0]):
            if upcoming < n_chosen and chosen[start + upcoming] == column:
                upcoming += 1
                continue
            value = row[column]
            if value < lowest:
                continue
            greater = count_greater(sorted_scores, value)
            before = greater
            if greater < n_chosen and sorted_scores[greater] == value:
                before = count_before(sorted_scores, sorted_columns, greater, value, column)
            between[before] += 1
            not_below[greater] += 1
        others = 0
        others_not_below = 0
        tie_end = 0
        for i in range(n_chosen):
            others += between[i]
            others_not_below += not_below[i]
            while tie_end < n_chosen and sorted_scores[tie_end] == sorted_scores[i]:
                tie_end += 1
            rank[start + i] = i + others
            at_least[start + i] = tie_end + others_not_below
