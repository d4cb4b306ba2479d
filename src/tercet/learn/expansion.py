"""Query expansion by a relevance model: words of the first documents of a query are added to the query.

``fit(D)`` keeps the documents, ``transform(Q)`` returns the expanded queries for any ranker.
"""

from __future__ import annotations

from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, InvalidParameterError, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from tercet.data.matrix import check_matrix
from tercet.errors import InputError, ParameterError
from tercet.learn.base import COUNT
from tercet.weights import Identity, Weights


class RM3Expansion(BaseEstimator):
    """Mixture of a query with the likely words of its first documents: a relevance model, RM3.

    With ``P(w|d)`` the share of word w in document d, and s the scores of the ``n_found`` best documents,
    ``P(w|R)`` is proportional to the sum of ``s_d P(w|d)`` (Lavrenko and Croft 2001, with the retrieval score for the
    likelihood of the query). The ``n_terms`` likeliest words are kept and scaled to the sum 1. The expanded query
    is ``original_weight P(w|q) + (1 - original_weight) P(w|R)`` (Abdul-Jaleel et al. 2004).

    Parameters
    ----------
    n_found : number of documents
    n_terms : number of words from these documents, ties by lower column
    original_weight : weight of the words of the query

    Examples
    --------
    >>> D = sparse.csr_array([[1.0, 3.0, 0.0], [0.0, 0.0, 1.0]])
    >>> RM3Expansion(n_found=1, n_terms=2).fit(D).transform([[1.0, 0.0, 0.0]]).toarray().tolist()
    [[0.625, 0.375, 0.0]]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_found": [COUNT],
        "n_terms": [COUNT],
        "original_weight": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(self, *, n_found: int = 10, n_terms: int = 10, original_weight: float = 0.5) -> None:
        self.n_found = n_found
        self.n_terms = n_terms
        self.original_weight = original_weight

    def fit(self, D: Any, counts: Any = None, query_weight: ArrayLike | None = None) -> Self:
        """Keep the documents.

        Parameters
        ----------
        D : documents to rank (n_docs, n_terms), CSR; with BM25 weights the ranking is BM25's
        counts : occurrences of each word in each document, CSR of the same shape; default D, whose weights then stand
            in for counts
        query_weight : positive (n_terms,), weight of one occurrence of a word in a query, such as
            ``vectorizer.idf_ ** vectorizer.idf_power`` for BM25; default 1. Queries are divided by this weight to get
            their words, and expanded queries are multiplied by the weight.
        """
        try:
            validate_parameter_constraints(
                self._parameter_constraints, self.get_params(), caller_name=type(self).__name__
            )
        except InvalidParameterError as error:
            raise ParameterError(str(error)) from None
        self._docs = check_matrix(D, "D")
        self.n_features_in_ = self._docs.shape[1]
        share = self._docs if counts is None else check_matrix(counts, "counts")
        if share.shape != self._docs.shape:
            raise InputError(f"counts has shape {share.shape} and D {self._docs.shape}; they must agree")
        if (share.data < 0).any():
            entry = int((share.data < 0).argmax())
            raise InputError(
                f"a document has {share.data[entry]} of word {share.indices[entry]}; counts are not negative"
            )
        self._share = _unit_sums(share)
        self._query_weight = np.ones(self.n_features_in_)
        if query_weight is not None:
            self._query_weight = np.array(query_weight, dtype=np.float64)
            if self._query_weight.shape != (self.n_features_in_,):
                raise InputError(
                    f"query_weight has shape {self._query_weight.shape}; expected one for each of the "
                    f"{self.n_features_in_} terms"
                )
            bad = ~((self._query_weight > 0) & np.isfinite(self._query_weight))
            if bad.any():
                term = int(bad.argmax())
                raise InputError(f"query_weight[{term}] is {self._query_weight[term]}; weights are positive and finite")
        return self

    def transform(self, Q: Any) -> sparse.csr_array:
        """Return the expanded queries, CSR float32; a query without a document stays unchanged."""
        check_is_fitted(self)
        queries = check_matrix(Q, "Q")
        if queries.shape[1] != self.n_features_in_:
            raise InputError(
                f"Q has {queries.shape[1]} columns, but this {type(self).__name__} was fitted with "
                f"{self.n_features_in_}"
            )
        own = self._own_words(queries)
        likely = _largest_entries(sparse.csr_array(self._found(queries) @ self._share), self.n_terms)
        added = self._weighted(_unit_sums(likely))
        finds_nothing = np.asarray(added.sum(axis=1)).ravel() == 0
        own_weight = np.where(finds_nothing, 1.0, self.original_weight)
        mixed = sparse.dia_array((own_weight[None], [0]), shape=2 * own_weight.shape) @ own
        expanded = sparse.csr_array(mixed + (1 - self.original_weight) * added, dtype=np.float32)
        expanded.sum_duplicates()
        expanded.eliminate_zeros()
        return expanded

    def _found(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Return the scores of the best documents of each query (n_q, n_d), without documents that share no word."""
        docs, scores = Weights([Identity(n_terms=self.n_features_in_)]).rank(Q, self._docs, self.n_found)
        row, rank = np.nonzero(scores > 0)
        return sparse.csr_array(
            (scores[row, rank], (row, docs[row, rank])), shape=(len(docs), self._docs.shape[0]), dtype=np.float64
        )

    def _own_words(self, Q: sparse.csr_array) -> sparse.csr_array:
        own = Q.astype(np.float64)
        own.data /= self._query_weight[own.indices]
        if (own.data < 0).any():
            raise InputError("Q has negative entries; the words of a query have probabilities")
        return self._weighted(_unit_sums(own))

    def _weighted(self, probabilities: sparse.csr_array) -> sparse.csr_array:
        probabilities.data *= self._query_weight[probabilities.indices]
        return probabilities


def _unit_sums(matrix: sparse.csr_array) -> sparse.csr_array:
    """Divide each row by its sum; rows with the sum 0 stay empty."""
    total = np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()
    scaled = matrix.astype(np.float64)
    scaled.data /= np.repeat(np.where(total > 0, total, 1.0), np.diff(matrix.indptr))
    return scaled


def _largest_entries(matrix: sparse.csr_array, n: int) -> sparse.csr_array:
    """The n largest entries of each row, ties by lower column."""
    matrix.sort_indices()
    kept = np.ones(matrix.nnz, dtype=bool)
    for start, stop in pairwise(matrix.indptr.tolist()):
        if stop - start > n:
            values = matrix.data[start:stop]
            smallest = np.partition(values, -n)[-n]
            stays = values > smallest
            stays[np.flatnonzero(values == smallest)[: n - np.count_nonzero(stays)]] = True
            kept[start:stop] = stays
    indptr = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
    return sparse.csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)
