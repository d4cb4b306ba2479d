"""Query expansion: words of the documents a query finds first are added to it, and it is asked again.

These are transforms of queries that need the collection, not weights: ``fit(D)`` keeps the documents, ``transform(Q)``
gives the expanded queries, and any ranker ranks with those. ``tune`` chooses the parameters on preferences.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import product
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, InvalidParameterError, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from tercet.data.preferences import Preferences
from tercet.errors import InputError, ParameterError
from tercet.learn.base import COUNT, NOT_NEGATIVE
from tercet.learn.lsi import rank_loss, row_products, rows_at_once
from tercet.learn.matrices import check_matrix
from tercet.weights import Identity, Weights

_PREFERENCES_AT_ONCE = 4096

Setting = dict[str, Any]


class _Expansion(BaseEstimator):
    """What both expansions share: the documents, the first ranking, and the choice of parameters."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _depth_name: ClassVar[str]  # the parameter that says how many documents are looked at

    @abstractmethod
    def _expanded(
        self, Q: sparse.csr_array, found: sparse.csr_array, settings: Sequence[Setting]
    ) -> Iterator[sparse.csr_array]:
        """Q expanded in each of the settings, which share their depth; ``found`` (n_q, n_d) are scores."""

    def transform(self, Q: Any) -> sparse.csr_array:
        """The expanded queries, CSR float32, one row for each of Q; a query that finds nothing stays as it is."""
        check_is_fitted(self)
        queries = self._queries(Q)
        setting = {name: getattr(self, f"{name}_") for name in self.get_params()}
        [expanded] = self._expanded(queries, self._found(queries, setting[self._depth_name]), [setting])
        return _finished(expanded)

    def _keep_docs(self, D: Any) -> None:
        self._check(self.get_params())
        self._docs = check_matrix(D, "D")
        self.n_features_in_ = self._docs.shape[1]
        for name, value in self.get_params().items():
            setattr(self, f"{name}_", value)
        if hasattr(self, "rank_loss_"):
            del self.rank_loss_

    def _choose(self, Q: Any, prefs: Preferences, grid: dict[str, Sequence[Any]]) -> Self:
        """Take the setting of the grid with the least rank loss, the first of equal ones."""
        if not isinstance(prefs, Preferences) or not len(prefs):
            given = "none" if isinstance(prefs, Preferences) else type(prefs).__name__
            raise InputError(f"parameters are chosen on Preferences; got {given}")
        queries = self._queries(Q)
        prefs.check_rows(queries.shape[0], self._docs.shape[0])
        for name, values in grid.items():
            if not len(values):
                raise InputError(f"there are no values of {name} to choose from")
            for value in values:
                self._check({name: value})
        asked, row = np.unique(prefs.query, return_inverse=True)
        queries = queries[asked]
        # Each depth is ranked for once; the other parameters vary fastest.
        others = {name: values for name, values in grid.items() if name != self._depth_name}
        best: tuple[float, Setting] | None = None
        for depth in grid[self._depth_name]:
            settings = [
                {self._depth_name: depth, **dict(zip(others, v, strict=True))} for v in product(*others.values())
            ]
            expansions = self._expanded(queries, self._found(queries, depth), settings)
            for setting, expanded in zip(settings, expansions, strict=True):
                loss = rank_loss(self._margins(expanded, row.ravel(), prefs), prefs.weight)
                if best is None or loss < best[0]:
                    best = loss, setting
        assert best is not None
        self.rank_loss_ = best[0]
        for name, value in best[1].items():
            setattr(self, f"{name}_", value)
        return self

    def _margins(
        self, expanded: sparse.csr_array, row: NDArray[np.integer[Any]], prefs: Preferences
    ) -> NDArray[np.float64]:
        margins = np.empty(len(prefs))
        at = 0
        for part in rows_at_once(prefs, _PREFERENCES_AT_ONCE):
            here = slice(at, at + len(part))
            at = here.stop
            queries = expanded[row[here]]
            margins[here] = row_products(queries, self._docs[part.better]) - row_products(
                queries, self._docs[part.worse]
            )
        return margins

    def _found(self, Q: sparse.csr_array, depth: int) -> sparse.csr_array:
        """Scores of the best documents of each query (n_q, n_d); one that shares no word is not found."""
        docs, scores = Weights([Identity(n_terms=self.n_features_in_)]).rank(Q, self._docs, depth)
        row, place = np.nonzero(scores > 0)
        return sparse.csr_array(
            (scores[row, place], (row, docs[row, place])), shape=(Q.shape[0], self._docs.shape[0]), dtype=np.float64
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
    ) -> Self:
        """Keep the documents and take the parameters with the least rank loss on the preferences.

        ``beta=0`` is among them, so the chosen expansion is never worse there than none. Cost: for each
        ``n_expanded`` a ranking of the preferences' queries, for each pair of values the margins of all preferences.
        """
        self.fit(D)
        return self._choose(Q, prefs, {"n_expanded": n_expanded, "beta": beta})

    def _expanded(
        self, Q: sparse.csr_array, found: sparse.csr_array, settings: Sequence[Setting]
    ) -> Iterator[sparse.csr_array]:
        chosen = sparse.csr_array((np.ones_like(found.data), found.indices, found.indptr), shape=found.shape)
        added = chosen @ self._docs.astype(np.float64)
        for setting in settings:
            yield Q.astype(np.float64) + float(setting["beta"]) * added


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
            at = int((share.data < 0).argmax())
            raise InputError(f"a document has {share.data[at]} of word {share.indices[at]}; counts are not negative")
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
                at = int(bad.argmax())
                raise InputError(f"query_weight[{at}] is {self._query_weight[at]}; weights are positive and finite")
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
    ) -> Self:
        """Keep the documents and take the parameters with the least rank loss on the preferences.

        ``original_weight=1`` is among them, so the chosen expansion is never worse there than none. Cost: for each
        ``n_found`` a ranking of the preferences' queries, for each setting the margins of all preferences.
        """
        self.fit(D, counts, query_weight)
        grid: dict[str, Sequence[Any]] = {"n_found": n_found, "n_terms": n_terms, "original_weight": original_weight}
        return self._choose(Q, prefs, grid)

    def _expanded(
        self, Q: sparse.csr_array, found: sparse.csr_array, settings: Sequence[Setting]
    ) -> Iterator[sparse.csr_array]:
        own = Q.astype(np.float64)
        own.data /= self._query_weight[own.indices]
        if (own.data < 0).any():
            raise InputError("Q has negative entries; the words of a query have probabilities")
        own = _unit_sums(own)
        likely = sparse.csr_array(found @ self._share)
        # A query that finds nothing has no second model, so all its weight is its own.
        without = np.asarray(likely.sum(axis=1)).ravel() == 0
        for setting in settings:
            weight = float(setting["original_weight"])
            model = _unit_sums(_largest_entries(likely, setting["n_terms"]))
            own_weight = sparse.dia_array((np.where(without, 1.0, weight)[None], [0]), shape=(Q.shape[0],) * 2)
            mixed = sparse.csr_array(own_weight @ own + (1 - weight) * model)
            mixed.data *= self._query_weight[mixed.indices]
            yield mixed


def _unit_sums(matrix: sparse.csr_array) -> sparse.csr_array:
    """Each row over its sum; rows without a sum stay empty."""
    total = np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()
    scaled = matrix.astype(np.float64)
    scaled.data /= np.repeat(np.where(total > 0, total, 1.0), np.diff(matrix.indptr))
    return scaled


def _largest_entries(matrix: sparse.csr_array, n: int) -> sparse.csr_array:
    """The n largest entries of each row, ties by lower column."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, row))
    place = np.arange(order.size) - matrix.indptr[row]  # in its row; rows stay together when sorted
    kept = order[place < n]
    return sparse.csr_array((matrix.data[kept], (row[kept], matrix.indices[kept])), shape=matrix.shape)


def _finished(matrix: sparse.csr_array) -> sparse.csr_array:
    finished = sparse.csr_array(matrix, dtype=np.float32)
    finished.sum_duplicates()
    finished.eliminate_zeros()
    return finished
