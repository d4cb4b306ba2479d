"""GrowingVocabulary of an index's vocabulary by the words of new documents.

New words have columns behind the model's columns. Older segments have no entries in new columns, and older models give
a new word the weight of a word on itself. So neither documents nor models are rebuilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tercet._lazy import sparse
from tercet.fitting.text_model import TextModel
from tercet.search.folder import Committed, check_fits, does_not_fit
from tercet.search.scorer import Scorer
from tercet.text.counting import WordCounts
from tercet.text.vectorizer import AddedWords, Vectorizer
from tercet.weights import Weights


class GrowingVocabulary:
    """Tokenizes documents for an index and gives new words a column.

    Models with fields, word maps, two vocabularies or limits on words do not grow.

    Parameters
    ----------
    model : current model of the index
    counts : word counts of new documents by column, if counted already
    """

    def __init__(self, model: TextModel, counts: WordCounts | None = None) -> None:
        self._model, self._counts, self._n_counted = model, counts, 0
        self.vectorizer = model.doc_vectorizer
        self.grows = can_grow(model)

    def rows(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return document rows over all current words."""
        if self._counts is not None:
            start, self._n_counted = self._n_counted, self._n_counted + len(texts)
            return self.vectorizer.doc_rows(self._counts.part(start, self._n_counted))
        if not self.grows:
            return self._model.docs(texts)
        self.vectorizer, rows = self.vectorizer.grow(texts)
        return rows

    @property
    def model(self) -> TextModel:
        """Model over all current words."""
        if self._model.doc_vectorizer is not self.vectorizer:
            self._model = _grown(self._model, self.vectorizer)
        return self._model


def can_grow(model: TextModel) -> bool:
    """Return True if a model can take new words."""
    return model.query_vectorizer is model.doc_vectorizer and model.doc_vectorizer.can_grow


def fitted_to(model: TextModel | Weights, committed: Committed, where: str) -> TextModel | Weights:
    """Return a model grown by the new words of an index; refuse a model over another vocabulary."""
    check_fits(model, committed.vectorizer, where, fitted=True)
    if isinstance(model, Weights):
        return model
    vocabulary, added = model.doc_vectorizer.added, committed.added
    n = len(vocabulary.words)
    if vocabulary.words != added.words[:n] or not np.array_equal(vocabulary.frequency, added.frequency[:n]):
        raise does_not_fit(where)
    if n == len(added.words):
        return model
    more = AddedWords(added.words[n:], added.frequency[n:])
    return _grown(model, model.doc_vectorizer.with_added(more))


def scorer_of(model: TextModel | Weights) -> Scorer:
    """Return the scorer of a model, with the latent documents of the model before growth."""
    if isinstance(model, Weights):
        return Scorer(model)
    return Scorer(model.weights, model.doc_vectorizer.n_added_)


def added_words(model: TextModel | Weights) -> AddedWords:
    """Return the words added to a model after fitting."""
    return AddedWords([], np.empty(0, np.int64)) if isinstance(model, Weights) else model.doc_vectorizer.added


def _grown(model: TextModel, vectorizer: Vectorizer) -> TextModel:
    shared = model.query_vectorizer is model.doc_vectorizer
    n_more = len(vectorizer.words_) - len(model.doc_vectorizer.words_)
    weights = model.weights.grown(n_more if shared else 0, n_more)
    if not shared:
        return replace(model, doc_vectorizer=vectorizer, weights=weights)
    return replace(model, query_vectorizer=vectorizer, doc_vectorizer=vectorizer, weights=weights)
