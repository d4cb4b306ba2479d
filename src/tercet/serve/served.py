"""One whole version of what is served: documents, model, what was taught on top, and the list for comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from scipy import sparse

from tercet.data.values import timestamp
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.memory import Memory
from tercet.search import BaseIndex, in_numpy
from tercet.search.folder import model_fingerprint
from tercet.weights import Identity, Sparse, Weights
from tercet.weights.value import unit_of

_LABEL_CHARS: Final = 12


class Baseline:
    """The list that a learned one is compared with: the same vectors, each word matching itself alone.

    A word counts as much as the identity of the model counts it, or as its usual weight on itself where there is none,
    so that both lists have one scale. Where queries and documents have vocabularies of their own no word matches
    itself; the baseline is then the model as it was fitted.
    """

    def __init__(self, base: BaseIndex) -> None:
        model = text_model(base)
        n, m = model.weights.shape
        self.name, self.index = "base model", base
        if n == m:
            self.name = {"bm25": "BM25", "tfidf": "tf-idf"}[model.query_vectorizer.weighting]
            scale = sum(part.scale for part in model.weights.parts if isinstance(part, Identity))
            identity = Identity(n_terms=n, scale=scale if scale > 0 else unit_of(model.weights))
            self.index = base.with_model(replace(model, weights=Weights([identity]), memory=None, confidence=None))

    def differs(self, index: BaseIndex) -> bool:
        """Return True where an index has learned anything: BM25 beside BM25 is no comparison."""
        model = text_model(index)
        has_learned = model.memory is not None or any(not isinstance(part, Identity) for part in model.weights.parts)
        return self.index is not index and has_learned


@dataclass(frozen=True, eq=False)
class Served:
    """A version; none of its parts ever changes.

    Attributes
    ----------
    base : documents and model as they are on disk
    index : the same with the overlay of taught actions as the last part of the weights
    baseline : the list for comparison
    compared : whether the index differs from the baseline
    revision : number of the last change of the store that the overlay has
    n_pairs : number of learned pairs of words
    index_label, model_label : names of documents and model in answers, health and metrics
    loaded : when base was opened, in UTC
    """

    base: BaseIndex
    index: BaseIndex
    baseline: Baseline
    compared: bool
    revision: int
    n_pairs: int
    index_label: str
    model_label: str
    loaded: str

    @classmethod
    def of(cls, base: BaseIndex) -> Self:
        """Return a version without an overlay, after a search that loads the kernels."""
        baseline, label = Baseline(base), base.digest[:_LABEL_CHARS] or "memory"
        model = model_fingerprint(base.given_model)[:_LABEL_CHARS]
        made = cls(base, base, baseline, baseline.differs(base), 0, 0, label, model, timestamp())
        made._warm_up()
        return made

    def with_overlay(self, overlay: sparse.csr_array, memory: Memory | None, revision: int) -> Self:
        """Return the version that has the overlay and the memory in the place of this one's."""
        model, index = text_model(self.base), self.base
        if overlay.nnz or memory is not model.memory:
            weights = model.weights + Weights([Sparse(weights=overlay)]) if overlay.nnz else model.weights
            index = self.base.with_model(replace(model, weights=weights, memory=memory))
        compared = self.baseline.differs(index)
        return replace(self, index=index, compared=compared, revision=revision, n_pairs=int(overlay.nnz))

    @property
    def version(self) -> str:
        """Name of the version: v12 has all changes up to the 12th."""
        return f"v{self.revision}"

    @property
    def model(self) -> TextModel:
        return text_model(self.index)

    def _warm_up(self) -> None:
        n_words = self.model.weights.shape[0]
        if n_words == 0:
            return  # nothing can be found
        in_numpy.budget.left = 0  # kernels are loaded now, and not within a later request
        # A row instead of a text: a word as the model spells it may be stemmed to one that the model lacks.
        one_word = sparse.csr_array((np.ones(1, np.float32), [0], [0, 1]), shape=(1, n_words))
        for index in (self.index, self.baseline.index):
            index.search_row(one_word, 1)
            index.search_row(one_word, 1, max_terms=1)


def text_model(index: BaseIndex) -> TextModel:
    """Return the model of an index, which must know words."""
    if not isinstance(index.model, TextModel):
        raise InputError("the index has weights without words, and the service takes texts; index with a text model")
    return index.model
