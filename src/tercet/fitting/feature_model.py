"""A model of feature vectors: a fitted ranker, the names of its features and the report of how it was chosen."""

from __future__ import annotations

import re
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

_DOCUMENT = re.compile(r"\bdocid\s*=\s*(\S+)")
_SECTION = "ranker."
_ROWS_SHOWN = 20


class FeatureWeight(NamedTuple):
    """A feature, counted from 1 as in LETOR files, its name where it has one, and its weight."""

    feature: int
    name: str | None
    weight: float

    @property
    def label(self) -> str:
        """Number and name."""
        return f"{self.feature}" if self.name is None else f"{self.feature} {self.name}"


@dataclass(frozen=True, eq=False, repr=False)
class FeatureModel:
    """Scores feature vectors.

    Parameters
    ----------
    ranker : a fitted ranker of feature vectors: linear, or another that has ``n_features_in_``, ``predict`` and
        ``to_state``
    feature_names : one for each feature, or None
    report : how it was chosen, as `fit_letor` tells it

    Examples
    --------
    >>> from tercet.learn.linear import FTRLRanker
    >>> ranker = FTRLRanker(l1=0.5, rate=1.0).fit([[1.0, 0.2], [0.0, 0.2]], [1, 0])
    >>> [(row.label, round(row.weight, 2)) for row in FeatureModel(ranker, ("BM25", "length")).features()]
    [('1 BM25', 0.67)]
    """

    ranker: FeatureRanker
    feature_names: tuple[str, ...] | None = None
    report: Report | None = None

    def __post_init__(self) -> None:
        is_fitted = getattr(self.ranker, "__sklearn_is_fitted__", lambda: True)
        if not hasattr(self.ranker, "n_features_in_") or not is_fitted():  # a fit that failed knows the features, too
            raise InputError(f"the {type(self.ranker).__name__} is not fitted; call its fit first")
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", checked_feature_names(self.feature_names, self.n_features))
        if self.report is not None:
            if not isinstance(self.report, Report) or self.report.features is None:
                raise InputError(f"the report must be a Report of feature vectors; got {type(self.report).__name__}")
            n_reported = self.report.features.n_features
            if n_reported != self.n_features:
                raise InputError(f"the report is of {n_reported} features, the ranker of {self.n_features}")

    def __repr__(self) -> str:
        weights = weights_of(self.ranker)
        used = "" if weights is None else f"{np.count_nonzero(weights):,} of "
        return f"FeatureModel({type(self.ranker).__name__}, {used}{self.n_features:,} features)"

    def _repr_html_(self) -> str:
        parts: list[object] = [element("p", repr(self))]
        if weights_of(self.ranker) is not None:
            rows = self.features()
            table = Table("Features", ["feature", "name", "weight"], n_labels=2)
            table.rows += [
                [Cell(str(row.feature)), Cell(row.name or ""), Cell(f"{row.weight:+.4g}")] for row in rows[:_ROWS_SHOWN]
            ]
            rest = len(rows) - _ROWS_SHOWN
            parts += [table.as_html(), element("p", f"and {rest:,} more with smaller weights") if rest > 0 else ""]
        return join([*parts, Html(self.report._repr_html_()) if self.report is not None else ""])

    @property
    def n_features(self) -> int:
        """Number of features, with and without a weight."""
        return int(self.ranker.n_features_in_)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The score of each row; X has the columns of the training data."""
        return np.asarray(self.ranker.predict(X), dtype=np.float64)

    def features(self) -> list[FeatureWeight]:
        """The features with a weight, by size of weight, the strongest first; of equal ones the lower number."""
        weights = weights_of(self.ranker)
        if weights is None:
            raise InputError(f"a {type(self.ranker).__name__} has no weights of single features")
        names = self.feature_names
        used = np.flatnonzero(weights)
        strongest = used[np.argsort(-np.abs(weights[used]), kind="stable")]
        return [FeatureWeight(int(j) + 1, names[j] if names else None, float(weights[j])) for j in strongest]

    def weights_by_name(self) -> list[tuple[str, float]]:
        """The features with a weight by number and name, the strongest first; none of a ranker without weights."""
        if weights_of(self.ranker) is None:
            return []
        return [(row.label, row.weight) for row in self.features()]

    def evaluate(self, data: LetorData, measures: str | Iterable[str | Measure] = LETOR_MEASURES) -> Evaluation:
        """Measure the model on judged rows; `fit_width` says what becomes of rows of another width."""
        if not isinstance(data, LetorData):
            raise InputError(f"data must be LetorData, as read_letor gives it; got {type(data).__name__}")
        rows, _ = fit_width(data, self.n_features, "data")
        return measure_rows(rows.y, self.predict(rows.X), rows.qid, measures)

    # -- saving -------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a folder; ``tc.load`` gives it back."""
        ranker_meta, ranker_arrays = self.ranker.to_state()
        meta, _ = encode(_SavedFeatureModel(ranker_meta, self.feature_names, self.report))
        arrays = {_SECTION + name: array for name, array in ranker_arrays.items()}
        write_bundle(path, kind=FEATURE_MODEL, meta=meta, arrays=arrays)

    @classmethod
    def from_bundle(cls, bundle: Bundle, classes: Mapping[str, Any]) -> FeatureModel:
        """The model a bundle holds; ``classes`` are the rankers it may hold, by name."""
        saved = decode(_SavedFeatureModel, bundle.meta, where=f"{bundle.path}: meta")
        arrays: dict[str, NDArray[Any]] = {}
        for name, array in bundle.arrays.items():
            if not name.startswith(_SECTION):
                raise DamagedBundleError(f"{bundle.path} has an unexpected array {name!r}")
            arrays[name.removeprefix(_SECTION)] = array
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
    """The weight of each feature; None for a ranker whose scores are made of something else."""
    return getattr(ranker, "coef_", None)


