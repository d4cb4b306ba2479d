"""RankRLS, and the regression it is compared with."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.metadata_routing import UNUSED

from tercet.data.preferences import Preferences, as_preferences
from tercet.data.row_queries import query_numbers
from tercet.errors import InputError
from tercet.learn.rls.base import KernelLeastSquares
from tercet.learn.rls.comparisons import Alone, ByEdge, Comparisons, PairsByQuery
from tercet.learn.rls.inputs import Places


class RankRLS(KernelLeastSquares):
    """RankRLS: differences of scores are fitted to differences of grades, over all pairs of rows of a query.

    Minimises ``½ Σ ((y_i - y_j) - (f(x_i) - f(x_j)))² + l2 |f|²`` over ordered pairs within queries, ties included,
    with f from the functions of a kernel (Tsivtsivadze et al. 2008). With ``n_basis`` only so many training rows are
    basis vectors (sparse RankRLS, equation 8), while all rows count as examples.

    Parameters
    ----------
    kernel : "linear", "gaussian" ``exp(-gamma |a - b|²)``, "polynomial" ``(gamma a·b + coef0) ** degree``, "cosine",
        "precomputed" (X is the kernel matrix), or a callable that takes two matrices of rows and returns (n_a, n_b)
    gamma : see ``kernel``; None means 1 / n_features
    degree, coef0 : see ``kernel``
    l2 : the strength of the penalty; a query of n rows has n² terms, so it goes with the size of queries
    n_basis : how many training rows are basis vectors, or their row numbers; None for all. A linear kernel with fewer
        features than rows is then solved for a weight of each feature, which is the same function
    basis : how that many are chosen: "random", "k-means" (the rows nearest to centres, which are dense: two matrices
        of n_basis × n_features) or "leverage" (drawn by how little the other rows say about a row)
    random_state : seed for the choice of the basis, and of folds

    Attributes
    ----------
    coef_ : with a linear kernel, the weights of features (n_features,)
    dual_coef_ : with any other, the coefficients of the basis vectors (n_basis,)
    basis_ : the basis vectors (n_basis, n_features); not with "linear" and "precomputed"
    basis_rows_ : their row numbers (n_basis,), where ``n_basis`` was given

    Notes
    -----
    Costs O(n_rows n_basis²) time; no more of the kernel than a block of rows is held. Without ``n_basis`` O(n_rows³),
    and memory for one kernel matrix. A fitted ranker keeps a reference to X, and two n_basis × n_basis matrices, for
    ``path``, ``leave_query_out`` and ``cross_validated``: X must not be changed before these are asked.

    Basis vectors that are nearly combinations of others get the coefficient 0; what is learned does not change by it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.1], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = RankRLS(kernel="gaussian", gamma=1.0, n_basis=2).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> scores = ranker.predict(X)
    >>> bool(scores[0] > scores[1] and scores[2] > scores[3])
    True
    """

    def fit_preferences(self, X: Any, prefs: Preferences) -> Self:
        """Learn from preferences between rows that no query holds together.

        Parameters
        ----------
        X : features, dense or CSR
        prefs : ``better`` and ``worse`` are rows of X; their queries are not looked at. ``weight`` says how much a
            preference counts, ``margin`` by how much the better row should win, 1 where it is left out

        Notes
        -----
        With ``n_basis`` the kernel of the rows that are compared with the basis is held twice; without, a factor of
        their Laplacian beside the kernel matrix.
        """
        self._check_params()
        self._forget()
        features = self._validated(X, reset=True, dtype=np.float64)
        prefs = as_preferences(prefs)
        if not len(prefs):
            raise InputError("prefs is empty, so there is nothing to learn from")
        n_rows = features.shape[0]
        for name, rows in (("better", prefs.better), ("worse", prefs.worse)):
            if (wrong := rows >= n_rows).any():
                first = int(wrong.argmax())
                raise InputError(f"{name}[{first}] is row {rows[first]}, but X has {n_rows} rows (0 to {n_rows - 1})")
        weight, margin = (
            np.ones(len(prefs)) if column is None else column.astype(np.float64)
            for column in (prefs.weight, prefs.margin)
        )
        compared = ByEdge(prefs.better.astype(np.int64), prefs.worse.astype(np.int64), weight, margin)
        self._learn(features, compared, None)
        return self

    def _compared(self, y: NDArray[np.float64], qid: Any) -> tuple[Comparisons, Places]:
        query, n_queries = query_numbers(qid, len(y))
        rows = np.argsort(query, kind="stable")
        starts = np.searchsorted(query[rows], np.arange(n_queries + 1))
        if np.array_equal(np.minimum.reduceat(y[rows], starts[:-1]), np.maximum.reduceat(y[rows], starts[:-1])):
            raise InputError(
                "no query has two documents of different grades, so there is nothing to learn from "
                f"(n_samples={len(y)})"
            )
        return PairsByQuery(y, rows, starts), query


class RLSRegressor(RegressorMixin, KernelLeastSquares):
    """Regularised least-squares regression, the baseline of RankRLS: every row's own grade is fitted.

    Minimises ``Σ (y_i - f(x_i))² + l2 |f|²``, without a constant term. Parameters, attributes and costs are those of
    ``RankRLS``; queries only say which rows ``leave_query_out`` and ``cross_validated`` leave out together, each row
    alone where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.1], [0.9, 0.3], [0.1, 0.2]])
    >>> RLSRegressor(l2=0.1).fit(X, [1, 0, 1, 0]).predict(X).round(1).tolist()
    [1.0, 0.0, 0.9, 0.1]
    """

    # It is scored as a regressor, by R².
    __metadata_request__score: ClassVar[dict[str, bool | str | None]] = {"qid": UNUSED}
    _compares_within_queries = False

    def _compared(self, y: NDArray[np.float64], qid: Any) -> tuple[Comparisons, Places]:
        every = np.arange(len(y))
        return Alone(y, every), every if qid is None else query_numbers(qid, len(y))[0]
