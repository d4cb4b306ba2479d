"""Between our weights and those of an engine that has its own idea of how rare a word is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tercet.fitting.text_model import TextModel
from tercet.text import Vectorizer


def weight_in_query(words: Vectorizer) -> NDArray[np.float64]:
    """What one occurrence of each word weighs in a query, before the query is scaled to unit length."""
    return words.idf_**words.idf_power if words.weighting == "bm25" else words.idf_


def rarity_left_to_engine(words: Vectorizer) -> NDArray[np.float64]:
    """For each document word, our weight of an occurrence over that of an engine with BM25.

    BM25 shares idf out between query and document, so a document has ``idf^(1 - p)`` where the engine has ``idf``. A
    tf-idf document has all of it.
    """
    return words.idf_**-words.idf_power if words.weighting == "bm25" else np.ones(len(words.words_))


def own_weight(model: TextModel) -> float:
    """What a word that nothing was learned about counts for itself: the identity, or 1 where there is none."""
    identity = model.weights.identity
    return identity if identity > 0 else 1.0
