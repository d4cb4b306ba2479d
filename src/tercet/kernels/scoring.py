"""Expanding queries by a sparse W."""

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
            value = float(q_data[a])
            term = q_indices[a]
            for k in range(w_indptr[term], w_indptr[term + 1]):
                row[w_indices[k]] += value * w_data[k]
