"""Scoring with any W. Matrices are tuples as in ``rows.py``, but Q and D in double precision.

`score_docs` and `score_postings` add the same products in the same order, by ascending word: both give the same bits,
whatever the other queries of the call; equal documents have equal scores.
"""

import numpy as np

from tercet.kernels.compiler import helper, kernel, kernel_in_order


@kernel
def expand_sparse(Q, W, expanded):
    """Add ``q'W`` of each query to its row of ``expanded`` (n_q, n_doc_terms), in double precision.

    A query of eighty words and a W with a tenth of its entries touches most columns, so the result is dense. Unsigned
    columns of W save the test for a negative index, a third of the time.
    """
    q_indptr, q_indices, q_data = Q
    w_indptr, w_indices, w_data = W
    for i in range(q_indptr.size - 1):
        row = expanded[i]
        for a in range(q_indptr[i], q_indptr[i + 1]):
            value = q_data[a]
            term = q_indices[a]
            for k in range(w_indptr[term], w_indptr[term + 1]):
                row[w_indices[k]] += value * w_data[k]


@kernel
def expand_dense(Q, W, width, expanded):
    """Expand like `expand_sparse` for W (n_query_terms, n_doc_terms), ``width`` columns at a time.

    Rows of W of this width stay in the cache from query to query.
    """
    q_indptr, q_indices, q_data = Q
    for left in range(0, W.shape[1], width):
        right = min(left + width, W.shape[1])
        for i in range(q_indptr.size - 1):
            row = expanded[i, left:right]
            for a in range(q_indptr[i], q_indptr[i + 1]):
                value = q_data[a]
                weights = W[q_indices[a], left:right]
                for j in range(row.size):
                    row[j] += value * weights[j]


@kernel_in_order
def score_docs(D, words, sums, scores):
    """Score all documents for a few expanded queries side by side.

    words  (n_doc_terms, n_lanes)  the expanded queries, a query in a lane; lanes beyond the last query are spare
    sums   (n_together, n_lanes)   scratch: the documents whose scores are written out together
    scores (n_q, n_docs)           filled in, n_q <= n_lanes

    Each word of a document is read for all lanes at once: n_lanes multiply-adds for one lookup.
    """
    indptr, indices, data = D
    n_together, n_lanes = sums.shape
    n_docs = indptr.size - 1
    for first in range(0, n_docs, n_together):
        last = min(first + n_together, n_docs)
        for d in range(first, last):
            total = sums[d - first]
            total[:] = 0.0
            a, stop = indptr[d], indptr[d + 1]
            while a + 4 <= stop:  # four words per load and store of the sums
                v0, v1, v2, v3 = data[a], data[a + 1], data[a + 2], data[a + 3]
                w0, w1, w2, w3 = words[indices[a]], words[indices[a + 1]], words[indices[a + 2]], words[indices[a + 3]]
                for lane in range(n_lanes):
                    total[lane] = (((total[lane] + v0 * w0[lane]) + v1 * w1[lane]) + v2 * w2[lane]) + v3 * w3[lane]
                a += 4
            while a < stop:
                value, word = data[a], words[indices[a]]
                for lane in range(n_lanes):
                    total[lane] += value * word[lane]
                a += 1
        for i in range(scores.shape[0]):
            for d in range(first, last):
                scores[i, d] = sums[d - first, i]


@kernel_in_order
def score_postings(expanded, docs_by_word, scores):
    """Score (n_q, n_docs) thinly expanded queries; reads only documents with a word of the query.

    docs_by_word is D by columns: for each word its documents and its weight in each.
    """
    e_indptr, e_indices, e_data = expanded
    p_indptr, p_indices, p_data = docs_by_word
    for i in range(e_indptr.size - 1):
        row = scores[i]
        row[:] = 0.0
        for a in range(e_indptr[i], e_indptr[i + 1]):
            value = e_data[a]
            word = e_indices[a]
            for k in range(p_indptr[word], p_indptr[word + 1]):
                row[p_indices[k]] += value * p_data[k]


@kernel
def score_pairs_sparse(Q, D, W, scratch, scores):
    """Score row i of Q with row i of D by ``q'Wd``, in double precision; ``scratch`` (n_doc_terms,) is zero before and
    after.

    In long rows of W most entries are skipped.
    """
    q_indptr, q_indices, q_data = Q
    d_indptr, d_indices, d_data = D
    w_indptr, w_indices, w_data = W
    for i in range(scores.size):
        d_start, d_stop = d_indptr[i], d_indptr[i + 1]
        for b in range(d_start, d_stop):
            scratch[d_indices[b]] = d_data[b]
        total = 0.0
        for a in range(q_indptr[i], q_indptr[i + 1]):
            part = 0.0
            k, stop = w_indptr[q_indices[a]], w_indptr[q_indices[a] + 1]
            if stop - k <= 2 * (d_stop - d_start):
                for entry in range(k, stop):
                    part += w_data[entry] * scratch[w_indices[entry]]
            else:
                for b in range(d_start, d_stop):
                    word = d_indices[b]
                    while k + 8 < stop and w_indices[k + 8] <= word:
                        k += 8
                    while k < stop and w_indices[k] < word:
                        k += 1
                    if k == stop:
                        break
                    if w_indices[k] == word:
                        part += w_data[k] * d_data[b]
            total += q_data[a] * part
        scores[i] = total
        for b in range(d_start, d_stop):
            scratch[d_indices[b]] = 0.0


