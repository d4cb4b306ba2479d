"""Query expansion: words of the documents a query finds first are added to it, and it is asked again.

These are transforms of queries that need the collection, not weights: ``fit(D)`` keeps the documents, ``transform(Q)``
gives the expanded queries, and any ranker ranks with those. ``tune`` chooses the parameters on preferences.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, InvalidParameterError, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from tercet.choose import Trial, choose, settings_of
from tercet.data.preferences import Preferences
from tercet.errors import InputError, ParameterError
from tercet.learn.base import COUNT, NOT_NEGATIVE
from tercet.learn.choosing import matching_margins, rank_loss
from tercet.learn.matrices import check_matrix
from tercet.weights import Identity, Weights

Setting = dict[str, Any]


class _Expansion(BaseEstimator):
    """What both expansions share: the documents, the first ranking, and the choice of parameters.

    An expanded query is a weighted sum of its own words and of words to add. Words are made for each setting, weights
    only change how the two are summed, and so are margins.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _depth_name: ClassVar[str]  # the parameter that says how many documents are looked at
    _weight_name: ClassVar[str]  # the one that only weighs

    def _own(self, Q: sparse.csr_array) -> sparse.csr_array:
        """The words of the queries, in double precision."""
        return Q.astype(np.float64)

    @abstractmethod
    def _pooled(self, feedback: sparse.csr_array) -> sparse.csr_array:
        """All words of the documents that were found, with their weights; ``feedback`` (n_q, n_d) has scores."""

    @abstractmethod
    def _added(self, pooled: sparse.csr_array, setting: Setting) -> sparse.csr_array:
        """Of those, the words to add."""

    @abstractmethod
    def _weights(self, weight: float, nothing: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
        """Weights of each query's own words, where ``nothing`` says that none are added, and of the added ones."""

    def transform(self, Q: Any) -> sparse.csr_array:
        """The expanded queries, CSR float32, one row for each of Q; a query that finds nothing stays as it is."""
        check_is_fitted(self)
        queries = self._queries(Q)
        setting = {name: getattr(self, f"{name}_") for name in self.get_params()}
        feedback = self._feedback(*self._rank(queries, setting[self._depth_name]))
        own, added = self._own(queries), self._added(self._pooled(feedback), setting)
        own_weight, weight = self._weights(float(setting[self._weight_name]), _is_empty(added))
        return _finished(sparse.dia_array((own_weight[None], [0]), shape=2 * own_weight.shape) @ own + weight * added)

    def _keep_docs(self, D: Any) -> None:
        self._check(self.get_params())
        self._docs = check_matrix(D, "D")
        self.n_features_in_ = self._docs.shape[1]
        for name, value in self.get_params().items():
            setattr(self, f"{name}_", value)
        if hasattr(self, "rank_loss_"):
            del self.rank_loss_

    def _choose(self, Q: Any, prefs: Preferences, most_preferences: int | None, grid: dict[str, Sequence[Any]]) -> Self:
        """Take the setting of the grid with the least rank loss, the first of equal ones."""
        if not isinstance(prefs, Preferences) or not len(prefs):
            given = "none" if isinstance(prefs, Preferences) else type(prefs).__name__
            raise InputError(f"parameters are chosen on Preferences; got {given}")
        if most_preferences is not None and most_preferences < 1:
            raise InputError(f"most_preferences must be at least 1, or None for all; got {most_preferences}")
        queries = self._queries(Q)
        prefs.check_rows(queries.shape[0], self._docs.shape[0])
        for name, values in grid.items():
            if not len(values):
                raise InputError(f"there are no values of {name} to choose from")
            for value in values:
                self._check({name: value})
        if most_preferences is not None and len(prefs) > most_preferences:
            prefs = prefs[np.linspace(0, len(prefs) - 1, most_preferences).astype(np.int64)]
        prefs = prefs[np.argsort(prefs.query, kind="stable")]
        asked, row = np.unique(prefs.query, return_inverse=True)
        queries = queries[asked]
        prefs = Preferences(row.ravel(), prefs.better, prefs.worse, prefs.weight)
        docs, scores = self._rank(queries, max(grid[self._depth_name]))
        own_margins = matching_margins(self._own(queries), self._docs, prefs)
        others = [name for name in grid if name not in (self._depth_name, self._weight_name)]
        trials: list[Trial] = []
        for depth in grid[self._depth_name]:
            pooled = self._pooled(self._feedback(docs[:, :depth], scores[:, :depth]))
            for other_values in settings_of({name: grid[name] for name in others}):
                setting = {self._depth_name: depth, **other_values}
                added = self._added(pooled, setting)
                added_margins, nothing = matching_margins(added, self._docs, prefs), _is_empty(added)
                for weight in grid[self._weight_name]:
                    own_weight, added_weight = self._weights(float(weight), nothing)
                    margins = own_weight[prefs.query] * own_margins + added_weight * added_margins
                    trials.append(
                        Trial({**setting, self._weight_name: weight}, np.array(rank_loss(margins, prefs.weight)))
                    )
        best = trials[choose(trials, higher_is_better=False)]
        self.rank_loss_ = best.mean
        for name, value in best.setting.items():
            setattr(self, f"{name}_", value)
        return self

    def _rank(self, Q: sparse.csr_array, depth: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        return Weights([Identity(n_terms=self.n_features_in_)]).rank(Q, self._docs, depth)

    def _feedback(self, docs: NDArray[np.int32], scores: NDArray[np.float64]) -> sparse.csr_array:
        """Scores of the best documents of each query (n_q, n_d); one that shares no word is not found."""
        row, rank = np.nonzero(scores > 0)
        return sparse.csr_array(
            (scores[row, rank], (row, docs[row, rank])), shape=(len(docs), self._docs.shape[0]), dtype=np.float64
        )

    def _queries(self, Q: Any) -> sparse.csr_array:
        queries = check_matrix(Q, "Q")
        if queries.shape[1] != self.n_features_in_:
            raise InputError(
                f"Q has {queries.shape[1]} columns, but this {type(self).__name__} was fitted with "
                f"{self.n_features_in_}"
            )
        return queries

    def _check(self, params: Setting) -> None:
        try:
            validate_parameter_constraints(self._parameter_constraints, params, caller_name=type(self).__name__)
        except InvalidParameterError as error:
            raise ParameterError(str(error)) from None


class QueryExpansion(_Expansion):
    """Adds the documents a query finds first to it: ``q' = q + beta (d_1 + … + d_E)`` (Bai et al. 2010, section 4).

    Documents are found by their inner product with the query, which is the cosine for rows of unit length. The paper
    speaks of the documents' mean and prints their sum; the sum is taken, so ``beta`` for the mean is E times as large.

    Parameters
    ----------
    beta : weight of the documents
    n_expanded : E, how many documents are added

    Attributes
    ----------
    beta_, n_expanded_ : those used: the parameters after ``fit``, the chosen ones after ``tune``
    rank_loss_ : share of the preferences in the wrong order, ties included; only after ``tune``

    Examples
    --------
    >>> D = sparse.csr_array([[0.5, 0.75, 0.0], [0.0, 0.0, 1.0]])
    >>> QueryExpansion(beta=0.5, n_expanded=1).fit(D).transform([[1.0, 0.0, 0.0]]).toarray().tolist()
    [[1.25, 0.375, 0.0]]
    """

    _depth_name = "n_expanded"
    _weight_name = "beta"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"beta": [NOT_NEGATIVE], "n_expanded": [COUNT]}

    def __init__(self, *, beta: float = 0.1, n_expanded: int = 5) -> None:
        self.beta = beta
        self.n_expanded = n_expanded

    def fit(self, D: Any) -> Self:
        """Keep the documents, (n_docs, n_terms) CSR."""
        self._keep_docs(D)
        return self

    def tune(
        self,
        Q: Any,
        prefs: Preferences,
        D: Any,
        *,
        beta: Sequence[float] = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
        n_expanded: Sequence[int] = (1, 2, 5, 10, 20, 50),
        most_preferences: int | None = 20_000,
    ) -> Self:
        """Keep the documents and take the parameters with the least rank loss on the preferences.

        ``beta=0`` is among them, so the chosen expansion is never worse there than none. Of more than
        ``most_preferences`` evenly spaced ones are used. Cost: one ranking of their queries, and for each
        ``n_expanded`` the words of the documents found and the margins.
        """
        self.fit(D)
        return self._choose(Q, prefs, most_preferences, {"n_expanded": n_expanded, "beta": beta})

    def _pooled(self, feedback: sparse.csr_array) -> sparse.csr_array:
        chosen = sparse.csr_array(
            (np.ones_like(feedback.data), feedback.indices, feedback.indptr), shape=feedback.shape
        )
        return sparse.csr_array(chosen @ self._docs.astype(np.float64))

    def _added(self, pooled: sparse.csr_array, setting: Setting) -> sparse.csr_array:
        return pooled

    def _weights(self, weight: float, nothing: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
        return np.ones(nothing.size), weight


class RM3Expansion(_Expansion):
    """Mixes a query with the words that are likely in the documents it finds first: a relevance model, RM3.

    With ``P(w|d)`` the share of word w in document d, and s the scores of the ``n_found`` best documents,
    ``P(w|R)`` is proportional to the sum of ``s_d P(w|d)`` (Lavrenko and Croft 2001, with the retrieval score for the
    likelihood of the query). Of that the ``n_terms`` likeliest words are kept and made to sum to 1. The expanded query
    is ``original_weight P(w|q) + (1 - original_weight) P(w|R)`` (Abdul-Jaleel et al. 2004).

    Parameters
    ----------
    n_found : how many documents are looked at
    n_terms : how many of their words are kept, ties by lower column
    original_weight : weight of the query's own words

    Attributes
    ----------
    n_found_, n_terms_, original_weight_ : those used: the parameters after ``fit``, the chosen ones after ``tune``
    rank_loss_ : share of the preferences in the wrong order, ties included; only after ``tune``

    Examples
    --------
    >>> D = sparse.csr_array([[1.0, 3.0, 0.0], [0.0, 0.0, 1.0]])
    >>> RM3Expansion(n_found=1, n_terms=2).fit(D).transform([[1.0, 0.0, 0.0]]).toarray().tolist()
    [[0.625, 0.375, 0.0]]
    """

    _depth_name = "n_found"
    _weight_name = "original_weight"
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
        D : documents as they are ranked (n_docs, n_terms), CSR; with BM25 weights the ranking is BM25's
        counts : how often each word occurs in each document, CSR of the same shape; default D itself, whose weights
            then stand in for counts
        query_weight : positive (n_terms,), what one occurrence of a word weighs in a query, such as
            ``vectoriser.idf_ ** vectoriser.idf_power`` for BM25; default 1. Queries are divided by it to get at their
            words, and the expanded ones are multiplied by it.
        """
        self._keep_docs(D)
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

    def tune(
        self,
        Q: Any,
        prefs: Preferences,
        D: Any,
        counts: Any = None,
        query_weight: ArrayLike | None = None,
        *,
        n_found: Sequence[int] = (5, 10, 20),
        n_terms: Sequence[int] = (10, 20, 50),
        original_weight: Sequence[float] = (1.0, 0.9, 0.7, 0.5, 0.3),
        most_preferences: int | None = 20_000,
    ) -> Self:
        """Keep the documents and take the parameters with the least rank loss on the preferences.

        ``original_weight=1`` is among them, so the chosen expansion is never worse there than none. Of more than
        ``most_preferences`` evenly spaced ones are used. Cost: one ranking of their queries, for each ``n_found`` the
        words of the documents found, for each ``n_terms`` the largest of them and the margins.
        """
        self.fit(D, counts, query_weight)
        grid: dict[str, Sequence[Any]] = {"n_found": n_found, "n_terms": n_terms, "original_weight": original_weight}
        return self._choose(Q, prefs, most_preferences, grid)

    def _own(self, Q: sparse.csr_array) -> sparse.csr_array:
        own = super()._own(Q)
        own.data /= self._query_weight[own.indices]
        if (own.data < 0).any():
            raise InputError("Q has negative entries; the words of a query have probabilities")
        return self._weighted(_unit_sums(own))

    def _pooled(self, feedback: sparse.csr_array) -> sparse.csr_array:
        return sparse.csr_array(feedback @ self._share)

    def _added(self, pooled: sparse.csr_array, setting: Setting) -> sparse.csr_array:
        return self._weighted(_unit_sums(_largest_entries(pooled, setting["n_terms"])))

    def _weights(self, weight: float, nothing: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
        return np.where(nothing, 1.0, weight), 1 - weight

    def _weighted(self, probabilities: sparse.csr_array) -> sparse.csr_array:
        probabilities.data *= self._query_weight[probabilities.indices]
        return probabilities


def _is_empty(matrix: sparse.csr_array) -> NDArray[np.bool_]:
    """Which rows of probabilities have no words."""
    return np.asarray(matrix.sum(axis=1)).ravel() == 0


def _unit_sums(matrix: sparse.csr_array) -> sparse.csr_array:
    """Each row over its sum; rows without a sum stay empty."""
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


def _finished(matrix: sparse.csr_array) -> sparse.csr_array:
    finished = sparse.csr_array(matrix, dtype=np.float32)
    finished.sum_duplicates()
    finished.eliminate_zeros()
    return finished
