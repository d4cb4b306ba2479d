"""Features of a query and a document beside W: ``q'Wd + w · phi(q, d)``, and FTRL steps on w over preferences."""

from __future__ import annotations

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.ftrl import ftrl_step


@kernel
def feature_differences(Q, D, columns, chunk, words, differences):
    """Write ``phi(q, better) - phi(q, worse)`` of each preference to ``differences`` (n, n_features).

    ``columns`` are (n_words, n_fields, n_numbers). A document has words, the words of each field, then numbers; a query
    has words, and in the last column the factor of numbers. A field's feature is the inner product of the query with
    the field. ``words`` float32 (n_words,) is all zeros before and after.
    """
    n_words, n_fields, n_numbers = columns
    first_number = n_words * (1 + n_fields)
    for s in range(chunk.query.size):
        differences[s] = 0.0
        lo, hi = Q.indptr[chunk.query[s]], Q.indptr[chunk.query[s] + 1]
        factor = 0.0
        for a in range(lo, hi):
            if Q.indices[a] < n_words:
                words[Q.indices[a]] = Q.data[a]
            elif Q.indices[a] == first_number + n_numbers:
                factor = np.float64(Q.data[a])
        for doc, sign in ((chunk.better[s], 1.0), (chunk.worse[s], -1.0)):
            a, start = D.indptr[doc + 1] - 1, D.indptr[doc]
            while a >= start and D.indices[a] >= n_words:  # from the right, to skip the words of the text
                column, value = np.int64(D.indices[a]), sign * np.float64(D.data[a])
                if column >= first_number + n_numbers:
                    pass  # the column of queries has no counterpart in documents
                elif column >= first_number:
                    differences[s, n_fields + column - first_number] += factor * value
                else:
                    differences[s, column // n_words - 1] += np.float64(words[column % n_words]) * value
                a -= 1
        for a in range(lo, hi):
            if Q.indices[a] < n_words:
                words[Q.indices[a]] = 0


@kernel
def ftrl_preferences(differences, margins, targets, weights, prior, rules, sums, step):
    """Take a step on ``w = prior + sums.w`` for each preference below its target; return the largest |z|.

    ``differences`` (n, d) are differences of features, ``margins`` (n,) the margins by W, ``weights`` (n,) the weights
    of the preferences. ``step`` is the number of earlier preferences.
    """
    n, d = differences.shape
    largest = 0.0
    for s in range(n):
        margin = margins[s]
        for f in range(d):
            margin += differences[s, f] * (prior[f] + sums.w[f])
        if not margin >= targets[s]:  # NaN stays NaN
            for f in range(d):
                slope = -weights[s] * differences[s, f]
                if slope != 0.0:
                    ftrl_step(f, slope, step + s + 1, rules, sums)
                    largest = max(largest, abs(sums.z[f]))
    return largest