# -- rows of files --------------------------------------------------------------------------------------------------


def fit_width(data: LetorData, n_features: int, name: str) -> tuple[LetorData, str | None]:
    """Rows with the columns a model knows, and a sentence on what was done to get them, if anything.

    A file ends at the largest id it has, so columns that are missing at the end are zeros. Features that training never
    saw have no weight; they are left out.

    Examples
    --------
    >>> data, note = fit_width(LetorData([[0.5, 1.0, 2.0]], [1], ["7"]), 2, "test.txt")
    >>> data.X.shape, note
    ((1, 2), 'test.txt has features up to 3, training up to 2: the others are left out.')
    """
    width = data.n_features
    if width == n_features:
        return data, None
    X: Any
    if sparse.issparse(data.X):
        X = data.X[:, :n_features].copy() if width > n_features else data.X.copy()
        X.resize(len(data), n_features)
    else:
        X = np.zeros((len(data), n_features), np.float32)
        X[:, : min(width, n_features)] = data.X[:, :n_features]
    what = "the others are left out" if width > n_features else "the missing ones are taken as 0"
    note = f"{name} has features up to {width}, training up to {n_features}: {what}."
    return LetorData(X, data.y, data.qid, data.comments), note


def document_ids(data: LetorData) -> tuple[list[str], bool]:
    """An id for each row, and whether comments gave them.

    Where every comment says ``docid = …``, those; else the numbers of the rows, from 1.
    """
    matches = [_DOCUMENT.search(comment) for comment in data.comments or ()]
    if not matches or None in matches:
        return [str(row) for row in range(1, len(data) + 1)], False
    return [match[1] for match in matches if match is not None], True


def as_run(data: LetorData, scores: NDArray[np.float64]) -> dict[str, dict[str, float]]:
    """Scores of rows as a run, qid -> doc_id -> score, ids as `document_ids` finds them."""
    ids, _ = document_ids(data)
    run: dict[str, dict[str, float]] = {}
    for qid, start, stop in zip(data.qids.tolist(), data.starts[:-1], data.starts[1:], strict=True):
        rows = ids[start:stop]
        run[qid] = dict(zip(rows, scores[start:stop].tolist(), strict=True))
        if len(run[qid]) < len(rows):
            twice = next(name for name in rows if rows.count(name) > 1)
            raise InputError(f"query {qid!r} has document {twice!r} in two rows; a run has each document once")
    return run
