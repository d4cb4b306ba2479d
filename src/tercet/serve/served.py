"""Served version: documents, model, overlay of taught actions, and baseline."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True, eq=False)
class Served:
    """Immutable version of the service.

    Attributes
    ----------
    base : documents and model on disk
    index : the base with the overlay of taught actions as the last part of the weights
    baseline : index for comparison, by identity weights on the scale of the model
    baseline_name : BM25, tf-idf, or base model
    compared : True if the index differs from the baseline
    revision : last change of the store in the overlay
    n_pairs : number of taught pairs of words
    index_label, model_label : names of documents and model in answers, health and metrics
    loaded : UTC time of opening the base
    """

    base: BaseIndex
    index: BaseIndex
    baseline: BaseIndex
    baseline_name: str
    compared: bool
    revision: int
    n_pairs: int
    index_label: str
    model_label: str
    loaded: str

    @classmethod
    def from_index(cls, base: BaseIndex) -> Self:
        """Return a version without an overlay, with the kernels loaded."""
        name, baseline = _baseline(base)
        label, model = base.digest[:_LABEL_CHARS] or "memory", model_fingerprint(base.given_model)[:_LABEL_CHARS]
        compared = _has_learned(base) and baseline is not base
        made = cls(base, base, baseline, name, compared, 0, 0, label, model, timestamp())
        made._warm_up()
        return made

    def with_overlay(self, overlay: sparse.csr_array, memory: Memory | None, revision: int) -> Self:
        """Return the version with this overlay and memory."""
        model, index = text_model(self.base), self.base
        if overlay.nnz or memory is not model.memory:
            weights = model.weights + Weights([Sparse(weights=overlay)]) if overlay.nnz else model.weights
            index = self.base.with_model(replace(model, weights=weights, memory=memory))
        compared = _has_learned(index) and self.baseline is not index
        return replace(self, index=index, compared=compared, revision=revision, n_pairs=int(overlay.nnz))

    @property
    def version(self) -> str:
        """Name of the version: v12 has all changes up to the 12th."""
        return f"v{self.revision}"

    @property
    def model(self) -> TextModel:
        return text_model(self.index)

    def _warm_up(self) -> None:
        """Load the kernels now instead of within the first requests."""
        n_words = self.model.weights.shape[0]
        if n_words == 0:
            return
        in_numpy.budget.left = 0
        one_word = sparse.csr_array((np.ones(1, np.float32), [0], [0, 1]), shape=(1, n_words))
        for index in (self.index, self.baseline):
            index.search_row(one_word, 1)


def text_model(index: BaseIndex) -> TextModel:
    """Return the text model of an index."""
    if not isinstance(index.model, TextModel):
        raise InputError("the index has weights without words, and the service takes texts; index with a text model")
    return index.model


def _baseline(base: BaseIndex) -> tuple[str, BaseIndex]:
    """Return name and index of the baseline, where a word matches only itself.

    If queries and documents have different vocabularies, no word matches itself, and the baseline is the fitted model.
    """
    model = text_model(base)
    n, m = model.weights.shape
    if n != m:
        return "base model", base
    scale = sum(part.scale for part in model.weights.parts if isinstance(part, Identity))
    identity = Identity(n_terms=n, scale=scale if scale > 0 else unit_of(model.weights))
    name = {"bm25": "BM25", "tfidf": "tf-idf"}[model.query_vectorizer.weighting]
    return name, base.with_model(replace(model, weights=Weights([identity]), memory=None, confidence=None))


def _has_learned(index: BaseIndex) -> bool:
    model = text_model(index)
    return model.memory is not None or any(not isinstance(part, Identity) for part in model.weights.parts)


def query_rows(model: TextModel, texts: Sequence[str]) -> sparse.csr_array:
    """Return the query rows of texts, bit for bit as in a search."""
    rows = [model.query_vectorizer.query(text)[0] for text in texts]
    indptr = np.cumsum([0, *(row.indices.size for row in rows)])
    indices, data = (np.concatenate(arrays) for arrays in ([r.indices for r in rows], [r.data for r in rows]))
    return sparse.csr_array((data, indices, indptr), shape=(len(rows), model.weights.shape[0]))
