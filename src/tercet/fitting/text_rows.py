"""Rows of texts for several vectorisers that tokenise alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scipy import sparse

from tercet.text import Vectoriser
from tercet.text.counting import CountedTexts
from tercet.text.fielded import FieldedVectoriser, docs_for

Matrices = tuple[sparse.csr_array, sparse.csr_array]


def rows_of_records(
    vectorisers: Sequence[Vectoriser],
    docs: Mapping[str, str],
    queries: Sequence[str],
    taught: Sequence[str],
    counted: CountedTexts,
) -> list[Matrices]:
    """Q and D, with columns for words that only taught queries have; ``counted`` are the texts of the documents."""
    if any(isinstance(words, FieldedVectoriser) for words in vectorisers):
        rows = [words.fit_transform_docs(docs_for(words, docs), queries=taught) for words in vectorisers]
        return [(words.transform_queries(queries), D) for words, D in zip(vectorisers, rows, strict=True)]
    return rows_of_texts(vectorisers, counted, queries, taught)


def rows_of_texts(
    vectorisers: Sequence[Vectoriser], docs: Sequence[str], queries: Sequence[str], taught: Sequence[str] = ()
) -> list[Matrices]:
    """Q and D of texts without fields; a fitted vectoriser keeps its words."""
    first, *others = vectorisers
    counts = first.counts(docs) if hasattr(first, "words_") else first.fit_counts(docs, taught)
    asked = counts if queries is docs else first.counts(queries)
    for words in others:
        words.adopt(first, counts)
    return [(words.query_rows(asked), words.doc_rows(counts)) for words in vectorisers]
