"""What engines add up, from their equations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import tercet as tc


def counts_of(words: tc.Vectorizer, texts: list[str]) -> tuple[NDArray, NDArray]:
    """How often each document has each word, and how many words it has."""
    cut = [(words.analyzer or tc.Analyzer())(text) for text in texts]
    counts = np.array([[line.count(word) for word in words.words_] for line in cut], dtype=float)
    return counts, np.array([len(line) for line in cut], dtype=float)


def lucene_bm25(words: tc.Vectorizer, texts: list[str]) -> NDArray:
    """Lucene's BM25 of each word in each document (n_docs, n_words): idf tf / (tf + k1 (1 - b + b length / mean))."""
    counts, lengths = counts_of(words, texts)
    df = (counts > 0).sum(axis=0)
    idf = np.log1p((len(texts) - df + 0.5) / (df + 0.5))
    held_back = words.k1 * (1 - words.b + words.b * lengths / lengths.mean())
    return idf * counts / (counts + held_back[:, None])
