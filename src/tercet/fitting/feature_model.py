"""Model of feature vectors: a fitted ranker, the names of its features, and the report of its choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import LetorData
from tercet.data.feature_names import checked_feature_names
from tercet.errors import DamagedBundleError, InputError
from tercet.learn.base import load_ranker
from tercet.learn.features import FeatureRanker
from tercet.measure import Evaluation, Measure, measure_rows
from tercet.report import Report
from tercet.report.html import Html, element, join
from tercet.report.table import Cell, Table
from tercet.store import Bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.store.kinds import FEATURE_MODEL, RANKER

LETOR_MEASURES = (*(f"nDCG(dcg='exp-log2')@{k}" for k in (1, 3, 5, 10)), "AP")

_SECTION = "ranker."
_ROWS_SHOWN = 20
_USUAL = {"loss": "hinge2", "kernel": "linear"}  # a ranker's name tells other values


class FeatureWeight(NamedTuple):
    """Feature, counted from 1 as in LETOR files, with its name, if any, and its weight."""

    feature: int
    name: str | None
    weight: float

    @property
    def label(self) -> str:
        """Number and name of the feature."""
        return f"{self.feature}" if self.name is None else f"{self.feature} {self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class FeatureModel:
    """Score feature vectors by a fitted ranker.

    Parameters
    ----------
    ranker : a fitted ranker of feature vectors, linear or not
    feature_names : names of all features, or None
    report : report of `fit_letor`, or None

    Examples
    --------
    >>> from tercet.learn.linear import FTRLRanker
    >>> ranker = FTRLRanker(l1=0.5, rate=1.0).fit([[1.0, 0.2], [0.0, 0.2]], [1, 0], qid=[7, 7])
    >>> [(row.label, round(row.weight, 2)) for row in FeatureModel(ranker, ("BM25", "length")).features()]
    [('1 BM25', 0.67)]
    """

    ranker: FeatureRanker
    feature_names: tuple[str, ...] | None = None
    report: Report | None = None

    def __post_init__(self) -> None:
        is_fitted = getattr(self.ranker, "__sklearn_is_fitted__", lambda: True)
        if not hasattr(self.ranker, "n_features_in_") or not is_fitted():  # a failed fit has n_features_in_, too
            raise InputError(f"the {type(self.ranker).__name__} is not fitted; call its fit first")
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", checked_feature_names(self.feature_names, self.n_features))
        if self.report is not None:
            n_reported = 0 if self.report.features is None else self.report.features.n_features
            if n_reported != self.n_features:
                raise InputError(f"the report is of {n_reported} features, the ranker of {self.n_features}")

    def __repr__(self) -> str:
        used = n_used(self.ranker)
        share = "" if used is None else f"{used:,} of "
        return f"FeatureModel({type(self.ranker).__name__}, {share}{self.n_features:,} features)"

    def _repr_html_(self) -> str:
        table = Table("Features", ["feature", "weight"], n_labels=1)
        table.rows += [[Cell(name), Cell(f"{weight:+.4g}")] for name, weight in self.weights_by_name()[:_ROWS_SHOWN]]
        report = "" if self.report is None else Html(self.report._repr_html_())
        return join([element("p", repr(self)), table.as_html() if table.rows else "", report])

    @property
    def n_features(self) -> int:
        """Number of features, with and without a weight."""
        return int(self.ranker.n_features_in_)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Score each row; X has the columns of the training data."""
        return np.asarray(self.ranker.predict(X), dtype=np.float64)

    def features(self) -> list[FeatureWeight]:
        """Return the features with a weight, the strongest first, ties by number.

        The list is empty for a ranker without weights of features, such as a kernel ranker.
        """
        weights = weights_of(self.ranker)
        if weights is None:
            return []
        strongest = np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)]
        names = self.feature_names
        return [FeatureWeight(int(j) + 1, names[j] if names else None, float(weights[j])) for j in strongest]

    def weights_by_name(self) -> list[tuple[str, float]]:
        """Return label and weight of each of the ``features``."""
        return [(row.label, row.weight) for row in self.features()]

    def evaluate(self, data: LetorData, measures: str | Iterable[str | Measure] = LETOR_MEASURES) -> Evaluation:
        """Measure the model on judged rows; `fit_width` adapts rows of another width."""
        rows, _ = fit_width(data, self.n_features, "data")
        return measure_rows(rows.y, self.predict(rows.X), rows.qid, measures)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a folder for ``tc.load``."""
        ranker_meta, ranker_arrays = self.ranker.to_state()
        meta, _ = encode(_SavedFeatureModel(ranker_meta, self.feature_names, self.report))
        arrays = {_SECTION + name: array for name, array in ranker_arrays.items()}
        write_bundle(path, kind=FEATURE_MODEL, meta=meta, arrays=arrays)

    @classmethod
    def from_bundle(cls, bundle: Bundle, classes: Mapping[str, Any]) -> FeatureModel:
        """Read the model from a bundle; ``classes`` are the allowed rankers by name."""
        saved = decode(_SavedFeatureModel, bundle.meta, where=f"{bundle.path}: meta")
        for name in bundle.arrays:
            if not name.startswith(_SECTION):
                raise DamagedBundleError(f"{bundle.path} has an unexpected array {name!r}")
        arrays = {name.removeprefix(_SECTION): array for name, array in bundle.arrays.items()}
        ranker = load_ranker(Bundle(RANKER, saved.ranker, arrays, bundle.path), dict(classes))
        try:
            return cls(ranker, saved.feature_names, saved.report)
        except InputError as error:
            raise DamagedBundleError(f"{bundle.path}: {error}") from error


@dataclass(frozen=True)
class _SavedFeatureModel:
    ranker: dict[str, Any]
    feature_names: tuple[str, ...] | None
    report: Report | None


def weights_of(ranker: Any) -> NDArray[np.float64] | None:
    """Return the weight of each feature; None for a ranker without weights of features."""
    return getattr(ranker, "coef_", None)


def n_used(ranker: Any) -> int | None:
    """Count the features with a weight; None for a ranker without weights of features."""
    weights = weights_of(ranker)
    return None if weights is None else int(np.count_nonzero(weights))


def ranker_name(ranker: Any) -> str:
    """Name the class of a ranker, with an unusual loss or kernel."""
    params = ranker.get_params()
    unusual = [params[name] for name, usual in _USUAL.items() if params.get(name, usual) != usual]
    return ", ".join(
        [type(ranker).__name__, *("a kernel of its own" if callable(value) else value for value in unusual)]
    )


def fit_width(data: LetorData, n_features: int | None, name: str) -> tuple[LetorData, str | None]:
    """Give rows the columns of a model, if any, with a note if the width changed.

    A file ends at its largest feature id: missing columns are zeros. Features beyond the training data have no
    weight and are left out.

    Examples
    --------
    >>> data, note = fit_width(LetorData([[0.5, 1.0, 2.0]], [1], ["7"]), 2, "test.txt")
    >>> data.X.shape, note
    ((1, 2), 'test.txt has features up to 3, training up to 2: the others are left out.')
    """
    if not isinstance(data, LetorData):
        raise InputError(f"{name} must be LetorData, as read_letor gives it; got {type(data).__name__}")
    width = data.n_features
    if n_features is None or n_features == width:
        return data, None
    X: Any = data.X
    if width > n_features:
        X = X[:, :n_features]
    elif sparse.issparse(X):
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(len(data), n_features))
    else:
        X = np.pad(X, ((0, 0), (0, n_features - width)))
    change = "the others are left out" if width > n_features else "the missing ones are taken as 0"
    note = f"{name} has features up to {width}, training up to {n_features}: {change}."
    return LetorData(X, data.y, data.qid, data.comments), note
