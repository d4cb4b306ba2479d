"""RankRLS (Tsivtsivadze et al. 2008), its sparse form, and regression as a baseline.

``solving.py`` has the equations, ``kernels.py`` the kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass, field
from numbers import Integral
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from tercet.data.row_queries import query_numbers
from tercet.errors import DamagedBundleError, InputError, MemoryLimitError
from tercet.learn.base import COUNT, Count, NotNegative, Positive, Seed
from tercet.learn.features import FeatureRanker
from tercet.learn.loop import current_executor
from tercet.learn.rls.kernels import Columns, GivenKernel, Kernel, Matrix, dense, symmetric
from tercet.learn.rls.solving import (
    Comparisons,
    FullSystem,
    SparseSystem,
    System,
    Vector,
    check_finite,
    rows_at_once,
    slices,
)
from tercet.learn.state import physical_memory
from tercet.store import take_array

RowNumbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Training:
    """Data of a fitted ranker for further penalties on the same rows; never saved.

    basis : row numbers of the basis R, or None in the primal
    query : number of each row's query (n_rows,)
    """

    X: Any
    basis: RowNumbers | None
    system: System
    query: RowNumbers


@dataclass(eq=False, repr=False, kw_only=True)
class KernelLeastSquares(FeatureRanker):
    """Regularized least squares over functions of a kernel; ``_compared`` defines the targets.

    Examples
    --------
    >>> from tercet.learn.rls import RankRLS
    >>> ranker = RankRLS(kernel="gaussian").fit([[0.0], [1.0]], [0, 1], qid=[7, 7])
    >>> isinstance(ranker, KernelLeastSquares), int(ranker.predict([[0.0], [1.0]]).argmax())
    (True, 1)
    """

    kernel: Literal["linear", "gaussian", "polynomial", "cosine", "precomputed"] = "linear"
    gamma: Positive | None = None
    degree: Count = 3
    coef0: NotNegative = 1.0
    l2: Positive = 1.0
    n_basis: Annotated[Any, COUNT, "array-like", None] = None
    random_state: Seed = 0

    _removed_parameters: ClassVar[dict[str, Any]] = {"basis": "random"}

    coef_: Vector = field(init=False)
    dual_coef_: Vector = field(init=False)

    # -- learning -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, qid: Any = None, group: Any = None) -> Self:
        """Learn from graded rows.

        Parameters
        ----------
        X : features, dense or CSR, one row per document of a query. With ``kernel="precomputed"``, the kernel of all
            rows with all rows, or with the rows given by ``n_basis``. Column ``qid`` of a frame is the query of each
            row and no feature. NaN and infinity are errors; fill missing values first
        y : one number per row
        qid : the query of each row, any hashable ids, in any order; RLSRegressor needs none
        group : instead of ``qid``, the number of rows of each query in turn, as in LightGBM and XGBoost;
            ``[len(X)]`` if all rows belong to the same query
        """
        rows, _, comparisons, query = self._prepared(X, y, self._queries(X, qid, group))
        training = self._posed(rows, comparisons, query)
        with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are refused below
            learned = self._learned(training, training.system.solve(float(self.l2))[None])
        check_finite(learned)
        self._keep(training, learned[0])
        return self

    def _prepared(self, X: Any, y: Any, qid: Any) -> tuple[Any, Vector, Comparisons, RowNumbers]:
        """Check the arguments of a fit; return rows, grades, comparisons, and the number of each row's query."""
        self._check_params()
        current_executor().check(self)
        self._forget()
        rows, labels = self._validated(X, y, reset=True, dtype=np.float64, y_numeric=True)
        grades = np.asarray(labels, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            comparisons, query = self._compared(grades, qid)
            check_finite(comparisons.target)
        return rows, grades, comparisons, query

    @abstractmethod
    def _compared(self, y: Vector, qid: Any) -> tuple[Comparisons, RowNumbers]:
        """Return the comparisons between rows, and the number of each row's query."""

    def _posed(self, X: Any, comparisons: Comparisons, query: RowNumbers) -> Training:
        """Return the unsolved system."""
        n_rows, n_features = X.shape
        basis = None if self.n_basis is None else basis_rows(self.n_basis, n_rows, int(self.random_state))
        system: System
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kernel == "precomputed":
                check_kernel_matrix(X, basis)
            if basis is None and self.kernel == "linear" and n_features < n_rows:
                check_memory(n_features, 3)
                system = SparseSystem(Columns(X, n_features, dense), np.eye(n_features), comparisons)
            elif basis is None:
                check_memory(n_rows, 1)
                basis = np.arange(n_rows)
                system = FullSystem(self._columns(X, X, basis), comparisons)
            else:
                check_memory(len(basis), 3)
                vectors = X[basis]
                columns = self._columns(X, vectors, basis)
                is_given = self.kernel == "precomputed"
                gram = symmetric(columns.between(vectors)) if is_given else self._kernel(n_features).gram(vectors)
                system = SparseSystem(columns, gram, comparisons)
        return Training(X, basis, system, query)

    def _columns(self, X: Any, vectors: Any, basis: RowNumbers) -> Columns:
        """Return the columns of the kernel of rows with the basis vectors."""
        if self.kernel != "precomputed":
            return Columns(X, len(basis), self._kernel(X.shape[1]).with_vectors(vectors))
        return Columns(X, len(basis), GivenKernel(_positions(X, basis)))

    def _kernel(self, n_features: int) -> Kernel:
        gamma = 1.0 / n_features if self.gamma is None else float(self.gamma)
        return Kernel(self.kernel, gamma, int(self.degree), float(self.coef0))

    def _learned(self, training: Training, coefficients: Matrix) -> Matrix:
        """Return the public coefficients of a system's coefficients: with a linear kernel the weights of features."""
        if self.kernel != "linear" or training.basis is None:
            return coefficients
        vectors = training.X if self.n_basis is None else training.X[training.basis]
        return np.ascontiguousarray((vectors.T @ coefficients.T).T)

    def _keep(self, training: Training, learned: Vector) -> None:
        """Store the learned coefficients."""
        self._training, X, basis = training, training.X, training.basis
        if basis is not None and self.n_basis is not None:
            self.basis_rows_ = basis
        if self.kernel == "linear":
            self.coef_ = learned
            return
        self.dual_coef_ = learned
        assert basis is not None
        if self.kernel == "precomputed":
            self._places = _positions(X, basis)
        else:
            # Always copy: scores must not change when the caller changes X.
            self.basis_ = X.copy() if self.n_basis is None else X[basis]

    def _forget(self) -> None:
        for name in ("coef_", "dual_coef_", "basis_", "basis_rows_", "_places", "_training"):
            self.__dict__.pop(name, None)

    # -- using --------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Vector:
        """Return the score of each row; within a query, the highest score ranks first."""
        check_is_fitted(self)
        return self._scores(X, self.coef_ if hasattr(self, "coef_") else self.dual_coef_)

    def _scores(self, X: Any, learned: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of coefficients (n,), or of several (n, n_l2s)."""
        features = self._validated(X, reset=False, dtype=np.float64)
        if hasattr(self, "coef_"):
            return np.asarray(features @ learned, dtype=np.float64)
        if self.kernel == "precomputed":
            columns = Columns(features, len(learned), GivenKernel(self._places))
        else:
            columns = self._columns(features, self.basis_, np.arange(len(learned)))
        parts = slices(features.shape[0], rows_at_once(len(learned)))
        return np.concatenate([columns.block(part) @ learned for part in parts])

    def path(self, l2s: ArrayLike) -> RLSPath:
        """Return the solution for every l2, on the rows of the fit.

        The first call decomposes, O(n_basis³); after the first each l2 costs O(n_basis²). ``l2s`` may be in any order.
        """
        training, penalties = self._known_training("path"), checked_l2s(l2s)
        with np.errstate(over="ignore", invalid="ignore"):
            learned = self._learned(training, training.system.spectrum.coefficients(penalties))
        check_finite(learned)
        return RLSPath(penalties, learned, copy(self))  # a copy: another fit of this ranker must not change the path

    def leave_query_out(self, l2s: ArrayLike) -> Matrix:
        """Return scores of every training row under the ranker learned without its query, for each l2 (n_rows, n_l2s).

        The basis stays: its vectors are no examples. Costs O(n_rows n_basis²) once and then for each l2
        O(Σ n_q² n_basis + n_q³) over queries of n_q rows. With ``n_basis`` rows are read a block at a time, and memory
        holds some n_basis × n_basis matrices and the scores.
        """
        return held_out_scores(self._known_training("leave_query_out"), checked_l2s(l2s))

    def _known_training(self, what: str) -> Training:
        check_is_fitted(self)
        if not hasattr(self, "_training"):
            raise InputError(f"{what} needs the training rows, which are not saved with a ranker; fit it again")
        return self._training

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_") or hasattr(self, "dual_coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    # -- saving -------------------------------------------------------------------------------------------------

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if params["n_basis"] is not None:
            params["n_basis"] = np.asarray(params["n_basis"]).tolist()  # a number, or a sequence of row numbers
        return params

    def _weights(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"n_features": np.array([self.n_features_in_])}
        for name in ("coef_", "dual_coef_", "basis_rows_", "_places"):
            if hasattr(self, name):
                arrays[name.strip("_")] = getattr(self, name)
        if hasattr(self, "basis_"):
            if sparse.issparse(self.basis_):
                arrays |= {f"basis_{part}": getattr(self.basis_, part) for part in ("data", "indices", "indptr")}
            else:
                arrays["basis"] = self.basis_
        return arrays

    def _take_weights(self, arrays: dict[str, NDArray[Any]], where: str) -> None:
        (n_features,) = take_array(arrays, "n_features", np.int64, (1,), where=where)
        self.n_features_in_ = int(n_features)
        if self.n_features_in_ < 1:
            raise DamagedBundleError(f"{where}: n_features is {n_features}; expected 1 or more")
        n_learned = self.n_features_in_ if self.kernel == "linear" else None
        name = "coef_" if self.kernel == "linear" else "dual_coef_"
        learned = take_array(arrays, name.strip("_"), np.float64, (n_learned,), where=where).copy()
        setattr(self, name, learned)
        if self.n_basis is not None:
            n_rows = None if self.kernel == "linear" else len(learned)
            self.basis_rows_ = take_array(arrays, "basis_rows", np.int64, (n_rows,), where=where).copy()
            if self.basis_rows_.min(initial=0) < 0:
                raise DamagedBundleError(f"{where}: basis_rows must be row numbers, from 0 up")
        if self.kernel == "precomputed":
            self._places = take_array(arrays, "places", np.int64, (len(learned),), where=where).copy()
            if self._places.min(initial=0) < 0 or self._places.max(initial=0) >= self.n_features_in_:
                raise DamagedBundleError(f"{where}: places must be from 0 to {self.n_features_in_ - 1}")
        elif self.kernel != "linear":
            self.basis_ = saved_basis(arrays, (len(learned), self.n_features_in_), where)


class RankRLS(KernelLeastSquares):
    """RankRLS: differences of scores are fitted to differences of grades, over all pairs of rows of a query.

    Minimizes ``½ Σ ((y_i - y_j) - (f(x_i) - f(x_j)))² + l2 |f|²`` over ordered pairs within queries, ties included,
    with f from the functions of a kernel (Tsivtsivadze et al. 2008). With ``n_basis`` only ``n_basis`` training rows
    are basis vectors (sparse RankRLS, equation 8), while all rows count as examples.

    Parameters
    ----------
    kernel : "linear", "gaussian" ``exp(-gamma |a - b|²)``, "polynomial" ``(gamma a·b + coef0) ** degree``, "cosine",
        "precomputed" (X is the kernel matrix)
    gamma : see ``kernel``; None means 1 / n_features
    degree, coef0 : see ``kernel``
    l2 : λ, the strength of the penalty; a query of n rows has n² terms: scale λ with the size of queries
    n_basis : number of training rows as basis vectors (r), drawn at random, or their row numbers (R); None for all. A
        linear kernel with fewer features than rows is then solved for a weight of each feature, the same function
    random_state : seed of the basis

    Attributes
    ----------
    coef_ : with a linear kernel, the weights of features (n_features,)
    dual_coef_ : with any other, the coefficients of the basis vectors (n_basis,)
    basis_ : the basis vectors (n_basis, n_features); not with "linear" and "precomputed"
    basis_rows_ : row numbers of the basis (n_basis,), for a given ``n_basis``

    Notes
    -----
    Costs O(n_rows n_basis²) time; memory holds a block of rows of the kernel. Without ``n_basis`` O(n_rows³), and
    memory for one kernel matrix. A fitted ranker keeps a reference to X, and two n_basis × n_basis matrices, for
    ``path`` and ``leave_query_out``: leave X unchanged until then.

    Basis vectors near combinations of other basis vectors get the coefficient 0; the learned function stays the same.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.1], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = RankRLS(kernel="gaussian", gamma=1.0, n_basis=2).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> scores = ranker.predict(X)
    >>> bool(scores[0] > scores[1] and scores[2] > scores[3])
    True
    """

    def _compared(self, y: Vector, qid: Any) -> tuple[Comparisons, RowNumbers]:
        query, n_queries = query_numbers(qid, len(y))
        rows = np.argsort(query, kind="stable")
        starts = np.searchsorted(query[rows], np.arange(n_queries + 1))
        if np.array_equal(np.minimum.reduceat(y[rows], starts[:-1]), np.maximum.reduceat(y[rows], starts[:-1])):
            raise InputError(
                "no query has two documents of different grades, so there is nothing to learn from "
                f"(n_samples={len(y)})"
            )
        return Comparisons(y, rows, starts), query


class RLSRegressor(RegressorMixin, KernelLeastSquares):
    """Regularized least-squares regression, the baseline of RankRLS: every row's own grade is fitted.

    Minimizes ``Σ (y_i - f(x_i))² + l2 |f|²``, without a constant term. Parameters, attributes and costs are those of
    ``RankRLS``. Queries only define the groups of ``leave_query_out``; without queries each row
    is a group.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.1], [0.9, 0.3], [0.1, 0.2]])
    >>> RLSRegressor(l2=0.1).fit(X, [1, 0, 1, 0]).predict(X).round(1).tolist()
    [1.0, 0.0, 0.9, 0.1]
    """

    # A regressor is scored by R².
    __metadata_request__score: ClassVar[dict[str, bool | str | None]] = {"qid": UNUSED}
    _compares_within_queries = False

    def _compared(self, y: Vector, qid: Any) -> tuple[Comparisons, RowNumbers]:
        every = np.arange(len(y))
        alone = Comparisons(y, every, np.arange(len(y) + 1), within_queries=False)
        return alone, every if qid is None else query_numbers(qid, len(y))[0]


@dataclass(frozen=True, eq=False, repr=False)
class RLSPath:
    """Solutions for many l2; made by ``RankRLS.path`` and ``RLSRegressor.path``.

    Attributes
    ----------
    l2s : penalties (n,)
    coefficients : one row for each (n, n_coefficients): of the basis vectors, or of the features if the ranker has a
        ``coef_``
    ranker : fitted ranker, with a single l2

    Examples
    --------
    >>> import numpy as np
    >>> from tercet.learn.rls import RankRLS
    >>> X = np.array([[1.0, 0.2], [0.0, 0.1], [0.9, 0.3], [0.1, 0.2]])
    >>> path = RankRLS().fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"]).path([0.1, 1.0, 10.0])
    >>> path, path.predict(X).shape
    (RLSPath(3 penalties, 0.1 to 10), (4, 3))
    """

    l2s: Vector
    coefficients: Matrix
    ranker: KernelLeastSquares

    def __repr__(self) -> str:
        return f"RLSPath({len(self.l2s)} penalties, {self.l2s.min():g} to {self.l2s.max():g})"

    def predict(self, X: Any) -> Matrix:
        """Return the scores of all rows for every l2 (n_rows, n); the kernel of the rows is made once."""
        return self.ranker._scores(X, self.coefficients.T)


def held_out_scores(training: Training, l2s: Vector) -> Matrix:
    """Return the score of every row under the solution without its query, for each l2 (n_rows, n_l2s)."""
    if (training.query == training.query[0]).all():
        raise InputError("there is one query only; without it there is nothing to learn from")
    with np.errstate(over="ignore", invalid="ignore"):
        scores = training.system.held_out(training.query, l2s)
    check_finite(scores)
    return scores


# -- checks -----------------------------------------------------------------------------------------------------------


def basis_rows(n_basis: Any, n_rows: int, seed: int) -> RowNumbers:
    """Return the given row numbers, with repeats, or a given number of random rows, in rising order."""
    if isinstance(n_basis, Integral) or np.ndim(n_basis) == 0:
        if int(n_basis) > n_rows:
            raise InputError(f"n_basis is {n_basis}, but X has {n_rows} rows (n_samples={n_rows}); None takes them all")
        return np.sort(np.random.default_rng(seed).choice(n_rows, int(n_basis), replace=False))
    rows = np.asarray(n_basis)
    if rows.ndim != 1 or not rows.size or rows.dtype.kind not in "iu":
        raise InputError(
            f"n_basis must be a number, or row numbers, at least one; got shape {rows.shape} of dtype {rows.dtype}"
        )
    wrong = (rows < 0) | (rows >= n_rows)
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"n_basis[{first}] is row {rows[first]}, but X has {n_rows} rows (0 to {n_rows - 1})")
    return rows.astype(np.int64)


def _positions(K: Any, basis: RowNumbers) -> RowNumbers:
    """Return the columns of the basis in a given kernel matrix, of all rows or of the basis."""
    return basis if K.shape[1] == K.shape[0] else np.arange(len(basis))


def check_kernel_matrix(K: Any, basis: RowNumbers | None) -> None:
    """Raise an InputError if a given matrix is no kernel of its rows, or of its rows with the basis."""
    n_rows, n_columns = K.shape
    if n_columns != n_rows and (basis is None or n_columns != len(basis)):
        raise InputError(
            f"X has shape {K.shape}; with kernel='precomputed' it must have a column for each of its {n_rows} rows"
            + ("" if basis is None else f", or for each of the {len(basis)} rows of n_basis")
        )
    square = K if n_columns == n_rows else K[basis]
    worst = float(abs(square - square.T).max())
    if worst > 1e-8 * float(abs(square).max()):
        raise InputError(f"X is no kernel matrix: it is not symmetric; an entry and its mirror image differ by {worst}")


def check_memory(n: int, n_matrices: int) -> None:
    """Raise a MemoryLimitError if ``n_matrices`` n × n matrices exceed the memory of this machine."""
    needed, available = 8 * n_matrices * n * n, physical_memory()
    if needed > available:
        raise MemoryLimitError(
            f"a kernel of {n:,} basis vectors, or features, needs {needed / 2**30:.1f} GiB, but this machine has "
            f"{available / 2**30:.1f} GiB; a smaller n_basis needs less"
        )


def checked_l2s(l2s: ArrayLike) -> Vector:
    """Check one or more penalties, all above 0."""
    try:
        values = np.atleast_1d(np.asarray(l2s, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        values = np.empty(0)
    if values.ndim != 1 or not values.size or not (np.isfinite(values) & (values > 0)).all():
        raise InputError(f"l2s must be one or more finite numbers above 0; got {l2s!r}")
    return values


def saved_basis(arrays: dict[str, NDArray[Any]], shape: tuple[int, int], where: str) -> Any:
    """The basis vectors of a bundle, dense or CSR, checked."""
    if "basis" in arrays:
        return take_array(arrays, "basis", np.float64, shape, where=where).copy()
    whole = (np.int32, np.int64)
    data = take_array(arrays, "basis_data", np.float64, 1, where=where).copy()
    indices = take_array(arrays, "basis_indices", whole, 1, where=where).copy()
    indptr = take_array(arrays, "basis_indptr", whole, (shape[0] + 1,), where=where).copy()
    try:
        basis = sparse.csr_array((data, indices, indptr), shape=shape)
        basis.check_format(full_check=True)
    except ValueError as error:
        raise DamagedBundleError(f"{where}: the basis is no matrix: {error}") from error
    return basis
