"""Losses over the documents of one query, and their derivatives by each document's score.

A pair is two documents of different grades, violated by ``margin - (score of better - score of worse)`` if positive
(Cheng et al. 2018, equation 2).
All pairs of n documents take O(n log n): in the order of the scores, the documents in violation with a given document
form a growing prefix, and trees over the grades hold their number and the sum of their scores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.compiler import array_helper, helper, kernel

SQUARED_HINGE = 2  # the square of the violation
LISTNET = 3  # cross entropy of the top-one probabilities
SMALL_TREE = 9  # up to 8 grades


class QueryDocs(NamedTuple):
    """Documents of all queries; documents of query q are ``starts[q] … starts[q + 1]``."""

    rows: NDArray[Any]  # int64 (n,), row numbers
    starts: NDArray[Any]  # int64 (n_queries + 1,)
    grades: NDArray[Any]  # int32 (n,), 0, 1, … by rising label
    labels: NDArray[Any]  # float64 (n,), as given
    n_grades: NDArray[Any]  # int64 (n_queries,)
    n_pairs: NDArray[Any]  # int64 (n_queries,)


@helper
def tree_add(tree, position, value):
    """Add ``value`` at ``position`` of a Fenwick tree (n + 1,); positions count from 0.

    A small tree holds the sums: a few additions cost less than a walk of unpredictable length.
    """
    if tree.size <= SMALL_TREE:
        for n in range(tree.size):
            tree[n] += value if n > position else 0.0
        return
    node = position + 1
    while node < tree.size:
        tree[node] += value
        node += node & -node


@helper
def tree_sum(tree, n):
    """The sum of the first n places."""
    if tree.size <= SMALL_TREE:
        return tree[n]
    total = 0.0
    while n > 0:
        total += tree[n]
        n -= n & -n
    return total


@array_helper
def in_score_order(scores, grades, margin):
    """Return documents from the lowest score up: their order, scores, scores less the margin, and grades.

    Scores are relative to the median, to keep the digits of sums of large scores.
    """
    n = scores.size
    order = np.argsort(scores)
    middle = scores[order[n // 2]]
    score, lowered, grade = np.empty(n), np.empty(n), np.empty(n, np.int64)
    for k in range(n):
        score[k] = scores[order[k]] - middle
        lowered[k] = score[k] - margin
        grade[k] = grades[order[k]]
    return order, score, lowered, grade


@array_helper
def slopes_within_margin(scores, lowest, grades, n_grades, margin, slopes):
    """Compute `hinge_slopes` for scores within a margin: every pair is violated, in any order."""
    n = scores.size
    # Number of documents of lower grades, and the sum of their scores.
    counts, sums = np.zeros(n_grades + 1), np.zeros(n_grades + 1)
    for i in range(n):
        counts[grades[i] + 1] += 1.0
        sums[grades[i] + 1] += scores[i] - lowest
    for g in range(1, n_grades + 1):
        counts[g] += counts[g - 1]
        sums[g] += sums[g - 1]
    loss = 0.0
    for i in range(n):
        score, grade = scores[i] - lowest, grades[i]
        n_lower, n_higher = counts[grade], counts[n_grades] - counts[grade + 1]
        # Sum of the document's violations as the better and as the worse document.
        as_better = sums[grade] - n_lower * (score - margin)
        as_worse = n_higher * (score + margin) - (sums[n_grades] - sums[grade + 1])
        slopes[i] = 2.0 * (as_worse - as_better)
        # v² = v (margin - s_better + s_worse)
        loss += margin * as_better + score * (as_worse - as_better)
    return max(loss, 0.0)


@kernel
def hinge_slopes(scores, grades, n_grades, margin, slopes):
    """Return the summed squared hinge of all pairs of one query; write its derivative by each score to ``slopes``.

    O(n log n). scores (n,) finite; grades (n,) int32 in 0 … n_grades - 1.
    """
    n = scores.size
    if n == 0:
        return 0.0
    lowest, highest = scores[0], scores[0]
    for i in range(n):
        lowest, highest = min(lowest, scores[i]), max(highest, scores[i])
    if highest - lowest < margin:
        return slopes_within_margin(scores, lowest, grades, n_grades, margin, slopes)
    order, score, lowered, grade = in_score_order(scores, grades, margin)
    counts, sums = np.zeros(n_grades + 1), np.zeros(n_grades + 1)
    violation = 0.0
    # As the better document: against documents of lower grades with scores above its score minus the margin.
    upcoming = n - 1
    for k in range(n - 1, -1, -1):
        while upcoming >= 0 and score[upcoming] > lowered[k]:
            tree_add(counts, grade[upcoming], 1.0)
            tree_add(sums, grade[upcoming], score[upcoming])
            upcoming -= 1
        number = tree_sum(counts, grade[k])
        violated = tree_sum(sums, grade[k]) - number * lowered[k]
        violation += violated
        slopes[order[k]] = -2.0 * violated
    # As the worse document: against higher grades, by the same comparison, so that both sides count the same pairs.
    counts[:] = 0.0
    sums[:] = 0.0
    upcoming = 0
    for k in range(n):
        while upcoming < n and score[k] > lowered[upcoming]:
            tree_add(counts, n_grades - 1 - grade[upcoming], 1.0)
            tree_add(sums, n_grades - 1 - grade[upcoming], lowered[upcoming])
            upcoming += 1
        higher = n_grades - 1 - grade[k]
        number = tree_sum(counts, higher)
        violated = number * score[k] - tree_sum(sums, higher)
        slopes[order[k]] += 2.0 * violated
    # v² = v (margin - s_better + s_worse); slopes hold the sums of v of both sides.
    loss = margin * violation
    for k in range(n):
        loss += 0.5 * score[k] * slopes[order[k]]
    return max(loss, 0.0)


@kernel
def pair_curvature(scores, direction, grades, n_grades, margin):
    """The second derivative of the summed squared hinge along ``direction`` (n,), a change of the scores."""
    n = scores.size
    if n == 0:
        return 0.0
    order, score, lowered, grade = in_score_order(scores, grades, margin)
    counts, sums, squares = np.zeros(n_grades + 1), np.zeros(n_grades + 1), np.zeros(n_grades + 1)
    total = 0.0
    upcoming = n - 1
    for k in range(n - 1, -1, -1):
        while upcoming >= 0 and score[upcoming] > lowered[k]:
            change = direction[order[upcoming]]
            tree_add(counts, grade[upcoming], 1.0)
            tree_add(sums, grade[upcoming], change)
            tree_add(squares, grade[upcoming], change * change)
            upcoming -= 1
        change = direction[order[k]]
        total += change * (change * tree_sum(counts, grade[k]) - 2.0 * tree_sum(sums, grade[k]))
        total += tree_sum(squares, grade[k])
    return max(2.0 * total, 0.0)


@kernel
def listnet_slopes(scores, labels, slopes):
    """ListNet's loss of one query: the cross entropy of softmax(labels) and softmax(scores), and its derivative."""
    # No loop both sums and writes: a loop with possibly overlapping arrays has a scalar and a vectorized version, and
    # the last bits would depend on the addresses of the arrays.
    n = scores.size
    highest, highest_label = scores.max(), labels.max()
    wanted = np.exp(labels - highest_label)
    wanted /= wanted.sum()
    exponentials = np.exp(scores - highest)
    total = exponentials.sum()
    loss = np.log(total) + highest
    for i in range(n):
        loss -= wanted[i] * scores[i]
    for i in range(n):
        slopes[i] = exponentials[i] / total - wanted[i]
    return loss


@kernel
def all_slopes(scores, queries, margin, slopes):
    """The squared hinge of all queries, summed, and its derivative by each score.

    scores, slopes (n_rows,) in the order of ``queries`` (`QueryDocs`)
    """
    starts, grades, n_grades = queries.starts, queries.grades, queries.n_grades
    total = 0.0
    for q in range(starts.size - 1):
        part = slice(starts[q], starts[q + 1])
        total += hinge_slopes(scores[part], grades[part], n_grades[q], margin, slopes[part])
    return total


@kernel
def all_curvature(scores, direction, queries, margin):
    """The second derivative of the summed squared hinge of all queries along a change of the scores."""
    starts, grades, n_grades = queries.starts, queries.grades, queries.n_grades
    total = 0.0
    for q in range(starts.size - 1):
        part = slice(starts[q], starts[q + 1])
        total += pair_curvature(scores[part], direction[part], grades[part], n_grades[q], margin)
    return total
