"""Base of linear rankers of feature vectors."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tercet.errors import DivergedError, InputError
from tercet.kernels.ftrl import Features
from tercet.learn.features import FeatureRanker
from tercet.learn.linear.queries import Queries, mean_ranges
from tercet.learn.loop import current_executor
from tercet.store import take_array

_BYTES_AT_ONCE = 2**25


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRanker(FeatureRanker):
    """Ranker of feature vectors with the score ``x · coef_``.

    Subclasses learn in ``_learn(X, queries)`` and call ``_keep``. Learned: ``coef_`` (n_features,), in double
    precision, and ``n_features_in_``. With ``scale_features`` subclasses learn from features with the mean range 1
    within a query; ``coef_`` applies to the original features.

    Examples
    --------
    >>> from tercet.learn.linear import FTRLRanker
    >>> ranker = FTRLRanker(l1=0.5, rate=1.0).fit([[1.0, 0.2], [0.0, 0.2]], [1, 0], qid=[7, 7])
    >>> isinstance(ranker, LinearRanker), ranker.predict([[1.0, 0.2]]).round(2).tolist()
    (True, [0.67])
    """

    scale_features: bool = True

    _added_parameters: ClassVar[dict[str, Any]] = {"scale_features": False}
    coef_: NDArray[np.float64] = field(init=False)
    _scale: NDArray[np.float64] | None = field(init=False, default=None)  # divisor of each feature; None for 1

    def fit(self, X: Any, y: Any, qid: Any = None, group: Any = None) -> Self:
        """Learn from the start.

        Parameters
        ----------
        X : features, dense or CSR, one row per document of a query. Column ``qid`` of a frame is the query of each row
            and no feature. NaN and infinity are errors; fill missing values first
        y : one grade per row; within a query, higher is better
        qid : the query of each row, any hashable ids, in any order
        group : instead of ``qid``, the number of rows of each query in turn, as in LightGBM and XGBoost;
            ``[len(X)]`` if all rows belong to the same query
        """
        self._check_params()
        current_executor().check(self)
        self._forget()
        self._learn(*self._rows_to_learn(X, y, qid, group))
        return self

    @abstractmethod
    def _learn(self, X: Any, queries: Queries) -> None:
        """Find the weights; X is a C-ordered array or a CSR matrix, and at least one query has pairs."""

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each row; within a query, the highest score ranks first."""
        check_is_fitted(self)
        return scores(self._validated(X, reset=False), self.coef_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _keep(self, weights: NDArray[np.float64]) -> None:
        """Make these the learned weights."""
        if not np.isfinite(weights).all():
            feature = int((~np.isfinite(weights)).argmax())
            raise self._diverged(f"the weight of feature {feature} is {weights[feature]}")
        self.coef_ = weights if self._scale is None else weights / self._scale

    def _diverged(self, what: str) -> DivergedError:
        """Return the error for a number beyond float64; forget all learned state."""
        self._forget()
        return DivergedError(f"{what}; {type(self).__name__} needs smaller steps, or features of a smaller scale")

    def _forget(self) -> None:
        """Count as not fitted until something is learned."""
        for name in ("coef_", "_state", "_scale"):
            self.__dict__.pop(name, None)

    # -- saving -------------------------------------------------------------------------------------------------

    def _weights(self) -> dict[str, NDArray[Any]]:
        return {"coef": self.coef_}

    def _take_weights(self, arrays: dict[str, NDArray[Any]], where: str) -> None:
        self.coef_ = take_array(arrays, "coef", np.float64, 1, where=where).copy()
        self.n_features_in_ = self.coef_.size

    # -- checking -----------------------------------------------------------------------------------------------

    def _rows_to_learn(self, X: Any, y: Any, qid: Any, group: Any = None) -> tuple[Any, Queries]:
        features, queries = self._check_rows(X, y, qid, group, reset=True)
        if not len(queries):
            raise InputError(
                "no query has two documents of different grades, so there is nothing to learn from "
                f"(n_samples={features.shape[0]})"
            )
        return self._scaled(features, queries), queries

    def _scaled(self, X: Any, queries: Queries) -> Any:
        """Return the scaled features; the first rows with pairs set the scale of all later rows."""
        if self.scale_features and self._scale is None and len(queries):
            self._scale = mean_ranges(X, queries)
        if self._scale is None or (self._scale == 1.0).all():
            return X
        if not sparse.issparse(X):
            return X / self._scale.astype(X.dtype)
        divided = X.copy()
        divided.data = X.data / self._scale.astype(X.dtype)[X.indices]
        return divided

    def _note_features(self, other: FeatureRanker) -> None:
        super()._note_features(other)
        self._scale = getattr(other, "_scale", None)

    def _check_rows(self, X: Any, y: Any, qid: Any, group: Any = None, *, reset: bool) -> tuple[Any, Queries]:
        features, labels = self._validated(X, y, reset=reset, y_numeric=True)
        return features, Queries.from_labels(labels, self._queries(X, qid, group))


def scores(X: Any, coefs: NDArray[np.float64]) -> NDArray[np.float64]:
    """``X @ coefs`` in double precision; of single-precision rows only some are held in double at a time."""
    if sparse.issparse(X) or X.dtype == np.float64 or not len(X):
        return np.asarray(X @ coefs, dtype=np.float64)
    at_once = max(1, _BYTES_AT_ONCE // (8 * X.shape[1]))
    return np.concatenate([X[start : start + at_once] @ coefs for start in range(0, len(X), at_once)])


def kernel_features(X: Any) -> Features:
    """Return dense or CSR features in the types of the kernels, without a copy if the types fit."""
    is_dense = not sparse.issparse(X)
    dense = X if is_dense else np.empty((0, 0), dtype=X.dtype)
    indptr, indices, data = (np.empty(0),) * 3 if is_dense else (X.indptr, X.indices, X.data)
    return Features(
        _read_only(dense, X.dtype),
        _read_only(indptr, np.int64),
        _read_only(indices, np.int32),
        _read_only(data, X.dtype),
        is_dense,
    )


def _read_only(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    # Read-only like memory-mapped rows: a kernel is compiled for each kind of array.
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


@dataclass(eq=False, repr=False, kw_only=True)
class SparseLinearRanker(LinearRanker):
    """Linear ranker with one parameter, ``_penalty_name``, that controls the number of features."""

    _penalty_name: ClassVar[str] = "l1"
    _added_parameters: ClassVar[dict[str, Any]] = {**LinearRanker._added_parameters, "l1_share": 0.1}

    l1_share: Annotated[float, Interval(Real, 0, 1, closed="right")] = 0.1

    @abstractmethod
    def _first_penalty(self, X: Any, queries: Queries) -> float:
        """Return the weakest penalty that leaves no feature."""

    def _strength(self, X: Any, queries: Queries) -> float:
        """Return the given penalty, or a share of the weakest penalty that leaves no feature."""
        strength = getattr(self, self._penalty_name)
        return self._first_penalty(X, queries) * float(self.l1_share) if strength is None else float(strength)
