"""W = I: the baseline of every learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tercet.data.matrix import check_matrix
from tercet.errors import InputError
from tercet.learn.base import SavedRanker, TermPairRanker
from tercet.store.codec import decode
from tercet.store.schema import Bounds
from tercet.weights import Identity, Weights


class CosineRanker(TermPairRanker):
    """Inner product of query and document; cosine similarity for rows of unit length.

    Nothing is learned; ``fit`` stores the number of terms.

    Examples
    --------
    >>> from scipy import sparse
    >>> X = sparse.csr_array([[1.0, 0.0], [0.6, 0.8]])
    >>> CosineRanker().fit(X).score_matrix(X, X).round(2).tolist()
    [[1.0, 0.6], [0.6, 1.0]]
    """

    def cost_per_step(self, n_query_words: float, n_doc_words: float) -> float:
        """Return the words of the three texts: nothing learns."""
        return n_query_words + 2 * n_doc_words

    def fit(self, Q: Any, prefs: Any = None, D: Any = None, validation: Any = None, callbacks: Any = ()) -> Self:
        queries = check_matrix(Q, "Q")
        docs = queries if D is None else check_matrix(D, "D")
        if queries.shape[1] != docs.shape[1]:
            raise InputError(
                f"Q has {queries.shape[1]} columns and D {docs.shape[1]}; cosine pairs each word with itself, so "
                "they must agree"
            )
        self._note_widths(queries, docs)
        return self

    partial_fit = fit

    @property
    def weights_(self) -> Weights:
        check_is_fitted(self)
        return Weights([Identity(n_terms=self.n_features_in_)])

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self)
        return {"class": type(self).__name__, "params": {}, "n_terms": self.n_features_in_}, {}

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        ranker = cls(**params)
        stored = decode(SavedCosine, saved.meta, saved.arrays, where=saved.where)
        ranker.n_features_in_ = ranker.n_doc_features_ = stored.n_terms
        return ranker


@dataclass(frozen=True)
class SavedCosine:
    """Saved CosineRanker without class and parameters."""

    n_terms: Annotated[int, Bounds(least=1)]
