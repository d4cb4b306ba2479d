"""Rows of texts for several vectorisers that tokenise alike."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import sparse

from tercet.text import Vectoriser


def rows_of_texts(
    vectorisers: Sequence[Vectoriser], docs: Sequence[str], queries: Sequence[str], taught: Sequence[str] = ()
) -> list[tuple[sparse.csr_array, sparse.csr_array]]:
    """Q and D of texts without fields; a fitted vectoriser keeps its words."""
    first, *others = vectorisers
    counts = first.counts(docs) if hasattr(first, "words_") else first.fit_counts(docs, taught)
    asked = counts if queries is docs else first.counts(queries)
    for words in others:
        words.adopt(first, counts)
    return [(words.query_rows(asked), words.doc_rows(counts)) for words in vectorisers]
