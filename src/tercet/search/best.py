"""The best documents of some queries, exactly, or by the words that can count most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tercet.search.results import Documents, Rows
from tercet.search.scorer import ExpandedQueries

_MORE = 10  # candidates that max_terms ranks again beyond twice those asked for

Best = tuple[Rows, NDArray[np.float64], float | None]


def best(view: Documents, queries: ExpandedQueries, k: int, max_terms: int | None) -> list[Best]:
    """Rows and exact scores of the best, and, where words were left out, by how much a missing one may be better."""
    if max_terms is None:
        return [(rows, scores, None) for rows, scores in view.search(queries, k)]
    return [_best_by_few(view, queries.one(i), k, max_terms) for i in range(len(queries))]


def _best_by_few(view: Documents, query: ExpandedQueries, k: int, max_terms: int) -> Best:
    entries = query.entries()
    largest = view.largest_values(query.terms[entries])
    counting = (query.weights[entries] != 0) & (largest != 0)  # others find nothing, whether they are kept or not
    entries, largest = entries[counting], largest[counting]
    if len(entries) <= max_terms:
        return *view.search(query, k)[0], None
    strength = np.abs(query.weights[entries]) * largest
    dropped = np.argsort(-strength, kind="stable")[max_terms:]
    asked = 2 * k + _MORE
    [(rows, _)] = view.search(query.without(entries[dropped]), asked)
    scores = view.rescore(query, rows)
    order = np.lexsort((rows, -scores))[:k]
    left_out = float(strength[dropped].sum())
    above = 0.0
    if rows.size == asked:
        above = 2 * left_out  # words that were left out may have raised one and lowered the other
    if not query.latent and rows.size < len(view):
        # A document without a kept word is no candidate, and may have as much as was left out.
        above = max(above, left_out - float(scores[order].min())) if rows.size else np.inf
    return rows[order], scores[order], above
