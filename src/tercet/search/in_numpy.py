"""Search in NumPy: few and short queries are done before Numba and its kernels would be loaded.

Kernels add up a document's products in ascending order of terms, one part of W after the other, and round each product
and each sum. These functions add in the same order, for all documents of a term at once: scores have the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.postings import SegmentArrays
from tercet.kernels.rows import CsrRows

Words = list[list[tuple[int, float]]]  # for each part of W, ascending terms with nonzero weights
LOADING = 100_000_000  # postings and documents that NumPy processes in the time of loading Numba and the kernels
_A_ROW = 6000  # cost of scoring a row, in postings


class Budget:
    """Remaining number of postings and documents to search in NumPy, before kernels repay loading."""

    def __init__(self, left: int) -> None:
        self.left = left

    def covers(self, n: int) -> bool:
        """Spend the cost of a search; False once the budget is used up."""
        self.left -= n
        return self.left > 0


budget = Budget(LOADING)  # of the process


def search_words(segment: SegmentArrays, query: Words) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return each document's sum over the words of a lone query, and a mask of documents with a word."""
    starts, docs, values = segment.postings
    n_docs = len(segment.rows.indptr) - 1
    totals = np.zeros(n_docs)
    # A weight of this size keeps every positive float32 positive in a product.
    has_word = None
    if len(query) != 1 or not all(weight > 2.0**-800 and segment.bounds[term, 1] == 0 for term, weight in query[0]):
        has_word = np.zeros(n_docs, dtype=bool)
    n_postings = 0
    for part, words in enumerate(query):
        sums = np.zeros(n_docs) if part else totals
        for term, weight in words:
            postings = slice(int(starts[term]), int(starts[term + 1]))
            listed = docs[postings]
            n_postings += len(listed)
            sums[listed] += np.multiply(values[postings], weight, dtype=np.float64)
            if has_word is not None:
                has_word[listed] = True
        if part:
            totals += sums
    budget.left -= n_postings
    return totals, totals > 0.0 if has_word is None else has_word


def score_rows(rows: CsrRows, listed: NDArray[np.integer[Any]], query: Words) -> NDArray[np.float64]:
    """The kernel `score_rows_of` for a lone query."""
    parts = [
        (np.array([term for term, _ in words], np.int32), np.array([weight for _, weight in words])) for words in query
    ]
    scores = np.zeros(len(listed))
    for i, row in enumerate(listed.tolist()):
        entries = slice(int(rows.indptr[row]), int(rows.indptr[row + 1]))
        terms, values = rows.indices[entries], rows.data[entries].astype(np.float64)
        for part, (own_terms, weights) in enumerate(parts):
            if not weights.size:
                continue
            at = np.searchsorted(own_terms, terms).clip(max=weights.size - 1)
            common = own_terms[at] == terms
            total = _sum_in_order(weights[at[common]] * values[common])
            scores[i] = scores[i] + total if part else total
    return scores


def score_latent(
    rows: CsrRows, factors: NDArray[np.float32], query: NDArray[np.float64], typical_length: float
) -> NDArray[np.float64]:
    """The kernel of this name."""
    scores = np.zeros(len(rows.indptr) - 1)
    for i, (start, stop) in enumerate(zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)):
        if start == stop:
            continue
        products = rows.data[start:stop, None].astype(np.float64) * factors[rows.indices[start:stop]]
        latent = np.add.accumulate(products, axis=0)[-1]
        score = _sum_in_order(latent * query)
        if typical_length >= 0.0:
            squared = _sum_in_order(latent * latent)
            score = score * (typical_length / np.sqrt(squared)) if squared > 0.0 else 0.0
        scores[i] = score
    return scores


def covers_rows(n: int) -> bool:
    """Spend the cost of scoring n rows; see `Budget.covers`."""
    return budget.covers(_A_ROW * n)


def _sum_in_order(products: NDArray[np.float64]) -> float:
    return float(np.add.accumulate(products)[-1]) if products.size else 0.0
