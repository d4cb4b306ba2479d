"""Base of rankers of feature vectors: checks, saving and loading."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from tercet.data.row_queries import queries_of, without_query_column
from tercet.errors import DamagedBundleError, InputError
from tercet.learn.base import Ranker, SavedRanker
from tercet.store.codec import decode
from tercet.store.fields import described


class FeatureRanker(Ranker):
    """Ranker of rows of features, dense or CSR; each row belongs to a query.

    Subclasses name the arrays of their weights (``_weights``, ``_take_weights``) and other learned state.
    """

    # Metadata that scikit-learn routes to these methods by default.
    __metadata_request__fit: ClassVar[dict[str, bool | str]] = {"qid": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool | str]] = {"qid": True}
    # A pipeline passes sample_weight=None on; declared here only so that scikit-learn accepts the argument.
    __metadata_request__score: ClassVar[dict[str, bool | str | None]] = {"qid": True, "sample_weight": None}

    _learned_scalars: ClassVar[
        dict[str, type]
    ] = {}  # learned numbers besides the weights: name without "_" -> int or float
    _compares_within_queries: ClassVar[bool] = True  # True if learning and measuring need queries

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    @abstractmethod
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each row; within a query, the highest score ranks first."""

    def score(self, X: Any, y: Any, qid: Any = None, group: Any = None) -> float:
        """Return the mean nDCG@10 of the queries, ranked by ``predict``; `tc.scorer` has every other measure.

        Parameters
        ----------
        X, qid, group : as in ``fit``
        y : one grade per row, whole numbers
        """
        from tercet.measure import scorer  # imported here: the module loads many others

        return scorer()(self, X, y, qid=qid, group=group)

    # -- saving -------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        meta = {
            "class": type(self).__name__,
            "params": self._saved_params(),
            "feature_names": None if names is None else [str(name) for name in names],
            "state": self._state_meta(),
        }
        return meta, {**self._weights(), **self._state_arrays()}

    @abstractmethod
    def _weights(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the score by their names in a file."""

    @abstractmethod
    def _take_weights(self, arrays: dict[str, NDArray[Any]], where: str) -> None:
        """Invert ``_weights``; set ``n_features_in_`` too."""

    def _state_meta(self) -> dict[str, Any]:
        """Return the numbers needed to learn on, and the learned numbers besides the weights."""
        return {name: getattr(self, f"{name}_") for name in self._learned_scalars}

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays needed to learn on, without the weights."""
        return {}

    def _restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str) -> None:
        """Invert ``_state_meta`` and ``_state_arrays``, after ``_take_weights``."""
        if meta.keys() != self._learned_scalars.keys():
            raise DamagedBundleError(f"{where} has {sorted(meta)}; expected {sorted(self._learned_scalars)}")
        for name, kind in self._learned_scalars.items():
            if type(meta[name]) not in (kind, int):
                raise DamagedBundleError(f"{where}.{name} is {described(meta[name])}; expected {kind.__name__}")
            setattr(self, f"{name}_", meta[name])

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        where, arrays = saved.where, saved.arrays
        stored = decode(SavedFeatureRanker, saved.meta, where=where)
        ranker = cls._with_params(params, where)
        ranker._take_weights(arrays, where)
        if stored.feature_names is not None:
            if len(stored.feature_names) != ranker.n_features_in_:
                raise DamagedBundleError(f"{where}: expected {ranker.n_features_in_} feature names")
            ranker.feature_names_in_ = np.array(stored.feature_names, dtype=object)
        ranker_arrays = {name: array for name, array in arrays.items() if name not in ranker._weights()}
        ranker._restore(stored.state, ranker_arrays, f"{where} state")
        if {*ranker._weights(), *ranker._state_arrays()} != arrays.keys():
            raise DamagedBundleError(f"{where}: the arrays are not those of a {cls.__name__}")
        return ranker

    # -- checking -----------------------------------------------------------------------------------------------

    def _note_features(self, other: FeatureRanker) -> None:
        """Take the number and the names of the features from another ranker."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))

    def _queries(self, X: Any, qid: Any, group: Any = None) -> Any:
        """Return the query id of each row; None if the ranker needs no queries and none are given."""
        ids = queries_of(X, qid, group)
        if ids is None and self._compares_within_queries:
            raise InputError(
                f"{type(self).__name__} compares the rows of a query, but no queries were given. Add qid=, one query "
                f"id per row; to a pipeline, {type(self).__name__.lower()}__qid=. If all rows belong to one query, add "
                "qid=[0] * len(y)"
            )
        return ids

    def _validated(self, X: Any, *y: Any, dtype: Any = (np.float64, np.float32), **how: Any) -> Any:
        """Return X, or X and y, checked by scikit-learn: a C-ordered array or a CSR matrix of the dtype."""
        try:
            rows = without_query_column(X)
            checked = validate_data(self, rows, *y, accept_sparse="csr", dtype=dtype, order="C", **how)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(str(error)) from None
        if isinstance(checked, tuple):
            _check_grades(checked[1])
        return checked


@dataclass(frozen=True)
class SavedFeatureRanker:
    """Saved ranker of feature vectors without class and parameters."""

    feature_names: list[str] | None
    state: dict[str, Any]


def _check_grades(y: NDArray[Any]) -> None:
    """Refuse words and NaN among grades; scikit-learn accepts both."""
    if y.dtype.kind not in "iufb":
        raise InputError(f"y must have a real number for each row; got dtype {y.dtype}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int((~np.isfinite(y)).argmax())
        raise InputError(f"y[{row}] is {y[row]}; every grade must be a finite number")