@kernel
def score_pairs_dense(Q, D, W, scores):
    """Score like `score_pairs_sparse` for W (n_query_terms, n_doc_terms); reads only the pairs of the texts."""
    q_indptr, q_indices, q_data = Q
    d_indptr, d_indices, d_data = D
    for i in range(scores.size):
        total = 0.0
        for a in range(q_indptr[i], q_indptr[i + 1]):
            weights = W[q_indices[a]]
            part = 0.0
            for b in range(d_indptr[i], d_indptr[i + 1]):
                part += weights[d_indices[b]] * d_data[b]
            total += q_data[a] * part
        scores[i] = total


@kernel
def expand_hashed(Q, table, width, expanded):
    """Like `expand_dense` for W[s, t] = table[(start of s + t) mod H]: a row of W is a contiguous part of the table.

    Q has the start of each of its words, 0 <= start < H, in place of the word.
    """
    q_indptr, q_starts, q_data = Q
    for left in range(0, expanded.shape[1], width):
        right = min(left + width, expanded.shape[1])
        for i in range(q_indptr.size - 1):
            for a in range(q_indptr[i], q_indptr[i + 1]):
                value = q_data[a]
                bucket = (q_starts[a] + left) % table.size
                j = left
                while j < right:
                    n = min(right - j, table.size - bucket)
                    row, weights = expanded[i, j : j + n], table[bucket : bucket + n]
                    for k in range(n):
                        row[k] += value * weights[k]
                    j += n
                    bucket = 0


@helper
def largest(positions):
    """Return the largest position in a table, 0 for none. Unsigned indices need no test for a negative index."""
    most = np.uint64(0)
    for j in range(positions.size):
        most = max(most, np.uint64(positions[j]))
    return most


@kernel
def expand_hashed_at(Q, table, columns, expanded):
    """Like `expand_hashed` for some columns only, given modulo H; adds the same products in the same order."""
    q_indptr, q_starts, q_data = Q
    size, last = np.uint64(table.size), largest(columns)
    for i in range(q_indptr.size - 1):
        row = expanded[i]
        for a in range(q_indptr[i], q_indptr[i + 1]):
            value, start = q_data[a], np.uint64(q_starts[a])
            if start + last < size:  # the usual case: the table is longer than a row
                for j in range(columns.size):
                    row[j] += value * table[start + np.uint64(columns[j])]
            else:
                for j in range(columns.size):
                    bucket = start + np.uint64(columns[j])
                    row[j] += value * table[bucket - size if bucket >= size else bucket]


@kernel
def score_pairs_hashed(Q, D, table, scores):
    """Like `score_pairs_dense` for a hashed W; Q has starts as in `expand_hashed`, D has its words modulo H."""
    q_indptr, q_starts, q_data = Q
    d_indptr, d_offsets, d_data = D
    size = np.uint64(table.size)
    for i in range(scores.size):
        total = 0.0
        words = slice(d_indptr[i], d_indptr[i + 1])
        offsets, values = d_offsets[words], d_data[words]
        last_offset = largest(offsets)
        for a in range(q_indptr[i], q_indptr[i + 1]):
            start = np.uint64(q_starts[a])
            part = 0.0
            if start + last_offset < size:
                for b in range(offsets.size):
                    part += table[start + np.uint64(offsets[b])] * values[b]
            else:
                for b in range(offsets.size):
                    bucket = start + np.uint64(offsets[b])
                    part += table[bucket - size if bucket >= size else bucket] * values[b]
            total += q_data[a] * part
        scores[i] = total


@kernel
def score_listed(A, B, row_a, row_b, scratch, scores):
    """Return the inner product of row ``row_a[i]`` of A with row ``row_b[i]`` of B.

    ``scratch`` (n_terms,) is zero before and after. A row of A is written out once for all consecutive pairs of the
    row.
    """
    a_indptr, a_indices, a_data = A
    b_indptr, b_indices, b_data = B
    for i in range(scores.size):
        a = row_a[i]
        if i == 0 or a != row_a[i - 1]:
            for k in range(a_indptr[a], a_indptr[a + 1]):
                scratch[a_indices[k]] = a_data[k]
        total = 0.0
        for k in range(b_indptr[row_b[i]], b_indptr[row_b[i] + 1]):
            total += scratch[b_indices[k]] * b_data[k]
        scores[i] = total
        if i + 1 == scores.size or a != row_a[i + 1]:
            for k in range(a_indptr[a], a_indptr[a + 1]):
                scratch[a_indices[k]] = 0.0
