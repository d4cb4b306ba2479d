"""Normalised discounted cumulated gain of the documents of a query, and pairs weighted by their change in it.

A document of grade g at rank r (from 1) adds (2^g - 1) / log2(1 + r), over what the documents add in their best order.
"""

import numpy as np

from tercet.kernels.compiler import helper


@helper
def gains_of(grades):
    """2^g - 1 over 2^(highest grade): NDCG is the same by any scale, and this one never overflows."""
    highest = grades.max()
    gains = np.empty(grades.size)
    for i in range(grades.size):
        gains[i] = 2.0 ** float(grades[i] - highest) - 2.0 ** float(-highest)
    return gains


@helper
def best_gain(gains):
    """Return the gain of the documents in their best order."""
    ordered = np.sort(gains)
    total = 0.0
    for rank in range(gains.size):
        total += ordered[gains.size - 1 - rank] / np.log2(2.0 + rank)
    return total


@helper
def shared_discounts(keys, grades):
    """1 / log2(1 + rank) of each document by falling key; of equal keys the lower grade stands first.

    Documents of equal key and grade share the mean of theirs, so the order of the rows does not matter.
    """
    n = keys.size
    by_grade = np.argsort(grades, kind="mergesort")
    order = by_grade[np.argsort(-keys[by_grade], kind="mergesort")]
    discounts = np.empty(n)
    first = 0
    while first < n:
        end, total = first, 0.0
        while end == first or (
            end < n and keys[order[end]] == keys[order[first]] and grades[order[end]] == grades[order[first]]
        ):  # at least one, which NaN is not equal to
            total += 1.0 / np.log2(2.0 + end)
            end += 1
        for k in range(first, end):
            discounts[order[k]] = total / (end - first)
        first = end
    return discounts


@helper
def ndcg_pair_slopes(scores, grades, margin, is_squared, is_ideal, slopes):
    """The loss of all pairs of one query, each times the change in NDCG were the two to change places; O(n²).

    grades (n,) int32 from 0 up, two different ones among them. Places are those in the order of the scores, or with
    ``is_ideal`` in the best order, and count as constants in the derivative that is put in ``slopes`` (n,).
    """
    n = scores.size
    gains = gains_of(grades)
    best = best_gain(gains)
    discounts = shared_discounts(grades.astype(np.float64) if is_ideal else scores, grades)
    slopes[:] = 0.0
    loss = 0.0
    for better in range(n):
        for worse in range(n):
            if grades[worse] < grades[better]:
                violation = margin - scores[better] + scores[worse]
                if not violation <= 0.0:  # NaN stays NaN
                    weight = (gains[better] - gains[worse]) * abs(discounts[better] - discounts[worse]) / best
                    slope = weight * (2.0 * violation if is_squared else 1.0)
                    loss += weight * (violation * violation if is_squared else violation)
                    slopes[better] -= slope
                    slopes[worse] += slope
    return loss
