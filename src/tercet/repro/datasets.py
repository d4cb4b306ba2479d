"""Data sets of a plan as matrices, from the files their publishers ship."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import LabelledTexts, read_20newsgroups, read_mnist, read_svmlight
from tercet.errors import InputError
from tercet.repro.plan import Data, Quick
from tercet.text import Analyser, Vectoriser


class MissingDataError(InputError):
    """A file of a data set is not there; says which."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """Rows and classes of both halves; words name the columns where there are any."""

    X: sparse.csr_array
    y: NDArray[Any]
    X_test: sparse.csr_array
    y_test: NDArray[Any]
    words: list[str] | None = None

    def digest(self) -> str:
        """Of everything a learner sees."""
        found = hashlib.sha256()
        for matrix in (self.X, self.X_test):
            for array in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data):
                found.update(array.tobytes())
        for labels in (self.y, self.y_test):
            found.update("\n".join(map(str, labels.tolist())).encode())
        return found.hexdigest()

    def statistics(self) -> dict[str, int]:
        return {
            "training samples": self.X.shape[0],
            "testing samples": self.X_test.shape[0],
            "classes": len(np.unique(self.y)),
            "dictionary size": self.X.shape[1],
            "free parameters": self.X.shape[1] ** 2,
        }


def load_data(data: Data, home: Path, quick: Quick | None = None) -> Loaded:
    """Read and prepare a data set; a missing file is a MissingDataError. Takes seconds."""
    loaded = _READERS[data.reader](data, home)
    if quick is None:
        return loaded
    train, test = _some(len(loaded.y), quick.train_rows), _some(len(loaded.y_test), quick.test_rows)
    return Loaded(loaded.X[train], loaded.y[train], loaded.X_test[test], loaded.y_test[test], loaded.words)


def _some(n: int, wanted: int) -> NDArray[np.int64]:
    """Evenly spaced rows: files are sorted by class."""
    return np.linspace(0, n - 1, min(n, wanted)).astype(np.int64)


def _found(home: Path, names: tuple[str, ...], any_of_them: bool = False) -> list[Path]:
    paths = [home / name for name in names]
    there = [path for path in paths if path.exists()]
    if len(there) == len(paths) or (there and any_of_them):
        return there
    missing = [str(path) for path in paths if not path.exists()]
    joined = (" and " if any_of_them else ", ").join(missing)
    raise MissingDataError(f"looked for {joined}: not there")


def _newsgroups(data: Data, home: Path) -> Loaded:
    [path, *_] = _found(home, data.files, any_of_them=True)
    train, test = read_20newsgroups(path.parent if path.is_dir() else path)
    vectoriser = Vectoriser(
        analyser=Analyser(stop_words=data.stop_words), max_features=data.max_features, sublinear_tf=data.sublinear_tf
    )
    X = vectoriser.fit_transform_docs(train.texts)
    X_test = vectoriser.transform_docs(test.texts)
    return Loaded(sparse.csr_array(X), _labels(train), sparse.csr_array(X_test), _labels(test), vectoriser.words_)


def _labels(texts: LabelledTexts) -> NDArray[Any]:
    return np.array(texts.labels)


def _mnist(data: Data, home: Path) -> Loaded:
    [folder] = _found(home, data.files)
    X, y, X_test, y_test = read_mnist(folder)
    return Loaded(_finished(X, data, None), y, _finished(X_test, data, None), y_test)


def _svmlight(data: Data, home: Path) -> Loaded:
    train, test = (read_svmlight(path, data.n_features) for path in _found(home, data.files))
    columns = None
    if data.max_features is not None:
        frequency = np.bincount(train.X.indices, minlength=train.X.shape[1])
        columns = np.sort(np.argsort(-frequency, kind="stable")[: data.max_features])
    return Loaded(_finished(train.X, data, columns), train.y, _finished(test.X, data, columns), test.y)


def _finished(X: Any, data: Data, columns: NDArray[Any] | None) -> sparse.csr_array:
    rows = sparse.csr_array(X if columns is None else X[:, columns]).astype(np.float32)
    if data.unit_length:
        length = np.sqrt(np.asarray(rows.astype(np.float64).power(2).sum(axis=1)).ravel())
        scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        rows.data = (rows.data * np.repeat(scale, np.diff(rows.indptr))).astype(np.float32)
    return rows


_READERS: dict[str, Callable[[Data, Path], Loaded]] = {
    "20newsgroups": _newsgroups,
    "mnist": _mnist,
    "svmlight": _svmlight,
}
