"""Scoring with a sparse W. Matrices are tuples as in ``rows.py``, Q and D in double precision."""

from tercet.kernels.compiler import kernel


@kernel
def expand_rows(Q, W, expanded):
    """Add ``q'W`` of each query to its row of ``expanded`` (n_q, n_doc_terms), in double precision.

    A query of eighty words and a W with a tenth of its entries touches most columns, so the result is dense.
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
def score_pairs(Q, D, W, scratch, scores):
    """``q'Wd`` of row i of Q with row i of D, in double precision; ``scratch`` (n_doc_terms,) is zero and stays so."""
    q_indptr, q_indices, q_data = Q
    d_indptr, d_indices, d_data = D
    w_indptr, w_indices, w_data = W
    for i in range(scores.size):
        for b in range(d_indptr[i], d_indptr[i + 1]):
            scratch[d_indices[b]] = d_data[b]
        total = 0.0
        for a in range(q_indptr[i], q_indptr[i + 1]):
            part = 0.0
            term = q_indices[a]
            for k in range(w_indptr[term], w_indptr[term + 1]):
                part += w_data[k] * scratch[w_indices[k]]
            total += q_data[a] * part
        scores[i] = total
        for b in range(d_indptr[i], d_indptr[i + 1]):
            scratch[d_indices[b]] = 0.0
