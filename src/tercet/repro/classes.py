"""Tasks of rows with classes: a row is a query for the others of its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import LabelledTexts, Preferences, read_20newsgroups, read_svmlight
from tercet.errors import InputError
from tercet.measure import average_precision_of_classes
from tercet.repro.files import found
from tercet.repro.plan import Data
from tercet.repro.readers import read_mnist
from tercet.repro.tasks import TEST_SEED, Scorer, Task, digest_of, wrong_preferences
from tercet.text import Analyser, Vectoriser


@dataclass(frozen=True, eq=False)
class ClassTask(Task):
    """Rows and classes of both halves; words name the columns where there are any."""

    Q: sparse.csr_array
    y: NDArray[Any]
    Q_test: sparse.csr_array
    y_test: NDArray[Any]
    words: list[str] | None = None

    @property
    def D(self) -> sparse.csr_array:
        return self.Q

    def digest(self) -> str:
        return digest_of(self.Q, self.Q_test, self.y, self.y_test)

    def statistics(self) -> dict[str, int]:
        return {
            "training samples": self.Q.shape[0],
            "testing samples": self.Q_test.shape[0],
            "classes": len(np.unique(self.y)),
            "dictionary size": self.Q.shape[1],
            "free parameters": self.Q.shape[1] ** 2,
        }

    def train(self, n: int, seed: int, share: float = 1.0, uniform_over: str = "links") -> Preferences:
        if share != 1.0 or uniform_over != "links":
            raise InputError("a share of the links, or queries first, needs links; these rows have classes")
        return Preferences.from_labels(self.y, n, random_state=seed)

    def test(self, n: int, seed: int) -> Preferences:
        return Preferences.from_labels(self.y_test, n, random_state=TEST_SEED + seed)

    def measure(self, scorer: Scorer, prefs: Preferences) -> dict[str, Any]:
        X = scorer.docs(self.Q_test)  # a row is query and document
        precision = average_precision_of_classes(scorer.weights, X, self.y_test)
        wrong = wrong_preferences(Scorer(scorer.weights), X, X, prefs)
        return {
            "map": float(precision.mean()),
            "error": float(wrong.mean()),
            "average_precision": precision.tolist(),
            "wrong": np.flatnonzero(wrong).tolist(),
        }

    def wrong(self, scorer: Scorer, prefs: Preferences) -> NDArray[np.bool_]:
        return wrong_preferences(scorer, self.Q_test, self.Q_test, prefs)

    def cut(self, train_rows: int, test_rows: int) -> ClassTask:
        """The same with fewer rows."""
        train, test = _some(len(self.y), train_rows), _some(len(self.y_test), test_rows)
        return ClassTask(self.Q[train], self.y[train], self.Q_test[test], self.y_test[test], self.words)


def _some(n: int, wanted: int) -> NDArray[np.int64]:
    """Evenly spaced rows: files are sorted by class."""
    return np.linspace(0, n - 1, min(n, wanted)).astype(np.int64)


def _newsgroups(data: Data, home: Path) -> ClassTask:
    [path, *_] = found(home, data.files, any_of_them=True)
    train, test = read_20newsgroups(path.parent if path.is_dir() else path)
    vectoriser = Vectoriser(
        analyser=Analyser(stop_words=data.stop_words), max_features=data.max_features, sublinear_tf=data.sublinear_tf
    )
    X = vectoriser.fit_transform_docs(train.texts)
    X_test = vectoriser.transform_docs(test.texts)
    return ClassTask(sparse.csr_array(X), _labels(train), sparse.csr_array(X_test), _labels(test), vectoriser.words_)


def _labels(texts: LabelledTexts) -> NDArray[Any]:
    return np.array(texts.labels)


def _mnist(data: Data, home: Path) -> ClassTask:
    [folder] = found(home, data.files)
    X, y, X_test, y_test = read_mnist(folder)
    return ClassTask(_finished(X, data, None), y, _finished(X_test, data, None), y_test)


def _svmlight(data: Data, home: Path) -> ClassTask:
    train, test = (read_svmlight(path, data.n_features) for path in found(home, data.files))
    columns = None
    if data.max_features is not None:
        frequency = np.bincount(train.X.indices, minlength=train.X.shape[1])
        columns = np.sort(np.argsort(-frequency, kind="stable")[: data.max_features])
    return ClassTask(_finished(train.X, data, columns), train.y, _finished(test.X, data, columns), test.y)


def _finished(X: Any, data: Data, columns: NDArray[Any] | None) -> sparse.csr_array:
    rows = sparse.csr_array(X if columns is None else X[:, columns]).astype(np.float32)
    return unit_rows(rows) if data.unit_length else rows


def unit_rows(rows: sparse.csr_array) -> sparse.csr_array:
    """Each row scaled to length 1; empty ones stay so."""
    length = np.sqrt(np.asarray(rows.astype(np.float64).power(2).sum(axis=1)).ravel())
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    scaled = rows.copy()
    scaled.data = (rows.data * np.repeat(scale, np.diff(rows.indptr))).astype(np.float32)
    return scaled


READERS: dict[str, Callable[[Data, Path], ClassTask]] = {
    "20newsgroups": _newsgroups,
    "mnist": _mnist,
    "svmlight": _svmlight,
}
