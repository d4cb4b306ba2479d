"""What every linear ranker of feature vectors can do; a method only says how it finds its weights."""

from __future__ import annotations

from abc import abstractmethod
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted, validate_data

from tercet.errors import DamagedBundleError, DivergedError, InputError, ParameterError
from tercet.learn.base import KIND
from tercet.learn.linear.queries import Queries
from tercet.store import Fields, take_array, write_bundle

# (dense, indptr, indices, data, is_dense); one of the two matrices is empty
KernelFeatures = tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int32], NDArray[Any], bool]

_BYTES_AT_ONCE = 2**25


class LinearRanker(BaseEstimator):
    """A ranker of feature vectors whose score is ``x · coef_``.

    Subclasses learn in ``_learn(X, queries)`` and call ``_keep``. Learned: ``coef_`` (n_features,), in double
    precision, and ``n_features_in_``.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _added_parameters: ClassVar[dict[str, Any]] = {}  # as in TermPairRanker
    _told: ClassVar[dict[str, type]] = {}  # numbers learned beside the weights: name without "_", int or float

    coef_: NDArray[np.float64]

    def fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Learn from the start.

        Parameters
        ----------
        X : features, dense or CSR, one row per document of a query
        y : one grade per row; within a query, a higher one is better
        qid : the query of each row, any hashable ids, in any order; None when all rows are of one query
        """
        self._check_params()
        self._forget()
        self._learn(*self._rows_to_learn(X, y, qid))
        return self

    @abstractmethod
    def _learn(self, X: Any, queries: Queries) -> None:
        """Find the weights; X is a C-ordered array or a CSR matrix, and at least one query has pairs."""

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The score of each row; within a query, the highest stands first."""
        check_is_fitted(self)
        return scores(self._validated(X, reset=False), self.coef_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _keep(self, weights: NDArray[np.float64]) -> None:
        """Make these the learned weights."""
        if not np.isfinite(weights).all():
            self._forget()
            feature = int((~np.isfinite(weights)).argmax())
            raise DivergedError(
                f"the weight of feature {feature} is {weights[feature]}; {type(self).__name__} needs smaller steps, "
                "or features of a smaller scale"
            )
        self.coef_ = weights

    def _forget(self) -> None:
        """Count as not fitted until something is learned."""
        for name in ("coef_", "_state"):
            if hasattr(self, name):
                delattr(self, name)

    # -- saving -------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the ranker to a folder; ``tc.load`` gives it back, ready to rank and to learn on."""
        check_is_fitted(self)
        params = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params(deep=False).items()
        }
        added = self._added_parameters
        params = {name: value for name, value in params.items() if name not in added or value != added[name]}
        names = getattr(self, "feature_names_in_", None)
        meta = {
            "class": type(self).__name__,
            "params": params,
            "feature_names": None if names is None else [str(name) for name in names],
            "state": self._state_meta(),
        }
        write_bundle(path, kind=KIND, meta=meta, arrays={"coef": self.coef_, **self._state_arrays()})

    def _state_meta(self) -> dict[str, Any]:
        """What is needed beside the arrays to learn on, and what is told of the learning."""
        return {name: getattr(self, f"{name}_") for name in self._told}

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        """What is needed beside the weights to learn on."""
        return {}

    def _restore(self, fields: Fields, arrays: dict[str, NDArray[Any]]) -> None:
        """The inverse of ``_state_meta`` and ``_state_arrays``; ``coef_`` is there already."""
        for name, kind in self._told.items():
            setattr(self, f"{name}_", fields.take(name, kind))

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        ranker = cls(**params)
        try:
            ranker._check_params()
        except ParameterError as error:
            raise DamagedBundleError(f"{fields.where}: {error}") from error
        ranker.coef_ = take_array(arrays, "coef", np.float64, 1, where=fields.where).copy()
        ranker.n_features_in_ = ranker.coef_.size
        names = fields.take("feature_names", list | None)
        if names is not None:
            if len(names) != ranker.n_features_in_ or not all(isinstance(name, str) for name in names):
                raise DamagedBundleError(f"{fields.where}: expected {ranker.n_features_in_} feature names")
            ranker.feature_names_in_ = np.array(names, dtype=object)
        state = Fields(fields.take("state", dict), f"{fields.where} state")
        ranker._restore(state, arrays)
        state.done()
        if {"coef", *ranker._state_arrays()} != arrays.keys():
            raise DamagedBundleError(f"{fields.where}: the arrays are not those of a {cls.__name__}")
        return ranker

    # -- checking -----------------------------------------------------------------------------------------------

    def _check_params(self) -> None:
        try:
            self._validate_params()
        except InvalidParameterError as error:
            raise ParameterError(str(error)) from None

    def _rows_to_learn(self, X: Any, y: Any, qid: Any) -> tuple[Any, Queries]:
        features, queries = self._check_rows(X, y, qid, reset=True)
        if not len(queries):
            raise InputError(
                "no query has two documents of different grades, so there is nothing to learn from "
                f"(n_samples={features.shape[0]})"
            )
        return features, queries

    def _note_features(self, other: LinearRanker) -> None:
        """Take the number and the names of the features from another ranker."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))

    def _check_rows(self, X: Any, y: Any, qid: Any, *, reset: bool) -> tuple[Any, Queries]:
        features, labels = self._validated(X, y, reset=reset, y_numeric=True)
        return features, Queries.of(labels, qid)

    def _validated(self, *given: Any, **how: Any) -> Any:
        try:
            return validate_data(self, *given, accept_sparse="csr", dtype=(np.float64, np.float32), order="C", **how)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from None


def scores(X: Any, coefs: NDArray[np.float64]) -> NDArray[np.float64]:
    """``X @ coefs`` in double precision; of single-precision rows only some are held in double at a time."""
    if sparse.issparse(X) or X.dtype == np.float64 or not len(X):
        return np.asarray(X @ coefs, dtype=np.float64)
    at_once = max(1, _BYTES_AT_ONCE // (8 * X.shape[1]))
    return np.concatenate([X[start : start + at_once] @ coefs for start in range(0, len(X), at_once)])


def kernel_features(X: Any) -> KernelFeatures:
    """Dense or CSR features as the kernels take them, not copied where they are right already."""
    is_dense = not sparse.issparse(X)
    dense = X if is_dense else np.empty((0, 0), dtype=X.dtype)
    indptr, indices, data = (np.empty(0),) * 3 if is_dense else (X.indptr, X.indices, X.data)
    return (
        _read_only(dense, X.dtype),
        _read_only(indptr, np.int64),
        _read_only(indices, np.int32),
        _read_only(data, X.dtype),
        is_dense,
    )


def _read_only(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    # As memory-mapped rows are: a kernel is compiled for each kind of array.
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view
